# SPDX-License-Identifier: Apache-2.0
# agent.sh FOLDER: runs FOLDER/jobs/N.job as they appear, several at once; output in N.out, exit code in N.rc.
# Ends when FOLDER/stop exists. A line on the second serial port announces a job. Polling would take a fifth of an
# emulated processor from the measured programs.
cd "$1/jobs" || exit 1
stty -F /dev/ttyS1 raw -echo
exec 3</dev/ttyS1
touch "$1/ready"
while [ ! -e "$1/stop" ]; do
  for job in *.job; do
    [ -e "$job" ] || continue
    n=${job%.job}
    mv "$job" "$n.run"
    ( cd / || exit; bash "$1/jobs/$n.run" </dev/null 3<&- >"$1/jobs/$n.out" 2>&1; echo $? >"$1/jobs/$n.rc.new"; mv "$1/jobs/$n.rc.new" "$1/jobs/$n.rc" ) &
  done
  read -r -t 5 <&3
done

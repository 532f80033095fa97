# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For tests/windows/run.sh: the life of the service, through the service control manager of Wine.
data=$WINEPREFIX/drive_c/ProgramData/NdBroker

# step NAME EXPECTED-EXIT COMMAND...: prints the line of the table, with the last line that the command wrote.
step() {
  local name=$1 expected=$2 log=$build/service-$1.log status=0
  shift 2
  timeout 120 "$@" < /dev/null > "$log" 2>&1 || status=$?
  result=ok
  [ "$status" -eq "$expected" ] || { result="FAILED (exit $status, $log)" && failed=1; }
  printf '%-40s %s %s\n' "$name" "$(tail -1 "$log" | tr -d '\r')" "$result"
}
service() { wine "$build/bin/ndbrokerd.exe" --service "$@"; }
state_is() { wine sc query ndbrokerd | tr -d '\r' | grep -q "STATE.*$1"; }
registered() { wine reg query 'HKLM\SYSTEM\CurrentControlSet\Services\EventLog\Application\ndbrokerd' > "$build/reg.log" 2>&1; }
# Wine shows the list as a mode: administrators are the group.
owner_only() { case $(stat -c %a "$data/ndbrokerd.toml") in *0) return 0 ;; esac && return 1; }
# Wine's event log stores nothing, and shows the calls.
events_are_reported() {
  local text string
  text=$(WINEDEBUG=-all,warn+eventlog wine "$build/bin/ops_test.exe" --gtest_filter=EventLog.LineIsAlsoInTheFile 2>&1)
  for string in 'killed by the administrator' connection.killed c-12; do
    grep -a "warn:eventlog:ReportEventW L\"$string\"" <<< "$text" || return 1
  done
}
# The newest line of the pattern in the log file of the service.
logged() { grep -a -- "$1" "$data/ndbrokerd.log" | tail -1 | grep -a .; }
# The error names the process, and its remedy works.
late_stop() {
  local text
  ! text=$(service stop 2>&1) || return 1
  grep -a 'its process has not ended within 30 seconds; end its process [1-9]' <<< "$text" || return 1
  wine taskkill /f /pid "$(sed -n 's/.*end its process \([0-9]*\) .*/\1/p' <<< "$text")" > /dev/null || return 1
  service stop
}
export -f service state_is registered owner_only events_are_reported logged late_stop
export build data

service_life() {
  echo
  step service-events-are-reported 0 bash -c events_are_reported
  step service-start-before-install 1 bash -c 'service start'
  step service-install 0 bash -c 'service install --adapter-address 127.0.0.5 --tcp-port 4975'
  step service-install-again 1 bash -c 'service install'
  step service-event-source 0 bash -c registered
  step service-configuration-is-private 0 bash -c owner_only
  step service-start 0 bash -c 'service start'
  step service-start-again 0 bash -c 'service start'
  step service-runs 0 bash -c 'state_is RUNNING'
  step service-log-has-its-start 0 bash -c 'logged " info ndbrokerd .* serves C:"'
  broker_directory[service]='C:\ProgramData\NdBroker'
  broker_system[service]=windows
  exchange service-serves service service 127.0.0.5:7475
  step service-stop 0 bash -c 'service stop'
  step service-is-stopped 0 bash -c 'state_is STOPPED'
  echo 'wrong = = 1' >> "$data/ndbrokerd.toml"
  step service-start-with-wrong-configuration 1 bash -c 'service start'
  step service-log-names-the-wrong-line 0 bash -c 'logged " error .*ndbrokerd.toml:[0-9]*"'
  sed -i '$d' "$data/ndbrokerd.toml"
  broker beside windows 127.0.0.8 4975 "${broker_directory[service]}"
  step service-start-beside-another-broker 1 bash -c 'service start'
  step service-log-names-the-other-broker 0 bash -c 'logged " error another ndbrokerd (pid [0-9]*) already serves"'
  kill "${broker_pid[beside]}"
  wait "${broker_pid[beside]}" || true
  step service-uninstall 0 bash -c 'service uninstall'
  step service-event-source-is-gone 1 bash -c registered
  step service-files-are-gone 1 test -e "$data"
  step service-uninstall-again 1 bash -c 'service uninstall'
  step service-install-with-a-wrong-option 0 bash -c 'service install --adapter-adress 127.0.0.5'
  step service-start-with-a-wrong-option 1 bash -c 'service start'
  step service-log-names-the-wrong-option 0 bash -c 'logged " error .*--adapter-adress"'
  step service-uninstall-after-that 0 bash -c 'service uninstall'
  step service-files-are-gone-again 1 test -e "$data"
  step service-with-a-late-process 0 wine sc create ndbrokerd binPath= "$(wine_path "$build/bin/late_service.exe")"
  step service-with-a-late-process-starts 0 bash -c 'service start'
  step service-with-a-late-process-stops 0 bash -c late_stop
  step service-with-a-late-process-goes 0 bash -c 'service uninstall'
}

# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For tests/windows/run.sh: rows of ndperf.exe under Wine, each with the row of Linux that was measured directly before it
# on the same machine. It fails when a program fails; the numbers are for readers.

perf_row() {
  local result=ok linux_line windows_line log=$build/perf.log
  linux_line=$(timeout 120 "$linux/bin/ndperf" --self "$@" 2> "$log") || result=FAILED
  windows_line=$(timeout 300 wine "$build/bin/ndperf.exe" --self "$@" 2>> "$log" < /dev/null | tr -d '\r') || result=FAILED
  [ -n "$windows_line" ] && [ "$result" = ok ] || { result="FAILED ($log)" && failed=1; }
  printf 'linux    %s\nwindows  %s %s\n' "$linux_line" "$windows_line" "$result"
}

perf() {
  local transport
  echo
  for transport in local iwarp; do
    perf_row --transport "$transport" --op send --metric lat --size 8 --iterations 2000
    perf_row --transport "$transport" --op send --metric bw --size 65536 --iterations 1000
    perf_row --transport "$transport" --op write --metric bw --size 65536 --iterations 1000
    perf_row --transport "$transport" --op read --metric bw --size 65536 --iterations 1000
    perf_row --transport "$transport" --op connect --metric lat --iterations 100
  done
}

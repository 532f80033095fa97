# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For tests/windows/run.sh: administration of the broker `a` of Windows by ndctl, a session by gRPC, and its web server.
# Needs `step` of service.sh and `broker` of brokers.sh.
metrics=127.0.0.1:9885  # The default: `a` is the first broker of this host.
ctl() { wine "$build/bin/ndctl.exe" --address 'C:\brokers\a' "$@"; }
# answers PATTERN COMMAND...: ndctl succeeds, and a line of the answer matches.
answers() { ends 0 "$@"; }
# ends CODE PATTERN COMMAND...: ndctl ends with the code, and a line of what it writes matches.
ends() {
  local code=$1 pattern=$2 text status=0
  shift 2
  text=$(ctl "$@" 2>&1) || status=$?
  echo "$text"
  [ "$status" -eq "$code" ] && grep -q -- "$pattern" <<< "$text"
}
# web PATH PATTERN
web() {
  timeout 20 python3 -c 'import sys, urllib.request
sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())' "http://$metrics$1" | grep -q -- "$2"
}
# A peer that answers pings, for one connection.
pinged() {
  ctl ping --serve 127.0.0.2:7480 -c 1 --adapter soft0 < /dev/null &
  local server=$! status=0
  for _ in $(seq 100); do
    ! ctl ping 127.0.0.2:7480 -c 3 || { wait "$server" || status=1; return "$status"; }
    sleep 0.2
  done
  kill "$server"
  return 1
}
# The bundle is a whole archive.
bundled() {
  ctl debug bundle -o - < /dev/null > "$build/bundle.tar.gz" && tar -tzf "$build/bundle.tar.gz" | grep 'doctor.json$'
}
export -f ctl answers ends web pinged bundled
export build metrics

# nouns COMMAND...: each noun of ndctl answers.
nouns() {
  local noun
  for noun in adapter listener connection endpoint port session qp mr; do
    step "ndctl-$noun-list" 0 bash -c "answers '\"items\"' $noun list -o json"
  done
}

administration() {
  echo
  step ndctl-version 0 bash -c "answers '^broker: *$version' version"
  step ndctl-status 0 bash -c "answers '\"pid\": [1-9]' status -o json"
  nouns
  step ndctl-adapter-has-its-mode 0 bash -c "answers separate adapter list -o wide"
  step ndctl-history-has-the-connections 0 bash -c "answers '\"outcome\": \"closed\"' history -o json"
  step ndctl-stats 0 bash -c "answers . stats"
  step ndctl-events-of-the-past 0 bash -c "answers . events --since 1h"
  step ndctl-config 0 bash -c "answers adapter.soft0.tcp-port config show -o json"
  step ndctl-policy 0 bash -c "answers . policy show"
  step ndctl-explain 0 bash -c "answers . explain ACCESS_DENIED"
  step ndctl-ping-broker 0 bash -c "answers . ping -c 3"
  step ndctl-ping-peer 0 bash -c pinged
  step ndctl-doctor 0 bash -c "answers 'PASS .*lane.sock' doctor"
  step ndctl-bundle 0 bash -c bundled
  step ndctl-top-without-a-console 0 bash -c "answers . top --batch -n 1"
  step ndctl-has-no-run 0 bash -c "ends 2 'no command .run' run -- x"
  step ndctl-help-has-no-host 1 bash -c "answers --host --help"
  step ndctl-reaches-no-other-host 2 wine "$build/bin/ndctl.exe" --host h status
  step ndctl-without-broker 4 wine "$build/bin/ndctl.exe" --address 'C:\brokers\none' status
  step admin-session-by-grpc 0 bash -c "wine '$build/bin/session_client.exe' 'C:\\brokers\\a' | grep -q adapters"
  step ndctl-drain 0 bash -c "ctl drain"
  step ndctl-is-draining 0 bash -c "answers '\"state\": \"draining\"' status -o json"
  step ndctl-undrain 0 bash -c "ctl undrain"
  step ndctl-serves-again 0 bash -c "answers '\"state\": \"running\"' status -o json"
  step web-metrics 0 bash -c "web /metrics '^ndbroker_'"
  step web-ready 0 bash -c "web /readyz Ready"
  step web-page 0 bash -c "web / '<html'"
}

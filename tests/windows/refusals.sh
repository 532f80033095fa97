# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For tests/windows/run.sh: brokers that cannot start, and a Network Direct DLL of another version than the broker, get a
# sentence that names the reason, and the running broker goes on. Needs `broker` and `exchange` of brokers.sh and `step` of
# service.sh.

# refused PATTERN COMMAND...: it ends, and a line of what it writes matches. Its exit code is that of the command.
refused() {
  local pattern=$1 status=0 text
  shift
  text=$("$@" 2>&1 < /dev/null) || status=$?
  grep -a -- "$pattern" <<< "$text" || { echo "$text" && return 99; }
  return "$status"
}
ndbrokerd() { wine "$build/bin/ndbrokerd.exe" "$@"; }
# The DLL's session has a later version of the protocol: NOT_SUPPORTED for the program, and a line in the broker's log.
later_dll() {
  local status=0
  refused c00000bb wine "$build/bin/nd_exchange.exe" connect 127.0.0.9 127.0.0.9 7499 "$1" || status=$?
  grep -a 'hello refused: .*versions 99 to 99, this broker only' "$build/broker-r.log" || return 98
  return "$status"
}
export -f refused ndbrokerd later_dll

refusals() {
  local there='C:\brokers\other' later
  later=$(wine_path "$build/bin/nd_spi_later.dll")
  echo
  broker r windows 127.0.0.9 4979
  step second-broker-of-a-directory 3 bash -c 'refused "another ndbrokerd (pid [0-9]*) already serves" ndbrokerd --dir "C:\\brokers\\r"'
  step broker-whose-port-is-taken 1 bash -c "refused '127.0.0.9:4979 is in use by another program' ndbrokerd --dir '$there' --adapter-address 127.0.0.9 --tcp-port 4979"
  printf '[[adapter]]\naddresses = ["127.0.0.9"]\ntcp-prot = 4979\n' > "$WINEPREFIX/drive_c/wrong.toml"
  step broker-with-a-wrong-configuration 2 bash -c "refused 'wrong.toml.*tcp-prot' ndbrokerd --dir '$there' --config 'C:\\wrong.toml'"
  NDBROKER_DIR=${broker_directory[r]} step program-with-a-dll-of-another-version 1 bash -c "later_dll '$later'"
  exchange first-broker-goes-on nd:r r 127.0.0.9:7498
}

# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For scripts of the Network Direct provider: builds, makes a Wine prefix, and runs ndbrokerd.exe in it. Sourced in the
# root of the tree. Sets build, address, brokers and WINEPREFIX.
address=127.0.0.1
brokers=()
deploy/windows/build.sh ndbrokerd ndctl nd_spi_dll nd_spi_overlapped_test nd_dll_test nd_exchange nd_catalogue
# shellcheck source=tests/windows/wine_prefix.sh
source tests/windows/wine_prefix.sh

# run_wine SECONDS PROGRAM ARGUMENTS...
run_wine() { timeout "$1" "${inside[@]}" wine "${@:2}" < /dev/null; }
windows_path() { echo "Z:$(readlink -f "$1" | tr / '\\')"; }

# start_broker NAME ADDRESS PORT [OPTION...]: a broker in the Wine prefix; returns when it serves. Sets NDBROKER_DIR for
# the programs.
start_broker() {
  local log=$build/nd-broker-$1.log
  rm -f "$log"
  export NDBROKER_DIR="C:\\broker-$1"
  "${inside[@]}" wine "$build/bin/ndbrokerd.exe" --dir "$NDBROKER_DIR" --adapter-address "$2" --tcp-port "$3" "${@:4}" \
    < /dev/null > "$log" 2>&1 &
  brokers+=($!)
  for _ in $(seq 300); do
    ! grep -qa '^READY ' "$log" || return 0
    kill -0 "${brokers[-1]}" 2> /dev/null || break
    sleep 0.1
  done
  cat "$log" >&2
  echo "the broker did not start" >&2
  exit 1
}

# The DLL in the catalogue of the test programs.
install_entry() { run_wine 60 "$build/bin/nd_catalogue.exe" install "$(windows_path "$build/bin/ndbrokernd.dll")"; }

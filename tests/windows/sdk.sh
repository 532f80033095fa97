# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For tests/windows/run.sh: an example is compiled outside of the tree with ndbroker.dll, its import library and the
# headers alone, and runs with a broker. Needs `broker` of brokers.sh and `step` of service.sh.

compiled() {
  (cd "$WINEPREFIX/program" && x86_64-w64-mingw32-g++-posix -std=c++20 -Wall -Wextra -Werror -static -I../sdk/include \
    ../sdk/examples/ping_pong.cc -o ping_pong.exe -L../sdk/lib -Wl,-Bdynamic -lndbroker -Wl,-Bstatic -lws2_32)
  cp "$WINEPREFIX/sdk/bin/ndbroker.dll" "$WINEPREFIX/program"
}
# The program has no other part of ndbroker than the DLL, and the DLL needs nothing that Windows does not have.
needs_the_dll() {
  x86_64-w64-mingw32-objdump -p "$WINEPREFIX/program/ping_pong.exe" | grep -q 'DLL Name: ndbroker.dll' &&
    ! x86_64-w64-mingw32-objdump -p "$WINEPREFIX/program/ndbroker.dll" | grep 'DLL Name' | grep -viE 'kernel32|ntdll|ws2_32|advapi32|bcrypt|msvcrt|ole32|oleaut32|user32|iphlpapi|api-ms'
}
export -f compiled needs_the_dll

sdk() {
  echo
  deploy/windows/sdk.sh "$WINEPREFIX/sdk" > "$build/sdk.log"
  mkdir -p "$WINEPREFIX/program"
  step sdk-example-is-compiled 0 bash -c compiled
  step sdk-example-needs-the-dll 0 bash -c needs_the_dll
  broker d windows 127.0.0.8 4978
  export NDBROKER_DIR=${broker_directory[d]}
  wine "$WINEPREFIX/program/ping_pong.exe" server 127.0.0.8:7495 < /dev/null > "$build/sdk-server.log" 2>&1 &
  step sdk-example-runs 0 bash -c 'for _ in $(seq 50); do wine "$WINEPREFIX/program/ping_pong.exe" client 127.0.0.8:7495 && exit 0; sleep 0.2; done; exit 1'
  wait $! || failed=1
  unset NDBROKER_DIR
}

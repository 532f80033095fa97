# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Makes a Wine prefix of its own for the script that sources it in the root of the tree. Sets build and WINEPREFIX. At the
# end of the script, end_wine ends the processes of the prefix and removes it.
build=build/windows
WINEPREFIX=$(mktemp -d)
export WINEPREFIX DISPLAY='' WINEDEBUG=-all
end_wine() {
  wineserver -k 2> /dev/null || true
  wineserver -w 2> /dev/null || true
  rm -rf "$WINEPREFIX"
}
trap end_wine EXIT
# A command of the caller that runs others in another network, with its arguments. The sockets and addresses of all
# programs of a prefix are those of the network of its first program.
[ -n "${inside+set}" ] || inside=()
# Programs that start before the prefix is complete fail.
"${inside[@]}" wineboot -i > "$build/wineboot.log" 2>&1
wineserver -w

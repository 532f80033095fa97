#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# packages_test.sh FOLDER: the packages of `build.sh --built` are correct, and check.sh notices what it is there for: programs
# without hardening, and a bill of materials that describes other packages.
set -eu
here=$(dirname "$(readlink -f "$0")")
folder=$(readlink -f "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/check.sh" --built "$folder"

# refused PATTERN COMMAND...: it fails, and says this.
refused() {
  pattern=$1
  shift
  if "$@" > "$work/said" 2>&1; then echo "not refused: $pattern" && exit 1; fi
  grep -q "$pattern" "$work/said" || { cat "$work/said" && exit 1; }
}
mkdir "$work/packages"
cp "$folder"/*.deb "$work/packages"
refused 'no guards in stack frames' "$here/check.sh" "$folder"
# altered EXPRESSION: the bill with one change.
altered() { sed "$1" "$folder/ndbroker.spdx.json" > "$work/packages/ndbroker.spdx.json"; }
altered 's/"checksumValue": "....../"checksumValue": "000000/'
refused 'has another checksum' "$here/sbom_check.py" "$work/packages"
altered 's/"name": "libsqlite3-0"/"name": "other"/'
refused 'ndbroker needs libsqlite3-0, which is not listed' "$here/sbom_check.py" "$work/packages"
altered 's/SPDX-2.3/SPDX-1.0/'
refused 'spdxVersion is not SPDX-2.3' "$here/sbom_check.py" "$work/packages"
altered ''
rm "$work/packages"/ndbroker-cli_*.deb
refused 'it describes' "$here/sbom_check.py" "$work/packages"

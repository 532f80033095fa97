#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints, for each transport, what passed, was excepted, skipped or failed, by number.
# Usage: summary.sh DIRECTORY  (with the JSON reports of nd_conformance)
set -eu
directory=${1:?usage: summary.sh DIRECTORY}
command -v jq >/dev/null || { echo "summary.sh: jq is not installed" >&2; exit 2; }
set -- "$directory"/*.json
[ -e "$1" ] || { echo "summary.sh: no reports in $directory" >&2; exit 2; }

jq -rs '
  [.[].testsuites[].testsuite[]
   | {transport: (.name | split("/") | last), number: (.name | capture("ND_(?<n>[0-9]{3})").n),
      verdict: (if .failures then "failed"
                elif .result == "SKIPPED" then
                  (if .excepted then "excepted" else "skipped" end)
                elif .result == "COMPLETED" then "passed" else empty end)}]
  | group_by(.transport)[]
  | .[0].transport as $transport
  # A number with several forms is as good as its worst one; an exception counts only when no form ran.
  | (group_by(.number) | map({number: .[0].number, verdicts: map(.verdict)})
     | map(.verdict = (if (.verdicts | index("failed")) then "failed"
                       elif (.verdicts | index("passed")) then "passed"
                       elif (.verdicts | index("excepted")) then "excepted" else "skipped" end))) as $cases
  | def numbers($v): $cases | map(select(.verdict == $v) | .number);
    "\($transport): \(numbers("passed") | length) passed, \(numbers("excepted") | length) excepted, " +
    "\(numbers("skipped") | length) skipped, \(numbers("failed") | length) failed, " +
    "\(246 - ($cases | length)) not run",
    "  excepted: \(numbers("excepted") | join(" "))",
    "  skipped:  \(numbers("skipped") | join(" "))",
    "  failed:   \(numbers("failed") | join(" "))"
' "$@"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints, for each transport, the numbers of the cases that passed, were excepted, were skipped or failed.
# Usage: summary.sh [--whole] DIRECTORY  (with the JSON reports of nd_conformance)
#   --whole  every number must be there
# Exit 1: a case failed or ended its program, a report is damaged, or (--whole) a number is missing.
set -eu
whole=false
[ "${1-}" != --whole ] || { whole=true; shift; }
directory=${1:?usage: summary.sh [--whole] DIRECTORY}
command -v jq >/dev/null || { echo "summary.sh: jq is not installed" >&2; exit 2; }
set -- "$directory"/*.json
[ -e "$1" ] || { echo "summary.sh: no reports in $directory" >&2; exit 2; }

report=$(jq -rs --argjson whole "$whole" '
  [.[].testsuites[].testsuite[]
   | {transport: (.name | split("/") | last), number: (.name | capture("ND_(?<n>[0-9]{3})").n),
      verdict: (if .failures then "failed"
                elif .result == "SKIPPED" then
                  (if .excepted then "excepted" else "skipped" end)
                elif .result == "COMPLETED" then "passed" else empty end)}]
  | group_by(.transport)[]
  | .[0].transport as $transport
  # A number with several forms has the worst of their verdicts. One that skipped a form for want of a namespace
  # has not passed. An exception counts only when no form ran.
  | (group_by(.number) | map({number: .[0].number, verdicts: map(.verdict)})
     | map(.verdict = (if (.verdicts | index("failed")) then "failed"
                       elif (.verdicts | index("skipped")) then "skipped"
                       elif (.verdicts | index("passed")) then "passed" else "excepted" end))) as $cases
  | def numbers($v): $cases | map(select(.verdict == $v) | .number);
    "\($transport): \(numbers("passed") | length) passed, \(numbers("excepted") | length) excepted, " +
    "\(numbers("skipped") | length) skipped, \(numbers("failed") | length) failed, " +
    "\(246 - ($cases | length)) not run",
    "  excepted: \(numbers("excepted") | join(" "))",
    "  skipped:  \(numbers("skipped") | join(" "))",
    "  failed:   \(numbers("failed") | join(" "))",
    (if (numbers("failed") | length) > 0 or ($whole and ($cases | length) < 246) then "BAD" else empty end)
' "$@") || { echo "summary.sh: a report in $directory is damaged" >&2; exit 1; }
printf '%s\n' "$report" | grep -vx BAD
! printf '%s\n' "$report" | grep -qx BAD

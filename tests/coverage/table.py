#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of tests/coverage/run.sh, from the counters that gcov finds in a build directory.

usage: tests/coverage/table.py [--record] BUILD
A line counts when the compiler made code of it. A branch is one outcome of one decision, so `a && b` has four. These
do not count:
  - a branch that only an exception takes (gcov marks it with "throw"), and the branch beside it: together they are a
    call and no decision
  - the branches of an invariant (ND_CORE_CHECK, Check of the wire): its second outcome ends the process
  - daemon/core/check.h and provider/soft/wire/check.*, whose code ends the process
  - files that recount the tables of the core for tests and the simulator (broker_check.cc, ports_check.cc, report.h):
    each of their branches ends a test that fails
  - comparisons that the compiler writes (`= default`)
  - files whose names end in _test, _bench or _harness, and folders named testing
"""
import collections
import concurrent.futures
import datetime
import json
import os
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
MEASURED = [re.compile(pattern) for pattern in (
    r"daemon/core/\w+\.(cc|h)", r"session/\w+\.(cc|h)", r"provider/soft/wire/\w+\.(cc|h)",
    r"daemon/state/journal_image\.cc")]
EXCLUDED = re.compile(r"(_test|_bench|_harness|core/(broker_check|ports_check|report|check)|wire/check)\.(cc|h)$")
INVARIANT = re.compile(r"\bND_CORE_CHECK\(|^\s*Check\(|\) = default;")
LINES, BRANCHES = 100, 98


def measured(path):
    return not EXCLUDED.search(path) and any(pattern.fullmatch(path) for pattern in MEASURED)


def decisions(branches):
    """The counts of the branches that are outcomes of a decision."""
    kept = []
    for branch in branches:
        if branch["throw"]:
            if kept and kept[-1] is not None and kept[-1]["fallthrough"]:
                kept.pop()
            kept.append(None)
        else:
            kept.append(branch)
    return [branch["count"] for branch in kept if branch is not None]


def counters(build, data):
    """What gcov says about the measured files in one object: [(file, line, function, count, branches)]."""
    out = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", str(data)], cwd=build,
                         check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    found = []
    for document in filter(None, out.split("\n")):
        document = json.loads(document)
        for file in document["files"]:
            path = os.path.relpath(os.path.join(document["current_working_directory"], file["file"]), TOP)
            if measured(path):
                found += [(path, line["line_number"], line.get("function_name", ""), line["count"],
                           decisions(line["branches"])) for line in file["lines"]]
    return found


def invariants(path):
    """The numbers of the lines of invariants; one that is too long for a line goes on to its semicolon."""
    numbers, inside = set(), False
    for number, line in enumerate((TOP / path).read_text().split("\n"), 1):
        inside = inside or bool(INVARIANT.search(line))
        if inside:
            numbers.add(number)
        inside = inside and ";" not in line
    return numbers


def gather(build):
    """{file: ({line: count}, {line: [count of each branch]})}"""
    data = sorted(path for path in build.rglob("*.gcda"))
    if not data:
        sys.exit(f"{build} has no counters (*.gcda): run tests/coverage/run.sh")
    lines = collections.defaultdict(collections.Counter)
    # An inline function has branches in each object that uses it, and in each instance of its template.
    instances = collections.defaultdict(dict)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda path: counters(build, path.relative_to(build)), data):
            for path, number, function, count, branches in found:
                lines[path][number] += count
                known = instances[path].setdefault((number, len(branches)), [0] * len(branches))
                for index, taken in enumerate(branches):
                    known[index] += taken
    result = {}
    for path in sorted(lines):
        checks, branches = invariants(path), collections.defaultdict(list)
        for (number, _), counts in sorted(instances[path].items()):
            if number not in checks and lines[path][number]:
                branches[number] += counts
        result[path] = (lines[path], branches)
    return result


def percent(part, whole):
    return 100 if whole == 0 else 100 * part / whole


def main():
    arguments = sys.argv[1:]
    record = "--record" in arguments
    places = [argument for argument in arguments if argument != "--record"]
    if len(places) != 1 or places[0].startswith("-"):
        sys.exit(__doc__.strip())
    total = [0, 0, 0, 0]
    missing = []
    print(f"{'file':44} {'lines':>13} {'branches':>13}")
    for path, (lines, branches) in gather(Path(places[0]).resolve()).items():
        outcomes = [(number, taken) for number, counts in branches.items() for taken in counts]
        row = [sum(1 for count in lines.values() if count), len(lines),
               sum(1 for _, taken in outcomes if taken), len(outcomes)]
        total = [a + b for a, b in zip(total, row)]
        print(f"{path:44} {row[0]:6} / {row[1]:4} {row[2]:6} / {row[3]:4}")
        source = (TOP / path).read_text().split("\n")
        for number in sorted(lines):
            not_taken = sum(1 for taken in branches[number] if not taken)
            if lines[number] == 0 or not_taken:
                why = "not run" if lines[number] == 0 else f"{not_taken} of {len(branches[number])} not taken"
                missing.append(f"{path}:{number}: {why}: {source[number - 1].strip()}")
    print(f"{'all':44} {total[0]:6} / {total[1]:4} {total[2]:6} / {total[3]:4}")
    if missing:
        print("\n" + "\n".join(missing))
    summary = (f"{percent(*total[:2]):.2f} % of {total[1]:,} lines, {percent(*total[2:]):.2f} % of {total[3]:,} "
               f"branches of core and codecs, by their unit tests")
    print("\n" + summary)
    if record:
        subprocess.run([sys.executable, TOP / "tests/figures/figures.py", "--record", "coverage",
                        f"{datetime.date.today()}: {summary}"], check=True)
    sys.exit(0 if percent(*total[:2]) >= LINES and percent(*total[2:]) >= BRANCHES else 1)


if __name__ == "__main__":
    main()

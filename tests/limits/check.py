#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every row of docs/limits.md has a test that drives the bound, and every such test has a row.

usage: tests/limits/check.py
rows.txt beside this file names the tests of each row. A row of the document names its bound and the refusal; it is
an error when a row has no test, when rows.txt has a row that the document does not have, when a named test does
not exist, or when a test of limits_test.cc belongs to no row.
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
WITHOUT_A_BOUND = {"event", "connects that start their handshake"}


def document():
    """The rows of the tables whose second column is the bound, as {name: cells}."""
    rows, wanted = {}, False
    for line in (TOP / "docs/limits.md").read_text().splitlines():
        if not line.startswith("|"):
            wanted = False
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].startswith("-"):
            continue
        if not wanted:  # The first row of a table is its heading.
            wanted = "bound" in cells
            if wanted:
                bound = cells.index("bound")
                refusal = cells.index("beyond it") if "beyond it" in cells else None
            else:
                wanted = None
            continue
        if wanted:
            if not cells[bound] or (refusal is not None and not cells[refusal]):
                sys.exit(f"docs/limits.md: the row '{cells[0]}' does not name its bound or its refusal")
            rows[cells[0]] = cells
    return rows


def drivers():
    rows = {}
    for number, line in enumerate((HERE / "rows.txt").read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, separator, tests = line.rpartition(" = ")
        if not separator or not tests.strip():
            sys.exit(f"rows.txt:{number}: no test for '{line.rstrip(' =')}'; expected: ROW = TEST, TEST")
        rows[name.strip()] = [test.strip() for test in tests.split(",")]
    return rows


def tests_of(paths):
    found = set()
    for path in paths:
        for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", path.read_text(), re.M):
            found.add(f"{suite}.{name}")
    return found


def parts_of(program, script):
    """The parts of the program that the script runs."""
    documented = re.findall(r"^given\.py LANE (\w+):", program.read_text(), re.M)
    return {f"netns/given.py {part}" for part in documented if f'lane.sock" {part}' in script.read_text()}


def main():
    if sys.argv[1:]:
        sys.exit(__doc__)
    rows, driven = document(), drivers()
    known = tests_of(path for folder in ("base", "daemon", "provider", "session", "client-lib", "tests")
                     for path in (TOP / folder).rglob("*_test.cc"))
    faults = [f"docs/limits.md: the row '{row}' has no test in tests/limits/rows.txt" for row in rows if row not in driven]
    faults += [f"tests/limits/rows.txt: docs/limits.md has no row '{row}'" for row in driven if row not in rows]
    known |= parts_of(TOP / "tests/netns/given.py", TOP / "tests/netns/pods.sh")
    used = {test for tests in driven.values() for test in tests}
    faults += [f"tests/limits/rows.txt: no source has the test {test}" for test in sorted(used - known)]
    own = tests_of(HERE.glob("*_test.cc"))
    faults += [f"tests/limits/rows.txt: no row names the test {test}" for test in sorted(own - used)]
    for fault in faults:
        print(fault)
    print(f"{len(rows)} rows, {len(used)} tests, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures and names in documents that the tree itself determines.

usage: tests/figures/figures.py [--write | --record ROW TEXT]
  (nothing)           compares; exit 1 after naming each difference
  --write             corrects the figures; names have to be corrected by hand
  --record ROW TEXT   writes TEXT into the last column of the row of docs/proof.md that begins with ROW
Long proofs record their results with --record, so that a person never copies a figure.
"""
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
PROOF = "docs/proof.md"


def text(name):
    return (TOP / name).read_text()


def count(pattern, glob):
    paths = list(TOP.glob(glob))
    if not paths:
        sys.exit(f"figures.py: no file is named {glob}")
    return sum(len(re.findall(pattern, path.read_text(), re.M)) for path in paths)


def group(pattern, name):
    found = re.search(pattern, text(name), re.M)
    if found is None:
        sys.exit(f"figures.py: nothing in {name} matches {pattern}")
    return found.group(1)


def seeds():
    return int(group(r"kSeeds = ([\d']+);", "tests/sim/sim_test.cc").replace("'", ""))


def verified():
    return len(group(r"^for property in (.*); do$", "tests/model/run.sh").split())


def refuted():
    return count(r"^BUG_\w+ \w+$", "tests/model/run.sh")


def properties():
    # The test of the state table is one property for each state.
    states = int(group(r"kConnectorStates = (\d+);", "daemon/core/connector_state.h"))
    return states + count(r"^RC_GTEST_PROP", "tests/property/*.cc")


def inputs(by_hand):
    names = [path.name for path in (TOP / "tests/fuzz/corpus").glob("*/*") if path.is_file()]
    # libFuzzer names an input after its hash, the makers of seeds after its meaning.
    return sum(1 for name in names if not by_hand or not re.fullmatch("[0-9a-f]{40}", name))


def steps():
    return count(r'^    \{"', "tests/crash/steps.cc")


def rules():
    return count(r"^TEST_P\(Order,", "tests/integrity/order_test.cc")


def cases():
    return count(r"^- \d{3}[ .]", "docs/behaviour.md") + 8  # 116..124 is one line.


# A document, the sentence with the figure as its group, and the value.
FIGURES = [
    (PROOF, r"\| ([\d,]+) seeds; every event", seeds),
    (PROOF, r"\| (\w+) properties verified", verified),
    (PROOF, r"verified, (\w+) broken variants", refuted),
    ("tests/model/README.md", r"verifies (\w+) properties", verified),
    ("tests/model/README.md", r"refutes (\w+) broken", refuted),
    (PROOF, r"\| (\w+) properties, 500 cases", properties),
    (PROOF, r"\| (\w+) targets replay", lambda: len(list(TOP.glob("tests/fuzz/fz_*.cc")))),
    (PROOF, r"replay ([\d,]+) inputs", lambda: inputs(False)),
    (PROOF, r"inputs \(([\d,]+) of them made by hand", lambda: inputs(True)),
    (PROOF, r"\| (\w+) named steps", steps),
    ("tests/crash/README.md", r"each of (\w+) named steps", steps),
    (PROOF, r"combination, (\w+) order rules", rules),
    ("tests/integrity/README.md", r"\| (\w+) named rules", rules),
    (PROOF, r"\| (\d+) numbered cases", cases),
    ("tests/conformance/summary.sh", r"\((\d+) - \(\$cases", cases),
    (PROOF, r"\| (\w+) of \d+ patches at each landing", lambda: int(group(r"--some (\d+)", "tests/teeth/CMakeLists.txt"))),
    (PROOF, r"of (\d+) patches at each landing", lambda: len(list(TOP.glob("tests/teeth/*.patch")))),
    (PROOF, r"within a day; (\d+) patches are mutants", lambda: count(r"^Mutant: ", "tests/teeth/*.patch")),
]


def camel(name):
    """kInvalidParameter1 as the specification writes it."""
    return re.sub(r"(?<=[a-z])(?=[A-Z0-9])", "_", name[1:]).upper()


# Names in a document, and the same names in the source.
NAMES = [
    ("docs/status.md", "a switch of [compat]",
     lambda: re.findall(r"^\| `([a-z-]+)` \|", text("docs/status.md"), re.M),
     lambda: re.findall(r'Bool\("([a-z-]+)"', group(r"(?s)^void ReadCompat\(.*?\{\n(.*?)^\}", "daemon/config.cc"))),
    ("docs/configuration.md", "a switch of [compat]",
     lambda: re.findall(r"^\| `([a-z-]+)` \|", group(r"(?s)^## \[compat\]$(.*?)^## ", "docs/configuration.md"), re.M),
     lambda: re.findall(r'Bool\("([a-z-]+)"', group(r"(?s)^void ReadCompat\(.*?\{\n(.*?)^\}", "daemon/config.cc"))),
    ("docs/status.md", "a status",
     lambda: re.findall(r"^\| ([A-Z][A-Z_0-9]+) \|", text("docs/status.md"), re.M),
     lambda: [camel(name) for name in re.findall(r"^  (k\w+) = 0x", text("base/include/nd/status.h"), re.M)]),
]


def spelled(value, like):
    """The figure in the form that the sentence has: a word, or digits with or without commas."""
    if not like[0].isdigit() and value < len(WORDS):
        return WORDS[value].capitalize() if like[0].isupper() else WORDS[value]
    return f"{value:,}" if value > 9999 or "," in like or value > 999 else str(value)


def compare(write):
    differences = 0
    for name, pattern, value in FIGURES:
        found = list(re.finditer(pattern, text(name)))
        if len(found) != 1:
            sys.exit(f"{name}: {len(found)} sentences match {pattern}; correct the sentence or tests/figures/figures.py")
        begin, end = found[0].span(1)
        wanted = spelled(value(), found[0].group(1))
        if found[0].group(1) == wanted:
            continue
        differences += 1
        if write:
            (TOP / name).write_text(text(name)[:begin] + wanted + text(name)[end:])
        print(f"{name}: {found[0].group(0)}: {'now' if write else 'must be'} {wanted}")
    for name, what, written, real in NAMES:
        written, real = written(), real()
        if not real or not written:
            sys.exit(f"figures.py: no name of {what} was found for {name}")
        for extra in sorted(set(written) - set(real)):
            print(f"{name}: {extra} is not {what}")
        for missing in sorted(set(real) - set(written)):
            print(f"{name}: {missing} is missing, {what}")
        names_differ = set(written) != set(real)
        differences += names_differ and not write
        if names_differ and write:
            sys.exit(f"{name}: names have to be corrected by hand")
    return differences


def record(row, result):
    lines = text(PROOF).split("\n")
    rows = [i for i, line in enumerate(lines) if line.startswith(f"| {row}")]
    if len(rows) != 1:
        sys.exit(f"figures.py: {len(rows)} rows of {PROOF} begin with '{row}'")
    columns = lines[rows[0]].split(" | ")
    columns[-1] = result.replace("|", "/").replace("\n", " ") + " |"
    lines[rows[0]] = " | ".join(columns)
    (TOP / PROOF).write_text("\n".join(lines))


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--record"] and len(arguments) == 3:
        record(*arguments[1:])
        return
    if arguments not in ([], ["--write"]):
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(2)
    differences = compare(bool(arguments))
    if differences and not arguments:
        print("tests/figures/figures.py --write corrects figures")
        sys.exit(1)


if __name__ == "__main__":
    main()

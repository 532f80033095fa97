#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the answers of a broker with those of a kernel's device.

usage: compare.py WHERE KERNEL OURS DIFFERENCES
  WHERE         the run that OURS is of: roce-one, roce-two, iwarp-one or iwarp-two; rxe or siw: of the device once more
  KERNEL, OURS  what verbs_answers and pairs.sh printed: "SCENARIO.END LABEL: VALUE"
  DIFFERENCES   the differences that are known: lines "WHERE | SCENARIO.END LABEL | kernel | ours" below a line "# reason".
                WHERE and the label may be patterns of a shell; a "?" in front of WHERE: the difference comes at times; "-" is a line that one of them does not print; "*" as the last word
                is any answer of the broker
Prints the differences as a table. Exit 1: one of them is not known, or a known one of this run is not there any more.
"""
import fnmatch
import sys
from collections import Counter

# Of a program that did not end on the kernel's device within the virtual machine, where it is emulated: nothing to compare with.
NO_ANSWER = "not in time"


def answers(path):
    """The values by label; a label that repeats counts on."""
    found, counts = {}, Counter()
    for line in open(path):
        label, separator, value = line.rstrip("\n").partition(": ")
        if not separator or "." not in label.partition(" ")[0]:
            continue
        counts[label] += 1
        found[label, counts[label]] = value
    return found


def known(path, where):
    rows, reason = [], ""
    for number, line in enumerate(open(path), 1):
        line = line.strip()
        if line.startswith("#"):
            reason = line[1:].strip()
        elif line:
            words = [word.strip() for word in line.split(" | ")]
            if len(words) != 4:
                sys.exit(f"{path}:{number}: expected four columns, found {len(words)}")
            if fnmatch.fnmatchcase(where, words[0].removeprefix("?")):
                rows.append({"words": words[1:], "reason": reason, "line": number, "used": words[0].startswith("?")})
    return rows


def explain(rows, label, kernel, ours):
    for row in rows:
        pattern, theirs, own = row["words"]
        if fnmatch.fnmatchcase(label, pattern) and theirs == kernel and own in (ours, "*"):
            row["used"] = True
            return row["reason"]
    return None


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    where, kernel, ours, differences = sys.argv[1], answers(sys.argv[2]), answers(sys.argv[3]), sys.argv[4]
    rows = known(differences, where)
    if not kernel or not ours:
        sys.exit(f"{sys.argv[2]} or {sys.argv[3]} has no answers")
    failed, equal, printed = [], 0, 0
    scenarios, missing = {key[0].split(" ")[0] for key in kernel}, set()
    for key in list(kernel) + [key for key in ours if key not in kernel]:
        theirs, own = kernel.get(key, "-"), ours.get(key, "-")
        scenario = key[0].split(" ")[0]
        if theirs == NO_ANSWER or scenario not in scenarios or (own == NO_ANSWER and where in ("rxe", "siw")):
            missing.add(key[0])
            continue
        if theirs == own:
            equal += 1
            continue
        if printed == 0:
            print(f"| {where} | kernel | broker | reason |\n|---|---|---|---|")
        printed += 1
        reason = explain(rows, key[0], theirs, own)
        print(f"| {key[0]} | {theirs} | {own} | {reason or 'UNKNOWN'} |")
        if reason is None:
            failed.append(f"{where}: {key[0]}: the kernel answers '{theirs}', the broker '{own}'")
    failed += [f"{differences}:{row['line']}: {where} has this difference no more" for row in rows if not row["used"]]
    if missing:
        print(f"{where}: the kernel's answers are not known for", ", ".join(sorted(missing)))
    print(f"{where}: {equal} answers are equal, {printed} are different, {len(failed)} mistakes")
    for text in failed:
        print("FAIL", text)
    sys.exit(bool(failed))


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures ndbroker, rival libraries and the machine itself in interleaved rounds, and prints one table.

tests/bench/run.sh installs and builds what this program needs, and calls it.
"""
import argparse
import fnmatch
import json
import os
import sys
import time

import check
import document
import judge
import machine
import rows
import text
import tools
from model import CaseFailed

ROUNDS = {"tiny": 1, "quick": 3, "full": 7}


def parse(words):
    parser = argparse.ArgumentParser(prog="tests/bench/run.sh", description=__doc__.splitlines()[0])
    speed = parser.add_mutually_exclusive_group()
    speed.add_argument("--quick", dest="speed", action="store_const", const="quick", help="under five minutes")
    speed.add_argument("--tiny", dest="speed", action="store_const", const="tiny",
                       help="shows only that everything can be measured; without rivals")
    parser.set_defaults(speed="full")
    parser.add_argument("--rounds", type=int, help="default: 3 with --quick, 7 otherwise")
    parser.add_argument("--only", metavar="PATTERN", action="append", default=[],
                        help="only the rows whose name matches, such as 'S*' or C1; may be repeated; no plots")
    parser.add_argument("--no-rivals", action="store_true", help="only ndbroker and the floors")
    parser.add_argument("--json", metavar="FILE", help="stores the run")
    parser.add_argument("--from", dest="stored", metavar="FILE", help="takes a stored run and measures nothing")
    parser.add_argument("--check", metavar="FILE", help="fails if a ratio is worse than in this stored run")
    parser.add_argument("--document", action="store_true", help="writes table and plots into docs/")
    parser.add_argument("--binaries", default="build/release/bin", help=argparse.SUPPRESS)
    parser.add_argument("--rivals", default="build/release/rivals", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds {options.rounds} is not at least 1")
    if options.document and options.only:
        parser.error("--document needs every row; leave out --only")
    return options


def chosen(options):
    """The rows, without rivals if these are not wanted."""
    table = rows.build(options.speed)
    if options.only:
        table = [row for row in table if any(fnmatch.fnmatch(row.id, pattern) for pattern in options.only)]
        if not table:
            raise SystemExit(f"no row matches {' '.join(options.only)}")
    return table


def own(case):
    """Whether the case needs no other library."""
    return case.tool in ("ours", "floor", "many", "held")


def cases_of(table, charts, rivals):
    """All cases, each once, in the order of the rows."""
    cases = {case.name: case for row in table for case in row.cases()}
    for chart in charts:
        for panel in chart["panels"]:
            for series in panel["series"]:
                cases.update((case.name, case) for _, case in series["points"] if case.name not in cases)
    return [case for case in cases.values() if rivals or own(case)]


def measure(cases, rounds, toolbox, own_network):
    """Returns the figures of each case by name, one for each round, and why figures are missing."""
    values, problems = {case.name: [] for case in cases}, {}
    for number in range(rounds):
        begin = time.monotonic()
        toolbox.new_round()
        for done, case in enumerate(cases):
            if sys.stderr.isatty():
                print(f"\r\033[K   round {number + 1} of {rounds}, {done + 1} of {len(cases)}: {case.name}", end="",
                      file=sys.stderr, flush=True)
            if case.once and number > 0:
                continue
            try:
                if case.mtu and not own_network:
                    raise CaseFailed("needs a network namespace of its own")
                with machine.LoopbackMtu(case.mtu):
                    values[case.name].append(toolbox.measure(case))
            except CaseFailed as problem:
                values[case.name].append(None)
                problems[case.name] = str(problem)
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)
        print(f"round {number + 1} of {rounds}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    return values, problems


def points(charts, values):
    """The plots with figures instead of cases."""
    def point(x, case):
        summed = judge.summary(values.get(case.name, []))
        if summed is None:
            return None
        value = summed["median"]
        return [x, value * x / 1e9 if case.unit == "/s" else value]
    drawn = []
    for chart in charts:
        panels = [{**panel, "series": [
            {"label": series["label"], "points": [p for p in (point(*pair) for pair in series["points"]) if p]}
            for series in panel["series"]]} for panel in chart["panels"]]
        drawn.append({**chart, "panels": panels})
    return drawn


def run(options, own_network):
    table = chosen(options)
    rivals = not options.no_rivals and options.speed != "tiny"
    charts = [] if options.only else rows.charts(options.speed)
    rounds = options.rounds or ROUNDS[options.speed]
    first = options.speed != "tiny" and machine.go_first()
    if rivals and (absent := tools.missing_programs()):
        print(f"not installed, so left out: {', '.join(absent)}", file=sys.stderr)
    quiet = machine.Quiet()
    values, problems = measure(cases_of(table, charts, rivals), rounds,
                               tools.Tools(options.binaries, options.rivals, options.speed), own_network)
    return {
        "format": 1, "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "speed": options.speed,
        "rounds": rounds, "machine": machine.describe(), "network": own_network, "first": first,
        "quiet": quiet.so_far(), "noise": judge.noise(values.values()), "values": values, "problems": problems,
        "rows": [judge.judge_row(row, values) for row in table], "plots": points(charts, values),
    }


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            stored = json.load(file)
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path}: {error}") from None
    if stored.get("format") != 1:
        raise SystemExit(f"{path} is not a run that --json has stored")
    return stored


def print_check(old, new):
    """Returns whether the new run is good."""
    for note in check.differences(old, new):
        print(f"note: {note}")
    findings = check.compare(old, new)
    for judgement, sentence in findings:
        if judgement != check.SAME:
            print(f"{judgement}: {sentence}")
    count = sum(judgement == check.SAME for judgement, _ in findings)
    print(f"{count} of {len(findings)} rows are as before, within the noise")
    return not check.failed(findings)


def main():
    options = parse(sys.argv[1:])
    old = load(options.check) if options.check else None
    if options.stored:
        result = load(options.stored)
    else:
        if len(os.sched_getaffinity(0)) < 2:
            print("two CPUs are needed", file=sys.stderr)
            return 77
        result = run(options, machine.enter_network())
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    print(text.plain(result["rows"]))
    print(text.about(result))
    for name, problem in result["problems"].items():
        print(f"not measured: {name}: {problem}")
    if options.document:
        document.write(result, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../docs"))
    good = all(row["ours"] is not None for row in result["rows"])
    good = good and not any(name.startswith("floor ") for name in result["problems"])
    if old is not None:
        good = print_check(old, result) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

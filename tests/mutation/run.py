#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes one decision of the core or of a codec at a time, and requires that a unit test fails.

A copy of the tree is built. Each mutant changes one line of it: a comparison, a logical operator, a constant, a
negation, min or max, a step by one, or a call that is left out. A mutant that no test notices survives and is
printed as a difference; some cannot be noticed, because they do not alter what the program does: those in
tests/mutation/equivalent.txt, each with the reason, are not chosen.

usage: tests/mutation/run.py [--sample N] [--minutes M] [--seed S] [--jobs N] [--dir DIR] [--record] [FILE...]
  --sample N   N mutants chosen at random (default: 50; 0: all of them)
  --minutes M  no further mutant after M minutes; those that were judged are a smaller sample of the same choice
  --seed S     the choice (default: 1)
  --dir DIR    where the copy is built (default: build/mutation)
  --record     writes the result into docs/proof.md
Exit 0: at least 95 of 100 mutants were killed. A mutant that does not compile does not count.
"""
import argparse
import datetime
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
ENOUGH = 0.95

# The sources of a group, and the program that judges it. The core's is made here, of all its tests but the random
# one, which takes minutes without optimisation; so one link serves a mutant.
GROUPS = {
    "core": ("daemon/core/*.cc", "core_quick"),
    "session": ("session/*.cc", "session_codec_test"),
    "wire": ("provider/soft/wire/*.cc", "soft_wire_test"),
    "journal": ("daemon/state/journal_image.cc", "state_journal_test"),
}
CORE_QUICK = """
file(GLOB quick *_test.cc)
list(FILTER quick EXCLUDE REGEX random_test)
nd_executable(core_quick ${quick})
target_link_libraries(core_quick PRIVATE nd_core_harness absl::btree absl::flat_hash_map GTest::gtest GTest::gtest_main)
"""
# Checks and recounting are tests themselves; names and sentences are compared with nothing.
EXCLUDED = re.compile(r"(_test|_bench|_harness|broker_check|ports_check|wire/check)\.cc$")
SKIPPED_LINE = re.compile(r"ND_CORE_CHECK|^\s*Check\(|^\s*//|^\s*#|^\s*(case|default)\b|\bNote\(|static_assert|^\s*\"|reserve\(")

REPLACEMENTS = [(r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "),
                (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "), (r"\btrue\b", "false"),
                (r"\bfalse\b", "true"), (r"(?<=[( ])!(?=[\w(])", ""), (r" \+ 1\b", ""), (r" - 1\b", ""),
                (r"\+\+(?=\w)", "--"), (r"--(?=\w)", "++"), (r"std::min\b", "std::max"),
                (r"std::max\b", "std::min")]
CALL = re.compile(r"^\s+(?!return\b|if\b|for\b|while\b|switch\b|else\b|using\b)[\w.>\-\[\]]+\([^{}]*\);$")


def code_of(line):
    """The line without its comment; strings become blanks, so that nothing in them is changed."""
    line = re.sub(r'"(\\.|[^"\\])*"', lambda m: " " * len(m.group()), line)
    return re.sub(r"//.*", lambda m: " " * len(m.group()), line)


def equivalent():
    """The mutants of equivalent.txt: {(file, old line, new line)}; see there for the form."""
    known, file, old = set(), None, None
    for line in (TOP / "tests/mutation/equivalent.txt").read_text().split("\n"):
        kind, _, text = line.partition(" ")
        if kind == "file":
            file = text
        elif kind == "-":
            old = text
        elif kind == "+":
            known.add((file, old, text))
    return known


def mutants_of(path):
    """Yields (line number, old line, new line)."""
    for number, line in enumerate(path.read_text().split("\n")):
        if SKIPPED_LINE.search(line):
            continue
        code = code_of(line)
        for pattern, new in REPLACEMENTS:
            for match in re.finditer(pattern, code):
                yield number, line, line[:match.start()] + new + line[match.end():]
        if CALL.match(code):
            yield number, line, re.sub(r"\S.*", ";", line, count=1)


def copy_tree(to):
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=TOP, check=True, text=True,
                           stdout=subprocess.PIPE).stdout.split("\n")
    for name in filter(None, names):
        source, target = TOP / name, to / name
        if not source.is_file():
            continue
        text = source.read_bytes()
        if name == "daemon/core/CMakeLists.txt":
            text += CORE_QUICK.encode()
        if not target.exists() or target.read_bytes() != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
            shutil.copymode(source, target)


class Build:
    def __init__(self, directory, jobs):
        self.src, self.build, self.jobs = directory / "src", directory / "build", jobs
        self.seconds = 600  # Then from the run without a mutant: a mutant may loop for ever, and a machine be busy.
        copy_tree(self.src)
        if not (self.build / "build.ninja").exists():
            # No cache has a mutant; without one, headers are precompiled.
            self.run("cmake", "-S", self.src, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=",
                     "-DCMAKE_CXX_FLAGS=-O0", "-DNDBROKER_WERROR=OFF", "-DCCACHE=", check=True)

    def run(self, *command, check=False):
        result = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, check=False)
        if check and result.returncode != 0:
            sys.exit(result.stdout[-4000:] + f"\n{command[0]} failed")
        return result.returncode == 0

    def make(self, program, check=False):
        return self.run("ninja", "-C", self.build, "-j", self.jobs, f"bin/{program}", check=check)

    def slow_tests(self, program):
        """Runs the program without a mutant. The names of the tests that take more than half a second."""
        report = self.build / f"{program}.json"
        if not self.run(self.build / "bin" / program, "--gtest_brief=1", f"--gtest_output=json:{report}"):
            sys.exit(f"{program} fails without any mutant")
        suites = json.loads(report.read_text())["testsuites"]
        return [f"{test['classname']}.{test['name']}" for suite in suites for test in suite["testsuite"]
                if float(test["time"].rstrip("s")) > 0.5]

    def passes(self, program, tests):
        """True, False, or None for a time-out."""
        command = [str(self.build / "bin" / program), "--gtest_brief=1", "--gtest_fail_fast", f"--gtest_filter={tests}"]
        try:
            return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=self.seconds,
                                  check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return None


def judge(build, program, slow):
    """The fate of the mutant that is in the copy. The quick tests are first."""
    if not build.make(program):
        return "does not compile"
    passed = build.passes(program, "-" + ":".join(slow))
    if passed and slow:
        passed = build.passes(program, ":".join(slow))
    return "killed by time" if passed is None else "survived" if passed else "killed"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("--sample", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--dir", type=Path, default=TOP / "build" / "mutation")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()

    chosen, same = [], equivalent()
    for pattern, program in GROUPS.values():
        for path in sorted(TOP.glob(pattern)):
            name = str(path.relative_to(TOP))
            if EXCLUDED.search(name) or (options.files and name not in options.files):
                continue
            for number, old, new in mutants_of(path):
                if (name, old.strip(), new.strip()) not in same:
                    chosen.append((name, number, old, new, program))
    total = len(chosen)
    if total == 0:
        sys.exit("no file with a decision was named; files are " +
                 ", ".join(pattern for pattern, _ in GROUPS.values()))
    random.Random(options.seed).shuffle(chosen)
    if options.sample:
        chosen = chosen[:options.sample]

    build = Build(options.dir.resolve(), options.jobs)
    seconds, slow = {}, {}
    for program in sorted({mutant[4] for mutant in chosen}):
        build.make(program, check=True)
        began = time.monotonic()
        slow[program] = build.slow_tests(program)
        seconds[program] = 60 + 10 * (time.monotonic() - began)
    fates, until = {}, time.monotonic() + 60 * options.minutes
    for name, number, old, new, program in chosen:
        if time.monotonic() > until:
            break
        target = build.src / name
        text = target.read_text()
        lines = text.split("\n")
        lines[number] = new
        target.write_text("\n".join(lines))
        build.seconds = seconds[program]
        fate = judge(build, program, slow[program])
        target.write_text(text)
        fates[fate] = fates.get(fate, 0) + 1
        if fate != "killed":
            print(f"{fate}: {name}:{number + 1}\n  - {old.strip()}\n  + {new.strip()}", flush=True)
    valid = sum(fates.values()) - fates.get("does not compile", 0)
    killed = valid - fates.get("survived", 0)
    summary = (f"{killed} of {valid} mutants killed ({100 * killed / max(valid, 1):.1f} %), "
               f"{fates.get('killed by time', 0)} of them by time; sample of {total:,}, seed {options.seed}")
    print(summary)
    if options.record:
        subprocess.run([sys.executable, TOP / "tests/figures/figures.py", "--record", "mutants",
                        f"{datetime.date.today()}: {summary}; unit tests alone, without the random test and the simulator"],
                       check=True)
    sys.exit(0 if killed >= ENOUGH * valid else 1)


if __name__ == "__main__":
    main()

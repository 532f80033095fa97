#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes one decision of the core or of the session codec at a time, and requires that a unit test fails.

A copy of the tree is built. Each mutant changes one line of it: a comparison, a logical operator, a constant, a
negation, min or max, a step by one, or a call that is left out. A mutant that no test notices survives and is
printed as a difference; some cannot be noticed, because they do not alter what the program does.

usage: tests/mutation/run.py [--sample N] [--seed S] [--jobs N] [--dir DIR] [FILE...]
  --sample N   N mutants chosen at random (default: 50; 0: all of them)
  --seed S     the choice (default: 1)
  --dir DIR    where the copy is built (default: build/mutation)
Exit 0: at least 95 of 100 mutants were killed. A mutant that does not compile does not count.
"""
import argparse
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
}
CORE_QUICK = """
file(GLOB quick *_test.cc)
list(FILTER quick EXCLUDE REGEX random_test)
nd_executable(core_quick ${quick})
target_link_libraries(core_quick PRIVATE nd_core_harness absl::btree absl::flat_hash_map GTest::gtest GTest::gtest_main)
"""
# Checks and recounting are tests themselves; names and sentences are compared with nothing.
EXCLUDED = re.compile(r"(_test|_bench|_harness|broker_check|ports_check)\.cc$")
SKIPPED_LINE = re.compile(r"ND_CORE_CHECK|^\s*//|^\s*#|^\s*(case|default)\b|\bNote\(|static_assert|^\s*\"|reserve\(")

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

    def passes(self, program):
        """True, False, or None for a time-out."""
        command = [str(self.build / "bin" / program), "--gtest_brief=1", "--gtest_fail_fast"]
        try:
            return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=self.seconds,
                                  check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return None


def judge(build, program):
    """The fate of the mutant that is in the copy."""
    if not build.make(program):
        return "does not compile"
    passed = build.passes(program)
    return "killed by time" if passed is None else "survived" if passed else "killed"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("--sample", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--dir", type=Path, default=TOP / "build" / "mutation")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()

    chosen = []
    for pattern, program in GROUPS.values():
        for path in sorted(TOP.glob(pattern)):
            name = str(path.relative_to(TOP))
            if EXCLUDED.search(name) or (options.files and name not in options.files):
                continue
            for number, old, new in mutants_of(path):
                chosen.append((name, number, old, new, program))
    total = len(chosen)
    if total == 0:
        sys.exit("no file with a decision was named; files are daemon/core/*.cc and session/*.cc")
    random.Random(options.seed).shuffle(chosen)
    if options.sample:
        chosen = chosen[:options.sample]

    build = Build(options.dir.resolve(), options.jobs)
    seconds = {}
    for program in sorted({mutant[4] for mutant in chosen}):
        build.make(program, check=True)
        began = time.monotonic()
        if not build.passes(program):
            sys.exit(f"{program} fails without any mutant")
        seconds[program] = 60 + 10 * (time.monotonic() - began)
    fates = {}
    for name, number, old, new, program in chosen:
        target = build.src / name
        text = target.read_text()
        lines = text.split("\n")
        lines[number] = new
        target.write_text("\n".join(lines))
        build.seconds = seconds[program]
        fate = judge(build, program)
        target.write_text(text)
        fates[fate] = fates.get(fate, 0) + 1
        if fate != "killed":
            print(f"{fate}: {name}:{number + 1}\n  - {old.strip()}\n  + {new.strip()}", flush=True)
    valid = sum(fates.values()) - fates.get("does not compile", 0)
    killed = valid - fates.get("survived", 0)
    print(f"{killed} of {valid} mutants killed ({100 * killed / max(valid, 1):.1f} %), "
          f"{fates.get('killed by time', 0)} of them by time; sample of {total}, seed {options.seed}")
    sys.exit(0 if killed >= ENOUGH * valid else 1)


if __name__ == "__main__":
    main()

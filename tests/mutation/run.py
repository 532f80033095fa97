#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes one decision of the core or of a codec at a time, and requires that a unit test fails.

Each mutant changes one line: a comparison, a logical operator, a constant, a negation, min or max, a step by one, or
a call that is left out. A mutant that no test notices survives and is printed as a difference; some cannot be noticed,
because they do not alter what the program does: those in tests/mutation/equivalent.txt, each with the reason, are not
chosen.

A copy of the tree is built once, with all mutants in it and a switch that a variable of the environment sets
(compose.py, mutant.h). A run without any records which tests evaluate each mutant, and only these run for it. A mutant
that does not compile in this form is compiled by itself.

usage: tests/mutation/run.py [--sample N] [--minutes M] [--seed S] [--jobs N] [--dir DIR] [--record] [FILE...]
  --sample N   N mutants chosen at random (default: 50; 0: all of them)
  --minutes M  no further mutant after M minutes; those that were judged are a smaller sample of the same choice
  --seed S     the choice (default: 1)
  --jobs N     compiles N files, and judges N mutants, at the same time (default: the number of processors)
  --dir DIR    where the copy is built (default: build/mutation)
  --record     writes into docs/proof.md the result of each file whose mutants were all judged, and the sum of all files
Exit 0: at least 95 of 100 mutants were killed. A mutant that does not compile does not count.
"""
import argparse
import concurrent.futures
import datetime
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from compose import compose  # noqa: E402

TOP = Path(__file__).resolve().parents[2]
ENOUGH = 0.95

# The sources of a library, and the program that judges them. The core's is made here, of all its tests but the random
# one, which takes minutes without optimisation; so one link serves a mutant.
GROUPS = {
    "nd_core": ("daemon/core/*.cc", "core_quick"),
    "nd_session": ("session/*.cc", "session_codec_test"),
    "nd_soft_wire": ("provider/soft/wire/*.cc", "soft_wire_test"),
    "nd_journal": ("daemon/state/journal_image.cc", "state_journal_test"),
}
CORE_QUICK = """
file(GLOB quick *_test.cc)
list(FILTER quick EXCLUDE REGEX random_test)
nd_executable(core_quick ${quick})
target_link_libraries(core_quick PRIVATE nd_core_harness absl::btree absl::flat_hash_map GTest::gtest GTest::gtest_main)
target_compile_options(core_quick PRIVATE -O0)
target_precompile_headers(core_quick PRIVATE <gtest/gtest.h> "${PROJECT_SOURCE_DIR}/daemon/core/core_harness.h")
"""
# All mutants of a source make it long; its optimisation would take a minute. A mutant that reads past the end of a
# container ends the program.
QUICK_COMPILE = "target_compile_options({library} PRIVATE -O0 -D_GLIBCXX_ASSERTIONS)\n"
REACH = """
foreach(program core_quick session_codec_test soft_wire_test state_journal_test)
  target_sources(${program} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/tests/mutation/reach.cc)
endforeach()
"""
MEMORY = 4 << 30
# Seconds of a test. Most mutants are killed by a quick one. Tests that are too slow judge none.
QUICK, TOO_SLOW = 0.02, 1.0
# A mutant may leave a variable unused; other flags would miss the cache.
WITHOUT_ERRORS = dict(os.environ, CCACHE_PREFIX=str(TOP / "tests/teeth/compile.sh"))
# Checks and recounting are tests themselves; names and sentences are compared with nothing.
EXCLUDED = re.compile(r"(_test|_bench|_harness|broker_check|ports_check|wire/check)\.cc$")
SKIPPED_LINE = re.compile(r"ND_CORE_CHECK|^\s*Check\(|^\s*//|^\s*#|^\s*(case|default)\b|\bNote\(|static_assert|^\s*\"|reserve\(")

REPLACEMENTS = [(r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "),
                (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "), (r"\btrue\b", "false"),
                (r"\bfalse\b", "true"), (r"(?<=[( ])!(?=[\w(])", ""), (r" \+ 1\b", ""), (r" - 1\b", ""),
                (r"\+\+(?=\w)", "--"), (r"--(?=\w)", "++"), (r"std::min\b", "std::max"),
                (r"std::max\b", "std::min")]
CALL = re.compile(r"^\s+(?!return\b|if\b|for\b|while\b|switch\b|else\b|using\b)[\w.>\-\[\]]+\([^{}]*\);$")
BEGINS = re.compile(r"(^|[;{}):]|\belse)$")  # The line before a call that is a statement of its own.


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


class Mutant:
    """One line of a file is another: `length` bytes at `offset` of the file are `new`."""

    def __init__(self, name, program, line, offset, length, new, text):
        self.name, self.program, self.line, self.offset, self.length = name, program, line, offset, length
        self.new = new
        begin, end = text.rfind("\n", 0, offset) + 1, text.find("\n", offset)
        self.old_line = text[begin:end].strip()
        self.new_line = (text[begin:offset] + new + text[offset + length:end]).strip()
        self.number = None  # Of the mutants that are compiled into one program together.

    def applied(self, text):
        return text[:self.offset] + self.new + text[self.offset + self.length:]


def mutants_of(path, program):
    name, text, offset, before = str(path.relative_to(TOP)), path.read_text(), 0, ""
    for number, line in enumerate(text.split("\n")):
        found = []
        if not SKIPPED_LINE.search(line):
            code = code_of(line)
            for pattern, new in REPLACEMENTS:
                found += [(match.start(), match.end(), new) for match in re.finditer(pattern, code)]
            if CALL.match(code) and BEGINS.search(before):
                found.append((len(line) - len(line.lstrip()), len(line), ";"))
        for begin, end, new in found:
            yield Mutant(name, program, number, offset + begin, end - begin, new, text)
        before = code_of(line).rstrip() or before
        offset += len(line) + 1


def copy_tree(to, all_mutants):
    """Copies what git would commit, with all mutants in the sources that have any. An unchanged file keeps its time."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=TOP, check=True, text=True,
                           stdout=subprocess.PIPE).stdout.split("\n")
    for name in filter(None, names):
        source = TOP / name
        if source.is_file() and name not in all_mutants:
            text = source.read_bytes()
            if name == "daemon/core/CMakeLists.txt":
                text += CORE_QUICK.encode()
            if name == "CMakeLists.txt":
                text += (REACH + "".join(QUICK_COMPILE.format(library=library) for library in GROUPS)).encode()
            write(to / name, text)
            shutil.copymode(source, to / name)
    for name, text in all_mutants.items():
        write(to / name, text.encode())


def write(target, text):
    if not target.exists() or target.read_bytes() != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)


class Together:
    """The sources of the copy: every mutant of `mutants` is in them, except those that did not compile there."""

    def __init__(self, mutants):
        self.mutants, self.alone = mutants, set()
        for number, mutant in enumerate(mutants):
            mutant.number = number

    def sources(self):
        files, self.lines = {}, {}
        for mutant in self.mutants:
            files.setdefault(mutant.name, []).append(mutant)
        result = {}
        for name, mutants in files.items():
            inside = [(m.offset, m.length, m.new, m.number) for m in mutants if m.number not in self.alone]
            text, lines = compose((TOP / name).read_text(), inside)
            self.lines[name] = lines
            # The line of the include is before line 1.
            result[name] = '#include "tests/mutation/mutant.h"\n#line 1 "' + name + '"\n' + text
        return result

    def drop(self, log):
        """Takes out the mutants of the lines that the compiler complains about. Whether there were any."""
        before = len(self.alone)
        for name, line in re.findall(r"^(\S+?):(\d+):\d+: error", log, re.M):
            for number, (first, last) in self.lines.get(name, {}).items():
                if first <= int(line) - 1 <= last:
                    self.alone.add(number)
        return len(self.alone) > before


class Build:
    def __init__(self, directory, jobs):
        # Compiled like the tree itself, from a folder at the same depth below, so that ccache knows the objects.
        self.src, self.build, self.jobs = directory / "src", directory / "src/build/release", jobs

    def configure(self):
        if not (self.build / "build.ninja").exists():
            status, log = self.run("cmake", "--preset", "release", "-S", self.src, "-B", self.build,
                                   "-DNDBROKER_TESTS=ON", "-DNDBROKER_UNITY=24", cwd=self.src)
            if status:
                sys.exit(log[-4000:])

    def run(self, *command, cwd=None):
        result = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, check=False, cwd=cwd, env=WITHOUT_ERRORS)
        return result.returncode, result.stdout

    def make(self, *programs):
        """Exit status and output; goes on after an error, so that one attempt names all lines."""
        return self.run("ninja", "-C", self.build, "-k", "0", "-j", self.jobs, *(f"bin/{p}" for p in programs))

    def reach(self, program):
        """Runs the program without a mutant: {test: (seconds, numbers of the mutants that it evaluates)}."""
        file = self.build / f"{program}.reach"
        environment = dict(os.environ, NDBROKER_REACH=str(file))
        if subprocess.run([self.build / "bin" / program, "--gtest_brief=1"], env=environment, check=False).returncode:
            sys.exit(f"{program} fails without any mutant")
        tests = {}
        for line in file.read_text().splitlines():
            test, milliseconds, *numbers = line.split()
            tests[test] = (int(milliseconds) / 1000, set(map(int, numbers)))
        return tests

    def passes(self, program, tests, seconds, number):
        """True, False, or None for a time-out. A mutant may loop for ever, and use memory meanwhile."""
        command = ["prlimit", f"--as={MEMORY}", str(self.build / "bin" / program), "--gtest_brief=1",
                   "--gtest_fail_fast", f"--gtest_filter={':'.join(tests)}"]
        try:
            return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds,
                                  env=dict(os.environ, NDBROKER_MUTANT=str(number)), check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return None

    def judge(self, mutant, reach, alone):
        """The fate of a mutant. The quick tests are first."""
        tests = reach[mutant.program]
        if alone:
            target = self.src / mutant.name
            text = target.read_text()
            target.write_text(mutant.applied((TOP / mutant.name).read_text()))
            try:
                if self.make(mutant.program)[0]:
                    return "does not compile"
                return self.fate(mutant.program, tests, -1)
            finally:
                target.write_text(text)
        # A test that ends its process, or a child of it, cannot say which mutants it evaluates.
        return self.fate(mutant.program, {test: entry for test, entry in tests.items()
                                          if mutant.number in entry[1] or "Death" in test}, mutant.number)

    def fate(self, program, tests, number):
        quick = [test for test, (seconds, _) in tests.items() if seconds <= QUICK]
        slow = [test for test, (seconds, _) in tests.items() if QUICK < seconds <= TOO_SLOW]
        for chosen in filter(None, (quick, slow)):
            passed = self.passes(program, chosen, 15 + 10 * sum(tests[t][0] for t in chosen), number)
            if not passed:
                return "killed by time" if passed is None else "killed"
        return "survived"


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

    everything, same = [], equivalent()
    for pattern, program in GROUPS.values():
        for path in sorted(TOP.glob(pattern)):
            name = str(path.relative_to(TOP))
            if not EXCLUDED.search(name) and (not options.files or name in options.files):
                everything += [m for m in mutants_of(path, program) if (name, m.old_line, m.new_line) not in same]
    if not everything:
        sys.exit("no file with a decision was named; files are " +
                 ", ".join(pattern for pattern, _ in GROUPS.values()))
    chosen = list(everything)  # All of them in the order of the files, so that --minutes leaves whole files.
    if options.sample:
        random.Random(options.seed).shuffle(chosen)
        chosen = chosen[:options.sample]

    # All mutants are compiled in at once, whatever the sample, so that samples share a build.
    programs = sorted({m.program for m in everything})
    together, build = Together(everything), Build(options.dir.resolve(), options.jobs)
    while True:
        copy_tree(build.src, together.sources())
        build.configure()
        status, log = build.make(*programs)
        if not status:
            break
        if not together.drop(log):
            sys.exit("\n".join(line for line in log.split("\n") if "error" in line) or log[-4000:])
    reach = {program: build.reach(program) for program in programs}
    reached = {program: set().union(*(numbers for _, numbers in reach[program].values())) for program in programs}

    # What nothing evaluates is known to the compiler, or has no test: compiled by itself it is judged as well.
    def alone(mutant):
        return mutant.number in together.alone or mutant.number not in reached[mutant.program]

    judged, until = [], time.monotonic() + 60 * options.minutes

    def judge(mutant):
        if time.monotonic() > until:
            return
        fate = build.judge(mutant, reach, alone(mutant))
        judged.append((mutant, fate))
        if fate != "killed":
            print(f"{fate}: {mutant.name}:{mutant.line + 1}\n  - {mutant.old_line}\n  + {mutant.new_line}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(judge, (m for m in chosen if not alone(m))))
    # These last and one by one: each leaves a program behind that has no other mutant of its source.
    for mutant in filter(alone, chosen):
        judge(mutant)
    result = Result(fate for _, fate in judged)
    print(f"{result}; sample of {len(everything):,}, seed {options.seed}")
    if options.record:
        record(everything, judged)
    sys.exit(0 if result.killed >= ENOUGH * result.valid else 1)


class Result:
    """The number of mutants that compile, of those that were killed, and of those killed by time."""

    def __init__(self, fates):
        fates = [fate for fate in fates if fate != "does not compile"]
        self.valid, self.killed = len(fates), sum(fate != "survived" for fate in fates)
        self.by_time = fates.count("killed by time")

    def __str__(self):
        return (f"{self.killed:,} of {self.valid:,} mutants killed ({100 * self.killed / max(self.valid, 1):.1f} %), "
                f"{self.by_time} of them by time")


def record(everything, judged):
    """Each completely judged file has a row in docs/proof.md; the sum of all rows is in the table of proofs."""
    proof, today = TOP / "docs/proof.md", datetime.date.today()
    text = proof.read_text()
    found = re.search(r"(?<=\| file \| mutants \| killed \| by time \| date \|\n\|---\|--:\|--:\|--:\|---\|\n)(\| .*\n)*", text)
    rows = {row.split(" | ")[0]: row for row in found.group().splitlines()}
    for name in sorted({mutant.name for mutant in everything}):
        fates = [fate for mutant, fate in judged if mutant.name == name]
        if len(fates) == sum(mutant.name == name for mutant in everything):
            result = Result(fates)
            rows[f"| {name}"] = f"| {name} | {result.valid} | {result.killed} | {result.by_time} | {today} |"
    proof.write_text(text[:found.start()] + "".join(rows[name] + "\n" for name in sorted(rows)) + text[found.end():])
    total = Result([])
    for row in rows.values():
        valid, killed, by_time = (int(column) for column in row.split(" | ")[1:4])
        total.valid, total.killed, total.by_time = total.valid + valid, total.killed + killed, total.by_time + by_time
    subprocess.run([sys.executable, TOP / "tests/figures/figures.py", "--record", "mutants",
                    f"{today}: {total}: every mutant of {len(rows)} files (below); unit tests alone, without the random "
                    "test and the simulator"], check=True)


if __name__ == "__main__":
    main()

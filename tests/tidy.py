#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over several source files at a time.

Most of its time goes to the headers that files share, so files of one folder are read as one. Those that do not compile
together (two unnamed namespaces with the same name in them) are taken in halves.

usage: tidy.py BUILD JOBS FILE...     BUILD has compile_commands.json; exit 0: no finding
"""
import concurrent.futures
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

BATCH = 8


def together(commands, files, folder):
    """The one entry of a compile_commands.json for a file that includes all of `files`."""
    unit = os.path.join(folder, 'unit.cc')
    with open(unit, 'w') as out:
        out.writelines(f'#include "{file}"\n' for file in files)
    words = {file: shlex.split(commands[file]['command']) for file in files}
    options = [word for word in words[files[0]] if re.match(r'-std=|-O\d|-f', word)]
    for file in files:
        # Folders and definitions; -isystem has its folder behind it.
        for word, following in zip(words[file], words[file][1:]):
            if word == '-isystem' and following not in options:
                options += [word, following]
            elif re.match(r'-[ID]', word) and word not in options:
                options.append(word)
    command = ['c++', *options, '-c', unit]
    with open(os.path.join(folder, 'compile_commands.json'), 'w') as out:
        json.dump([{'directory': commands[files[0]]['directory'], 'file': unit, 'arguments': command}], out)
    return unit


def tidy(commands, files, config):
    with tempfile.TemporaryDirectory() as folder:
        unit = together(commands, files, folder)
        # What the compiler warns of is gcc's business here; that one file includes others, and sees in one what the
        # other declared, is ours.
        ran = subprocess.run(
            ['clang-tidy-14', '-p', folder, '--quiet', '--config-file', config, '--checks=-bugprone-suspicious-include,-bugprone-forward-declaration-namespace',
             '--extra-arg=-Wno-everything', unit], capture_output=True, text=True)
    if 'clang-diagnostic-error' in ran.stdout or 'Error while processing' in ran.stderr:
        if len(files) == 1:
            return [ran.stdout + ran.stderr]
        half = len(files) // 2
        return tidy(commands, files[:half], config) + tidy(commands, files[half:], config)
    return [line for line in ran.stdout.splitlines() if re.search(r' (error|warning): ', line)]


def main():
    build, jobs, *wanted = sys.argv[1:]
    with open(os.path.join(build, 'compile_commands.json')) as file:
        commands = {entry['file']: entry for entry in json.load(file)}
    files = [os.path.realpath(name) for name in wanted]
    for file in files:
        if file not in commands:
            sys.exit(f'{file} is not built in {build}')
    config = os.path.join(os.path.dirname(os.path.realpath(__file__)), '..', '.clang-tidy')
    batches = []
    kind = lambda file: (os.path.dirname(file), file.endswith('_test.cc'))
    for _, group in itertools.groupby(sorted(files, key=kind), kind):
        group = list(group)
        batches += [group[i:i + BATCH] for i in range(0, len(group), BATCH)]
    found = set()
    with concurrent.futures.ThreadPoolExecutor(int(jobs)) as pool:
        for lines in pool.map(lambda batch: tidy(commands, batch, config), batches):
            found.update(lines)
    print('\n'.join(sorted(found)))
    sys.exit(1 if found else 0)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that only base/os/, provider/verbs/, verbs-lib/ and files whose name ends in _linux include headers of the
operating system.

usage: os_headers.py [ROOT]
os_headers.txt lists the other files that still include some. A file that is not listed must not, and a file that no
longer does must leave the list, so that the list only shrinks. Tests may include every header.
"""
import os
import re
import sys

import check


def is_os_header(header):
    return next((name for name, pattern in check.GROUPS if re.match(pattern, header)), None) == "os"


def may_include(path):
    return path.startswith(("base/os/", "provider/verbs/", "verbs-lib/")) or re.search(r"_linux\.(cc|h)$", path) is not None


def find(root, listed):
    """The findings, one line each."""
    findings = []
    for path in sorted(check.sources(root)):
        if check.is_test(path) or may_include(path):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            headers = re.findall(r"^\s*#\s*include\s*<([^>]+)>", file.read(), re.MULTILINE)
        headers = [header for header in headers if is_os_header(header)]
        if headers and path not in listed:
            findings.append(f"{path}: includes <{headers[0]}>; use base/os/, or move the code to a file that ends in "
                            "_linux, behind a header without it")
        if not headers and path in listed:
            findings.append(f"tests/arrows/os_headers.txt: {path} includes no such header any more; delete its line")
        listed.discard(path)
    findings += [f"tests/arrows/os_headers.txt: {path} does not exist; delete its line" for path in sorted(listed)]
    return findings


def main():
    root = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(check.HERE))
    with open(os.path.join(root, "tests/arrows/os_headers.txt"), encoding="utf-8") as file:
        listed = {line.strip() for line in file if line.strip() and not line.startswith("#")}
    count = len(listed)
    findings = find(root, listed)
    print("\n".join(findings) or f"no file but the {count} listed ones includes a header of the operating system")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()

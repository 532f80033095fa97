#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that only base/os/, provider/verbs/, verbs-lib/ and files whose name ends in _linux or _win include headers of the
operating system.

usage: os_headers.py [ROOT]
Tests may include every header.
"""
import os
import re
import sys

import check


def is_os_header(header):
    return next((name for name, pattern in check.GROUPS if re.match(pattern, header)), None) == "os"


def may_include(path):
    return path.startswith(("base/os/", "provider/verbs/", "verbs-lib/")) or re.search(r"_(linux|win)\.(cc|h)$", path) is not None


def find(root):
    """The findings, one line each."""
    findings = []
    for path in sorted(check.sources(root)):
        if check.is_test(path) or may_include(path):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            headers = re.findall(r"^\s*#\s*include\s*<([^>]+)>", file.read(), re.MULTILINE)
        headers = [header for header in headers if is_os_header(header)]
        if headers:
            findings.append(f"{path}: includes <{headers[0]}>; use base/os/, or move the code to a file that ends in "
                            "_linux, behind a header without it")
    return findings


def main():
    root = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(check.HERE))
    findings = find(root)
    print("\n".join(findings) or "headers of the operating system are where they belong")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()

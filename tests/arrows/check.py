#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include of the tree against arrows.txt, and the folder table of docs/architecture.md too.

usage: check.py [--table] [ROOT]
  --table   prints the table for docs/architecture.md
Exit code 1: an include without an arrow, an arrow without an include, or a table that differs.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BEGIN, END = "<!-- folders: tests/arrows/check.py --table -->", "<!-- end of folders -->"

# Headers from outside the tree, by group; the first match counts. Standard C and C++ headers need no arrow.
GROUPS = [
    ("grpc", r"grpcpp/|grpc/|src/(core|cpp)/|(ndbroker/v1|csi)/.*\.grpc\.pb\.h$"),
    ("protobuf", r"google/protobuf/"),
    ("absl", r"absl/"),
    ("cli11", r"CLI/"),
    ("spdlog", r"spdlog/"),
    ("toml", r"toml\+\+/"),
    ("prometheus", r"prometheus/"),
    ("openssl", r"openssl/"),
    ("sqlite", r"sqlite3\.h$"),
    ("pcap", r"pcap"),
    ("ncurses", r"ncurses\.h$"),
    ("zlib", r"zlib\.h$"),
    ("sdt", r"sys/sdt\.h$"),
    ("verbs", r"infiniband/|rdma/"),
    ("cpu", r"(imm|x86|cpu)\w*\.h$"),
    ("os", r"(sys|net|netinet|arpa|linux)/|(unistd|malloc|fcntl|poll|pthread|signal|sched|spawn|dirent|netdb|ifaddrs|endian|"
           r"pwd|grp|fnmatch|time|stdlib|termios|dlfcn|elf|ucontext|syslog|olectl|unknwn|windows|winsock2|ws2spi|ws2tcpip|winternl|bcrypt|mstcpip|io|aclapi|sddl|psapi|iphlpapi|netfw|shellapi|winsvc)\.h$"),
]


def is_test(path):
    return (path.startswith("tests/") or "/testing/" in path or path.endswith("/testing.h") or "/install_test/" in path
            or re.search(r"(_test|_bench|_harness|_fixture|_test_util|raw_client)\.(cc|h)$", path) is not None)


def read_table(path):
    rooms = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#") or not line.strip():
                continue
            cells = [cell.strip() for cell in line.split("|")]
            if len(cells) != 4:
                sys.exit(f"{path}:{number}: expected ROOM | DESCRIPTION | rooms | libraries")
            name = cells[0].rstrip("/")
            rooms[name] = (cells[0], cells[1], cells[2].split(), cells[3].split())
    for name, (_, _, to, _) in rooms.items():
        for other in to:
            if other not in rooms:
                sys.exit(f"{path}: {name} may include {other}, which is no room")
    return rooms


def room_of(path, rooms):
    best = None
    for name, (prefix, _, _, _) in rooms.items():
        if path.startswith(prefix) and (best is None or len(name) > len(best)):
            best = name
    return best


def sources(root):
    for top in ("proto", "base", "session", "provider", "daemon", "client-lib", "nd-provider", "verbs-lib", "cli", "tests"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if name.endswith((".h", ".cc")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def resolve(include, path, files):
    for base in ("", os.path.dirname(path) + "/", "base/include/", "client-lib/include/"):
        if base + include in files:
            return base + include
    return None


def check(root, rooms):
    """The findings, one line each."""
    files = set(sources(root))
    findings, used = [], set()
    for path in sorted(files):
        test = is_test(path)
        room = None if test else room_of(path, rooms)
        if room is None and not test:
            findings.append(f"{path}: in no room; add its folder to tests/arrows/arrows.txt")
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            lines = file.read().split("\n")
        for number, line in enumerate(lines, 1):
            match = re.match(r'\s*#\s*include\s*[<"]([^">]+)[">]', line)
            if not match or test:
                continue
            include, where = match[1], f"{path}:{number}"
            target = resolve(include, path, files)
            if target is not None and is_test(target):
                findings.append(f"{where}: includes {target}, which belongs to a test")
                continue
            group = None
            if target is not None:
                to = room_of(target, rooms)
            elif include.startswith(("ndbroker/v1/", "csi/")):
                to = "proto"
                group = "grpc" if include.endswith(".grpc.pb.h") else None
            else:
                to = None
                group = next((name for name, pattern in GROUPS if re.match(pattern, include)), None)
                if group is None and ("/" in include or "." in include) and not include.startswith("cli/version"):
                    findings.append(f"{where}: <{include}> is in no group of tests/arrows/check.py")
            if to is not None and to != room:
                used.add((room, to))
                if to not in rooms[room][2]:
                    findings.append(f"{where}: {room} may not include {to} ({include})")
            if group is not None:
                used.add((room, group))
                if group not in rooms[room][3]:
                    findings.append(f"{where}: {room} may not include {group} ({include})")
    for room, (_, _, to, groups) in rooms.items():
        for other in to + groups:
            if (room, other) not in used:
                findings.append(f"tests/arrows/arrows.txt: nothing in {room} includes {other}; delete the arrow")
    return findings


def table(rooms):
    rows = ["| folder | contents | may include | libraries |", "|---|---|---|---|"]
    for prefix, what, to, groups in rooms.values():
        names = ", ".join(f"`{name}`" for name in to) or "–"
        rows.append(f"| `{prefix}` | {what} | {names} | {', '.join(groups) or '–'} |")
    rows.append("| `tests/` | tests that cross folders; unit tests are in the folder of the code | everything | everything |")
    return "\n".join(rows)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--table"]
    root = os.path.abspath(arguments[0]) if arguments else os.path.dirname(os.path.dirname(HERE))
    rooms = read_table(os.path.join(root, "tests/arrows/arrows.txt"))
    if "--table" in sys.argv:
        print(table(rooms))
        return
    findings = check(root, rooms)
    with open(os.path.join(root, "docs/architecture.md"), encoding="utf-8") as file:
        document = file.read()
    if f"{BEGIN}\n{table(rooms)}\n{END}" not in document:
        findings.append("docs/architecture.md: its folder table differs from the output of 'tests/arrows/check.py --table'")
    print("\n".join(findings) or "every include has its arrow")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()

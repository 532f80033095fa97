#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tracing points that docs/operations.md lists are in the program, with that many arguments, and cost one nop.

Usage: probes_test.py NDBROKERD OPERATIONS_MD
"""
import re
import subprocess
import sys


def main():
    notes = subprocess.run(["readelf", "-n", "-W", sys.argv[1]], capture_output=True, text=True, check=True).stdout
    found = {}
    places = []
    for provider, name, place, semaphore, arguments in re.findall(
            r"Provider: (\S+)\s+Name: (\S+)\s+Location: (0x[0-9a-f]+), Base: \S+, Semaphore: (0x[0-9a-f]+)\s+Arguments: ?(.*)",
            notes):
        if provider != "ndbroker":
            continue
        found.setdefault(name, set()).add(len(arguments.split()))
        places.append(int(place, 16))
        # No argument of a probe is computed, so no probe needs a semaphore.
        assert int(semaphore, 16) == 0, name
    table = {}
    for name, arguments in re.findall(r"^\| `([a-z_]+)\(([a-z_, ]*)\)`", open(sys.argv[2]).read(), re.M):
        table[name] = {len([a for a in arguments.split(",") if a.strip()])}
    assert found, "no probe of ndbroker is in the program"
    assert found == table, f"in the program {found}, in the table {table}"
    # A probe is one nop in the code.
    for place in places:
        code = subprocess.run(["objdump", "-d", f"--start-address={place}", f"--stop-address={place + 1}", sys.argv[1]],
                              capture_output=True, text=True, check=True).stdout
        assert re.search(r"\b90\s+nop", code), code
    print(f"{len(found)} probes in {len(places)} places")


if __name__ == "__main__":
    main()

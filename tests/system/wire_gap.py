#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wire_gap.py ADDRESS PORT | PATH: connects to a TCP port, or to a fd lane (a sequential packet socket), a thousand times a
second until SIGTERM. Prints how many attempts were refused, the rate, and the longest time without one that was
taken. Attempts that came late because one before them waited are made up for at once."""
import signal
import socket
import sys
import time

over = False


def stop(*_):
    global over
    over = True


signal.signal(signal.SIGTERM, stop)
if len(sys.argv) > 2:
    family, kind, target = socket.AF_INET, socket.SOCK_STREAM, (sys.argv[1], int(sys.argv[2]))
else:
    family, kind, target = socket.AF_UNIX, socket.SOCK_SEQPACKET, sys.argv[1]
attempts = refused = 0
longest = 0.0
begin = due = last = time.monotonic()
while not over:
    attempts += 1
    with socket.socket(family, kind) as attempt:
        try:
            attempt.connect(target)
        except OSError:
            refused += 1
        else:
            longest = max(longest, time.monotonic() - last)
            last = time.monotonic()
    due += 0.001
    time.sleep(max(0.0, due - time.monotonic()))
end = time.monotonic()
longest = max(longest, end - last)
print(f"attempts={attempts} refused={refused} a_second={attempts / (end - begin):.0f} longest_ms={longest * 1000:.0f}")

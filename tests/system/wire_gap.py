#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wire_gap.py ADDRESS PORT: connects by TCP every millisecond until SIGTERM; how many attempts were refused, and the
longest time without one that was taken."""
import signal
import socket
import sys
import time

over = False


def stop(*_):
    global over
    over = True


signal.signal(signal.SIGTERM, stop)
target = (sys.argv[1], int(sys.argv[2]))
attempts = refused = 0
longest = 0.0
last = time.monotonic()
while not over:
    attempts += 1
    with socket.socket() as attempt:
        try:
            attempt.connect(target)
            last = time.monotonic()
        except ConnectionRefusedError:
            refused += 1
            longest = max(longest, time.monotonic() - last)
    time.sleep(0.001)
print(f"attempts={attempts} refused={refused} longest_ms={longest * 1000:.0f}")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stop_thread.py PID NAME: stops the thread of that name by ptrace, and only it, until this program is ended."""
import ctypes
import os
import signal
import sys

PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request: int, thread: int) -> None:
    if libc.ptrace(request, thread, None, None) != 0:
        sys.exit(f"ptrace of thread {thread}: {os.strerror(ctypes.get_errno())}")


pid, name = sys.argv[1:]
for thread in os.listdir(f"/proc/{pid}/task"):
    with open(f"/proc/{pid}/task/{thread}/comm") as comm:
        if comm.read().strip() == name:
            ptrace(PTRACE_SEIZE, int(thread))
            ptrace(PTRACE_INTERRUPT, int(thread))
            signal.pause()
sys.exit(f"process {pid} has no thread {name}")

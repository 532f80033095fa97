# SPDX-License-Identifier: Apache-2.0
"""Starts programs for the measurements and ends what it has started."""
import contextlib
import os
import signal
import socket
import subprocess
import time

from model import CaseFailed

PATIENCE = 120  # Seconds until a program is hung, not slow.


def run(arguments, env=None, patience=PATIENCE):
    """Returns the standard output. A program that fails raises CaseFailed with its last words."""
    try:
        done = subprocess.run(arguments, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=patience, errors="replace")
    except subprocess.TimeoutExpired:
        raise CaseFailed(f"{arguments[0]} did not end in {patience} s") from None
    except OSError as error:
        raise CaseFailed(f"{arguments[0]}: {error.strerror}") from None
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise CaseFailed(f"{os.path.basename(arguments[0])} ended with {done.returncode}: {words[-1] if words else ''}")
    return done.stdout


@contextlib.contextmanager
def started(arguments, env=None, **streams):
    """A program that runs inside the block, and is ended after it."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **streams}
    try:
        process = subprocess.Popen(arguments, env={**os.environ, **(env or {})}, text=True, **streams)
    except OSError as error:
        raise CaseFailed(f"{arguments[0]}: {error.strerror}") from None
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                process.send_signal(number)
            try:
                process.wait(5)
                break
            except subprocess.TimeoutExpired:
                pass
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def free_port():
    """A TCP port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_listener(process, port):
    """Waits until somebody listens on the port. Connecting would use up a server that accepts only once."""
    listening = f":{port:04X} "
    for _ in range(2000):
        for table in ("tcp", "tcp6"):
            with open(f"/proc/net/{table}", encoding="ascii") as lines:
                if any(listening in line.split(maxsplit=2)[1] + " " and line.split()[3] == "0A" for line in lines):
                    return
        if process.poll() is not None:
            raise CaseFailed(f"{process.args[0]} ended with {process.returncode}")
        time.sleep(0.01)
    raise CaseFailed(f"{process.args[0]} does not listen on port {port}")


def children(pid):
    """The processes that the main thread of `pid` started."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as text:
        return [int(word) for word in text.read().split()]


def name_of(pid):
    with open(f"/proc/{pid}/comm", encoding="ascii") as text:
        return text.read().strip()


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))

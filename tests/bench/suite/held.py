# SPDX-License-Identifier: Apache-2.0
"""A broker with many live connections: how long one more takes, and how much memory they need."""
import json
import os
import subprocess

import process
from model import CaseFailed

PROCESSES = 8


def hold(binaries, count, iterations):
    """Returns the us of a connect, the MiB of the broker before and after a list, and the KiB of all clients."""
    with process.started([os.path.join(binaries, "nd_many"), "--self", "--connections", str(count), "--processes",
                          str(PROCESSES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as many:
        line = many.stdout.readline().split()
        if line[:1] != ["holding"]:
            raise CaseFailed(f"nd_many did not get {count} connections")
        directory = line[-1]
        family = {pid: process.name_of(pid) for pid in process.children(many.pid)}
        broker = next(pid for pid, name in family.items() if name == "ndbrokerd")
        figures = {"clients": sum(process.resident_kib(pid) for pid, name in family.items() if name == "nd_many"),
                   "broker": process.resident_kib(broker) / 1024}
        figures["connect"] = json.loads(process.run(
            [os.path.join(binaries, "ndperf"), "--broker", directory, "--op", "connect", "--metric", "lat", "--json",
             "--pin", "--iterations", str(iterations)]))["p50_us"]
        process.run([os.path.join(binaries, "ndctl"), "connection", "list", "--quiet"], {"NDBROKER_DIR": directory})
        figures["listed"] = process.resident_kib(broker) / 1024
        return figures

# SPDX-License-Identifier: Apache-2.0
"""Runs the programs that measure: ndperf, the floors, and the rivals. Each method returns the figure of one case."""
import json
import os
import re
import shutil

import held
import process
from model import CaseFailed

# Milliseconds of a floor or rival, and the part of the usual number of iterations.
SPEEDS = {"tiny": (10, 0.02), "quick": (60, 0.3), "full": (150, 1.0)}
UNITS = {"us": "us", "GB/s": "gbytes_per_s", "/s": "per_s"}


class Tools:
    def __init__(self, binaries, rivals, speed):
        self.binaries, self.rivals = binaries, rivals
        self.milliseconds, self.part = SPEEDS[speed]
        self._held = {}

    def measure(self, case):
        """Returns the figure of the case in its unit, or raises CaseFailed."""
        return getattr(self, case.tool)(case, *case.arguments)

    def new_round(self):
        self._held.clear()

    def ours(self, case, op, metric, size, flags):
        post = metric == "post"
        arguments = [os.path.join(self.binaries, "ndperf"), "--self", "--json", "--op", op, "--metric",
                     "bw" if post else metric, "--size", str(size), *flags,
                     "--iterations", str(self.iterations(op, metric, size, flags))]
        if post:
            arguments += ["--window", "1"]
        figures = json.loads(process.run(arguments))
        if post:
            return 1e6 / figures["per_s"]
        return figures["p50_us" if metric == "lat" else UNITS[case.unit]]

    def iterations(self, op, metric, size, flags):
        """So many that a full measurement takes a fraction of a second."""
        if op == "connect":
            usual = 300
        elif op == "resolve":
            usual = 5000 if metric == "lat" else 20000
        elif "--notify" in flags or "--block" in flags:
            usual = 3000
        elif metric == "rate":
            usual = 1000000
        else:
            nanoseconds = (8000 if "iwarp" in flags else 400) + size / (2 if "iwarp" in flags else 10)
            usual = 300e6 / nanoseconds
        return max(100, int(usual * self.part))

    def floor(self, case, name, size, cpus):
        text = process.run([os.path.join(self.binaries, "nd_floors"), name, "--size", str(size), "--cpus", cpus,
                            "--ms", str(self.milliseconds)])
        return figure(text, case)

    def ucx(self, case, test, size, tls):
        port = str(process.free_port())
        slow = size / 20 + (4000 if tls == "tcp" else 300)
        count = max(20, int(self.milliseconds * 1e6 / slow))
        env = {"UCX_TLS": tls, "UCX_NET_DEVICES": "lo" if tls == "tcp" else "all", "UCX_LOG_LEVEL": "error",
               "UCX_WARN_UNUSED_ENV_VARS": "n"}
        with process.started(["ucx_perftest", "-p", port, "-c", "1"], env) as server:
            process.await_listener(server, int(port))
            text = process.run(["ucx_perftest", "127.0.0.1", "-p", port, "-c", "0", "-t", test, "-s", str(size), "-n",
                                str(count), "-w", str(count // 10), "-f", "-v"], env)
        # iterations, latency: p50, average, overall; MB/s of 2^20: average, overall; messages/s: average, overall
        lines = [line for line in text.splitlines() if re.match(r"\d+,", line)]
        if not lines:
            raise CaseFailed("ucx_perftest printed no figures")
        fields = [float(field) for field in lines[-1].split(",")]
        return {"us": fields[1], "GB/s": fields[4] * 2**20 / 1e9, "/s": fields[6]}[case.unit]

    def ucx_own(self, case, what, size, cpus, tls, word):
        env = {"UCX_TLS": tls, "UCX_NET_DEVICES": "lo" if tls == "tcp" else "all", "UCX_LOG_LEVEL": "error",
               "UCX_WARN_UNUSED_ENV_VARS": "n"}
        return self.rival(case, "ucx", what, size, cpus, word, env=env)

    def fabric(self, case, what, size, provider):
        return self.rival(case, "fabric", what, size, "0,1", provider)

    def fabric_messages(self, _, size, provider):
        port = str(process.free_port())
        count = str(max(100, int(self.milliseconds * 100)))
        words = ["-p", provider, "-e", "rdm", "-I", count, "-S", str(size)]
        with process.started(["taskset", "-c", "1", "fi_pingpong", "-B", port, *words]) as server:
            process.await_listener(server, int(port))
            text = process.run(["taskset", "-c", "0", "fi_pingpong", "-P", port, *words, "127.0.0.1"])
        return float(text.split()[-2])  # Mean us of half a round trip, and a rate.

    def grpc(self, case, what, cpus):
        return self.rival(case, "grpc", what, 64, cpus)

    def iceoryx(self, case, size):
        with process.started(["iox-roudi", "-m", "off", "-k", "1", "-l", "off"]) as daemon:
            for _ in range(500):
                if os.path.exists("/tmp/roudi") or daemon.poll() is not None:
                    break
                process.time.sleep(0.01)
            return self.rival(case, "iceoryx", "pingpong", size, "0,1")

    def rival(self, case, program, what, size, cpus, word="", env=None):
        path = os.path.join(self.rivals, program)
        if not os.path.exists(path):
            raise CaseFailed(f"{program} is not built")
        return figure(process.run([path, what, str(size), cpus, str(self.milliseconds), word], env), case)

    def qperf(self, _, test, size):
        port = str(process.free_port())
        with process.started(["taskset", "-c", "1", "qperf", "-lp", port]) as server:
            process.await_listener(server, int(port))
            text = process.run(["taskset", "-c", "0", "qperf", "-lp", port, "-t", "1", "-m", str(size), "-uu",
                                "127.0.0.1", test])
        found = re.search(r"latency\s*=\s*([\d.,]+)\s*(\w+)", text)
        if found is None:
            raise CaseFailed("qperf printed no latency")
        return float(found[1].replace(",", "")) * {"ns": 1e-3, "us": 1, "ms": 1e3, "sec": 1e6}[found[2]]

    def iperf3(self, _, size):
        port = str(process.free_port())
        with process.started(["taskset", "-c", "1", "iperf3", "-s", "-1", "-p", port]) as server:
            process.await_listener(server, int(port))
            text = process.run(["taskset", "-c", "0", "iperf3", "-c", "127.0.0.1", "-p", port, "-t", "1", "-l", str(size),
                                "-J"])
        return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 8e9

    def many(self, _, count, counts):
        """The time of a round trip on one of `count` connections, polled."""
        if "many" not in self._held:
            text = process.run([os.path.join(self.binaries, "many_bench"), "poll", "1", *map(str, counts)], patience=600)
            self._held["many"] = {int(found[1]): float(found[2]) for found in re.finditer(
                r"^Shared *(\d+) connections, one at a time, poll +([\d.]+) us", text, re.M)}
        if count not in self._held["many"]:
            raise CaseFailed(f"many_bench printed nothing for {count} connections")
        return self._held["many"][count]

    def held(self, _, what, count, few):
        if count not in self._held:
            self._held[count] = held.hold(self.binaries, count, self.iterations("connect", "lat", 64, ()))
        if what != "client":
            return self._held[count][what]
        self.held(None, "clients", few, few)
        grown = self._held[count]["clients"] - self._held[few]["clients"]
        return grown / (count - few)


def figure(text, case):
    """The figure in the unit of the case, of lines "VALUE UNIT"."""
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[1] == UNITS[case.unit]:
            return float(words[0])
    raise CaseFailed(f"no line in {UNITS[case.unit]}")


def missing_programs():
    """Rivals that are not installed."""
    return [name for name in ("ucx_perftest", "fi_pingpong", "iox-roudi", "qperf", "iperf3")
            if shutil.which(name) is None]

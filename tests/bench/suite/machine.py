# SPDX-License-Identifier: Apache-2.0
"""The machine and how quiet it is: the CPU that other programs used, and what the hypervisor took."""
import os
import platform
import resource
import subprocess
import sys


def describe():
    model = "unknown"
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    with open("/etc/os-release", encoding="utf-8") as lines:
        system = next((line.split("=", 1)[1].strip().strip('"') for line in lines if line.startswith("PRETTY_NAME")), "")
    with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii") as text:
        congestion = text.read().strip()
    hypervisor = subprocess.run(["systemd-detect-virt"], capture_output=True, text=True, check=False).stdout.strip()
    return {"cpu": model, "cpus": os.cpu_count(), "kernel": platform.release(), "system": system,
            "virtual": hypervisor if hypervisor not in ("", "none") else "", "congestion": congestion}


class Quiet:
    """Counts the CPU time between its creation and its end, in CPUs."""

    def __init__(self):
        self._begin = self._now()

    @staticmethod
    def _now():
        with open("/proc/stat", encoding="ascii") as text:
            ticks = [int(word) for word in text.readline().split()[1:9]]
        user, nice, system, idle, wait, irq, softirq, steal = (tick / os.sysconf("SC_CLK_TCK") for tick in ticks)
        ours = sum(usage.ru_utime + usage.ru_stime for usage in
                   (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)))
        busy = user + nice + system + irq + softirq
        return busy, ours, steal, (busy + idle + wait + steal) / os.cpu_count()

    def so_far(self):
        """CPUs that other programs used, and that the hypervisor gave to others."""
        busy, ours, steal, wall = (now - begin for now, begin in zip(self._now(), self._begin))
        wall = max(wall, 0.01)
        return {"foreign_cpus": round(max(0.0, busy - ours) / wall, 3), "stolen_cpus": round(steal / wall, 3)}


def enter_network():
    """Starts this program again in a network namespace of its own, where it has loopback and its choice of congestion
    control for itself. Without that privilege it goes on as it is."""
    if os.environ.get("ND_BENCH_NETWORK") is None:
        os.environ["ND_BENCH_NETWORK"] = "none"
        unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
        probe = subprocess.run([*unshare, "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
        if probe.returncode == 0:
            os.environ["ND_BENCH_NETWORK"] = "own"
            os.execvp(unshare[0], [*unshare, sys.executable, *sys.argv])
    if os.environ["ND_BENCH_NETWORK"] != "own":
        return False
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Congestion control with pacing would limit loopback, and the broker chooses another: the same for everybody.
    with open("/proc/sys/net/ipv4/tcp_congestion_control", "w", encoding="ascii") as file:
        file.write("reno")
    return True


class LoopbackMtu:
    """Inside the block loopback has that MTU; 0 leaves it as it is."""

    def __init__(self, mtu):
        self._mtu = mtu

    def __enter__(self):
        if self._mtu:
            subprocess.run(["ip", "link", "set", "lo", "mtu", str(self._mtu)], check=True)

    def __exit__(self, *_):
        if self._mtu:
            subprocess.run(["ip", "link", "set", "lo", "mtu", "65536"], check=True)


def go_first():
    """Takes precedence over other programs, if this user may. Returns whether that is so."""
    try:
        os.setsid()
    except OSError:
        pass
    try:
        with open("/proc/self/autogroup", "w", encoding="ascii") as file:
            file.write("-10")
    except OSError:
        pass
    try:
        os.nice(-10)
    except OSError:
        return False
    return True

# SPDX-License-Identifier: Apache-2.0
"""The rows of the table, with their goals, and the figures that only the plots need.

Every case has its name only once, so that a case that several rows use is measured once a round.
"""
from model import Case, Row

KI, MI = 1 << 10, 1 << 20
SHM, TCP = "posix,sysv,cma", "tcp"
ACROSS, ONE_CORE = "0,1", "0,0"


def ours(op, metric, size, *flags, mtu=0):
    """`metric` post: the time from posting one request to its completion."""
    unit = {"lat": "us", "post": "us", "bw": "GB/s", "rate": "/s"}[metric]
    name = " ".join(["ours", op, metric, str(size), *flags]) + (f" mtu {mtu}" if mtu else "")
    return Case(name, unit, "ours", (op, metric, size, flags), mtu)


def floor(name, size=8, cpus=ACROSS, unit="us", mtu=0):
    return Case(f"floor {name} {size} {cpus} {unit}" + (f" mtu {mtu}" if mtu else ""), unit, "floor",
                (name, size, cpus), mtu)


def ucx(test, size, tls=SHM):
    unit = "us" if test.endswith("_lat") else "/s" if size == 8 else "GB/s"
    return Case(f"ucx {test} {size} {tls}", unit, "ucx", (test, size, tls))


def ucx_own(what, size, cpus, tls, word="", unit="us"):
    return Case(f"ucx {what} {size} {cpus} {tls} {word} {unit}", unit, "ucx_own", (what, size, cpus, tls, word))


def fabric(what, size, provider):
    return Case(f"libfabric {what} {size} {provider}", "us" if what == "write-lat" else "GB/s", "fabric",
                (what, size, provider))


def fabric_messages(size, provider):
    return Case(f"libfabric messages {size} {provider}", "us", "fabric_messages", (size, provider))


def grpc(what, cpus=ONE_CORE):
    return Case(f"grpc {what} {cpus}", "/s" if what == "calls" else "us", "grpc", (what, cpus))


PINNED = "--pin"
EXACT = ("--batch", "100", PINNED)  # Reading the clock takes as long as a tenth of the message.
TCP_FLAGS = ("--transport", "iwarp", PINNED)
NO_CRC = (*TCP_FLAGS, "--no-crc")


def same_host():
    write8, send8 = ours("write", "lat", 8, *EXACT), ours("send", "lat", 8, *EXACT)
    iceoryx = Case("iceoryx 8", "us", "iceoryx", (8,))
    yield Row("S1", "Write 8 B", write8, 1.6, 1.3, floor("pingpong"))
    yield Row("S2", "Write 8 B", write8, 1.2, 1.0, floor("write", 8), against="UCX put",
              rivals={"UCX put": ucx("ucp_put_lat", 8), "libfabric": fabric("write-lat", 8, "shm")})
    for row, size in (("S3", 8), ("S3b", 64)):
        yield Row(row, f"Send {size} B", ours("send", "lat", size, *EXACT), 0.9, 0.6, floor("ring", size),
                  against="UCX am", rivals={"UCX am": ucx("ucp_am_lat", size), "UCX tag": ucx("tag_lat", size)})
    yield Row("S4", "Write 4 KiB", ours("write", "lat", 4096, *EXACT), 1.2, 1.0, floor("write", 4096),
              against="UCX put", rivals={"UCX put": ucx("ucp_put_lat", 4096)})
    yield Row("S5", "Send 4 KiB", ours("send", "lat", 4096, *EXACT), 0.7, 0.4, floor("ring", 4096),
              against="UCX am", rivals={"UCX am": ucx("ucp_am_lat", 4096), "UCX tag": ucx("tag_lat", 4096)})
    for row, size, text in (("S6", 64 * KI, "64 KiB"), ("S6b", MI, "1 MiB")):
        yield Row(row, f"Write {text}", ours("write", "bw", size, PINNED), 0.88, 0.95,
                  floor("memcpy", size, unit="GB/s"),
                  rivals={"UCX put": ucx("ucp_put_bw", size), "libfabric": fabric("write-bw", size, "shm")})
    for row, size, text, must, goal in (("S7", 64 * KI, "64 KiB", 1.7, 2.1), ("S7b", MI, "1 MiB", 1.3, 1.5)):
        yield Row(row, f"Send {text}", ours("send", "bw", size, PINNED), must, goal,
                  floor("memcpy", size, unit="GB/s"), against="UCX tag", rivals={"UCX tag": ucx("tag_bw", size)})
    for row, size, text in (("S7c", 64 * KI, "64 KiB"), ("S7d", MI, "1 MiB")):
        yield Row(row, f"Send {text}, every byte read", ours("send", "bw", size, "--touch", PINNED), 0.85, 0.95,
                  floor("crossing", size, unit="GB/s"))
    yield Row("S8", "Send 8 B, messages a second", ours("send", "rate", 8, PINNED), 1.5, 2.5,
              floor("rate", unit="/s"), against="UCX tag", rivals={"UCX tag": ucx("tag_bw", 8)})
    for row, label, case, must, goal in (
            ("S9", "AF_UNIX", floor("unix-lat", 64), 1 / 4, 1 / 8), ("S9b", "iceoryx", iceoryx, 1 / 3.5, 1 / 6),
            ("S9c", "libfabric", fabric_messages(8, "shm"), 1 / 1.7, 1 / 3)):
        yield Row(row, "Send 8 B", send8, must, goal, against=label, rivals={label: case})
    for row, text, flags in (("S10", "polls", ()), ("S10b", "sleeps", ("--block",))):
        yield Row(row, f"Write 64 KiB to malloc memory, target {text}",
                  ours("write", "post", 64 * KI, "--malloc", *flags, PINNED), 1.2, 1.05, floor("vmwrite", 64 * KI),
                  rivals={"UCX put": ucx_own("put", 64 * KI, ACROSS, SHM, "user")})
    for row, size, text, must, goal in (("S11", 8, "8 B", 2.0, 1.2), ("S11b", 64 * KI, "64 KiB", 1.1, 1.0)):
        yield Row(row, f"Write {text}, until it completes", ours("write", "post", size, PINNED), must, goal,
                  against="UCX put", rivals={"UCX put": ucx_own("put", size, ACROSS, SHM, "allocated")})


def tcp():
    raw_small = floor("tcp-lat", 64)
    qperf = Case("qperf tcp_lat", "us", "qperf", ("tcp_lat", 64))
    for row, op, size in (("X1", "write", 8), ("X1b", "send", 8), ("X1c", "send", 64)):
        yield Row(row, f"{op.capitalize()} {size} B", ours(op, "lat", size, *TCP_FLAGS), 1.25, 1.1, raw_small,
                  rivals={"UCX tag": ucx("tag_lat", size, TCP), "libfabric": fabric_messages(size, "tcp;ofi_rxm"),
                          "qperf (asleep)": qperf})
    for row, size, text, goal in (("X2", 4096, "4 KiB", 1.05), ("X2b", 64 * KI, "64 KiB", 1.0)):
        yield Row(row, f"Write {text}", ours("write", "lat", size, *TCP_FLAGS), 1.15, goal, floor("tcp-lat", size),
                  rivals={"UCX tag": ucx("tag_lat", size, TCP)})
    stream = floor("tcp-bw", MI, unit="GB/s")
    yield Row("X3", "Write 1 MiB, no CRC", ours("write", "bw", MI, *NO_CRC), 0.78, 0.87, stream,
              rivals={"UCX tag": ucx("tag_bw", MI, TCP), "libfabric": fabric("write-bw", MI, "tcp;ofi_rxm"),
                      "iperf3": Case("iperf3", "GB/s", "iperf3", (MI,))})
    yield Row("X4", "Write 1 MiB, CRC", ours("write", "bw", MI, *TCP_FLAGS), 0.62, 0.72, stream)
    yield Row("X5", "Write 64 KiB, no CRC", ours("write", "bw", 64 * KI, *NO_CRC), 0.75, 0.9,
              floor("tcp-bw", 64 * KI, unit="GB/s"), rivals={"UCX tag": ucx("tag_bw", 64 * KI, TCP)})
    yield Row("X6", "Write 1 MiB, no CRC, MTU 1500", ours("write", "bw", MI, *NO_CRC, mtu=1500), 0.45, 0.55,
              floor("tcp-bw", MI, unit="GB/s", mtu=1500))


def control():
    one, across = ("--cpus", "0,0,0"), ("--cpus", "0,1,0")
    for row, text, flags, cpus in (("C1", "one core", one, ONE_CORE), ("C1b", "two cores", across, ACROSS)):
        yield Row(row, f"connect, same host, {text}", ours("connect", "lat", 64, "--block", *flags), 3, 2,
                  floor("setup-local", cpus=cpus),
                  rivals={"UCX": ucx_own("setup", 36, cpus, TCP),
                          "gRPC channel": grpc("channel", cpus)})
    for row, text, flags, cpus in (("C2", "one core", (*one[:1], "0,0,0,0"), ONE_CORE),
                                   ("C2b", "two cores", (*one[:1], "0,1,0,1"), ACROSS)):
        yield Row(row, f"connect, two brokers, {text}",
                  ours("connect", "lat", 64, "--transport", "iwarp", "--block", *flags), 3, 2,
                  floor("setup-tcp", cpus=cpus))
    for row, text, flags, cpus in (("C3", "one core", one, ONE_CORE), ("C3b", "two cores", across, ACROSS)):
        yield Row(row, f"connections a second, one at a time, {text}",
                  ours("connect", "rate", 64, "--block", "--window", "1", *flags), 0.33, 0.5,
                  floor("setup-local", cpus=cpus, unit="/s"),
                  rivals={"UCX": ucx_own("setup", 36, cpus, TCP, unit="/s")})
    yield Row("C4", "control call, one core", ours("resolve", "lat", 8, "--block", *one), 2, 1.4,
              floor("call", cpus=ONE_CORE), rivals={"gRPC": grpc("call")})
    yield Row("C5", "control calls a second, 8 at once, one core",
              ours("resolve", "rate", 8, "--block", "--window", "8", *one), 3, 5,
              against="gRPC", rivals={"gRPC": grpc("calls")})


def waking():
    for row, text, flags, cpus, must, goal in (
            ("W1", "Notify, two cores", ("--notify", "--cpus", ACROSS), ACROSS, 1.15, 1.05),
            ("W1b", "Notify, one core", ("--notify", "--cpus", ONE_CORE), ONE_CORE, 2, 1.5),
            ("W1c", "Wait, one core", ("--block", "--cpus", ONE_CORE), ONE_CORE, 2, 1.5)):
        yield Row(row, f"Send 8 B to a sleeper: {text}", ours("send", "lat", 8, *flags), must, goal,
                  floor("eventfd", cpus=cpus))


def many(counts, live):
    one = Case("ours 1 busy of 1", "us", "many", (1, counts), once=True)
    for index, count in enumerate(counts):
        yield Row(f"N{index + 1}", f"round trip on one of {count:,} connections",
                  Case(f"ours 1 busy of {count}", "us", "many", (count, counts), once=True), 1.5, 1.5,
                  against="one alone", rivals={"one alone": one})
    few, most = live[0], live[-1]

    def held(what, unit, count=most):
        return Case(f"ours {what} at {count}", unit, "held", (what, count, few), once=True)
    yield Row("L1", f"connect while {most:,} connections live", held("connect", "us"), 1.5, 1.5,
              against=f"{few} live", rivals={f"{few} live": held("connect", "us", few)})
    broker = 64 + most / 1024
    # The difference of two counts that as many processes share, so that it has no part of the processes themselves.
    yield Row("M1", "memory of a client's end",
              Case(f"ours client at {most}", "KiB", "held", ("client", most, live[-2]), once=True), 1, 1, against="limit", limit=24)
    yield Row("M2", f"memory of the broker, {most:,} connections", held("broker", "MiB"), 1, 1, against="limit",
              limit=broker)
    yield Row("M3", "the same after a list of them", held("listed", "MiB"), 1, 1, against="limit", limit=broker)


def build(speed):
    """All rows, in the order of the table."""
    counts = {"tiny": [100], "quick": [100, 1000], "full": [100, 1000]}[speed]
    return [*same_host(), *tcp(), *control(), *waking(), *many(counts, live(speed))]


def live(speed):
    return {"tiny": [2, 20], "quick": [2, 100, 1000], "full": [2, 100, 1000, 10000, 50000]}[speed]


def charts(speed):
    """The plots: for each panel its series, for each series the case at each x."""
    sizes = [8, 64, 4 * KI, 64 * KI, MI]
    if speed == "full":
        sizes = sorted(sizes + [512, 16 * KI, 256 * KI])
    if speed == "tiny":
        sizes = [8, 64 * KI]

    def series(label, make):
        return {"label": label, "points": [[size, make(size)] for size in sizes]}

    def exact(size):
        return EXACT if size <= 4 * KI else (PINNED,)
    return [
        {"file": "bench-latency.svg", "y": "half a round trip, us", "x": "bytes of a message", "panels": [
            {"title": "Latency, same host", "series": [
                series("Write", lambda size: ours("write", "lat", size, *exact(size))),
                series("Send", lambda size: ours("send", "lat", size, *exact(size))),
                series("UCX put", lambda size: ucx("ucp_put_lat", size)),
                series("UCX tag", lambda size: ucx("tag_lat", size)),
                series("floor: store and poll", lambda size: floor("write", size))]},
            {"title": "Latency, TCP", "series": [
                series("Write", lambda size: ours("write", "lat", size, *TCP_FLAGS)),
                series("Send", lambda size: ours("send", "lat", size, *TCP_FLAGS)),
                series("UCX tag", lambda size: ucx("tag_lat", size, TCP)),
                series("floor: raw TCP", lambda size: floor("tcp-lat", max(size, 64)))]}]},
        {"file": "bench-bandwidth.svg", "y": "GB/s", "x": "bytes of a message", "panels": [
            {"title": "Bandwidth, same host", "series": [
                series("Write", lambda size: ours("write", "bw", size, PINNED)),
                series("Send", lambda size: ours("send", "bw", size, PINNED)),
                series("UCX put", lambda size: ucx("ucp_put_bw", size)),
                series("UCX tag", lambda size: ucx("tag_bw", size)),
                series("floor: memcpy", lambda size: floor("memcpy", size, unit="GB/s"))]},
            {"title": "Bandwidth, TCP", "series": [
                series("Write, CRC", lambda size: ours("write", "bw", size, *TCP_FLAGS)),
                series("Write, no CRC", lambda size: ours("write", "bw", size, *NO_CRC)),
                series("UCX tag", lambda size: ucx("tag_bw", size, TCP)),
                series("floor: raw TCP", lambda size: floor("tcp-bw", size, unit="GB/s"))]}]},
        {"file": "bench-setup.svg", "y": "connect, us", "x": "connections that live in the broker", "panels": [
            {"title": "Set-up over live connections, same host", "series": [
                {"label": "connect", "points": [
                    [count, Case(f"ours connect at {count}", "us", "held", ("connect", count, live(speed)[0]),
                                 once=True)] for count in live(speed)]}]}]},
    ]

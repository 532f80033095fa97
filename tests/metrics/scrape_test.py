#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a real broker tells over HTTP, from its first moment through load, deaths, draining and a restart.

Usage: scrape_test.py BINARIES
"""
import contextlib
import json
import os
import re
import resource
import socket
import subprocess
import sys

from harness import World, eventually, start

ADMIN_CONNECTIONS = 64  # admin-connections of [limits], as it is by default.


def check_format(world):
    status, headers, body = world.get("/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4"), headers
    done = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    for line in body.splitlines():
        assert line.startswith("#") or re.fullmatch(r"[a-z_]+(\{.*\})? -?[0-9.e+-]+(Inf|NaN)?", line), line
    # The name of a counter, and no other, ends in _total.
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", body, re.M):
        assert (kind == "counter") == name.endswith("_total"), (name, kind)
    return body


def check_documented(body, operations):
    """Every metric is in the table of docs/operations.md and the reverse."""
    shown = set(re.findall(r"^# TYPE (\S+) ", body, re.M))
    table = set(re.findall(r"^\| `([a-z_]+)`", open(operations).read(), re.M))
    opt_in = {"ndbroker_connection_transmit_bytes_total", "ndbroker_connection_receive_bytes_total"}
    assert shown - opt_in <= table, f"not in the table: {sorted(shown - table)}"
    assert table - opt_in <= shown, f"in the table, but not told: {sorted(table - shown)}"


def check_doors(world):
    """Who is turned away at a socket is counted, by why."""
    refused = "ndbroker_clients_refused_total"
    assert world.sum(refused) == 0 and world.sum("ndbroker_accept_errors_total") == 0
    with contextlib.ExitStack() as stack:
        def knock(name):
            s = stack.enter_context(socket.socket(socket.AF_UNIX))
            s.settimeout(20)
            s.connect(str(world.directory / name))
        for _ in range(ADMIN_CONNECTIONS + 5):
            knock("admin.sock")
        eventually("five too many", lambda: world.sum(refused, socket="admin.sock", reason="user limit") == 5)
        # No free descriptor is left.
        pid = world.broker.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        highest = max(int(fd) for fd in os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1, before[1]))
        # The last descriptor goes to accept() or to the code after it.
        eventually("it is said", lambda: knock("client/broker.sock") or
                   "accept failed: broker.sock" in world.log.read_text())
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        eventually("it is counted", lambda: world.sum(
            "ndbroker_accept_errors_total", socket="broker.sock", error="no descriptors") + world.sum(
                refused, socket="broker.sock", reason="no descriptors") > 0)
    eventually("they are gone", lambda: json.loads(world.ndctl("status", "-o", "json")))


def totals(metrics):
    return {series: value for series, value in metrics.items() if "_total" in series.split("{")[0]}


def main():
    with World(sys.argv[1]) as world:
        check_format(world)
        assert world.get("/livez")[0] == 200
        status, _, body = world.get("/readyz", unix=True)
        assert (status, body) == (200, "Ready.\n"), body
        assert world.get("/metrics", unix=True)[0] == 200
        status, _, body = world.get("/nothing")
        assert status == 404 and "/metrics" in body, body
        status, _, body = world.get("/metrics", headers={"Host": "evil.example"})
        assert status == 421 and "host-names" in body, body
        assert world.get("/metrics", headers={"Host": "evil.example"}, unix=True)[0] == 200

        load = world.load("steady", 4)
        eventually("traffic is seen", lambda: world.sum(
            "ndbroker_application_transmit_bytes_total", application="steady") > 1e5)
        before = totals(world.metrics())
        for op in ("send", "write", "read"):
            assert world.sum("ndbroker_application_messages_total", application="steady", op=op) > 0, op
        # Both ends of each connection are here, so sent and received bytes are equal.
        assert world.sum("ndbroker_adapter_connects_total", role="active") > 4
        assert world.sum("ndbroker_connect_failures_total", detail="no listener", role="active") > 0
        assert world.sum("ndbroker_refusals_total", reason="no listener") > 0
        for phase in ("queue", "reply", "complete", "deliver", "accept", "establish"):
            assert world.sum("ndbroker_handshake_phase_duration_seconds_count", phase=phase) > 0, phase
        assert world.sum("ndbroker_api_requests_total", operation="Connect", status="CONNECTION_REFUSED") > 0
        assert world.sum("ndbroker_application_sessions", application="steady") == 1

        # A slot that is used again starts at 0: no connection has moved more than two rounds.
        world.kill_a_connection()
        eventually("the kill is counted", lambda: world.sum("ndbroker_connections_ended_total", outcome="killed") > 0)
        assert world.sum("ndbroker_admin_requests_total", method="KillConnection", status="SUCCESS") == 1
        world.ndctl("connection", "kill", "c-1", "--yes", ok=False)
        eventually("so is one of nothing", lambda: world.sum(
            "ndbroker_admin_requests_total", method="KillConnection", status="INVALID_HANDLE") == 1)
        # Both sides belonged to this broker, and neither process died.
        ends = {row["detail"] for row in world.history("victim")}
        assert ends == {"local administrator"}, ends
        check_doors(world)
        again = world.load("mortal", 2)
        eventually("it moves something", lambda: world.sum(
            "ndbroker_application_transmit_bytes_total", application="mortal") > 0)
        again.kill()
        again.wait()
        eventually("the death is counted", lambda: world.sum("ndbroker_connections_ended_total", outcome="died") > 0)
        eventually("nothing of it is left", lambda: world.sum(
            "ndbroker_application_connections", application="mortal") == 0)
        assert world.sum("ndbroker_application_transmit_bytes_total", application="mortal") > 0, "totals outlive it"
        after = totals(world.metrics())
        fallen = {s for s in before if after.get(s, 0) < before[s]}
        assert not fallen, f"counters that fell: {fallen}"

        check_documented(check_format(world), sys.argv[2])

        # The sums by application and by adapter are equal, and ndctl shows the same sums.
        load.stdin.close()
        load.wait(20)
        # Compared at rest, because each number is read at a different moment.
        eventually("no connection is left", lambda: world.sum("ndbroker_adapter_connections") == 0)
        by_application = world.sum("ndbroker_application_transmit_bytes_total")
        by_adapter = world.sum("ndbroker_adapter_transmit_bytes_total")
        assert by_application == by_adapter > 0, (by_application, by_adapter)

        # A client that sends nothing, half a request or too much does not disturb the others.
        silent = [socket.create_connection(("127.0.0.1", world.port)) for _ in range(10)]
        silent[0].sendall(b"GET /metr")
        assert world.get("/metrics")[0] == 200
        for s in silent:
            s.settimeout(20)
            assert s.recv(4096).startswith(b"HTTP/1.1 408 "), "told why, and that is all"
            s.close()

        sent = sum(row["tx_bytes"] for row in json.loads(world.ndctl("stats", "--by", "app", "-o", "json"))["items"]
                   if row["name"] != "total")
        assert sent == by_application, (sent, by_application)

        world.ndctl("drain")
        status, _, body = world.get("/readyz")
        assert status == 503 and "draining" in body, body
        world.ndctl("undrain")
        world.ndctl("adapter", "disable", "soft0")
        status, _, body = world.get("/readyz")
        assert status == 503 and "soft0 (disabled)" in body, body
        assert eventually("ready is 0", lambda: world.metrics()["ndbroker_ready"] == 0)
        world.ndctl("adapter", "enable", "soft0")
        assert world.get("/readyz")[0] == 200

        # A second broker finds the port taken: it logs that once and serves its clients.
        log = open(world.work / "second.log", "wb")
        second = start([world.bin / "ndbrokerd", "--config", world.work / "config.toml", "--dir", world.work / "second",
                        "--adapter-address", "127.0.0.3"], stdout=subprocess.PIPE, stderr=log)
        world.callback(world.end, second)
        assert second.stdout.readline().startswith(b"READY")
        text = (world.work / "second.log").read_text()
        assert text.count(f"127.0.0.1:{world.port} is taken by another program") == 1 and "[metrics]" in text, text
        world.end(second)

        world.end(world.broker)
        assert not (world.directory / "metrics.sock").exists()
        world.start_broker()
        assert world.metrics()["ndbroker_sessions_opened_total"] == 0, "a new life begins at zero"

        # Connections survive a killed broker; the next broker counts their traffic from then on.
        def moved():
            survivor.stdin.write(b"x" * 10)
            survivor.stdin.flush()
            for _ in range(10):
                assert survivor.stdout.readline() == b"MOVED\n"
            return 10 * 2 * 2 * 4096  # Rounds, pairs, a send and a write.
        survivor = world.load("survivor", 2, "by-hand")
        sent = moved()
        name = "ndbroker_application_transmit_bytes_total"
        eventually("it is counted", lambda: world.sum(name, application="survivor") == sent)
        world.broker.kill()
        world.broker.wait()
        world.start_broker()
        eventually("they are back", lambda: world.sum("ndbroker_application_connections", application="survivor") == 4)
        eventually("they have settled", lambda: all(
            row["age_seconds"] > 4 for row in world.json("/api/connections", filter="survivor")["items"]))
        world.metrics()
        assert world.sum(name, application="survivor") == 0, "what was moved before was counted before"
        assert world.sum("ndbroker_application_connects_total", application="survivor") == 0
        sent = moved()
        eventually("it is counted again", lambda: world.sum(name, application="survivor") == sent)
    print("scraped")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every alert fires for the host in trouble, and only for that one and not before its time: promtool test rules.

Usage: alerts_test.py RULES_FILE OPERATIONS_MD
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

J = 'job="ndbroker"'
BAD, GOOD = 'instance="bad:1"', 'instance="good:1"'


def both(name, labels, bad, good):
    """The same series of the two hosts; values in promtool's notation, one a minute."""
    labels = f", {labels}" if labels else ""
    return [(f"{name}{{{J}, {BAD}{labels}}}", bad), (f"{name}{{{J}, {GOOD}{labels}}}", good)]


A = 'adapter="soft0"'
APP = 'application="kv", uid="1000", unit="", container=""'
# alert -> (series, minutes until it fires, minutes at which it must not fire yet)
CASES = {
    "NdbrokerDown": (both("up", "", "1x5 0x60", "1x65"), 8, 5),
    "NdbrokerRestartLoop": (both("process_start_time_seconds", "", "100 200 300 400 500 600x60", "100x65"), 6, 2),
    "NdbrokerNotReady": (both("ndbroker_ready", "", "1x5 0x60", "0x65") + both("ndbroker_draining", "", "0x65", "1x65"),
                         9, 6),
    "NdbrokerDraining": (both("ndbroker_draining", "", "1x90", "0x90"), 62, 50),
    "NdbrokerAdapterDown": (both("ndbroker_adapter_up", A, "0x60", "1x60"), 6, 3),
    "NdbrokerConnectFailures": (both("ndbroker_adapter_connect_failures_total", A, "0+30x60", "0+30x60") +
                                both("ndbroker_adapter_connects_total", A + ', role="active"', "0+60x60", "0+600x60"),
                                10, 3),
    "NdbrokerConnectionsBreak": (both("ndbroker_adapter_connection_errors_total", A, "0+60x60", "0+1x60"), 10, 3),
    "NdbrokerSlowHandshakes": (
        both("ndbroker_handshake_phase_duration_seconds_bucket", 'role="active", phase="connect", le="0.64"',
             "0x60", "0+60x60") +
        both("ndbroker_handshake_phase_duration_seconds_bucket", 'role="active", phase="connect", le="2.5"',
             "0+60x60", "0+60x60") +
        both("ndbroker_handshake_phase_duration_seconds_bucket", 'role="active", phase="connect", le="+Inf"',
             "0+60x60", "0+60x60"), 15, 8),
    "NdbrokerBacklogFull": (both("ndbroker_refusals_total", 'reason="backlog full"', "0+60x60", "0+1x60"), 10, 3),
    "NdbrokerOperationErrors": (both("ndbroker_application_operation_errors_total", APP, "0+600x60", "0+600x60") +
                                both("ndbroker_application_messages_total", APP + ', direction="transmit", op="send"',
                                     "0+6000x60", "0+600000x60"), 15, 8),
    "NdbrokerStalls": (both("ndbroker_application_stalls_total", APP, "0+60000x60", "0+60000x60") +
                       both("ndbroker_application_messages_total", APP + ', direction="transmit", op="send"',
                            "0+60000x60", "0+6000000x60"), 15, 8),
    "NdbrokerQuotaDenied": (both("ndbroker_api_requests_total",
                                 'operation="CreateConnector", status="INSUFFICIENT_RESOURCES", detail="quota"',
                                 "0+60x60", "0x60"), 10, 3),
    "NdbrokerPolicyDenied": (both("ndbroker_api_requests_total",
                                  'operation="Connect", status="ACCESS_DENIED", detail="policy"', "0+60x60", "0x60"),
                             10, 3),
    "NdbrokerClientsExpelled": (both("ndbroker_sessions_ended_total", 'status="INVALID_PARAMETER"', "0+60x60", "0x60") +
                                both("ndbroker_sessions_ended_total", 'status="CONNECTION_DISCONNECTED"',
                                     "0+600x60", "0+600x60"), 10, 3),
    "NdbrokerClientsTurnedAway": (both("ndbroker_clients_refused_total", 'socket="broker.sock", reason="user limit"',
                                       "0+60x60", "0+1x60"), 10, 3),
    "NdbrokerAcceptFails": (both("ndbroker_accept_errors_total", 'socket="peers", error="no descriptors"',
                                 "0x5 3x60", "3x60"), 7, 4),
    "NdbrokerImplausibleCounters": (both("ndbroker_implausible_readings_total", "", "0x5 1x60", "0x60"), 8, 4),
    "NdbrokerDescriptorsNearLimit": (both("process_open_fds", "", "900x60", "500x60") +
                                     both("process_max_fds", "", "1024x60", "1024x60"), 6, 3),
    "NdbrokerLoopStalls": (both("ndbroker_loop_round_duration_seconds_count", "", "0+660x60", "0+600x60") +
                           both("ndbroker_loop_round_duration_seconds_bucket", 'le="0.1"', "0+600x60", "0+600x60"),
                           10, 3),
    "NdbrokerLoopStalled": (both("ndbroker_loop_round_duration_seconds_bucket", 'le="1"', "0+600x60", "0+600x60") +
                            both("ndbroker_loop_round_duration_seconds_bucket", 'le="10"',
                                 "0 600 1201+600x60", "0+600x60") +
                            both("ndbroker_loop_round_duration_seconds_bucket", 'le="+Inf"',
                                 "0 600 1201+600x60", "0+600x60"), 4, 1),
    "NdbrokerThreadStuck": (both("ndbroker_thread_stuck", 'thread="loop"', "0x1 1x60", "0x60"), 3, 0),
    "NdbrokerLoopBusy": (both("ndbroker_loop_round_duration_seconds_sum", "", "0+55x60", "0+5x60"), 15, 8),
    "NdbrokerJournalTrouble": (both("ndbroker_journal_writing", "", "0x60", "1x60"), 6, 3),
    "NdbrokerHistoryTrouble": (both("ndbroker_history_writing", "", "0x60", "1x60") +
                               both("ndbroker_history_rows_dropped_total", "", "0x60", "0x60"), 6, 3),
    "NdbrokerVersionSkew": ([(f'ndbroker_build_info{{{J}, {BAD}, version="1"}}', "1x1500"),
                             (f'ndbroker_build_info{{{J}, {GOOD}, version="2"}}', "1x1500")], 1445, 1400),
}


def main():
    rules, operations = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
    text = rules.read_text()
    alerts = re.findall(r"- alert: (\w+)", text)
    problems = []
    if set(alerts) != set(CASES):
        problems.append(f"alerts and cases differ: {sorted(set(alerts) ^ set(CASES))}")
    # The anchor of a heading: lower case, blanks become hyphens, other characters except letters and digits are
    # dropped.
    anchors = set()
    for heading in re.findall(r"^#+ (.*)$", operations.read_text(), re.M):
        anchors.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    for file, anchor in re.findall(r"runbook: docs/(\S+)#(\S+)", text):
        if file != operations.name or anchor not in anchors:
            problems.append(f"the runbook docs/{file}#{anchor} is not there")
    if len(re.findall("runbook:", text)) != len(alerts):
        problems.append("an alert has no runbook")

    tests = []
    for name, (series, fires, not_yet) in CASES.items():
        where = "by (job)" if name == "NdbrokerVersionSkew" else "by (instance)"
        label = '{job="ndbroker"}' if name == "NdbrokerVersionSkew" else '{instance="bad:1"}'
        firing = f'count {where} (ALERTS{{alertname="{name}", alertstate="firing"}})'
        tests.append({
            "interval": "1m",
            "input_series": [{"series": s, "values": v} for s, v in series],
            "promql_expr_test": [
                {"expr": firing, "eval_time": f"{fires}m", "exp_samples": [{"labels": label, "value": 1}]},
                {"expr": firing, "eval_time": f"{not_yet}m", "exp_samples": []},
            ],
        })
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        # JSON is YAML.
        json.dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}, file)
        file.flush()
        done = subprocess.run(["promtool", "test", "rules", file.name], capture_output=True, text=True)
    if done.returncode != 0:
        problems.append(done.stdout + done.stderr)
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(CASES)} alerts fire, and only where they should")


if __name__ == "__main__":
    main()

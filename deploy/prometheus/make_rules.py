#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes ndbroker.rules.yml from the table below; --check: says whether the file is what this would write.

One place for an alert keeps its summary, its description and its chapter in docs/operations.md together.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
JOB = 'job="ndbroker"'

# name, for, severity, expression, summary, description
ALERTS = [
    ("NdbrokerDown", "1m", "critical", f"up{{{JOB}}} == 0",
     "ndbroker on {{ $labels.instance }} does not answer",
     "Established connections continue; new ones are not possible."),
    ("NdbrokerRestartLoop", "0m", "critical", f"changes(process_start_time_seconds{{{JOB}}}[15m]) > 3",
     "ndbroker on {{ $labels.instance }} has started {{ $value }} times in 15 minutes",
     "It ends soon after it starts. The log has the reason."),
    ("NdbrokerNotReady", "2m", "critical", f"ndbroker_ready{{{JOB}}} == 0 unless ndbroker_draining{{{JOB}}} == 1",
     "ndbroker on {{ $labels.instance }} takes no new work",
     "No adapter is usable. /readyz reports the reasons."),
    ("NdbrokerDraining", "1h", "info", f"ndbroker_draining{{{JOB}}} == 1",
     "ndbroker on {{ $labels.instance }} has been draining for an hour",
     "'ndctl drain' was run and possibly forgotten."),
    ("NdbrokerAdapterDown", "5m", "warning", f"ndbroker_adapter_up{{{JOB}}} == 0",
     "Adapter {{ $labels.adapter }} on {{ $labels.instance }} is not usable",
     "It is disabled or has no address."),
    ("NdbrokerConnectFailures", "5m", "warning",
     f"""sum by (instance, adapter) (rate(ndbroker_adapter_connect_failures_total{{{JOB}}}[5m]))
  / (sum by (instance, adapter) (rate(ndbroker_adapter_connect_failures_total{{{JOB}}}[5m]))
     + sum by (instance, adapter) (rate(ndbroker_adapter_connects_total{{{JOB}}}[5m]))) > 0.2
and sum by (instance, adapter) (rate(ndbroker_adapter_connect_failures_total{{{JOB}}}[5m])) > 0.05""",
     "{{ $value | humanizePercentage }} of the attempts on {{ $labels.instance }} fail",
     "More than a fifth of the connects and accepts on adapter {{ $labels.adapter }} fail."),
    ("NdbrokerConnectionsBreak", "5m", "warning",
     f"sum by (instance, adapter) (rate(ndbroker_adapter_connection_errors_total{{{JOB}}}[5m])) > 0.1",
     "Connections on {{ $labels.instance }} break",
     "{{ $value | humanize }} a second on adapter {{ $labels.adapter }} end without a goodbye."),
    ("NdbrokerSlowHandshakes", "10m", "warning",
     f"""histogram_quantile(0.99, sum by (instance, le) (
  rate(ndbroker_handshake_phase_duration_seconds_bucket{{{JOB}, phase="connect"}}[5m]))) > 1""",
     "Peers of {{ $labels.instance }} answer slowly",
     "One handshake in a hundred waits {{ $value | humanizeDuration }} for the host of the peer, without the time of applications."),
    ("NdbrokerBacklogFull", "5m", "warning",
     f'sum by (instance) (rate(ndbroker_refusals_total{{{JOB}, reason="backlog full"}}[5m])) > 0.1',
     "Applications on {{ $labels.instance }} do not take their connection requests",
     "{{ $value | humanize }} requests a second are refused because a listener's queue is full."),
    ("NdbrokerOperationErrors", "10m", "warning",
     f"""sum by (instance, application) (rate(ndbroker_application_operation_errors_total{{{JOB}}}[5m]))
  > 0.01 * sum by (instance, application) (rate(ndbroker_application_messages_total{{{JOB}}}[5m]))
and sum by (instance, application) (rate(ndbroker_application_operation_errors_total{{{JOB}}}[5m])) > 1""",
     "Work requests of {{ $labels.application }} on {{ $labels.instance }} fail",
     "{{ $value | humanize }} a second end in error, more than one in a hundred."),
    ("NdbrokerStalls", "10m", "info",
     f"""sum by (instance, application) (rate(ndbroker_application_stalls_total{{{JOB}}}[5m]))
  > 0.5 * sum by (instance, application) (rate(ndbroker_application_messages_total{{{JOB}, direction="transmit"}}[5m]))
and sum by (instance, application) (rate(ndbroker_application_stalls_total{{{JOB}}}[5m])) > 100""",
     "{{ $labels.application }} on {{ $labels.instance }} waits for room to send",
     "More than half of what it sends finds the ring or the window full: the receiver is slower than the sender."),
    ("NdbrokerQuotaDenied", "5m", "warning",
     f'sum by (instance, operation) (rate(ndbroker_api_requests_total{{{JOB}, detail="quota"}}[5m])) > 0.05',
     "Quotas on {{ $labels.instance }} refuse operations of clients",
     "{{ $labels.operation }} is refused {{ $value | humanize }} times a second."),
    ("NdbrokerPolicyDenied", "5m", "info",
     f'sum by (instance, operation) (rate(ndbroker_api_requests_total{{{JOB}, detail="policy"}}[5m])) > 0.05',
     "The policy on {{ $labels.instance }} refuses operations of clients",
     "{{ $labels.operation }} is refused {{ $value | humanize }} times a second."),
    ("NdbrokerClientsExpelled", "5m", "warning",
     f"""sum by (instance) (rate(
  ndbroker_sessions_ended_total{{{JOB}, status!~"SUCCESS|CONNECTION_DISCONNECTED"}}[5m])) > 0.05""",
     "Clients on {{ $labels.instance }} break the protocol or do not read",
     "{{ $value | humanize }} sessions a second are ended by the broker or the administrator."),
    ("NdbrokerClientsTurnedAway", "5m", "warning",
     f"""sum by (instance, socket, reason) (rate(
  ndbroker_clients_refused_total{{{JOB}, reason!="no descriptors"}}[5m])) > 0.05""",
     "{{ $labels.socket }} on {{ $labels.instance }} refuses clients: {{ $labels.reason }}",
     "{{ $value | humanize }} connections a second are closed before they have a session."),
    ("NdbrokerAcceptFails", "0m", "critical",
     f"""sum by (instance, socket, error) (increase(ndbroker_accept_errors_total{{{JOB}}}[5m])) > 0
  or sum by (instance, socket) (
    increase(ndbroker_clients_refused_total{{{JOB}, reason="no descriptors"}}[5m])) > 0""",
     "ndbroker on {{ $labels.instance }} cannot accept connections at {{ $labels.socket }}",
     "accept() failed {{ $value | humanize }} times in 5 minutes: {{ or $labels.error \"no descriptors\" }}."),
    ("NdbrokerImplausibleCounters", "0m", "info",
     f"increase(ndbroker_implausible_readings_total{{{JOB}}}[1h]) > 0",
     "A client on {{ $labels.instance }} reports traffic that no hardware can move",
     "A counters page is damaged or forged. Totals do not include the excess."),
    ("NdbrokerDescriptorsNearLimit", "5m", "warning",
     f"process_open_fds{{{JOB}}} / process_max_fds{{{JOB}}} > 0.8",
     "ndbroker on {{ $labels.instance }} runs out of descriptors",
     "{{ $value | humanizePercentage }} are open. At 100 % new clients are refused."),
    ("NdbrokerLoopStalls", "5m", "warning",
     f"""rate(ndbroker_loop_round_duration_seconds_count{{{JOB}}}[5m])
  - ignoring(le) rate(ndbroker_loop_round_duration_seconds_bucket{{{JOB}, le="0.1"}}[5m]) > 0.02""",
     "The loop of ndbroker on {{ $labels.instance }} is slow",
     "Rounds of more than 100 ms, {{ $value | humanize }} a second: every client waits that long."),
    ("NdbrokerLoopStalled", "0m", "warning",
     f"""histogram_quantile(1, sum by (instance, le) (
  increase(ndbroker_loop_round_duration_seconds_bucket{{{JOB}}}[5m]))) > 1""",
     "The loop of ndbroker on {{ $labels.instance }} stood still",
     "The longest round of the last 5 minutes took up to {{ $value | humanizeDuration }}: every client waited that long."),
    ("NdbrokerThreadStuck", "0m", "critical", f"ndbroker_thread_stuck{{{JOB}}} == 1",
     "The thread \"{{ $labels.thread }}\" of ndbroker on {{ $labels.instance }} does not answer",
     "/livez answers 503 and the watchdog of systemd is not fed; established connections continue."),
    ("NdbrokerLoopBusy", "10m", "warning", f"rate(ndbroker_loop_round_duration_seconds_sum{{{JOB}}}[5m]) > 0.8",
     "ndbroker on {{ $labels.instance }} is at its limit",
     "Its loop works {{ $value | humanizePercentage }} of the time."),
    ("NdbrokerJournalTrouble", "5m", "warning", f"ndbroker_journal_writing{{{JOB}}} == 0",
     "ndbroker on {{ $labels.instance }} cannot keep its leases",
     "If it ended now, ports would not be kept for their owners."),
    ("NdbrokerHistoryTrouble", "5m", "warning",
     f"""ndbroker_history_writing{{{JOB}}} == 0
  or rate(ndbroker_history_rows_dropped_total{{{JOB}}}[5m]) > 0""",
     "ndbroker on {{ $labels.instance }} loses its history",
     "Past connections are not recorded. Other functions are not affected."),
    ("NdbrokerVersionSkew", "24h", "info",
     f"count by (job) (count by (job, version) (ndbroker_build_info{{{JOB}}})) > 1",
     "{{ $value }} versions of ndbroker are running",
     "An upgrade may have stopped half-way."),
]


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def render():
    out = ["# Written by make_rules.py; change it there.", "groups:", "  - name: ndbroker", "    rules:"]
    for name, wait, severity, expression, summary, description in ALERTS:
        out += [f"      - alert: {name}", "        expr: |-"]
        out += ["          " + line for line in expression.split("\n")]
        out += [f"        for: {wait}", "        labels:", f"          severity: {severity}", "        annotations:",
                f"          summary: {quoted(summary)}", f"          description: {quoted(description)}",
                f"          runbook: docs/operations.md#{name.lower()}"]
    return "\n".join(out) + "\n"


def main():
    path = HERE / "ndbroker.rules.yml"
    if sys.argv[1:] == ["--check"]:
        if path.read_text() != render():
            sys.exit(f"{path.name} is not what make_rules.py writes; run it")
        return
    if sys.argv[1:]:
        sys.exit("usage: make_rules.py [--check]")
    path.write_text(render())


if __name__ == "__main__":
    main()

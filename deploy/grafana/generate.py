#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the Grafana dashboards beside it; --check: says whether the files are what this would write.

Every expression goes by the job name "ndbroker" and, below the fleet, by the variables of the board.
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
FLEET = 'job="ndbroker"'
HOST = 'job="ndbroker", instance=~"$instance"'
APP = HOST + ', application=~"$application", uid=~"$uid"'
RATE = "[$__rate_interval]"
BOARDS = {"fleet": "Fleet", "host": "Host", "application": "Application", "troubleshooting": "Troubleshooting"}


class Board:
    """Lays panels out in rows of 24 columns."""

    def __init__(self, name, description, variables):
        self.name, self.description, self.variables = name, description, variables
        self.panels, self.x, self.y, self.height = [], 0, 0, 0

    def row(self, title):
        self._end_line()
        self.panels.append({"id": len(self.panels) + 1, "type": "row", "title": title, "collapsed": False, "panels": [],
                            "gridPos": {"h": 1, "w": 24, "x": 0, "y": self.y}})
        self.y += 1

    def _end_line(self):
        self.y += self.height
        self.x = self.height = 0

    def add(self, kind, title, description, targets, unit, width=12, height=8, options=None, custom=None, thresholds=None,
            links=None):
        if self.x + width > 24:
            self._end_line()
        if not thresholds or thresholds[0][1] is not None:
            thresholds = [("green", None)] + (thresholds or [])
        steps = [{"color": c, "value": v} for c, v in thresholds]
        defaults = {"unit": unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}, "mappings": []}
        if custom:
            defaults["custom"] = custom
        if links:
            defaults["links"] = links
        panel = {
            "id": len(self.panels) + 1, "type": kind, "title": title, "description": description,
            "datasource": DATASOURCE, "gridPos": {"h": height, "w": width, "x": self.x, "y": self.y},
            "fieldConfig": {"defaults": defaults, "overrides": []}, "options": options or {},
            "targets": [{"refId": chr(ord("A") + i), "datasource": DATASOURCE, "expr": expr, "legendFormat": legend,
                         **({"format": "table", "instant": True} if kind == "table" else
                            {"instant": True} if kind == "stat" else {"range": True}),
                         **({"format": "heatmap"} if kind == "heatmap" else {})}
                        for i, (expr, legend) in enumerate(targets)],
        }
        self.panels.append(panel)
        self.x += width
        self.height = max(self.height, height)
        return panel

    def graph(self, title, description, targets, unit, stacked=False, **rest):
        custom = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 25 if stacked else 8, "showPoints": "never",
                  "stacking": {"mode": "normal" if stacked else "none", "group": "A"}}
        options = {"legend": {"displayMode": "table", "placement": "bottom", "showLegend": True,
                              "calcs": ["mean", "max"]},
                   "tooltip": {"mode": "multi", "sort": "desc"}}
        return self.add("timeseries", title, description, targets, unit, options=options, custom=custom, **rest)

    def stat(self, title, description, expr, unit, thresholds=None, width=4):
        options = {"colorMode": "value" if thresholds else "none", "graphMode": "none", "textMode": "auto",
                   "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
        return self.add("stat", title, description, [(expr, "")], unit, width=width, height=4, options=options,
                        thresholds=thresholds)

    def table(self, title, description, targets, unit, links=None, **rest):
        panel = self.add("table", title, description, targets, unit, options={"showHeader": True}, links=links, **rest)
        panel["transformations"] = [{"id": "merge", "options": {}},
                                    {"id": "organize", "options": {"excludeByName": {"Time": True, "job": True,
                                                                                     "__name__": True}}}]
        return panel

    def heatmap(self, title, description, expr, **rest):
        options = {"calculate": False, "color": {"mode": "scheme", "scheme": "Turbo", "steps": 64},
                   "yAxis": {"unit": "s"}, "tooltip": {"mode": "single", "yHistogram": True}}
        return self.add("heatmap", title, description, [(expr, "{{le}}")], "s", options=options, **rest)

    def render(self):
        return json.dumps({
            "uid": f"ndbroker-{self.name}", "title": f"ndbroker / {BOARDS[self.name]}", "description": self.description,
            "tags": ["ndbroker"], "schemaVersion": 38, "version": 1, "editable": True, "graphTooltip": 1,
            "refresh": "30s", "time": {"from": "now-1h", "to": "now"}, "timezone": "browser", "weekStart": "",
            "fiscalYearStartMonth": 0, "liveNow": False, "style": "dark", "timepicker": {},
            "annotations": {"list": [
                {"name": "Starts of the broker", "datasource": DATASOURCE, "enable": True, "iconColor": "blue",
                 "expr": f"changes(process_start_time_seconds{{{FLEET}}}[1m]) > 0",
                 "titleFormat": "ndbroker started on {{instance}}"}]},
            "links": [{"type": "dashboards", "tags": ["ndbroker"], "title": "ndbroker", "asDropdown": True,
                       "includeVars": True, "keepTime": True, "icon": "external link", "targetBlank": False,
                       "tooltip": "", "url": ""}],
            "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source",
                                     "current": {}, "hide": 0, "regex": "", "refresh": 1, "options": []}] +
                           self.variables},
            "panels": self.panels,
        }, indent=1, sort_keys=True) + "\n"


def variable(name, label, query, multi=True):
    return {"name": name, "label": label, "type": "query", "datasource": DATASOURCE, "hide": 0, "refresh": 2, "sort": 1,
            "definition": query, "query": {"query": query, "refId": "variable"}, "multi": multi, "includeAll": multi,
            "allValue": ".*" if multi else None, "current": {"selected": True, "text": "All", "value": "$__all"} if multi else {},
            "regex": "", "options": [], "skipUrlSync": False}


INSTANCE = variable("instance", "Host", f"label_values(ndbroker_build_info{{{FLEET}}}, instance)")
APPLICATION = variable("application", "Application", f"label_values(ndbroker_application_connections{{{HOST}}}, application)")
UID = variable("uid", "User", f"label_values(ndbroker_application_connections{{{HOST}}}, uid)")
TO_HOST = [{"title": "Host ${__data.fields.instance}", "targetBlank": False,
            "url": "/d/ndbroker-host?var-instance=${__data.fields.instance}&${__url_time_range}"}]
TO_APP = [{"title": "Application ${__data.fields.application}", "targetBlank": False,
           "url": "/d/ndbroker-application?var-application=${__data.fields.application}&${__url_time_range}"}]


def quantile(q, metric, labels, by="le"):
    return f"histogram_quantile({q}, sum by ({by}) (rate(ndbroker_{metric}_bucket{{{labels}}}{RATE})))"


def ratio_failed(labels, by):
    failed = f"sum by ({by}) (rate(ndbroker_adapter_connect_failures_total{{{labels}}}{RATE}))"
    done = f"sum by ({by}) (rate(ndbroker_adapter_connects_total{{{labels}}}{RATE}))"
    return f"{failed} / ({failed} + {done})"


def fleet():
    b = Board("fleet", "All hosts that run ndbroker: which are up, how much they move, where connecting fails.", [])
    b.stat("Hosts up", "Brokers that answer.", f"sum(up{{{FLEET}}})", "none")
    b.stat("Hosts down", "Brokers that do not answer. Connections that are up there go on.",
           f"count(up{{{FLEET}}} == 0) or vector(0)", "none", [("red", 1)])
    b.stat("Not ready", "Brokers that take no new work: no usable adapter, or draining.",
           f"count(ndbroker_ready{{{FLEET}}} == 0) or vector(0)", "none", [("orange", 1)])
    b.stat("Connections", "Established connections; one between two hosts counts on both.",
           f"sum(ndbroker_adapter_connections{{{FLEET}}})", "short")
    b.stat("Clients", "Processes with a session.", f"sum(ndbroker_sessions{{{FLEET}}})", "short")
    b.stat("Versions", "Different versions that run; more than one during an upgrade.",
           f"count(count by (version) (ndbroker_build_info{{{FLEET}}}))", "none", [("orange", 2)])
    b.row("Traffic and connections")
    b.graph("Sent by host", "Bytes that queue pairs sent.",
            [(f"sum by (instance) (rate(ndbroker_adapter_transmit_bytes_total{{{FLEET}}}{RATE}))", "{{instance}}")], "Bps",
            stacked=True)
    b.graph("Connections by host", "Established connections.",
            [(f"sum by (instance) (ndbroker_adapter_connections{{{FLEET}}})", "{{instance}}")], "short", stacked=True)
    b.graph("New connections", "Connections established a second, both sides.",
            [(f"sum by (instance) (rate(ndbroker_adapter_connects_total{{{FLEET}}}{RATE}))", "{{instance}}")], "cps")
    b.graph("Attempts that fail", "Share of connects and accepts that come to nothing.",
            [(ratio_failed(FLEET, "instance"), "{{instance}}")], "percentunit")
    b.row("Hosts")
    b.table("Hosts", "One line for each host; click for its board.",
            [(f"sum by (instance, version) (ndbroker_build_info{{{FLEET}}})", ""),
             (f"sum by (instance) (ndbroker_adapter_connections{{{FLEET}}})", ""),
             (f"sum by (instance) (ndbroker_ready{{{FLEET}}})", "")], "short", links=TO_HOST, width=12, height=9)
    b.table("Applications that move most", "Bytes a second, sent and received, over all hosts.",
            [(f"topk(20, sum by (application, uid) (rate(ndbroker_application_transmit_bytes_total{{{FLEET}}}{RATE})"
              f" + rate(ndbroker_application_receive_bytes_total{{{FLEET}}}{RATE})))", "")], "Bps", links=TO_APP,
            width=12, height=9)
    return b


def host():
    b = Board("host", "One host's broker: its adapters, clients, handshakes and its own health.", [INSTANCE])
    b.stat("Ready", "1: new work is taken.", f"min(ndbroker_ready{{{HOST}}})", "none", [("red", None), ("green", 1)])
    b.stat("Connections", "Established connections.", f"sum(ndbroker_adapter_connections{{{HOST}}})", "short")
    b.stat("Clients", "Processes with a session.", f"sum(ndbroker_sessions{{{HOST}}})", "short")
    b.stat("Listeners", "Listeners of all adapters.", f"sum(ndbroker_listeners{{{HOST}}})", "short")
    b.stat("Waiting operations", "Operations not answered yet; waiting for a request or an end is normal.",
           f"sum(ndbroker_api_pending_operations{{{HOST}}})", "short")
    b.stat("Up since", "Time since the broker started.", f"time() - min(process_start_time_seconds{{{HOST}}})", "s")
    b.row("Traffic")
    b.graph("Throughput by adapter", "Bytes that queue pairs moved, by adapter and transport.",
            [(f"sum by (adapter, transport) (rate(ndbroker_adapter_transmit_bytes_total{{{HOST}}}{RATE}))",
              "{{adapter}} {{transport}} sent"),
             (f"sum by (adapter, transport) (rate(ndbroker_adapter_receive_bytes_total{{{HOST}}}{RATE}))",
              "{{adapter}} {{transport}} received")], "Bps")
    b.graph("Messages by kind", "Work that queue pairs did.",
            [(f"sum by (direction, op) (rate(ndbroker_adapter_messages_total{{{HOST}}}{RATE}))", "{{direction}} {{op}}")],
            "ops", stacked=True)
    b.graph("Throughput by application", "The ten that move most.",
            [(f"topk(10, sum by (application, uid) (rate(ndbroker_application_transmit_bytes_total{{{HOST}}}{RATE})))",
              "{{application}} ({{uid}})")], "Bps", stacked=True)
    b.graph("Connections by application", "The ten that have most.",
            [(f"topk(10, sum by (application, uid) (ndbroker_application_connections{{{HOST}}}))",
              "{{application}} ({{uid}})")], "short", stacked=True)
    b.row("Connecting")
    b.graph("New connections", "By side: active connects, passive accepts.",
            [(f"sum by (role) (rate(ndbroker_adapter_connects_total{{{HOST}}}{RATE}))", "{{role}}")], "cps")
    b.graph("Handshakes", "From Connect to established, waiting for applications included.",
            [(quantile(q, "handshake_duration_seconds", HOST, "le, role"), "{{role}} " + name)
             for q, name in ((0.5, "median"), (0.99, "99 %"))], "s")
    b.graph("Listeners' queues", "Requests that wait for an application, of all that may.",
            [(f"sum by (adapter) (ndbroker_listener_backlog_used{{{HOST}}})", "{{adapter}} waiting"),
             (f"sum by (adapter) (ndbroker_listener_backlog_limit{{{HOST}}})", "{{adapter}} limit")], "short")
    b.graph("Handshakes on the wire", "In progress now.",
            [(f"sum by (instance) (ndbroker_handshakes_in_progress{{{HOST}}})", "{{instance}}")], "short")
    b.row("The broker itself")
    b.graph("Descriptors", "Open, of all that may be.",
            [(f"process_open_fds{{{HOST}}}", "{{instance}} open"), (f"process_max_fds{{{HOST}}}", "{{instance}} limit")],
            "short")
    b.graph("Accept errors", "Connections that a listening socket could not take in; peers: from other hosts.",
            [(f"sum by (instance, socket, error) (rate(ndbroker_accept_errors_total{{{HOST}}}{RATE}))",
              "{{instance}} {{socket}}: {{error}}")], "ops")
    b.graph("Memory", "Resident.", [(f"process_resident_memory_bytes{{{HOST}}}", "{{instance}}")], "bytes")
    b.graph("CPU", "CPU time a second, and the part of it that its loop worked.",
            [(f"rate(process_cpu_seconds_total{{{HOST}}}{RATE})", "{{instance}} all"),
             (f"rate(ndbroker_loop_round_duration_seconds_sum{{{HOST}}}{RATE})", "{{instance}} loop")], "percentunit")
    b.graph("Held up", "The longest round of the loop, and the 99th percentile: every client waits meanwhile.",
            [(quantile(1, "loop_round_duration_seconds", HOST), "longest"),
             (quantile(0.99, "loop_round_duration_seconds", HOST), "p99")], "s")
    b.graph("Answer times", "99th percentile by operation, of those that wait for nobody.",
            [(quantile(0.99, "api_request_duration_seconds",
                       HOST + ', operation!~"Connect|Accept|CompleteConnect|GetConnectionRequest|NotifyDisconnect|Disconnect"',
                       "le, operation"), "{{operation}}")], "s")
    b.graph("Ephemeral ports", "In use, over all addresses of the adapter.",
            [(f"sum by (adapter) (ndbroker_adapter_ephemeral_ports_used{{{HOST}}})", "{{adapter}}")], "short")
    return b


def application():
    b = Board("application", "One application on the hosts where it runs: what it moves and how its connections go.",
              [INSTANCE, APPLICATION, UID])
    b.stat("Connections", "Established connections.", f"sum(ndbroker_application_connections{{{APP}}})", "short")
    b.stat("Clients", "Processes with a session.", f"sum(ndbroker_application_sessions{{{APP}}})", "short")
    b.stat("Sent", "Bytes a second.", f"sum(rate(ndbroker_application_transmit_bytes_total{{{APP}}}{RATE}))", "Bps")
    b.stat("Received", "Bytes a second.", f"sum(rate(ndbroker_application_receive_bytes_total{{{APP}}}{RATE}))", "Bps")
    b.stat("Failed attempts", "In the last hour.",
           f"sum(increase(ndbroker_application_connect_failures_total{{{APP}}}[1h]))", "short", [("orange", 1)])
    b.stat("Broken", "Connections that ended without a goodbye in the last hour.",
           f"sum(increase(ndbroker_application_connection_errors_total{{{APP}}}[1h]))", "short", [("orange", 1)])
    b.row("Traffic")
    for direction, name in (("transmit", "Sent"), ("receive", "Received")):
        b.graph(name, "Bytes a second by host.",
                [(f"sum by (instance) (rate(ndbroker_application_{direction}_bytes_total{{{APP}}}{RATE}))", "{{instance}}")],
                "Bps", stacked=True)
    b.graph("Messages by kind", "Sends, writes and reads.",
            [(f"sum by (direction, op) (rate(ndbroker_application_messages_total{{{APP}}}{RATE}))", "{{direction}} {{op}}")],
            "ops", stacked=True)
    b.graph("Size of messages", "Bytes by message sent.",
            [(f"sum by (instance) (rate(ndbroker_application_transmit_bytes_total{{{APP}}}{RATE}))"
              f" / sum by (instance) (rate(ndbroker_application_messages_total{{{APP}, direction=\"transmit\"}}{RATE}))",
              "{{instance}}")], "bytes")
    b.row("Connections")
    b.graph("Connections", "Established, by host, unit and container.",
            [(f"sum by (instance, unit, container) (ndbroker_application_connections{{{APP}}})",
              "{{instance}} {{unit}} {{container}}")], "short", stacked=True)
    b.graph("New connections", "By side.",
            [(f"sum by (role) (rate(ndbroker_application_connects_total{{{APP}}}{RATE}))", "{{role}}")], "cps")
    b.graph("Trouble", "Attempts that fail, connections that break, work requests that end in error.",
            [(f"sum(rate(ndbroker_application_connect_failures_total{{{APP}}}{RATE}))", "failed attempts"),
             (f"sum(rate(ndbroker_application_connection_errors_total{{{APP}}}{RATE}))", "broken connections"),
             (f"sum(rate(ndbroker_application_operation_errors_total{{{APP}}}{RATE}))", "work requests in error")], "ops")
    b.graph("Waiting", "Sends that found no room, and wake-ups of the progress thread.",
            [(f"sum(rate(ndbroker_application_stalls_total{{{APP}}}{RATE}))", "stalls"),
             (f"sum(rate(ndbroker_application_wakeups_total{{{APP}}}{RATE}))", "wake-ups")], "ops")
    return b


def troubleshooting():
    b = Board("troubleshooting", "Why connecting fails or is slow, in the order in which to ask.", [INSTANCE])
    b.row("Does it fail?")
    b.graph("Attempts that fail", "Share of connects and accepts that come to nothing, by adapter.",
            [(ratio_failed(HOST, "instance, adapter"), "{{instance}} {{adapter}}")], "percentunit")
    b.graph("Where and why", "Failed attempts by phase and cause.",
            [(f"sum by (role, stage, status, detail) (rate(ndbroker_connect_failures_total{{{HOST}}}{RATE}))",
              "{{role}} {{stage}}: {{status}} {{detail}}")], "ops", stacked=True)
    b.graph("Refused here", "Requests of peers that this host refused, by cause.",
            [(f"sum by (reason) (rate(ndbroker_refusals_total{{{HOST}}}{RATE}))", "{{reason}}")], "ops", stacked=True)
    b.graph("How connections end", "By outcome and cause; broken and died: without a goodbye.",
            [(f"sum by (outcome, detail) (rate(ndbroker_connections_ended_total{{{HOST}}}{RATE}))", "{{outcome}} {{detail}}")],
            "ops", stacked=True)
    b.graph("Operations refused", "Answers of the broker that were no success, by operation.",
            [(f"sum by (operation, status, detail) (rate(ndbroker_api_requests_total{{{HOST}, status!=\"SUCCESS\"}}{RATE}))",
              "{{operation}}: {{status}} {{detail}}")], "ops")
    b.graph("Sessions ended", "Other than by leaving: clients that broke the protocol, did not read or were ended.",
            [(f"sum by (status) (rate(ndbroker_sessions_ended_total{{{HOST}}}{RATE}))", "{{status}}")], "ops")
    b.graph("Turned away at the door", "Connections to local sockets that were closed before they were a session.",
            [(f"sum by (socket, reason) (rate(ndbroker_clients_refused_total{{{HOST}}}{RATE}))", "{{socket}}: {{reason}}")],
            "ops", stacked=True)
    b.graph("Administration", "Calls of the admin socket by their outcome: ndctl, scripts, the gateway.",
            [(f"sum by (method, status) (rate(ndbroker_admin_requests_total{{{HOST}}}{RATE}))", "{{method}}: {{status}}")],
            "ops")
    b.row("Is it slow?")
    b.graph("Phases, active side", "99th percentile; connect: the peer's host, reply: the peer's application.",
            [(quantile(0.99, "handshake_phase_duration_seconds", HOST + ', role="active"', "le, phase"), "{{phase}}")], "s")
    b.graph("Phases, passive side", "99th percentile; deliver and accept: the application here.",
            [(quantile(0.99, "handshake_phase_duration_seconds", HOST + ', role="passive"', "le, phase"), "{{phase}}")], "s")
    b.heatmap("Handshakes", "All of them, by how long they took.",
              f"sum by (le) (increase(ndbroker_handshake_duration_seconds_bucket{{{HOST}}}{RATE}))")
    b.graph("How long connections last", "Median and 90th percentile of those that ended.",
            [(quantile(q, "connection_lifetime_seconds", HOST), name) for q, name in ((0.5, "median"), (0.9, "90 %"))], "s")
    b.graph("Stalls by application", "Sends that found no room; the receiver is slower.",
            [(f"topk(10, sum by (application) (rate(ndbroker_application_stalls_total{{{HOST}}}{RATE})))", "{{application}}")],
            "ops")
    b.graph("Quotas", "What users hold of what quotas bound.",
            [(f"sum by (uid, resource) (ndbroker_quota_used{{{HOST}}})", "{{uid}} {{resource}}")], "short")
    b.row("Is it the broker?")
    b.graph("Scrapes", "How long reading the metrics held up the loop.",
            [(f"ndbroker_scrape_loop_seconds{{{HOST}}}", "{{instance}}")], "s")
    b.graph("Journal and history", "1: they are written.",
            [(f"ndbroker_journal_writing{{{HOST}}}", "{{instance}} journal"),
             (f"ndbroker_history_writing{{{HOST}}}", "{{instance}} history"),
             (f"rate(ndbroker_history_rows_dropped_total{{{HOST}}}{RATE})", "{{instance}} rows lost a second"),
             (f"rate(ndbroker_journal_write_failures_total{{{HOST}}}{RATE})", "{{instance}} journal failures a second")],
            "short")
    b.graph("Oldest waiting operation", "Waiting for a request or an end is normal; waiting in Connect is not.",
            [(f"ndbroker_api_oldest_pending_seconds{{{HOST}}}", "{{instance}}")], "s")
    b.graph("Implausible counters", "Counters pages that claim what no hardware can move.",
            [(f"increase(ndbroker_implausible_readings_total{{{HOST}}}{RATE})", "{{instance}}")], "short")
    return b


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit("usage: generate.py [--check]")
    for board in (fleet(), host(), application(), troubleshooting()):
        path = HERE / f"{board.name}.json"
        if not check:
            path.write_text(board.render())
        elif not path.exists() or path.read_text() != board.render():
            sys.exit(f"{path.name} is not what generate.py writes; run it")


if __name__ == "__main__":
    main()

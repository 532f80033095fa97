#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus scrapes a loaded broker, takes the alerts, and evaluates every expression of every dashboard.

Usage: prometheus_test.py BINARIES DEPLOY
"""
import contextlib
import http.client
import json
import pathlib
import re
import subprocess
import sys
import urllib.parse

from harness import World, eventually, free_port, start

# Panels that are empty on a healthy broker, and why.
ONLY_ON_TROUBLE = {}


def ask(port, path, **query):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", path + ("?" + urllib.parse.urlencode(query) if query else ""))
        answer = connection.getresponse()
        body = answer.read()
    return json.loads(body) if body.startswith(b"{") else {"status": answer.status}


def with_variables(expression):
    # Substitutes variables as Grafana does, with "all" selected and a range for one scrape a second.
    for variable in ("instance", "application", "uid"):
        expression = expression.replace("$" + variable, ".*")
    expression = expression.replace("$__rate_interval", "5s").replace("[1h]", "[30s]")
    assert "$" not in expression, expression
    return expression


def expressions(board):
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for annotation in board["annotations"]["list"]:
        yield "annotation " + annotation["name"], annotation["expr"]


def check_shape(name, board):
    """What Grafana needs to show a board, as far as it can be said without Grafana."""
    assert board["uid"] == f"ndbroker-{name}" and board["title"] and board["schemaVersion"] >= 36
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)), "two panels have the same id"
    defined = {v["name"] for v in board["templating"]["list"]}
    taken = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, f"{panel['title']} lies over another panel"
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["description"] and panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        refs = [target["refId"] for target in panel["targets"]]
        assert refs and len(refs) == len(set(refs)), panel["title"]
        for target in panel["targets"]:
            used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"}
            assert used <= defined, f"{panel['title']}: {used - defined}"
        for link in panel["fieldConfig"]["defaults"].get("links", []):
            board_name = re.match(r"/d/ndbroker-(\w+)\?", link["url"]).group(1)
            assert (pathlib.Path(sys.argv[2]) / "grafana" / f"{board_name}.json").exists(), link


def main():
    deploy = pathlib.Path(sys.argv[2]).resolve()
    boards = {path.stem: json.loads(path.read_text()) for path in sorted((deploy / "grafana").glob("*.json"))}
    assert set(boards) == {"fleet", "host", "application", "troubleshooting"}, set(boards)
    for name, board in boards.items():
        check_shape(name, board)

    with World(sys.argv[1]) as world:
        port = free_port()
        config = world.work / "prometheus.yml"
        rules = deploy / "prometheus" / "ndbroker.rules.yml"
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "ndbroker", "static_configs": [{"targets": [f"127.0.0.1:{world.port}"]}]}],
        }))
        log = open(world.work / "prometheus.log", "wb")
        server = start(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={world.work}/tsdb",
                        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"], stdout=log, stderr=log)
        world.callback(world.end, server)

        def up():
            try:
                return ask(port, "/-/ready")["status"] == 200
            except OSError:
                assert server.poll() is None, (world.work / "prometheus.log").read_text()
                return False
        eventually("Prometheus is ready", up)
        world.load("steady", 4)
        world.load("other", 2)
        mortal = world.load("mortal", 2)
        world.kill_a_connection()
        mortal.kill()

        def query(expression):
            reply = ask(port, "/api/v1/query", query=expression)
            assert reply["status"] == "success", f"{expression}: {reply}"
            return reply["data"]["result"]
        eventually("a death has been scraped", lambda: query('ndbroker_connections_ended_total{outcome="died"} > 0'))
        # Long enough for a rate over five seconds, and for an increase over thirty.
        eventually("eight scrapes", lambda: query("count_over_time(up[1m]) >= 8"), patience=60)
        targets = ask(port, "/api/v1/targets")["data"]["activeTargets"]
        assert [t["health"] for t in targets] == ["up"], targets

        empty, seen = [], 0
        for name, board in boards.items():
            for title, expression in expressions(board):
                seen += 1
                result = query(with_variables(expression))
                # A rate without samples is not data.
                alive = [r for r in result if r["value"][1] != "NaN"]
                if not alive and not title.startswith("annotation") and (name, title) not in ONLY_ON_TROUBLE:
                    empty.append(f"{name} / {title}: {expression}")
            for entry in board["templating"]["list"]:
                if entry["type"] == "query":
                    match, label = re.match(r"label_values\((.*), (\w+)\)$", entry["definition"]).groups()
                    values = ask(port, f"/api/v1/label/{label}/values", **{"match[]": with_variables(match)})["data"]
                    assert values, f"{name}: no value for {entry['name']}"
        assert not empty, "panels without data:\n" + "\n".join(empty)

        groups = ask(port, "/api/v1/rules")["data"]["groups"]
        rules_seen = [rule for group in groups for rule in group["rules"]]
        assert len(rules_seen) == rules.read_text().count("- alert:")
        eventually("every alert is evaluated", lambda: all(
            rule["health"] == "ok" for group in ask(port, "/api/v1/rules")["data"]["groups"] for rule in group["rules"]))
        for rule in rules_seen:
            query(rule["query"])
        # Only alerts that this test causes may fire.
        firing = {alert["labels"]["alertname"] for alert in ask(port, "/api/v1/alerts")["data"]["alerts"]
                  if alert["state"] == "firing"}
        assert not firing, firing

        # The alert for a missing broker fires.
        world.end(world.broker)
        eventually("the dead broker is pending as an alert", lambda: "NdbrokerDown" in {
            alert["labels"]["alertname"] for alert in ask(port, "/api/v1/alerts")["data"]["alerts"]})
    print(f"{seen} expressions of {len(boards)} dashboards and {len(rules_seen)} alerts evaluated")


if __name__ == "__main__":
    main()

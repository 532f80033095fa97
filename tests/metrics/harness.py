# SPDX-License-Identifier: Apache-2.0
"""A broker of its own, with load, and ways to ask it. Everything started here ends with the test."""
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse

ADDRESS = "127.0.0.2"


def eventually(what, condition, patience=30.0):
    """Asks again until `condition()` is true; its value. Fails with `what` otherwise."""
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"did not happen within {patience:.0f} s: {what}")
        time.sleep(0.05)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(arguments, **rest):
    """A child that dies with us: killed by its own session's leader, and by the kernel when we are killed."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--"] + [str(a) for a in arguments], **rest)


class World(contextlib.ExitStack):
    def __init__(self, binaries, metrics=""):
        super().__init__()
        self.bin = pathlib.Path(binaries)
        self.work = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory(prefix="nd-metrics-")))
        self.directory = self.work / "broker"
        self.port = free_port()
        self.log = self.work / "broker.log"
        (self.work / "config.toml").write_text(
            f'[metrics]\nlisten = "127.0.0.1:{self.port}"\n{metrics}\n[history]\nfile = "{self.work}/history.db"\n')
        self.broker = None
        self.start_broker()

    def start_broker(self):
        log = open(self.log, "ab")
        self.broker = start([self.bin / "ndbrokerd", "--config", self.work / "config.toml", "--dir", self.directory,
                             "--adapter-address", ADDRESS, "--tcp-port", free_port()],
                            stdout=subprocess.PIPE, stderr=log)
        self.callback(self.end, self.broker)
        line = self.broker.stdout.readline()
        assert line.startswith(b"READY"), self.log.read_text()

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def load(self, application, pairs, *how):
        """Connections that move data, come and go and fail, until end() or the end."""
        process = start([self.bin / "metrics_load", self.directory, application, pairs, *how],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.callback(self.end, process)
        assert process.stdout.readline() == b"UP\n", self.log.read_text()
        return process

    def ndctl(self, *arguments, ok=True):
        done = subprocess.run([self.bin / "ndctl", "--address", f"{self.directory}", *arguments],
                              capture_output=True, text=True, timeout=60)
        assert not ok or done.returncode == 0, f"ndctl {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def hold(self, connections, processes=1, application="many"):
        """Connections that stay and do nothing more."""
        process = start([self.bin / "nd_many", "--broker", self.directory, "--connections", connections,
                         "--processes", processes, "--application", application],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.callback(self.end, process)
        self.callback(process.stdin.close)
        line = process.stdout.readline()
        assert line.startswith(b"holding"), line
        return process

    def kill_a_connection(self):
        """The administrator ends one."""
        self.hold(2, application="victim")
        rows = self.json("/api/connections", filter="victim")["items"]
        assert len(rows) == 2, rows
        self.ndctl("connection", "kill", rows[0]["id"], "--yes")

    def history(self, application):
        """Past connections of applications whose names begin so."""
        rows = json.loads(self.ndctl("history", "-o", "json", "--filter", f"app={application}*"))["items"]
        assert rows, application
        return rows

    def get(self, path, headers=None, unix=False):
        """(status, headers, body)"""
        if unix:
            connection = http.client.HTTPConnection("localhost", timeout=20)
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(20)
            connection.sock.connect(str(self.directory / "metrics.sock"))
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()

    def json(self, path, **query):
        status, _, body = self.get(path + ("?" + urllib.parse.urlencode(query) if query else ""))
        assert status == 200, f"{path}: {status} {body}"
        return json.loads(body)

    def metrics(self):
        """{'name{labels}': value}"""
        status, _, body = self.get("/metrics")
        assert status == 200, body
        out = {}
        for line in body.splitlines():
            if line and not line.startswith("#"):
                series, value = line.rsplit(" ", 1)
                out[series] = float(value)
        return out

    def sum(self, name, **labels):
        """Of all series of that name that have these labels."""
        wanted = [f'{k}="{v}"' for k, v in labels.items()]
        return sum(value for series, value in self.metrics().items()
                   if series.split("{")[0] == name and all(w in series for w in wanted))

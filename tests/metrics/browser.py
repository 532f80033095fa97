# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over its DevTools protocol."""
import base64
import json
import os
import re
import subprocess

import websocket

from harness import eventually, start


class Browser:
    def __init__(self, work):
        arguments = ["chromium", "--headless", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
                     "--disable-dev-shm-usage", "--disable-background-networking", "--disable-extensions",
                     "--remote-debugging-port=0", "--remote-allow-origins=*", f"--user-data-dir={work}/chromium",
                     "about:blank"]
        if os.geteuid() == 0:
            arguments.insert(1, "--no-sandbox")
        self.process = start(arguments, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                             env={**os.environ, "HOME": str(work)})
        for line in self.process.stderr:
            found = re.search(r"DevTools listening on (ws://\S+)", line)
            if found:
                break
        else:
            raise AssertionError("Chromium did not start")
        # Written to a file, because Chromium blocks when a pipe is not read.
        self.log = open(f"{work}/chromium.log", "w")
        subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=self.log)
        self.browser = found.group(1)
        self.next_id = 0
        self.events = []
        self.socket = websocket.create_connection(self.browser, timeout=60)
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.call(domain + ".enable")

    def call(self, method, **params):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        while True:
            reply = json.loads(self.socket.recv())
            if reply.get("id") == self.next_id:
                assert "error" not in reply, (method, reply["error"])
                return reply["result"]
            self.events.append(reply)

    def run(self, script):
        reply = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def wait(self, what, script, patience=30):
        return eventually(f"{what}: {script}", lambda: self.run(script), patience)

    def key(self, key, code=None):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **({"text": key} if kind == "keyDown" and len(key) == 1 else {}))

    def click(self, selector):
        box = self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
                       " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def look(self, width, height, dark):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        self.socket.close()
        self.process.kill()
        self.process.wait()
        self.log.close()

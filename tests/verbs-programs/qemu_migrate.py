# SPDX-License-Identifier: Apache-2.0
# qemu_migrate.py FOLDER URI: migrates the paused machine of FOLDER/qmp.from to that of FOLDER/qmp.to, and writes the
# memory of both to FOLDER/memory.from and memory.to.
import json
import socket
import sys
import time

MEMORY = 64 << 20


class Machine:
    def __init__(self, path):
        deadline = time.monotonic() + 20
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(path)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        self.lines = self.socket.makefile()
        self.lines.readline()
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        for line in self.lines:
            answer = json.loads(line)
            if "error" in answer:
                sys.exit(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]
        sys.exit(f"{command}: the machine is gone")


folder, uri = sys.argv[1:]
to = Machine(folder + "/qmp.to")
source = Machine(folder + "/qmp.from")
time.sleep(1)  # The firmware writes to memory.
source.ask("stop")
source.ask("pmemsave", val=0, size=MEMORY, filename=folder + "/memory.from")
source.ask("migrate", uri=uri)
while (status := source.ask("query-migrate").get("status")) != "completed":
    if status in ("failed", "cancelled"):
        sys.exit("the migration " + status)
    time.sleep(0.2)
while to.ask("query-status")["status"] == "inmigrate":
    time.sleep(0.2)
to.ask("pmemsave", val=0, size=MEMORY, filename=folder + "/memory.to")

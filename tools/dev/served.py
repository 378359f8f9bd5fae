"""Uses a pool with its engine and DPU daemon, as `ros2store up` starts them."""

import base64
import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path

import console
import hops
import shown

TICKS = os.sysconf("SC_CLK_TCK")


class Served:
    """A pool with daemons in one directory. `provider`: how its DPU reaches its engine."""

    def __init__(self, store, directory, provider):
        self.store = store
        self.directory = directory
        self.provider = provider

    def uri(self, scheme, path="", further=""):
        below = f"/{path}" if path else ""
        return f"{scheme}:///pool/main{below}?dir={self.directory}{further}"

    def make(self, size, *further):
        trust = () if self.provider == "shm" else ("--trusted-network",)
        shown.run(self.store, "up", self.directory, "--size", size, "--provider", self.provider,
                  *trust, *further)

    def up(self):
        shown.run(self.store, "up", self.directory, quiet=True)

    def down(self):
        shown.run(self.store, "down", self.directory, quiet=True)

    def serve(self, name, settings, further=""):
        """Lets the DPU of this pool serve one in Ceph or DAOS, too. `further`: more lines of its settings."""
        self.add_settings(further, 'pools: "pool"\n', f"pools:\n  pool: engine\n  {name}: {settings}\n")

    def add_settings(self, lines, *replaced):
        """Adds lines to the DPU's settings, and restarts the daemons. `replaced`: a text, and what takes its place."""
        self.down()
        file = self.directory / "dpu.yaml"
        text = file.read_text(encoding="utf-8")
        file.write_text(f"{text.replace(*replaced) if replaced else text}\n{lines}\n", encoding="utf-8")
        self.up()

    def daemons(self):
        """Returns what `ros2store status` says of each daemon, by the last word of its program's name:
        engine, dpu."""
        done = subprocess.run(shown.words([self.store, "status", self.directory, "--json"]),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=60)
        if done.returncode != 0:
            raise shown.Failed(f"ros2store status {self.directory}: {done.stderr}")
        return {each["program"].rpartition("-")[2]: each
                for each in json.loads(done.stdout)["daemons"] if each["pid"]}

    def pids(self):
        return {name: each["pid"] for name, each in self.daemons().items()}

    def kill(self, name):
        pid = self.pids().get(name)
        if pid is None:
            raise shown.Failed(f"the {name} daemon of {self.directory} does not run")
        console.note(f"$ kill -9 {pid}    # the {name}")
        os.kill(pid, signal.SIGKILL)


def cpu_seconds(pid):
    """Returns the user and kernel time of all threads of a process."""
    # The fields after the program's name, which begin with the state.
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Meter:
    """Measures the processor time of the daemons and the growth of their counters since it was made."""

    def __init__(self, served):
        self.daemons = served.daemons()
        self.before = self.look()

    def look(self):
        spent = {name: cpu_seconds(each["pid"]) for name, each in self.daemons.items()}
        return spent, {name: counters(each) for name, each in self.daemons.items()}

    def read(self):
        """Returns (seconds of processor time, growth of the counters), both by daemon."""
        (spent_before, counted_before), (spent, counted) = self.before, self.look()
        return ({name: spent[name] - spent_before[name] for name in spent},
                {name: counted[name].since(counted_before[name]) for name in counted})


def counters(daemon):
    """Returns the daemon's exported metrics, as hops.Series."""
    name = daemon["program"].rpartition("-")[2]
    password = (Path(daemon["log"]).parent / f"{name}.metrics").read_text(encoding="ascii").strip()
    basic = base64.b64encode(f"ros2store:{password}".encode()).decode()
    place = next(address.split(" ")[1] for address in daemon["addresses"]
                 if address.startswith("metrics "))
    request = urllib.request.Request(f"http://{place}/metrics",
                                     headers={"Authorization": f"Basic {basic}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return hops.Series.parse(answer.read().decode())

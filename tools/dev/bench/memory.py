"""Measures the resident bytes of each process, idle, after load and at rest, and the time that libros2store
takes to load and to open a pool."""

import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import build
import compare
import console
import shown
from bench import pools, report

LOADED = ("write-1m", "read-1m", "randwrite-32", "randread-32")
REST_SECONDS = 12  # the daemons check twice whether they are idle, and give memory back
OPENINGS = 5
# A program that loads the library and opens a container, as an application does.
OPENER = """
import ctypes, json, sys, time
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
before = resident()
start = time.perf_counter()
library = ctypes.CDLL(sys.argv[1])
loaded = time.perf_counter()
after_load = resident()
fs = ctypes.c_void_p()
said = ctypes.create_string_buffer(4096)
began = time.perf_counter()
if library.ros2s_open(sys.argv[2].encode(), None, ctypes.byref(fs), said, len(said)) < 0:
    sys.exit(said.value.decode())
opened = time.perf_counter()
print(json.dumps({"load_ms": 1000 * (loaded - start), "open_ms": 1000 * (opened - began),
                  "load_bytes": after_load - before, "open_bytes": resident() - after_load}))
library.ros2s_close(fs)
"""


def resident(pid):
    """Returns the resident bytes. `anonymous` counts those that no file backs."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")

    def of(name):
        return int(re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)[1]) * 1024

    return {"resident_bytes": of("VmRSS"), "anonymous_bytes": of("RssAnon")}


def measure(options, place, document, tally):
    built = build.folder("release").absolute()
    ours = pools.Pools("this", built, place, options.mib)
    embedded = ours.embedded()
    served = ours.with_daemons(("shm",))
    direct, offload = ours.direct(served, "shm"), ours.offload(served, "shm")
    pids = served.pids()
    states = {"idle": {name: resident(pid) for name, pid in pids.items()}}
    pools.fill([offload], f"{options.mib}m")
    shared = compare.time_based(f"{options.mib}m", options.seconds)
    for row in compare.ROWS:
        if row.key in LOADED:
            for side in (direct, offload):
                compare.measure(row, side, shared)
    states["after load"] = {name: resident(pid) for name, pid in pids.items()}
    console.note(f"rests for {REST_SECONDS} s")
    time.sleep(REST_SECONDS)
    states["at rest"] = {name: resident(pid) for name, pid in pids.items()}
    uris = {side.mode: pools.uri_of(side) for side in (embedded, direct, offload)}
    library = opened(built / "lib/libros2store.so", uris)
    ours.down()
    document["daemons"], document["library"] = states, library
    tally.add("daemons: idle, after load, at rest", True)
    tally.add("the library: loaded and opened", True)
    return lines(states, library), None


def opened(library, uris):
    """Returns the medians of several programs, by mode."""
    found = {}
    for mode, uri in uris.items():
        runs = []
        for _ in range(OPENINGS):
            done = subprocess.run([sys.executable, "-c", OPENER, str(library), uri], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False, timeout=60)
            if done.returncode != 0:
                raise shown.Failed(f"{uri}: {done.stderr}")
            runs.append(json.loads(done.stdout))
        found[mode] = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    return found


def lines(states, library):
    def mib(count):
        return report.number(count / 2**20)

    return [*report.table(("process", *(f"{state}: resident (anonymous) MiB" for state in states)), (
        (name, *(f"{mib(state[name]['resident_bytes'])} ({mib(state[name]['anonymous_bytes'])})"
                 for state in states.values())) for name in next(iter(states.values())))), "",
        *report.table(("library", "load ms", "load MiB", "open ms", "open MiB"), (
            (mode, report.number(one["load_ms"]), mib(one["load_bytes"]), report.number(one["open_ms"]),
             mib(one["open_bytes"])) for mode, one in library.items()))]

"""Measures the resident bytes of each daemon, idle, after load and at rest, and the time that libros2store takes to load
and to open a pool."""

import json
import re
import statistics
import sys
import time
from pathlib import Path

import build
import console
import shown
import sides
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
before, start = resident(), time.perf_counter()
library = ctypes.CDLL(sys.argv[1])
loaded, after_load = time.perf_counter(), resident()
fs, said = ctypes.c_void_p(), ctypes.create_string_buffer(4096)
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
    return {f"{what}_bytes": int(re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)[1]) * 1024
            for what, name in (("resident", "VmRSS"), ("anonymous", "RssAnon"))}


def measure(options, place, document, tally):
    ours = pools.Pools("this", build.folder("release").absolute(), place, options.mib)
    all_sides = ours.sides("shm")
    served = all_sides[1:]
    pids, states = served[0].served.pids(), document.setdefault("daemons", {})

    def look(state):
        states[state] = {name: resident(pid) for name, pid in pids.items()}
        tally.add(f"daemons, {state}", True)

    look("idle")
    pools.fill(served, f"{options.mib}m")
    for key in LOADED:
        for side in served:
            sides.measure(sides.row_of(key), side, sides.time_based(f"{options.mib}m", options.seconds))
    look("after load")
    console.note(f"rests for {REST_SECONDS} s")
    time.sleep(REST_SECONDS)
    look("at rest")
    library = document["library"] = {side.mode: opened(ours.built / "lib/libros2store.so", side.uri) for side in all_sides}
    tally.add("the library: loaded and opened", True)
    ours.down()
    return lines(states, library)


def opened(library, uri):
    """Returns the medians of several programs."""
    runs = [json.loads(shown.run(sys.executable, "-c", OPENER, library, uri, quiet=True)) for _ in range(OPENINGS)]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def lines(states, library):
    def mib(count):
        return report.number(count / 2**20)

    return [*report.table(("process", *(f"{state}: resident (anonymous) MiB" for state in states)), (
        (name, *(f"{mib(state[name]['resident_bytes'])} ({mib(state[name]['anonymous_bytes'])})"
                 for state in states.values())) for name in next(iter(states.values())))), "",
        *report.table(("library", "load ms", "load MiB", "open ms", "open MiB"), (
            (mode, report.number(one["load_ms"]), mib(one["load_bytes"]), report.number(one["open_ms"]),
             mib(one["open_bytes"])) for mode, one in library.items()))]

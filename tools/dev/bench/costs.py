"""Measures what one request costs each process and each link, and writes the file that `ros2store plan` reads
(docs/formats/costs.md). What was not measured is absent."""

import json
import re
import statistics
from pathlib import Path

import build
import hops
import served
import shown
import sides
from bench import ceph, files, names, pools, report, rows, samples

VERSION = 1
# Row of sides.ROWS: the name of its request.
WORKS = {"write-1m": "write-1048576", "read-1m": "read-1048576", "randread-32": "read-4096", "randwrite-32": "write-4096"}
NAMES = ("create", "stat")
AT_ONCE_SECONDS = 0.001


def measure(options, place, document, tally):
    ours = pools.Pools("this", build.folder("release").absolute(), place, options.mib)
    all_sides = [sides.raw_side((place / "raw").absolute()), *ours.sides("full")]
    pools.fill(all_sides, f"{options.mib}m")
    found = Found(document)
    turns = files.Turns(place, options, all_sides, samples.may_sample())
    document["polling_apart"] = turns.sampled
    for key, work in WORKS.items():
        row = sides.row_of(key)
        for side, figures, shares in zip(all_sides, turns.figures(row), turns.polling(row)):
            if side.served:
                found.put(f"{side.mode}/engine/{side.through}/{work}", *request(side, row, figures, shares))
        tally.add(f"{key}: {len(all_sides)} sides", True)
    for side in all_sides:
        if side.served:
            found.add_names(f"{side.mode}/engine/{side.through}", names.Metered(ours.built, side, lambda side=side: spent(side)), options)
    tally.add("create and stat", True)
    document["index"] = index_bytes(ours, options)
    tally.add(f"index: {document['index']}", True)
    missing = ceph.costs(ours, options, WORKS, found)
    tally.add(f"a Ceph cluster{f', of which rows are absent: {missing}' if missing else ''}", True)
    document["resident"] = {name: resident_bytes(pid) for name, pid in all_sides[-1].served.pids().items()}
    ours.down()
    heads = ("host_us", "dpu_us", "server_us", "network_bytes", "device_operations")
    return report.table(("request", *heads), ((name, *(report.number(one.get(head), 2) for head in heads))
                                              for name, one in sorted(found.requests.items())))


def resident_bytes(pid):
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    return int(re.search(r"^VmRSS:\s+(\d+) kB$", text, re.MULTILINE)[1]) * 1024


class Found:
    """The costs of requests by name, and the least and the greatest of the turns."""

    def __init__(self, document):
        self.requests, self.spreads = document.setdefault("requests", {}), document.setdefault("spreads", {})

    def put(self, name, request, spread):
        self.requests[name], self.spreads[name] = {"source": "measured"} | request, spread

    def add(self, name, turns):
        """Adds a request whose costs are known in each turn."""
        self.put(name, {each: rows.median(turn[each] for turn in turns) for each in turns[0]},
                 {each: rows.edges([turn[each] for turn in turns]) for each in turns[0]})

    def add_names(self, prefix, client, options):
        """Adds a create and a stat. Both runs of a stat make the same files before."""
        for name in NAMES:
            turns = [rows.difference(client.metered(AT_ONCE_SECONDS, name), client.metered(options.seconds, name))
                     for _ in range(options.turns)]
            if all(min(turn.values()) >= 0 for turn in turns):  # otherwise the start hides the rest
                self.add(f"{prefix}/{name}", turns)


def spent(side):
    daemons = side.served.daemons()
    us = {name: 1e6 * served.cpu_seconds(daemons[name]["pid"]) for name in side.daemons}
    network = served.counters(daemons["engine"]).by_provider(hops.FABRIC).get(side.through, 0)
    return {"host_us": 1e6 * sides.spent_seconds(), "server_us": us["engine"], "network_bytes": network,
            **({"dpu_us": us["dpu"]} if "dpu" in us else {})}


def request(side, row, figures, shares):
    """Returns the costs of one request: medians of the turns, without polling where it was measured; and the
    least and the greatest of each processor time."""
    made, spread = {}, {}
    for process, name in (("host", "host_us"), ("dpu", "dpu_us"), ("engine", "server_us")):
        work = [figure.cpu_us[process] * (1 - shares.get(process, 0)) for figure in figures if process in figure.cpu_us]
        if work:
            made[name], spread[name] = rows.median(work), rows.edges(work)
    kind = "write" if row.wrote else "read"
    counted = {"network_bytes": lambda engine: engine.by_provider(hops.FABRIC).get(side.through, 0),
               "device_operations": lambda engine: engine.sum((f"ros2store_device_{kind}s_total",)),
               "device_bytes": lambda engine: engine.sum(hops.DEVICES[row.wrote:][:1])}
    for name, of in counted.items():
        made[name] = round(statistics.median(of(figure.counted["engine"]) / figure.operations for figure in figures), 3)
    return made, spread


def index_bytes(ours, options):
    """Returns the bytes of the index per GiB of file data: written in order, and overwritten at random."""
    side = ours.embedded("index")

    def now():
        return sum(each.stat().st_size for each in (ours.place / "index/index").rglob("*") if each.is_file())

    empty, found = now(), {}
    sides.fill(side, f"{options.mib}m")
    found["in_order"] = now() - empty
    shown.run("fio", "--name=scatter", *side.target, "--rw=randwrite", "--bs=4k", "--iodepth=32",
              f"--size={options.mib}m", quiet=True)
    found["scattered"] = now() - empty
    return {name: round(size * 1024 / options.mib) for name, size in found.items()}


def write(file, document):
    """Writes the file for `ros2store plan`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(file_of(document), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def file_of(document):
    return {"version": VERSION,
            "measured": {"date": document["date"], "commit": document["commit"], "command": document["command"],
                         "machine": document["machine"]["description"],
                         "load": f"{document['load_before'][0]} before, {document['load_after'][0]} after",
                         "turns": document["turns"], "seconds": document["seconds"], "mib": document["mib"],
                         "polling": "apart" if document["polling_apart"] else "contained"},
            "requests": dict(sorted(document["requests"].items())),
            "spreads": {name: {each: f"{least} to {greatest}" for each, (least, greatest) in spread.items()}
                        for name, spread in sorted(document["spreads"].items())},
            "memory": {f"index_bytes_per_gib_{name}": size for name, size in document["index"].items()} |
                      {f"{name}_resident_bytes": size for name, size in document["resident"].items()}}

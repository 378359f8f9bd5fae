"""Measures what one request costs each process and each link, and writes the file that `ros2store plan` reads
(docs/formats/costs.md). What was not measured is absent."""

import json
import resource
import statistics

import build
import compare
import hops
import served
import shown
from bench import ceph_costs, memory, names, pools, report, request_costs, rows, set_up_rows, turns

VERSION = 1
# Row of compare.ROWS: the name of its request.
WORKS = {"randread-32": "read-4096", "read-1m": "read-1048576",
         "randwrite-32": "write-4096", "write-1m": "write-1048576"}
DEVICE_READS = ("ros2store_device_reads_total",)
DEVICE_WRITES = ("ros2store_device_writes_total",)


def measure(options, place, document, tally):
    ours = pools.Pools("this", build.folder("release"), place, options.mib)
    sides = [compare.raw_side((place / "raw").absolute()), *ours.sides("full")]
    pools.fill(sides, f"{options.mib}m")
    sampled = set_up_rows.may_sample()
    requests, spreads = {}, {}
    for of_row in turns.Turns(place, options, sampled).results(
            [row for row in compare.ROWS if row.key in WORKS], sides):
        for each in of_row:
            if each.side.served:
                name = key(each.side, WORKS[each.row.key])
                requests[name], spreads[name] = request(each)
        tally.add(f"{of_row[0].row.key}: {len(of_row)} sides", True)
    for number, side in enumerate(sides):
        if side.served:
            of_names(side, f"names{number}.", options, requests, spreads)
    tally.add("create and stat", True)
    document["index"] = index_bytes(ours, options)
    tally.add(f"index: {document['index']}", True)
    missing = ceph_costs.measure(ours, options, WORKS, requests, spreads)
    tally.add(f"a Ceph cluster{f', of which rows are absent: {missing}' if missing else ''}", True)
    resident = {name: memory.resident(pid)["resident_bytes"] for name, pid in sides[-1].served.pids().items()}
    ours.down()
    document["requests"], document["spreads"], document["resident"] = requests, spreads, resident
    document["polling_apart"] = sampled
    return lines(requests), None


def key(side, work):
    """Returns the key of a request: MODE/BACK-END/PROVIDER/WORK."""
    return f"{side.mode}/engine/{side.through}/{work}"


def request(result):
    """Returns the costs of one request: medians of the turns, without polling where it was measured; and the
    least and the greatest of each processor time."""
    made, spread = {"source": "measured"}, {}
    for process, name in (("host", "host_us"), ("dpu", "dpu_us"), ("engine", "server_us")):
        turns_us = [figure.cpu_us[process] for figure in result.figures if process in figure.cpu_us]
        if turns_us:
            work = 1 - result.poll_shares.get(process, 0)
            made[name] = rows.rounded(statistics.median(turns_us) * work)
            spread[name] = [rows.rounded(each(turns_us) * work) for each in (min, max)]
    wrote = "write" in result.row.options["rw"]
    counted = {"network_bytes": lambda engine: engine.by_provider(hops.FABRIC).get(result.side.through),
               "device_operations": lambda engine: engine.sum(DEVICE_WRITES if wrote else DEVICE_READS),
               "device_bytes": lambda engine: engine.sum(hops.DEVICES[1 if wrote else 0:][:1])}
    for name, of in counted.items():
        per = [of(figure.counted["engine"]) / figure.operations for figure in result.figures]
        made[name] = round(statistics.median(per), 3)
    return made, spread


def of_names(side, prefix, options, requests, spreads):
    """Adds the costs of a create and of a stat."""
    directories = names.Directories(prefix, side.through, lambda path: side.served.uri(
        "ros2s+dpu" if side.mode == "offload" else "ros2s", path,
        "" if side.mode == "offload" else f"&provider={side.through}"))
    for name, costs in request_costs.of_names(lambda seconds, what: metered(side, directories, seconds, what), options):
        requests[key(side, name)], spreads[key(side, name)] = request_costs.of_turns(costs)


def metered(side, directories, seconds, what):
    """Runs name_bench. Returns how many of each operation it did, and all that they cost."""
    programs = build.folder("release").absolute()
    where = directories.new(programs)
    meter = served.Meter(side.served)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = directories.run(programs, request_costs.NAME_THREADS, seconds, what, where=where)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    by_daemons, counted = meter.read()
    host = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    spent = {"host_us": 1e6 * host, "server_us": 1e6 * by_daemons["engine"],
             "network_bytes": counted["engine"].by_provider(hops.FABRIC).get(side.through, 0)}
    if "dpu" in side.daemons:
        spent["dpu_us"] = 1e6 * by_daemons["dpu"]
    return request_costs.counts(text), spent


def index_bytes(ours, options):
    """Returns the bytes of the index per GiB of file data: written in order, and overwritten at random."""
    directory = ours.embedded_directory("index")
    side = compare.pool_side("index", ours.built, f"ros2s+local:///pool/main?dir={directory}", "figures")

    def now():
        return sum(each.stat().st_size for each in (directory / "index").rglob("*") if each.is_file())

    empty, found = now(), {}
    compare.fill(side, f"{options.mib}m")
    found["in_order"] = now() - empty
    shown.run("fio", "--name=scatter", *side.target, "--rw=randwrite", "--bs=4k", "--iodepth=32",
              f"--size={options.mib}m", quiet=True)
    found["scattered"] = now() - empty
    return {name: round(size * 1024 / options.mib) for name, size in found.items()}


def lines(requests):
    heads = ("host_us", "dpu_us", "server_us", "network_bytes", "device_operations")
    return report.table(("request", "host µs", "DPU µs", "server µs", "network bytes", "device operations"), (
        (name, *(report.number(one.get(head), 2) for head in heads)) for name, one in sorted(requests.items())))


def file_of(document):
    """Returns the file for `ros2store plan`."""
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


def write(file, document):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(file_of(document), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

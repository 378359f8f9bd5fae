"""Measures the axes of the figures of the paper (arXiv 2509.13997), as far as this machine allows. Each
figure states its limits."""

import dataclasses
import os
from pathlib import Path

import build
import compare
import shown
from bench import plot, pools, report, rows, set_up_rows, turns

JOBS = (1, 2, 4, 8, 16)
DEVICES = (1, 4)
WORKLOADS = (("read", "1m", 8), ("write", "1m", 8), ("randread", "4k", 32), ("randwrite", "4k", 32))


def works(workloads=WORKLOADS, jobs=JOBS, **more):
    """Returns a compare.Row for each workload and number of jobs. Jobs are threads that share a pool."""
    return [compare.Row(f"{rw}-{bs}-{count}", f"{bs} {rw}, depth {depth}, {count} jobs",
                        dict(rw=rw, bs=bs, iodepth=depth, numjobs=count, thread=1) | more)
            for rw, bs, depth in workloads for count in jobs]


def chosen(options, which):
    wanted = options.rows and options.rows.split(",")
    found = [row for row in which if not wanted or row.key in wanted]
    if not found:
        raise shown.Failed(f"there is no row {options.rows}; there are {', '.join(row.key for row in which)}")
    return found


def table_of(document, tally, ends):
    tally.add(f"{len(document['rows'])} points; it ends here: {'; '.join(ends) or 'complete'}", True)
    document["ends"] = ends
    return [*set_up_rows.lines(document), "", *(f"Not here: {end}." for end in ends)], rates(document)


def rates(document):
    """Returns a plot of MiB/s: a group for each workload and number of jobs, a bar for each mode and number of
    disks."""
    groups = {}
    for row in document["rows"]:
        name = report.mode(row) + (f", {row['devices']} disks" if row["devices"] > 1 else "")
        groups.setdefault(report.workload(row), []).append((name, row["bytes_per_s"] / 2**20, None))
    return plot.Plot(list(groups.items()), "MiB/s")


def local(options, place, document, tally):
    """Measures figure 3: the limits of local disks."""
    disks = options.disks or [place]
    made, spreads, ends = [], [], []
    for count in DEVICES:
        if count > len(disks):
            ends.append(f"{count} disks: {len(disks)} given (--disks)")
            continue
        folders = [Path(each).absolute() for each in disks[:count]]
        if len({os.stat(each).st_dev for each in folders}) < count:
            raise shown.Failed("--disks: each directory must be on a disk of its own")
        files = [folder / "ros2store-bench.raw" for folder in folders]
        try:
            made_here, spread_here = points(options, place, [compare.raw_side(":".join(map(str, files)))],
                                            works(), devices=count, on=folders[0] if count == 1 else None)
        finally:
            for file in files:
                file.unlink(missing_ok=True)
        made += made_here
        spreads += spread_here
    document["rows"], document["spreads"] = made, spreads
    return table_of(document, tally, ends)


def points(options, place, sides, which, devices=1, on=""):
    pools.fill(sides, f"{options.mib}m")
    results = []
    for of_row in turns.Turns(place, options, False, on).results(chosen(options, which), sides):
        print(f"     {of_row[0].row.key}: {'; '.join(map(set_up_rows.summary, of_row))}", flush=True)
        results += of_row
    return ([rows.row(each.side, each.row, each.figures, each.raw, each.poll_shares, devices) for each in results],
            [rows.spread(each.figures, each.raw) for each in results])


def target(options, place, document, tally):
    """Measures figure 4: a target over NVMe-oF, by the client's processors. The server's processors do not
    vary."""
    if options.target is None:
        raise shown.Failed("fig4 wants the block device of a connected NVMe-oF target (--target /dev/nvme1n1), "
                           "over TCP or RDMA; this is where it ends without one")
    ends = ["processors of the server: set them at the target, and run this once for each number"]
    transport = Path(f"/sys/block/{options.target.resolve().name}/device/transport")
    document["transport"] = transport.read_text(encoding="ascii").strip() if transport.exists() else None
    raw = compare.raw_side(options.target.absolute())
    side = dataclasses.replace(raw, target=[*raw.target, "--readonly"], through=document["transport"] or "unknown")
    made, spreads = [], []
    available = sorted(os.sched_getaffinity(0))
    reading = [each for each in WORKLOADS if "read" in each[0]]
    for count in JOBS:
        if count > len(available):
            ends.append(f"{count} processors of the client: it has {len(available)}")
            continue
        processors = ",".join(map(str, available[:count]))
        which = works(reading, (count,), cpus_allowed=processors)
        measured = turns.Turns(place, options, False, options.target)
        measured.size = "100%"
        measured.shared = compare.time_based("100%", options.seconds)
        for of_row in measured.results(chosen(options, which), [side]):
            made += [rows.row(each.side, each.row, each.figures, None, {}) for each in of_row]
            spreads += [rows.spread(each.figures, None) for each in of_row]
    document["rows"], document["spreads"] = made, spreads
    return table_of(document, tally, ends)


def set_ups(options, place, document, tally):
    """Measures figure 5: DFS over each provider, from the host and through the DPU."""
    ours = pools.Pools("this", build.folder("release"), place, options.mib)
    raw = compare.raw_side((place / "raw").absolute())
    document["rows"], document["spreads"] = points(options, place, [raw, *ours.sides("full")], works())
    ours.down()
    ends = ["4 devices: pools of this bench have one", "RDMA: `./dev lab` has it, emulated",
            "a SmartNIC: the DPU is a process of this machine"]
    return table_of(document, tally, ends)

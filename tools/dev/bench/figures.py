"""Measures the axes of the figures of the paper (arXiv 2509.13997), as far as this machine allows. Each
figure states its limits."""

import contextlib
import dataclasses
import os
import shutil
import tempfile
from pathlib import Path

import build
import compare
import shown
from bench import plot, pools, report, rows, set_up_rows, turns

JOBS = (1, 2, 4, 8, 16)
DEVICES = 4  # the most in the paper
WORKLOADS = (("read", "1m", 8), ("write", "1m", 8), ("randread", "4k", 32), ("randwrite", "4k", 32))


def works(workloads=WORKLOADS, jobs=JOBS, **more):
    """Returns a compare.Row for each workload and number of jobs. Jobs are threads that share a pool."""
    return [compare.Row(f"{rw}-{bs}-{count}", f"{bs} {rw}, depth {depth}, {count} jobs",
                        dict(rw=rw, bs=bs, iodepth=depth, numjobs=count, thread=1) | more)
            for rw, bs, depth in workloads for count in jobs]


def chosen(options, which):
    return set_up_rows.chosen_rows(options, [row.key for row in which], which)


def table_of(document, tally, ends):
    tally.add(f"{len(document['rows'])} points; it ends here: {'; '.join(ends) or 'complete'}", True)
    document["ends"] = ends
    return [*set_up_rows.lines(document), "", *(f"Not here: {end}." for end in ends)], rates(document)


def rates(document):
    """Returns a plot of MiB/s: a group for each workload and number of jobs, a bar for each mode and number of
    disks."""
    groups = {}
    for row in document["rows"]:
        groups.setdefault(report.workload(row), []).append((report.mode(row), row["bytes_per_s"] / 2**20, None))
    return plot.Plot(list(groups.items()), "MiB/s")


def disks_of(options, place, ends):
    """Returns a directory on each disk. Adds to `ends` what the paper has and these do not."""
    disks = [each.absolute() for each in options.disks or [place]]
    if len(disks) == 1:
        ends.append("one device: name directories on further disks with --disks")
    elif len(disks) < DEVICES:
        ends.append(f"{DEVICES} devices: --disks names {len(disks)}")
    return disks


def share_a_disk(disks):
    return len({os.stat(each).st_dev for each in disks}) < len(disks)


def one_and_all(disks):
    return [disks[:count] for count in sorted({1, len(disks)})]


@contextlib.contextmanager
def directories(disks):
    """Makes a new directory on each disk, and removes it at the end."""
    with contextlib.ExitStack() as stack:
        yield [Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ros2store-bench.", dir=each))) for each in disks]


def local(options, place, document, tally):
    """Measures figure 3: the limits of local disks."""
    ends = []
    disks = disks_of(options, place, ends)
    if share_a_disk(disks):
        raise shown.Failed("--disks: each directory must be on a disk of its own")
    for some in one_and_all(disks):
        with directories(some) as folders:
            measure(options, place, document, folders)
    return table_of(document, tally, ends)


def measure(options, place, document, folders, sides=()):
    """Adds the rows of raw, with a file in each folder, and of these sides to the document."""
    every = [compare.raw_side(":".join(str(folder / "raw") for folder in folders)), *sides]
    pools.fill(every, f"{options.mib}m")
    measured = turns.Turns(place, options, False, folders[0] if len(folders) == 1 else None)
    for of_row in measured.results(chosen(options, works()), every):
        print(f"     {of_row[0].row.key}: {'; '.join(map(set_up_rows.summary, of_row))}", flush=True)
        add(document, of_row, len(folders))


def add(document, of_row, devices=1):
    document.setdefault("rows", []).extend(
        rows.row(each.side, each.row, each.figures, each.raw, each.poll_shares, devices) for each in of_row)
    document.setdefault("spreads", []).extend(rows.spread(each.figures, each.raw) for each in of_row)


def target(options, place, document, tally):
    """Measures figure 4: a target over NVMe-oF, by the client's processors. The server's processors do not
    vary."""
    if options.target is None:
        raise shown.Failed("fig4 wants the block device of a connected NVMe-oF target (--target /dev/nvme1n1), "
                           "over TCP or RDMA; this is where it ends without one")
    ends = ["writes: the target is only read",
            "processors of the server: set them at the target, and run this once for each number"]
    transport = Path(f"/sys/block/{options.target.resolve().name}/device/transport")
    document["transport"] = transport.read_text(encoding="ascii").strip() if transport.exists() else None
    raw = compare.raw_side(options.target.absolute())
    side = dataclasses.replace(raw, target=[*raw.target, "--readonly"], through=document["transport"] or "unknown")
    available = sorted(os.sched_getaffinity(0))
    reading = [each for each in WORKLOADS if "read" in each[0]]
    which = []
    for count in JOBS:
        if count > len(available):
            ends.append(f"{count} processors of the client: it has {len(available)}")
            continue
        processors = ",".join(map(str, available[:count]))
        which += works(reading, (count,), cpus_allowed=processors)
    measured = turns.Turns(place, options, False, options.target)
    measured.size = "100%"
    measured.shared = compare.time_based("100%", options.seconds)
    for of_row in measured.results(chosen(options, which), [side]):
        add(document, of_row)
    return table_of(document, tally, ends)


def set_ups(options, place, document, tally):
    """Measures figure 5: DFS over each provider, from the host and through the DPU."""
    ends = []
    disks = disks_of(options, place, ends)
    if share_a_disk(disks):
        ends.append("disks of their own: directories of --disks share one")
    for some in one_and_all(disks):
        with directories(some) as folders:
            ours = pools.Pools("this", build.folder("release"), place, options.mib, folders)
            measure(options, place, document, folders, ours.sides("full"))
            ours.down()
            shutil.rmtree(ours.place)
    ends += ["RDMA: `./dev lab` has it, emulated", "a SmartNIC: the DPU is a process of this machine"]
    return table_of(document, tally, ends)

"""Compares fio on a raw file with fio on pools: in turn, in one run, by ratios of medians.

Raw is fio's io_uring with direct=1 and fixed buffers on a fully written file of the same size in the same
file system. A write to the pool is durable when it completes. Raw writes are therefore shown with an
fdatasync after as many writes as are in flight, and once without one."""

import dataclasses
import json
import os
import resource
import statistics
import subprocess
from pathlib import Path

import console
import hops
import path_report
import served
import shown


@dataclasses.dataclass(frozen=True)
class Row:
    key: str  # of ./dev bench --rows
    name: str
    options: dict  # of fio, for both
    only_raw: dict = dataclasses.field(default_factory=dict)

    def in_mib(self):
        return self.options["bs"] == "1m"


# The order matters. A pool never overwrites in place, so random writes scatter a file's blocks and slow down
# later large reads of it. Raw files have no such effect.
ROWS = (
    Row("write-1m", "1 MiB write, depth 8; raw never synced",
        dict(rw="write", bs="1m", iodepth=8)),
    Row("read-1m", "1 MiB read, depth 8", dict(rw="read", bs="1m", iodepth=8)),
    Row("randread-1", "4 KiB random read, depth 1", dict(rw="randread", bs="4k", iodepth=1)),
    Row("randread-32", "4 KiB random read, depth 32", dict(rw="randread", bs="4k", iodepth=32)),
    Row("randwrite-1", "4 KiB random write, depth 1; raw with fdatasync each",
        dict(rw="randwrite", bs="4k", iodepth=1), dict(fdatasync=1)),
    Row("randwrite-32", "4 KiB random write, depth 32; raw with fdatasync=32",
        dict(rw="randwrite", bs="4k", iodepth=32), dict(fdatasync=32)),
    Row("randwrite-32-unsynced", "4 KiB random write, depth 32; raw never synced",
        dict(rw="randwrite", bs="4k", iodepth=32)),
)


@dataclasses.dataclass(frozen=True)
class Side:
    """A side to measure: a name, and the fio options that choose where the I/O goes."""
    name: str
    target: list
    is_raw: bool = False
    served: object = None  # the pool, if it has daemons (served.py)
    daemons: tuple = ()  # the daemons that its I/O passes: "dpu", "engine"
    way: str = path_report.EMBEDDED  # what its path report must say
    has_devices: bool = True  # whose counters have all bytes
    through: str = ""  # the provider between client and engine, if the engine is a daemon

    @property
    def mode(self):
        return ("raw" if self.is_raw else "offload" if "dpu" in self.daemons else
                "direct" if self.daemons else "embedded")


def raw_side(file):
    return Side("raw", ["--ioengine=io_uring", "--direct=1", "--fixedbufs=1",
                        f"--filename={file}"], is_raw=True)


def pool_side(name, built, uri, file):
    """Returns the side of a file in a container, through the fio plug-in of the build in directory `built`."""
    plugin = Path(built).absolute() / "plugins/fio/libros2store-fio.so"
    return Side(name, [f"--ioengine=external:{plugin}", f"--uri={uri}", f"--filename={file}"])


def served_side(name, built, pool, scheme, way, through):
    """Returns the side of a file in a container behind daemons."""
    further = f"&provider={through}" if scheme == "ros2s" else ""
    side = pool_side(name, built, pool.uri(scheme, further=further), "figures")
    return dataclasses.replace(side, target=[*side.target, "--thread"], served=pool, way=way,
                               through=through,
                               daemons=("dpu", "engine") if scheme == "ros2s+dpu" else ("engine",))


@dataclasses.dataclass(frozen=True)
class Figure:
    """The results of one run of fio, and its costs."""
    operations: int
    iops: float
    bytes_per_s: float
    p50_us: float  # from fio's submit to the completion; without what fdatasync takes
    p99_us: float
    cpu_us: dict  # user and kernel time per operation, by process: host (fio), dpu, engine
    path: str = ""  # the path of the I/O, from the pool's own report; empty: raw
    hops: object = None  # hops.Hops: the counts of each process on the path; None: raw
    device_empty_share: float = None  # None: not sampled
    counted: dict = dataclasses.field(default_factory=dict)  # growth of each daemon's counters (hops.Series)


def fill(side, size):
    """Writes the file that the rows use."""
    synced = ["--end_fsync=1"] if side.is_raw else []
    shown.run("fio", "--name=fill", *side.target, "--rw=write", "--bs=1m", "--iodepth=8",
              f"--size={size}", *synced, quiet=True)


def fio_command(row, side, shared):
    options = shared | row.options | (row.only_raw if side.is_raw else {})
    report = [] if side.is_raw else ["--path_report=1"]
    return ["fio", "--name=figure", "--output-format=json", "--lat_percentiles=1", "--group_reporting=1",
            *side.target, *report, *(f"--{key}={value}" for key, value in options.items())]


def measure(row, side, shared, prefix=()):
    """Runs fio once. `prefix`: a command that runs fio, such as perf's."""
    command = [*prefix, *fio_command(row, side, shared)]
    before = None
    meter = served.Meter(side.served) if side.served else None

    def once():
        nonlocal before
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=300)

    done = shown.fio(once)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Warnings may precede the JSON.
    text = done.stdout[done.stdout.find("{"):]
    if done.returncode != 0 or not text:
        raise shown.Failed(f"{' '.join(command)}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    job = json.loads(text)["jobs"][0]
    if job["error"] != 0:
        raise shown.Failed(f"{' '.join(command)}\nfio reports error {job['error']}")
    wrote = "write" in row.options["rw"]
    moved = job["write" if wrote else "read"]
    spent = {"host": (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)}
    by_daemons, counted = meter.read() if meter else ({}, {})
    spent |= {name: by_daemons[name] for name in side.daemons}
    path, passed = "", None
    if not side.is_raw:
        report = path_report.check(done.stdout, moved["total_ios"], wrote, side.way,
                                   counted.get("engine"), row.options.get("numjobs", 1), side.has_devices)
        path, passed = report.path, hops.seen(report, counted)
        if side.through:
            hops.check(passed, side.through, "dpu" in side.daemons)
    operations = max(1, moved["total_ios"])
    latency = moved["lat_ns"].get("percentile", {})
    return Figure(operations, moved["iops"], moved["bw_bytes"],
                  latency.get("50.000000", 0) / 1000, latency.get("99.000000", 0) / 1000,
                  {name: 1e6 * seconds / operations for name, seconds in spent.items()}, path, passed,
                  counted=counted)


def time_based(size, seconds):
    """Returns the options of fio that all rows and sides share."""
    return dict(size=size, time_based=1, runtime=seconds, randrepeat=0, norandommap=1)


def order(turn, sides):
    """Returns the sides' numbers. The first side alternates."""
    numbers = range(len(sides))
    return numbers if turn % 2 == 0 else reversed(numbers)


def in_turn(rows, sides, turns, shared, measured=measure):
    """Yields (row, a list of each side's figures, turn by turn) for each row."""
    for row in rows:
        for side in sides:
            console.command(fio_command(row, side, shared))
        figures = [[] for _ in sides]
        for turn in range(turns):
            for i in order(turn, sides):
                figures[i].append(measured(row, sides[i], shared))
        yield row, figures


def table(rows, sides, size, seconds, turns):
    return in_turn(rows, sides, turns, time_based(size, seconds))


def ratio(figures, base):
    """Returns the median of the turns' ratios and their spread, as text."""
    ratios = [ours.bytes_per_s / other.bytes_per_s for ours, other in zip(figures, base)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"


def median_rate(row, figures):
    """Returns MiB/s, or operations per second."""
    return statistics.median(figure.bytes_per_s / 2**20 if row.in_mib() else figure.iops
                             for figure in figures)


def rate(row, figures):
    return f"{median_rate(row, figures):,.0f} {'MiB/s' if row.in_mib() else 'IOPS'}"


def lines(results):
    """Returns a Markdown table of raw and one pool."""
    return ["| | raw | embedded | ratio (spread) |", "|---|---|---|---|",
            *(f"| {row.name} | {rate(row, raw)} | {rate(row, ours)} | {ratio(ours, raw)} |"
              for row, (raw, ours) in results)]


def way(results):
    """Returns a line with the paths of the I/O, for below the table. Each turn was checked when it ended."""
    paths = {figure.path for _, sides in results for side in sides for figure in side if figure.path}
    return (f"Path of every turn on a pool, by its own report and its devices' counters: "
            f"{'; '.join(sorted(paths))}")


def machine():
    """Describes the machine in a line."""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")),
                     os.uname().machine)
    kind = subprocess.run(["stat", "-f", "-c", "%T", "build"], capture_output=True, text=True,
                          check=False).stdout.strip()
    return f"{len(os.sched_getaffinity(0))} cores of {model}, Linux {os.uname().release}, {kind}"

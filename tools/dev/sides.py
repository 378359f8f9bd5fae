"""The sides of a measurement (the raw disk, and pools in each set-up), and one run of fio on a side.

Raw is fio's io_uring with direct=1 and fixed buffers on a fully written file of the same size in the same file system.
A run on a pool is a figure only if its path report and the counters of each process show the way that the side names."""

import configparser
import dataclasses
import json
import os
import re
import resource
import subprocess
from pathlib import Path

import hops
import path_report
import served
import shown

JOBS = Path(__file__).absolute().parent / "bench/jobs"
SIZES = {"4k": 4096, "16k": 16384, "64k": 65536, "1m": 1 << 20}


@dataclasses.dataclass(frozen=True)
class Row:
    """What is measured: a section of a job file, or an operation of another program."""
    key: str  # of ./dev bench --rows
    options: dict = dataclasses.field(default_factory=dict)  # of fio
    workload: str = ""
    bs: int = None
    iodepth: int = 1

    @property
    def wrote(self):
        return "write" in self.workload


def job(key, options):
    return Row(key, options, options["rw"], SIZES[options["bs"]], int(options["iodepth"]))


def jobs(name):
    """Returns the rows of a job file in bench/jobs."""
    file = configparser.ConfigParser(default_section="global")
    with open(JOBS / f"{name}.fio", encoding="utf-8") as text:
        file.read_file(text)
    return tuple(job(key, dict(file[key])) for key in file.sections())


ROWS = jobs("files")


def row_of(key):
    return next(row for row in ROWS if row.key == key)


@dataclasses.dataclass(frozen=True)
class Side:
    """A side to measure: a name, and the fio options that choose where the I/O goes."""
    name: str
    target: list
    is_raw: bool = False
    served: object = None  # the pool, if it has daemons (served.py)
    daemons: tuple = ()  # the daemons that its I/O passes: "dpu", "engine"
    way: str = path_report.EMBEDDED  # what its path report must say
    through: str = ""  # the provider between client and engine, if the engine is a daemon

    @property
    def mode(self):
        return ("raw" if self.is_raw else "offload" if "dpu" in self.daemons else
                "direct" if self.daemons else "embedded")

    @property
    def provider(self):
        return self.through or None

    @property
    def uri(self):
        return next(option.partition("=")[2] for option in self.target if option.startswith("--uri="))


def raw_side(file):
    return Side("raw", ["--ioengine=io_uring", "--direct=1", "--fixedbufs=1", f"--filename={file}"], is_raw=True)


def pool_side(name, built, uri, file):
    """Returns the side of a file in a container, through the fio plug-in of the build in directory `built`."""
    plugin = Path(built).absolute() / "plugins/fio/libros2store-fio.so"
    return Side(name, [f"--ioengine=external:{plugin}", f"--uri={uri}", f"--filename={file}"])


def direct(built, pool, provider, name):
    address = r"\S+/run/engine\.data" if provider == "shm" else r"127\.0\.0\.1:\d+"
    return behind_daemons(name, built, pool.uri("ros2s", further=f"&provider={provider}"), pool, provider, ("engine",),
                          rf"{re.escape(provider)} to {address}, {path_report.ENGINE}")


def offload(built, pool, provider, name):
    """Returns the side of a pool behind a DPU. `provider`: how the DPU reaches its engine."""
    return behind_daemons(name, built, pool.uri("ros2s+dpu"), pool, provider, ("dpu", "engine"),
                          rf"host link over shm to the DPU at {re.escape(str(pool.directory))}/run/dpu\.data\."
                          rf"[0-9a-f]{{16}}, {re.escape(provider)} to its {path_report.ENGINE}")


def behind_daemons(name, built, uri, pool, provider, daemons, way):
    side = pool_side(name, built, uri, "figures")
    return dataclasses.replace(side, target=[*side.target, "--thread"], served=pool, way=way, through=provider,
                               daemons=daemons)


@dataclasses.dataclass(frozen=True)
class Figure:
    """The results of one run, and its costs."""
    operations: int
    iops: float
    bytes_per_s: float = None
    p50_us: float = None  # from fio's submit to the completion; without what fdatasync takes
    p99_us: float = None
    cpu_us: dict = dataclasses.field(default_factory=dict)  # user and kernel time per operation: host (fio), dpu, engine
    path: str = ""  # the path of the I/O, from the pool's own report; empty: raw
    hops: object = None  # hops.Hops: the counts of each process on the path; None: raw
    counted: dict = dataclasses.field(default_factory=dict)  # growth of each daemon's counters (hops.Series)


def fill(side, size):
    """Writes the file that the rows use."""
    synced = ["--end_fsync=1"] if side.is_raw else []
    shown.run("fio", "--name=fill", *side.target, "--rw=write", "--bs=1m", "--iodepth=8", f"--size={size}", *synced, quiet=True)


def verify(side, size):
    """Lets fio write a file at random, and read back what it wrote. Raises Failed."""
    shown.run("fio", "--name=verify", *side.target, "--thread", "--rw=randwrite", "--bs=4k", "--iodepth=32", f"--size={size}",
              "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--verify_state_save=0", quiet=True)


def time_based(size, seconds):
    """Returns the options of fio that all rows and sides share."""
    return dict(size=size, time_based=1, runtime=seconds)


def fio_command(row, side, shared, reports=True):
    options = shared | {name: value for name, value in row.options.items() if side.is_raw or name != "fdatasync"}
    report = [] if side.is_raw or not reports else ["--path_report=1"]
    return ["fio", "--name=figure", "--output-format=json", "--lat_percentiles=1", "--group_reporting=1",
            *side.target, *report, *(f"--{key}={value}" for key, value in options.items())]


def spent_seconds():
    """Returns the processor time of the processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def figure_of(text, row, **more):
    """Returns the figure that fio's JSON gives; warnings may precede it. Raises Failed."""
    found = json.loads(text[text.find("{"):])["jobs"][0] if "{" in text else {"error": "no report"}
    if found["error"] != 0:
        raise shown.Failed(f"fio reports error {found['error']}: {text[-1500:]}")
    moved = found["write" if row.wrote else "read"]
    latency = moved["lat_ns"].get("percentile", {})
    return Figure(moved["total_ios"], moved["iops"], moved["bw_bytes"], latency.get("50.000000", 0) / 1000,
                  latency.get("99.000000", 0) / 1000, **more)


def measure(row, side, shared, prefix=(), environment=None):
    """Runs fio once. `prefix`: a command that runs fio, such as perf's."""
    command = [*prefix, *fio_command(row, side, shared)]
    meter = served.Meter(side.served) if side.served else None
    before = 0

    def once():
        nonlocal before
        before = spent_seconds()
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300,
                              env=os.environ | (environment or {}))

    done = shown.fio(once)
    spent = {"host": spent_seconds() - before}
    if done.returncode != 0:
        raise shown.Failed(f"{' '.join(map(str, command))}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    by_daemons, counted = meter.read() if meter else ({}, {})
    spent |= {name: by_daemons[name] for name in side.daemons}
    figure = figure_of(done.stdout, row, counted=counted)
    operations = max(1, figure.operations)
    cpu_us = {name: 1e6 * seconds / operations for name, seconds in spent.items()}
    return dataclasses.replace(figure, operations=operations, cpu_us=cpu_us, **way_of(row, side, figure, done.stdout, counted))


def way_of(row, side, figure, text, counted):
    """Returns the way that the payload took. Raises Failed if it is not the side's."""
    if side.is_raw:
        return {}
    report = path_report.check(text, figure.operations, row.wrote, side.way, counted.get("engine"))
    passed = hops.seen(report, counted)
    if side.through:
        hops.check(passed, side.through, "dpu" in side.daemons)
    return dict(path=report.path, hops=passed)


def in_turn(sides, turns, run):
    """Runs all sides in each turn; the first side alternates. Returns the results of each side, turn by turn."""
    results = [[] for _ in sides]
    for turn in range(turns):
        for number in range(len(sides)) if turn % 2 == 0 else reversed(range(len(sides))):
            results[number].append(run(sides[number]))
    return results


def machine():
    """Describes the machine in a line."""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), os.uname().machine)
    kind = subprocess.run(["stat", "-f", "-c", "%T", "build"], capture_output=True, text=True, check=False).stdout.strip()
    return f"{len(os.sched_getaffinity(0))} cores of {model}, Linux {os.uname().release}, {kind}"

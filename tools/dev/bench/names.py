"""Measures creations, stats, opens, renames and unlinks per second (bench/name_bench.c), one at a time and 32 in
flight: in each set-up, and in the file system of the checkout, without and with fsync of file and directory."""

import dataclasses
import statistics
import subprocess

import build
import compare
import console
import shown
from bench import plot, pools, report, rows, samples

THREADS = (1, 32)
OPERATIONS = ("create", "stat", "open", "rename", "unlink")
SYNCED = "with fsync"


@dataclasses.dataclass(frozen=True)
class Timed:
    """The times of one turn and operation."""
    per_second: float
    p50_us: float
    p99_us: float


def parse(text):
    """Parses the output of name_bench, by operation."""
    found = {}
    for line in text.splitlines():
        name, done, took, p50, p99 = line.split()
        found[name] = Timed(int(done) / float(took), float(p50), float(p99))
    if tuple(found) != OPERATIONS:
        raise shown.Failed(f"name_bench printed {text!r}")
    return found


class Directories:
    """Makes a new directory each time: in the file system, or in a container."""

    def __init__(self, mode, provider, uri_of=None, place=None, synced=False):
        self.mode = mode
        self.provider = provider
        self.uri_of = uri_of  # of a path in a container
        self.place = place
        self.synced = synced
        self.made = 0

    def title(self):
        return f"{self.mode}, {self.provider}" if self.provider else self.mode

    def new(self, programs):
        self.made += 1
        name = f"{self.mode}{self.made}"
        if self.uri_of:
            where = self.uri_of(name)
            shown.run(programs / "bin/ros2store", "mkdir", where, quiet=True)
        else:
            where = self.place / name
            where.mkdir()
        return where

    def run(self, programs, threads, seconds, *more, prefix=(), where=None):
        """`where`: one that is made already."""
        command = shown.words([*prefix, programs / "bench/name_bench", where or self.new(programs), threads, seconds,
                               *(["fsync"] if self.synced else []), *more])
        console.command(command)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=300)
        if done.returncode != 0:
            raise shown.Failed(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def turn(self, programs, threads, seconds):
        return parse(self.run(programs, threads, seconds))

    def sampled(self, programs, file, pids, operation, seconds):
        """Runs an operation, 32 in flight. Returns how many were done, and perf's samples by process."""
        said = self.run(programs, THREADS[-1], seconds, operation, prefix=samples.recorded(file))
        name, done, took = said.splitlines()[-1].split()[:3]
        assert name == operation
        return int(done), samples.during(samples.by_process(samples.read(file), pids, "name_bench"), float(took))


def measure(options, place, document, tally):
    built = build.folder("release").absolute()
    ours = pools.Pools("this", built, place, options.mib)
    embedded = ours.embedded_directory()
    pool = ours.with_daemons(("shm",))
    where = {name: place / name for name in ("plain", "synced")}
    for directory in where.values():
        directory.mkdir()
    sides = [Directories("raw", SYNCED, place=where["synced"], synced=True),
             Directories("raw", "without fsync", place=where["plain"]),
             Directories("embedded", None, lambda path: f"ros2s+local:///pool/main/{path}?dir={embedded}"),
             Directories("direct", "shm", lambda path: pool.uri("ros2s", path, "&provider=shm")),
             Directories("offload", "shm", lambda path: pool.uri("ros2s+dpu", path))]
    made, spreads = in_turn(built, sides, options, tally)
    ours.down()
    document["rows"], document["spreads"] = made, spreads
    return lines(made, spreads, SYNCED), bars(made, spreads)


def in_turn(built, sides, options, tally):
    """Returns the rows of all sides and their spreads. Ratios are to the first side."""
    made, spreads = [], []
    for threads in THREADS:
        turns = [[] for _ in sides]
        for turn in range(options.turns):
            for number in compare.order(turn, sides):
                turns[number].append(sides[number].turn(built, threads, options.seconds))
        for operation in OPERATIONS:
            told = [row(side, operation, threads, own, turns[0]) for side, own in zip(sides, turns)]
            made += [each for each, _ in told]
            spreads += [each for _, each in told]
            tally.add(f"{operation}, {threads} in flight: " + "; ".join(
                f"{side.title()} {each['iops']:,.0f}/s" for side, (each, _) in zip(sides, told)), True)
    return made, spreads


def row(side, operation, threads, turns, raw):
    """Returns the row and its spread. `turns`, `raw`: dictionaries by operation, turn by turn."""
    own = [turn[operation] for turn in turns]
    ratios = [ours.per_second / other[operation].per_second for ours, other in zip(own, raw)]
    values = dict.fromkeys(rows.FIELDS) | {
        "mode": side.mode, "provider": side.provider, "workload": operation, "iodepth": threads, "jobs": 1,
        "devices": 1, "iops": rows.rounded(statistics.median(one.per_second for one in own)),
        "p50_us": rows.rounded(rows.median(one.p50_us for one in own)),
        "p99_us": rows.rounded(rows.median(one.p99_us for one in own)),
        "ratio_to_raw": None if turns is raw else rows.rounded(statistics.median(ratios))}
    spread = {"iops": [rows.rounded(each(one.per_second for one in own)) for each in (min, max)]}
    if turns is not raw:
        spread["ratio_to_raw"] = [rows.rounded(each(ratios)) for each in (min, max)]
    return values, spread


def title(row):
    return f"{row['workload']}, {row['iodepth']} in flight"


def lines(made, spreads, raw):
    return report.table(("operation", "mode", "per second (spread)", f"ratio to raw {raw}", "p50, p99 µs"), (
        (title(one), report.mode(one),
         f"{one['iops']:,.0f} ({spread['iops'][0]:,.0f}–{spread['iops'][1]:,.0f})",
         report.number(one["ratio_to_raw"], 2),
         f"{report.number(one['p50_us'])}, {report.number(one['p99_us'])}")
        for one, spread in zip(made, spreads)))


def bars(made, spreads):
    groups = {}
    for one, spread in zip(made, spreads):
        if one["mode"] != "raw":
            groups.setdefault(title(one), []).append(
                (report.mode(one), one["ratio_to_raw"], spread["ratio_to_raw"]))
    return plot.Plot(list(groups.items()))

"""Measures creations, stats, opens, renames and unlinks per second (bench/name_bench.c), one at a time and 32 in
flight: in each set-up, and in the file system of the checkout, without and with fsync of file and directory."""

import dataclasses
import re
from pathlib import Path

import build
import shown
import sides
from bench import pools, report, samples

THREADS = (1, 32)
OPERATIONS = ("create", "stat", "open", "rename", "unlink")
SYNCED = "with fsync"


def parse(text, wanted=OPERATIONS):
    """Parses the output of name_bench, by operation."""
    found = {name: sides.Figure(int(done), int(done) / float(took), p50_us=float(p50), p99_us=float(p99))
             for name, done, took, p50, p99 in re.findall(r"^(\w+) (\d+) (\S+) (\S+) (\S+)$", text, re.MULTILINE)}
    if not set(wanted) <= set(found):
        raise shown.Failed(f"name_bench printed {text!r}")
    return found


@dataclasses.dataclass
class Directories:
    """Makes a new directory each time: in a folder, or in a container."""
    mode: str
    provider: str
    where: object  # a folder, or the URI of a container in which {} is replaced by the directory
    synced: bool = False
    made: int = 0

    def new(self, programs):
        self.made += 1
        name = re.sub(r"\W", "", f"{self.mode}{self.provider}{self.made}")
        if isinstance(self.where, Path):
            (self.where / name).mkdir(parents=True)
            return self.where / name
        made = self.where.format(f"/{name}")
        shown.run(programs / "bin/ros2store", "mkdir", made, quiet=True)
        return made

    def run(self, programs, threads, seconds, *more, prefix=(), where=None):
        """`where`: one that is made already."""
        return shown.run(*prefix, programs / "bench/name_bench", where or self.new(programs), threads, seconds,
                         *(["fsync"] if self.synced else []), *more, quiet=True)

    def sampled(self, programs, file, pids, operation, seconds):
        """Runs an operation, 32 in flight. Returns how many were done, and perf's samples by process."""
        said = self.run(programs, THREADS[-1], seconds, operation, prefix=samples.recorded(file))
        done = parse(said, (operation,))[operation]
        grouped = samples.by_process(samples.read(file), pids, "name_bench")
        return done.operations, samples.during(grouped, done.operations / done.iops)


def container(side):
    """Returns the URI of a side's container for Directories."""
    return side.uri.replace("/main?", "/main{}?")


class Metered:
    """Meters runs of name_bench. `used`: returns what has been used until now, by the names of costs."""

    def __init__(self, built, side, used, quiet=()):
        self.built, self.used, self.quiet = built, used, quiet
        self.directories = Directories(side.name, None, container(side))

    def metered(self, seconds, name):
        where = self.directories.new(self.built)
        before = self.used()
        text = self.directories.run(self.built, THREADS[-1], seconds, name, prefix=self.quiet, where=where)
        after = self.used()
        return parse(text, (name,))[name].operations, {each: after[each] - before[each] for each in before}


def measure(options, place, document, tally):
    built = build.folder("release").absolute()
    ours = pools.Pools("this", built, place, options.mib)
    all_sides = [Directories("raw", SYNCED, place / "synced", synced=True), Directories("raw", "without fsync", place / "plain"),
                 *(Directories(side.mode, side.provider, container(side)) for side in ours.sides("shm"))]
    told = report.Rows(document, tally)
    for threads in THREADS:
        add(told, all_sides, threads, sides.in_turn(all_sides, options.turns, lambda side, threads=threads: parse(
            side.run(built, threads, options.seconds))))
    ours.down()
    return told.lines()


def add(told, all_sides, depth, turns):
    """Adds the rows of turns that measure several operations each."""
    for operation in turns[0][0]:
        told.add(sides.Row(f"{operation}, {depth} in flight", workload=operation, iodepth=depth), all_sides,
                 [[turn[operation] for turn in own] for own in turns])

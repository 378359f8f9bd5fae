"""Measures what programs do on a mount (workloads.py), in each set-up with and without `durability=fsync`, beside the
file system of the checkout and beside FUSE itself, which is libfuse's passthrough_ll. Where Debian's postgresql is
installed, and as root: also how long a new database takes, and a copy of a database that crashed in the checkout's file
system until it is recovered."""

import dataclasses
import os
import shutil
import time
from pathlib import Path

import build
import console
import shown
import sides
from bench import pools, postgres, report, workloads

EXAMPLE = Path("/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c")
DURABLE, DEFERRED, EXCLUSIVE = "", "durability=fsync", "exclusive"


@dataclasses.dataclass(frozen=True)
class Mounted:
    """A directory with a side's files. `mount`: the command that mounts it; None: nothing is mounted."""
    mode: str
    provider: str
    folder: Path
    mount: tuple = None
    unmount: tuple = None
    before: tuple = None  # a command that changes the container's durability
    keeps_writes: bool = False  # in the kernel; measured with workloads.WRITES
    synced: Path = None  # what makes a turn's files durable, with syncfs(2), which does not reach a pool; None: fsync

    def begin(self):
        for command in filter(None, (self.before, self.mount)):
            shown.run(*command, quiet=True)

    def end(self):
        if self.unmount:
            shown.run(*self.unmount, quiet=True)

    def empty_caches(self):
        self.end()
        if self.synced and os.geteuid() == 0:
            shown.shell("sync && echo 3 >/proc/sys/vm/drop_caches")
        self.begin()

    def sync(self, top):
        shown.run("sync", *(["-f", self.synced] if self.synced else [top]), quiet=True)


def of_pool(side, program, folder, durability, others):
    """Returns a side's container as a mount. Only a container with `durability=fsync` may be mounted `exclusive`."""
    mount = (program, "mount", side.uri, folder, "--", *others, *(("--exclusive",) if durability == EXCLUSIVE else ()))
    change = (program, "container", "set", side.uri.replace("ros2s+dpu:", "ros2s:"), "--durability",
              "fsync" if durability else "durable")
    return Mounted(", ".join(filter(None, (side.mode, durability))), side.provider, folder, mount, (program, "umount", folder),
                   change, durability == EXCLUSIVE)


def fuse_itself(place, folder, raw, others):
    """Yields the sides of passthrough_ll, without and with the kernel's writeback cache, if libfuse's example is there."""
    if not EXAMPLE.exists() or not shutil.which("cc"):
        console.note(f"without FUSE itself: {EXAMPLE} or a compiler is missing; install libfuse3-dev and gcc")
        return
    program = place / "passthrough_ll"
    shown.shell(f"cc -O2 -o {program} {EXAMPLE} $(pkg-config --cflags --libs fuse3)")
    allow = ["-o", "allow_other"] if others else []
    for name, option in (("FUSE itself", ""), ("FUSE itself, writeback", ",writeback")):
        mount = (program, *allow, "-o", f"source={raw},cache=always{option}", folder)
        yield Mounted(name, None, folder, mount, ("fusermount3", "-u", folder), keeps_writes=option != "", synced=raw)


def turn(side, works):
    """Returns a sides.Figure for each workload. If it fails, guard.py unmounts."""
    side.begin()
    top = side.folder / f"turn-{time.monotonic_ns()}"
    top.mkdir()
    found = {}
    for name, work in works.items():
        if side.keeps_writes and name not in workloads.WRITES:
            continue
        if work.is_cold:
            side.empty_caches()
        began = time.monotonic()
        told = work.run(top)
        if work.changes:
            side.sync(top)
        done, seconds = told or work.count, time.monotonic() - began
        found[name] = told if isinstance(told, sides.Figure) else sides.Figure(done, done / seconds)
    shown.shell(f"rm -r {top}")
    side.end()
    return found


def measure(options, place, document, tally):
    built = build.folder("release").absolute()
    program = built / "bin/ros2store"
    ours = pools.Pools("this", built, place, options.mib)
    # All sides use the one mount point that guard.py unmounts.
    folder, raw = place / "mnt", place / "raw"
    for each in (folder, raw):
        each.mkdir()
    database = postgres.Crashed(place) if postgres.programs() else None
    others = ("--allow-other",) if database else ()
    if not database:
        console.note("without PostgreSQL: postgresql is not installed, or this is not root")
    pooled = ours.sides("shm")
    all_sides = [Mounted("raw", None, raw, synced=raw), *fuse_itself(place, folder, raw, others),
                 *(of_pool(side, program, folder, durability, others)
                   for durability in (DURABLE, DEFERRED, EXCLUSIVE) for side in pooled)]
    works = workloads.Tree(place).workloads() | (database.workloads() if database else {})
    results = sides.in_turn(all_sides, options.turns, lambda side: turn(side, works))
    told = report.Rows(document, tally)
    for name in works:
        having = [(side, own) for side, own in zip(all_sides, results) if name in own[0]]
        told.add(sides.Row(name, workload=name), [side for side, _ in having],
                 [[each[name] for each in own] for _, own in having])
    ours.down()
    document["files"] = workloads.FILES
    return told.lines()

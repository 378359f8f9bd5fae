"""Measures what trainings do with Python: epochs of a DataLoader, records, checkpoints, and the start of processes; in
the file system of the checkout, on a mount, and with the package ros2store."""

import dataclasses
import os
import re
from pathlib import Path

import build
import served
import shown
import sides
from bench import host_cpu, pools, report, rows

PROGRAM = sides.JOBS / "loader.py"
PYTHON = "/usr/bin/python3"  # Debian's, for which the package is built
FILES_PER_MIB = 10
WORKERS = (0, 1, 2, 4)
RANKS = 2
CHECKPOINT = 2  # as large as all files: 1 GiB of the default
ROOM = 2 + 2 * CHECKPOINT  # the files, two checkpoints, and the file of records
FORKS = 5
MEMORY = "memory"  # of a child: a line that counts KiB
SECONDS = 2
RECORDS = sides.Row("records", dict(rw="randread", bsrange="4k-64k", iodepth="16"), "randread 4 to 64 KiB", None, 16)


@dataclasses.dataclass(frozen=True)
class Place:
    """A directory, or the URI of a container."""
    mode: str
    provider: str
    where: str
    pool: served.Served = None  # its daemons, if requests reach them
    program: Path = PROGRAM
    mounter: int = None  # the process that serves the mount: the host's, too

    def run(self, built, *words):
        """Returns operations, seconds and, where it has one, the 99th percentile in µs of each line that the program
        prints, and the costs of one operation."""
        meter = served.Meter(self.pool) if self.pool else None
        before = served.cpu_seconds(self.mounter) if self.mounter else 0
        text = shown.run(PYTHON, "-B", self.program, self.where, *words, quiet=True, timeout=3600,
                         environment={**os.environ, "PYTHONPATH": str(built / "python")})
        found = re.findall(r"^(.+?) (\d+) (\d+\.\d+)(?: (\d+\.\d+))?$", text, re.MULTILINE)
        lines = [(name, int(count), float(seconds), float(p99) if p99 else None) for name, count, seconds, p99 in found
                 if name != "cpu"]
        all_operations = max(1, sum(count for name, count, *_ in lines if name != MEMORY))
        spent = {"host": float(found[-1][2]), **(meter.read()[0] if meter else {})}
        if self.mounter:
            spent["host"] += served.cpu_seconds(self.mounter) - before
        return lines, {name: seconds * 1e6 / all_operations for name, seconds in spent.items()}

    def figures(self, built, *words):
        """Returns a sides.Figure for each workload of the program; of several lines their median."""
        lines, cpu_us = self.run(built, *words)
        found = {}
        for name, count, seconds, p99_us in lines:
            found.setdefault(name, []).append(sides.Figure(count, count / seconds, p99_us=p99_us, cpu_us=cpu_us))
        return {name: sorted(each, key=lambda one: one.iops)[len(each) // 2] for name, each in found.items()}


def measure(options, place, document, tally):
    shown.run(PYTHON, "-c", "import torch", quiet=True)
    built = build.folder("release").absolute()
    ours = pools.Pools("this", built, place, ROOM * options.mib)
    pool = ours.with_daemons(("shm",))
    uri = pool.uri("ros2s+dpu")
    raw, folder = place / "raw", place / "mnt"
    for each in (raw, folder):
        each.mkdir()
    files = options.mib * FILES_PER_MIB
    ext4 = Place("raw", None, str(raw))
    mounted, module = Place("mount", "shm", str(folder), pool), Place("offload", "shm", uri, pool)
    for each in (ext4, module):
        each.run(built, "make", files)
    told = report.Rows(document, tally)

    def add(names, of_sides, *words):
        """Measures the sides in turn, and adds a row for each of the workloads."""
        turns = sides.in_turn(of_sides, options.turns, lambda side: on_mount(side, built, pool, folder, *words))
        for key, name in names.items():
            told.add(sides.Row(key, workload=key), of_sides, [[turn[name] for turn in own] for own in turns])

    for workers in WORKERS:
        add({f"files, {workers} workers, cold": "cold", f"files, {workers} workers, second epoch": "second"},
            (ext4, mounted, module), "epochs", workers)
    add({"checkpoint, wait of a step": "stall", "checkpoint, load": "load"}, (ext4, module), "checkpoint",
        CHECKPOINT * options.mib, RANKS)
    add({"read_many, beside open and read, cold": "batches"}, (ext4, module), "batches", files)
    library = built / "lib/libros2store.so.0"
    turns = [module.figures(built, "read_many", files, library) for _ in range(options.turns)]
    told.add(sides.Row("read_many", workload="read_many"), (Place("C", None, ""), Place("Python", None, "")),
             [[turn[name] for turn in turns] for name in ("C", "Python")])
    fio = sides.offload(built, pool, "shm", "fio's plug-in")
    sides.fill(fio, f"{options.mib}m")
    turns = [(sides.measure(RECORDS, fio, sides.time_based(f"{options.mib}m", SECONDS)),
              module.figures(built, "records", SECONDS)["records"]) for _ in range(options.turns)]
    told.add(RECORDS, (Place("fio", None, ""), Place("Python", None, "")), list(zip(*turns)))
    embedded = Place("embedded", None, ours.embedded(size="1G").uri)
    embedded.run(built, "make", 1)
    for side in (module, embedded):
        for words in (("fork", FORKS), ("start",), ("start", "cold")):
            turns = [side.figures(built, *words) for _ in range(options.turns)]
            for name in turns[0]:
                found = [turn[name] for turn in turns]
                if name == MEMORY:
                    document.setdefault("child_kib", {})[side.mode] = rows.median(each.operations for each in found)
                else:
                    told.add(sides.Row(name, workload=name), (side,), [found])
    ours.down()
    document["files"] = files
    memory = ", ".join(f"{mode} {kib / 1024:.1f} MiB" for mode, kib in document["child_kib"].items())
    return [*told.lines(), "", f"Memory that a forked child adds with its first use: {memory}."]


def on_mount(side, built, pool, folder, *words):
    """Runs the program; what is on a mount, on a new one."""
    if side.where != str(folder):
        return side.figures(built, *words)
    program = built / "bin/ros2store"
    shown.run(program, "mount", pool.uri("ros2s+dpu"), folder, quiet=True)
    found = dataclasses.replace(side, mounter=host_cpu.mounter(folder)).figures(built, *words)
    shown.run("fusermount3", "-u", folder, quiet=True)
    return found

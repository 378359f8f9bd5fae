"""Measures what programs do with many small files, on a mount of each set-up and in the file system of the
checkout: tar, git, cp, cat and rm. Each workload ends with a sync, so that everything is durable. Where PostgreSQL is
installed, its recovery is measured too."""

import dataclasses
import random
import time

import build
import compare
import console
import shown
from bench import names, pools, postgres, report

FILES, FOLDERS, SEED = 400, 20, 1
BYTES_MOST = 16384
WORKLOADS = ("untar", "git clone", "copy", "read", "remove")
RECOVERY = "PostgreSQL's recovery"


@dataclasses.dataclass(frozen=True)
class Mounted:
    """The folder with a side's files. `uri`: what is mounted there. None: the checkout's file system."""
    mode: str
    provider: str
    folder: object
    uri: str = None


class Tree:
    """Files of a few KiB in folders: as a tree, as an archive, and as a git repository."""

    def __init__(self, place):
        self.folder, self.archive, self.repository = (place / name for name in ("tree", "tree.tar", "tree.git"))
        numbers = random.Random(SEED)
        self.bytes = 0
        for number in range(FILES):
            folder = self.folder / f"d{number % FOLDERS}"
            folder.mkdir(parents=True, exist_ok=True)
            text = f"{number}\n" * (numbers.randrange(1, BYTES_MOST) // (len(str(number)) + 1))
            (folder / f"f{number}").write_text(text, encoding="ascii")
            self.bytes += len(text)
        shown.run("tar", "-cf", self.archive, "-C", self.folder, ".", quiet=True)
        shown.shell(f"git init -q {self.repository} && cp -r {self.folder}/. {self.repository} && "
                    f"cd {self.repository} && git add -A && "
                    "git -c user.name=bench -c user.email=bench@localhost commit -qm tree")

    def line(self, workload, top):
        """Returns a line for the shell. `copy` makes the tree that later workloads read and remove."""
        return {"untar": f"mkdir {top}/untarred && tar -xf {self.archive} -C {top}/untarred",
                "git clone": f"git clone -q --no-hardlinks {self.repository} {top}/clone",
                "copy": f"cp -r {self.folder} {top}/copy",
                "read": f"find {top}/copy -type f -exec cat {{}} + >/dev/null",
                "remove": f"rm -r {top}/copy"}[workload] + f" && sync -f {top}"


def turn(side, tree, program, database=None):
    """Returns files per second, by workload, and recoveries per second. If it fails, guard.py unmounts."""
    if side.uri:
        others = ("--", "--allow-other") if database else ()
        shown.run(program, "mount", side.uri, side.folder, *others, quiet=True)
    top = side.folder / f"{side.mode}-{time.monotonic_ns()}"
    top.mkdir()
    found = {}
    for workload in WORKLOADS:
        began = time.monotonic()
        shown.shell(tree.line(workload, top))
        found[workload] = names.Timed(FILES / (time.monotonic() - began), None, None)
    if database:
        found[RECOVERY] = names.Timed(1 / database.recover(top), None, None)
    shown.shell(f"rm -r {top}")
    if side.uri:
        shown.run("fusermount3", "-u", side.folder, quiet=True)
    return found


def measure(options, place, document, tally):
    built = build.folder("release").absolute()
    ours = pools.Pools("this", built, place, options.mib)
    # All sides use the one mount point that guard.py unmounts.
    folder, raw = place / "mnt", place / "raw"
    for each in (folder, raw):
        each.mkdir()
    embedded = ours.embedded()
    pool = ours.with_daemons(("shm",))
    sides = [Mounted("raw", None, raw)] + [
        Mounted(side.mode, side.through or None, folder, pools.uri_of(side))
        for side in (embedded, ours.direct(pool, "shm"), ours.offload(pool, "shm"))]
    tree = Tree(place)
    database = postgres.Crashed(place) if postgres.programs() else None
    if not database:
        console.note("without PostgreSQL's recovery: postgresql is not installed, or this is not root")
    turns = [[] for _ in sides]
    for number in range(options.turns):
        for i in compare.order(number, sides):
            turns[i].append(turn(sides[i], tree, built / "bin/ros2store", database))
    ours.down()
    made, spreads = [], []
    for workload in turns[0][0]:
        told = [names.row(side, workload, 1, own, turns[0]) for side, own in zip(sides, turns)]
        for row, _ in told:
            row["bytes_per_s"] = None if workload == RECOVERY else row["iops"] * tree.bytes / FILES
        made += [row for row, _ in told]
        spreads += [spread for _, spread in told]
        tally.add(f"{workload}: " + "; ".join(f"{row['mode']} {rate(row)}" for row, _ in told), True)
    document["rows"], document["spreads"] = made, spreads
    document["files"], document["bytes"] = FILES, tree.bytes
    return lines(made, spreads), names.bars(made, spreads)


def rate(row):
    return f"{1 / row['iops']:.1f} s" if row["workload"] == RECOVERY else f"{row['iops']:,.0f} files/s"


def lines(made, spreads):
    return report.table(("workload", "mode", "files per second, or time (spread)", "ratio to raw"), (
        (one["workload"], report.mode(one),
         f"{rate(one)} ({' to '.join(rate(one | {'iops': each}) for each in spread['iops'])})",
         report.number(one["ratio_to_raw"], 2)) for one, spread in zip(made, spreads)))

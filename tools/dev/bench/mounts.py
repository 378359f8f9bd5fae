"""Measures what programs do with many small files, on a mount of each set-up and in the file system of the
checkout: tar, git, cp, find, cat, ls and rm. Each workload ends with a sync, so that everything is durable. The kernel's
and the mount's caches are empty before "find" and "read", and have all before "read again" and "list". Where Debian's
postgresql is installed, and as root: also how long it takes to recover a database that crashed in the file system of the
checkout, so that all replay the same log."""

import dataclasses
import os
import random
import shutil
import signal
import time
from pathlib import Path

import build
import console
import shown
import sides
from bench import names, pools, report

FILES, FOLDERS, SEED = 400, 20, 1
BYTES_MOST = 16384
RECOVERY = "PostgreSQL's recovery"
USER, CLIENTS, PATIENCE_SECONDS = "postgres", 4, 120


@dataclasses.dataclass(frozen=True)
class Mounted:
    """The folder with a side's files. `uri`: what is mounted there. None: the checkout's file system."""
    mode: str
    provider: str
    folder: Path
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
        shown.shell(f"git init -q {self.repository} && cp -r {self.folder}/. {self.repository} && cd {self.repository} && "
                    "git add -A && git -c user.name=bench -c user.email=bench@localhost commit -qm tree")

    def lines(self, top):
        """Returns a line for the shell for each workload. `copy` makes the tree that later ones read and remove."""
        return {"untar": f"mkdir {top}/untarred && tar -xf {self.archive} -C {top}/untarred",
                "git clone": f"git clone -q --no-hardlinks {self.repository} {top}/clone",
                "copy": f"cp -r {self.folder} {top}/copy",
                "find": f"find {top}/copy -size +1k >/dev/null",
                "read": f"find {top}/copy -type f -exec cat {{}} + >/dev/null",
                "read again": f"find {top}/copy -type f -exec cat {{}} + >/dev/null",
                "list": f"ls -lR {top}/copy >/dev/null",
                "remove": f"rm -r {top}/copy"}


COLD = ("find", "read")


def empty_caches(side, program, others):
    if side.uri:
        shown.run("fusermount3", "-u", side.folder, quiet=True)
        shown.run(program, "mount", side.uri, side.folder, *others, quiet=True)
    elif os.geteuid() == 0:
        shown.shell("sync && echo 3 >/proc/sys/vm/drop_caches")


def turn(side, tree, program, database=None):
    """Returns a sides.Figure for each workload: of files, or recoveries. If it fails, guard.py unmounts."""
    others = ("--", "--allow-other") if database else ()
    if side.uri:
        shown.run(program, "mount", side.uri, side.folder, *others, quiet=True)
    top = side.folder / f"{side.mode}-{time.monotonic_ns()}"
    top.mkdir()
    found = {}
    for workload, line in tree.lines(top).items():
        if workload in COLD:
            empty_caches(side, program, others)
        began = time.monotonic()
        shown.shell(f"{line} && sync -f {top}")
        rate = FILES / (time.monotonic() - began)
        found[workload] = sides.Figure(FILES, rate, rate * tree.bytes / FILES)
    if database:
        found[RECOVERY] = sides.Figure(1, 1 / database.recover(top))
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
    all_sides = [Mounted("raw", None, raw), *(Mounted(side.mode, side.provider, folder, side.uri) for side in ours.sides("shm"))]
    tree, database = Tree(place), Crashed(place) if postgres() else None
    if not database:
        console.note("without PostgreSQL's recovery: postgresql is not installed, or this is not root")
    told = report.Rows(document, tally)
    names.add(told, all_sides, 1, sides.in_turn(all_sides, options.turns, lambda side: turn(
        side, tree, built / "bin/ros2store", database)))
    ours.down()
    document["files"], document["bytes"] = FILES, tree.bytes
    return told.lines()


def postgres():
    """Returns the programs of the newest PostgreSQL. None: there is none, or this process may not become its user."""
    found = [each.parent for each in Path("/usr/lib/postgresql").glob("*/bin/pgbench")]
    return max(found, key=lambda each: int(each.parent.name)) if found and os.geteuid() == 0 else None


class Crashed:
    """A database below `place` whose server was killed before a checkpoint."""

    def __init__(self, place, scale=5, transactions=500):
        self.programs, self.transactions = postgres(), CLIENTS * transactions
        self.folder, self.sockets = place / "crashed", place / "sockets"
        for each in (self.folder, self.sockets):
            each.mkdir(mode=0o700)
            shutil.chown(each, USER, USER)
        self.program("initdb", "-D", self.folder, "-A", "trust", "--no-sync", "--no-instructions")
        with open(self.folder / "postgresql.conf", "a", encoding="ascii") as file:
            file.write(f"listen_addresses = ''\nunix_socket_directories = '{self.sockets}'\n"
                       "checkpoint_timeout = 1h\nmax_wal_size = 4GB\n")
        self.start(self.folder)
        self.client("pgbench", "--initialize", "--quiet", "--scale", scale)
        self.client("pgbench", "--no-vacuum", "--client", CLIENTS, "--transactions", transactions)
        self.kill()

    def program(self, name, *arguments):
        # The environment stays, with the mark by which guard.py finds what it must end.
        return shown.run("setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "env", "-C", "/",
                         self.programs / name, *arguments, quiet=True)

    def client(self, name, *arguments):
        return self.program(name, "--host", self.sockets, *arguments, "postgres")

    def start(self, folder):
        self.program("pg_ctl", "-D", folder, "-w", "-t", PATIENCE_SECONDS, "-l", folder / "log", "start")

    def kill(self):
        """Returns when the last process has ended: until then no other server starts."""
        first = int((self.folder / "postmaster.pid").read_text(encoding="ascii").split()[0])
        others = Path(f"/proc/{first}/task/{first}/children").read_text(encoding="ascii").split()
        os.kill(first, signal.SIGKILL)
        end = time.monotonic() + PATIENCE_SECONDS
        while any(Path("/proc", pid).exists() for pid in others):
            if time.monotonic() > end:
                raise shown.Failed(f"PostgreSQL's processes {others} do not end")
            time.sleep(0.1)

    def recover(self, top):
        """Returns how many seconds a copy in `top` takes to start. It must have each transaction."""
        folder = top / "database"
        shown.run("cp", "-a", self.folder, folder)
        shown.run("sync", "-f", top)
        began = time.monotonic()
        self.start(folder)
        took = time.monotonic() - began
        kept = self.client("psql", "--no-align", "--tuples-only", "--command", "select count(*) from pgbench_history")
        self.program("pg_ctl", "-D", folder, "-w", "-t", PATIENCE_SECONDS, "-m", "immediate", "stop")
        shutil.rmtree(folder)
        if int(kept) != self.transactions:
            raise shown.Failed(f"after recovery in {top} {kept.strip()} of {self.transactions} transactions are left")
        return took

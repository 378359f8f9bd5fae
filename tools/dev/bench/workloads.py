"""What programs do on a mount: tar, git, cp, find, cat, ls, rm, zip, sqlite, and writes of small pieces. Each workload
that changes something ends with a sync, which is in its time."""

import dataclasses
import json
import os
import random
import sqlite3
import time
import zipfile
from typing import Callable

import shown
import sides

FILES, FOLDERS, SEED = 1000, 20, 1
BYTES_MOST = 16384
SECONDS = 0.5  # of the workloads that repeat one call
PIECE, STRIDED, RANKS = 512, 8 << 20, 2
WRITES = ("untar", "256 B writes", "8 KiB files", "strided writes")  # what mounts are measured with whose kernel keeps writes


@dataclasses.dataclass(frozen=True)
class Workload:
    run: Callable  # of the mount's directory; returns how many were done, None: `count`; or a sides.Figure
    count: int = FILES
    is_cold: bool = False  # the caches of the kernel and of the mount are empty before
    changes: bool = True


class Tree:
    """Files of a few KiB in folders: as a tree, as archives, and as a git repository."""

    def __init__(self, place):
        self.folder, self.tar, self.zip, self.repository = (place / name for name in ("tree", "tree.tar", "tree.zip", "tree.git"))
        numbers = random.Random(SEED)
        with zipfile.ZipFile(self.zip, "w") as archive:
            for number in range(FILES):
                name = f"d{number % FOLDERS}/f{number}"
                text = f"{number}\n" * (numbers.randrange(1, BYTES_MOST) // (len(str(number)) + 1))
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / name).write_text(text, encoding="ascii")
                archive.writestr(name, text)
        shown.run("tar", "-cf", self.tar, "-C", self.folder, ".", quiet=True)
        shown.shell(f"git init -q {self.repository} && cp -r {self.folder}/. {self.repository} && cd {self.repository} && "
                    "git add -A && git -c user.name=bench -c user.email=bench@localhost commit -qm tree")

    def workloads(self):
        """Returns the workloads by name. `copy` makes the tree that later ones read and remove."""
        return {"untar": shell(f"mkdir {{top}}/untarred && tar -xf {self.tar} -C {{top}}/untarred"),
                "unzip": shell(f"python3 -m zipfile -e {self.zip} {{top}}/unzipped"),
                "git clone": shell(f"git clone -q --no-hardlinks {self.repository} {{top}}/clone"),
                "copy": shell(f"cp -r {self.folder} {{top}}/copy"),
                "find": shell("find {top}/copy -size +1k >/dev/null", is_cold=True, changes=False),
                "read": shell("find {top}/copy -type f -exec cat {{}} + >/dev/null", is_cold=True, changes=False),
                "read again": shell("find {top}/copy -type f -exec cat {{}} + >/dev/null", changes=False),
                "list": shell("ls -lR {top}/copy >/dev/null", changes=False),
                "remove": shell("rm -r {top}/copy"),
                "256 B writes": Workload(append), "8 KiB files": Workload(make_files),
                "8 KiB files, 16 at once": Workload(lambda top: parallel(16, lambda number: make_files(top, number))),
                "strided writes": Workload(lambda top: parallel(RANKS, lambda number: write_strided(top, number))),
                "sqlite": Workload(transact), "fsync beside a writer": Workload(sync_beside_writer)}


def shell(line, **more):
    return Workload(lambda top: shown.shell(line.format(top=top)) and None, **more)


def until_late(call):
    """Calls `call` with 0, 1, ... for SECONDS. Returns how often."""
    end, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        call(number)
        number += 1
    return number


def append(top):
    with open(top / "appended", "wb", buffering=0) as file:
        return until_late(lambda number: file.write(bytes(256)))


def make_files(top, task=0):
    folder = top / f"files{task}-{time.monotonic_ns()}"
    folder.mkdir()

    def make(number):
        with open(folder / str(number), "wb", buffering=0) as file:
            file.write(bytes(8192))

    return until_late(make)


def write_strided(top, rank):
    """Writes each second piece of a file that two ranks share, as MPI-IO does."""
    file = os.open(top / "strided", os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        for offset in range(rank * PIECE, STRIDED, RANKS * PIECE):
            os.pwrite(file, bytes(PIECE), offset)
    finally:
        os.close(file)
    return STRIDED // PIECE // RANKS


def transact(top):
    database = sqlite3.connect(top / "transactions")
    database.execute("create table t (number int)")

    def insert(number):
        with database:
            database.execute("insert into t values (?)", (number,))

    done = until_late(insert)
    database.close()
    return done


def sync_beside_writer(top):
    """Writes 4 KiB and calls fsync, again and again, while another process writes 1 MiB blocks."""
    def write_large(file):
        block = bytes(1 << 20)
        return until_late(lambda number: os.pwrite(file, block, number % 64 << 20))

    def sync(file):
        tooks = []

        def once(number):
            os.pwrite(file, bytes(4096), number % 256 << 12)
            began = time.monotonic()
            os.fsync(file)
            tooks.append(time.monotonic() - began)

        until_late(once)
        return json.dumps(sorted(tooks))

    def task(number):
        with open(top / f"beside{number}", "wb", buffering=0) as file:
            return (write_large, sync)[number](file.fileno())

    tooks = json.loads(processes(2, task)[1])
    return sides.Figure(len(tooks), len(tooks) / SECONDS, p50_us=1e6 * tooks[len(tooks) // 2], p99_us=1e6 * tooks[len(tooks) * 99 // 100])


def parallel(tasks, run):
    """Returns the sum of what `run` returns in processes()."""
    return sum(map(int, processes(tasks, run)))


def processes(tasks, run):
    """Runs `run` with 0, 1, ... in processes of their own. Returns what they return, as texts."""
    children = []
    for number in range(tasks):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, str(run(number)).encode())
            finally:
                os._exit(0)
        os.close(writer)
        children.append((child, reader))
    done = []
    for child, reader in children:
        with os.fdopen(reader) as said:
            done.append(said.read())
        os.waitpid(child, 0)
    if not all(done):
        raise shown.Failed("a process of the workload failed")
    return done

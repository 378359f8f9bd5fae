"""./dev demo: from nothing to a mounted, measured and repeatedly killed pool.

All files are in build/demo. guard.py removes them, however the demo ends. With --keep the pool stays,
mounted, in build/demo-kept. The commands and their output are in build/demo.log."""

import argparse
import shutil
import subprocess
from pathlib import Path

import build
import console
import guard
import kill
import plug
import served
import shown
import sides
import traced
import trees
from bench import pools

BIN = Path("build/release/bin")
STORE = BIN / "ros2store"
LOG = Path("build/demo.log")
PROGRAMS = (*(f"ros2store-{name}" for name in ("cli", "engine", "dpu", "fuse", "fio")), "kill_writer", "kill_writer_control")
INTRODUCTION = """\
An object store for GPU training clusters, on this machine: a file tree goes into a pool and comes
out again the same; writers, an engine and a DPU daemon are killed under load, and nothing
acknowledged is lost; each set-up is measured beside the raw disk.
It takes about 3 minutes after the build, and {needed} MiB of disk ({free} MiB are free).
{tree} is {megabytes} MiB. All files are in {place}.
Each command and its output: {log} (-v shows it here)."""
ROWS = {"write-1m": "write MiB/s", "read-1m": "read MiB/s", "randread-1": "4K read/s, one", "randread-32": "4K read/s, 32",
        "randwrite-32": "4K write/s, 32"}


def add_arguments(parser):
    parser.add_argument("--keep", action="store_true", help="leave the pool mounted at the end")
    parser.add_argument("-v", "--verbose", action="store_true", help=f"also print what goes to {LOG}: each command and its output")
    parser.add_argument("--tree", default="/usr/include", help="the tree to copy into the pool (/usr/include)")
    # For its own test: uses build/release as it is, and takes less than a minute.
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)


def run(options):
    tally = console.Tally("demo", quiet=True)
    console.part("demo")
    demo = Demo(Path("build/demo-kept" if options.keep else "build/demo").absolute(), options, tally)
    if options.keep and demo.place.exists():
        tally.add(f"stopped: {demo.place} was left by an earlier --keep. Use it, or remove it first:\n  "
                  f"{STORE.absolute()} down {demo.pool}; rm -rf {demo.place}", False)
    elif guard.alone("demo", demo.place, tally, demo.run):
        demo.tell()
    return tally.close()


class Demo:
    """Its steps. Each checks what it promises, and returns what the line of the step says."""

    def __init__(self, place, options, tally):
        self.place, self.options, self.tally, self.tiny = place, options, tally, options.tiny
        self.pool, self.mount_point, self.tree = place / "pool", place / "mnt", Path(options.tree)
        self.built = build.folder("release")
        self.table = []  # lines that are shown at the end
        self.served = served.Served(STORE.absolute(), place / "served", f"shm, {pools.TCP}")

    def uri(self, path=""):
        return f"ros2s+local:///pool/main{'/' if path else ''}{path}?dir={self.pool}"

    def prepare(self):
        if not self.options.verbose:
            console.keep_notes(LOG)
        free, needed = shutil.disk_usage("build").free >> 20, 2900 if self.tiny else 11000
        size = subprocess.run(["du", "-sm", self.tree], capture_output=True, text=True, check=False)
        megabytes = int(size.stdout.split()[0]) if size.returncode == 0 else 0
        print(INTRODUCTION.format(tree=self.tree, megabytes=megabytes, needed=needed, place=self.place, free=free, log=LOG), flush=True)
        if free < needed:
            raise shown.Failed(f"too little disk: {free} MiB are free where {needed} are needed; free some, or move the checkout")
        if not 0 < megabytes <= 1500:
            raise shown.Failed(f"{self.tree} is missing or over 1500 MiB; choose another with --tree")
        if not self.tiny and not build.make("release", PROGRAMS):
            raise shown.Failed("the build failed")
        guard.clear(self.place)
        self.mount_point.mkdir(parents=True)

    def run(self):
        """Returns whether the pool is kept."""
        self.prepare()
        for title, step in ((f"copy {self.tree} into a new pool", self.copy_in),
                            ("compare it, mounted and copied out", self.compare),
                            ("kill -9 a writer", self.kill_writer),
                            ("start daemons; a tree through host, DPU and engine", self.tree_through_dpu),
                            ("fio, in each set-up, reads back what it wrote", self.fio_verify),
                            ("no payload passes the host's kernel", self.trace_host),
                            ("kill -9 the daemons", self.kill_daemons),
                            ("measure the set-ups", self.measure)):
            console.note(f"== {title}")
            live, failed, what = console.Live(title), self.tally.failed, "stopped"
            try:
                what = step()
            finally:
                live.end(self.tally.failed == failed and what != "stopped", what)
        print("\n".join(["", *self.table]), flush=True)
        if self.options.keep and self.tally.failed == 0:
            shown.run(STORE, "mount", self.uri(), self.mount_point)
            return True
        print(f"\nTry next:\n  ./dev demo --keep          leaves the pool, mounted\n  {STORE} --help", flush=True)
        return False

    def tell(self):
        store = STORE.absolute()
        file = next((each for each in sorted(self.tree.rglob("*")) if each.is_file() and not each.is_symlink()), self.tree / "FILE")
        print(f"\nThe pool is mounted at {self.mount_point}. Try:\n  ls -l {self.mount_point}/tree\n  {store} status {self.pool}\n"
              f"  {store} ls -l '{self.uri()}'\n  {store} why '{self.uri(f'tree/{file.relative_to(self.tree)}')}'\n"
              f"and end it with:\n  {store} down {self.pool} && rm -rf {self.place}")

    def same(self, way, one, other):
        differences = trees.different(one, other)
        if not self.tally.add(f"SHA-256, names, types, modes, owners, times and links through {way}", not differences):
            print("\n".join(differences[:10]), flush=True)

    def copy_in(self):
        shown.run(STORE, "up", "--no-daemons", self.pool, "--size", size := "1G" if self.tiny else "4G")
        shown.run(STORE, "cp", "-r", self.tree, self.uri("tree"))
        return f"a pool of {size}"

    def compare(self):
        shown.run(STORE, "mount", self.uri(), self.mount_point)
        shown.run(STORE, "ls", self.uri())  # the CLI works at the same time
        self.same("a mount", self.tree, self.mount_point / "tree")
        shown.run(STORE, "down", self.pool)
        shown.run(STORE, "cp", "-r", self.uri("tree"), self.place / "out")
        self.same("cp", self.tree, self.place / "out")
        shutil.rmtree(self.place / "out")
        return "every byte, name, mode, owner, time and link"

    def kill_writer(self):
        kills, least = (2, 200) if self.tiny else (5, 1000)
        shown.run(STORE, "mkdir", self.uri("killed"), self.uri("control"))
        count = 0
        for acknowledged, intact in kill.rounds(BIN / "kill_writer", self.uri("killed"), kills, least):
            self.tally.add(f"killed with writes in flight after {acknowledged} acknowledged operations: nothing lost", intact)
            count += acknowledged
        caught = any(not intact for _, intact in kill.rounds(BIN / "kill_writer_control", self.uri("control"), 5, 1000))
        self.tally.add("a writer that acknowledges too early lost writes, and the verifier noticed", caught)
        return f"{kills} kills, {count:,} writes read back; one that loses some is caught"

    def tree_through_dpu(self):
        self.served.make("512M" if self.tiny else "2G")
        tree = self.tree / "linux" if (self.tree / "linux").is_dir() else self.tree  # quick to copy
        shown.run(STORE, "cp", "-r", tree, self.served.uri("ros2s+dpu", "tree"))
        shown.run(STORE, "mount", self.served.uri("ros2s+dpu"), self.mount_point)
        self.same("a mount of the files of a DPU", tree, self.mount_point / "tree")
        shown.run("fusermount3", "-u", self.mount_point)
        return f"{tree}, the same"

    def fio_verify(self):
        for uri in (self.uri(), *(self.served.uri("ros2s", further=f"&provider={each}") for each in ("shm", pools.TCP)),
                    self.served.uri("ros2s+dpu")):
            sides.verify(sides.pool_side("verify", self.built, uri, "fio-verify"), "16m" if self.tiny else "64m")
            self.tally.add(f"fio --verify=crc32c, {uri}", True)
        return "four ways, in blocks of 4 KiB"

    def trace_host(self):
        try:
            traced.probe()
        except traced.NotRun as reason:
            return f"NOT RUN: {reason}"
        side = sides.pool_side("host", self.built, self.served.uri("ros2s+dpu"), "traced")
        engine = {address.split(" ")[1] for address in self.served.daemons()["engine"]["addresses"]}
        told = []
        for size, job in (("1m", ("--iodepth=4", "--size=64m")), ("4k", ("--iodepth=16", "--size=32m"))):
            trace, read, wrote = traced.run(["fio", "--name=traced", *side.target, "--thread", "--rw=randwrite", f"--bs={size}", *job,
                                             "--verify=crc32c", "--verify_state_save=0"], self.place / "traced")
            faults = list(traced.faults(trace, read + wrote, self.served.directory, engine))
            told.append(f"{trace.moved / (read + wrote):.2%} of it at {size}")
            self.tally.add("; ".join([f"no payload passes the host's kernel at {size}, it uses no io_uring and has nothing of the "
                                      "engine's open", *faults]), read > 0 and wrote > 0 and not faults)
        return ", ".join(told)

    def kill_daemons(self):
        shown.run(STORE, "mkdir", uri := self.served.uri("ros2s+dpu", "killed"))
        victims, least = (("engine", "dpu"), 100) if self.tiny else (("engine", "dpu") * 2, 500)
        return plug.pull((BIN / "kill_writer").absolute(), uri, self.served, victims, least, self.tally)

    def measure(self):
        ways = [sides.raw_side(self.place / "raw"), sides.pool_side("embedded", self.built, self.uri(), "figures"),
                sides.direct(self.built, self.served, "shm", "direct, shm (no NIC)"),
                sides.direct(self.built, self.served, pools.TCP, "direct, ucx+tcp"),
                sides.offload(self.built, self.served, "shm", "offload, shm (no NIC)")]
        size = "32m" if self.tiny else "256m"
        rows = [sides.row_of(key) for key in (["randread-32"] if self.tiny else ROWS)]
        pools.fill(ways, size)
        rates = [[sides.measure(row, way, sides.time_based(size, 1)).iops for way in ways] for row in rows]
        self.tally.add("figures of all set-ups", True)
        self.served.down()
        self.table += [sides.machine(), "1 turn of 1 s each way; in brackets: to raw",
                       " " * 24 + "".join(f"{ROWS[row.key]:>15}" for row in rows)]
        for number, way in enumerate(ways):
            cells = (f"{own[number]:,.0f}" + (f" ({own[number] / own[0]:.2f})" if number else "") for own in rates)
            self.table.append(f"{way.name:<24}" + "".join(f"{cell:>15}" for cell in cells))
        return "every turn took the way that it names, by its own report"

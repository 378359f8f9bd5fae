"""./dev demo: from nothing to a mounted, measured and repeatedly killed pool.

All files are in build/demo. guard.py removes them, however the demo ends. With --keep the pool stays,
mounted, in build/demo-kept. The commands and their output are in build/demo.log."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import build
import compare
import console
import guard
import kill
import plug
import served
import set_ups
import shown
import traced
import trees
from bench.pools import fill

BIN = Path("build/release/bin")
STORE = BIN / "ros2store"
LOG = Path("build/demo.log")
# The programs that it starts. Building them is most of the time of a first demo.
PROGRAMS = ("ros2store-cli", "ros2store-engine", "ros2store-dpu", "ros2store-fuse", "ros2store-fio", "kill_writer",
            "kill_writer_control")


INTRODUCTION = """\
An object store for GPU training clusters, on this machine: a file tree goes into a pool and comes
out again the same; writers, an engine and a DPU daemon are killed under load, and nothing
acknowledged is lost; each set-up is measured beside the raw disk.
It takes about {minutes} minutes after the build, and {needed} MiB of disk ({free} MiB are free).
{tree} is {megabytes} MiB. All files are in
{place}."""
NEXT = f"""
Try next:
  ./dev demo --keep          leaves the pool, mounted
  {STORE} --help
  ./dev demo --pull-plug     kill the daemons yourself"""


class Scale:
    """The amounts of a demo."""

    def __init__(self, options):
        self.tiny = options.tiny
        self.mib_needed = 2900 if options.tiny else 11000
        self.minutes = 2 if options.tiny else 14 if options.figures else 3
        self.pool = "1G" if options.tiny else "4G"
        self.verified = "16m" if options.tiny else "128m"
        self.kills, self.acknowledged = (2, 200) if options.tiny else (5, 1000)
        self.daemon_kills = 1 if options.tiny else 2  # of each of the two
        # The figures: size of the file, seconds each, turns.
        self.figures = ("1g", 4, 5)
        # The same for the set-ups, and the size of each pool with daemons.
        self.set_ups = (("32m", 1, 1) if options.tiny else ("512m", 2, 5) if options.figures else
                        ("256m", 1, 1))
        self.served_pool = "384M" if options.tiny else "1280M"
        if options.pull_plug is not None:
            self.minutes, self.mib_needed = 1, 2000


def add_arguments(parser):
    parser.add_argument("--keep", action="store_true", help="leave the pool mounted at the end")
    parser.add_argument("--figures", action="store_true",
                        help="measure longer: every row, five turns, compared with the raw disk")
    parser.add_argument("-v", "--verbose", action="store_true",
                        help=f"also print what goes to {LOG}: each command and its output")
    parser.add_argument("--tree", default="/usr/include", help="the tree to copy into the pool (/usr/include)")
    parser.add_argument("--pull-plug", nargs="?", type=int, const=0, metavar="N",
                        help="only kill the engine or the DPU daemon under verified load, at each key press; "
                        "with N or without a terminal, N times (6) without key presses")
    # For its own test: uses build/release as it is, and takes less than a minute.
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)


def run(options):
    tally = Told("demo")
    console.part("demo")
    place = Path("build/demo-kept" if options.keep else "build/demo").absolute()
    demo = Demo(place, options, tally)
    if options.keep and place.exists():
        tally.add(f"stopped: {place} was left by an earlier --keep. Use it, or remove it first:\n  "
                  f"{STORE.absolute()} down {demo.pool}; rm -rf {place}", False)
        return tally.close()
    Path("build").mkdir(exist_ok=True)
    with open("build/demo.lock", "w", encoding="ascii") as lock:
        if not guard.lock_alone(lock):
            tally.add("stopped: another demo runs in this checkout; wait for its end", False)
            return tally.close()
        if not options.verbose and options.pull_plug is None:
            console.keep_notes(LOG)
        guarded(demo, place, lock)
    return tally.close()


class Told(console.Tally):
    """Counts results without a line for each: Demo.run() prints one line per step."""

    def add(self, name, ok):
        self.passed += bool(ok)
        self.failed += not ok
        console.note(f"{'ok  ' if ok else 'FAIL'} {name}")
        if not ok and console.notes:
            print(f"FAIL {name}", flush=True)
        return ok


def guarded(demo, place, lock):
    watch = guard.Guard(place, lock.fileno())
    try:
        demo.prepare()
        demo.run()
    except shown.Failed as failure:
        demo.tally.add(f"stopped: {failure}", False)
    finally:
        kept = demo.options.keep and demo.tally.failed == 0 and demo.tally.passed > 0
        try:
            if not kept:
                guard.clear(place, watch.mark)
        except guard.NotCleared as left:
            demo.tally.add(f"stopped: {left}", False)
        watch.stand_down()
    if kept:
        demo.tell()


class Demo:
    def __init__(self, place, options, tally):
        self.place = place
        self.options = options
        self.scale = Scale(options)
        self.tally = tally
        self.pool = place / "pool"
        self.mount_point = place / "mnt"
        self.tree = Path(options.tree)
        self.megabytes = 0  # of it
        self.table = []  # lines that are shown at the end
        self.uri = f"ros2s+local:///pool/main?dir={self.pool}"
        # Their DPU daemons reach their engines over shm, UCX and libfabric.
        self.over_shm = served.Served(STORE.absolute(), place / "served", "shm")
        self.over_tcp = served.Served(STORE.absolute(), place / "served-tcp", "ucx+tcp")
        self.over_ofi = served.Served(STORE.absolute(), place / "served-ofi", "ofi+tcp;ofi_rxm")

    def uri_of(self, path):
        return f"ros2s+local:///pool/main/{path}?dir={self.pool}"

    # ---- order of the steps

    def prepare(self):
        free = shutil.disk_usage("build").free >> 20
        size = subprocess.run(["du", "-sm", self.tree], capture_output=True, text=True, check=False)
        megabytes = int(size.stdout.split()[0]) if size.returncode == 0 else 0
        self.megabytes = megabytes
        needed = self.scale.mib_needed
        print(INTRODUCTION.format(tree=self.tree, megabytes=megabytes, minutes=self.scale.minutes,
                                  needed=needed, place=self.place, free=free))
        if console.notes:
            print(f"Each command and its output: {LOG} (-v shows it here).", flush=True)
        if free < needed:
            raise shown.Failed(f"too little disk: {free} MiB are free where {needed} are needed; "
                               "free some, or move the checkout")
        if megabytes == 0 or megabytes > 1500:
            raise shown.Failed(f"{self.tree} is missing or over 1500 MiB; choose another with --tree")
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            raise shown.Failed("/dev/fuse cannot be opened; run: modprobe fuse (in a container: docker "
                               "run --device /dev/fuse --cap-add SYS_ADMIN …)")
        if not self.scale.tiny and not build.make("release", PROGRAMS):
            raise shown.Failed("the build failed")
        guard.clear(self.place)
        self.place.mkdir(parents=True)
        self.mount_point.mkdir()

    def steps(self):
        if self.options.pull_plug is not None:
            return (("a pool with an engine and a DPU daemon", self.serve),
                    ("kill engine and DPU under verified load", self.pull_plug))
        longer = (("embedded beside the raw disk", self.figures),) if self.options.figures else ()
        return (
            ("make a pool", self.up),
            (f"copy {self.tree} in", self.copy_in),
            ("compare it through a mount", self.compare_through_mount),
            ("copy it out and compare", self.copy_out),
            ("fio, embedded, reads back what it wrote", self.fio_verify),
            ("kill -9 a writer, again and again", self.kill_test),
            ("a writer that acknowledges too early is caught", self.kill_control),
            *longer,
            ("start an engine and a DPU daemon", self.serve),
            ("a tree through host, DPU and engine", self.tree_through_dpu),
            ("fio, direct and offloaded, reads back what it wrote", self.fio_verify_served),
            ("no payload passes the host's kernel", self.trace_host),
            ("kill -9 engine and DPU under load", self.kill_daemons),
            ("measure the set-ups", self.figures_of_set_ups))

    def run(self):
        for title, step in self.steps():
            console.note(f"== {title}")
            live = console.Live(title)
            failed = self.tally.failed
            what = "stopped"
            try:
                what = step()
            finally:
                live.end(self.tally.failed == failed and what != "stopped", what)
        if self.options.pull_plug is None:
            print("\n".join(["", *self.table]), flush=True)
        if self.options.keep:
            self.mount()
        else:
            print(NEXT, flush=True)

    def tell(self):
        store = STORE.absolute()
        print(f"\nThe pool is mounted at {self.mount_point}. Try:\n"
              f"  ls -l {self.mount_point}/tree\n"
              f"  {store} status {self.pool}\n"
              f"  {store} ls -l '{self.uri}'\n"
              f"  {store} why '{self.uri_of(f'tree/{self.some_file()}')}'\n"
              f"and end it with:\n"
              f"  {store} down {self.pool} && rm -rf {self.place}")

    def some_file(self):
        for directory, _, files in os.walk(self.tree):
            for name in sorted(files):
                path = Path(directory) / name
                if path.is_file() and not path.is_symlink():
                    return path.relative_to(self.tree)
        return "FILE"

    # ---- the steps

    def up(self):
        shown.run(STORE, "up", "--no-daemons", self.pool, "--size", self.scale.pool)
        self.tally.add("up", True)
        refused = subprocess.run([STORE, "up", "--no-daemons", self.pool], stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True, check=False)
        console.command([STORE, "up", "--no-daemons", self.pool])
        console.note(f"  {refused.stderr.strip()}")
        self.tally.add("a second up is refused", refused.returncode != 0)
        return self.scale.pool

    def copy_in(self):
        shown.run(STORE, "cp", "-r", self.tree, self.uri_of("tree"))
        self.tally.add("cp -r in", True)
        return f"{self.megabytes} MiB"

    def mount(self):
        shown.run(STORE, "mount", self.uri, self.mount_point)

    def down(self):
        shown.run(STORE, "down", self.pool)

    def compare_through_mount(self):
        self.mount()
        # The mount shows what `cp` copied, and the CLI works at the same time.
        shown.run(STORE, "ls", self.uri)
        sums = "find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum"
        there = shown.shell(f"cd {self.mount_point}/tree && {sums}", timeout=1200)
        here = shown.shell(f"cd {self.tree} && {sums}", timeout=1200)
        console.note(f"  {there.strip()}\n  {here.strip()}")
        self.tally.add("sha256 of every file through the mount", there == here)
        differences = trees.different(self.tree, self.mount_point / "tree")
        self.same("names, types, modes, owners, times and links through the mount", differences)
        self.down()
        return "SHA-256, names, modes, owners, times and links are the same"

    def copy_out(self):
        out = self.place / "out"
        shown.run(STORE, "cp", "-r", self.uri_of("tree"), out)
        differences = trees.different(self.tree, out) + trees.different_content(self.tree, out)
        self.same("sha256 of every file, and its attributes, through cp out", differences)
        shutil.rmtree(out)
        return "the same"

    def same(self, what, differences):
        if not self.tally.add(what, not differences):
            print("\n".join(differences[:10]), flush=True)

    def fio_verify(self):
        ours = compare.pool_side("embedded", build.folder("release"), self.uri, "fio-verify")
        out = shown.run("fio", "--name=verify", *ours.target, "--rw=randwrite", "--bs=4k",
                        "--iodepth=32", f"--size={self.scale.verified}", "--verify=crc32c", "--do_verify=1",
                        "--verify_fatal=1", "--verify_state_save=0", quiet=True)
        console.note("\n".join("  " + line.strip() for line in out.splitlines()
                               if line.strip().startswith(("read:", "write:", "verify:"))))
        self.tally.add("fio --verify=crc32c", True)
        return f"{self.scale.verified} in blocks of 4 KiB"

    def kill_test(self):
        count = 0
        shown.run(STORE, "mkdir", self.uri_of("killed"), self.uri_of("control"))
        for acknowledged, intact in kill.rounds(BIN / "kill_writer", self.uri_of("killed"),
                                                self.scale.kills, self.scale.acknowledged):
            self.tally.add(f"killed with writes in flight after {acknowledged} acknowledged "
                           "operations: nothing lost", intact)
            count += acknowledged
        return f"{self.scale.kills} kills, {count:,} acknowledged writes read back"

    def kill_control(self):
        caught = 0
        for _, intact in kill.rounds(BIN / "kill_writer_control", self.uri_of("control"), 5, 1000):
            caught += not intact
            if caught:
                break
        self.tally.add("the control lost acknowledged writes, and the verifier noticed", caught > 0)
        return ""

    def figures(self):
        size, seconds, turns = self.scale.figures
        raw = compare.raw_side(self.place / "raw")
        ours = compare.pool_side("embedded", build.folder("release"), self.uri, "figures")
        compare.fill(raw, size)
        compare.fill(ours, size)
        results = list(compare.table(compare.ROWS, [raw, ours], size, seconds, turns))
        self.table += [f"{compare.machine()}; {turns} turns of {seconds} s each way",
                       *compare.lines(results), "", compare.way(results), ""]
        self.tally.add("figures", True)
        return "see below"

    # ---- with daemons

    def serve(self):
        self.over_shm.make(self.scale.served_pool)
        self.over_tcp.make(self.scale.served_pool)
        running = self.over_shm.daemons()
        for name, daemon in sorted(running.items()):
            console.note(f"  {name}: process {daemon['pid']}, {', '.join(daemon['addresses'])}")
        self.tally.add("up, with an engine and a DPU daemon", set(running) == {"engine", "dpu"})
        return "the DPU reaches one over shm and one over ucx+tcp"

    def some_tree(self):
        """Returns a part of the tree that is quick to copy."""
        parts = sorted(path for path in self.tree.iterdir() if path.is_dir())
        return next((path for path in parts if path.name == "linux"), self.tree)

    def tree_through_dpu(self):
        tree = self.some_tree()
        shown.run(STORE, "cp", "-r", tree, self.over_shm.uri("ros2s+dpu", "tree"))
        shown.run(STORE, "mount", self.over_shm.uri("ros2s+dpu"), self.mount_point)
        differences = (trees.different(tree, self.mount_point / "tree")
                       + trees.different_content(tree, self.mount_point / "tree"))
        shown.run("fusermount3", "-u", self.mount_point)
        self.same("every byte and attribute through a mount of the DPU's files", differences)
        return f"{tree}, the same"

    def fio_verify_served(self):
        for pool, scheme, further in ((self.over_shm, "ros2s", "&provider=shm"),
                                      (self.over_tcp, "ros2s", "&provider=ucx+tcp"),
                                      (self.over_shm, "ros2s+dpu", "")):
            uri = pool.uri(scheme, further=further)
            side = compare.pool_side(scheme, build.folder("release"), uri, "fio-verify")
            shown.run("fio", "--name=verify", *side.target, "--thread", "--rw=randwrite", "--bs=4k",
                      "--iodepth=32", "--size=32m", "--verify=crc32c", "--do_verify=1",
                      "--verify_fatal=1", "--verify_state_save=0", quiet=True)
            self.tally.add(f"fio --verify=crc32c, {scheme}{further}", True)
        return "three ways"

    def trace_host(self):
        try:
            traced.probe()
        except traced.NotRun as reason:
            return f"NOT RUN: {reason}"
        side = compare.pool_side("host", build.folder("release"), self.over_shm.uri("ros2s+dpu"),
                                 "traced")
        daemons = self.over_shm.daemons()
        engine = {address.split(" ")[1] for address in daemons["engine"]["addresses"]}
        told = []
        for job in (("--bs=1m", "--iodepth=4", "--size=64m"),
                    ("--bs=4k", "--iodepth=16", "--size=32m")):
            trace, read, wrote = traced.run(
                ["fio", "--name=traced", *side.target, "--thread", "--rw=randwrite", *job,
                 "--verify=crc32c", "--verify_state_save=0"], self.place / "traced")
            faults = list(traced.faults(trace, read + wrote, self.over_shm.directory, engine))
            told.append(f"{trace.moved / (read + wrote):.2%} of it at {job[0].removeprefix('--bs=')}")
            console.note(f"  {trace.calls} traced calls moved {trace.moved >> 10} KiB while fio wrote "
                  f"{wrote >> 20} MiB and read {read >> 20} MiB ({trace.moved / (read + wrote):.2%}); "
                  f"the DPU is process {daemons['dpu']['pid']}, the engine {daemons['engine']['pid']}")
            console.note("".join(f"  {fault}\n" for fault in faults))
            self.tally.add(f"{job[0]}: no payload passes the host's kernel, it uses no io_uring and "
                           "has nothing of the engine's open", read > 0 and wrote > 0 and not faults)
        return ", ".join(told)

    def load(self):
        shown.run(STORE, "mkdir", self.over_shm.uri("ros2s+dpu", "killed"))
        return plug.Load((BIN / "kill_writer").absolute(), self.over_shm.uri("ros2s+dpu", "killed"))

    def kill_daemons(self):
        load = self.load()
        try:
            for victim in plug.rounds(load, self.over_shm,
                                      ("engine", "dpu") * self.scale.daemon_kills,
                                      self.scale.acknowledged // 2):
                self.tally.add(f"the {victim} killed with writes in flight; the host went on: "
                               f"{load.so_far()}", load.watch.lost == 0)
        finally:
            load.end()
        self.tally.add(f"{load.so_far()}: nothing lost, nothing doubled", load.verify())
        return f"{2 * self.scale.daemon_kills} kills, {load.so_far()}"

    def pull_plug(self):
        load = self.load()
        try:
            if self.options.pull_plug == 0 and sys.stdin.isatty():
                kills = plug.by_hand(load, self.over_shm)
            else:
                kills = self.options.pull_plug or 6
                victims = (("engine", "dpu") * kills)[:kills]
                for victim in plug.rounds(load, self.over_shm, victims, 500):
                    console.note(f"  the {victim} was killed, the writer goes on: {load.so_far()}")
        finally:
            load.end()
        intact = load.verify()
        self.tally.add(f"{kills} kills, {load.so_far()}: nothing lost", intact)
        return f"{kills} kills, {load.so_far()}"

    def figures_of_set_ups(self):
        size, seconds, turns = self.scale.set_ups
        pools = [self.over_shm, self.over_tcp]
        if self.options.figures:
            self.over_ofi.make(self.scale.served_pool)
            pools.append(self.over_ofi)
        built = build.folder("release")
        sides = set_ups.sides(built, compare.raw_side(self.place / "raw"),
                              compare.pool_side("embedded", built, self.uri, "figures"),
                              *pools)
        fill(sides, size)
        rows = [row for row in set_ups.ROWS if not self.options.tiny or row.key == "randread-32"]
        results = list(compare.table(rows, sides, size, seconds, turns))
        self.table += [compare.machine(), f"{turns} turn{'s' if turns > 1 else ''} of {seconds} s each way; "
                       "in brackets: to raw"]
        if self.options.figures:
            self.table += [*set_ups.lines(sides, results), "",
                           "The counters of each process, MiB of payload over all turns:",
                           *set_ups.hop_lines(sides, results), "", compare.way(results)]
        else:
            self.table += set_ups.short_lines(sides, results)
        for pool in reversed(pools):
            pool.down()
        self.tally.add("figures of all set-ups", True)
        return "every turn took the way that it names, by its own report"

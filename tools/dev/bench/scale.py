"""Measures DFS on RadosStore beside what else reads and writes the same Ceph cluster: fio's rados engine, libcephfs
with its cache off (bench/cephfs_bench.c), and ceph-fuse. The cluster has one monitor, one OSD (bluestore) and one MDS
on loopback. It is started for the bench and removed afterwards. Needs what tools/packages-rados.txt lists; ceph-mds,
ceph-fuse and libcephfs-dev for the last two."""

import contextlib
import dataclasses
import os
import shutil
import statistics
import subprocess
import time
from pathlib import Path

import build
import compare
import console
import shown
from bench import ceph, report, rows, timed
from bench.timed import Timed, run, spent_seconds

# The order matters: random writes scatter a file's blocks.
FILES = tuple(compare.Row(f"{name}-{depth}", name, dict(rw=name, bs=size, iodepth=depth))
              for name, size, depth in (("write", "1m", 8), ("read", "1m", 8), ("randread", "4k", 1), ("randread", "4k", 16),
                                        ("randwrite", "4k", 1), ("randwrite", "4k", 16)))
NAMES = ("create", "stat", "rename")
THREADS = (1, 16)
# The goals for DFS compared with the others: for files, and for names. None: the other side has no names, or
# there is no goal.
GOALS = {"rados": (0.8, None), "libcephfs": (1.5, 1.0), "ceph-fuse": (2.0, 2.0)}
MDS_SECONDS = 90
POOL = ceph.DATA  # of everybody's bytes but those of names


def parse(text):
    """Parses the output of name_bench and cephfs_bench, by operation."""
    found = {}
    for line in text.splitlines():
        name, done, took, p50, p99 = line.split()
        found[name] = Timed(int(done) / float(took), float(p50), float(p99))
    return found


class Fio:
    """A side that fio measures. `names`: returns a directory or URI for name_bench; None: it has no names."""

    def __init__(self, name, target, options, built, conf, names=None):
        self.name, self.target, self.options, self.built, self.names = name, target, options, built, names
        self.environment = dict(os.environ, CEPH_CONF=str(conf))
        self.made = 0

    def fio(self, options):
        return timed.fio(self.target, options, self.environment)

    def fill(self):
        self.fio(dict(rw="write", bs="1m", iodepth=8, size=f"{self.options.mib}m"))

    def turn(self, row):
        return self.fio(compare.time_based(f"{self.options.mib}m", self.options.seconds) | row.options)

    def turn_of_names(self, threads):
        self.made += 1
        return parse(run([self.built / "bench/name_bench", self.names(f"n{self.made}"), threads, self.options.seconds]))


class LibCephFs:
    name, names = "libcephfs", True

    def __init__(self, program, options, conf):
        self.program, self.options, self.conf = program, options, conf

    def fill(self):
        run([self.program, self.conf, "fill", 1 << 20, 1, 0, self.options.mib])

    def turn(self, row):
        before = spent_seconds()
        kind = row.options["rw"]
        taken = parse(run([self.program, self.conf, kind, rows.SIZES[row.options["bs"]], row.options["iodepth"],
                           self.options.seconds, self.options.mib]))[kind]
        operations = max(1, taken.iops * self.options.seconds)
        return dataclasses.replace(taken, host_cpu_us=1e6 * (spent_seconds() - before) / operations)

    def turn_of_names(self, threads):
        return parse(run([self.program, self.conf, "names", threads, self.options.seconds]))


def start_mds(cluster):
    """Starts an MDS and makes a file system. Raises Failed if it does not get active."""
    missing = [name for name in ("ceph-mds", "ceph-fuse") if shutil.which(name) is None]
    if missing:
        raise shown.Failed(f"there is no {', '.join(missing)} here (apt-get install ceph-mds ceph-fuse libcephfs-dev)")
    key = run(["ceph-authtool", "--gen-print-key"]).strip()
    with (cluster.folder / "keyring").open("a") as out:
        out.write(f"[mds.a]\n\tkey = {key}\n")
    wanted = cluster.folder / "mds.a.keyring"
    wanted.write_text(f"[mds.a]\n\tkey = {key}\n\tcaps mds = \"allow *\"\n\tcaps mon = \"profile mds\"\n\tcaps osd = \"allow *\"\n")
    cluster.ceph("auth", "import", "-i", str(wanted))
    cluster.ceph("auth", "caps", "client.admin", "mon", "allow *", "osd", "allow *", "mds", "allow *")
    for pool in ("cephfs-meta", "cephfs-data"):
        cluster.ceph("osd", "pool", "create", pool, "8")
    cluster.ceph("fs", "new", "cephfs", "cephfs-meta", "cephfs-data")
    cluster.start("mds", "a")
    end = time.monotonic() + MDS_SECONDS
    while "up:active" not in cluster.ceph("mds", "stat"):
        if time.monotonic() > end:
            raise shown.Failed(f"the MDS is not active after {MDS_SECONDS} s")
        time.sleep(0.5)


def libcephfs(cluster, options, place):
    if not Path("/usr/include/cephfs/libcephfs.h").exists():
        raise shown.Failed("there is no libcephfs here (apt-get install libcephfs-dev)")
    program = place / "cephfs_bench"
    run(["cc", "-O2", "-D_FILE_OFFSET_BITS=64", "-pthread", "bench/cephfs_bench.c", "-o", program, "-lcephfs"])
    return LibCephFs(program, options, cluster.conf)


@contextlib.contextmanager
def mounted(cluster):
    """A mount by ceph-fuse."""
    folder = cluster.folder / "mount"
    folder.mkdir()
    run(["ceph-fuse", "-c", cluster.conf, "--id", "admin", folder], 60)
    try:
        yield folder
    finally:
        subprocess.run(["fusermount", "-uz", folder], check=False, timeout=60)


def measure(options, place, document, tally):
    built = build.folder("release").absolute()
    with ceph.running() as cluster, contextlib.ExitStack() as stack:
        uri = f"ros2s+local:///main/bench{{}}?rados={cluster.conf}&data={POOL}"
        run([built / "bin/ros2store", "container", "create", uri.format("")])

        def directory(name):
            run([built / "bin/ros2store", "mkdir", uri.format(f"/{name}")])
            return uri.format(f"/{name}")

        plugin = built / "plugins/fio/libros2store-fio.so"
        sides = [Fio("rados", ["--ioengine=rados", "--clientname=admin", f"--pool={POOL}", f"--conf={cluster.conf}",
                               "--filename=figures"], options, built, cluster.conf),
                 Fio("dfs", [f"--ioengine=external:{plugin}", f"--uri={uri.format('')}", "--filename=figures"], options,
                     built, cluster.conf, directory)]
        try:
            start_mds(cluster)
            sides.append(libcephfs(cluster, options, place))
            mount = stack.enter_context(mounted(cluster))

            def folder(name):
                (mount / name).mkdir()
                return mount / name

            sides.append(Fio("ceph-fuse", ["--ioengine=libaio", "--direct=1", f"--filename={mount}/fuse"], options, built,
                             cluster.conf, folder))
        except shown.Failed as failure:
            tally.add(f"not measured: CephFS, or a part of it: {failure}", True)
        for side in sides:
            side.fill()
        return figures(options, sides, document, tally)


def figures(options, sides, document, tally):
    made, spreads, ratios = [], [], []

    def add(title, work, depth, size, own, goal_of):
        """`own`: the turns of each side that took part."""
        raw = next(iter(own.values()))
        for name, turns in own.items():
            made.append(row(name, work, depth, size, turns, None if turns is raw else raw))
            spreads.append({"iops": [rows.rounded(each(one.iops for one in turns)) for each in (min, max)]})
        told = []
        for name, turns in own.items():
            if name == "dfs":
                continue
            of_turns = [ours.iops / other.iops for ours, other in zip(own["dfs"], turns)]
            middle, goal = statistics.median(of_turns), GOALS[name][goal_of]
            ratios.append({"workload": work, "iodepth": depth, "bs": size, "to": name, "ratio": rows.rounded(middle),
                           "least": rows.rounded(min(of_turns)), "greatest": rows.rounded(max(of_turns)), "goal": goal,
                           "reached": None if goal is None else middle >= goal})
            told.append(f"{middle:.2f} of {name}" + (f" (goal {goal}{'' if middle >= goal else ', not reached'})" if goal else ""))
        tally.add(f"{title}: DFS {statistics.median(one.iops for one in own['dfs']):,.0f}/s; " + "; ".join(told), True)

    for work in FILES:
        own = {side.name: [] for side in sides}
        for turn in range(options.turns):
            for number in compare.order(turn, sides):
                own[sides[number].name].append(sides[number].turn(work))
        add(f"{work.options['bs']} {work.name}, depth {work.options['iodepth']}", work.name, work.options["iodepth"],
            rows.SIZES[work.options["bs"]], own, 0)
    named = [side for side in sides if side.names]
    for threads in THREADS:
        turns = {side.name: [] for side in named}
        for turn in range(options.turns):
            for number in compare.order(turn, named):
                turns[named[number].name].append(named[number].turn_of_names(threads))
        for operation in NAMES:
            add(f"{operation}, {threads} in flight", operation, threads, None,
                {name: [each[operation] for each in own] for name, own in turns.items()}, 1)
    document["rows"], document["spreads"], document["ratios"] = made, spreads, ratios
    return lines(made, ratios), None


def row(name, work, depth, size, turns, raw):
    """`raw`: the turns of the first side: fio's rados; of names, DFS."""
    def middle(field):
        return rows.rounded(rows.median(getattr(one, field) for one in turns))

    ratio = None if raw is None else statistics.median(ours.iops / other.iops for ours, other in zip(turns, raw))
    values = {"mode": name, "workload": work, "bs": size, "iodepth": depth, "jobs": 1, "devices": 1,
              "iops": middle("iops"), "p50_us": middle("p50_us"), "p99_us": middle("p99_us"),
              "host_cpu_us_per_io": middle("host_cpu_us"), "ratio_to_raw": rows.rounded(ratio)}
    values["bytes_per_s"] = None if size is None else rows.rounded(values["iops"] * size)
    return dict.fromkeys(rows.FIELDS) | values


def lines(made, ratios):
    def goal(one):
        return "–" if one["goal"] is None else f"{one['goal']} {'reached' if one['reached'] else 'missed'}"

    def title(one):
        size = "" if one["bs"] is None else f"{one['bs'] >> 10} KiB "
        return f"{size}{one['workload']}, {one['iodepth']} in flight"

    return [*report.table(("workload", "mode", "per second", "p50, p99 µs", "CPU µs of the client"), (
        (title(one), one["mode"], report.number(one["iops"], 0),
         f"{report.number(one['p50_us'], 0)}, {report.number(one['p99_us'], 0)}", report.number(one["host_cpu_us_per_io"]))
        for one in made)), "",
            *report.table(("workload", "DFS to", "ratio (spread)", "goal"), (
                (title(one), one["to"], f"{one['ratio']:.2f} ({one['least']:.2f}–{one['greatest']:.2f})", goal(one))
                for one in ratios))]

"""./dev bench: measures what the set-ups do and cost, beside the raw disk and beside another build.

All sides take turns in one run, so that other load of the machine affects them equally. The ratios of the
turns are the result. Each build has its own pools. All files are in build/bench (of `null`: in memory);
guard.py removes them, however the bench ends. Files on further disks (--disks) stay if the bench is killed. The
results go to a file. The commands are in build/bench.log."""

import dataclasses
import shutil
import tempfile
from pathlib import Path
from typing import Callable

import build
import compare
import console
import guard
import shown
from bench import aged, costs, daos, directory, fairness, figures, host_cpu, memory, micro, mounts, names, pools, report, scale, set_up_rows

LOG = Path("build/bench.log")


@dataclasses.dataclass(frozen=True)
class Kind:
    measure: Callable  # (options, place, document, tally) to the Markdown's lines and the plot, or None
    what: str
    turns: int
    seconds: int
    mib: int  # of each file
    pools: int = 2  # of each build


KINDS = {
    "quick": Kind(set_up_rows.measure, "at most six minutes", 3, 2, 256),
    "full": Kind(set_up_rows.measure, "more rows, providers and turns", 5, 4, 1024, 4),
    "null": Kind(set_up_rows.measure, "pools in memory: all but the disk", 3, 2, 256),
    "aged": Kind(aged.measure, "an embedded pool, full and overwritten at random, beside a fresh one", 5, 3, 1024),
    "meta": Kind(names.measure, "create, stat, open, rename and unlink, beside ext4", 3, 1, 64),
    "directory": Kind(directory.measure, "a directory behind a DPU: names and reads, beside the directory itself", 3, 1, 64, 1),
    "mount": Kind(mounts.measure, "tar, git, cp, cat and rm of small files, on mounts", 3, 0, 0),
    "memory": Kind(memory.measure, "of each process, idle and after load", 1, 4, 512),
    "micro": Kind(micro.measure, "the modules' own benchmarks", 3, 0, 0, 0),
    "costs": Kind(costs.measure, "what a request costs each process and link, for `ros2store plan`", 3, 2, 256, 6),
    "scale": Kind(scale.measure, "a one-node Ceph cluster: DFS on RADOS beside fio's rados, libcephfs and ceph-fuse", 5, 2, 128, 0),
    "daos": Kind(daos.measure, "beside DAOS, in memory (--daos): fio's dfs engine on DAOS and on ROS2, and DAOS behind a DPU", 5, 2, 128),
    "host-cpu": Kind(host_cpu.measure, "what I/O costs a host: CPU, context switches, system calls, page faults", 3, 2, 256),
    "fairness": Kind(fairness.measure, "tenants of one DPU beside each other, in memory", 3, 4, 64),
    "fig3": Kind(figures.local, "local disks, 1 to 16 jobs", 1, 2, 1024, 0),
    "fig4": Kind(figures.target, "an NVMe-oF target (--target), by processors of the client", 1, 2, 0, 0),
    "fig5": Kind(figures.set_ups, "providers, host and DPU, 1 to 16 jobs", 1, 2, 512, 4),
}


IN_MEMORY = ("null", "fairness", "daos")
# Builds that differ in these differ in speed, too, whatever their sources are.
COMPILED_BY = ("CMAKE_BUILD_TYPE", "CMAKE_UNITY_BUILD")


def add_arguments(parser):
    parser.add_argument("kind", nargs="?", choices=KINDS, default="quick",
                        help="; ".join(f"{name}: {kind.what}" for name, kind in KINDS.items()))
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), metavar="FILE",
                        help="the output (build/bench.json); Markdown and a plot are written beside it")
    parser.add_argument("--costs", type=Path, default=Path("docs/costs.json"), metavar="FILE",
                        help="kind costs: the file for `ros2store plan` (docs/costs.json)")
    parser.add_argument("--rows", metavar="ROW,…",
                        help="only these rows (in the paper's figures, for example randread-4k-16): " + ", ".join(row.key for row in compare.ROWS))
    parser.add_argument("--against", metavar="BUILD_DIR", type=Path,
                        help="kinds quick, full and directory: also measure another build of ros2store, for example of "
                        "main; in quick and full, a row that is more than 5 %% slower than there fails")
    parser.add_argument("--daos", metavar="POOL/CONTAINER",
                        help="kind daos: the labels of a POSIX container of a DAOS that serves nobody else")
    parser.add_argument("--disks", metavar="DIR,…", type=lambda text: [Path(each) for each in text.split(",")],
                        help="kinds fig3 and fig5: a directory on each disk; one disk and all are measured (default: only "
                        "the checkout's disk)")
    parser.add_argument("--target", metavar="DEVICE", type=Path,
                        help="kind fig4: the block device of a connected target; it is only read")
    parser.add_argument("--turns", type=int, help="number of measurements of each side and row (3; full: 5)")
    parser.add_argument("--seconds", type=int, help="duration of each measurement (2; full: 4)")
    parser.add_argument("--mib", type=int, help="size of the files (256; full: 1024)")
    parser.add_argument("--no-build", action="store_true", help="measure the present build/release")


def run(options):
    kind = KINDS[options.kind]
    for name in ("turns", "seconds", "mib"):
        if getattr(options, name) is None:
            setattr(options, name, getattr(kind, name))
    tally = console.Tally("bench")
    Path("build").mkdir(exist_ok=True)
    with open("build/bench.lock", "w", encoding="ascii") as lock:
        if not guard.lock_alone(lock):
            tally.add("stopped: another bench runs in this checkout; wait for its end", False)
            return tally.close()
        place = Path("build/bench").absolute() if options.kind not in IN_MEMORY else \
            Path(tempfile.mkdtemp(prefix="ros2store-bench.", dir="/dev/shm"))
        watch = guard.Guard(place, lock.fileno())
        try:
            prepare(options, kind, place)
            console.keep_notes(LOG)
            document = report.head(options, options.kind)
            lines, plot = kind.measure(options, place, document, tally)
            print("\n" + report.write(options.json, document, lines, plot), flush=True)
            if options.kind == "costs":
                costs.write(options.costs, document)
        except shown.Failed as failure:
            tally.add(f"stopped: {failure}", False)
        finally:
            guard.clear(place, watch.mark)
            watch.stand_down()
    return tally.close()


def prepare(options, kind, place):
    if options.against is not None:
        if options.kind not in ("quick", "full", "directory"):
            raise shown.Failed("--against goes with quick, full and directory")
        if not (options.against / "bin/ros2store").exists():
            raise shown.Failed(f"{options.against} is not a build: it has no bin/ros2store; give "
                               "the build/release of a checkout")
        if options.turns < 3:
            raise shown.Failed("fewer than three turns show no spread, without which nothing is slower "
                               "than another build; take --turns 3")
    if options.disks and options.kind not in ("fig3", "fig5"):
        raise shown.Failed("--disks goes with fig3 and fig5")
    builds = 1 if options.against is None else 2
    needed = options.mib + builds * kind.pools * pools.mib_of(options.mib) + 512
    for folder in options.disks or [place.parent]:
        if not folder.is_dir():
            raise shown.Failed(f"{folder} is not a directory")
        free = shutil.disk_usage(folder).free >> 20
        if free < needed:
            raise shown.Failed(f"too little room: {free} MiB are free in {folder} where {needed} are needed; "
                               "take smaller files (--mib)")
    if not options.no_build and not build.make("release", ["programs"]):
        raise shown.Failed("the build failed")
    if options.against is not None:
        need_compiled_alike(build.folder("release"), options.against)
    guard.clear(place)
    place.mkdir(parents=True)


def need_compiled_alike(ours, base):
    for name in COMPILED_BY:
        here, there = build.cached(ours, name), build.cached(base, name)
        if here != there:
            raise shown.Failed(f"the builds are compiled differently: {name} is {here or 'not set'} in {ours}/CMakeCache.txt "
                               f"and {there or 'not set'} in {base}/CMakeCache.txt; run `./dev build programs` in both checkouts")

"""./dev bench: measures what the set-ups do and cost, beside the raw disk and beside another build.

All sides take turns in one run, so that other load of the machine affects them equally. The ratios of the
turns are the result. Each build has its own pools. All files are in build/bench (of `null` and `fairness`: in memory);
guard.py removes them, however the bench ends. The results go to a file. The commands are in build/bench.log."""

import argparse
import dataclasses
import shutil
import tempfile
from pathlib import Path
from typing import Callable

import build
import console
import guard
import shown
import sides
from bench import ceph, costs, fairness, files, host_cpu, kv, loaders, mounts, names, page, pools, report

LOG = Path("build/bench.log")


@dataclasses.dataclass(frozen=True)
class Kind:
    measure: Callable  # (options, place, document, tally) to the Markdown's lines
    what: str
    arguments: dict  # each that it uses, with its default; mib: of each file
    pools: int = 2  # of each build


KINDS = {
    "quick": Kind(files.measure, "at most six minutes", dict(turns=3, seconds=2, mib=256, rows=None, against=None)),
    "full": Kind(files.measure, "more rows, providers and turns", dict(turns=5, seconds=4, mib=1024, rows=None, against=None), 4),
    "null": Kind(files.measure, "pools in memory: all but the disk", dict(turns=3, seconds=2, mib=256, rows=None)),
    "aged": Kind(files.aged, "an embedded pool, full and overwritten at random, beside a fresh one",
                 dict(turns=5, seconds=3, mib=1024, rows=None)),
    "meta": Kind(names.measure, "create, stat, open, rename and unlink, beside ext4", dict(turns=3, seconds=1)),
    "mount": Kind(mounts.measure, "programs and many small files, on mounts", dict(turns=3)),
    "loaders": Kind(loaders.measure, "a DataLoader, read_many, records, checkpoints and forks of Python", dict(turns=5, mib=500), 6),
    "kv": Kind(kv.measure, "blocks of inference servers: ros2store.cache, and vLLM's file tier, beside ext4 with O_DIRECT; USRBIO",
               dict(turns=5, seconds=3, mib=256), 8),
    "costs": Kind(costs.measure, "what a request costs each process and link, for `ros2store plan`",
                  dict(turns=3, seconds=2, mib=256, costs=Path("docs/costs.json")), 6),
    "scale": Kind(ceph.scale, "a one-node Ceph cluster: DFS on RADOS beside fio's rados", dict(turns=5, seconds=2, mib=128), 0),
    "host-cpu": Kind(host_cpu.measure, "what I/O costs a host: CPU, context switches, system calls, page faults",
                     dict(turns=3, seconds=2, mib=256)),
    "fairness": Kind(fairness.measure, "tenants of one DPU beside each other, in memory", dict(turns=3, seconds=4, mib=64)),
}
# The values of the arguments that a kind does not use.
NOT_USED = dict(rows=None, against=None, costs=None, turns=1, seconds=0, mib=0)
TURNS_MOST = 1000
SECONDS_MOST = 50  # five operations on names end within the 300 s after which a program is stopped
MIB_MOST = 1 << 20
IN_MEMORY = ("null", "fairness")
# Builds that differ in these differ in speed, too, whatever their sources are.
COMPILED_BY = ("CMAKE_BUILD_TYPE", "CMAKE_UNITY_BUILD")


def users(argument):
    """Returns the kinds that use an argument."""
    return [name for name, kind in KINDS.items() if argument in kind.arguments]


def defaults(argument):
    """Returns the kinds that use an argument, and its defaults, for the help."""
    found = {}
    for name in users(argument):
        found.setdefault(KINDS[name].arguments[argument], []).append(name)
    return "; ".join(f"{'' if default is None else f'{default} '}for {', '.join(kinds)}" for default, kinds in found.items())


def whole_number(most):
    """Returns the type of an argument that is a number from 1 to `most`."""
    def parse(text):
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {most}")
        return int(text)

    return parse


def add_arguments(parser):
    def add(name, what, **more):
        parser.add_argument(f"--{name}", help=f"{what} ({defaults(name)})", **more)

    parser.add_argument("kind", nargs="?", choices=KINDS, default="quick",
                        help="; ".join(f"{name}: {kind.what}" for name, kind in KINDS.items()))
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), metavar="FILE",
                        help="the output (build/bench.json); Markdown is written beside it")
    add("costs", "the file for `ros2store plan`", type=Path, metavar="FILE")
    add("rows", "only these rows: " + ", ".join(row.key for row in sides.ROWS), metavar="ROW,…")
    add("against", "also measure another build of ros2store, for example of main; a row that is more than 5 %% slower than there "
        "fails", type=Path, metavar="BUILD_DIR")
    add("turns", "number of measurements of each side and row", type=whole_number(TURNS_MOST))
    add("seconds", "duration of each measurement", type=whole_number(SECONDS_MOST))
    add("mib", "size of each file", type=whole_number(MIB_MOST))
    parser.add_argument("--record", action="store_true",
                        help=f"also put the results into {page.RESULTS} and write {page.PAGE} ({', '.join(page.KINDS)})")
    parser.add_argument("--no-build", action="store_true", help="measure the present build/release")


def complete(options):
    """Sets what was not given to the default of the kind. Refuses what the kind does not use."""
    used = KINDS[options.kind].arguments
    for name, value in (NOT_USED | used).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
        elif name not in used:
            raise shown.Failed(f"--{name} has no effect on the kind {options.kind}: leave it out, or choose "
                               f"a kind that uses it: {', '.join(users(name))}")


def run(options):
    tally = console.Tally("bench")
    place = Path("build/bench").absolute() if options.kind not in IN_MEMORY else \
        Path(tempfile.mkdtemp(prefix="ros2store-bench.", dir="/dev/shm"))
    guard.alone("bench", place, tally, lambda: measure(options, place, tally))
    return tally.close()


def measure(options, place, tally):
    prepare(options, place)
    console.keep_notes(LOG)
    document = report.head(options, options.kind)
    lines = KINDS[options.kind].measure(options, place, document, tally)
    print("\n" + report.write(options.json, document, lines), flush=True)
    if options.kind == "costs":
        costs.write(options.costs, document)
    if options.record:
        page.record(options.kind, document)


def prepare(options, place):
    complete(options)
    if options.record and (options.kind not in page.KINDS or options.rows or options.against):
        raise shown.Failed(f"--record is for all rows of one build, of {', '.join(page.KINDS)}")
    if options.against is not None:
        if not (options.against / "bin/ros2store").exists():
            raise shown.Failed(f"{options.against} is not a build: it has no bin/ros2store; give "
                               "the build/release of a checkout")
        if options.turns < 3:
            raise shown.Failed("fewer than three turns show no spread, without which nothing is slower "
                               "than another build; take --turns 3")
    builds = 1 if options.against is None else 2
    needed = options.mib + builds * KINDS[options.kind].pools * pools.mib_of(options.mib) + 512
    free = shutil.disk_usage(place.parent).free >> 20
    if free < needed:
        raise shown.Failed(f"too little room: {free} MiB are free in {place.parent} where {needed} are needed; "
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

"""Measures what I/O costs a host: processor time, context switches, system calls and page faults, for fio on
a raw file, on mounts (FUSE) and in each set-up, there also in an encrypted container. The processes of a mount
count as the host's. Daemons have a column of their own."""

import dataclasses
import os
import select
import statistics
import subprocess
from pathlib import Path

import build
import compare
import shown
from bench import pools, report, rows, turns

WORKLOADS = ("randread-32", "randwrite-32", "read-1m", "write-1m")
EVENTS = {"cpu_us": "task-clock", "context_switches": "context-switches", "system_calls": "raw_syscalls:sys_enter",
          "page_faults": "page-faults"}
MIB_PER_GIB = 1024
UNMOUNT_SECONDS = 60


class NotCounted(shown.Failed):
    """This machine cannot count the events. The message says why."""


@dataclasses.dataclass(frozen=True)
class Host:
    """A side, and the URI that is mounted for it if it is a mount."""
    mode: str
    side: compare.Side
    uri: str = None


@dataclasses.dataclass(frozen=True)
class Cost:
    """The costs of one turn: a rate, each of EVENTS per operation, and processor time of the daemons."""
    iops: float
    each: dict
    daemons_us: float = 0.0


def counted(file, pid=None):
    """Returns the words to put before a command so that perf counts its events, or those of a process
    meanwhile."""
    of_process = ("-p", str(pid)) if pid else ()
    return ("perf", "stat", "-x", ";", "-o", str(file), "-e", ",".join(EVENTS.values()), *of_process, "--")


def parse(text):
    """Parses the output of `perf stat -x ;`. Returns the events by our names, the clock in µs."""
    found = {}
    for line in text.splitlines():
        fields = line.split(";")
        for name, event in EVENTS.items():
            if len(fields) > 2 and fields[2].removesuffix(":u") == event:
                if not fields[0].replace(".", "").isdigit():
                    raise NotCounted(f"perf could not count {event}: {fields[0]}")
                found[name] = float(fields[0]) * (1000 if event == "task-clock" else 1)
    missing = EVENTS.keys() - found.keys()
    if missing:
        raise NotCounted(f"perf did not write {', '.join(sorted(missing))}: {text!r}")
    return found


def probe(file):
    """Raises NotCounted if perf cannot count here."""
    try:
        done = subprocess.run([*counted(file), "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
    except FileNotFoundError as missing:
        raise NotCounted("there is no perf here: apt-get install linux-perf") from missing
    if done.returncode != 0:
        raise NotCounted("perf may not count here, as root with tracefs it may "
                         f"(mount -t tracefs nodev /sys/kernel/tracing): {done.stderr.strip()[:200]}")
    parse(file.read_text(encoding="utf-8"))


def mounter(folder):
    """Returns the process that serves a mount."""
    for each in Path("/proc").iterdir():
        try:
            words = (each / "cmdline").read_bytes().split(b"\0") if each.name.isdigit() else ()
        except OSError:  # it has ended
            continue
        if words and Path(os.fsdecode(words[0])).name == "ros2store-fuse" and os.fsencode(folder) in words:
            return int(each.name)
    raise shown.Failed(f"no process serves the mount at {folder}")


def unmount(folder, process):
    """Returns when the process that serves the mount has ended: the next one has the same command line."""
    handle = os.pidfd_open(process)
    try:
        shown.run("fusermount3", "-u", folder, quiet=True)
        if not select.select([handle], [], [], UNMOUNT_SECONDS)[0]:
            raise shown.Failed(f"process {process} still runs {UNMOUNT_SECONDS} s after {folder} was unmounted")
    finally:
        os.close(handle)


class Counter:
    """Counts the events of the host's processes in a run of fio. `place` holds perf's files and the mount."""

    def __init__(self, place, program):
        self.place = place
        self.program = program
        self.folder = place / "mnt"

    def run(self, row, host, shared):
        """Returns the figure of fio, and the events by name."""
        files = [self.place / "perf.fio"]
        prefix = counted(files[0])
        if host.uri:
            shown.run(self.program, "mount", host.uri, self.folder, quiet=True)
            process = mounter(self.folder)
            files.append(self.place / "perf.mount")
            prefix = (*counted(files[1], process), *prefix)
        figure = compare.measure(row, host.side, shared, prefix)
        if host.uri:
            unmount(self.folder, process)
        found = [parse(file.read_text(encoding="utf-8")) for file in files]
        return figure, {name: sum(each[name] for each in found) for name in EVENTS}


def hosts(ours, place, kind):
    """Returns raw, the mounts, and the other set-ups."""
    sides = ours.sides(kind)
    mounted = compare.raw_side(place / "mnt" / "figures")
    made = [Host("raw", compare.raw_side((place / "raw").absolute()))]
    made += [Host(f"FUSE, {side.mode}", dataclasses.replace(mounted, name=f"FUSE, {side.mode}", served=side.served,
                                                             daemons=side.daemons),
                  pools.uri_of(side)) for side in sides if side.through in ("", "shm")]
    return made, [Host(side.mode, side) for side in sides] + \
        [Host(f"{side.mode}, encrypted", side) for side in ours.encrypted(sides)]


def measure(options, place, document, tally):
    probe(place / "perf.fio")
    ours = pools.Pools("this", build.folder("release"), place, options.mib)
    counter = Counter(place.absolute(), ours.program)
    counter.folder.mkdir()
    before, others = hosts(ours, place.absolute(), "quick")
    pools.fill([before[0].side, *(host.side for host in others)], f"{options.mib}m")
    # Their files are in other containers of the same pools.
    pools.fill([host.side for host in others if host.mode.endswith("encrypted")], f"{options.mib}m")
    everybody = [*before, *others]
    small = dict(size=f"{options.mib}m")
    started = [counter.run(turns.START, host, small)[1] for host in everybody]
    shared = compare.time_based(f"{options.mib}m", options.seconds)
    works = [row for row in compare.ROWS if row.key in WORKLOADS]
    made = []
    for row in works:
        costs = [[] for _ in everybody]
        for turn in range(options.turns):
            for i in compare.order(turn, everybody):
                figure, events = counter.run(row, everybody[i], shared)
                costs[i].append(Cost(figure.iops, {name: max(0.0, events[name] - started[i][name]) / figure.operations
                                                   for name in EVENTS},
                                     sum(us for process, us in figure.cpu_us.items() if process != "host")))
        of_row = [told(host, row, own, costs[0]) for host, own in zip(everybody, costs)]
        tally.add(f"{row.key}: " + "; ".join(f"{report.mode(one)} {one['cpu_us']:,.1f} µs" for one in of_row), True)
        made += of_row
    ours.down()
    document["rows"] = made
    return lines(made), None


def told(host, row, costs, raw):
    """Returns medians: per operation for 4 KiB, per GiB for 1 MiB."""
    large = row.in_mib()
    one = {"mode": host.mode, "provider": host.side.through or None, "workload": row.options["rw"],
           "bs": rows.SIZES[row.options["bs"]], "iodepth": row.options["iodepth"], "jobs": 1,
           "per": "GiB" if large else "operation", "iops": rows.rounded(statistics.median(cost.iops for cost in costs))}
    for name in EVENTS:
        one[name] = rows.rounded(statistics.median(cost.each[name] for cost in costs) * (MIB_PER_GIB if large else 1))
    one["daemons_cpu_us"] = rows.rounded(statistics.median(cost.daemons_us for cost in costs) *
                                         (MIB_PER_GIB if large else 1))
    one["cpu_ratio_to_raw"] = None if costs is raw else rows.rounded(statistics.median(
        own.each["cpu_us"] / other.each["cpu_us"] for own, other in zip(costs, raw)))
    return one


def lines(made):
    def rate(one):
        return f"{report.number(one['iops'] * one['bs'] / 2**20, 0)} MiB/s" if one["per"] == "GiB" else \
            f"{report.number(one['iops'], 0)} IOPS"

    return report.table(("workload, per", "mode", "rate", "host CPU µs", "of raw", "daemons' CPU µs", "context switches", "system calls",
                         "page faults"), (
        (f"{report.workload(one)}, {one['per']}", report.mode(one), rate(one), report.number(one["cpu_us"]),
         report.number(one["cpu_ratio_to_raw"], 2), report.number(one["daemons_cpu_us"]),
         *(report.number(one[name], 2) for name in ("context_switches", "system_calls", "page_faults")))
        for one in made))

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
import shown
import sides
from bench import files, pools, report, rows

WORKLOADS = ("write-1m", "read-1m", "randread-32", "randwrite-32")
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
    side: sides.Side
    uri: str = None


@dataclasses.dataclass(frozen=True)
class Cost:
    """The costs of one turn: a rate, each of EVENTS per operation, and processor time of the daemons."""
    iops: float
    each: dict
    daemons_us: float = 0.0


def counted(file, pid=None):
    """Returns the words to put before a command so that perf counts its events, or those of a process meanwhile."""
    of_process = ("-p", str(pid)) if pid else ()
    return ("perf", "stat", "-x", ";", "-o", str(file), "-e", ",".join(EVENTS.values()), *of_process, "--")


def parse(text):
    """Parses the output of `perf stat -x ;`. Returns the events by our names, the clock in µs."""
    by_event = {fields[2].removesuffix(":u"): fields[0] for line in text.splitlines() if len(fields := line.split(";")) > 2}
    found = {}
    for name, event in EVENTS.items():
        if not by_event.get(event, "").replace(".", "").isdigit():
            raise NotCounted(f"perf could not count {event}: {text!r}")
        found[name] = float(by_event[event]) * (1000 if event == "task-clock" else 1)
    return found


def probe(file):
    """Raises NotCounted if perf cannot count here."""
    try:
        done = subprocess.run([*counted(file), "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except FileNotFoundError as missing:
        raise NotCounted("there is no perf here: apt-get install linux-perf") from missing
    if done.returncode != 0:
        raise NotCounted("perf may not count here, as root with tracefs it may "
                         f"(mount -t tracefs nodev /sys/kernel/tracing): {done.stderr.strip()[:200]}")
    parse(file.read_text(encoding="utf-8"))


def mounter(folder):
    """Returns the process that serves a mount."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if Path(os.fsdecode(words[0])).name == "ros2store-fuse" and os.fsencode(folder) in words:
            return int(each.parent.name)
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
        self.place, self.program = place, program
        self.folder = place / "mnt"
        self.folder.mkdir()

    def run(self, row, host, shared):
        """Returns the figure of fio, and the events by name."""
        perf_files = [self.place / "perf.fio"]
        prefix = counted(perf_files[0])
        if host.uri:
            shown.run(self.program, "mount", host.uri, self.folder, quiet=True)
            process = mounter(self.folder)
            perf_files.append(self.place / "perf.mount")
            prefix = (*counted(perf_files[1], process), *prefix)
        figure = sides.measure(row, host.side, shared, prefix)
        if host.uri:
            unmount(self.folder, process)
        found = [parse(file.read_text(encoding="utf-8")) for file in perf_files]
        return figure, {name: sum(each[name] for each in found) for name in EVENTS}

    def cost(self, row, host, shared, start):
        """Returns the Cost of a turn. `start`: the events of a run with one request."""
        figure, events = self.run(row, host, shared)
        return Cost(figure.iops, {name: max(0.0, events[name] - start[name]) / figure.operations for name in EVENTS},
                    sum(us for process, us in figure.cpu_us.items() if process != "host"))


def mount_of(side, file):
    """Returns the host that uses a mount of a side."""
    return Host(f"FUSE, {side.mode}", dataclasses.replace(sides.raw_side(file), name=f"FUSE, {side.mode}", served=side.served,
                                                          daemons=side.daemons, through=side.through), side.uri)


def measure(options, place, document, tally):
    probe(place / "perf.fio")
    ours = pools.Pools("this", build.folder("release"), place, options.mib)
    counter = Counter(place.absolute(), ours.program)
    raw, set_ups = sides.raw_side((place / "raw").absolute()), ours.sides("quick")
    encrypted = ours.encrypted(set_ups)
    for each in ([raw, *set_ups], encrypted):  # their files are in other containers of the same pools
        pools.fill(each, f"{options.mib}m")
    mounts = [mount_of(side, counter.folder / "figures") for side in set_ups if side.through in ("", "shm")]
    hosts = [Host("raw", raw), *mounts, *(Host(side.mode, side) for side in set_ups),
             *(Host(f"{side.mode}, encrypted", side) for side in encrypted)]
    starts = {id(host): counter.run(files.START, host, dict(size=f"{options.mib}m"))[1] for host in hosts}
    made = document["rows"] = []
    for row in map(sides.row_of, WORKLOADS):
        costs = sides.in_turn(hosts, options.turns, lambda host, row=row: counter.cost(
            row, host, sides.time_based(f"{options.mib}m", options.seconds), starts[id(host)]))
        of_row = [told(host, row, own, costs[0]) for host, own in zip(hosts, costs)]
        tally.add(f"{row.key}: " + "; ".join(f"{report.mode(one)} {one['cpu_us']:,.1f} µs" for one in of_row), True)
        made += of_row
    ours.down()
    return lines(made)


def told(host, row, costs, raw):
    """Returns medians: per operation for 4 KiB, per GiB for 1 MiB."""
    per, times = ("GiB", MIB_PER_GIB) if row.bs >= 1 << 20 else ("operation", 1)
    one = {"mode": host.mode, "provider": host.side.provider, "workload": row.workload, "bs": row.bs, "iodepth": row.iodepth,
           "jobs": 1, "per": per, "iops": rows.median(cost.iops for cost in costs)}
    for name in EVENTS:
        one[name] = rows.median(cost.each[name] * times for cost in costs)
    one["daemons_cpu_us"] = rows.median(cost.daemons_us * times for cost in costs)
    one["cpu_ratio_to_raw"] = None if costs is raw else rows.rounded(statistics.median(
        own.each["cpu_us"] / other.each["cpu_us"] for own, other in zip(costs, raw)))
    return one


def lines(made):
    return report.table(("workload, per", "mode", "rate", "host CPU µs", "of raw", "daemons' CPU µs", "context switches",
                         "system calls", "page faults"), (
        (f"{report.workload(one)}, {one['per']}", report.mode(one), report.rate(one | {"bytes_per_s": one["iops"] * one["bs"]}),
         report.number(one["cpu_us"]), report.number(one["cpu_ratio_to_raw"], 2), report.number(one["daemons_cpu_us"]),
         *(report.number(one[name], 2) for name in ("context_switches", "system_calls", "page_faults")))
        for one in made))

"""Samples what each process computes with perf's cpu-clock, which needs no hardware counter."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

import console
import shown

HERTZ = 997  # a prime, so that it does not coincide with periodic work
HEAD = re.compile(r"^(.+?)\s+(\d+)(?:/\d+)?\s+(\d+\.\d+):\s*$")
FRAME = re.compile(r"^\s+([0-9a-f]+) (.*) \((.*)\)$")
EVENT = " PERF_RECORD_"  # in the line of an event that is no sample
FORK = re.compile(r"PERF_RECORD_FORK\((\d+):\d+\):\((\d+):\d+\)")  # the new process, and its parent
KERNEL = 1 << 63  # addresses from here on


class NotRun(shown.Failed):
    """This machine cannot sample. The message says why."""


@dataclass(frozen=True)
class Sample:
    """A sample. Frames are (symbol, library), the innermost first."""
    command: str
    pid: int
    descends: bool  # from the process that started perf
    at: float  # seconds
    kernel: tuple
    user: tuple


def may_sample():
    try:
        probe()
    except NotRun as reason:
        console.note(f"polling is not measured apart: {reason}")
        return False
    return True


def probe():
    """Raises NotRun if perf cannot sample here."""
    if not shutil.which("perf"):
        raise NotRun("there is no perf here: apt-get install linux-perf")
    done = subprocess.run(["perf", "record", "-q", "-B", "-N", "-a", "-e", "cpu-clock", "-o", "/dev/null", "true"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotRun(f"perf may not sample this machine ({done.stderr.strip()[:200]})")


def recorded(file):
    """Returns the words to put before a command so that perf samples it and all other processes meanwhile."""
    # Libraries are found by their paths: collecting their build ids takes a second.
    return ("perf", "record", "-q", "-B", "-N", "-a", "-e", "cpu-clock", "-F", str(HERTZ), "-g", "-o", str(file), "--")


def read(file):
    text = subprocess.run(["perf", "script", "-i", file, "-F", "comm,pid,time,ip,sym,dso", "--show-task-events"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          check=True, env=os.environ | {"PERF_PAGER": "cat"}).stdout
    return parse(text, os.getpid())


def descendants(text, ancestor):
    """Returns a process and all below it. perf also names the parents of processes that ran before it, in any order."""
    forks = [(int(child), int(parent)) for child, parent in FORK.findall(text)]
    found = {ancestor}
    while more := {child for child, parent in forks if parent in found} - found:
        found |= more
    return found


def parse(text, starter):
    """Parses the output of `perf script`: for each sample a head, then a line for each frame. `starter`: the process
    that started perf."""
    started = descendants(text, starter)
    found = []
    for part in text.split("\n\n"):
        lines = [line for line in part.splitlines() if line.strip() and EVENT not in line]
        head = HEAD.match(lines[0]) if lines else None
        if not head:
            continue
        frames = [(int(frame[1], 16), (frame[2].replace("(anonymous namespace)::", ""), frame[3])) for frame in map(FRAME.match, lines[1:]) if frame]
        found.append(Sample(head[1].strip(), int(head[2]), int(head[2]) in started, float(head[3]),
                            tuple(frame for at, frame in frames if at >= KERNEL),
                            tuple(frame for at, frame in frames if at < KERNEL)))
    return found


def by_process(samples, daemons, host="fio"):
    """Groups the samples by process: the host, whose main threads are called `host`, and the daemons, given
    as process numbers by name. Processes of that name that others started, such as another user's fio, do not count."""
    names = {pid: name for name, pid in daemons.items()}
    # The library's threads have names of their own.
    names |= {sample.pid: "host" for sample in samples if sample.command == host and sample.descends}
    grouped = {}
    for sample in samples:
        if sample.pid in names:
            grouped.setdefault(names[sample.pid], []).append(sample)
    return grouped


def during(grouped, seconds):
    """Returns the samples of the last `seconds` before the host ended, without its start."""
    end = max((sample.at for sample in grouped.get("host", ())), default=0)
    return {name: kept for name, found in grouped.items()
            if (kept := [sample for sample in found if end - seconds < sample.at <= end])}


def yields(sample):
    """Returns whether the sample is polling: the program's innermost function is sched_yield, and the rest is
    in the kernel."""
    return bool(sample.user) and "sched_yield" in sample.user[0][0]


def poll_shares(grouped):
    return {name: sum(map(yields, samples)) / len(samples) for name, samples in grouped.items()}

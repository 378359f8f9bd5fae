"""Makes docs/figures.md: the goals and the newest results, from docs/results.json. It measures nothing.

`./dev bench KIND --record` puts the report of a run into that file, in place of the last one of its kind."""

import dataclasses
import json
import textwrap
from pathlib import Path
from typing import Callable

from bench import report

RESULTS, PAGE = Path("docs/results.json"), Path("docs/figures.md")
EMBEDDED, DIRECT, UCX, OFFLOAD = ("embedded", None), ("direct", "shm"), ("direct", "ucx+tcp"), ("offload", "shm")
FOUR = (EMBEDDED, DIRECT, UCX, OFFLOAD)
READ_1, READ_32 = ("randread", 4096, 1), ("randread", 4096, 32)
WRITE_32 = ("randwrite", 4096, 32)
READ_MIB, WRITE_MIB = ("read", 1 << 20, 8), ("write", 1 << 20, 8)
FIO_ROWS = {WRITE_MIB: "1 MiB write", READ_MIB: "1 MiB read", READ_1: "4 KiB read, depth 1", READ_32: "4 KiB read, depth 32",
            ("randwrite", 4096, 1): "4 KiB durable write, depth 1", WRITE_32: "4 KiB durable write, depth 32"}
INTRODUCTION = """# Figures: goals and newest results
This page is generated from [results.json](results.json), which has all fields; do not edit it. `./dev bench KIND
--record` measures and puts its report there ([kinds](../tools/dev/bench/README.md)). [Where the time
goes](performance.md) explains the results.

"Raw" is fio's io_uring with direct I/O on a file of the same file system. A write to a pool is durable when it
completes. Raw 4 KiB writes have an fdatasync after as many writes as are in flight; raw 1 MiB writes are never synced.
All values are medians. All processes share the processors of one machine, and shared memory stands in for RDMA,
without its speed."""


class Run:
    """A report in the results file."""

    def __init__(self, document):
        self.document = document
        self.rows = document["rows"]

    def row(self, side, work):
        """Returns the row of a set-up and a workload, or an empty one."""
        mode, provider = side
        workload, size, depth = work
        for one in self.rows:
            if (one["mode"], one.get("provider"), one["workload"], one.get("bs"), one.get("iodepth")) == \
                    (mode, provider, workload, size, depth):
                return one
        return {}

    def sides(self):
        """Returns the set-ups, in the order of the rows."""
        return list(dict.fromkeys((one["mode"], one.get("provider")) for one in self.rows))

    def of(self, side, work, field):
        return self.row(side, work).get(field)


def quotient(above, below):
    return above / below if above is not None and below else None


def difference(one, other):
    return None if one is None or other is None else one - other


@dataclasses.dataclass(frozen=True)
class Goal:
    kind: str
    what: str
    where: tuple  # a set-up
    goal: float
    value: Callable  # of a Run
    at_most: bool = False
    digits: int = 2

    def cell(self, run):
        """Returns the value and the goal, and whether it is met; None if it was not measured."""
        value = self.value(run)
        if value is None:
            return None
        met = value <= self.goal if self.at_most else value >= self.goal
        return told_goal(report.number(value, self.digits), f"{'≤' if self.at_most else '≥'} {self.goal:,}", met), met


def told_goal(value, goal, met):
    return f"{value} ({goal})" if met else f"**{value}** ({goal})"


def title(side):
    mode, provider = side
    return f"{mode}, {provider}" if provider else mode


def ratio_goals(work, sides, goals):
    """Yields goals of ratios to raw, by set-up and workload."""
    for side, goal in zip(sides, goals):
        yield (side, work), Goal("quick", f"{FIO_ROWS[work]}, of raw", side, goal,
                                 lambda run, side=side: run.of(side, work, "ratio_to_raw"))


def name_goals(what, depth, sides, goals, beside):
    return [Goal("meta", f"{operation}, {what}", side, goal, lambda run, side=side, operation=operation: quotient(
        run.of(side, (operation, None, depth), "iops"), run.of(beside, (operation, None, depth), "iops")))
        for side in sides for operation, goal in zip(("create", "stat", "unlink"), goals)]


def mount_goals(what, works, goals, durability="", shorter=False, beside=None):
    """Goals of workloads on mounts: of rates (`shorter`: times) as a ratio to the rate `beside` has, if given."""
    def value(run, work, side):
        ours = run.of((f"{side[0]}, {durability}" if durability else side[0], side[1]), (work, None, 1), "iops")
        other = run.of(beside, (work, None, 1), "iops") if beside else 1
        return quotient(other, ours) if shorter else quotient(ours, other)

    named = f"with {durability}, {what}" if durability else what
    return [Goal("mount", f"{work}: {named}", side, goal, lambda run, work=work, side=side: value(run, work, side), shorter,
                 2 if beside else 0) for work in works for side, goal in goals.items()]


def sum_of(run, mode, provider, work):
    row = run.row((mode, provider), work)
    return row["cpu_us"] + row["daemons_cpu_us"] if row else None


def encryption_goals(what, work, goal):
    return [Goal("host-cpu", f"processor time of a plain {what}, of an encrypted one", side, goal, lambda run, side=side: quotient(
        sum_of(run, *side, work), sum_of(run, f"{side[0]}, encrypted", side[1], work))) for side in (EMBEDDED, DIRECT, OFFLOAD)]


def loader_goals():
    def ratio(side, work, depth=1):
        return lambda run: run.of(side, (work, None, depth), "ratio_to_raw")

    def ms(side, work):
        return lambda run: quotient(1000, run.of(side, (work, None, 1), "iops"))

    def wait(run):
        return quotient(1, run.of(OFFLOAD, ("checkpoint, wait of a step", None, 1), "ratio_to_raw"))

    def cost(run, work=("files, 0 workers, cold", None, 1)):
        ours = run.row(OFFLOAD, work)
        return quotient(ours and sum(ours[f"{name}_cpu_us_per_io"] for name in ("host", "dpu", "engine")),
                        run.of(RAW, work, "host_cpu_us_per_io"))

    python = "Python", None
    for workers in 0, 1, 2, 4:
        yield f"DataLoader, cold, {workers} workers, of ext4", OFFLOAD, .9, ratio(OFFLOAD, f"files, {workers} workers, cold")
    yield "the same, 0 workers: processor time, of ext4", OFFLOAD, 1.5, cost, True
    yield "read_many, of its call in C", OFFLOAD, .95, ratio(python, "read_many")
    yield "read_many, of ext4", OFFLOAD, 1, ratio(OFFLOAD, "read_many, beside open and read, cold")
    yield "aread_many, 16 in flight, of fio", OFFLOAD, .8, ratio(python, "randread 4 to 64 KiB", 16)
    yield "checkpoint: wait of a step, of torch.save to ext4", OFFLOAD, .2, wait, True
    yield "checkpoint: load, of ext4", OFFLOAD, 1.5, ratio(OFFLOAD, "checkpoint, load")
    for side in EMBEDDED, OFFLOAD:
        for work, most in (("first use in the first forked child", 80), ("first use in a forked child", 5),
                           ("import and open, cold", 150), ("import and open", 60)):
            yield f"{work}: ms", side, most, ms(side, work), True
        yield "memory of a forked child: MiB", side, 10, lambda run, mode=side[0]: run.document["child_kib"][mode] / 1024, True


def kv_goals():
    size, mount = 256 << 10, ("mount", "shm")
    gets = "get, 16 in a call", size, 16

    def of(side, work, field):
        return lambda run: run.of(side, work, field)

    def gb(side, process):
        return lambda run: quotient(size / 1000, run.of(side, gets, f"{process}_cpu_us_per_io"))

    for operation in "put", "get":
        yield f"{operation} of 256 KiB, 16 in flight, of ext4 with O_DIRECT", OFFLOAD, 1, of(OFFLOAD, (operation, size, 16), "ratio_to_raw")
    yield "256 KiB gets: GB by a second of its processors", EMBEDDED, 5, gb(EMBEDDED, "host")
    yield "256 KiB gets: GB by a second of the DPU's", OFFLOAD, 3, gb(OFFLOAD, "dpu")
    yield "256 KiB gets: processor time of the host, of that on a mount", OFFLOAD, .2, lambda run: quotient(
        run.of(OFFLOAD, gets, "host_cpu_us_per_io"), run.of(mount, gets, "host_cpu_us_per_io")), True
    yield "keys looked for per second, 1,024 at a time", OFFLOAD, 1_000_000, of(
        OFFLOAD, ("exists, 1,024 keys at a time", None, 1), "iops"), False, 0
    yield "look-up of a prompt of 3,600 keys, p99: ms", OFFLOAD, 5, lambda run: quotient(
        run.of(OFFLOAD, ("look-up of a prompt of 3,600 keys", None, 1), "p99_us"), 1000), True
    for mode, provider in EMBEDDED, OFFLOAD:
        for work in READ_32, ("randread", 1 << 20, 8):
            yield (f"{work[1] >> 10:,} KiB random read by USRBIO, of our fio plug-in", (mode, provider), .95,
                   of((f"USRBIO, {mode}", provider), work, "ratio_to_raw"))


FUSE, WRITEBACK = ("FUSE itself", None), ("FUSE itself, writeback", None)
DEFERRED, EXCLUSIVE = "durability=fsync", "exclusive"
RAW, SYNCED, UNSYNCED = ("raw", None), ("raw", "with fsync"), ("raw", "without fsync")
RATIO_GOALS = {  # shown in the table of ratios
    **dict(ratio_goals(READ_1, FOUR, (.97, .85, .72, .75))),
    **dict(ratio_goals(READ_32, FOUR, (.97, .92, .75, .82))),
    **dict(ratio_goals(READ_MIB, FOUR, (.95, .90, .90, .90))),
    **dict(ratio_goals(WRITE_MIB, FOUR, (.95, .90, .90, .90))),
    **dict(ratio_goals(WRITE_32, FOUR, (1, .8, .6, .65))),
}
GOALS = (
    *RATIO_GOALS.values(),
    Goal("quick", "4 KiB read, depth 32: µs of the host", OFFLOAD, 3, lambda run: run.of(OFFLOAD, READ_32, "host_cpu_us_per_io"), True, 1),
    Goal("quick", "the same: µs of the DPU", OFFLOAD, 2.5, lambda run: run.of(OFFLOAD, READ_32, "dpu_cpu_us_per_io"), True, 1),
    *(Goal("quick", "the same: µs of the engine above raw", side, 2, lambda run, side=side: difference(
        run.of(side, READ_32, "engine_cpu_us_per_io"), run.of(RAW, READ_32, "host_cpu_us_per_io")), True, 1) for side in (DIRECT, OFFLOAD)),
    Goal("quick", "4 KiB durable write, depth 32: µs of the host", EMBEDDED, 6, lambda run: run.of(EMBEDDED, WRITE_32, "host_cpu_us_per_io"), True, 1),
    *(Goal("aged", f"4 KiB durable write, depth 32, {mode} pool, of raw", EMBEDDED, 1, lambda run, mode=mode: run.of((mode, None), WRITE_32, "ratio_to_raw"))
      for mode in ("fresh", "aged")),
    *(Goal("null", "4 KiB reads per second in memory, depth 32", side, goal, lambda run, side=side: run.of(side, READ_32, "iops"), False, 0)
      for side, goal in zip((EMBEDDED, DIRECT, OFFLOAD, UCX), (600_000, 380_000, 250_000, 180_000))),
    *name_goals("32 in flight, of ext4 without fsync", 32, (EMBEDDED,), (.5, .5, .5), UNSYNCED),
    *name_goals("one at a time, of ext4 with fsync", 1, (EMBEDDED,), (2, 1, 2), SYNCED),
    *name_goals("32 in flight, of embedded", 32, (DIRECT,), (.6, .6, .6), EMBEDDED),
    *name_goals("32 in flight, of embedded", 32, (OFFLOAD,), (.5, .5, .5), EMBEDDED),
    *name_goals("one at a time, of embedded", 1, (DIRECT,), (.6, .6, .6), EMBEDDED),
    *name_goals("one at a time, of embedded", 1, (OFFLOAD,), (.5, .5, .5), EMBEDDED),
    *mount_goals("time, of embedded", ("untar", "PostgreSQL's recovery"), {OFFLOAD: 3}, shorter=True, beside=EMBEDDED),
    *mount_goals("time, of embedded", ("git clone",), {OFFLOAD: 1.5}, shorter=True, beside=EMBEDDED),
    *mount_goals("time, of embedded", ("initdb",), {OFFLOAD: 2.5}, shorter=True, beside=EMBEDDED),
    *mount_goals("time, of embedded", ("find",), {DIRECT: 2, OFFLOAD: 2}, shorter=True, beside=EMBEDDED),
    *mount_goals("time, of embedded", ("read again", "list"), {DIRECT: 1.2, OFFLOAD: 1.2}, shorter=True, beside=EMBEDDED),
    *mount_goals("of FUSE itself", ("read",), {OFFLOAD: .7}, beside=FUSE),
    *mount_goals("time, of FUSE itself", ("untar", "copy", "git clone"), {EMBEDDED: 1.5, OFFLOAD: 3}, DEFERRED, True, FUSE),
    *mount_goals("of FUSE itself", ("256 B writes",), {EMBEDDED: .7, DIRECT: .7, OFFLOAD: .7}, DEFERRED, beside=FUSE),
    *mount_goals("of FUSE itself with writeback", ("256 B writes",), {EMBEDDED: .5, OFFLOAD: .5}, EXCLUSIVE, beside=WRITEBACK),
    *mount_goals("time, of ext4", ("strided writes",), {EMBEDDED: 8, OFFLOAD: 8}, DEFERRED, True, RAW),
    *mount_goals("time, of ext4", ("strided writes",), {EMBEDDED: 3, OFFLOAD: 3}, EXCLUSIVE, True, RAW),
    *mount_goals("time, of ext4", ("initdb",), {OFFLOAD: 4}, DEFERRED, True, RAW),
    *mount_goals("time, of ext4", ("unzip",), {OFFLOAD: 3}, DEFERRED, True, RAW),
    *mount_goals("per second", ("8 KiB files",), {OFFLOAD: 4000}, DEFERRED),
    *mount_goals("per second", ("8 KiB files, 16 at once",), {OFFLOAD: 12000}, DEFERRED),
    *(Goal("host-cpu", "4 KiB read: processor time of the host, of that on a mount", side, .1, lambda run, side=side: quotient(
        run.of(side, READ_32, "cpu_us"), run.of((f"FUSE, {side[0]}", side[1]), READ_32, "cpu_us")), True)
      for side in (EMBEDDED, OFFLOAD)),
    *(Goal("loaders", *each) for each in loader_goals()),
    *(Goal("kv", *each) for each in kv_goals()),
    *encryption_goals("4 KiB read", READ_32, .9),
    *encryption_goals("4 KiB write", WRITE_32, .9),
    *encryption_goals("1 MiB read", READ_MIB, .8),
    *encryption_goals("1 MiB write", WRITE_MIB, .8),
)


def goals(runs):
    found, met = {}, []
    for goal in GOALS:
        if goal.kind in runs and (told := goal.cell(runs[goal.kind])):
            if goal not in RATIO_GOALS.values():
                found.setdefault(goal.what, {})[goal.where] = told[0]
            met.append(told[1])
    for row in runs["fairness"].rows if "fairness" in runs else ():
        for one in row.get("goals", ()):
            value = report.number(one["value"], 2)
            found.setdefault(f"{row['case']}: {one['what']}", {})[OFFLOAD] = told_goal(value, one["goal"], one["reached"])
            met.append(one["reached"])
    return [f"{sum(met)} of {len(met)} goals are met, here and [beside raw](#set-ups-beside-raw); bold values miss theirs, "
            "which is in brackets.", "",
            *report.table(("", *map(title, FOUR)), (
                (what, *(cells.get(side, "") for side in FOUR)) for what, cells in found.items()))]


def rate(row):
    """Returns the rate of a row of fio."""
    if row.get("iops") is None and row.get("bytes_per_s") is None:
        return "–"
    return f"{row['bytes_per_s'] / 2**20:,.0f} MiB/s" if row["bs"] >= 1 << 20 else f"{row['iops']:,.0f}/s"


def processor_time(row):
    return " / ".join(report.number(row.get(f"{name}_cpu_us_per_io")) for name in ("host", "dpu", "engine"))


def ratio_table(run, but=(), goals=()):
    """Rates of raw, and ratios of the set-ups to it, with their goals."""
    works = [work for work in FIO_ROWS if any(run.row(side, work) for side in run.sides())]

    def cell(side, work):
        row = run.row(side, work)
        if (side, work) in goals and row.get("ratio_to_raw") is not None:
            return goals[side, work].cell(run)[0]
        return rate(row) if side == RAW and row else report.number(row.get("ratio_to_raw"), 2)

    columns = [("4 KiB read, depth 32: µs of host / DPU / engine", READ_32)] if \
        any(run.of(side, READ_32, "host_cpu_us_per_io") is not None for side in run.sides()) else []
    return report.table(("set-up", *(FIO_ROWS[work] for work in works), *(name for name, _ in columns)), (
        (title(side), *(cell(side, work) for work in works), *(processor_time(run.row(side, work)) for _, work in columns))
        for side in run.sides() if side not in but))


def rate_table(run):
    """Rates of all set-ups, and what an operation costs."""
    works = [work for work in FIO_ROWS if any(run.row(side, work) for side in run.sides())]
    return report.table(("per second; µs of host / DPU / engine", *(FIO_ROWS[work] for work in works)), (
        (title(side), *(f"{rate(run.row(side, work))}; {processor_time(run.row(side, work))}" for work in works))
        for side in run.sides()))


def name_table(run):
    operations = list(dict.fromkeys(row["workload"] for row in run.rows))
    return report.table(("per second, one at a time; 32 in flight", *map(title, run.sides())), (
        (operation, *("; ".join(report.number(run.of(side, (operation, None, depth), "iops"), 0) for depth in (1, 32))
                      for side in run.sides())) for operation in operations))


def mount_table(run):
    timed = ("initdb", "PostgreSQL's recovery")
    works = list(dict.fromkeys(row["workload"] for row in run.rows))

    def cell(side, work):
        found = run.of(side, (work, None, 1), "iops")
        return "–" if found is None else f"{1 / found:.1f} s" if work in timed else report.number(found, 0)

    return report.table(("per second", *works), (
        (title(side), *(cell(side, work) for work in works)) for side in run.sides()))


def host_table(run):
    works = {READ_32: "4 KiB read", WRITE_32: "4 KiB durable write"}
    return report.table(("µs of the host / of daemons; context switches; system calls", *works.values()), (
        (title(side), *(f"{report.number(row['cpu_us'])} / {report.number(row['daemons_cpu_us'])}; "
                        f"{report.number(row['context_switches'], 2)}; {report.number(row['system_calls'], 2)}"
                        if (row := run.row(side, work)) and row.get("context_switches") is not None else "–" for work in works))
        for side in run.sides() if "encrypted" not in side[0]))


# The kind, its heading, a sentence, and its table.
SECTIONS = (
    ("quick", "Set-ups beside raw", "Ratios to raw.", lambda run: ratio_table(run, goals=RATIO_GOALS)),
    ("full", "More providers", "Ratios to raw.", lambda run: ratio_table(run, FOUR)),
    ("null", "In memory", "Pools are in memory, so the disk takes no part.", rate_table),
    ("aged", "An aged pool", "A file that takes 85 % of its pool was overwritten at random for four times its size.", ratio_table),
    ("meta", "Names", "Raw is ext4. With fsync of file and directory it gives the guarantee of a pool.", name_table),
    ("mount", "Mounts", "1,000 small files. Each workload ends with a sync. FUSE itself is libfuse's passthrough_ll.", mount_table),
    ("host-cpu", "Costs of a host", "Per operation at depth 32, polling included.", host_table),
)


KINDS = (*(name for name, *_ in SECTIONS), "fairness", "loaders", "kv")  # that may be recorded


def text(results):
    """Returns the page."""
    runs = {name: Run(document) for name, document in results["runs"].items()}
    machines = dict.fromkeys(run.document["machine"]["description"] for run in runs.values())
    machine = textwrap.wrap(f"The machine: {'; or '.join(machines)}.", 120)
    lines = [INTRODUCTION, *machine, "", "## Goals", *goals(runs)]
    for name, heading, what, table in SECTIONS:
        if name in runs:
            document = runs[name].document
            source = f"{what} `{document['command']}`, {document['date']}, revision {document['commit']}."
            lines += ["", f"## {heading}", *textwrap.wrap(source, 120), "", *table(runs[name])]
    return "\n".join(lines) + "\n"


def record(name, document):
    """Puts a report into the results file, and writes the page."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    results["runs"][name] = document
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(text(results), encoding="utf-8")

"""Measures what the tenants of one DPU get: with equal weights, with weights 1:2:4, and for a reader alone, beside
small reads of another tenant, and beside a flood of writes of another tenant and of its own. Each tenant is one or
two fio with its own certificate. All start together. The pool is in memory, so the DPU is what they share.

Shares mean something only if each tenant has requests waiting at all times. So where they are measured, the daemons
have one processor and the hosts the others, where they do not poll: a host without processor time has none waiting.

Beside small reads that always wait, the reader has no more than its share. So its p99 beside the flood is compared
with its p99 there."""

import dataclasses
import itertools
import json
import os
import statistics
import subprocess
import time

import build
import compare
import console
import served
import shown
from bench import pools, report

NAMES = ("alice", "bob", "carol", "dave")
READS = dict(rw="randread", bs="16k", iodepth=256)
ONE_READ = dict(rw="randread", bs="4k", iodepth=1)
FLOOD = dict(rw="write", bs="1m", iodepth=256)
RAMP_SECONDS = 1  # the others have started by then
JAIN_LEAST = 0.99
OFF_SHARE_MOST = 0.03
P99_OF_SHARE_MOST = 1.5
PROCESSORS = sorted(os.sched_getaffinity(0))
DECIDING_TURNS = 3  # with fewer, or with one processor, no goal fails


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    loads: tuple  # of fio, by tenant
    weights: tuple = ()  # empty: the tenants have none
    shares: bool = True  # each has requests waiting at all times, so that shares mean something
    of_one: bool = False  # all loads are the first tenant's


CASES = (
    Case("equal weights", (READS,) * 4),
    Case("weights 1:2:4", (READS,) * 3, (1, 2, 4)),
    Case("a reader alone", (ONE_READ,), shares=False),
    Case("a reader beside small reads", (ONE_READ, READS), shares=False),
    Case("a reader beside a flood of 1 MiB writes", (ONE_READ, FLOOD), shares=False),
    Case("a reader beside its own flood of 1 MiB writes", (ONE_READ, FLOOD), shares=False, of_one=True),
)


@dataclasses.dataclass(frozen=True)
class Got:
    """The results of one tenant in one turn."""
    iops: float
    bytes_per_s: float
    p50_us: float
    p99_us: float
    waited_us: float  # for its turn at the DPU, on average. 0: the DPU has not divided anything


class Tenants:
    """A pool with daemons. Each tenant has a directory that its clients use as the pool's."""

    def __init__(self, ours, place, mib):
        self.program = ours.program
        self.built = ours.built
        self.mib = mib
        self.pool = ours.with_daemons(("shm",))
        certs = self.pool.directory / "certs/hosts"
        self.sides = []
        for name in NAMES:
            shown.run(self.program, "certs", "issue", certs, name, quiet=True)
            directory = place / name
            (directory / "certs/hosts").mkdir(parents=True)
            (directory / "run").symlink_to(self.pool.directory / "run")
            for theirs, own in (("ca.crt", "ca.crt"), (f"{name}.crt", "client.crt"), (f"{name}.key", "client.key")):
                (directory / "certs/hosts" / own).symlink_to(certs / theirs)
            uri = f"ros2s+dpu:///pool/main?dir={directory}"
            self.sides.append(compare.pool_side(name, self.built, uri, name))
            self.tenant("create", name, "--subject", f"CN={name}", "--write", "*", "--root-squash", "no")
            self.await_tenant(uri)
        for side in self.sides:
            compare.fill(side, f"{mib}m")

    def await_tenant(self, uri):
        """The DPU hears of a tenant after its creation."""
        for rest in range(99, -1, -1):
            try:
                return shown.run(self.program, "ls", uri, quiet=True)
            except shown.Failed:
                if rest == 0:
                    raise
                time.sleep(0.1)

    def tenant(self, verb, name, *settings):
        shown.run(self.program, "tenant", verb, self.pool.directory, name, *settings, quiet=True)

    def begin(self, case):
        """Gives the tenants their weights, and the daemons their processors."""
        for name, weight in itertools.zip_longest(NAMES, case.weights, fillvalue=""):
            self.tenant("set", name, "--weight", weight)
        for pid in self.pool.pids().values():
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(thread), PROCESSORS[:1] if case.shares else PROCESSORS)

    def turn(self, case, seconds):
        """Runs all tenants once. Returns the result of each."""
        shared = compare.time_based(f"{self.mib}m", seconds) | dict(ramp_time=RAMP_SECONDS)
        meter = served.Meter(self.pool)
        running = []
        sides = self.sides[:1] * len(case.loads) if case.of_one else self.sides
        for side, load in zip(sides, case.loads):
            command = [word for word in compare.fio_command(compare.Row("tenant", "", load), side, shared)
                       if not word.startswith("--path_report")]
            console.command(command)
            if case.shares:
                command = ["env", "ROS2STORE_POLL=0", "taskset", "-c", ",".join(map(str, PROCESSORS[1:] or PROCESSORS)), *command]
            running.append(subprocess.Popen([*command, "--thread"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, text=True))
        said = [each.communicate(timeout=60 + 4 * seconds) for each in running]
        for each, (out, errors) in zip(running, said):
            if each.returncode != 0:
                raise shown.Failed(f"{case.name}: fio: {out[-500:]}{errors[-1500:]}")
        _, growth = meter.read()
        waited = {name: waited_us(growth["dpu"], name) for name in NAMES}
        names = NAMES[:1] * len(case.loads) if case.of_one else NAMES
        return [parse(out, load, waited[name]) for (out, _), load, name in zip(said, case.loads, names)]


def waited_us(growth, tenant):
    """Returns for how long a request of the tenant waited for its turn at the DPU, on average."""
    requests, seconds = (growth.values.get((f"ros2store_tenant_{name}_total", f'{{tenant="{tenant}"}}'), 0)
                         for name in ("requests", "queued_seconds"))
    return 1e6 * seconds / max(requests, 1)


def parse(text, load, waited):
    job = json.loads(text[text.find("{"):])["jobs"][0]
    if job["error"] != 0:
        raise shown.Failed(f"fio reports error {job['error']}")
    moved = job["write" if "write" in load["rw"] else "read"]
    latency = moved["lat_ns"]["percentile"]
    return Got(moved["iops"], moved["bw_bytes"], latency["50.000000"] / 1000, latency["99.000000"] / 1000,
               waited)


def jain(rates):
    """Returns Jain's index: 1 if all rates are equal, 1/n if one tenant has everything."""
    return sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))


def measure(options, place, document, tally):
    ours = pools.Pools("this", build.folder("release").absolute(), place, len(NAMES) * options.mib)
    tenants = Tenants(ours, place, options.mib)
    apart = len(PROCESSORS) > 1
    decides = options.turns >= DECIDING_TURNS and apart
    made = []
    for case in CASES:
        tenants.begin(case)
        turns = [tenants.turn(case, options.seconds) for _ in range(options.turns)]
        made.append(told(case, turns))
        compare_reader(made)
        made[-1]["goals"] = goals_of(case, made[-1])
        tally.add(f"{case.name}: " + summary(made[-1]), not decides or all(map(is_met, made[-1]["goals"])))
    ours.down()
    document["rows"] = made
    document["hosts_apart"] = apart
    return [*lines(made), "", *lines_of_goals(made), *([] if apart else ["", NOT_APART])], None


NOT_APART = "Hosts and daemons shared one processor. Shares may be those of the hosts' processor time, so no goal failed."


def told(case, turns):
    """Returns a row of medians for each tenant. `by_weight`: the tenant's part of all requests, divided by
    the part that its weight entitles it to."""
    weights = case.weights or (1,) * len(case.loads)
    rows = []
    for number, weight in enumerate(weights):
        own = [turn[number] for turn in turns]
        row = {"tenant": NAMES[0 if case.of_one else number], "weight": weight,
               **{field.name: statistics.median(getattr(each, field.name) for each in own)
                  for field in dataclasses.fields(Got)}}
        if case.shares:
            row["by_weight"] = statistics.median(
                turn[number].iops / sum(each.iops for each in turn) * sum(weights) / weight for turn in turns)
        rows.append(row)
    fairness = statistics.median(jain([each.iops / weight for each, weight in zip(turn, weights)])
                                 for turn in turns) if case.shares else None
    return {"case": case.name, "jain": fairness, "tenants": rows}


def compare_reader(made):
    """Adds to a reader beside others its p99 as a multiple of the one that it has alone, and at its share."""
    readers = {row["case"]: row["tenants"][0] for row in made}
    reader = made[-1]["tenants"][0]
    for name, case in (("p99_of_alone", "a reader alone"), ("p99_of_share", "a reader beside small reads")):
        if case in readers and readers[case] is not reader:
            reader[name] = reader["p99_us"] / readers[case]["p99_us"]


def goals_of(case, row):
    """Returns what the row should reach, and whether it does. A goal that `fails` makes the bench fail; the other is
    known to be missed (docs/decisions/0512)."""
    found = []

    def add(what, value, goal, reached, fails=True):
        found.append({"what": what, "value": value, "goal": goal, "reached": reached, "fails": fails})

    if case.shares and not case.weights:
        add("Jain's index", row["jain"], f"≥ {JAIN_LEAST}", row["jain"] >= JAIN_LEAST)
    for one in row["tenants"] if case.weights else ():
        add(f"{one['tenant']} of its share", one["by_weight"], f"1 ± {OFF_SHARE_MOST}",
            abs(one["by_weight"] - 1) <= OFF_SHARE_MOST)
    if FLOOD in case.loads and not case.of_one:
        ratio = row["tenants"][0]["p99_of_share"]
        add("p99 of the one at its share", ratio, f"≤ {P99_OF_SHARE_MOST}", ratio <= P99_OF_SHARE_MOST, fails=False)
    return found


def is_met(goal):
    return goal["reached"] or not goal["fails"]


def summary(row):
    each = "; ".join(f"{one['tenant']} {one['iops']:,.0f}/s, p99 {one['p99_us']:,.0f} µs" for one in row["tenants"])
    return each + "".join(f"; {goal['what']} {goal['value']:.3f} (goal {goal['goal']}{'' if goal['reached'] else ', missed'})"
                          for goal in row["goals"])


def lines_of_goals(made):
    return report.table(("case", "what", "value", "goal"), (
        (row["case"], goal["what"], report.number(goal["value"], 3), f"{goal['goal']} {'reached' if goal['reached'] else 'missed'}")
        for row in made for goal in row["goals"]))


def lines(made):
    return report.table(("case", "tenant", "weight", "operations/s", "of its share", "p50, p99 µs", "p99 of alone, of its share",
                         "waited at the DPU, µs", "Jain's index"), (
        (row["case"], one["tenant"], str(one["weight"]), f"{one['iops']:,.0f}",
         report.number(one.get("by_weight"), 3), f"{one['p50_us']:,.0f}, {one['p99_us']:,.0f}",
         f"{report.number(one.get('p99_of_alone'), 2)}, {report.number(one.get('p99_of_share'), 2)}", f"{one['waited_us']:,.0f}",
         report.number(row["jain"], 4)) for row in made for one in row["tenants"]))

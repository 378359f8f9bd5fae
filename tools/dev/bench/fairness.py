"""Measures what the tenants of one DPU get: with equal weights, with weights 1:2:4, and for a reader alone, beside
small reads of another tenant, and beside a flood of writes of another tenant and of its own. Each tenant is one or
two fio with its own certificate. All start together. The pool is in memory, so the DPU is what they share.

Shares mean something only if each tenant has requests waiting at all times. So where they are measured, the daemons
have one processor and the hosts the others, where they do not poll: a host without processor time has none waiting.

Beside small reads that always wait, the reader has no more than its share. So its p99 beside the flood is compared
with its p99 there."""

import dataclasses
import itertools
import os
import statistics
import subprocess
import time

import build
import console
import served
import shown
import sides
from bench import pools, report

NAMES = ("alice", "bob", "carol", "dave")
READS, ONE_READ, FLOOD = sides.jobs("tenants")
JAIN_LEAST = 0.99
OFF_SHARE_MOST = 0.03
P99_OF_SHARE_MOST = 1.5
PROCESSORS = sorted(os.sched_getaffinity(0))
DECIDING_TURNS = 3  # with fewer, or with one processor, no goal fails
NOT_APART = "Hosts and daemons shared one processor. Shares may be those of the hosts' processor time, so no goal failed."


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    loads: tuple  # of fio, by tenant
    weights: tuple = ()  # empty: the tenants have none
    shares: bool = True  # each has requests waiting at all times, so that shares mean something
    of_one: bool = False  # all loads are the first tenant's

    @property
    def tenants(self):
        return NAMES[:1] * len(self.loads) if self.of_one else NAMES[:len(self.loads)]


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
        self.program, self.mib = ours.program, mib
        self.pool = ours.with_daemons(("shm",))
        self.sides = {}
        for name in NAMES:
            uri = f"ros2s+dpu:///pool/main?dir={self.identity(name, place / name)}"
            self.tenant("create", name, "--subject", f"CN={name}", "--write", "*", "--root-squash", "no")
            self.await_tenant(uri)
            self.sides[name] = sides.pool_side(name, ours.built, uri, name)
            sides.fill(self.sides[name], f"{mib}m")

    def identity(self, name, directory):
        """Makes a tenant's directory: its certificate, and the way to the DPU. Returns it."""
        certs, own = self.pool.directory / "certs/hosts", directory / "certs/hosts"
        shown.run(self.program, "certs", "issue", certs, name, quiet=True)
        own.mkdir(parents=True)
        (directory / "run").symlink_to(self.pool.directory / "run")
        for theirs, link in (("ca.crt", "ca.crt"), (f"{name}.crt", "client.crt"), (f"{name}.key", "client.key")):
            (own / link).symlink_to(certs / theirs)
        return directory

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
        apart = ["env", "ROS2STORE_POLL=0", "taskset", "-c", ",".join(map(str, PROCESSORS[1:] or PROCESSORS))] if case.shares else []
        meter = served.Meter(self.pool)
        running = []
        for name, load in zip(case.tenants, case.loads):
            command = [*apart, *sides.fio_command(load, self.sides[name], sides.time_based(f"{self.mib}m", seconds), False), "--thread"]
            console.command(command)
            running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                            text=True))
        said = [each.communicate(timeout=60 + 4 * seconds) for each in running]
        for each, (out, errors) in zip(running, said):
            if each.returncode != 0:
                raise shown.Failed(f"{case.name}: fio: {out[-500:]}{errors[-1500:]}")
        growth = meter.read()[1]["dpu"]
        return [got(sides.figure_of(out, load), growth, name) for (out, _), load, name in zip(said, case.loads, case.tenants)]


def got(figure, growth, tenant):
    requests, queued = (growth.values.get((f"ros2store_tenant_{name}_total", f'{{tenant="{tenant}"}}'), 0)
                        for name in ("requests", "queued_seconds"))
    return Got(figure.iops, figure.bytes_per_s, figure.p50_us, figure.p99_us, 1e6 * queued / max(requests, 1))


def jain(rates):
    """Returns Jain's index: 1 if all rates are equal, 1/n if one tenant has everything."""
    return sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))


def measure(options, place, document, tally):
    ours = pools.Pools("this", build.folder("release").absolute(), place, len(NAMES) * options.mib)
    tenants = Tenants(ours, place, options.mib)
    apart = document["hosts_apart"] = len(PROCESSORS) > 1
    decides = options.turns >= DECIDING_TURNS and apart
    made = document["rows"] = []
    for case in CASES:
        tenants.begin(case)
        made.append(told(case, [tenants.turn(case, options.seconds) for _ in range(options.turns)], made))
        tally.add(f"{case.name}: " + summary(made[-1]), not decides or all(map(is_met, made[-1]["goals"])))
    ours.down()
    return lines(made) + ([] if apart else ["", NOT_APART])


def told(case, turns, earlier=()):
    """Returns a row of medians for each tenant. `by_weight`: the tenant's part of all requests, divided by the part that
    its weight entitles it to. A reader beside others is compared with the reader of an earlier case."""
    weights = case.weights or (1,) * len(case.loads)
    tenants = []
    for number, weight in enumerate(weights):
        one = {"tenant": case.tenants[number], "weight": weight,
               **{field.name: statistics.median(getattr(turn[number], field.name) for turn in turns)
                  for field in dataclasses.fields(Got)}}
        if case.shares:
            one["by_weight"] = statistics.median(
                turn[number].iops / sum(each.iops for each in turn) * sum(weights) / weight for turn in turns)
        tenants.append(one)
    fairness = statistics.median(jain([each.iops / weight for each, weight in zip(turn, weights)])
                                 for turn in turns) if case.shares else None
    for row in earlier:
        name = {"a reader alone": "p99_of_alone", "a reader beside small reads": "p99_of_share"}.get(row["case"])
        if name:
            tenants[0][name] = tenants[0]["p99_us"] / row["tenants"][0]["p99_us"]
    row = {"case": case.name, "jain": fairness, "tenants": tenants}
    return row | {"goals": goals_of(case, row)}


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


def told_goal(goal):
    return f"{goal['what']} {goal['value']:.3f} (goal {goal['goal']}{'' if goal['reached'] else ', missed'})"


def summary(row):
    return "; ".join([*(f"{one['tenant']} {one['iops']:,.0f}/s, p99 {one['p99_us']:,.0f} µs" for one in row["tenants"]),
                      *map(told_goal, row["goals"])])


def lines(made):
    return [*report.table(("case", "tenant", "weight", "operations/s", "of its share", "p50, p99 µs", "p99 of alone, of its share",
                           "waited at the DPU, µs", "Jain's index"), (
        (row["case"], one["tenant"], str(one["weight"]), f"{one['iops']:,.0f}",
         report.number(one.get("by_weight"), 3), f"{one['p50_us']:,.0f}, {one['p99_us']:,.0f}",
         f"{report.number(one.get('p99_of_alone'), 2)}, {report.number(one.get('p99_of_share'), 2)}", f"{one['waited_us']:,.0f}",
         report.number(row["jain"], 4)) for row in made for one in row["tenants"])),
            "", *(f"{row['case']}: {told_goal(goal)}." for row in made for goal in row["goals"])]

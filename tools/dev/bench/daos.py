"""Measures ROS2 beside DAOS, on one machine: fio's `dfs` engine on DAOS and on pools of ROS2 (embedded, and of an engine
over TCP), and our fio plug-in on the same DAOS behind a DPU; and names in the same set-ups, by libdfs or libros2store. Pools of
ROS2 are in memory, as DAOS's is.

DAOS runs already (docs/daos.md), with its engine on this machine: its threads poll without requests. It is stopped
while ROS2 is measured without it, so it must serve nobody else and be the only engine of its system."""

import contextlib
import dataclasses
import os
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import build
import compare
import served
import shown
from bench import names, pools, report, rows, timed

# The order matters: random writes scatter a file. Writes of 1 MiB end after some passes: DAOS frees overwritten space late.
PASSES = 4
ROWS = tuple(compare.Row(f"{name}-{size}-{depth}", name, dict(rw=name, bs=size, iodepth=depth))
             for name, size, depth in (("write", "1m", 8), ("read", "1m", 8), ("randread", "4k", 1), ("randread", "4k", 32),
                                       ("randread", "4k", 16), ("randwrite", "4k", 1), ("randwrite", "4k", 32)))
START = dict(rw="read", bs="4k", iodepth=1, number_ios=1)
FILE = "figures"
ENGINE = "daos_engine"
# The least ratio of rates to DAOS, and the greatest of processor time. None: there is no goal.
OURS = (1.3, 0.5)
BEHIND = {("4k", 32): (0.85, None), ("1m", 8): (0.95, None)}
NAMES_GOAL = 0.5  # the greatest ratio of medians of the times, one at a time
FIND = "import ctypes; ctypes.CDLL('libdfs.so'); print(next(l.split()[-1] for l in open('/proc/self/maps') if '/libdfs.so' in l))"


@dataclasses.dataclass(frozen=True)
class Side:
    mode: str
    provider: str
    target: list
    environment: dict
    daemons: dict  # processes beside fio, by the row's field: dpu, engine
    uses_daos: bool
    names: object  # of a directory to the command before THREADS and SECONDS of name_bench
    goals: object = dataclasses.field(default=lambda row: (None, None))

    @property
    def name(self):
        return f"{self.mode}, {self.provider}" if self.provider else self.mode


@dataclasses.dataclass(frozen=True)
class Turn:
    timed: timed.Timed
    cpu_us: dict  # per operation, by process: host, dpu, engine

    def spent(self):
        return sum(self.cpu_us.values())


def environment(**changed):
    return {name: value for name, value in (os.environ | changed).items() if value is not None}


def the_engine():
    """Returns the process of DAOS's engine. Raises Failed."""
    found = [int(each.parent.name) for each in Path("/proc").glob("[0-9]*/comm") if text_of(each) == ENGINE]
    if len(found) != 1:
        raise shown.Failed(f"{len(found)} processes {ENGINE} run here, and one is needed: see docs/daos.md")
    return found[0]


def text_of(file):
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:  # it has ended
        return ""


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def libraries(built):
    """Returns DAOS's own libraries, which programs load first: they are linked to ours. Raises Failed."""
    found = subprocess.run([sys.executable, "-c", FIND], capture_output=True, text=True, check=False)
    if found.returncode != 0 or found.stdout.strip().startswith(str(built)):
        raise shown.Failed(f"DAOS's libdfs.so is not what the loader finds: set LD_LIBRARY_PATH ({found.stdout}{found.stderr[-300:]})")
    dfs = Path(found.stdout.strip())
    return " ".join(str(dfs.with_name(name)) for name in ("libdfs.so", "libdaos.so", "libgurt.so"))


def sides(options, built, ours, engine, preloaded):
    """Starts the pools of ROS2. Returns DAOS, DAOS behind a DPU, and ROS2."""
    label, _, container = options.daos.partition("/")
    engine_of_fio = built / "tests/daos/libfio_dfs.so"
    if not engine_of_fio.exists():
        raise shown.Failed(f"fio's engine dfs was not built ({engine_of_fio}): it needs fio's sources, see plugins/fio/README.md")

    def by_dfs(pool, container):
        return [f"--ioengine=external:{engine_of_fio}", f"--pool={pool}", f"--cont={container}", f"--filename={FILE}"]

    def names_by_dfs(pool, container):
        return lambda directory: [built / "bench/dfs_name_bench", f"dfs://{pool}/{container}/{directory}"]

    def ros2(mode, provider, uri, daemons):
        changed = environment(ROS2STORE_DAOS=uri, LD_LIBRARY_PATH=str(built / "lib/ros2store/daos"))
        return Side(mode, provider, by_dfs("tank", "main"), changed, daemons, False, names_by_dfs("tank", "main"), lambda row: OURS)

    def names_behind(directory):
        uri = f"ros2s+dpu:///tank/{container}/{directory}?dir={dpu.directory}"
        shown.run(built / "bin/ros2store", "mkdir", uri, quiet=True)
        return [built / "bench/name_bench", uri]

    embedded = ours.embedded_directory()
    direct = ours.with_daemons((pools.TCP,))
    dpu = ours.with_daemons(("shm",), "daos")
    dpu.serve("tank", f"{{daos: {{pool: {label}}}}}", 'access: {"CN=client": {write: tank/*}}\n')
    behind = compare.pool_side("offload", built, f"ros2s+dpu:///tank/{container}?dir={dpu.directory}", f"{FILE}.dpu")
    return [Side("daos", None, by_dfs(label, container), environment(LD_PRELOAD=preloaded), {"engine": engine}, True,
                 names_by_dfs(label, container)),
            Side("offload", "daos", [*behind.target, "--thread"], environment(), {"dpu": dpu.pids()["dpu"], "engine": engine}, True,
                 names_behind, lambda row: BEHIND.get((row.options["bs"], row.options["iodepth"]), (None, None))),
            ros2("embedded", None, f"ros2s+local:///pool?dir={embedded}", {}),
            ros2("direct", pools.TCP, f"ros2s:///pool?dir={direct.directory}&provider={pools.TCP}",
                 {"engine": direct.pids()["engine"]})]


def turn_of(side, options, engine, start_us=None):
    """Runs fio once. `start_us`: the processor time of a run with one request, which is left out."""
    with contextlib.nullcontext() if side.uses_daos else stopped(engine):
        before = {name: served.cpu_seconds(pid) for name, pid in side.daemons.items()}
        taken = timed.fio(side.target, options, side.environment)
        spent = {"host": taken.host_cpu_us * taken.operations,
                 **{name: 1e6 * (served.cpu_seconds(pid) - before[name]) for name, pid in side.daemons.items()}}
    return Turn(taken, {name: max(0.0, us - (start_us or {}).get(name, 0.0)) / taken.operations for name, us in spent.items()})


def names_turn(side, directory, threads, options, engine):
    """Runs name_bench once in a new directory. Returns its times by operation."""
    with contextlib.nullcontext() if side.uses_daos else stopped(engine):
        return names.parse(timed.run([*side.names(directory), threads, options.seconds], env=side.environment))


def measure_names(all_sides, options, engine, tally):
    """Returns the rows of the JSON, their spreads, and the lines of a table."""
    made, spreads, told = [], [], []
    for threads in names.THREADS:
        turns = [[] for _ in all_sides]
        for turn in range(options.turns):
            for number in compare.order(turn, all_sides):
                turns[number].append(names_turn(all_sides[number], f"names.{os.getpid()}.{threads}.{turn}.{number}",
                                                threads, options, engine))
        for operation in names.OPERATIONS:
            of_daos = rows.median(turn[operation].p50_us for turn in turns[0])
            for side, own in zip(all_sides, turns):
                row, spread = names.row(side, operation, threads, own, turns[0])
                made.append(row)
                spreads.append(spread)
                goal = NAMES_GOAL if threads == 1 and not side.uses_daos else None
                ratio = row["p50_us"] / of_daos
                told.append((f"{operation}, {threads} in flight", side.name, report.number(row["iops"], 0), report.number(row["p50_us"]),
                             "–" if own is turns[0] else f"{ratio:.2f}", reached(goal, ratio <= NAMES_GOAL)))
        tally.add(f"names, {threads} in flight", True)
    return made, spreads, told


def options_of(row, options):
    size = f"{options.mib}m"
    once = dict(time_based=0, io_size=f"{PASSES * options.mib}m") if row.options["rw"] == "write" else {}
    return compare.time_based(size, options.seconds) | row.options | once


def measure(options, place, document, tally):
    if not options.daos or "/" not in options.daos:
        raise shown.Failed("--daos POOL/CONTAINER is required: the labels of a POSIX container of DAOS (docs/daos.md)")
    built = build.folder("release").absolute()
    preloaded = libraries(built)
    engine = the_engine()
    ours = pools.Pools("this", built, place, options.mib)
    try:
        all_sides = sides(options, built, ours, engine, preloaded)
        for side in all_sides:
            turn_of(side, dict(rw="write", bs="1m", iodepth=8, size=f"{options.mib}m"), engine)
        starts = [turn_of(side, dict(size=f"{options.mib}m") | START, engine).cpu_us for side in all_sides]
        made, spreads, told = [], [], []
        for row in ROWS:
            turns = [[] for _ in all_sides]
            for turn in range(options.turns):
                for number in compare.order(turn, all_sides):
                    turns[number].append(turn_of(all_sides[number], options_of(row, options), engine, starts[number]))
            for side, own in zip(all_sides, turns):
                made.append(as_row(row, side, own, turns[0]))
                spreads.append({"ratio_to_raw": [rows.rounded(each(rates(own, turns[0]))) for each in (min, max)]})
                told.append(cells(row, side, own, turns[0]))
            tally.add(f"{row.options['bs']} {row.name}, depth {row.options['iodepth']}: DAOS {made[-len(all_sides)]['iops']:,.0f}/s; " +
                      "; ".join(f"{side.name} {statistics.median(rates(own, turns[0])):.2f}"
                                for side, own in list(zip(all_sides, turns))[1:]), True)
        of_names, spreads_of_names, told_names = measure_names(all_sides, options, engine, tally)
    finally:
        ours.down()
    document["rows"], document["spreads"] = made + of_names, spreads + spreads_of_names
    return [*report.table(("workload", "side", "per second", "rate to DAOS (spread)", "goal", "CPU µs per operation: fio / DPU / servers",
                           "CPU to DAOS", "goal"), told), "",
            *report.table(("names", "side", "per second", "p50 µs", "p50 to DAOS", "goal"), told_names)], None


def rates(own, of_daos):
    return [ours.timed.iops / other.timed.iops for ours, other in zip(own, of_daos)]


def costs(own, of_daos):
    return [ours.spent() / other.spent() for ours, other in zip(own, of_daos)]


def as_row(row, side, own, of_daos):
    """A row of the JSON; its ratio to raw is the one to DAOS."""
    def middle(values):
        return rows.rounded(rows.median(values))

    values = {"mode": side.mode, "provider": side.provider, "workload": row.options["rw"], "bs": rows.SIZES[row.options["bs"]],
              "iodepth": row.options["iodepth"], "jobs": 1, "devices": 1,
              "iops": middle(each.timed.iops for each in own), "p50_us": middle(each.timed.p50_us for each in own),
              "p99_us": middle(each.timed.p99_us for each in own),
              "ratio_to_raw": None if own is of_daos else middle(rates(own, of_daos))}
    values |= {f"{name}_cpu_us_per_io": middle(each.cpu_us.get(name) for each in own) for name in rows.PROCESSES}
    values["bytes_per_s"] = rows.rounded(values["iops"] * values["bs"])
    return dict.fromkeys(rows.FIELDS) | values


def cells(row, side, own, of_daos):
    def middle(name):
        return report.number(rows.median(each.cpu_us.get(name) for each in own))

    least, most = side.goals(row)
    rate = cost = goal = cost_goal = "–"
    if own is not of_daos:
        ratios = rates(own, of_daos)
        rate = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
        cost = f"{statistics.median(costs(own, of_daos)):.2f}"
        goal = reached(least, statistics.median(ratios) >= (least or 0))
        cost_goal = reached(most, statistics.median(costs(own, of_daos)) <= (most or 0))
    return (f"{row.options['bs']} {row.options['rw']}, depth {row.options['iodepth']}", side.name,
            report.number(rows.median(each.timed.iops for each in own), 0), rate, goal,
            " / ".join(middle(name) for name in rows.PROCESSES), cost, cost_goal)


def reached(goal, is_reached):
    return "–" if goal is None else f"{goal} {'reached' if is_reached else 'missed'}"

"""./dev profile MODE WORKLOAD: shows the processor time of an operation, by process and layer, as perf
samples it.

It runs fio once (name_bench for operations on names) and ignores its start. Each sample counts as the time between two
samples."""

from pathlib import Path

import bench
import build
import compare
import console
import guard
import shown
from bench import layers, names, pools, report, rows, samples, turns

WORKLOADS = (*(row.key for row in compare.ROWS), *names.OPERATIONS)
FUNCTIONS = 4  # shown for each layer
LEAST = 0.005  # a layer with a smaller share is not shown


def add_arguments(parser):
    parser.add_argument("mode", choices=("raw", "embedded", "direct", "offload"))
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--seconds", type=bench.whole_number(bench.SECONDS_MOST), default=5, help="duration of the operation (5)")
    parser.add_argument("--mib", type=bench.whole_number(bench.MIB_MOST), default=512, help="size of the file (512)")
    parser.add_argument("--provider", choices=("shm", pools.TCP), default="shm", help="between the client of the engine and the engine (shm)")
    parser.add_argument("--memory", action="store_true", help="put the pool in /dev/shm, to leave out the disk")
    parser.add_argument("--no-build", action="store_true", help="measure the present build/release")


def run(options):
    tally = console.Tally("profile")
    Path("build").mkdir(exist_ok=True)
    with open("build/bench.lock", "w", encoding="ascii") as lock:
        if not guard.lock_alone(lock):
            tally.add("stopped: a bench runs in this checkout; wait for its end", False)
            return tally.close()
        place = Path("/dev/shm/ros2store-profile" if options.memory else "build/bench").absolute()
        watch = guard.Guard(place, lock.fileno())
        try:
            samples.probe()
            if not options.no_build and not build.make("release", ["programs"]):
                raise shown.Failed("the build failed")
            guard.clear(place)
            place.mkdir(parents=True)
            console.keep_notes("build/profile.log")
            tally.add("sampled", profile(options, place))
        except (shown.Failed, samples.NotRun) as failure:
            tally.add(f"stopped: {failure}", False)
        finally:
            guard.clear(place, watch.mark)
            watch.stand_down()
    return tally.close()


def profile(options, place):
    ours = pools.Pools("this", build.folder("release"), place, options.mib)
    sampled = of_names if options.workload in names.OPERATIONS else of_fio
    operations, grouped = sampled(options, place, ours)
    ours.down()
    print(f"\n{side_name(options)}, {options.workload}: {operations:,} operations; {compare.machine()}; "
          f"revision {report.revision('.')}; load {report.load()[0]}")
    of_layer = layers.Layers()
    for process in rows.PROCESSES:
        if process in grouped:
            print("\n" + "\n".join(lines(process, operations, grouped[process], of_layer)), flush=True)
    return bool(grouped)


def side_name(options):
    return f"{options.mode}, {options.provider}" if options.mode in ("direct", "offload") else options.mode


def side_of(options, place, ours):
    if options.mode == "raw":
        return compare.raw_side((place / "raw").absolute())
    if options.mode == "embedded":
        side = ours.embedded()
    else:
        pool = ours.with_daemons((options.provider,))
        side = (ours.direct if options.mode == "direct" else ours.offload)(pool, options.provider)
    return pools.in_memory(side) if options.memory else side


def of_fio(options, place, ours):
    side = side_of(options, place, ours)
    row = next(row for row in compare.ROWS if row.key == options.workload)
    pools.fill([side], f"{options.mib}m")
    figure, grouped = turns.Turns(place, options, True).sample(row, side, options.seconds)
    return figure.operations, grouped


def of_names(options, place, ours):
    if options.mode == "raw":
        (place / "names").mkdir()
        side = names.Directories("raw", names.SYNCED, place=place / "names", synced=True)
        pids = {}
    else:
        pool = side_of(options, place, ours)
        uri = pools.uri_of(pool)
        side = names.Directories(options.mode, None, lambda path: uri.replace("/pool/main", f"/pool/main/{path}"))
        pids = pool.served.pids() if pool.served else {}
    return side.sampled(build.folder("release").absolute(), place / "perf.data", pids, options.workload, options.seconds)


def lines(process, operations, found, of_layer):
    """Returns a table of one process."""
    def cost(count):
        return f"{1e6 * count / samples.HERTZ / operations:.2f}"

    told = report.table((f"{process}: layer", "µs per operation", "share", "most of it in (µs)"), (
        (layer, cost(len(own)), f"{len(own) / len(found):.0%}",
         ", ".join(f"`{short(name)}` {cost(count)}" for name, count in layers.functions(own)[:FUNCTIONS]
                   if count >= LEAST * len(found)))
        for layer, own in layers.by_layer(found, of_layer).items() if len(own) >= LEAST * len(found)))
    return [*told, "", f"{process}: {cost(len(found))} µs per operation, {len(found)} samples"]


def short(name):
    """Returns the name without arguments and templates."""
    kept = ""
    depth = 0
    for letter in name:
        depth += letter in "<("
        kept += letter if depth == 0 else ""
        depth -= letter in ">)"
    return kept.strip()[-60:] or name[:60]

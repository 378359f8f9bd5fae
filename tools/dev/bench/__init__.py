"""./dev bench: the set-ups beside the raw disk, and one build beside another.

All sides take their turns in one run, so that what else the machine does meets them alike; the
ratios of the turns are what counts. Each build has pools of its own. Everything lies in build/bench
and is removed again, whatever ends it (guard.py). What was measured goes into a file; what was run is
in build/bench.log."""

import shutil
import statistics
from pathlib import Path

import build
import compare
import console
import guard
import shown
from bench import pools, report, rows, samples, turns

PLACE = Path("build/bench")
LOG = Path("build/bench.log")
QUICK = ("write-1m", "read-1m", "randread-1", "randread-32", "randwrite-32")
# Of each kind: turns, seconds, MiB of each file.
SCALES = {"quick": (3, 2, 512), "full": (5, 4, 1024)}
POOLS = {"quick": 2, "full": 4}  # of each build


def add_arguments(parser):
    parser.add_argument("kind", nargs="?", choices=SCALES, default="quick",
                        help="quick (default): at most six minutes; full: more rows, providers and turns")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), metavar="FILE",
                        help="what was measured; Markdown and a plot go beside it (build/bench.json)")
    parser.add_argument("--rows", metavar="ROW,…",
                        help="only these: " + ", ".join(row.key for row in compare.ROWS))
    parser.add_argument("--against", metavar="BUILD_DIR", type=Path,
                        help="another build of ros2store, say of main, to measure in the same run; "
                        "a row that is more than 5 %% slower than there fails")
    parser.add_argument("--turns", type=int, help="of each side and row (3; full: 5)")
    parser.add_argument("--seconds", type=int, help="of each turn (2; full: 4)")
    parser.add_argument("--mib", type=int, help="size of the files (512; full: 1024)")
    parser.add_argument("--no-build", action="store_true", help="measure build/release as it is")


def run(options):
    for name, value in zip(("turns", "seconds", "mib"), SCALES[options.kind]):
        if getattr(options, name) is None:
            setattr(options, name, value)
    tally = console.Tally("bench")
    Path("build").mkdir(exist_ok=True)
    with open("build/bench.lock", "w", encoding="ascii") as lock:
        if not guard.lock_alone(lock):
            tally.add("stopped: another bench runs in this checkout; wait for its end", False)
            return tally.close()
        watch = guard.Guard(PLACE.absolute(), lock.fileno())
        try:
            prepare(options)
            console.keep_notes(LOG)
            measure(options, tally)
        except shown.Failed as failure:
            tally.add(f"stopped: {failure}", False)
        finally:
            guard.clear(PLACE.absolute(), watch.mark)
            watch.stand_down()
    return tally.close()


def chosen_rows(options):
    keys = [row.key for row in compare.ROWS]
    wanted = options.rows.split(",") if options.rows else QUICK if options.kind == "quick" else keys
    for name in wanted:
        if name not in keys:
            raise shown.Failed(f"there is no row {name}; there are {', '.join(keys)}")
    return [row for row in compare.ROWS if row.key in wanted]


def prepare(options):
    builds = 1 if options.against is None else 2
    needed = options.mib + builds * POOLS[options.kind] * pools.mib_of(options.mib) + 512
    free = shutil.disk_usage("build").free >> 20
    if free < needed:
        raise shown.Failed(f"too little disk: {free} MiB are free where {needed} are needed; "
                           "take smaller files (--mib)")
    if options.against is not None and not (options.against / "bin/ros2store").exists():
        raise shown.Failed(f"{options.against} is no build: bin/ros2store is missing there; give "
                           "the build/release of a checkout")
    if not options.no_build and not build.make("release", ["programs"]):
        raise shown.Failed("the build failed")
    if options.against is not None and options.turns < 3:
        raise shown.Failed("fewer than three turns show no spread, without which nothing is slower than another "
                           "build; take --turns 3")
    guard.clear(PLACE.absolute())
    PLACE.mkdir(parents=True)


def may_sample():
    try:
        samples.probe()
    except samples.NotRun as reason:
        console.note(f"polling is not measured apart: {reason}")
        return False
    return True


def measure(options, tally):
    works = chosen_rows(options)
    document = report.head(options, options.kind)
    ours = pools.Pools("this", build.folder("release"), PLACE, options.mib)
    base = options.against and pools.Pools("base", options.against, PLACE, options.mib)
    only_shm = bool(base) and options.kind == "quick"  # two builds take twice the time
    sides = [compare.raw_side((PLACE / "raw").absolute()), *ours.sides(options.kind, only_shm)]
    own = len(sides)
    sides += base.sides(options.kind, only_shm) if base else []
    pools.fill(sides, f"{options.mib}m")
    results = []
    in_turn = turns.Turns(PLACE, options, not base and may_sample())
    for of_row in in_turn.results(works, sides):
        results += of_row[:own]
        tally.add(f"{of_row[0].row.key}: " + "; ".join(map(summary, of_row[:own])), True)
        if base:
            found = compared(of_row, own)
            if any(told["regressed"] for told in found):
                console.note("slower than the base: once more")
                found = again(found, compared(next(in_turn.results([of_row[0].row], sides)), own))
            document.setdefault("against", []).extend(found)
            for told in found:
                tally.add(f"{told['row']}, {told['side']}: {spread_of(told)} of the base", not told["regressed"])
    for each in filter(None, (ours, base)):
        each.down()
    document["rows"] = [rows.row(each.side, each.row, each.figures, each.raw, each.poll_shares)
                        for each in results]
    document["spreads"] = [rows.spread(each.figures, each.raw) for each in results]
    if base:
        document["base_commit"] = report.revision(options.against)
    print("\n" + report.write(options.json, document, lines(document), bars(document)), flush=True)


def summary(result):
    rate = compare.rate(result.row, result.figures)
    return f"{result.side.name} {rate}" if result.raw is None else \
        f"{result.side.name} {statistics.median(rows.ratios(result.figures, result.raw)):.2f}"


def compared(of_row, own):
    """Each side of this build beside the same of the base."""
    others = {each.side.name.removeprefix("base: "): each for each in of_row[own:]}
    return [rows.comparison({"row": each.row.key, "side": each.side.name}, each.figures,
                            others[each.side.name].figures)
            for each in of_row[1:own] if each.side.name in others]


def again(first, second):
    """What regressed twice has regressed; of the rest, the first time is told."""
    return [other if told["regressed"] else told for told, other in zip(first, second)]


def spread_of(told):
    return f"{told['ratio_to_base']:.2f} ({told['least']:.2f}–{told['greatest']:.2f})"


def lines(document):
    made = report.rows_as_table(document["rows"], document["spreads"])
    if "against" in document:
        made += ["", *report.table(("row", "set-up", "ratio to the base (spread)", ""), (
            (told["row"], told["side"], spread_of(told), "regressed" if told["regressed"] else "")
            for told in document["against"]))]
    return made


def bars(document):
    groups = {}
    for row, spread in zip(document["rows"], document["spreads"]):
        if row["ratio_to_raw"] is not None:
            groups.setdefault(report.workload(row), []).append(
                (report.mode(row), row["ratio_to_raw"], spread["ratio_to_raw"]))
    return list(groups.items())

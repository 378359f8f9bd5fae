"""Measures the rows of `quick`, `full` and `null`: fio on raw and on every set-up, and on those of another
build."""

import statistics

import build
import compare
import console
import shown
from bench import plot, pools, report, rows, samples, turns

QUICK = ("write-1m", "read-1m", "randread-1", "randread-32", "randwrite-32")
TURNS_AGAIN = 3  # times the turns, of a row that seems slower than the base


def measure(options, place, document, tally):
    works = chosen_rows(options, [row.key for row in compare.ROWS] if options.kind == "full" else QUICK)
    ours = pools.Pools("this", build.folder("release"), place, options.mib)
    base = options.against and pools.Pools("base", options.against, place, options.mib)
    # Two builds take twice the time.
    kind = "shm" if base and options.kind == "quick" else options.kind
    sides = [compare.raw_side((place / "raw").absolute()), *ours.sides(kind)]
    own = len(sides)
    if base:
        sides += base.sides(kind)
        need_same_sides(sides, own, options.against)
    if options.kind == "null":
        sides = [sides[0], *map(pools.in_memory, sides[1:])]
    pools.fill(sides, f"{options.mib}m")
    results = []
    in_turn = turns.Turns(place, options, not base and may_sample())
    for of_row in in_turn.results(works, sides):
        results += of_row[:own]
        tally.add(f"{of_row[0].row.key}: " + "; ".join(map(summary, of_row[:own])), True)
        if base:
            found = compared(of_row, own)
            if any(map(rows.is_below, found)):
                console.note("slower than the base: more turns")
                more = next(in_turn.results([of_row[0].row], sides, TURNS_AGAIN * options.turns))
                found = decided(found, compared(more, own))
            document.setdefault("against", []).extend(found)
            for told in found:
                tally.add(f"{told['row']}, {told['side']}: {spread_of(told)} of the base", not told["regressed"])
    for each in filter(None, (ours, base)):
        each.down()
    if base:
        document["base_commit"] = report.revision(options.against)
    return put(document, results)


def put(document, results):
    """Puts the rows into the document; returns the Markdown's lines and the plot."""
    document["rows"] = [rows.row(each.side, each.row, each.figures, each.raw, each.poll_shares)
                        for each in results]
    document["spreads"] = [rows.spread(each.figures, each.raw) for each in results]
    return lines(document), bars(document)


def may_sample():
    try:
        samples.probe()
    except samples.NotRun as reason:
        console.note(f"polling is not measured apart: {reason}")
        return False
    return True


def chosen_rows(options, usual, there=compare.ROWS):
    """Returns the rows of --rows, or the usual ones, of those that are there."""
    keys = [row.key for row in there]
    wanted = usual if options.rows is None else options.rows.split(",")
    for name in wanted:
        if name not in keys:
            raise shown.Failed(f"there is no row {name}; there are {', '.join(keys)}")
    return [row for row in there if row.key in wanted]


def summary(result):
    rate = compare.rate(result.row, result.figures)
    return f"{result.side.name} {rate}" if result.raw is None else \
        f"{result.side.name} {statistics.median(rows.ratios(result.figures, result.raw)):.2f}"


def name_in_both(side):
    return side.name.removeprefix("base: ")


def need_same_sides(sides, own, against):
    """A side that only one build has would be compared with nothing, and so would pass."""
    ours, base = ({name_in_both(side) for side in of_build} for of_build in (sides[1:own], sides[own:]))
    for there, names in (("build/release", base - ours), (against, ours - base)):
        if names:
            raise shown.Failed(f"the sides of the builds differ: {there} has no {'; '.join(sorted(names))}. If a provider did "
                               "not start, build/bench.log says why; `./dev bench quick` needs only shm")


def compared(of_row, own):
    """Compares each side of this build with the same side of the base."""
    others = {name_in_both(each.side): each for each in of_row[own:]}
    return [rows.comparison({"row": each.row.key, "side": each.side.name}, each.figures,
                            others[each.side.name].figures)
            for each in of_row[1:own]]


def decided(first, second):
    """Combines two comparisons: the second one, of more turns, decides what seemed slower in the first."""
    return [other if rows.is_below(told) else {**told, "regressed": False} for told, other in zip(first, second)]


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
    return plot.Plot(list(groups.items()))

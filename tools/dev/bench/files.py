"""Measures the rows of bench/jobs/files.fio, all sides in turn: `quick`, `full` and `null` on each set-up and on those of
another build, and `aged` on a pool that is 85 % full and was overwritten at random. Measures also how much of the
processor time was polling."""

import dataclasses
import statistics

import build
import console
import shown
import sides
from bench import pools, report, rows, samples

QUICK = ("write-1m", "read-1m", "randread-1", "randread-32", "randwrite-32")
AGED = ("read-1m", "randread-32", "randwrite-32", "randwrite-32-unsynced", "write-1m")  # scattered by writes: reads first
OVERWRITTEN = 4  # times the file of `aged`
TURNS_AGAIN = 3  # times the turns, of a row that seems slower than the base
# One read, to measure the cost of fio and its library before the first request and after the last.
START = sides.job("start", dict(rw="read", bs="4k", iodepth=1, number_ios=1))
SAMPLED_SECONDS = 1
REPEATED_FROM = 5  # turns; a bench with fewer should be quick


def chosen_rows(options, usual):
    """Returns the rows of --rows, or the usual ones."""
    wanted = usual if options.rows is None else options.rows.split(",")
    for name in wanted:
        if name not in (known := [row.key for row in sides.ROWS]):
            raise shown.Failed(f"there is no row {name}; there are {', '.join(known)}")
    return [row for row in sides.ROWS if row.key in wanted]


class Turns:
    """Measures in turn. `place`: for its own files. `sampled`: perf may be used."""

    def __init__(self, place, options, of_sides, sampled=False):
        self.place, self.options, self.sides, self.sampled = place, options, of_sides, sampled
        self.size = f"{options.mib}m"
        self.start_us = {side.name: sides.measure(START, side, dict(size=self.size)).cpu_us for side in of_sides}

    def figures(self, row, turns=None):
        """Returns the figures of each side. `turns`: instead of the options'."""
        console.command(sides.fio_command(row, self.sides[-1], sides.time_based(self.size, self.options.seconds)))
        return sides.in_turn(self.sides, turns or self.options.turns, lambda side: self.measure(row, side))

    def measure(self, row, side):
        figure = sides.measure(row, side, sides.time_based(self.size, self.options.seconds))
        cpu_us = {name: max(0.0, spent - self.start_us[side.name][name] / figure.operations)
                  for name, spent in figure.cpu_us.items()}
        return dataclasses.replace(figure, cpu_us=cpu_us)

    def polling(self, row):
        """Returns the shares of polling of each side, by process: medians of turns of their own."""
        if not self.sampled:
            return [{} for _ in self.sides]
        shares = sides.in_turn(self.sides, 3 if self.options.turns >= REPEATED_FROM else 1, lambda side: samples.poll_shares(
            sample(self.place, row, side, self.size, SAMPLED_SECONDS)[1]))
        return [{name: statistics.median(share[name] for share in own if name in share) for name in set().union(*own)}
                for own in shares]


def sample(place, row, side, size, seconds):
    """Runs a turn whose rate does not count. Returns its figure, and perf's samples by process."""
    file = place / "perf.data"
    figure = sides.measure(row, side, sides.time_based(size, seconds), samples.recorded(file))
    pids = {name: pid for name, pid in side.served.pids().items() if name in side.daemons} if side.served else {}
    return figure, samples.during(samples.by_process(samples.read(file), pids), seconds)


def measure(options, place, document, tally):
    works = chosen_rows(options, [row.key for row in sides.ROWS] if options.kind == "full" else QUICK)
    ours = pools.Pools("this", build.folder("release"), place, options.mib)
    base = options.against and pools.Pools("base", options.against, place, options.mib)
    # Two builds take twice the time.
    kind = "shm" if base and options.kind == "quick" else options.kind
    all_sides = [sides.raw_side((place / "raw").absolute()), *ours.sides(kind)]
    own = len(all_sides)
    if base:
        all_sides += base.sides(kind)
        need_same_sides(all_sides, own, options.against)
        document["base_commit"] = report.revision(options.against)
    if options.kind == "null":
        all_sides = [all_sides[0], *map(pools.in_memory, all_sides[1:])]
    pools.fill(all_sides, f"{options.mib}m")
    turns = Turns(place, options, all_sides, not base and samples.may_sample())
    told = report.Rows(document, tally)
    for row in works:
        found = turns.figures(row)
        told.add(row, all_sides[:own], found[:own], turns.polling(row))
        if base:
            compare_builds(row, turns, found, own, document, tally)
    for each in filter(None, (ours, base)):
        each.down()
    return told.lines() + lines_against(document)


def aged(options, place, document, tally):
    """The pools are open only while fio runs, so their cleaners have no time between the turns."""
    ours = pools.Pools("this", build.folder("release"), place, options.mib)
    old = ours.embedded("aged", f"{options.mib * 5 // 4}M")
    all_sides = [sides.raw_side((place / "raw").absolute()), ours.embedded("fresh"), old]
    pools.fill(all_sides, f"{options.mib}m")
    shown.run("fio", "--name=age", *old.target, "--rw=randwrite", "--bs=4k", "--iodepth=32", f"--size={options.mib}m",
              f"--io_size={OVERWRITTEN * options.mib}m", "--norandommap", "--randrepeat=0", quiet=True)
    turns, told = Turns(place, options, all_sides), report.Rows(document, tally)
    for row in sorted(chosen_rows(options, AGED), key=lambda row: AGED.index(row.key) if row.key in AGED else 0):
        made = told.add(row, all_sides, turns.figures(row))
        for one, side in zip(made, all_sides):
            one["mode"] = side.name
    return told.lines()


def name_in_both(side):
    return side.name.removeprefix("base: ")


def need_same_sides(all_sides, own, against):
    """A side that only one build has would be compared with nothing, and so would pass."""
    ours, base = ({name_in_both(side) for side in of_build} for of_build in (all_sides[1:own], all_sides[own:]))
    for there, names in (("build/release", base - ours), (against, ours - base)):
        if names:
            raise shown.Failed(f"the sides of the builds differ: {there} has no {'; '.join(sorted(names))}. If a provider did "
                               "not start, build/bench.log says why; `./dev bench quick` needs only shm")


def compare_builds(row, turns, found, own, document, tally):
    """Compares a row with that of the base; what seems slower is measured again."""
    told = compared(row, turns.sides, found, own)
    if any(map(rows.is_below, told)):
        console.note("slower than the base: more turns")
        more = turns.figures(row, TURNS_AGAIN * turns.options.turns)
        told = decided(told, compared(row, turns.sides, more, own))
    document.setdefault("against", []).extend(told)
    for one in told:
        tally.add(f"{one['row']}, {one['side']}: {spread_of(one)} of the base", not one["regressed"])


def compared(row, all_sides, found, own):
    """Compares each side of this build with the same side of the base."""
    others = {name_in_both(side): figures for side, figures in zip(all_sides[own:], found[own:])}
    return [rows.comparison({"row": row.key, "side": side.name}, figures, others[side.name])
            for side, figures in zip(all_sides[1:own], found[1:own])]


def decided(first, second):
    """Combines two comparisons: the second one, of more turns, decides what seemed slower in the first."""
    return [other if rows.is_below(told) else {**told, "regressed": False} for told, other in zip(first, second)]


def spread_of(told):
    return f"{told['ratio_to_base']:.2f} ({told['least']:.2f}–{told['greatest']:.2f})"


def lines_against(document):
    if "against" not in document:
        return []
    return ["", *report.table(("row", "set-up", "ratio to the base (spread)", ""), (
        (told["row"], told["side"], spread_of(told), "regressed" if told["regressed"] else "")
        for told in document["against"]))]

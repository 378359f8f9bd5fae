"""Measures an embedded pool that is 85 % full and was overwritten at random, beside raw and a fresh pool of twice the
file's size. The pools are open only while fio runs, so their cleaners have no time between the turns."""

import build
import compare
import shown
from bench import pools, set_up_rows, turns

# Large reads come first: the writes of other rows scatter the file of the fresh pool, too.
KEYS = ("read-1m", "randread-32", "randwrite-32", "randwrite-32-unsynced", "write-1m")
OVERWRITTEN = 4  # times the file


def measure(options, place, document, tally):
    ours = pools.Pools("this", build.folder("release"), place, options.mib)
    aged = ours.embedded("aged", f"{options.mib * 5 // 4}M")
    sides = [compare.raw_side((place / "raw").absolute()), ours.embedded("fresh"), aged]
    pools.fill(sides, f"{options.mib}m")
    shown.run("fio", "--name=age", *aged.target, "--rw=randwrite", "--bs=4k", "--iodepth=32", f"--size={options.mib}m",
              f"--io_size={OVERWRITTEN * options.mib}m", "--norandommap", "--randrepeat=0", quiet=True)
    works = sorted(set_up_rows.chosen_rows(options, KEYS), key=lambda row: KEYS.index(row.key) if row.key in KEYS else 0)
    results = []
    for of_row in turns.Turns(place, options, sampled=False).results(works, sides):
        results += of_row
        tally.add(f"{of_row[0].row.key}: " + "; ".join(map(set_up_rows.summary, of_row)), True)
    set_up_rows.put(document, results)
    for row, each in zip(document["rows"], results):
        row["mode"] = each.side.name
    return set_up_rows.lines(document), set_up_rows.bars(document)

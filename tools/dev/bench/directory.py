"""Measures a directory behind a DPU (`directories:`) beside the same directory used directly: names, one at a time
and 32 in flight, and 4 KiB random reads of a file in the page cache. Nothing is synced. With --against, the DPU of
another build, too."""

import dataclasses

import build
import compare
from bench import names, pools, report, rows

READS = [row for row in compare.ROWS if row.key in ("randread-1", "randread-32")]
FILE = "figures"
# The file's pages stay in memory; fio would remove them first.
DIRECTLY = ("--ioengine=io_uring", "--direct=0", "--invalidate=0")


def measure(options, place, document, tally):
    directory = (place / "served").absolute()
    directory.mkdir()
    of_names = [names.Directories("raw", None, place=directory)]
    of_reads = [compare.Side("raw", [*DIRECTLY, f"--filename={directory / FILE}"], is_raw=True)]
    builds = {"offload": build.folder("release").absolute()}
    if options.against:
        builds["base"] = options.against.absolute()
        document["base_commit"] = report.revision(options.against)
    running = [pools.Pools(mode, built, place, options.mib) for mode, built in builds.items()]
    for own in running:
        pool = own.with_directory(directory)
        of_names.append(names.Directories(own.name, None, pool.uri_of))
        of_reads.append(side(own, pool))
    made, spreads = names.in_turn(builds["offload"], of_names, options, tally)
    compare.fill(of_reads[0], f"{options.mib}m")
    for row, figures in compare.table(READS, of_reads, f"{options.mib}m", options.seconds, options.turns):
        raw = figures[0]
        for each, own in zip(of_reads, figures):
            made.append(rows.row(each, row, own, None if own is raw else raw, {}) | {"mode": each.name})
            spreads.append(rows.spread(own, None if own is raw else raw))
        tally.add(f"{row.name}: " + "; ".join(
            f"{each.name} {compare.rate(row, own)}" for each, own in zip(of_reads, figures)), True)
    for own in running:
        own.down()
    document["rows"], document["spreads"] = made, spreads
    return names.lines(made, spreads, "of the same turns"), names.bars(made, spreads)


def side(own, pool):
    made = compare.pool_side(own.name, own.built, pool.uri_of(), FILE)
    way = "host link over shm to the DPU at .*, which keeps served/files in a directory .*"
    return dataclasses.replace(made, target=[*made.target, "--thread"], served=pool, daemons=("dpu",), way=way,
                               has_devices=False)

"""./dev bench: the embedded path beside the raw disk, and one build beside another.

All sides take their turns in one run, so that what else the machine does meets them alike; the
ratios of the turns are what counts. Each build has a pool of its own. Everything lies in
build/bench and is removed again."""

import os
import shutil
import statistics
import subprocess
from pathlib import Path

import build
import compare
import console
import shown

PLACE = Path("build/bench")


def add_arguments(parser):
    parser.add_argument("rows", nargs="*", metavar="ROW",
                        help="which rows of the table (all): "
                             + ", ".join(row.key for row in compare.ROWS))
    parser.add_argument("--against", metavar="BUILD_DIR", type=Path,
                        help="another build of ros2store, say of main, to measure in the same run")
    parser.add_argument("--turns", type=int, default=5, help="of each side and row (5)")
    parser.add_argument("--seconds", type=int, default=4, help="of each turn (4)")
    parser.add_argument("--mib", type=int, default=1024, help="size of the files (1024)")


def run(options):
    tally = BenchTally()
    keys = [row.key for row in compare.ROWS]
    for name in options.rows:
        if name not in keys:
            tally.add(f"there is no row {name}; there are {', '.join(keys)}", False)
            return tally.close()
    rows = [row for row in compare.ROWS if not options.rows or row.key in options.rows]
    try:
        prepare(options)
        measure_all(rows, options, tally)
    except shown.Failed as failure:
        tally.add(f"stopped: {failure}", False)
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)
    return tally.close()


class BenchTally(console.Tally):
    def line(self):
        return f"bench: {self.passed} rows measured, {self.failed} failed"


def pool_mib(options):
    # What is overwritten comes back only after the next groups, and metadata takes its part.
    return max(1024, 2 * options.mib)


def prepare(options):
    pools = 1 if options.against is None else 2
    needed = options.mib + pools * pool_mib(options) + 512
    free = shutil.disk_usage("build").free >> 20
    if free < needed:
        raise shown.Failed(f"too little disk: {free} MiB are free where {needed} are needed; "
                           "take smaller files (--mib)")
    if options.against is not None and not (options.against / "bin/ros2store").exists():
        raise shown.Failed(f"{options.against} is no build: bin/ros2store is missing there; give "
                           "the build/release of a checkout")
    if not build.make("release", ["ros2store-cli", "ros2store-fio"]):
        raise shown.Failed("the build failed")
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)


def pool(name, built, options):
    directory = (PLACE / name).absolute()
    uri = f"ros2s+local:///pool/main?dir={directory}"
    program = built / "bin/ros2store"
    shown.run(program, "pool", "create", directory, "--size", f"{pool_mib(options)}M", quiet=True)
    shown.run(program, "container", "create", uri, quiet=True)
    return compare.pool_side(name, built, uri, "figures")


def measure_all(rows, options, tally):
    sides = [compare.raw_side((PLACE / "raw").absolute()),
             pool("embedded", build.folder("release"), options)]
    if options.against is not None:
        sides.append(pool("against", options.against, options))
    size = f"{options.mib}m"
    for side in sides:
        compare.fill(side, size)
    results = []
    for row, figures in compare.table(rows, sides, size, options.seconds, options.turns):
        results.append((row, figures))
        tally.add(row.key + ": " + "; ".join(summary(row, figures)), True)
    print(f"\n{compare.machine()}; {options.turns} turns of {options.seconds} s each, files of "
          f"{options.mib} MiB; load {os.getloadavg()[0]:.1f}; {revision()}")
    show(results, [side.name for side in sides])
    print(f"\n{compare.way(results)}")


def summary(row, figures):
    yield f"raw {compare.rate(row, figures[0])}"
    yield f"embedded {compare.ratio(figures[1], figures[0])} of it"
    if len(figures) > 2:
        yield f"{compare.ratio(figures[1], figures[2])} of the other build"


def show(results, names):
    """As Markdown. CPU is that of fio's process with all its threads, the kernel's for it too."""
    with_other = len(names) > 2
    heads = ["", "raw", "embedded", "ratio to raw (spread)", "CPU µs per operation, "
             + ", ".join(names)] + (["ratio to the other build (spread)"] if with_other else [])
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for row, figures in results:
        cells = [row.name, compare.rate(row, figures[0]), compare.rate(row, figures[1]),
                 compare.ratio(figures[1], figures[0]),
                 ", ".join(f"{statistics.median(one.cpu_us for one in side):.1f}"
                           for side in figures)]
        if with_other:
            cells.append(compare.ratio(figures[1], figures[2]))
        print("| " + " | ".join(cells) + " |", flush=True)


def revision():
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True,
                          text=True, check=False)
    return f"revision {done.stdout.strip()}" if done.returncode == 0 else "no git checkout"

"""./dev sim: runs the crash suites at length, and writes docs/crash-rules.md."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

import build
import console

TABLE = "docs/crash-rules.md"
PROGRAMS = ["crash_suite", "crash_offload", "crash_rados", "crash_rules"]
# The program, the divisor of its number of points, and its arguments: stores on one and on several cores,
# with devices that report errors, behind one and two DPUs. Slower ones get a tenth.
CAMPAIGNS = (
    ("crash_suite", 1, "--groups 1"),
    ("crash_suite", 1, "--groups 3"),
    ("crash_suite", 1, "--groups 3 --errors yes"),
    ("crash_suite", 1, "--groups 1 --errors yes --cores 2"),
    ("crash_suite", 1, "--groups 3 --errors yes --cores 4"),
    ("crash_suite", 1, "--groups 3 --cores 4"),
    ("crash_offload", 1, "--groups 3 --dpus 1"),
    ("crash_offload", 1, "--groups 3 --dpus 2 --cores 4 --errors yes"),
    ("crash_rados", 1, ""),
    ("crash_suite", 10, "--groups 1 --index rocksdb"),
    ("crash_suite", 10, "--groups 3 --index rocksdb"),
    ("crash_suite", 10, "--groups 3 --memory yes"),
    ("crash_suite", 10, "--groups 3 --remote yes --cores 2 --errors yes"),
)
# Points of a campaign that one program has.
PIECE = 5000


def add_arguments(parser):
    parser.add_argument("--points", type=int, default=10000,
                        help="crash points in each campaign (10000); campaigns on RocksDB, with persistent "
                             "memory or over a network have a tenth")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first trial (1)")
    parser.add_argument("--table", action="store_true", help=f"only write {TABLE}")


def run(options):
    tally = console.Tally()
    if not tally.add("release build", build.make("release", PROGRAMS)):
        return tally.close()
    programs = build.folder("release") / "tests" / "crash"
    if not options.table:
        campaigns(programs, options.points, options.seed, tally)
    command = [str(programs / "crash_rules"), "--write", TABLE]
    tally.add(f"each rule removed and missed ({TABLE})", subprocess.run(command, check=False).returncode == 0)
    return tally.close()


def campaigns(programs, points, seed, tally):
    """Runs all campaigns, a program per core at a time."""
    commands = [[str(programs / program), *words] for program, *words in pieces(points, seed)]
    console.step(f"{len(commands)} pieces of {len(CAMPAIGNS)} campaigns, from seed {seed} on")
    pool = ThreadPoolExecutor(build.jobs())
    try:
        for command, done in zip(commands, pool.map(call, commands)):
            tally.add(" ".join(command), done.returncode == 0)
            print(done.stdout[-6000:], end="", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C the rest is not run


def pieces(points, seed):
    """Returns the words of each program. A long campaign is several, so that its results come one by one. Their
    trials differ."""
    for begun in range(0, points, PIECE):
        for program, share, arguments in CAMPAIGNS:
            count = max(1, min(PIECE, points - begun) // share)
            yield program, "--points", str(count), "--seed", str(seed + begun), *arguments.split()


def call(command):
    """Its progress goes to the terminal. Its report is kept, because others run at the same time."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          errors="replace", check=False)

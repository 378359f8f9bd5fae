"""./dev sim: runs the crash suites at length, and writes docs/crash-rules.md."""

import subprocess

import build
import console

TABLE = "docs/crash-rules.md"
PROGRAMS = ["crash_suite", "crash_offload", "crash_rules"]


def add_arguments(parser):
    parser.add_argument("--points", type=int, default=10000,
                        help="crash points with 1 and with 3 groups in flight, with devices' "
                             "errors on 1, 2 and 4 cores, and behind 1 and 2 DPUs; a tenth on "
                             "RocksDB")
    parser.add_argument("--seed", type=int, default=1, help="of the first trial")
    parser.add_argument("--table", action="store_true", help=f"only {TABLE}")


def run(options):
    tally = console.Tally()
    if not tally.add("release build", build.make("release", PROGRAMS)):
        return tally.close()
    programs = build.folder("release") / "tests" / "crash"
    if not options.table:
        campaigns(programs, options, tally)
    tally.add(f"each rule removed and missed ({TABLE})",
              call([str(programs / "crash_rules"), "--write", TABLE]))
    return tally.close()


def campaigns(programs, options, tally):
    for index, points in (("ordered", options.points), ("rocksdb", max(1, options.points // 10))):
        for groups in (1, 3):
            command = [str(programs / "crash_suite"), "--points", str(points), "--seed",
                       str(options.seed), "--groups", str(groups), "--index", index]
            tally.add(f"{points} crash points, {groups} groups in flight, index {index}",
                      call(command))
    for cores in (1, 2, 4):
        command = [str(programs / "crash_suite"), "--points", str(options.points), "--seed",
                   str(options.seed), "--groups", "3", "--errors", "yes", "--cores", str(cores)]
        tally.add(f"{options.points} crash points with devices' errors on {cores} core(s)",
                  call(command))
    for dpus in (1, 2):
        command = [str(programs / "crash_offload"), "--points", str(options.points), "--seed",
                   str(options.seed), "--dpus", str(dpus), "--groups", "3"]
        tally.add(f"{options.points} crash points behind {dpus} DPU(s)", call(command))


def call(command):
    console.step(" ".join(command))
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode == 0

"""./dev check: lint, layers, sanitizers, simulation, fuzzing. Each thing is counted once."""

from pathlib import Path

import build
import console
import fuzz
import lint
import test

# ThreadSanitizer sees threads, mutexes and atomics: the modules that own those. (It cannot see what
# io_uring, RocksDB and libfuse do.)
THREADED = ("runtime", "runtime_sim")


def add_arguments(parser):
    parser.add_argument("--seconds", type=int, default=20, help="for each fuzzer (20)")


def run(options):
    tally = console.Tally()
    lint.all_checks(tally)
    tally.add("every public header compiles alone",
              build.make("release", ["all_verify_interface_header_sets"]))
    if tally.add("asan build", build.make("asan")):
        test.ctest("asan", tally)
        fuzz.fuzz_all(tally, options.seconds)
    programs = [f"{module}_test" for module in THREADED
                if list((Path("src") / module.replace("_", "/")).glob("*_test.cc"))]
    if tally.add("tsan build", build.make("tsan", programs)):
        test.ctest("tsan", tally, label="|".join(THREADED))
    return tally.close()

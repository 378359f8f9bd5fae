"""./dev check: runs lint, package, sanitizers, fuzzing, lab and arm64. Each test is counted once."""

import time
from pathlib import Path

import arm64
import build
import console
import fuzz
import lab
import lint
import package
import test
import tidy

# ThreadSanitizer checks threads, mutexes and atomics. It runs on the modules that have them, and on the queue,
# which callers' threads and the reactor's share. ./dev nightly also runs the whole C ABI. ThreadSanitizer does
# not understand io_uring, RocksDB and libfuse, and each simulation has one thread: docs/decisions/0023.
THREADED = ("runtime", "device_uring", "api_queue", "fabric_shm")
# A pool whose targets are on two threads: the cases with the most concurrency, in a program without the other tests.
ENGINE = "engine_threads_test"
SPREAD = ("EngineOnTwoReactors.RandomUseAgreesWithAModel", "EngineOnTwoReactors.OppositeLockOrdersDoNotDeadlock")
RACES_OF_OTHERS = Path("tools/dev/tsan.supp").absolute()
# Freed memory that AddressSanitizer keeps from reuse. Its default of 256 makes a process touch so many
# pages that tests take a tenth longer.
QUARANTINE_MIB = 32
LEAKS_OF_OTHERS = Path("tools/dev/lsan.supp").absolute()
SANITIZED = {"LSAN_OPTIONS": f"suppressions={LEAKS_OF_OTHERS}:print_suppressions=0",
             "ASAN_OPTIONS": f"quarantine_size_mb={QUARANTINE_MIB}"}
# The duration of the attacks of hostile tenants. ./dev nightly runs them for an hour: docs/decisions/0023.
HOSTILE_SECONDS = 20


def add_arguments(parser):
    parser.add_argument("--seconds", type=int, default=10, help="duration of each fuzzer (10)")
    parser.add_argument("--brief", action="store_true", help="leave out the lab and arm64")
    parser.add_argument("--minutes", type=int, default=24 * 60,
                        help="after this time, begin no part that ./dev nightly also runs")


def races(tally, *more):
    """ThreadSanitizer on the modules with threads, and on `more` modules."""
    modules = (*THREADED, *more)
    threaded = [*(f"{module}_test" for module in modules), ENGINE]
    if tally.add("tsan build", build.make("tsan", threaded)):
        environment = {"TSAN_OPTIONS": f"suppressions={RACES_OF_OTHERS}"}
        test.ctest("tsan", tally, label="|".join(modules), environment=environment)
        test.cases("tsan", ENGINE, SPREAD, tally, environment)


def sanitized(tally, half):
    """Runs half of the tests under AddressSanitizer."""
    test.ctest("asan", tally, exclude_labels=(test.NIGHTLY, test.PROGRAMS, test.CAMPAIGN), half=half,
               environment=SANITIZED | {"ROS2STORE_TEST_SECONDS": str(HOSTILE_SECONDS)})


def fuzzers(tally, seconds):
    """Builds the fuzzers and runs each."""
    if tally.add("build of the fuzzers", build.make("asan", [fuzz.TARGET])):
        fuzz.fuzz_all(tally, seconds)


def run(options):
    tally = console.Tally()
    console.part("programs")
    tally.add("release build", build.make("release", ["programs"]))
    console.part("lint")
    lint.all_checks(tally)
    console.part("headers alone")
    tally.add("headers that no source includes first compile alone",
              build.make("release", ["all_verify_interface_header_sets"]))
    console.part("package")
    package.make(tally)
    # What begins only if so many minutes are left; below zero: also so long after the time.
    parts = [("tsan", 0, races), ("clang-tidy on the product", 10, tidy.check_product)]
    console.part("asan build")
    if tally.add("asan build", build.make("asan")):
        console.part("asan tests")
        sanitized(tally, 1)
        parts = [("asan tests, second half", -20, lambda tally: sanitized(tally, 2)),
                 ("fuzzers", 0, lambda tally: fuzzers(tally, options.seconds)), *parts]
    if not options.brief:
        parts += [("lab", 0, lab.selection), ("arm64", 0, arm64.selection)]
    give_up = console.started + options.minutes * 60
    for title, minutes, do in parts:
        has_time = time.monotonic() + minutes * 60 < give_up
        console.part(title if has_time else f"{title}: not run")
        if has_time:
            do(tally)
        else:
            print(f"not run: {title}: no time is left for it; ./dev nightly runs it", flush=True)
    return tally.close()

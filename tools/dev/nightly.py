"""./dev nightly: runs what is too long for every change.

Run it before an issue is called done, and before a release."""

import argparse
import os
import random
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

import arm64
import base
import build
import check
import console
import fuzz
import lab
import package
import sim
import test
import tidy
import trial

HOSTILE = "hostile_tenants_test"
QUIET_SECONDS = 60  # of hostile tenants while nothing else runs


def by_file(tally, _):
    """the release build, each source compiled by itself"""
    tally.add("release build, each source by itself", build.make("release", by_file=True))


def tests(tally, _):
    """all tests in the release build, except crash campaigns"""
    if tally.add("release build", build.make("release")):
        test.ctest("release", tally, exclude_labels=(test.CAMPAIGN,))


def bench(tally, options):
    """the bench, beside a build of the last commit that is a day older (--against: beside another build)"""
    # The base is built as build/release is, so this is first.
    if not tally.add("release build", build.make("release", ["programs"])):
        return
    built = options.against or build_of_base(tally)
    if not built:
        return
    command = [sys.executable, "-B", "tools/dev", "bench", "quick", "--no-build", "--against", str(built)]
    tally.add("bench beside the base", subprocess.run(command, check=False).returncode == 0)


def build_of_base(tally):
    revision = base.commit()
    if not revision:
        tally.add("no commit is a day older; name a build to compare with: --against BUILD_DIR", False)
        return None
    built = base.make(revision)
    tally.add(f"build of {revision[:8]}, a day older", built is not None)
    return built


def tsan(tally, _):
    """ThreadSanitizer on the modules with threads, and on the whole C ABI"""
    check.races(tally, "api_c")


def product_tidy(tally, _):
    """clang-tidy on the product"""
    if tally.add("configure release", build.configure("release")):
        tidy.check_product(tally)


def packages(tally, _):
    """the Debian package, installed and started in a fresh chroot (root)"""
    made = package.make(tally)
    if made:
        trial.install_and_start(made, tally)


def on_arm64(tally, _):
    """a cross-build for arm64, its package and its tests under qemu-user"""
    arm64.selection(tally, arm64.IN_NIGHTLY)


def in_lab(tally, _):
    """every suite of the lab"""
    if lab.is_ready(tally):
        lab.run_suites(lab.known(), lab.SUITE_SECONDS, tally)


def campaigns(tally, options):
    """crash campaigns, of a million points in all (--points)"""
    if tally.add("release build", build.make("release", sim.PROGRAMS)):
        sim.campaigns(build.folder("release") / "tests" / "crash", options.points, options.seed, tally)


def fuzzers(tally, options):
    """fuzzers for an hour and hostile tenants of real daemons at the same time, with ASan (--hour); then a minute of the tenants alone, without ASan"""
    built = tally.add("release build", build.make("release", [HOSTILE]))
    built &= tally.add("asan build", build.make("asan", [fuzz.TARGET, HOSTILE]))
    if not built:
        return
    # The hostile tenants take about a core. The duration of the attack matters, not its speed.
    jobs = max(1, build.jobs() - 1)
    with ThreadPoolExecutor(1) as pool:
        attack = pool.submit(attack_for, "asan", options.hour, check.SANITIZED)
        fuzz.fuzz_all(tally, max(1, options.hour * jobs // len(fuzz.fuzzers())), jobs=jobs)
        tell(tally, f"hostile tenants with ASan for {options.hour} s", attack.result())
    quiet = min(options.hour, QUIET_SECONDS)
    tell(tally, f"latency of another tenant during an attack of {quiet} s",
         attack_for("release", quiet, {"ROS2STORE_TEST_QUIET": "1"}))


def attack_for(preset, seconds, environment):
    return subprocess.run([build.folder(preset) / "tests" / "daemons" / HOSTILE],
                          env=os.environ | environment | {"ROS2STORE_TEST_SECONDS": str(seconds)},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)


def tell(tally, name, done):
    """Adds a run of hostile tenants. Prints the latencies of the other tenant, or the end of the output of a failed run."""
    if tally.add(name, done.returncode == 0):
        print("".join(f"     {line}\n" for line in done.stdout.splitlines() if line.startswith("p99 ")), end="", flush=True)
    else:
        print(done.stdout[-6000:], flush=True)


# In the order in which they run. The build is first, so that the others use it.
PARTS = {"build": by_file, "tests": tests, "bench": bench, "tsan": tsan, "tidy": product_tidy, "package": packages,
         "arm64": on_arm64, "lab": in_lab, "campaigns": campaigns, "fuzzers": fuzzers}
# Minutes on two cores, including the build that a part needs; tests: on a busy machine. Without a compiler
# cache the builds take longer.
MINUTES = {"build": 7, "tests": 70, "bench": 16, "tsan": 6, "tidy": 8, "package": 3, "arm64": 5, "lab": 25, "campaigns": 45,
           "fuzzers": 62}


def add_arguments(parser):
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "parts, in the order in which they run, and about how many minutes they take on two cores:\n" + "\n".join(
        f"  {name:<10} {MINUTES.get(name, '?'):>4}  {run_part.__doc__}" for name, run_part in PARTS.items())
    parser.epilog += "\nAfter Ctrl-C, and where parts failed, the end says with which --part to go on."
    parser.add_argument("--part", action="append", choices=PARTS, metavar="NAME", dest="parts",
                        help="run only this part; may be repeated")
    parser.add_argument("--points", type=int, default=125_000,
                        help="crash points in each of eight campaigns (125,000); the other campaigns have a tenth")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32),
                        help="seed of the first trial of each campaign (default: random)")
    parser.add_argument("--hour", type=int, default=3600, metavar="SECONDS",
                        help="duration of the part fuzzers (3600)")
    parser.add_argument("--against", metavar="BUILD_DIR",
                        help="a build to compare the bench with, instead of that of a commit that is a day older")


def run(options):
    tally = console.Tally("nightly")
    wanted = options.parts or list(PARTS)
    left = [name for name in PARTS if name in wanted]
    again = []
    try:
        while left:
            if not passes(left[0], tally, options):
                again.append(left[0])
            del left[0]
    except (KeyboardInterrupt, SystemExit):
        tally.add(f"{left[0]}: interrupted", False)
    if again + left:
        print("again: ./dev nightly", *(f"--part {name}" for name in again + left), flush=True)
    return tally.close()


def passes(name, tally, options):
    """Runs a part. If it fails, the next one still runs."""
    console.part(name)
    passed, failed = tally.passed, tally.failed
    try:
        PARTS[name](tally, options)
    except Exception:  # pylint: disable=broad-except
        traceback.print_exc()
        tally.add(f"{name}: broken off", False)
    except SystemExit as why:
        if isinstance(why.code, int):  # ./dev is terminated
            raise
        print(why, flush=True)
        tally.add(f"{name}: broken off", False)
    if (tally.passed, tally.failed) == (passed, failed):
        tally.add(f"{name}: nothing was run", False)
    return tally.failed == failed

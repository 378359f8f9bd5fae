"""./dev nightly: runs what is too long for every change. Run it before a release."""

import argparse
import subprocess
import sys

import arm64
import build
import check
import console
import fuzz
import lab
import package
import sim
import test
import trial


def add_arguments(parser):
    parser.add_argument("--points", type=int, default=140_000,
                        help="crash points of each campaign (140,000: a million in all)")
    parser.add_argument("--seconds", type=int, default=200,
                        help="for each fuzzer (200: an hour in all)")
    parser.add_argument("--against", metavar="BUILD_DIR",
                        help="a build of the base, beside which the bench runs; without it there is no bench")
    parser.add_argument("--only-tests", action="store_true",
                        help=f"only the tests that ctest has under the label {test.NIGHTLY}")


def run(options):
    tally = console.Tally("nightly")
    console.part("build, each source by itself")
    if not tally.add("release build", build.make("release", by_file=True)):
        return tally.close()
    console.part("tests")
    if options.only_tests:
        test.ctest("release", tally, label=test.NIGHTLY)
        return tally.close()
    test.ctest("release", tally, exclude_labels=(test.CAMPAIGN,))
    console.part("bench")
    if options.against:
        command = [sys.executable, "-B", "tools/dev", "bench", "quick", "--no-build", "--against", options.against]
        tally.add("bench beside the base", subprocess.run(command, check=False).returncode == 0)
    else:
        print("not run: the bench, which wants a build of the base (--against BUILD_DIR)", flush=True)
    console.part("crash campaigns")
    sim.campaigns(build.folder("release") / "tests" / "crash",
                  argparse.Namespace(points=options.points, seed=1), tally)
    console.part("asan build and fuzzers")
    if tally.add("asan build", build.make("asan")):
        fuzz.fuzz_all(tally, options.seconds)
    console.part("tsan of the C ABI")
    if tally.add("tsan build", build.make("tsan", ["api_c_test"])):
        test.ctest("tsan", tally, label="api_c", environment=check.races_environment())
    console.part("package")
    made = package.make(tally)
    if made:
        trial.install_and_start(made, tally)
    console.part("arm64")
    arm64.selection(tally)
    console.part("lab")
    if lab.is_ready(tally):
        for name in lab.known():
            lab.run_suite(name, 1200, tally, lab.power.POINTS)
    return tally.close()

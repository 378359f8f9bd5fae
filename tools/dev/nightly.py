"""./dev nightly: what is too long for every change. Run it before an issue or a release is called done."""

import argparse

import arm64
import build
import console
import fuzz
import lab
import package
import sim
import test
import trial


def add_arguments(parser):
    parser.add_argument("--points", type=int, default=100000, help="crash points of each campaign (100000)")
    parser.add_argument("--seconds", type=int, default=60, help="for each fuzzer (60)")
    parser.add_argument("--only-tests", action="store_true",
                        help=f"only the tests that ctest has under the label {test.NIGHTLY}")


def run(options):
    tally = console.Tally("nightly")
    if not tally.add("release build", build.make("release")):
        return tally.close()
    test.ctest("release", tally, label=test.NIGHTLY)
    if options.only_tests:
        return tally.close()
    sim.campaigns(build.folder("release") / "tests" / "crash",
                  argparse.Namespace(points=options.points, seed=1), tally)
    if tally.add("asan build", build.make("asan")):
        fuzz.fuzz_all(tally, options.seconds)
    made = package.make(tally)
    if made:
        trial.install_and_start(made, tally)
    arm64.selection(tally)
    if lab.is_ready(tally):
        for name in lab.known():
            lab.run_suite(name, 1200, tally, lab.power.POINTS)
    return tally.close()

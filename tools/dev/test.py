"""./dev test: builds release and runs the tests that ctest knows.

With --programs it builds only the programs, and runs the tests that need their real speed. ./dev check runs
every other test once, under the sanitizers."""

import json
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import build
import console

# Simulation campaigns. They print where crashes happened, also when they pass.
CAMPAIGN = "sim"
# Tests that need the real programs: fio, Python, mounts, kills, bounds of memory.
PROGRAMS = "programs"
# Tests that take minutes, or need real speed and a quiet machine. Only ./dev nightly runs them.
NIGHTLY = "nightly"
OUTPUT_BYTES = 1 << 20  # the output of a test that is kept for the report
# CI runs failed tests a second time, one by one: on a busy machine a test may exceed its time. If more failed, none.
SECOND_RUNS = 3


def add_arguments(parser):
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of test names")
    parser.add_argument("--programs", action="store_true",
                        help="build only the programs; run their tests and the crash campaigns")


def run(options):
    tally = console.Tally()
    console.part("build")
    if not build.make("release", ["programs"] if options.programs else ()):
        tally.add("release build", False)
        return tally.close()
    console.part("tests")
    if options.programs:
        ctest("release", tally, names=options.names, label=f"{PROGRAMS}|{CAMPAIGN}")
    else:
        ctest("release", tally, names=options.names,
              exclude_labels=() if options.names else (CAMPAIGN, NIGHTLY))
    return tally.close()


def ctest(preset, tally, names=(), without=None, exclude_labels=(), label=None, environment=None, half=None):
    """Runs the tests of a built preset and adds them to the tally. `half`: every second test, from this one on."""
    folder = build.folder(preset)
    results = (folder / "ctest.xml").absolute()
    results.unlink(missing_ok=True)
    # Two slots for each core. A test that computes takes two, because it waits for the disk now and then; one that
    # mostly waits takes one (cmake/ros2_tests.cmake).
    command = ["ctest", "--test-dir", str(folder), "--output-on-failure", "--no-tests=error",
               "--test-output-size-passed", str(OUTPUT_BYTES),
               "--test-output-size-failed", str(OUTPUT_BYTES)]
    command += ["--progress"] if console.terminal else ["--quiet", "--output-log",
                                                        str(folder / "ctest.log")]
    alone = [*command, "-j1", "--output-junit", str(folder.absolute() / "ctest_alone.xml")]
    command += [f"-j{2 * build.jobs()}", "--output-junit", str(results)]
    if half:
        command += ["-I", f"{half},,2"]
    if names:
        command += ["-R", "|".join(map(re.escape, names))]
    if without:
        command += ["-E", without]
    if exclude_labels:
        command += ["-LE", f"^({'|'.join(exclude_labels)})$"]
    if label:
        command += ["-L", f"^({label})$"]
    console.step(f"tests of {preset}")
    environment = os.environ | (environment or {})
    console.command(command)
    subprocess.run(command, stdin=subprocess.DEVNULL, check=False, env=environment)
    if not results.exists():
        tally.add(f"ctest ({preset}) gave no result", False)
        return
    passed_alone = ()
    if "CI" in os.environ:
        passed_alone = run_again(alone, failures(results), environment)
    count(results, tally, labelled(preset, CAMPAIGN), passed_alone)


def run_again(command, names, environment):
    """Runs a few failed tests one by one. Returns those that pass."""
    if not 0 < len(names) <= SECOND_RUNS:
        return ()
    command = [*command, "-R", f"^({'|'.join(map(re.escape, names))})$"]
    console.command(command)
    results = Path(command[command.index("--output-junit") + 1])
    results.unlink(missing_ok=True)
    subprocess.run(command, stdin=subprocess.DEVNULL, check=False, env=environment)
    return set(names) - set(failures(results)) if results.exists() else ()


def failures(results):
    return [name for name, case in cases_in(results) if has_failed(case)]


def cases_in(results):
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        yield f"{case.get('classname', '')} {case.get('name', '')}".split(" ", 1)[-1], case


def has_failed(case):
    return case.find("failure") is not None or case.get("status") == "fail"


def cases(preset, program, names, tally, environment):
    """Runs some cases of a GoogleTest program."""
    chosen = ":".join(f"{name}*" for name in names)
    command = [str(build.folder(preset) / program), "--gtest_brief=1", f"--gtest_filter={chosen}"]
    console.command(command)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
                          env=os.environ | environment)
    if done.returncode != 0 or cases_of(done.stdout) == 0:
        tally.add(f"{program} {' '.join(names)}", False)
        print(done.stdout[-6000:], flush=True)
    else:
        tally.passed += cases_of(done.stdout)


def count(results, tally, campaigns=(), passed_alone=()):
    """Adds each test. Counts those that passed, and prints the name of every other: first all in short. Those in
    `passed_alone` failed, and passed in a second run."""
    skipped, failed = [], []
    for name, case in cases_in(results):
        output = case.findtext("system-out") or ""
        if has_failed(case):
            failed.append((name, output))
            tally.add(f"{name}: failed beside other tests, passed alone" if name in passed_alone else name,
                      name in passed_alone)
            print(gist(output), end="", flush=True)
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped.append(name)
        elif name in campaigns:
            tally.add(name, True)
            print("".join(f"     {line}\n" for line in output.splitlines()), end="", flush=True)
        else:
            tally.passed += cases_of(output)
    for name, output in failed:
        print(f"---- {name}\n{output[-6000:]}", flush=True)
    if skipped:
        print(f"not run ({len(skipped)}): {', '.join(skipped)}")


def cases_of(output):
    """Returns how many cases passed in a test: one, unless a GoogleTest program is one test."""
    told = re.search(r"^\[  PASSED  \] (\d+) tests?\.$", output, re.MULTILINE)
    return int(told[1]) if told else 1


def labelled(preset, label):
    """Returns the names of the tests with a label."""
    done = subprocess.run(["ctest", "--test-dir", str(build.folder(preset)), "-L", f"^{label}$",
                           "--show-only=json-v1"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    return {each["name"] for each in json.loads(done.stdout)["tests"]} if done.stdout else set()


TELLING = re.compile(r"FAILED\b|\[  FAILED  \]|\w*(Error|Exception|Expired)\b|.*: Failure$|FAIL: |seed \d+ FAILED|"
                     r"SUMMARY: |.*: runtime error: |.*[Rr]eplay: ")


def gist(output):
    """Returns the lines of a failed test's output that say what failed, or its last lines if none does. A line
    ": Failure" comes with the one behind it. Of many, the first and the last."""
    lines = [line[:300] for line in output.splitlines() if line.strip()]
    telling = [line for before, line in zip(["", *lines], lines)
               if TELLING.match(line) or before.endswith(": Failure")]
    if len(telling) > 16:
        telling[8:-8] = ["[…]"]
    return "".join(f"     {line}\n" for line in (telling or lines[-8:]))

"""./dev test: builds release and runs what ctest knows."""

import re
import subprocess
import xml.etree.ElementTree as ElementTree

import build
import console

# Simulation campaigns run under the sanitizers, in ./dev check.
ELSEWHERE = "sim"


def add_arguments(parser):
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of test names")


def run(options):
    tally = console.Tally()
    if not build.make("release"):
        tally.add("release build", False)
        return tally.close()
    ctest("release", tally, names=options.names, exclude_label=None if options.names else ELSEWHERE)
    return tally.close()


def ctest(preset, tally, names=(), exclude_label=None, label=None):
    """Runs the tests of a built preset and adds them to the tally."""
    folder = build.folder(preset)
    results = (folder / "ctest.xml").absolute()
    results.unlink(missing_ok=True)
    command = ["ctest", "--test-dir", str(folder), f"-j{build.jobs()}", "--output-on-failure",
               "--output-junit", str(results), "--no-tests=error"]
    command += ["--progress"] if console.terminal else ["--quiet", "--output-log",
                                                        str(folder / "ctest.log")]
    if names:
        command += ["-R", "|".join(map(re.escape, names))]
    if exclude_label:
        command += ["-LE", f"^{exclude_label}$"]
    if label:
        command += ["-L", f"^({label})$"]
    console.step(f"tests of {preset}")
    console.command(command)
    subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    if not results.exists():
        tally.add(f"ctest ({preset}) gave no result", False)
        return
    count(results, tally)


def count(results, tally):
    """Adds each test; passes are only counted, everything else is named: first all in short."""
    skipped, failed = [], []
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        name = f"{case.get('classname', '')} {case.get('name', '')}".split(" ", 1)[-1]
        if case.find("failure") is not None or case.get("status") == "fail":
            output = case.findtext("system-out") or ""
            failed.append((name, output))
            tally.add(name, False)
            print(gist(output), end="", flush=True)
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped.append(name)
        else:
            tally.passed += 1
    for name, output in failed:
        print(f"---- {name}\n{output[-6000:]}", flush=True)
    if skipped:
        print(f"not run ({len(skipped)}): {', '.join(skipped)}")


def gist(output):
    """The lines of a failed test's output that say what failed; its last ones where none does."""
    lines = [line[:300] for line in output.splitlines() if line.strip()]
    telling = [line for line in lines
               if re.match(r"FAILED |\w*(Error|Exception|Expired)\b|.*: Failure$|FAIL: ", line)]
    return "".join(f"     {line}\n" for line in (telling or lines)[-8:])

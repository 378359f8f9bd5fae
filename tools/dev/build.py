"""./dev build: configures a preset and builds it.

A fresh build/release compiles a dozen sources at a time (unity), which takes half as long. After `./dev
build` without --unity it compiles each source by itself, which makes rebuilds after an edit faster. The
sanitizers' builds always use unity."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import console
import sysroot

NEWS_SECONDS = 30  # without a terminal, a line of progress this often
LAST_LINES = 20  # of the log, printed if no error was printed
SANITIZED = ("asan", "tsan")


def add_arguments(parser):
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--preset", default="release", help="release (default), asan or tsan")
    parser.add_argument("--unity", action="store_true", help="keep a release build as it is; make a fresh one as a unity build")
    parser.add_argument("--arch", choices=("arm64",),
                        help="cross-build for this architecture in build/arm64, with a sysroot of Debian's packages")


def run(options):
    preset = options.arch or options.preset
    console.part(f"build {preset}")
    return 0 if make(preset, options.targets, by_file=preset not in SANITIZED and not options.unity) else 1


def folder(preset):
    return Path("build") / preset


def jobs():
    """Returns the number of parallel jobs: one per core, if memory allows. The largest files take about a
    gigabyte each."""
    with open("/proc/meminfo", encoding="ascii") as file:
        available = int(re.search(r"MemAvailable:\s+(\d+)", file.read())[1]) // 1024
    return max(1, min(len(os.sched_getaffinity(0)), available // 1200))


def log_of(preset):
    return folder(preset) / "build.log"


def cached(built, name):
    """Returns the value of a variable in the CMakeCache.txt of a build directory. None: it is not there."""
    cache = built / "CMakeCache.txt"
    found = cache.exists() and re.search(rf"^{name}:\w+=(.*)$", cache.read_text(encoding="utf-8", errors="replace"),
                                         re.MULTILINE)
    return found[1] if found else None


def is_by_file(built):
    return cached(built, "CMAKE_UNITY_BUILD") != "ON"


def forget_another_checkout(preset):
    """Removes a build folder that was copied from another checkout: its cache names files there."""
    if not (folder(preset) / "CMakeCache.txt").exists():
        return
    home = cached(folder(preset), "CMAKE_HOME_DIRECTORY")
    if home is None or not Path(home).exists() or not Path(home).samefile("."):
        print(f"dev: {folder(preset)} belongs to {home or 'no checkout'}: removed, and built again", flush=True)
        shutil.rmtree(folder(preset))


def configure(preset, by_file=False):
    forget_another_checkout(preset)
    command = ["cmake", "--preset", preset]
    if by_file:
        command.append("-DCMAKE_UNITY_BUILD=OFF")
    elif not (folder(preset) / "CMakeCache.txt").exists():
        command.append("-DCMAKE_UNITY_BUILD=ON")
    folder(preset).mkdir(parents=True, exist_ok=True)
    with open(log_of(preset), "w", encoding="utf-8") as file:
        done = subprocess.run(command, stdin=subprocess.DEVNULL,
                              stdout=file, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        print(log_of(preset).read_text(errors="replace")[-4000:])
        print(f"dev: cmake --preset {preset} failed; the whole log is in {log_of(preset)}",
              file=sys.stderr)
    return done.returncode == 0


def make(preset, targets=(), by_file=False):
    """Configures and builds. Returns whether it worked. The log is build/<preset>/build.log."""
    if preset == "arm64" and not sysroot.prepare():
        return False
    console.step(f"build {preset}" + (f": {' '.join(targets)}" if targets else ""))
    if not configure(preset, by_file):
        return False
    ninja = ["ninja", "-C", str(folder(preset)), f"-j{jobs()}", *targets]
    if console.terminal:
        return subprocess.run(ninja, check=False).returncode == 0
    return ninja_with_news(ninja, log_of(preset))


def ninja_with_news(ninja, log):
    """Runs ninja without a terminal: prints progress now and then, and errors whole. Returns whether it
    worked."""
    said = time.monotonic()
    with open(log, "a", encoding="utf-8") as file, \
            subprocess.Popen(ninja, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        failing = explained = False
        for line in process.stdout:
            file.write(line)
            progress = re.match(r"\[\d+/\d+\]", line)
            if line.startswith("FAILED:"):
                failing = True
            elif progress:
                failing = False
            if failing or is_message_of_ninja(line):
                explained = explained or failing or line.startswith("ninja: error")
                print(line, end="", flush=True)
            elif progress and time.monotonic() - said > NEWS_SECONDS:
                said = time.monotonic()
                print(line, end="", flush=True)
        status = process.wait()
    if status != 0 and not explained:
        print_end_of_log(status, log)
    return status == 0


def is_message_of_ninja(line):
    """Returns whether ninja itself says this, for example that a target does not exist."""
    return line.startswith("ninja: ") and not line.startswith("ninja: Entering directory")


def print_end_of_log(status, log):
    """Prints the end of the log if ninja printed no error, for example because it was killed."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    print("\n".join(lines[-LAST_LINES:]))
    ended = f"by signal {-status}" if status < 0 else f"with status {status}"
    print(f"dev: ninja ended {ended}; the whole log is in {log}", file=sys.stderr, flush=True)

"""./dev lint: layout, banned words, links in documents, clang-tidy."""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bans
import build
import console


def add_arguments(parser):
    parser.add_argument("--all", action="store_true",
                        help="clang-tidy on every file, not only on those that differ from main")


def run(options):
    tally = console.Tally()
    all_checks(tally, everything=options.all)
    return tally.close()


def all_checks(tally, everything=False):
    console.step("lint")
    files = sources()
    formatted(tally, files)
    for name, complaints in bans.look():
        if not tally.add(name, not complaints):
            print("\n".join(complaints))
    if tally.add("configure release", build.configure("release")):
        tidy(tally, files if everything else changed(files))


def sources():
    """The C and C++ files that git knows or would add."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.cc", "*.h", "*.hpp",
                             "*.c"], capture_output=True, text=True, check=True)
    return sorted(Path(name) for name in listed.stdout.split() if Path(name).exists())


def changed(files):
    """Those that differ from main's; on main, those of the last commit."""
    def git(*arguments):
        return subprocess.run(["git", *arguments], capture_output=True, text=True,
                              check=False).stdout.split()
    base = git("merge-base", "HEAD", "main") or git("rev-parse", "HEAD")
    if base == git("rev-parse", "HEAD"):
        base = git("rev-parse", "HEAD~1") or base
    names = set(git("diff", "--name-only", *base)) | set(git("ls-files", "-o", "--exclude-standard"))
    return [path for path in files if str(path) in names]


def reformat(_options):
    subprocess.run(["clang-format-19", "-i", *map(str, sources())], check=True)
    return 0


def formatted(tally, files):
    done = subprocess.run(["clang-format-19", "--dry-run", "-Werror", *map(str, files)],
                          capture_output=True, text=True, check=False)
    if not tally.add("clang-format", done.returncode == 0):
        names = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.MULTILINE)))
        print("\n".join(names) + "\n    `./dev fmt` mends the layout")


def tidy(tally, files):
    """clang-tidy with the checks of .clang-tidy, all of them errors."""
    compiled = (build.folder("release") / "compile_commands.json").read_text(encoding="utf-8")
    units = [path for path in files if path.suffix in (".cc", ".c")
             and f'{path.absolute()}"' in compiled]

    def one(path):
        return path, subprocess.run(
            ["clang-tidy-19", "--quiet", "-p", str(build.folder("release")), str(path)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    clean = True
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for path, done in pool.map(one, units):
            if done.returncode != 0:
                clean = False
                print(f"{path}:\n{done.stdout}{errors_of(done.stderr)}", flush=True)
    tally.add(f"clang-tidy ({len(units)} files)", clean)


def errors_of(text):
    """Without clang-tidy's count of the warnings that it did not show."""
    return "\n".join(line for line in text.splitlines()
                     if not re.match(r"\d+ (warnings?|errors?) ", line))

"""./dev lint: checks layout, banned words, links in documents, and runs clang-tidy."""

import re
import subprocess
from pathlib import Path

import bans
import build
import console
import prose
import tidy


def add_arguments(parser):
    parser.add_argument("--all", action="store_true",
                        help="run every check of .clang-tidy on all files, not only on changed ones")


def run(options):
    tally = console.Tally()
    all_checks(tally, options.all)
    return tally.close()


def all_checks(tally, everything=False):
    console.step("lint")
    files = sources()
    formatted(tally, files)
    for name, complaints in bans.look():
        if not tally.add(name, not complaints):
            print("\n".join(complaints))
    if tally.add("configure release", build.configure("release")):
        tidy.check(tally, files, everything)


def sources(patterns=("*.cc", "*.h", "*.hpp", "*.c")):
    """Returns the C and C++ files that git knows or would add, or those of other patterns."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], capture_output=True, text=True,
                            check=True)
    return sorted(Path(name) for name in listed.stdout.split() if Path(name).exists())


def reformat(_options):
    subprocess.run(["clang-format-19", "-i", *map(str, sources())], check=True)
    prose.wrap(sources(["*.md"]))
    return 0


def formatted(tally, files):
    done = subprocess.run(["clang-format-19", "--dry-run", "-Werror", *map(str, files)],
                          capture_output=True, text=True, check=False)
    if not tally.add("clang-format", done.returncode == 0):
        names = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.MULTILINE)))
        print("\n".join(names) + "\n    `./dev fmt` fixes the layout")

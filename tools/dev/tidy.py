"""clang-tidy over every source, with a cache of what was clean.

Whatever the last commit or the working tree changes gets every check of .clang-tidy; the rest gets
those of WHOLE_TREE, whose complaints a change in some header can raise in a source that nobody
touched, and which cost a third of the time. Tests that did not change are left out: what these checks look for
in them, the sanitizers see when they run. `./dev lint --all` gives every source every check.

A result holds as long as its inputs do: the source, every header that it includes, its compile
command, .clang-tidy and the program. An entry of the cache is named by the source's own part of
these and lists the headers, each with its digest; only clean results are kept. The cache lies
beside the compiler's (which checkouts share, so paths in it are relative to the checkout)."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import build
import console

TIDY = "clang-tidy-19"
WHOLE_TREE = ("cppcoreguidelines-avoid-capturing-lambda-coroutines",
              "cppcoreguidelines-no-suspend-with-lock", "misc-coroutine-hostile-raii",
              "bugprone-use-after-move", "bugprone-dangling-handle")
KEPT_SECONDS = 30 * 24 * 3600  # an entry that nobody asked for is removed after so long
ROOT = str(Path.cwd()) + "/"
INSIDE = "<checkout>/"  # in place of ROOT


class Cache:
    def __init__(self):
        self.folder = cache_folder()
        self.folder.mkdir(parents=True, exist_ok=True)
        version = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True)
        self.common = version.stdout + Path(".clang-tidy").read_text(encoding="utf-8")

    def entry(self, path, commands, checks):
        words = [self.common, " ".join(checks), relative("\n".join(commands)), str(path),
                 digest(str(path))]
        return self.folder / hashlib.sha256("\0".join(words).encode()).hexdigest()

    @staticmethod
    def holds(entry):
        try:
            headers = json.loads(entry.read_text(encoding="utf-8"))
            if all(digest(absolute(name)) == known for name, known in headers.items()):
                os.utime(entry)
                return True
        except (OSError, ValueError):
            pass  # none, or half an entry: it is made again
        return False

    @staticmethod
    def keep(entry, commands):
        """After a clean result. Nothing is kept where the build cannot tell the headers."""
        headers = set()
        for command in commands:
            output = re.search(r" -o (\S+)", command["command"])
            found = built("release").get(output[1]) if output else None
            if found is None:
                return
            headers.update(found)
        text = json.dumps({relative(name): digest(name) for name in sorted(headers)})
        part = entry.with_name(f"{entry.name}.{os.getpid()}")
        part.write_text(text, encoding="utf-8")
        part.replace(entry)

    def forget_the_old(self):
        for entry in self.folder.iterdir():
            if time.time() - entry.stat().st_mtime > KEPT_SECONDS:
                entry.unlink(missing_ok=True)


def cache_folder():
    if shutil.which("ccache"):
        said = subprocess.run(["ccache", "--get-config", "cache_dir"], capture_output=True,
                              text=True, check=False)
        if said.returncode == 0 and os.access(Path(said.stdout.strip()).parent, os.W_OK):
            return Path(said.stdout.strip()) / "clang-tidy"
    return Path("build/clang-tidy")


def relative(text):
    return text.replace(ROOT, INSIDE)


def absolute(name):
    return name.replace(INSIDE, ROOT)


@lru_cache(maxsize=None)
def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@lru_cache(maxsize=None)
def built(preset):
    """What each object of the build was made of, as absolute paths, by its name in the build folder.
    Not of those that a change since then may have given another header."""
    said = subprocess.run(["ninja", "-C", str(build.folder(preset)), "-t", "deps"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    found = {}
    for block in said.stdout.split("\n\n"):
        first, *names = block.splitlines() or [""]
        told = re.match(r"(\S+): #deps \d+, deps mtime (\d+) \(VALID\)", first)
        if told:
            names = [os.path.normpath(build.folder(preset).absolute() / name.strip())
                     for name in names]
            if all(written(name) < int(told[2]) for name in names):
                found[told[1]] = names
    return found


@lru_cache(maxsize=None)
def written(path):
    """When a file was changed last, in nanoseconds; one that is gone, just now."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return time.time_ns()


def commands_by_file(preset):
    """The compile commands of each source, by its path in the checkout."""
    text = (build.folder(preset) / "compile_commands.json").read_text(encoding="utf-8")
    found = {}
    for command in json.loads(text):
        found.setdefault(relative(command["file"]).removeprefix(INSIDE), []).append(command)
    return found


def changed():
    """What the last commit or the working tree changes."""
    names = set()
    for asked in (["diff", "--name-only", "HEAD"], ["ls-files", "-o", "--exclude-standard"],
                  ["diff-tree", "-r", "--root", "--no-commit-id", "--name-only", "HEAD"]):
        said = subprocess.run(["git", *asked], capture_output=True, text=True, check=True)
        names.update(said.stdout.splitlines())
    return names


def is_test(path):
    return path.name.endswith("_test.cc") or "contract" in path.parts or path.parts[0] == "tests"


def check(tally, files, everything):
    """clang-tidy over the sources in `files`, every complaint an error; `everything`: with every
    check of .clang-tidy also where nothing changed."""
    recent = changed()
    commands = commands_by_file("release")
    cache = Cache()
    stale = []
    clean = 0
    for path in files:
        if str(path) not in commands:
            continue
        if is_test(path) and not everything and str(path) not in recent:
            continue
        words = [command["command"] for command in commands[str(path)]]
        checks = () if everything or str(path) in recent else WHOLE_TREE
        entry = cache.entry(path, words, checks)
        if cache.holds(entry):
            clean += 1
        else:
            stale.append((path, entry, checks))
    console.step(f"clang-tidy: {len(stale)} files to look at, {clean} as they were")

    def look(item):
        path, entry, checks = item
        asked = ["--checks=-*," + ",".join(checks)] if checks else []
        done = subprocess.run([TIDY, "--quiet", *asked, "-p", str(build.folder("release")),
                               str(path)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            cache.keep(entry, commands[str(path)])
        return path, done

    said = time.monotonic()
    failed = 0
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        for number, (path, done) in enumerate(pool.map(look, stale), 1):
            if done.returncode != 0:
                failed += 1
                print(f"{path}:\n{done.stdout}{errors_of(done.stderr)}", flush=True)
            if time.monotonic() - said > build.NEWS_SECONDS:
                said = time.monotonic()
                console.step(f"clang-tidy: {number} of {len(stale)}")
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C the rest is not looked at
    cache.forget_the_old()
    tally.add(f"clang-tidy ({clean + len(stale)} files)", failed == 0)


def errors_of(text):
    """Without clang-tidy's count of the warnings that it did not show."""
    return "\n".join(line for line in text.splitlines()
                     if not re.match(r"\d+ (warnings?|errors?) ", line))

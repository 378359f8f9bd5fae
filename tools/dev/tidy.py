"""Runs clang-tidy. Files that the last commit or the working tree changes get every check of .clang-tidy. The
rest of the product gets the checks of WHOLE_TREE: a change in a header can cause their complaints in an
unchanged source. These checks read a dozen sources at a time, as the sanitizers' build compiles them, because
most of the time goes into headers. `./dev lint --all` runs every check on every source, which takes half an
hour."""

import json
import os
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import build
import console

TIDY = "clang-tidy-19"
WHOLE_TREE = ("cppcoreguidelines-avoid-capturing-lambda-coroutines",
              "cppcoreguidelines-no-suspend-with-lock", "misc-coroutine-hostile-raii",
              "bugprone-use-after-move", "bugprone-dangling-handle")
# In the whole tree, only complaints about these files count, because a unity source includes other files.
OURS = r"/(src|apps|plugins|include)/"


def check(tally, files, everything=False):
    """Runs every check on the changed sources, or on all. Every complaint is an error."""
    compiled, _ = commands_of(build.folder("release"))
    recent = changed()
    look_at(tally, "changed sources" if not everything else "sources",
            [(compiled[path], path, ()) for path in map(str, files)
             if path in compiled and (everything or path in recent)])


def check_product(tally):
    """Runs the checks of WHOLE_TREE on the product."""
    _, unities = commands_of(build.folder("release"))
    look_at(tally, "the product", [(command, name, WHOLE_TREE) for name, command in unities.items()])


def look_at(tally, what, looks):
    folder = build.folder("release")
    database = Path("build/tidy")
    database.mkdir(parents=True, exist_ok=True)
    entries = [{"directory": str(folder.absolute()), "file": str(Path(path).absolute()), "command": command}
               for command, path, _ in looks]
    (database / "compile_commands.json").write_text(json.dumps(entries), encoding="utf-8")
    console.step(f"clang-tidy: {what}, {len(looks)} times")

    def look(item):
        _, path, checks = item
        words = [f"--checks=-*,{','.join(checks)}", f"--header-filter={OURS}"] if checks else []
        done = subprocess.run([TIDY, "--quiet", *words, "-p", str(database), path],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return path, done

    said = time.monotonic()
    failed = 0
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        for number, (path, done) in enumerate(pool.map(look, looks), 1):
            if done.returncode != 0:
                failed += 1
                print(f"{path}:\n{done.stdout}{errors_of(done.stderr)}", flush=True)
            if time.monotonic() - said > build.NEWS_SECONDS:
                said = time.monotonic()
                print(f"[{number}/{len(looks)}] clang-tidy", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C the rest is not looked at
    tally.add(f"clang-tidy: {what} ({len(looks)} times)", failed == 0)


def commands_of(folder):
    """Returns the command of each source by its path in the checkout, and those that compile the product
    without its tests, several sources at a time if the build does."""
    here = str(Path.cwd()) + "/"
    single, product = {}, {}
    for entry in json.loads((folder / "compile_commands.json").read_text(encoding="utf-8")):
        file, command = entry["file"], entry["command"]
        if "/ros2s_engine_switchable.dir/" in command:  # sources of the engine once more
            continue
        parts = re.findall(r'^#include "(.+)"$', Path(file).read_text(encoding="utf-8"), re.MULTILINE) \
            if "/Unity/unity_" in file else [file]
        parts = [part.removeprefix(here) for part in parts]
        for part in parts:
            single.setdefault(part, command.replace(file, here + part))
        if all(re.match(r"(src|apps|plugins)/", part) and not is_test(Path(part)) for part in parts):
            product.setdefault(file.removeprefix(here), command)
    return single, product


def changed():
    """Returns the files that the last commit or the working tree changes."""
    names = set()
    # A merge changes what it brings to its first parent.
    first = subprocess.run(["git", "rev-parse", "--quiet", "--verify", "HEAD^1"], capture_output=True, check=False)
    last = ["HEAD^1", "HEAD"] if first.returncode == 0 else ["--root", "--no-commit-id", "HEAD"]
    for asked in (["diff", "--name-only", "HEAD"], ["ls-files", "-o", "--exclude-standard"],
                  ["diff-tree", "-r", "--name-only", *last]):
        said = subprocess.run(["git", *asked], capture_output=True, text=True, check=True)
        names.update(said.stdout.splitlines())
    return names


def is_test(path):
    return path.name.endswith(("_test.cc", "_bench.cc", "_fuzz.cc")) or "contract" in path.parts


def errors_of(text):
    """Returns the errors without clang-tidy's count of warnings that it did not show."""
    return "\n".join(line for line in text.splitlines()
                     if not re.match(r"\d+ (warnings?|errors?) ", line))

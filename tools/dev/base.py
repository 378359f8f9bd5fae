"""The base to which the nightly compares this revision: the last commit that is a day older, built in
build/base."""

import shutil
import subprocess
from pathlib import Path

import build
import shown

DAY_SECONDS = 24 * 3600
PLACE = Path("build/base")


def commit():
    """Returns its hash; "" if the history has none, as in a shallow clone."""
    latest = int(git("show", "-s", "--format=%ct", "HEAD"))
    return git("rev-list", "--max-count=1", f"--before={latest - DAY_SECONDS}", "HEAD")


def make(revision):
    """Builds it as build/release is built: if inlining across sources differs, so does the speed. Returns the
    directory of its release build. None: the build failed."""
    # It shares this repository's objects, so it has each commit without a fetch.
    if not (PLACE / ".git").exists():
        git("clone", "--quiet", "--shared", "--no-checkout", ".", str(PLACE))
    git("-C", str(PLACE), "checkout", "--quiet", "--detach", revision)
    built = PLACE / "build" / "release"
    unity = not build.is_by_file(build.folder("release"))
    # --unity keeps a build of single sources.
    if unity and build.is_by_file(built):
        shutil.rmtree(built, ignore_errors=True)
    command = ["./dev", "build", *(["--unity"] if unity else []), "programs"]
    done = subprocess.run(command, cwd=PLACE, stdin=subprocess.DEVNULL, check=False)
    return built if done.returncode == 0 else None


def git(*words):
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise shown.Failed(f"git {' '.join(words)} failed: {done.stderr.strip()}")
    return done.stdout.strip()

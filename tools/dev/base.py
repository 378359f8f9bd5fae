"""The base to which the nightly compares this revision: the last commit that is a day older, built in
build/base."""

import subprocess
from pathlib import Path

import shown

DAY_SECONDS = 24 * 3600
PLACE = Path("build/base")


def commit():
    """Returns its hash; "" if the history has none, as in a shallow clone."""
    latest = int(git("show", "-s", "--format=%ct", "HEAD"))
    return git("rev-list", "--max-count=1", f"--before={latest - DAY_SECONDS}", "HEAD")


def make(revision):
    """Returns the directory of its release build. None: the build failed."""
    # It shares this repository's objects, so it has each commit without a fetch.
    if not (PLACE / ".git").exists():
        git("clone", "--quiet", "--shared", "--no-checkout", ".", str(PLACE))
    git("-C", str(PLACE), "checkout", "--quiet", "--detach", revision)
    done = subprocess.run(["./dev", "build", "--unity", "programs"], cwd=PLACE, stdin=subprocess.DEVNULL, check=False)
    return PLACE / "build" / "release" if done.returncode == 0 else None


def git(*words):
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise shown.Failed(f"git {' '.join(words)} failed: {done.stderr.strip()}")
    return done.stdout.strip()

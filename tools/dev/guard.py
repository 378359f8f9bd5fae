"""Ensures that no process and no mount of the demo stays, however the demo ends.

Each process of the demo carries a mark in its environment. So does the process of the mount, which has no
parent in the demo. The demo first starts a guard, which Ctrl-C does not reach. If the demo ends without a
message to the guard, the guard cleans up.

usage: guard.py PLACE MARK      (standard input: the demo's pipe)"""

import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import shown

NAME = "ROS2STORE_DEMO"
PATIENCE_SECONDS = 60


class NotCleared(shown.Failed):
    """Something could not be removed. The message says what to type."""


class Guard:
    def __init__(self, place, lock):
        """Marks all processes that this process starts from now on. The guard shares `lock`."""
        os.environ.pop(NAME, None)
        mark = f"{os.getpid()}-{secrets.token_hex(8)}"
        self.process = subprocess.Popen([sys.executable, "-B", __file__, place, mark],
                                        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        start_new_session=True, pass_fds=[lock])
        os.environ[NAME] = self.mark = mark

    def stand_down(self):
        self.process.communicate(b"done")


def lock_alone(lock):
    """Waits for the lock. The guard of a killed demo holds it until everything is removed. Returns False if
    it takes too long."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                return False
        time.sleep(0.1)


def alone(name, place, tally, work):
    """Does the work if no other `name` runs in this checkout. Then removes what is in `place`, unless the work returns
    True. Returns whether it is kept."""
    Path("build").mkdir(exist_ok=True)
    with open(f"build/{name}.lock", "w", encoding="ascii") as lock:
        if not lock_alone(lock):
            tally.add(f"stopped: another {name} runs in this checkout; wait for its end", False)
            return False
        watch, kept = Guard(place, lock.fileno()), False
        try:
            kept = work()
        except shown.Failed as failure:
            tally.add(f"stopped: {failure}", False)
        finally:
            try:
                if kept is not True:
                    clear(place, watch.mark)
            except NotCleared as left:
                tally.add(f"stopped: {left}", False)
            watch.stand_down()
    return kept is True


def marked(mark):
    """Returns the live processes with this mark."""
    wanted = f"{NAME}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue  # gone, or another user's
    return found


def end_processes(mark):
    end = time.monotonic() + PATIENCE_SECONDS
    while left := marked(mark):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > end:
            raise NotCleared(f"processes {left} do not end; look at them with: ps -fp {left[0]}")
        time.sleep(0.02)


def is_mounted(mount_point):
    """Looks in the table of mounts: a mount whose process is gone answers nothing else."""
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
        # The kernel writes a space as \040.
        return str(mount_point) in (line.split(" ")[1].replace("\\040", " ") for line in mounts)


def clear(place, mark=None):
    """Ends, unmounts and removes what a demo made, even if it was interrupted."""
    if mark:
        end_processes(mark)
    mount_point = place / "mnt"
    for command in (["umount", mount_point], ["fusermount3", "-u", mount_point],
                    ["umount", "-l", mount_point]):
        if not is_mounted(mount_point):
            break
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
    if is_mounted(mount_point):
        raise NotCleared(f"{mount_point} is still mounted; end it with: umount -l {mount_point}")
    if place.exists():
        shutil.rmtree(place)


def main():
    place, mark = Path(sys.argv[1]), sys.argv[2]
    if sys.stdin.buffer.read() == b"done":
        return 0
    try:
        clear(place, mark)
    except NotCleared as left:
        print(f"dev: {left}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Clients that die: kill_writer on a container in a Ceph cluster of three OSDs, killed again and again while another
client reads back what was acknowledged; meanwhile the monitor is restarted, and an OSD is lost for good. `mv` between
directories is killed at random moments: whoever looks then finds the file in one of both.
Exits with 77 if Ceph's daemons are not installed.

usage: clients_test.py BUILD_DIRECTORY DEV_DIRECTORY"""

import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BIN = Path(sys.argv[1]).resolve() / "bin"
sys.path.insert(0, sys.argv[2])
import cluster as ceph  # noqa: E402
import kill  # noqa: E402  (tools/dev)
import plug  # noqa: E402

LEAST = 600   # acknowledgements before a kill
FAULTS = [None, "monitor", "osd", "lost", None]  # one before each kill of the writer
MOVES = 40
PATIENCE_SECONDS = 60


def run(*arguments):
    return subprocess.run([BIN / "ros2store", *arguments], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True, timeout=PATIENCE_SECONDS).stdout


def inflict_later(cluster, fault):
    """While the writer works."""
    if fault is not None:
        time.sleep(1)
        cluster.inflict(fault)


def writer_killed(uri, cluster):
    """Kills the writer, a while after each fault. Returns whether all is there, by the verifier and by the watch."""
    log = kill.Log()
    watch = None
    kept = []
    try:
        for number, fault in enumerate(FAULTS):
            with ThreadPoolExecutor(1) as pool:
                writer = pool.submit(kill.write_and_kill, BIN / "kill_writer", uri, log, LEAST, 1 + number * (1 << 32))
                inflict_later(cluster, fault)
            writer.result()
            if watch is None:
                watch = plug.Watch(BIN / "kill_writer", uri, log)
            kept.append(kill.verify(BIN / "kill_writer", uri, log))
        end = time.monotonic() + PATIENCE_SECONDS
        while watch.read < watch.known and time.monotonic() < end:
            time.sleep(0.1)
    finally:
        if watch is not None:
            watch.end()
    print(f"intact after each kill: {kept}; a second client knew {watch.known}, read {watch.read}, missed {watch.lost}")
    return all(kept) and watch.lost == 0 and watch.read > 0


def moves_killed(uri):
    """Returns how often a move was done, undone and half done."""
    run("mkdir", uri("a"))
    run("mkdir", uri("b"))
    run("cp", __file__, uri("a/file"))
    began = time.monotonic()
    run("mv", uri("a/file"), uri("b/file"))
    takes = time.monotonic() - began
    done = {True: 0, False: 0}
    here, there = "b", "a"
    for _ in range(MOVES):
        with subprocess.Popen([BIN / "ros2store", "mv", uri(f"{here}/file"), uri(f"{there}/file")]) as move:
            time.sleep(takes * random.uniform(0.2, 2))
            move.send_signal(signal.SIGKILL)
        found = {directory: run("ls", uri(directory)).split() for directory in (here, there)}
        if sorted(found.values()) != [[], ["file"]]:
            print(f"half done: {found}")
            return False
        is_moved = found[there] == ["file"]
        done[is_moved] += 1
        if is_moved:
            here, there = there, here
    print(f"moves that were killed: {done[True]} done, {done[False]} not done, none half done")
    return run("cat", uri(f"{here}/file")) == Path(__file__).read_text(encoding="utf-8")


def main():
    with ceph.running("bluestore", 3) as cluster:
        uri = f"ros2s+local:///main/c{{}}?rados={cluster.conf}"
        run("container", "create", uri.format(""))
        moved = moves_killed(lambda path: uri.format("/" + path))
        kept = writer_killed(uri.format(""), cluster)
        run("container", "destroy", "--yes", uri.format(""))
    return 0 if moved and kept else 1


sys.exit(main())

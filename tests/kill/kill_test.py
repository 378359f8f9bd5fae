"""Runs the kill test with the demo's own code: one pool, a few kills of each process. Tests also that the
watch, which counts losses under load, notices missing data.

usage: kill_test.py BIN_DIRECTORY DEV_DIRECTORY"""

import ctypes
import functools
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = Path(sys.argv[1])
sys.path.insert(0, sys.argv[2])
import kill  # noqa: E402  (tools/dev)
import plug  # noqa: E402

ROUNDS = 3
CONTROL_ROUNDS = 10  # at most: it ends with the first that loses something
LEAST = 500
RENAMED, UNLINKED, WRITTEN = 3, 4, 1  # kill_test.h: Acknowledged::Kind


def wait_until(condition, watch):
    end = time.monotonic() + plug.PATIENCE_SECONDS
    while not condition():
        assert watch.process.poll() is None, "the watch ended"
        assert time.monotonic() < end, f"{watch.known} known, {watch.read} read, {watch.lost} lost"
        time.sleep(0.02)


def the_watch_counts(uri):
    """The watch counts no loss of acknowledged data. It counts each acknowledgement that was never given."""
    log = kill.Log()
    kill.write_and_kill(BIN / "kill_writer", uri, log, LEAST, 1)
    given = [struct.unpack("=IIQQ", log.bytes[at:at + kill.ACKNOWLEDGED_BYTES])
             for at in range(0, len(log.bytes), kill.ACKNOWLEDGED_BYTES)]
    block = next(each for kind, _, _, each in given if kind == WRITTEN)
    renamed = next((each for kind, _, each, _ in reversed(given) if kind == RENAMED), None)
    watch = plug.Watch(BIN / "kill_writer", uri, log)
    try:
        wait_until(lambda: watch.known > 0 and watch.read > 2 * watch.known, watch)
        found = [watch.lost]
        false = [(WRITTEN, 1 << 40, block)] + ([(UNLINKED, renamed, 0)] if renamed else [])
        for number, (kind, sequence, place) in enumerate(false, 1):
            log.bytes += struct.pack("=IIQQ", kind, 0, sequence, place)
            wait_until(lambda: watch.lost >= number, watch)
            found.append(watch.lost)
    finally:
        watch.end()
    print(f"lost, by the watch, with one more false promise each time: {found}")
    return found == list(range(len(false) + 1))


def kill_daemon(pool, program):
    """Kills a daemon of the pool, and starts it again."""
    status = subprocess.run([BIN / "ros2store", "--json", "status", pool], check=True, stdout=subprocess.PIPE)
    pid = next(each["pid"] for each in json.loads(status.stdout)["daemons"] if each["program"] == program)
    os.kill(pid, signal.SIGKILL)
    run("up", pool)


def run(*words):
    subprocess.run([BIN / "ros2store", *words], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def daemons_and_program_killed(pool):
    """Kills the daemons and then the program that defers its changes through them. Returns whether everything that
    it was acknowledged is there, through the engine alone and behind a DPU."""
    run("up", pool, "--size", "512M")
    intact = []
    try:
        for scheme, killed in (("ros2s", ["ros2store-engine"]), ("ros2s+dpu", ["ros2store-engine", "ros2store-dpu"])):
            uri = f"{{}}:///pool/deferred{len(intact)}?dir={pool}".format
            run("container", "create", uri("ros2s"), "--durability", "fsync")
            log = kill.Log()
            kill.write_and_kill(BIN / "kill_writer", uri(scheme), log, LEAST, 1,
                                [functools.partial(kill_daemon, pool, program) for program in killed])
            run("down", pool)
            kill.check(BIN, pool)
            run("up", pool)
            intact.append(kill.verify(BIN / "kill_writer", uri("ros2s"), log))
    finally:
        run("down", "--kill", pool)
    return intact


def durability_shown(uri):
    """Returns whether the library says that it defers, to a program that asks how its file is reached."""
    library = ctypes.CDLL(BIN.parent / "lib" / "libros2store.so")
    library.ros2s_path_report.restype = ctypes.c_ssize_t
    fs, file, text = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(1 << 16)
    assert library.ros2s_open(uri.encode(), None, ctypes.byref(fs), text, ctypes.c_size_t(len(text))) == 0, text.value
    assert library.ros2s_file_open(fs, b"asked", os.O_RDWR | os.O_CREAT, 0o600, ctypes.byref(file)) == 0
    assert library.ros2s_path_report(file, 0, text, ctypes.c_size_t(len(text))) > 0
    assert library.ros2s_fsync(file) == library.ros2s_file_close(file) == library.ros2s_close(fs) == 0
    return b"durable at fsync" in text.value


def main():
    scratch = Path(tempfile.mkdtemp(prefix="ros2store-kill-"))
    pool = scratch / "pool"
    try:
        subprocess.run([BIN / "ros2store", "up", "--no-daemons", pool, "--size", "512M"], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        uri = f"ros2s+local:///pool/main/{{}}?dir={pool}"
        deferred = f"ros2s+local:///pool/deferred{{}}?dir={pool}"
        subprocess.run([BIN / "ros2store", "container", "create", deferred.format(""), "--durability", "fsync"],
                       check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for name in ("killed", "control", "watched"):
            subprocess.run([BIN / "ros2store", "mkdir", uri.format(name)], check=True,
                           stdin=subprocess.DEVNULL)
        intact = [kept for _, kept in
                  kill.rounds(BIN / "kill_writer", uri.format("killed"), ROUNDS, LEAST)]
        # The end of the process takes nothing back of what was written.
        intact += [kept for _, kept in
                   kill.rounds(BIN / "kill_writer", deferred.format("/"), ROUNDS, LEAST)]
        intact += daemons_and_program_killed(scratch / "served")
        shown = [durability_shown(f"ros2s+local:///pool/deferred?dir={pool}{more}")
                 for more in ("", "&durability=durable")]
        caught = any(not kept for _, kept in
                     kill.rounds(BIN / "kill_writer_control", uri.format("control"), CONTROL_ROUNDS, LEAST))
        counts = the_watch_counts(uri.format("watched"))
    finally:
        shutil.rmtree(scratch)
    print(f"intact after each kill: {intact}; control caught: {caught}; the watch counts: {counts}; "
          f"says that it defers, and that it does not: {shown}")
    return 0 if all(intact) and caught and counts and shown == [True, False] else 1


sys.exit(main())

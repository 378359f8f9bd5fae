"""The kill test: after each SIGKILL, everything that the library acknowledged is still there.

The writer (tests/kill) reports each acknowledgement through a pipe to this process. This process kills it
with writes in flight and opens the pool again. The verifier then reads everything back."""

import os
import random
import signal
import subprocess
import time

import console
import shown

ACKNOWLEDGED_BYTES = 24  # kill_test.h: Acknowledged
BLOCKS = 16384           # of 4 KiB: 64 MiB
DEPTH = 32


class Log:
    """Holds every acknowledgement of every round, as the writer sent it."""

    def __init__(self):
        self.bytes = bytearray()

    @property
    def count(self):
        return len(self.bytes) // ACKNOWLEDGED_BYTES


def write_and_kill(program, uri, log, least, first_sequence, disturb=()):
    """Runs one round. Calls each of `disturb` at a random moment while the writer runs. Returns the number of
    acknowledgements. Raises Failed if the writer ends by itself."""
    command = [str(program), "write", uri, str(BLOCKS), str(DEPTH), str(first_sequence)]
    console.command(command)
    before = log.count
    disturb, wanted = list(disturb), least + random.randrange(least)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as writer:
        received = bytearray()
        while disturb or len(received) < wanted * ACKNOWLEDGED_BYTES:
            if len(received) >= wanted * ACKNOWLEDGED_BYTES:
                disturb.pop(0)()
                wanted = len(received) // ACKNOWLEDGED_BYTES + least + random.randrange(least)
            part = os.read(writer.stdout.fileno(), 1 << 16)
            if not part:
                raise shown.Failed(f"the writer ended by itself with status {writer.wait()} after "
                                   f"{len(received) // ACKNOWLEDGED_BYTES} acknowledgements")
            received += part
        # Kills at a random moment of the commit cycle.
        time.sleep(random.random() * 0.003)
        writer.send_signal(signal.SIGKILL)
        while part := os.read(writer.stdout.fileno(), 1 << 16):
            received += part
    log.bytes += received[:len(received) // ACKNOWLEDGED_BYTES * ACKNOWLEDGED_BYTES]
    return log.count - before


def verify(program, uri, log):
    """Returns whether everything acknowledged is still there."""
    command = [str(program), "verify", uri]
    console.command(command)
    done = subprocess.run(command, input=bytes(log.bytes), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=300)
    console.note("\n".join("  " + line for line in done.stdout.decode(errors="replace").splitlines()))
    if done.returncode not in (0, 1):
        raise shown.Failed(f"the verifier ended with status {done.returncode}")
    return done.returncode == 0


def check(programs, pool):
    """Raises Failed if the pool in a directory, which no process has open, has a problem."""
    command = [str(programs / "ros2store"), "pool", "check", str(pool)]
    console.command(command)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, timeout=300)
    if done.returncode != 0:
        raise shown.Failed(f"the check of the pool ended with status {done.returncode}:\n"
                           + done.stdout.decode(errors="replace"))


def rounds(program, uri, count, least):
    """Yields (acknowledged, nothing lost) after each of `count` kills of the owner of a pool in a directory. Checks
    the pool after each."""
    log = Log()
    for number in range(count):
        # Greater than any sequence that an earlier round can have reached.
        acknowledged = write_and_kill(program, uri, log, least, 1 + number * (1 << 32))
        check(program.parent, uri.partition("dir=")[2])
        yield acknowledged, verify(program, uri, log)

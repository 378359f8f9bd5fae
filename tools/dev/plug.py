"""Pulling the plug: an engine or a DPU daemon is killed with -9 while a writer on a host works
through both, again and again; then everything that the writer was told is durable is read back.

The writer goes on over each kill: its library reconnects and sends again what was under way. It
creates exclusively, renames and unlinks too, and ends with an error where one of these was lost or
done twice."""

import random
import select
import signal
import subprocess
import sys
import termios
import threading
import time
import tty

import console
import kill
import shown

PATIENCE_SECONDS = 120


class Load:
    """A writer on a container, and what it was told."""

    def __init__(self, program, uri):
        self.program = program
        self.uri = uri
        self.log = kill.Log()
        command = [program, "write", uri, str(kill.BLOCKS), str(kill.DEPTH), "1"]
        console.command(command)
        self.writer = subprocess.Popen(shown.words(command), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE)
        self.reader = threading.Thread(target=self.take)
        self.reader.start()

    def take(self):
        while part := self.writer.stdout.read1(1 << 16):
            self.log.bytes += part

    def expect_more(self, count):
        """Waits until so many more were acknowledged. Errors: Failed."""
        wanted = self.log.count + count
        end = time.monotonic() + PATIENCE_SECONDS
        while self.log.count < wanted:
            if self.writer.poll() is not None:
                raise shown.Failed(f"the writer ended by itself with status {self.writer.returncode}")
            if time.monotonic() > end:
                raise shown.Failed(f"the writer was told of {self.log.count} of {wanted} within "
                                   f"{PATIENCE_SECONDS} s")
            time.sleep(0.02)

    def end(self):
        self.writer.send_signal(signal.SIGKILL)
        self.writer.wait()
        self.reader.join()
        whole = len(self.log.bytes) // kill.ACKNOWLEDGED_BYTES * kill.ACKNOWLEDGED_BYTES
        del self.log.bytes[whole:]

    def verify(self):
        return kill.verify(self.program, self.uri, self.log)


def rounds(load, served, victims, least):
    """Kills each of the victims, starts it again, and yields its name and how many acknowledgements
    there were in all when the writer had gone on."""
    for victim in victims:
        load.expect_more(least)
        time.sleep(random.random() * 0.003)  # at no particular moment
        served.kill(victim)
        served.up()
        load.expect_more(least)
        yield victim, load.log.count


def by_hand(load, served):
    """Each key kills; q ends. Returns the number of kills."""
    kills = 0
    print("Each key kills the engine or the DPU daemon; q ends.", flush=True)
    settings = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        while True:
            print(f"\r{load.log.count:>12,} acknowledged, {kills} kills, "
                  f"{'running' if load.writer.poll() is None else 'ENDED'} ", end="", flush=True)
            if not select.select([sys.stdin], [], [], 0.2)[0]:
                if load.writer.poll() is not None:
                    raise shown.Failed("the writer ended by itself")
                continue
            if sys.stdin.read(1) in ("q", "\x04", ""):
                print()
                return kills
            print()
            served.kill(("engine", "dpu")[kills % 2])
            kills += 1
            served.up()
            load.expect_more(100)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)

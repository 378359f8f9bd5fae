"""Pulls the plug: kills an engine or a DPU daemon with -9 while a writer on a host works through both, again
and again. A watch, which is a host, too, reads back what is durable according to the acknowledgements, round
after round. In the end a verifier reads back all of it.

Writer and watch continue after each kill: their library reconnects and sends the pending requests again. The
writer also creates exclusively, renames and unlinks. It ends with an error if one of these was lost or done
twice."""

import random
import signal
import subprocess
import threading
import time

import console
import kill
import shown

BLOCKS = 4096  # of 4 KiB: few enough for the watch to read all of them often
PATIENCE_SECONDS = 120


class Watch:
    """Reads back what is in `log` while it grows. Counts what it found."""

    def __init__(self, program, uri, log):
        self.log = log
        self.known = self.read = self.lost = 0
        self.complete = threading.Event()
        command = [program, "watch", uri]
        console.command(command)
        self.process = subprocess.Popen(shown.words(command), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.threads = [threading.Thread(target=work) for work in (self.pass_on, self.take)]
        for thread in self.threads:
            thread.start()

    def pass_on(self):
        """Passes each acknowledgement to the watch."""
        told = 0
        try:
            while True:
                last = self.complete.is_set()
                part = bytes(self.log.bytes[told:])
                self.process.stdin.write(part)
                self.process.stdin.flush()
                told += len(part)
                if last:
                    break
                time.sleep(0.02)
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended; end() checks its status

    def take(self):
        for line in self.process.stdout:
            self.known, self.read, self.lost = (int(word) for word in line.split())

    def end(self):
        """Ends the watch. Raises Failed if it did not end well."""
        self.complete.set()
        try:
            status = self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        for thread in self.threads:
            thread.join()
        if status != 0:
            raise shown.Failed(f"the watch ended with status {status}")


class Load:
    """Runs a writer on a container, and a watch on what was acknowledged to it."""

    def __init__(self, program, uri):
        self.program = program
        self.uri = uri
        self.log = kill.Log()
        command = [program, "write", uri, str(BLOCKS), str(kill.DEPTH), "1"]
        console.command(command)
        self.writer = subprocess.Popen(shown.words(command), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE)
        self.reader = threading.Thread(target=self.take)
        self.reader.start()
        self.watch = Watch(program, uri, self.log)

    def take(self):
        while part := self.writer.stdout.read1(1 << 16):
            self.log.bytes += part

    def so_far(self):
        return (f"{self.log.count:,} acknowledged, {self.watch.read:,} read back, "
                f"{self.watch.lost} LOST")

    def wait(self, ready, what):
        """Waits until `ready()`. Raises Failed if the writer or the watch ends by itself, or if it takes too
        long."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not ready():
            self.expect_alive()
            if time.monotonic() > end:
                raise shown.Failed(f"{what} did not follow within {PATIENCE_SECONDS} s: "
                                   f"{self.so_far()}")
            time.sleep(0.02)

    def expect_alive(self):
        for name, process in (("writer", self.writer), ("watch", self.watch.process)):
            if process.poll() is not None:
                raise shown.Failed(f"the {name} ended by itself with status {process.returncode}: "
                                   f"{self.so_far()}")

    def expect_more(self, count):
        """Waits until `count` more requests are acknowledged."""
        wanted = self.log.count + count
        self.wait(lambda: self.log.count >= wanted, "further acknowledgements")

    def expect_round(self):
        """Waits until the watch has read back everything that it knows of once more."""
        before = self.watch.read
        self.wait(lambda: self.watch.known > 0 and self.watch.read - before >= self.watch.known,
                  "a complete read-back")

    def end(self):
        self.writer.send_signal(signal.SIGKILL)
        self.writer.wait()
        self.reader.join()
        whole = len(self.log.bytes) // kill.ACKNOWLEDGED_BYTES * kill.ACKNOWLEDGED_BYTES
        del self.log.bytes[whole:]
        self.watch.end()

    def verify(self):
        """Returns whether nothing was lost, neither meanwhile nor in the end."""
        return kill.verify(self.program, self.uri, self.log) and self.watch.lost == 0


def pull(program, uri, served, victims, least, tally):
    """Kills each of the victims under load and starts it again; the writer must go on, and everything acknowledged be
    read back. Returns what was done."""
    load = Load(program, uri)
    try:
        for victim in victims:
            load.expect_more(least)
            time.sleep(random.random() * 0.003)  # at a random moment
            served.kill(victim)
            served.up()
            load.expect_more(least)
            load.expect_round()
            tally.add(f"the {victim} killed with writes in flight; the host went on: {load.so_far()}", load.watch.lost == 0)
    finally:
        load.end()
    tally.add(f"{load.so_far()}: nothing lost, nothing doubled", load.verify())
    return f"{len(victims)} kills, {load.so_far()}"

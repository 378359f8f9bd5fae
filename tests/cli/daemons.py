"""Daemons that `ros2store up` starts in a directory of the test. Several tests share this module."""

import functools
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import program

SIZE = "64M"
PATIENCE_SECONDS = 60
TIMEOUT_SECONDS = 300  # daemons start and stop in it


run = functools.partial(program.run, timeout=TIMEOUT_SECONDS)
answer = functools.partial(program.answer, timeout=TIMEOUT_SECONDS)


def processes_of(directory):
    """Returns the programs of ros2store whose command line names the directory."""
    found = {}
    for each in Path("/proc").glob("[0-9]*"):
        try:
            words = (each / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words and words[0].rsplit(b"/", 1)[-1].startswith(b"ros2store-") and any(
                word.startswith(os.fsencode(directory)) for word in words):
            found[int(each.name)] = words[0].rsplit(b"/", 1)[-1].decode()
    return found


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, f"waited {PATIENCE_SECONDS} s in vain: {what}"
        time.sleep(0.02)


class WithDirectory(program.Refusal):
    def setUp(self):
        self.scratch = Path(tempfile.mkdtemp(prefix="ros2s-up-"))
        self.pool = self.scratch / "p"
        self.addCleanup(self.leave_nothing)

    def leave_nothing(self):
        """Ends the daemons. They outlive this program, also if a test fails."""
        try:
            left = processes_of(self.scratch)
            if (self.pool / "config.yaml").exists():
                run("down", "--kill", self.pool, expect=None)
            wait_until(lambda: not processes_of(self.scratch), f"the end of {left}")
            # 2: the test has made the pool one that cannot be opened.
            done = run("pool", "check", self.pool, expect=None)
            assert done.returncode in (0, 2), done.stdout + done.stderr
        finally:
            for pid in processes_of(self.scratch):
                os.kill(pid, signal.SIGKILL)
            shutil.rmtree(self.scratch)

    def client(self, authority, name):
        """Returns the environment of programs that have a new certificate of one of the pool's authorities."""
        certificates = self.pool / "certs" / authority
        run("certs", "issue", certificates, name)
        own = self.scratch / name
        own.mkdir()
        for source, target in (("ca.crt", "ca.crt"), (f"{name}.crt", "client.crt"), (f"{name}.key", "client.key")):
            shutil.copy(certificates / source, own / target)
        return {**os.environ, "ROS2STORE_CERTS": str(own)}

    def refused(self, *arguments, **more):
        return super().refused(*arguments, timeout=TIMEOUT_SECONDS, **more)

    def up(self, *more):
        return answer("up", self.pool, *more)

    def daemons(self):
        """Returns the daemons by program."""
        return {each["program"]: each for each in answer("status", self.pool)["daemons"]}

    def wait_for_line(self, program, words):
        """Waits for a line of the engine's or the DPU's log, which a thread writes."""
        log = self.pool / f"run/{program}.log"
        wait_until(lambda: words in log.read_text(encoding="utf-8"), f"{words} in {log}")

    def pids(self):
        return [each["pid"] for each in self.daemons().values()]

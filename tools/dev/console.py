"""What a person sees while ./dev works."""

import shlex
import sys
import time

terminal = sys.stdout.isatty()
started = time.monotonic()


def step(text):
    """One line that opens a step, with the seconds since the start."""
    mark = "\033[1m==\033[0m" if terminal else "=="
    print(f"{mark} [{time.monotonic() - started:5.0f} s] {text}", flush=True)


def command(arguments):
    """The command as one could retype it."""
    print(f"$ {shlex.join(map(str, arguments))}", flush=True)


class Tally:
    """Counts what passed and failed; its line is the last that ./dev prints."""

    def __init__(self, name=""):
        self.name = name
        self.passed = 0
        self.failed = 0

    def add(self, name, ok):
        self.passed += bool(ok)
        self.failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {name}", flush=True)
        return ok

    def close(self):
        """Prints the last line; returns the exit status. Nothing run is a failure too."""
        if self.passed + self.failed == 0:
            self.failed = 1
        print(self.line(), flush=True)
        return 1 if self.failed else 0

    def line(self):
        prefix = f"{self.name}: " if self.name else ""
        return f"{prefix}{self.passed} passed, {self.failed} failed"

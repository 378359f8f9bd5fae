"""Prints what a person sees while ./dev works."""

import atexit
import os
import shlex
import sys
import time

TABLE_SECONDS = 120  # a longer command ends with a table of its parts

terminal = sys.stdout.isatty()
started = time.monotonic()
parts = []  # (title, when it began)
# .ci/run names a file for the parts of all its commands, and prints them as one table. Child processes must
# not write to it.
times = os.environ.pop("CI_TIMES", None)


def part(title):
    """Opens a part of the closing table. Its time ends with the next part."""
    parts.append((title, time.monotonic()))


def minutes_of_parts():
    ends = [began for _, began in parts[1:]] + [time.monotonic()]
    return [(title, (end - began) / 60) for (title, began), end in zip(parts, ends)]


def table():
    rows = [*minutes_of_parts(), ("in all", (time.monotonic() - started) / 60)]
    width = max(len(title) for title, _ in rows)
    return "\n".join(f"{title:<{width}} {minutes:6.1f} min" for title, minutes in rows)


@atexit.register
def keep_times():
    """Adds the parts to the table of .ci/run, also if one of them raised an exception."""
    if times and parts:
        with open(times, "a", encoding="utf-8") as file:
            file.writelines(f"{sys.argv[1]}: {title}\t{minutes:.1f}\n" for title, minutes in minutes_of_parts())


def step(text):
    """Prints a line that opens a step, with the seconds since the start."""
    mark = "\033[1m==\033[0m" if terminal else "=="
    print(f"{mark} [{time.monotonic() - started:5.0f} s] {text}", flush=True)


def command(arguments):
    """Prints a command as a person would type it."""
    note(f"$ {shlex.join(map(str, arguments))}")


notes = None  # where note() writes; None: to the screen


def keep_notes(path):
    """Sends all later notes to this file."""
    global notes
    notes = open(path, "w", encoding="utf-8")


def note(text):
    """Prints what was run and its output, for a closer look."""
    print(text, file=notes or sys.stdout, flush=True)


class Live:
    """Shows a line for the current step on a terminal, and replaces it by the result."""

    def __init__(self, title):
        self.title = title
        self.began = time.monotonic()
        if terminal and notes:
            print(f"..   {title}", end="", flush=True)

    def end(self, ok, what):
        text = f"{self.title}: {what}" if what else self.title
        back = "\r\033[K" if terminal and notes else ""
        print(f"{back}{'ok  ' if ok else 'FAIL'} {text} ({time.monotonic() - self.began:.0f} s)", flush=True)


class Tally:
    """Counts what passed and failed. Its line is the last that ./dev prints. `quiet`: what passed is only noted."""

    def __init__(self, name="", quiet=False):
        self.name = name
        self.quiet = quiet
        self.passed = 0
        self.failed = 0

    def add(self, name, ok):
        self.passed += bool(ok)
        self.failed += not ok
        line = f"{'ok  ' if ok else 'FAIL'} {name}"
        if self.quiet:
            note(line)
        if not self.quiet or (notes and not ok):
            print(line, flush=True)
        return ok

    def close(self):
        """Prints the last line. Returns the exit status. If nothing was run, that is a failure, too."""
        if self.passed + self.failed == 0:
            self.failed = 1
        if len(parts) > 1 and not times and time.monotonic() - started > TABLE_SECONDS:
            print(table(), flush=True)
        print(self.line(), flush=True)
        return 1 if self.failed else 0

    def line(self):
        prefix = f"{self.name}: " if self.name else ""
        return f"{prefix}{self.passed} passed, {self.failed} failed"

"""Runs the tests of a Python program: functions that a decorator has collected, in their order.

Each test prints one line with its seconds, and its output if it failed. The last line is "N passed, N
failed". A test that cannot run here is counted as neither. Names on the command line select tests."""
import functools
import os
import subprocess
import sys
import time
import traceback

# Long enough for a busy machine. A wait ends as soon as its condition holds.
PATIENCE_SECONDS = 120


class NotHere(Exception):
    """Raised by a test that this machine or user cannot run."""


def need_root():
    if os.geteuid() != 0:
        raise NotHere("it needs root")


def enter_mount_namespace():
    """Starts the program again in a mount namespace of its own, as root: no namespace of another test copies its
    mounts. Unmounts what this one has copied: a copy keeps its server alive."""
    if "ROS2STORE_TEST_NAMESPACE" not in os.environ:
        os.environ["ROS2STORE_TEST_NAMESPACE"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, "-B", *sys.argv])
    with open("/proc/self/mounts") as table:
        mounts = [line.split()[1] for line in table if line.split()[2] == "fuse.ros2store"]
    for mount_point in mounts:
        subprocess.run(["umount", "--lazy", mount_point], check=True)


class Tests(list):
    """Collects tests: `test = Tests()`, then `@test` before each function."""

    def __call__(self, function):
        self.append(function)
        return function

    def each(self, *values):
        """Makes a test for each value, called FUNCTION:VALUE: `@test.each(a, b)` before a function of one
        argument."""
        def add(function):
            for value in values:
                one = functools.partial(function, value)
                one.__name__ = f"{function.__name__}:{value}"
                self.append(one)
            return function
        return add

    def run(self, names, call=lambda function: function()):
        """Runs the tests. Returns the exit status. `call` calls a test."""
        unknown = set(names) - {function.__name__ for function in self}
        if unknown:
            print(f"there is no {', '.join(sorted(unknown))}", file=sys.stderr)
            return 2
        passed = failed = 0
        for function in self:
            if names and function.__name__ not in names:
                continue
            started = time.monotonic()
            try:
                call(function)
                passed += 1
                verdict = "ok    "
            except NotHere as reason:
                verdict = f"not run ({reason}):"
            except Exception as error:  # noqa: BLE001: any failure is a finding
                failed += 1
                verdict = "FAILED"
                traceback.print_exc(file=sys.stdout)
                print(said(error), end="")
            print(f"{verdict} {function.__name__} ({time.monotonic() - started:.1f} s)", flush=True)
        print(f"{passed} passed, {failed} failed")
        return 1 if failed else 0


def said(error):
    """Returns the output of a program that took too long."""
    if not isinstance(error, subprocess.TimeoutExpired):
        return ""
    texts = [each.decode(errors="replace") if isinstance(each, bytes) else each
             for each in (error.stdout, error.stderr) if each]
    return "".join(f"{text[-3000:].rstrip()}\n" for text in texts)


def wait_until(condition, what, seconds=PATIENCE_SECONDS):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain: {what}"
        time.sleep(0.02)

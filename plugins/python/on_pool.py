"""A test case with a pool and its daemons, for each kind of URI. ROS2STORE_PROGRAMS is the directory of their
programs."""
import contextlib
import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from unittest import mock

import ros2store


def ros2store_command(*words):
    done = subprocess.run([os.environ["ROS2STORE_PROGRAMS"] + "/ros2store", *words],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"ros2store {words}: {done.stderr}")
    return done.stdout


def module(name):
    """The module, or the end of a test that needs it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise unittest.SkipTest(f"the module {name} is not installed") from None


@contextlib.contextmanager
def calls_of(*methods):
    """The names of these methods (class, name), in the order in which they are called."""
    calls = []

    def recorded(kind, name):
        method = getattr(kind, name)

        def call(*arguments, **named):
            calls.append(name)
            return method(*arguments, **named)

        return mock.patch.object(kind, name, call)

    with contextlib.ExitStack() as patches:
        for kind, name in methods:
            patches.enter_context(recorded(kind, name))
        yield calls


def half_of(cases, which):
    """A class with every second test of a class, from the first (0) or the second one (1) on: the schemes of servers
    share the tests."""
    names = unittest.defaultTestLoader.getTestCaseNames(cases)
    return type(cases.__name__, (cases,), dict.fromkeys(names[1 - which::2]))


def on_cache(cases, *files_only):
    """These tests in a cache container, without those that look at files."""
    return type(f"{cases.__name__}OnCache", (cases,), {"cache_options": ("--size", "64MiB"), **dict.fromkeys(files_only)})


class OnPool(unittest.TestCase):
    """`cache_options`: of a cache container, which is used instead of one of files. It is empty when a test begins."""
    scheme, further, cache_options = "ros2s+local", "", ()

    @classmethod
    def setUpClass(cls):
        cls.base = tempfile.mkdtemp(prefix="ros2store-python-")
        cls.addClassCleanup(shutil.rmtree, cls.base)
        cls.directory = cls.base + "/pool"
        cls.uri = f"{cls.scheme}:///pool/main?dir={cls.directory}{cls.further}"
        daemons = ("--no-daemons",) if cls.scheme == "ros2s+local" else ()
        if "ucx" in cls.further:
            daemons = ("--provider", "shm, ucx+tcp", "--trusted-network")
        cls.addClassCleanup(ros2store_command, "down", cls.directory)
        ros2store_command("up", *daemons, cls.directory, "--size", "128MiB")
        if cls.cache_options:
            cls.uri = cls.uri.replace("/pool/main", "/pool/blocks")
            ros2store_command("container", "create", "--cache", *cls.cache_options, cls.uri.replace("ros2s+dpu", "ros2s"))

    def setUp(self):
        self.fs = ros2store.open(self.uri)
        if self.cache_options:
            self.fs.unlink_many(self.fs.listdir())

    def tearDown(self):
        self.fs.close()

    def write(self, path, data):
        with self.fs.open(path, "wb") as file:
            self.assertEqual(file.pwrite(data, 0), len(data))

    def read(self, path):
        with self.fs.open(path, "rb") as file:
            return file.read()

    def pid_of(self, daemon):
        """Of the pool's daemon, engine or dpu."""
        status = json.loads(ros2store_command("status", self.directory, "--json"))
        return next(each["pid"] for each in status["daemons"] if each["program"] == f"ros2store-{daemon}")

    @contextlib.contextmanager
    def stopped(self, daemon):
        """The daemon does nothing meanwhile."""
        pid = self.pid_of(daemon)
        os.kill(pid, signal.SIGSTOP)
        try:
            while not re.search(r"^State:\tT", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M):
                time.sleep(0.01)
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

"""Runs the program `ros2store` as a person does, on real directories. Its tests share this module. The import
removes the directory of the programs from the command line."""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BIN = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else Path()
PROGRAM = BIN / "ros2store"
SIZE = "256M"
UP = ("up", "--no-daemons")


def run(*arguments, expect=0, program=PROGRAM, stdin=subprocess.DEVNULL, timeout=120, **more):
    done = subprocess.run([program, *map(str, arguments)], stdin=stdin, capture_output=True,
                          text=True, errors="surrogateescape", timeout=timeout, check=False, **more)
    if expect is not None and done.returncode != expect:
        raise AssertionError(f"{arguments}: status {done.returncode}, expected {expect}\n"
                             f"{done.stdout}{done.stderr}")
    return done


def answer(*arguments, **more):
    return json.loads(run("--json", *arguments, **more).stdout)


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


class Refusal(unittest.TestCase):
    """Checks a refusal: one line on standard error, the status, nothing on standard output."""

    def refused(self, *arguments, says, status=1, **more):
        """Returns the line."""
        done = run(*arguments, expect=status, **more)
        self.assertEqual(done.stdout, "")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("ros2store: "), lines[0])
        for each in [says] if isinstance(says, str) else says:
            self.assertIn(each, lines[0])
        return lines[0]

    def setUp(self):
        self.scratch = Path(tempfile.mkdtemp(prefix="ros2store-cli-"))
        self.addCleanup(shutil.rmtree, self.scratch)


class WithPool(Refusal):
    """Makes one pool for the class. Each test has its own directory in it."""

    @classmethod
    def setUpClass(cls):
        cls.base = Path(tempfile.mkdtemp(prefix="ros2store-cli-"))
        cls.pool = cls.base / "pool"
        cls.up = answer(*UP, cls.pool, "--size", SIZE)

    @classmethod
    def tearDownClass(cls):
        run("pool", "check", cls.pool)
        run("pool", "destroy", "--yes", cls.pool)
        shutil.rmtree(cls.base)

    def setUp(self):
        super().setUp()
        self.name = self.id().rsplit(".", 1)[-1]
        run("mkdir", self.uri(self.name))

    def uri(self, path, container="main"):
        return f"ros2s+local:///pool/{container}/{path}?dir={self.pool}"

    def mine(self, path=""):
        return self.uri(f"{self.name}/{path}" if path else self.name)

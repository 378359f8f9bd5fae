#!/usr/bin/env python3
"""usage: build_test.py SOURCE_DIRECTORY

Tests that ./dev build says why it failed, also without a terminal."""
import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, f"{sys.argv.pop(1)}/tools/dev")
import build  # noqa: E402

RULES = """rule sh
  command = $shell
  description = makes $out
build good: sh
  shell = touch good
build bad: sh
  shell = echo the compiler complains; exit 1
build killed: sh
  shell = kill -9 $$PPID
"""


class News(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="ros2store-build-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        (self.folder / "build.ninja").write_text(RULES, encoding="utf-8")
        self.log = self.folder / "build.log"

    def make(self, target):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            worked = build.ninja_with_news(["ninja", "-C", str(self.folder), target], self.log)
        return worked, out.getvalue(), err.getvalue()

    def test_successful_build_prints_nothing(self):
        self.assertEqual(self.make("good"), (True, "", ""))
        self.assertTrue((self.folder / "good").exists())
        self.assertIn("makes good", self.log.read_text())

    def test_a_target_that_there_is_not(self):
        worked, out, err = self.make("nosuch")
        self.assertFalse(worked)
        self.assertIn("ninja: error: unknown target 'nosuch'", out)
        self.assertEqual(err, "")

    def test_a_step_that_fails(self):
        worked, out, err = self.make("bad")
        self.assertFalse(worked)
        self.assertIn("FAILED: bad", out)
        self.assertIn("the compiler complains", out)
        self.assertEqual(err, "")

    def test_ninja_itself_is_killed(self):
        self.log.write_text("what came before\n")
        worked, out, err = self.make("killed")
        self.assertFalse(worked)
        self.assertIn("what came before", out)
        self.assertIn("ended by signal 9", err)
        self.assertIn(str(self.log), err)


if __name__ == "__main__":
    unittest.main()

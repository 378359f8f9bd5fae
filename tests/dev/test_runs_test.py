#!/usr/bin/env python3
"""usage: test_runs_test.py SOURCE_DIRECTORY

Tests which failed tests CI runs a second time, and how they are counted, with a real ctest."""
import contextlib
import io
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SOURCE = sys.argv.pop(1)
sys.path.insert(0, f"{SOURCE}/tools/dev")
import build  # noqa: E402
import console  # noqa: E402
import test  # noqa: E402

FAILS = "false"
PASSES = "true"
FAILS_ONCE = "test -e again || { touch again; exit 1; }"


class SecondRun(unittest.TestCase):
    def run_tests(self, commands, environment):
        """Returns (passed, failed), and what was printed."""
        out = io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "CTestTestfile.cmake").write_text(
                "".join(f'add_test(test.{number} "sh" "-c" "{command}")\n' for number, command in enumerate(commands)))
            with mock.patch.object(build, "folder", lambda preset: Path(folder)), contextlib.redirect_stdout(out), \
                    mock.patch.dict(os.environ, environment):
                if not environment:
                    os.environ.pop("CI", None)
                tally = console.Tally()
                test.ctest("release", tally)
        return (tally.passed, tally.failed), out.getvalue()

    def test_test_that_passes_alone_is_shown_and_counts(self):
        counts, out = self.run_tests([PASSES, FAILS_ONCE], {"CI": "true"})
        self.assertEqual(counts, (2, 0))
        self.assertIn("ok   test.1: failed beside other tests, passed alone", out)

    def test_test_that_fails_twice_has_failed(self):
        counts, out = self.run_tests([FAILS_ONCE, FAILS], {"CI": "true"})
        self.assertEqual(counts, (1, 1))
        self.assertIn("FAIL test.1", out)

    def test_many_failures_are_not_run_again(self):
        counts, _ = self.run_tests([FAILS_ONCE] + [FAILS] * test.SECOND_RUNS, {"CI": "true"})
        self.assertEqual(counts, (0, 1 + test.SECOND_RUNS))

    def test_outside_of_ci_nothing_is_run_again(self):
        counts, _ = self.run_tests([PASSES, FAILS_ONCE], {})
        self.assertEqual(counts, (1, 1))


if __name__ == "__main__":
    unittest.main()

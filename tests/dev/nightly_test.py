#!/usr/bin/env python3
"""usage: nightly_test.py SOURCE_DIRECTORY

Tests, with parts that do nothing, that ./dev nightly can run unattended: a part that fails, breaks off or runs
nothing does not stop the others, and the end says what to run again."""
import contextlib
import io
import os
import re
import sys
import types
import unittest
from unittest import mock

SOURCE = sys.argv.pop(1)
sys.path.insert(0, f"{SOURCE}/tools/dev")
os.chdir(SOURCE)
import console  # noqa: E402
import nightly  # noqa: E402


def fine(tally, _):
    tally.add("fine", True)


def raises(what):
    def part(tally, _):
        tally.add("begun", True)
        raise what
    return part


class Nightly(unittest.TestCase):
    def run_parts(self, parts, wanted=None, against=None, hour=None):
        """Returns the exit status, and what was printed."""
        out = io.StringIO()
        with mock.patch.object(nightly, "PARTS", parts), mock.patch.object(console, "parts", []), \
                mock.patch.object(console, "TABLE_SECONDS", -1), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = nightly.run(types.SimpleNamespace(parts=wanted, against=against, hour=hour))
        return status, out.getvalue()

    def test_all_pass(self):
        status, said = self.run_parts({"one": fine, "two": fine})
        self.assertEqual(status, 0)
        self.assertTrue(said.endswith("\nnightly: 2 passed, 0 failed\n"), said)
        self.assertRegex(said, r"(?m)^one +0\.0 min$")
        self.assertRegex(said, r"(?m)^two +0\.0 min$")
        self.assertNotIn("--part", said)

    def test_a_part_that_breaks_off_fails_and_the_next_one_runs(self):
        for what in (OSError("no disk"), SystemExit("dev: readelf failed")):
            with self.subTest(what=what):
                status, said = self.run_parts({"one": raises(what), "two": fine})
                self.assertEqual(status, 1)
                self.assertTrue(said.endswith("\nnightly: 2 passed, 1 failed\n"), said)
                self.assertIn(str(what), said)
                self.assertIn("\nagain: ./dev nightly --part one\n", said)

    def test_a_part_that_runs_nothing_fails(self):
        status, said = self.run_parts({"one": lambda *_: None, "two": fine})
        self.assertEqual(status, 1)
        self.assertTrue(said.endswith("\nnightly: 1 passed, 1 failed\n"), said)
        self.assertIn("FAIL one: nothing was run", said)

    def test_interrupted_it_says_how_to_go_on(self):
        for what in (KeyboardInterrupt(), SystemExit(143)):
            with self.subTest(what=what):
                status, said = self.run_parts({"one": fine, "two": raises(what), "three": fine})
                self.assertEqual(status, 1)
                self.assertTrue(said.endswith("\nnightly: 2 passed, 1 failed\n"), said)
                self.assertIn("\nagain: ./dev nightly --part two --part three\n", said)

    def test_only_the_parts_that_are_named(self):
        status, said = self.run_parts({"one": fine, "two": fine}, wanted=["two"])
        self.assertEqual(status, 0)
        self.assertFalse(re.search(r"(?m)^one ", said), said)
        self.assertTrue(said.endswith("\nnightly: 1 passed, 0 failed\n"), said)

    def test_hostile_tenants_attack_with_asan_and_then_alone(self):
        attacks = []

        def attack(preset, seconds, environment):
            attacks.append((preset, seconds, "ASAN_OPTIONS" in environment, "ROS2STORE_TEST_QUIET" in environment))
            return types.SimpleNamespace(returncode=len(attacks) > 3, stdout="more\np99 of it: 2.0\n")

        with mock.patch.object(nightly.build, "make", return_value=True), mock.patch.object(nightly, "attack_for", attack), \
                mock.patch.object(nightly.fuzz, "fuzzers", return_value=["one"]), mock.patch.object(nightly.fuzz, "fuzz_all"):
            status, said = self.run_parts({"fuzzers": nightly.fuzzers}, hour=100)
            self.assertEqual(attacks, [("asan", 100, True, False), ("release", 60, False, True)])
            self.assertEqual((status, said.count("     p99 of it: 2.0\n"), "more" in said), (0, 2, False), said)
            status, said = self.run_parts({"fuzzers": nightly.fuzzers}, hour=30)
            self.assertEqual(attacks[3][:2], ("release", 30))
            self.assertEqual((status, "more" in said), (1, True), said)

    def test_the_bench_wants_another_build(self):
        status, said = self.run_parts({"one": fine, "bench": fine})
        self.assertEqual(status, 0)
        self.assertTrue(said.endswith("\nnightly: 1 passed, 0 failed\n"), said)
        status, said = self.run_parts({"one": fine, "bench": fine}, against="build/base")
        self.assertTrue(said.endswith("\nnightly: 2 passed, 0 failed\n"), said)
        status, said = self.run_parts({"bench": nightly.bench}, wanted=["bench"])
        self.assertEqual(status, 1)
        self.assertIn("--against BUILD_DIR", said)


if __name__ == "__main__":
    unittest.main()

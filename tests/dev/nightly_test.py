#!/usr/bin/env python3
"""usage: nightly_test.py SOURCE_DIRECTORY

Tests, with parts that do nothing, that ./dev nightly can run unattended: a part that fails, breaks off or runs
nothing does not stop the others, and the end says what to run again."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
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
    def run_parts(self, parts, against=None):
        """Returns the exit status, and what was printed."""
        out = io.StringIO()
        with mock.patch.object(nightly, "PARTS", parts), mock.patch.object(console, "parts", []), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = nightly.run(types.SimpleNamespace(parts=None, against=against))
        return status, out.getvalue()

    def test_all_pass(self):
        status, said = self.run_parts({"one": fine, "two": fine})
        self.assertEqual(status, 0)
        self.assertTrue(said.endswith("\nnightly: 2 passed, 0 failed\n"), said)
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

    def bench(self, against=None):
        """Returns the exit status, what was printed, and the build that the bench was compared with."""
        commands = []

        def ran(command, **_):
            commands.append(command)
            return types.SimpleNamespace(returncode=0)

        with mock.patch.object(nightly.build, "make", return_value=True), mock.patch.object(nightly.subprocess, "run", ran):
            status, said = self.run_parts({"bench": nightly.bench}, against=against)
        return status, said, commands[-1][-1] if commands else None

    def test_the_bench_is_compared_with_a_build_of_the_day_before(self):
        with mock.patch.object(nightly.base, "commit", return_value="0123456789abcdef"), \
                mock.patch.object(nightly.base, "make", return_value="build/base/build/release") as made:
            status, said, beside = self.bench()
            self.assertEqual((status, beside), (0, "build/base/build/release"), said)
            made.assert_called_once_with("0123456789abcdef")
            self.assertIn("build of 01234567, a day older", said)
            status, said, beside = self.bench(against="build/other")
            self.assertEqual((status, beside), (0, "build/other"), said)
            made.assert_called_once()

    def test_without_a_build_to_compare_with_the_bench_fails(self):
        with mock.patch.object(nightly.base, "commit", return_value=""):
            status, said, beside = self.bench()
            self.assertEqual((status, beside), (1, None), said)
            self.assertIn("--against BUILD_DIR", said)
        with mock.patch.object(nightly.base, "commit", return_value="0123"), \
                mock.patch.object(nightly.base, "make", return_value=None):
            status, said, beside = self.bench()
            self.assertEqual((status, beside), (1, None), said)

    def base(self, ours, before):
        """Makes the base of a build with CMAKE_UNITY_BUILD=`ours`, where it was built with `before`. Returns the
        command, and whether the earlier build is still there."""
        with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch), mock.patch.object(nightly.base, "git"), \
                mock.patch.object(subprocess, "run", return_value=types.SimpleNamespace(returncode=0)) as ran:
            for place, unity in (("build/release", ours), ("build/base/build/release", before)):
                Path(place).mkdir(parents=True)
                Path(place, "CMakeCache.txt").write_text(f"CMAKE_UNITY_BUILD:UNINITIALIZED={unity}\n", encoding="utf-8")
            built = nightly.base.make("0123")
            return ran.call_args.args[0], (built / "CMakeCache.txt").exists()

    def test_the_base_is_compiled_as_this_build_is(self):
        self.assertEqual(self.base("OFF", before="ON"), (["./dev", "build", "programs"], True))
        self.assertEqual(self.base("ON", before="ON"), (["./dev", "build", "--unity", "programs"], True))
        self.assertEqual(self.base("ON", before="OFF"), (["./dev", "build", "--unity", "programs"], False))

    def test_the_base_is_a_day_older(self):
        def git(*words):
            return subprocess.run(["git", *words], cwd=scratch, env=os.environ | {
                "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
                "GIT_COMMITTER_DATE": date}, check=True, capture_output=True, text=True).stdout.strip()

        before = os.getcwd()
        with tempfile.TemporaryDirectory() as scratch:
            hashes = []
            for date in ("2026-01-01T12:00Z", "2026-01-02T11:00Z", "2026-01-02T13:00Z", "2026-01-03T12:00Z"):
                if not hashes:
                    git("init", "-q")
                git("commit", "-q", "--allow-empty", "-m", date)
                hashes.append(git("rev-parse", "HEAD"))
            try:
                os.chdir(scratch)
                self.assertEqual(nightly.base.commit(), hashes[1])
                git("checkout", "-q", hashes[0])
                self.assertEqual(nightly.base.commit(), "")
            finally:
                os.chdir(before)


if __name__ == "__main__":
    unittest.main()

"""Tests what a pool does on a full or read-only medium. The medium is a small tmpfs.

usage: media_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import os
import subprocess
import unittest

from program import PROGRAM, UP, Refusal, digest, run

POOL_SIZE = "64M"
MEDIUM_MIB = 160
CONTENT = os.urandom(3 << 20)


def mount(*words):
    return subprocess.run(["mount", *map(str, words)], capture_output=True, check=False).returncode


class Media(Refusal):
    def setUp(self):
        super().setUp()
        self.medium = self.scratch / "medium"
        self.medium.mkdir()
        if mount("-t", "tmpfs", "-o", f"size={MEDIUM_MIB}m", "tmpfs", self.medium) != 0:
            self.skipTest("this user may not mount a tmpfs")
        self.addCleanup(subprocess.run, ["umount", self.medium], check=True)
        self.pool = self.medium / "pool"
        run(*UP, self.pool, "--size", POOL_SIZE)
        self.source = self.scratch / "source"
        self.source.write_bytes(CONTENT)
        for name in ("a", "b"):
            run("cp", self.source, self.uri(name))

    def uri(self, path=""):
        return f"ros2s+local:///pool/main/{path}?dir={self.pool}"

    def fill(self):
        """Fills the medium to the last block."""
        with open(self.medium / "other", "wb", buffering=0) as file:
            for piece in (1 << 20, 4096):
                try:
                    while True:
                        file.write(b"x" * piece)
                except OSError:
                    pass

    def reads(self, name):
        run("cp", self.uri(name), self.scratch / "back")
        self.assertEqual(digest(self.scratch / "back"), digest(self.source))

    def test_a_pool_on_a_full_disk_can_be_read_and_files_removed(self):
        self.fill()
        self.reads("a")
        run("rm", self.uri("b"))
        self.assertEqual(run("ls", self.uri()).stdout, "a\n")
        self.reads("a")
        os.unlink(self.medium / "other")
        run("cp", self.source, self.uri("c"))
        self.reads("c")

    def test_a_pool_on_a_read_only_medium_can_be_read(self):
        self.assertEqual(mount("-o", "remount,ro", self.medium), 0)
        self.reads("a")
        self.assertIn("a\nb\n", run("ls", self.uri()).stdout)
        for words in (("rm", self.uri("a")), ("cp", self.source, self.uri("c")), ("mkdir", self.uri("d"))):
            self.assertIn("read-only", run(*words, expect=1).stderr)
        self.assertEqual(mount("-o", "remount,rw", self.medium), 0)
        run("rm", self.uri("a"))
        self.assertEqual(run("ls", self.uri()).stdout, "b\n")

    def test_two_programs_read_a_pool_on_a_read_only_medium(self):
        self.assertEqual(mount("-o", "remount,ro", self.medium), 0)
        with subprocess.Popen([PROGRAM, "cat", self.uri("a")],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as other:
            self.assertEqual(other.stdout.read(1), CONTENT[:1])
            self.reads("b")
            self.assertEqual(other.stdout.read(), CONTENT[1:])


if __name__ == "__main__":
    unittest.main()

"""Tests what a pool does on a full, read-only or failing medium, and copies of pools. The medium is a small tmpfs, or
an ext4 on a loop device.

usage: media_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import errno
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import runner  # noqa: E402

if os.geteuid() == 0:  # before program takes the directory off the command line
    runner.enter_mount_namespace()  # a copy of its loop device would stay busy
from program import PROGRAM, UP, Refusal, digest, run  # noqa: E402

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
        said = run("doctor", self.pool, expect=None).stdout
        self.assertRegex(said, r"warning +disk space .* free in .*\n +→ the pool's index grows there")
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

    def test_daemons_and_a_read_only_medium(self):
        for was_up in (False, True):
            if was_up:
                run("up", self.pool)
                run("down", self.pool)
            self.assertEqual(mount("-o", "remount,ro", self.medium), 0)
            with self.subTest(was_up=was_up):
                self.refused("up", self.pool, says=[f"daemons of {self.pool} write there", "read-only",
                                                    "ros2s+local:///"])
                self.assertIn("read-only", run("status", self.pool).stdout)
                self.reads("a")
                run("down", self.pool)
            self.assertEqual(mount("-o", "remount,rw", self.medium), 0)

    def test_two_programs_read_a_pool_on_a_read_only_medium(self):
        self.assertEqual(mount("-o", "remount,ro", self.medium), 0)
        with subprocess.Popen([PROGRAM, "cat", self.uri("a")],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as other:
            self.assertEqual(other.stdout.read(1), CONTENT[:1])
            self.reads("b")
            self.assertEqual(other.stdout.read(), CONTENT[1:])


class FailingMedium(Refusal):
    """The medium is an ext4 on a loop device, whose file gets holes that cannot be filled, or ends."""

    IMAGE_MIB, BLOCK = 260, 4096
    DEVICE_MIB = 100
    FILES = 6

    def setUp(self):
        super().setUp()
        below, self.medium, self.mount_point = (self.scratch / name for name in ("below", "medium", "m"))
        for each in (below, self.medium, self.mount_point):
            each.mkdir()
        if mount("-t", "tmpfs", "-o", f"size={self.IMAGE_MIB + 20}m", "tmpfs", below) != 0:
            self.skipTest("this user may not mount a tmpfs")
        self.addCleanup(subprocess.run, ["umount", below], check=True)
        self.image = below / "image"
        with open(self.image, "wb") as image:
            image.truncate(self.IMAGE_MIB << 20)
        made = shutil.which("mkfs.ext4") and subprocess.run(
            ["mkfs.ext4", "-q", "-b", str(self.BLOCK), "-E", "lazy_itable_init=0,lazy_journal_init=0", self.image],
            check=False).returncode == 0
        if not made or mount("-o", "loop", self.image, self.medium) != 0:
            self.skipTest("there is no ext4 or no loop device")
        self.addCleanup(subprocess.run, ["umount", self.medium], check=True)
        self.pool = self.medium / "pool"
        run(*UP, self.pool, "--size", f"{self.DEVICE_MIB}M")
        self.content = {}
        for i in range(self.FILES):
            self.content[f"f{i}"] = os.urandom(5_000_000)
            (self.scratch / "source").write_bytes(self.content[f"f{i}"])
            run("cp", self.scratch / "source", self.uri(f"f{i}"))
        run("mount", self.uri(), self.mount_point)
        self.addCleanup(self.unmount)
        os.sync()

    def unmount(self):
        subprocess.run(["umount", self.mount_point], capture_output=True, check=False)
        # Its process has the medium open until it ends.
        end = time.monotonic() + 60
        while any(str(self.mount_point).encode() in path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")
                  if path.exists()):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def uri(self, path=""):
        return f"ros2s+local:///pool/main/{path}?dir={self.pool}"

    def begin_of_device(self):
        """Returns where the device file begins in the image."""
        extents = subprocess.run(["filefrag", "-b4096", "-v", self.pool / "device-0"], capture_output=True, text=True,
                                 check=True).stdout
        return int(re.search(r"^ *0: .*?: +([0-9]+)\.\.", extents, re.MULTILINE).group(1)) * self.BLOCK

    def drop_caches(self):
        Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")

    def right_or_failed(self):
        """Returns how many files can be read. None has wrong bytes, in no part that can be read."""
        right = 0
        for name, content in self.content.items():
            got = b""
            try:
                with open(self.mount_point / name, "rb") as file:
                    while piece := file.read(1 << 20):
                        got += piece
                right += 1
            except OSError as error:
                self.assertEqual(error.errno, errno.EIO)
            self.assertTrue(content.startswith(got), name)
        return right

    def test_lost_blocks_make_the_pool_read_only(self):
        begin = self.begin_of_device() + (self.DEVICE_MIB << 19)
        subprocess.run(["fallocate", "-p", "-o", str(begin), "-l", str(self.DEVICE_MIB << 19), self.image], check=True)
        with open(self.image.parent / "other", "wb", buffering=0) as other:
            with self.assertRaises(OSError):
                while True:
                    other.write(b"x" * 4096)
        self.drop_caches()
        self.right_or_failed()
        with self.assertRaises(OSError):
            for i in range(20):
                (self.mount_point / f"new{i}").write_bytes(self.content["f0"])
        with self.assertRaises(OSError) as refused:
            (self.mount_point / "late").write_bytes(b"x")
        self.assertEqual(refused.exception.errno, errno.EROFS)
        self.right_or_failed()
        self.assertIn("read-only: a write or flush failed", run("status", self.pool).stdout)
        run("down", self.pool)

    def test_pool_on_an_aborted_file_system_can_be_read(self):
        """As ext4 does after an error of its disk."""
        run("down", self.pool)
        mount("-o", "remount,abort", self.medium)
        with self.assertRaises(OSError):
            (self.medium / "file").touch()
        self.assertIn("read-only", run("status", self.pool).stdout)
        self.refused("up", self.pool, says="its file system is read-only")
        for name, content in self.content.items():
            run("cp", self.uri(name), self.scratch / "back")
            self.assertEqual((self.scratch / "back").read_bytes(), content)
        run("down", self.pool)

    def test_truncated_image_fails_reads(self):
        os.truncate(self.image, self.begin_of_device() + (12 << 20))
        self.drop_caches()
        self.assertLess(self.right_or_failed(), self.FILES)


class CopiedPools(Refusal):
    """A pool is a directory: a copy of it is another pool."""

    def setUp(self):
        super().setUp()
        self.pool, self.copied = self.scratch / "pool", self.scratch / "copy"
        run(*UP, self.pool, "--size", POOL_SIZE)
        self.put(self.pool, "first")

    def put(self, pool, name):
        (self.scratch / "source").write_bytes(CONTENT)
        run("cp", self.scratch / "source", f"ros2s+local:///pool/main/{name}?dir={pool}")

    def names(self, pool):
        return run("ls", f"ros2s+local:///pool/main?dir={pool}").stdout.split()

    def has(self, pool, name):
        run("cp", f"ros2s+local:///pool/main/{name}?dir={pool}", self.scratch / "back")
        self.assertEqual((self.scratch / "back").read_bytes(), CONTENT)

    def copy(self, source, target):
        subprocess.run(["cp", "-a", source, target], check=True)

    def test_a_copy_of_a_closed_pool_is_a_pool(self):
        self.copy(self.pool, self.copied)
        self.put(self.pool, "second")
        self.put(self.copied, "other")
        self.assertEqual((self.names(self.pool), self.names(self.copied)), (["first", "second"], ["first", "other"]))
        for pool in (self.pool, self.copied):
            self.has(pool, "first")

    def test_with_an_older_copy_of_its_only_device_a_pool_is_read_only(self):
        old = self.scratch / "old"
        self.copy(self.pool / "device-0", old)
        self.put(self.pool, "second")
        (self.pool / "device-0").rename(self.scratch / "new")
        self.copy(old, self.pool / "device-0")
        # The index knows what is missing.
        for name in ("first", "second"):
            read = subprocess.run([PROGRAM, "cat", f"ros2s+local:///pool/main/{name}?dir={self.pool}"],
                                  capture_output=True, check=False)
            self.assertTrue(CONTENT.startswith(read.stdout), name)
            self.assertIn(b"read-only" if read.returncode == 0 else b"corrupt data was not returned", read.stderr)
        self.assertIn("read-only", run("mkdir", f"ros2s+local:///pool/main/d?dir={self.pool}", expect=1).stderr)
        os.unlink(self.pool / "device-0")
        (self.scratch / "new").rename(self.pool / "device-0")
        self.assertEqual(self.names(self.pool), ["first", "second"])
        self.has(self.pool, "second")

    def test_an_older_copy_of_one_of_two_devices_is_refused(self):
        pool = self.scratch / "two"
        run(*UP, pool, "--size", "128M", "--devices", "2")
        self.put(pool, "first")
        for device in ("device-0", "device-1"):
            self.copy(pool / device, self.scratch / device)
        self.put(pool, "second")
        for device in ("device-0", "device-1"):
            (pool / device).rename(self.scratch / "new")
            self.copy(self.scratch / device, pool / device)
            for _ in range(2):
                self.refused("ls", f"ros2s+local:///pool/main?dir={pool}", says=[f"{pool}/{device}", "old copy"])
            os.unlink(pool / device)
            (self.scratch / "new").rename(pool / device)
        self.assertEqual(self.names(pool), ["first", "second"])
        self.has(pool, "second")

    def test_a_copy_of_an_open_pool_has_right_bytes_or_is_refused(self):
        """Its files are of different times."""
        mount_point = self.scratch / "m"
        mount_point.mkdir()
        if subprocess.run([PROGRAM, "mount", f"ros2s+local:///pool/main?dir={self.pool}", mount_point],
                          capture_output=True, check=False).returncode != 0:
            self.skipTest("nothing can be mounted here")
        self.addCleanup(run, "down", self.pool, expect=None)
        stop = threading.Event()

        def write():
            for i in range(100):
                (mount_point / f"new{i % 5}").write_bytes(CONTENT)
                if stop.is_set():
                    return
        writer = threading.Thread(target=write)
        writer.start()
        for i in range(3):
            copied = self.scratch / f"copy-{i}"
            self.copy(self.pool, copied)
            done = run("ls", f"ros2s+local:///pool/main?dir={copied}", expect=None)
            for name in done.stdout.split():
                cat = subprocess.run([PROGRAM, "cat", f"ros2s+local:///pool/main/{name}?dir={copied}"],
                                     capture_output=True, check=False)
                self.assertTrue(CONTENT.startswith(cat.stdout), name)
                self.assertNotEqual((cat.returncode, cat.stderr), (1, b""))
            if done.returncode != 0:
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            shutil.rmtree(copied)
        stop.set()
        writer.join()


if __name__ == "__main__":
    unittest.main()

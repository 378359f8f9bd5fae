"""Tests wrong input and missing features of the machine: each gives one clear line with the remedy.

usage: bad_input_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import contextlib
import ctypes
import os
import platform
import resource
import shutil
import subprocess
import unittest
from pathlib import Path

from program import PROGRAM, SIZE, UP, Refusal, answer, run

BLOCK = 4096


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}
IO_URING_SETUP = 425  # on every architecture


def forbid_io_uring():
    """Forbids io_uring as Docker's default seccomp filter does, in a child before it becomes the program."""
    def instruction(code, jump_true, jump_false, value):
        return code.to_bytes(2, "little") + bytes([jump_true, jump_false]) + value.to_bytes(4, "little")

    filter_program = ctypes.create_string_buffer(
        instruction(0x20, 0, 0, 0)                  # load the number of the system call
        + instruction(0x15, 0, 1, IO_URING_SETUP)
        + instruction(0x06, 0, 0, 0x00050000 | 1)   # EPERM
        + instruction(0x06, 0, 0, 0x7fff0000))      # allowed

    class Program(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

    program = Program(4, ctypes.addressof(filter_program))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def memlock(limit):
    return lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))


class OnePool(Refusal):
    """Makes a pool with a file, which each test may damage."""

    SIZE = "64M"

    def setUp(self):
        super().setUp()
        self.pool = self.scratch / "p"
        run(*UP, self.pool, "--size", self.SIZE)
        self.uri = self.uri_of("f")
        run("cp", "/usr/include/stdio.h", self.uri)

    def uri_of(self, name):
        return f"ros2s+local:///pool/main/{name}?dir={self.pool}"

    def demand(self, line):
        with open(self.pool / "config.yaml", "a", encoding="utf-8") as config:
            config.write(f"\n{line}\n")

    def content_is_whole(self, **more):
        with open("/usr/include/stdio.h", encoding="utf-8") as file:
            self.assertEqual(run("cat", self.uri, **more).stdout, file.read())


class Files(OnePool):
    """Tests files of a pool that are missing, damaged or another pool's."""

    def test_truncated_device_is_refused(self):
        os.truncate(self.pool / "device-0", 1 << 20)
        self.refused("cat", self.uri, says=[f"{self.pool}/device-0", "truncated", "Restore"])
        os.truncate(self.pool / "device-0", 0)
        self.refused("cat", self.uri, says=[f"{self.pool}/device-0", "truncated"])
        os.unlink(self.pool / "device-0")
        self.refused("cat", self.uri, says=["device-0", "put them back"])

    def test_device_of_another_pool_is_refused(self):
        other = self.scratch / "other"
        run(*UP, other, "--size", "64M")
        os.rename(self.pool / "device-0", self.scratch / "kept")
        shutil.copy(other / "device-0", self.pool / "device-0")
        self.refused("cat", self.uri, says=["belongs to pool", "Put the right one in its place"])
        os.rename(self.scratch / "kept", self.pool / "device-0")
        self.content_is_whole()

    def test_pool_opens_with_one_damaged_superblock_but_not_two(self):
        size = (self.pool / "device-0").stat().st_size
        with open(self.pool / "device-0", "r+b") as device:
            device.write(b"\xff" * 64)
        self.content_is_whole()
        with open(self.pool / "device-0", "r+b") as device:
            for block in (0, size - 4096):
                device.seek(block)
                device.write(b"\xff" * 64)
        self.refused("cat", self.uri, says=f"{self.pool}/device-0")

    def test_missing_index_is_refused(self):
        os.rename(self.pool / "index", self.scratch / "away")
        for command in (["cat", self.uri], ["status", self.pool]):
            self.refused(*command, says=[f"{self.pool}/index", "put it back"])
        self.assertFalse((self.pool / "index").exists(), "nothing was made in its place")
        os.rename(self.scratch / "away", self.pool / "index")
        self.content_is_whole()

    def test_damaged_index_is_refused(self):
        os.rename(self.pool / "index" / "CURRENT", self.scratch / "CURRENT")
        self.refused("cat", self.uri, says=[f"{self.pool}/index", "is damaged", "restore"])
        os.rename(self.scratch / "CURRENT", self.pool / "index" / "CURRENT")
        (self.pool / "index" / "FORMAT").write_text("ros2store index, version 9\n")
        self.refused("cat", self.uri, says=["version 9", "supports version 1"])
        (self.pool / "index" / "FORMAT").write_text("ros2store index, version 1\n")
        self.content_is_whole()

    def test_damaged_file_of_the_index_is_reported(self):
        run("cp", "-r", "/usr/include/linux", self.uri_of("d"))
        tables = sorted((self.pool / "index").glob("*.sst"), key=lambda path: path.stat().st_size)
        good = tables[-1].read_bytes()
        for what, bad in (("flipped", good[:30] + bytes([good[30] ^ 255]) + good[31:]),
                          ("cut off", good[:len(good) // 2]), ("empty", b"")):
            for command in ("ls", "cat"):
                with self.subTest(what=what, command=command):
                    tables[-1].write_bytes(bad)
                    done = run(command, self.uri_of("d/fs.h"), expect=None)
                    # Data outside the damaged block can still be read.
                    self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                    for each in ("ros2store: ", f"{self.pool}/index is damaged", "restore"):
                        self.assertIn(each, done.stderr)
        tables[-1].unlink()
        self.refused("ls", self.uri_of("d"), says=[f"{self.pool}/index is damaged", "restore"])
        tables[-1].write_bytes(good)
        self.content_is_whole()

    def test_a_pool_that_takes_no_writes(self):
        # A feature that a later version might require for writing: docs/formats/superblock.md.
        with open(self.pool / "device-0", "r+b") as device:
            for place in (0, (self.pool / "device-0").stat().st_size - BLOCK):
                device.seek(place)
                block = bytearray(device.read(BLOCK))
                block[24] |= 2
                block[12:16] = bytes(4)
                block[12:16] = crc32c(block).to_bytes(4, "little")
                device.seek(place)
                device.write(block)
        for command in (["cp", "/usr/include/stdio.h", self.uri_of("g")], ["mkdir", self.uri_of("d")],
                        ["rm", self.uri], ["mv", self.uri, self.uri_of("g")]):
            with self.subTest(command=command[0]):
                self.refused(*command, says=["read-only", "bits 0x2"])
        done = run("cat", self.uri)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(f"warning: the pool in {self.pool} is read-only", done.stderr)
        self.assertRegex(run("status", self.pool).stdout, "state +read-only: .*bits 0x2")

    @unittest.skipUnless(os.geteuid() == 0, "only root mounts")
    def test_a_full_index_disk(self):
        index, copy = self.pool / "index", self.scratch / "copy"
        shutil.copytree(index, copy)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", index],
                          stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("cannot mount here")
        try:
            # On a disk this small the pool has no reserve.
            shutil.copytree(copy, index, ignore=shutil.ignore_patterns("reserve"), dirs_exist_ok=True)
            # Acknowledged data is in the journal: only the checkpoint at the end fails.
            done = run("cp", "-r", "/usr/include/linux", self.uri_of("d"))
            self.assertIn("file system that holds the index", done.stderr)
            self.assertIn(f"{index} is full; free some space", done.stderr)
            self.assertNotIn("the pool is full", done.stderr)
            self.assertLessEqual(max(map(len, done.stderr.splitlines())), 600)
            with contextlib.suppress(OSError), open(index / "fill", "wb") as fill:
                while True:
                    fill.write(b"x" * 4096)
                    fill.flush()
            self.refused("cat", self.uri, says=[f"{index} is full", "free some space"])
            os.unlink(index / "fill")
            subprocess.run(["mount", "-o", "remount,size=64M", index], check=True)
            self.content_is_whole()
            self.assertEqual(len(answer("ls", "-R", self.uri_of("d"))["entries"]),
                             len(list(Path("/usr/include/linux").rglob("*"))))
        finally:
            subprocess.run(["umount", index], check=True)

    def test_invalid_settings_are_refused(self):
        good = (self.pool / "config.yaml").read_text()
        for line, says in (("engine:\n  memory: lots", "512MiB"),
                           ("io:\n  back_end: 7", "io.back_end"),
                           ("io:\n  back_end: windows", "io_uring"),
                           ("io:\n  page_cache: perhaps", "io.page_cache"),
                           ("engine:\n  groups_in_flight: 99", "groups_in_flight"),
                           ("engine: 5", "engine"),
                           ("enginee:\n  memory: 1G", "enginee")):
            with self.subTest(line=line):
                (self.pool / "config.yaml").write_text(f"{good}\n{line}\n")
                self.refused("cat", self.uri, says=[f"{self.pool}/config.yaml:", says])
        (self.pool / "config.yaml").write_text(good)
        self.content_is_whole()


@unittest.skipUnless(platform.machine() in ("x86_64", "aarch64"), "seccomp by number")
class NoIoUring(OnePool):
    def test_threads_replace_io_uring(self):
        self.content_is_whole(preexec_fn=forbid_io_uring)
        why = run("why", self.uri, preexec_fn=forbid_io_uring).stdout
        self.assertIn("embedded engine, threads", why)

    def test_doctor_says_how_to_allow_io_uring(self):
        said = run("doctor", self.scratch, expect=None, preexec_fn=forbid_io_uring).stdout
        self.assertRegex(said, r"warning +io_uring .*seccomp")
        self.assertIn("sysctl -w kernel.io_uring_disabled=0", said)

    def test_demanded_io_uring_is_refused(self):
        self.demand("io:\n  back_end: io_uring")
        for command in (["cat", self.uri], ["status", self.pool], ["why", self.uri]):
            self.refused(*command, says=["seccomp", f"{self.pool}/config.yaml demands io_uring",
                                         "back_end: auto"], preexec_fn=forbid_io_uring)
        self.content_is_whole()


@unittest.skipUnless(os.geteuid() == 0, "becomes another user")
class OrdinaryUser(OnePool):
    """Runs as an ordinary user: root has no limit on locked memory, and may write everywhere."""

    def setUp(self):
        super().setUp()
        # The checkout may be in a directory that only its user can enter, such as root's home.
        program = shutil.copy(PROGRAM, self.scratch)
        self.nobody = NOBODY | {"program": program, "cwd": self.scratch}
        for path in (self.scratch, program):
            os.chmod(path, 0o755)

    def give_away(self):
        for path in (self.scratch, self.pool, *self.pool.rglob("*")):
            os.chown(path, NOBODY["user"], NOBODY["group"])

    def test_little_locked_memory(self):
        self.give_away()
        for limit in (0, 64 << 10):
            with self.subTest(limit=limit):
                more = self.nobody | {"preexec_fn": memlock(limit)}
                uri = self.uri_of(f"f-{limit}")
                run("cp", "/usr/include/stdlib.h", uri, **more)
                self.content_is_whole(**more)
                why = run("why", uri, **more).stdout
                self.assertRegex(why, "I/O path +embedded engine, (io_uring|threads),")
                said = run("doctor", self.scratch, expect=None, **more).stdout
                self.assertRegex(said, r"warning +memlock .*\n *→ .*prlimit --pid \$\$ "
                                       r"--memlock=unlimited")
                # Between 0 and the sufficient limit, the result depends on other programs of this user.
                if limit == 0 and "embedded engine, io_uring" not in why:
                    self.assertRegex(said, r"warning +io_uring .*locked memory")

    def test_little_locked_memory_and_io_uring_demanded(self):
        self.give_away()
        self.demand("io:\n  back_end: io_uring")
        done = run("cat", self.uri, expect=None, **self.nobody, preexec_fn=memlock(0))
        if done.returncode != 0:  # kernels that account rings elsewhere take it
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            for each in ("locked memory", "prlimit --pid $$ --memlock=unlimited", "back_end: auto"):
                self.assertIn(each, done.stderr)

    def test_files_of_another_user_are_refused(self):
        self.refused(*UP, self.scratch / "mine", "--size", SIZE,
                     says=["permission denied", "choose a directory"], **self.nobody)
        self.refused("cat", self.uri, says=["Permission denied", "the user who made the pool"], **self.nobody)
        for closed in (self.pool / "config.yaml", self.pool):
            os.chmod(closed, 0o600)
            self.refused("cat", self.uri, says=["config.yaml", "the user who made the pool"],
                         **self.nobody)


if __name__ == "__main__":
    unittest.main()

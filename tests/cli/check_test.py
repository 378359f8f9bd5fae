"""Tests `ros2store pool check` on real pools: each fault that is planted is found and named, nothing else, and the
check writes nothing.

usage: check_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import json
import os
import shutil
import signal
import struct
import subprocess
import unittest
from pathlib import Path

from program import BIN, PROGRAM, UP, Refusal, run

SIZE = "64M"
BLOCK = 4096
JOURNAL_MAGIC = b"RS2SJNL1"
CONTENT = bytes(range(256)) * 200
TABLE = [0] * 256
for each in range(256):
    value = each
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    TABLE[each] = value


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def state_of(directory):
    """Every file with its content and times."""
    found = {}
    for top, _, names in os.walk(directory):
        for path in [Path(top)] + [Path(top) / name for name in names]:
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[str(path)] = (status.st_mtime_ns, status.st_ctime_ns, status.st_mode, status.st_size, hash(content))
    return found


class PoolCheck(Refusal):
    def setUp(self):
        super().setUp()
        self.pool = self.scratch / "pool"
        self.device = self.pool / "device-0"
        run(*UP, self.pool, "--size", SIZE)
        (self.scratch / "content").write_bytes(CONTENT)
        for name in ("a", "b"):
            run("cp", self.scratch / "content", self.uri(name))

    def uri(self, path=""):
        return f"ros2s+local:///pool/main/{path}?dir={self.pool}"

    def check(self, *more, status=0):
        """Returns the answer and the line on standard error."""
        before = state_of(self.pool)
        done = run("--json", "pool", "check", *more, self.pool, expect=status)
        self.assertEqual(state_of(self.pool), before)
        return json.loads(done.stdout) if done.stdout else None, done.stderr

    def problems(self, *more, says):
        """Checks that there is one problem, which says this. Returns it."""
        found, error = self.check(*more, status=1)
        self.assertEqual(found["problem_count"], 1, found["problems"])
        self.assertIn("has 1 problem", error)
        for each in [says] if isinstance(says, str) else says:
            self.assertIn(each, found["problems"][0]["sentence"])
        return found["problems"][0]

    def change(self, path, at, change):
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([change(byte[0])]))

    def flip(self, path, at):
        self.change(path, at, lambda byte: byte ^ 1)

    def kill_a_writer(self):
        """Leaves a journal with changes that the index lacks."""
        command = [BIN / "kill_writer", "write", self.uri(), "64", "4", "1"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as writer:
            received = 0
            while received < 50 * 24:
                received += len(os.read(writer.stdout.fileno(), 24))
            writer.send_signal(signal.SIGKILL)

    def records(self):
        """Returns the records of the journal, as (sequence, durable up to, block), in their order."""
        with open(self.device, "rb") as file:
            start = file.read(80)
            first, blocks = struct.unpack("<QQ", start[72:80] + file.read(8))
            file.seek(first * BLOCK)
            ring = file.read(blocks * BLOCK)
        found = []
        for block in range(blocks):
            header = ring[block * BLOCK:block * BLOCK + 112]
            if header.startswith(JOURNAL_MAGIC):
                found.append((*struct.unpack("<QQ", header[64:80]), first + block))
        return sorted(found)

    # ---- sound pools

    def test_a_sound_pool_has_no_problem(self):
        for more in ((), ("--data",)):
            found, error = self.check(*more)
            self.assertEqual(error, "")
            self.assertEqual((found["problem_count"], found["problems"], found["not_judged"]), (0, [], []))
            main = found["containers"][0]
            self.assertEqual((main["container"], main["files"]["files"], main["files"]["names"]), ("main", 2, 2))
        self.assertIn("container 'main': 1 directory, 2 files, 2 names; ", run("pool", "check", self.pool).stdout)

    def test_a_killed_owner_is_no_problem(self):
        self.kill_a_writer()
        for _ in range(2):
            self.assertGreater(self.check()[0]["replayed_groups"], 10)
        self.assertEqual(self.check("--data")[0]["problem_count"], 0)
        run("ls", self.uri())  # it recovers
        self.assertEqual(self.check("--data")[0]["replayed_groups"], 0)

    def test_a_torn_tail_of_the_journal_is_no_problem(self):
        self.kill_a_writer()
        whole = self.check()[0]["replayed_groups"]
        self.flip(self.device, self.records()[-1][2] * BLOCK + 120)
        found, _ = self.check()
        self.assertEqual((found["problems"], found["replayed_groups"]), ([], whole - 1))

    def test_two_checks_at_once(self):
        with subprocess.Popen([PROGRAM, "pool", "check", "--data", self.pool], stdout=subprocess.DEVNULL) as other:
            self.check()
            self.assertEqual(other.wait(), 0)

    # ---- planted faults

    def test_a_damaged_record_in_the_journal(self):
        self.kill_a_writer()
        records = self.records()
        applied = self.check()[0]["replayed_groups"]
        self.flip(self.device, records[-applied + 2][2] * BLOCK + 120)
        self.problems(says=["the journal record of group", "is damaged", "Copy out what you need"])

    def test_a_flipped_byte_of_data(self):
        with open(self.device, "rb") as file:
            at = file.read().index(CONTENT[:BLOCK])
        self.flip(self.device, at + 100)
        self.assertEqual(self.check()[0]["problem_count"], 0)
        self.problems("--data", says=[f"block {at // BLOCK} of {self.device}", "does not match its checksum",
                                      "restore the file from a copy"])

    def test_a_flipped_byte_of_the_index(self):
        tables = sorted((self.pool / "index").glob("*.sst"), key=lambda path: path.stat().st_size)
        self.flip(tables[-1], 100)
        found, error = self.check(status=1)
        self.assertIn("damaged", error + json.dumps(found))
        self.assertIn("index", error)

    def test_a_truncated_device(self):
        with open(self.device, "r+b") as file:
            file.truncate((64 << 20) - BLOCK)
        self.assertIn("was truncated", self.check(status=1)[1])
        with open(self.device, "r+b") as file:
            file.truncate(100)
        self.assertIn("it was truncated", self.check(status=1)[1])

    # ---- what cannot be checked

    def cannot(self, says, pool=None):
        return self.refused("pool", "check", pool or self.pool, status=2, says=says)

    def test_a_directory_without_a_pool(self):
        self.cannot("there is no pool in", self.scratch)
        self.cannot("is not a directory", self.scratch / "content")
        self.cannot("No such file", self.scratch / "missing")
        (self.pool / "half-made").write_text("\n")
        self.cannot("is incomplete")

    def test_a_pool_with_an_owner(self):
        command = [BIN / "kill_writer", "write", self.uri(), "64", "4", "1"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as writer:
            os.read(writer.stdout.fileno(), 24)
            self.cannot([f"process {writer.pid}", f"kill {writer.pid}"])
            writer.send_signal(signal.SIGKILL)

    def test_a_pool_of_another_format(self):
        form = self.pool / "index" / "FORMAT"
        text = form.read_text()
        form.write_text(text.replace("1", "2"))
        self.cannot(["has format version 2", "made it or a newer one"])
        form.write_text(text)
        for block in (0, (64 << 20) // BLOCK - 1):
            with open(self.device, "r+b") as file:
                file.seek(block * BLOCK)
                copy = bytearray(file.read(BLOCK))
                struct.pack_into("<II", copy, 8, 9, 0)
                struct.pack_into("<I", copy, 12, crc32c(copy))
                file.seek(block * BLOCK)
                file.write(copy)
        self.cannot("format version 9")

    def test_devices_that_are_links(self):
        elsewhere = self.scratch / "elsewhere"
        shutil.move(self.device, elsewhere)
        self.device.symlink_to(elsewhere)
        self.assertEqual(self.check("--data")[0]["problem_count"], 0)
        elsewhere.rename(self.scratch / "away")
        self.cannot(["is a link to", "mount the disk that holds it"])
        self.device.unlink()
        self.cannot("has lost its device files")

    @unittest.skipUnless(os.geteuid() == 0, "only root gives files away")
    def test_files_that_cannot_be_read(self):
        for top, _, names in os.walk(self.scratch):
            for each in [top] + [os.path.join(top, name) for name in names]:
                os.chown(each, 65534, 65534)
        self.assertEqual(self.check()[0]["problem_count"], 0)
        for path in (self.device, self.pool / "index", self.pool / "config.yaml", self.pool / "owner"):
            mode = path.stat().st_mode
            path.chmod(0)
            self.cannot([str(path)])
            path.chmod(mode)

    def test_an_interrupted_growth_is_left_as_it_is(self):
        (self.pool / "growing").write_text("device-1\n")
        with open(self.pool / "device-1", "wb") as file:
            file.truncate(64 << 20)
        self.assertEqual(self.check()[0]["problem_count"], 0)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""usage: lab_test.py SOURCE_DIRECTORY

Tests, without a guest, what ./dev lab says where it cannot run, and the recorded disk that its loss of power
needs."""
import contextlib
import io
import os
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from pathlib import Path
from unittest import mock

SOURCE = sys.argv.pop(1)
sys.path.insert(0, f"{SOURCE}/tools/dev")
os.chdir(SOURCE)
import console  # noqa: E402
import lab  # noqa: E402
from lab import kernel, recorder  # noqa: E402


def lab_command(*words, **environment):
    return subprocess.run([sys.executable, "-B", "tools/dev", "lab", *words], capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, check=False,
                          env={**os.environ, **environment})


def check_says():
    """Returns the tally of ./dev check's lab part, and its output."""
    tally, out = console.Tally("check"), io.StringIO()
    with contextlib.redirect_stdout(out):
        lab.selection(tally)
    return tally, out.getvalue()


class Refusals(unittest.TestCase):
    def test_a_name_that_there_is_not(self):
        done = lab_command("nmve")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no lab suite 'nmve'; there are: hardware, ", done.stdout)

    def test_missing_qemu_is_reported(self):
        done = lab_command("--run", "true", PATH="/nonexistent")
        self.assertEqual(done.returncode, lab.NO_GUEST)
        self.assertIn("there is no qemu-system-x86_64: apt-get install", done.stderr)

    def test_check_without_qemu_says_so_and_continues(self):
        with mock.patch.dict(os.environ, PATH="/nonexistent"):
            tally, said = check_says()
        self.assertEqual((tally.passed, tally.failed), (0, 0))
        self.assertRegex(said, "not run: .*net, .*apt-get install")


class SharedGuests(unittest.TestCase):
    """Tests how suites share a guest, which is a function here: it gets the names of its suites and their kernel,
    and returns what it prints."""

    def setUp(self):
        self.logs = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.object(lab, "LOGS", self.logs))

    def run_suites(self, names, *guests):
        """Returns the tally, the output, and for each guest its kernel and suites."""
        left, booted, tally, out = list(guests), [], console.Tally("lab"), io.StringIO()

        def run(wanted, script, log, *_):
            suites = re.findall(r"^suite (\S+) 60$", Path(script).read_text(), re.MULTILINE)
            booted.append((wanted, suites))
            said = left.pop(0)(suites)
            if said is None:
                raise lab.vm.Failure("it did not boot")
            log.write_text(said)

        with mock.patch.object(kernel, "prepare", lambda wanted=kernel.USUAL: wanted), \
                mock.patch.object(lab.vm, "run", run), contextlib.redirect_stdout(out):
            lab.run_suites(names, 60, tally)
        self.assertEqual(left, [])
        return tally, out.getvalue(), booted

    @staticmethod
    def passes(names):
        return "".join(f"lab: {name} begins\nok   {name}\nlab: {name} ended with 0 after 7 s\n" for name in names)

    def test_suites_with_one_kernel_share_one(self):
        tally, said, booted = self.run_suites(["net", "nvme_newer", "nvme", "nvme_polled", "net"],
                                              self.passes, self.passes)
        self.assertEqual((tally.passed, tally.failed), (4, 0))
        self.assertEqual(booted, [(kernel.USUAL, ["net", "nvme"]),
                                  (lab.KERNELS["nvme_newer"], ["nvme_newer", "nvme_polled"])])
        self.assertIn("ok   nvme (7 s)", said)
        self.assertEqual((self.logs / "nvme.log").read_text(), "ok   nvme\n")

    def test_one_that_fails_leaves_the_others_alone(self):
        failing = "lab: net begins\nFAIL a tree\nlab: net ended with 1 after 3 s\n"
        tally, said, _ = self.run_suites(["net", "nvme"], lambda _: failing + self.passes(["nvme"]))
        self.assertEqual((tally.passed, tally.failed), (1, 1))
        self.assertIn("FAIL net (3 s)", said)
        self.assertIn("FAIL a tree", said)
        self.assertIn("ended with 1", said)

    def test_after_one_that_ends_the_guest_another_guest_runs_the_rest(self):
        tally, said, booted = self.run_suites(
            ["net", "nvme", "rdma"], lambda _: self.passes(["net"]) + "lab: nvme begins\nok   a pool\n", self.passes)
        self.assertEqual((tally.passed, tally.failed), (2, 1))
        self.assertEqual(booted[1][1], ["rdma"])
        self.assertRegex(said, "FAIL nvme .*\n    ok   a pool")
        self.assertIn("the guest ended too early", said)

    def test_a_guest_that_does_not_boot_is_tried_again_for_the_next(self):
        tally, said, booted = self.run_suites(["net", "nvme"], lambda _: None, self.passes)
        self.assertEqual((tally.passed, tally.failed), (1, 1))
        self.assertEqual(booted[1][1], ["nvme"])
        self.assertIn("it did not boot", said)

    def test_the_check_runs_each_suite_in_turn(self):
        turns = set()
        for number in range(len(lab.known())):
            head = types.SimpleNamespace(stdout=f"{number:040x}\n")
            with mock.patch.object(lab.subprocess, "run", return_value=head):
                *always, turn = lab.selected()
            self.assertEqual(always, list(lab.ALWAYS))
            turns.add(turn)
        self.assertEqual(turns | {*lab.ALWAYS}, {*lab.known()})


def request(handle, kind, offset=0, data=b"", flags=0):
    return struct.pack(">IHHQQI", recorder.REQUEST_MAGIC, flags, kind, handle, offset, len(data)) + data


class Client:
    """Speaks to a recorded disk as QEMU does."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self.receive(18)
        self.socket.sendall(struct.pack(">I", 1))
        self.socket.sendall(struct.pack(">QII", recorder.OPTION_MAGIC, recorder.EXPORT_NAME, 0))
        self.receive(10 + 124)

    def receive(self, size):
        return self.socket.recv(size, socket.MSG_WAITALL)

    def send(self, *requests):
        """Sends all requests at once, so that none is answered before the next arrives."""
        self.socket.sendall(b"".join(requests))

    def answers(self, count):
        return {struct.unpack(">IIQ", self.receive(16))[2] for _ in range(count)}


class RecordedDisk(unittest.TestCase):
    SIZE = 16384

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="ros2store-lab-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()
        self.addCleanup(self.end)
        give_up = time.monotonic() + 30
        while not (self.folder / "acknowledged").exists() and time.monotonic() < give_up:
            time.sleep(0.01)
        self.client = Client(self.folder / "disk-0")
        self.addCleanup(self.client.socket.close)

    def serve(self):
        self.record = recorder.record(self.folder, [self.SIZE], self.ended)

    def end(self):
        self.ended.set()
        self.thread.join()

    def left(self, position=None, share=0.0):
        """Returns what a loss of power leaves, with a share of what no flush covers."""
        self.end()
        chosen = random.Random(1)
        with mock.patch.object(chosen, "choice", return_value=share):
            return recorder.after_power_loss(self.record, 0, self.SIZE,
                                             self.record.position if position is None else position,
                                             chosen, 512)

    def test_a_flush_covers_what_was_answered_before_it(self):
        self.client.send(request(1, recorder.WRITE, 0, b"a" * 512))
        self.assertEqual(self.client.answers(1), {1})
        self.client.send(request(2, recorder.FLUSH))
        self.assertEqual(self.client.answers(1), {2})
        self.assertEqual(self.left()[:512], b"a" * 512)
        self.assertEqual(self.left(position=1)[:512], bytes(512))

    def test_flush_counts_once_it_is_acknowledged(self):
        self.client.send(request(1, recorder.WRITE, 0, b"a" * 512))
        self.assertEqual(self.client.answers(1), {1})
        acknowledging = socket.socket(socket.AF_UNIX)
        self.addCleanup(acknowledging.close)
        acknowledging.connect(str(self.folder / "acknowledged"))
        with mock.patch.object(recorder, "FLUSH_SECONDS", 3):
            self.client.send(request(2, recorder.FLUSH), request(3, recorder.READ))
            self.assertEqual(self.client.answers(1), {3})
            acknowledging.sendall(b"too early")
            self.assertEqual(self.client.answers(1), {2})
        self.end()
        (heard, _), = self.record.acknowledged
        self.assertEqual(self.left(position=heard)[:512], bytes(512))
        self.assertEqual(self.left()[:512], b"a" * 512)

    def test_flush_does_not_cover_a_write_sent_with_it(self):
        self.client.send(request(1, recorder.WRITE, 0, b"a" * 512), request(2, recorder.FLUSH))
        self.assertEqual(self.client.answers(2), {1, 2})
        self.assertEqual(self.left()[:512], bytes(512))
        self.assertEqual(self.left(share=1.0)[:512], b"a" * 512)

    def test_forced_writes_need_none(self):
        self.client.send(request(1, recorder.WRITE, 512, b"a" * 512, flags=recorder.FUA))
        self.assertEqual(self.client.answers(1), {1})
        self.assertEqual(self.left()[512:1024], b"a" * 512)

    def test_an_older_write_never_covers_a_younger_one(self):
        for handle, byte in ((1, b"a"), (2, b"b")):
            self.client.send(request(handle, recorder.WRITE, 0, byte * 512))
            self.assertEqual(self.client.answers(1), {handle})
        self.assertEqual(self.left(share=1.0)[:512], b"b" * 512)


if __name__ == "__main__":
    unittest.main()

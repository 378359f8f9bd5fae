"""Tests that hundreds of processes of one user, or hundreds of containers of one tenant, leave room for another
tenant and for an administrator.

usage: many_clients_test.py DIRECTORY-OF-THE-PROGRAMS HOLD-OPEN [unittest options]"""

import contextlib
import subprocess
import sys
import threading
import unittest

from daemons import SIZE, WithDirectory, run

HOLD = sys.argv.pop(1)
MANY = 300


class ManyClients(WithDirectory):
    def setUp(self):
        super().setUp()
        self.up("--size", SIZE)
        run("tenant", "create", self.pool, "alice", "--subject", "CN=alice", "--create", "alice-*",
            "--root-squash", "no")
        self.alice = self.client("hosts", "alice")

    def through_dpu(self, path):
        return f"ros2s+dpu:///pool/{path}?socket={self.pool}/run/dpu.control"

    @contextlib.contextmanager
    def another_tenant(self):
        """Alice opens, writes and reads throughout."""
        source, found = self.scratch / "source", self.scratch / "found"
        source.write_bytes(b"alice" * 1000)
        run("container", "create", self.through_dpu("alice-0"), env=self.alice)
        stop, failures, rounds = threading.Event(), [], []

        def work():
            try:
                while not stop.is_set():
                    found.unlink(missing_ok=True)
                    run("cp", source, self.through_dpu("alice-0/file"), env=self.alice)
                    run("cp", self.through_dpu("alice-0/file"), found, env=self.alice)
                    self.assertEqual(found.read_bytes(), source.read_bytes())
                    run("rm", self.through_dpu("alice-0/file"), env=self.alice)
                    rounds.append(1)
            except AssertionError as failure:
                failures.append(failure)

        working = threading.Thread(target=work)
        working.start()
        try:
            yield
        finally:
            stop.set()
            working.join()
        self.assertEqual(failures, [])
        self.assertGreater(len(rounds), 2)

    def an_administrator_opens(self):
        run("ls", f"ros2s:///pool/main?dir={self.pool}")

    def test_many_processes_of_one_user_leave_room_for_others(self):
        for uri in (f"ros2s:///pool/main?dir={self.pool}", f"ros2s+dpu:///pool/main?dir={self.pool}"):
            with self.subTest(uri), self.another_tenant(), contextlib.ExitStack() as stack:
                for number in range(MANY):
                    process = stack.enter_context(subprocess.Popen(
                        [HOLD, uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
                    self.assertEqual(process.stdout.readline(), "open\n", number)
                self.an_administrator_opens()
            run("container", "destroy", "--yes", self.through_dpu("alice-0"), env=self.alice)

    def test_many_containers_of_one_tenant_leave_room_for_others(self):
        with self.another_tenant():
            for number in range(MANY):
                uri = f"ros2s+dpu:///pool/c-{number}?dir={self.pool}"
                run("container", "create", uri)
                run("ls", uri)
            self.an_administrator_opens()


if __name__ == "__main__":
    unittest.main()

"""Tests what `ros2store up` refuses, and that no process stays afterwards.

usage: refusals_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import os
import shutil
import signal
import socket
import subprocess
import unittest
from pathlib import Path

from daemons import PATIENCE_SECONDS, SIZE, WithDirectory, answer, processes_of, run, wait_until
from program import BIN


class Refusals(WithDirectory):
    def test_too_long_directory_is_refused(self):
        deep = self.scratch / ("d" * 100)
        self.refused("up", deep, "--size", SIZE, says=[str(deep), "too long by", "107"])
        self.assertFalse(deep.exists())

    def test_port_in_use_is_reported(self):
        self.up("--size", SIZE)
        run("down", self.pool)
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            settings = self.pool / "dpu.yaml"
            settings.write_text(settings.read_text().replace(
                'listen: "127.0.0.1:0"', f'listen: "127.0.0.1:{other.getsockname()[1]}"'))
            self.refused("up", self.pool, says=["ros2store-dpu did not start",
                                                f"127.0.0.1:{other.getsockname()[1]}", "ss -ltnp",
                                                "'metrics: listen'"])
        self.assertEqual(processes_of(self.scratch), {})

    def test_errors_are_reported_before_the_pool_is_opened(self):
        """Certificates, addresses and devices are checked first: opening a pool may take minutes."""
        self.up("--size", SIZE, "--provider", "shm, ucx+tcp", "--trusted-network")
        run("down", self.pool)
        settings = self.pool / "engine.yaml"
        whole = settings.read_text(encoding="utf-8")
        control, data = f"unix:{self.pool}/run/engine.control", "ucx+tcp 127.0.0.1:0"

        def told(change, into, *says):
            self.assertIn(change, whole)
            settings.write_text(whole.replace(change, into), encoding="utf-8")
            done = run("--config", settings, program=BIN / "ros2store-engine", expect=1)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            for each in says:
                self.assertIn(each, done.stderr)

        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            address = "127.0.0.1:{}".format(other.getsockname()[1])
            told(control, address, address, "`ss -ltnp`", "choose another", "'control: listen'")
            told(data, f"ucx+tcp {address}", address, "in use", "choose another")
        told(control, "192.0.2.1:0", "192.0.2.1 is not an address of this machine", "ip -brief address")
        told(data, "ucx+tcp 192.0.2.1:0", "not an address of this machine", "ip -brief address")
        told("/certs/storage", "/certs/none", "cannot read", "ros2store certs init")
        told(data, "ucx+rc 127.0.0.1:0", "provider ucx+rc")
        told(data, "ucx_tcp 127.0.0.1:0", "'ucx_tcp 127.0.0.1:0'", "the providers are shm, tls, ucx+tcp")
        trust = 'trusted_network: "loopback"'
        told(trust, "trusted_network: yes", "every user of this machine can reach",
             "'trusted_network: loopback'")
        told(trust, "trusted_network: no", "without a ticket", "trusted_network: yes")
        # Devices for several providers: each provider uses its own.
        settings.write_text(whole.replace("data:", "data:\n  ucx_device: none_0:1, lo", 1),
                            encoding="utf-8")
        self.up()

    def test_daemon_that_never_becomes_ready_is_reported(self):
        """If `up` is interrupted, it ends what it started."""
        (self.scratch / "bin").mkdir()
        for name in ("ros2store", "ros2store-dpu"):
            shutil.copy(BIN / name, self.scratch / "bin" / name)
        engine = self.scratch / "bin/ros2store-engine"
        engine.write_text(f"""#!/bin/sh
case $3 in --print-config) exec '{BIN}/ros2store-engine' "$@" ;; esac
echo begun; exec sleep 600
""")
        engine.chmod(0o755)
        log = self.pool / "run/engine.log"
        with subprocess.Popen([self.scratch / "bin/ros2store", "up", self.pool, "--size", SIZE],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as up:
            self.addCleanup(up.kill)
            wait_until(lambda: log.exists() and "begun" in log.read_text(), "its start")
            # `up` records the process id just after the process starts.
            wait_until(lambda: self.pids()[0] != -1, "its number")
            pid = self.pids()[0]
            self.assertEqual(Path(f"/proc/{pid}/comm").read_text(), "sleep\n")
            up.send_signal(signal.SIGINT)
            up.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(up.returncode, 130)
        self.assertFalse(Path(f"/proc/{pid}").exists())
        self.assertIsNone(answer("status", self.pool)["daemons"][0]["pid"])

    def test_directory_with_a_comma_is_refused(self):
        self.refused("up", self.scratch / "a,b", "--size", SIZE, says=["a,b", "--no-daemons"])
        self.assertEqual(os.listdir(self.scratch), [])

    def test_broken_settings_are_reported(self):
        self.up("--size", SIZE)
        run("down", self.pool)
        settings = self.pool / "engine.yaml"
        whole = settings.read_text()
        settings.write_text("polls: 1\n" + whole)
        self.refused("up", self.pool, says=["ros2store-engine did not start",
                                            f'{settings}:1: there is no setting "polls"'])
        self.assertEqual(processes_of(self.scratch), {})
        settings.write_text(whole)
        dpu = self.pool / "dpu.yaml"
        dpu.write_text(dpu.read_text() + "colour: red\n")
        # The engine did start, and is stopped again.
        self.refused("up", self.pool, says=["ros2store-dpu did not start", str(dpu), "colour"])
        self.assertEqual(processes_of(self.scratch), {})

    def test_socket_of_another_process_is_reported(self):
        self.up("--size", SIZE)
        run("down", self.pool)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(self.pool / "run/engine.data"))
            other.listen()
            self.refused("up", self.pool, says=["run/engine.data", "in use"])
        self.assertEqual(processes_of(self.scratch), {})

    def test_unknown_provider_is_refused(self):
        self.refused("up", self.pool, "--provider", "shm, tcp", says=["'tcp'", "ucx+tcp"])
        self.refused("up", self.pool, "--provider", "ucx +tcp", says=["'ucx +tcp'"])
        self.refused("up", self.pool, "--provider", "shm, ucx+tcp",
                     says=["every user of this machine", "--trusted-network"])
        done = run("up", self.pool, "--no-daemons", "--provider", "shm", expect=2)
        self.assertIn("--provider", done.stderr)
        self.assertFalse(self.pool.exists())

    def test_missing_daemon_program_is_reported(self):
        (self.scratch / "bin").mkdir()
        program = self.scratch / "bin/ros2store"
        shutil.copy(BIN / "ros2store", program)
        self.refused("up", self.pool, "--size", SIZE, program=program,
                     says=["no program ros2store-engine", f"{self.scratch}/bin", "--no-daemons"])
        self.assertFalse(self.pool.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)

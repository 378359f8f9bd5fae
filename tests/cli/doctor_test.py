"""Tests `ros2store doctor` with servers: real daemons, and problems that keep a client from them.

usage: doctor_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import json
import os
import signal
import socket
import unittest

from daemons import SIZE, WithDirectory, run, wait_until


class Doctor(WithDirectory):
    def ask(self, *arguments):
        """Returns the findings. The machine may lack other things."""
        done = run("--json", "doctor", *arguments, expect=None)
        said = json.loads(done.stdout)
        self.assertEqual(done.returncode, 1 if said["missing"] + said["wrong"] else 0, said)
        return said["findings"]

    def found(self, findings, what):
        return [each for each in findings if each["what"] == what]

    def assert_good(self, findings, what, count):
        found = self.found(findings, what)
        self.assertEqual([each["grade"] for each in found], ["ok"] * count, found)
        return [each["found"] for each in found]

    def assert_wrong(self, findings, what, says, remedy):
        """Checks the last of the findings."""
        last = findings[-1]
        self.assertEqual((last["what"], last["grade"]), (what, "wrong"), findings)
        self.assertIn(says, last["found"])
        self.assertIn(remedy, last["remedy"])

    def engine(self):
        return f"ros2s:///pool/main?socket={self.pool}/run/engine.control"

    def by_directory(self, kind=""):
        return f"ros2s{kind}:///pool/main?dir={self.pool}"

    def certs(self, whose):
        return self.pool / "certs" / whose


class Running(Doctor):
    def setUp(self):
        super().setUp()
        self.up("--size", SIZE, "--provider", "shm, ucx+tcp", "--trusted-network")

    def test_servers_that_run(self):
        findings = self.ask(self.pool)
        self.assert_good(findings, "authority", 2)
        self.assert_good(findings, "certificate", 5)
        self.assertIn(f"{self.pool}/run/engine.control",
                      self.assert_good(findings, "connect", 2))
        self.assertIn("CN=server", self.assert_good(findings, "TLS", 2)[0])
        engine, dpu = self.assert_good(findings, "server", 2)
        self.assertRegex(engine, r"^ros2store-engine \d.*, serving$")
        self.assertRegex(dpu, r"^ros2store-dpu \d.*, serving$")
        data = self.assert_good(findings, "data plane", 3)
        self.assertIn(f"shm at {self.pool}/run/engine.data", data)
        # The same with a URI of the engine, which is checked last.
        findings = self.ask(self.engine(), "--certs", self.certs("storage"))
        self.assertEqual(self.assert_good(findings, "server", 1), [engine])
        self.assert_good(findings, "data plane", 2)
        # A thread writes the log. When this line is there, all earlier lines are.
        run("ls", self.by_directory())
        last = "opened by CN=client"
        self.wait_for_line("engine", last)
        log = (self.pool / "run/engine.log").read_text(encoding="utf-8")
        self.assertNotIn("audit", log.partition(last)[0])

        for kind, said in (("", engine), ("+dpu", dpu)):
            self.assertEqual(self.assert_good(self.ask(self.by_directory(kind)), "server", 1),
                             [said])

        # The storage network does not accept a host's certificate.
        findings = self.ask(self.engine(), "--certs", self.certs("hosts"))
        self.assert_good(findings, "connect", 1)
        self.assert_wrong(findings, "TLS", "closes the connection after our certificate", "certs issue DIR client")
        # The port of the data plane does not speak the control plane's protocol.
        port = next(each for each in data if each.startswith("ucx+tcp")).rpartition(":")[2]
        findings = self.ask(f"ros2s://127.0.0.1:{port}/pool/main", "--certs",
                            self.certs("storage"))
        self.assert_wrong(findings, "TLS", "has no TLS", "not that of the data plane")

    def test_hanging_server_is_reported(self):
        pid = self.daemons()["ros2store-engine"]["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            findings = self.ask(self.engine(), "--certs", self.certs("storage"))
            self.assert_wrong(findings, "TLS", "sends nothing", "it may hang: see its log")
            self.refused("ls", self.by_directory(), says=["the daemon hangs, or"])
        finally:
            os.kill(pid, signal.SIGCONT)

    def test_stopped_servers_are_reported(self):
        run("down", self.pool)
        for program in ("ros2store-engine", "ros2store-dpu"):
            self.assertIn({"what": "daemon", "grade": "missing",
                           "found": f"{program} is not running",
                           "remedy": f"ros2store up {self.pool}"}, self.ask(self.pool))
        said = run("doctor", self.pool, expect=1)
        self.assertIn(f"→ ros2store up {self.pool}", said.stdout)
        self.assertNotIn("nothing is missing", said.stdout)

    def test_a_server_on_tcp(self):
        run("down", self.pool)
        self.refused("doctor", self.by_directory(), says=[f"ros2store up {self.pool}"])
        settings = self.pool / "engine.yaml"
        text = settings.read_text(encoding="utf-8")
        self.assertIn('/engine.control"', text)
        settings.write_text(text.replace('/engine.control"', '/engine.control, 127.0.0.1:0"'),
                            encoding="utf-8")
        self.up()
        port = next(each for each in self.daemons()["ros2store-engine"]["addresses"]
                    if each.startswith("control 127.0.0.1:")).rpartition(":")[2]
        for host in ("127.0.0.1", "localhost"):
            findings = self.ask(f"ros2s://{host}:{port}/pool/main", "--certs",
                                self.certs("storage"))
            self.assertEqual(self.assert_good(findings, "connect", 1), [f"127.0.0.1:{port}"])
            self.assert_good(findings, "server", 1)
            self.assert_good(findings, "data plane", 2)

    def test_wrong_server_name_and_dead_server_are_reported(self):
        certs = self.certs("storage")
        run("certs", "issue", certs, "server", "--server", "--name", "elsewhere", "--replace")
        findings = self.ask(self.engine(), "--certs", certs)
        self.assert_wrong(findings, "TLS", "mismatch ('localhost')",
                          "issue DIR server --replace --server --name elsewhere --name localhost")
        # What it says, done.
        run("certs", "issue", certs, "server", "--replace", "--server", "--name", "elsewhere",
            "--name", "localhost")
        self.assert_good(self.ask(self.engine(), "--certs", certs), "TLS", 1)

        pid = self.daemons()["ros2store-engine"]["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.daemons()["ros2store-engine"]["pid"] is None, "the engine's end")
        wrong = [each for each in self.ask(self.pool) if each["grade"] == "wrong"]
        self.assertEqual(wrong[0]["what"], "connect")
        self.assertIn("no process listens", wrong[0]["found"])
        self.assertEqual(wrong[0]["remedy"], f"ros2store up {self.pool}")


class NotRunning(Doctor):
    def test_missing_server_is_reported(self):
        certs = self.scratch / "certs"
        run("certs", "init", certs)
        with socket.socket() as taken:  # and not listened on
            taken.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            for kind, daemon in (("", "engine"), ("+dpu", "dpu")):
                findings = self.ask(f"ros2s{kind}://{address}/pool/main", "--certs", certs)
                self.assert_wrong(findings, "connect", f"no process listens at {address}",
                                  f"systemctl start ros2store-{daemon}")
        findings = self.ask(f"ros2s:///pool/main?socket={self.scratch}/none", "--certs", certs)
        self.assert_wrong(findings, "connect", f"no process listens at {self.scratch}/none", "start")

    def test_a_uri_that_names_no_server(self):
        self.refused("doctor", "ros2s:///pool/main", says=["names no server", "?socket="])
        self.refused("doctor", "ros2s://", says="bad URI")


if __name__ == "__main__":
    unittest.main()

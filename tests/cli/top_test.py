"""Tests `ros2store top` with real daemons under load, and with servers that send whatever a daemon could send.

usage: top_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import contextlib
import http.server
import itertools
import os
import pty
import select
import signal
import socket
import subprocess
import termios
import threading
import time
import unittest

from daemons import PATIENCE_SECONDS, SIZE, WithDirectory, answer, run, wait_until
from program import PROGRAM, Refusal

GAUGES = "ros2store_sessions 1\nros2store_admission_inside 0\nros2store_admission_waiting 0\n"


def page(tenant, count):
    return (f'{GAUGES}ros2store_tenant_requests_total{{tenant="{tenant}"}} {count}\n'
            f'ros2store_tenant_bytes_total{{tenant="{tenant}"}} {count * 1048576}\n')


@contextlib.contextmanager
def server(*pages):
    """Its URL. It serves the pages one after the other, then the last one."""
    left = list(pages)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # noqa: N802: the name is http.server's
            text = (left.pop(0) if len(left) > 1 else left[0]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_address[1]}"
        finally:
            listening.shutdown()
            thread.join()


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *arguments):
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (30, 200))
        self.modes = termios.tcgetattr(slave)
        self.process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=slave, stdout=slave,
                                        stderr=subprocess.PIPE)
        self.slave = slave

    def read_until(self, words):
        """What it writes, up to those words."""
        said, end = "", time.monotonic() + PATIENCE_SECONDS
        while words not in said:
            assert time.monotonic() < end, f"waited in vain for '{words}': {said[-2000:]}"
            if select.select([self.master], [], [], 1)[0]:
                said += os.read(self.master, 65536).decode()
        return said

    def interrupt(self):
        """Its status and its complaints."""
        self.process.send_signal(signal.SIGINT)
        complaints = self.process.communicate(timeout=PATIENCE_SECONDS)[1]
        assert termios.tcgetattr(self.slave) == self.modes
        os.close(self.master)
        os.close(self.slave)
        return self.process.returncode, complaints


class OfDaemons(WithDirectory):
    def load(self):
        """Copies a file through the DPU until the test ends, a second for each copy: most looks find a session."""
        run("tenant", "set", self.pool, "client", "--bytes", "4MiB")
        file = self.scratch / "file"
        file.write_bytes(os.urandom(4 << 20))
        ended = threading.Event()

        def copy():
            while not ended.is_set():
                run("cp", file, f"ros2s+dpu:///pool/main/file?dir={self.pool}", expect=None)

        thread = threading.Thread(target=copy)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(ended.set)

    def top(self, *arguments):
        """By program."""
        return {each["program"]: each
                for each in answer("top", self.pool, "--interval", 1, *arguments)["daemons"]}

    def test_rates_under_load(self):
        self.up("--size", SIZE)
        self.load()
        rates = {}

        def busy():
            for program, daemon in self.top().items():
                self.assertIsNone(daemon["trouble"])
                self.assertGreaterEqual(daemon["seconds"], 1)
                rates[program] = {each["tenant"]: each for each in daemon["tenants"]}
            # Both daemons know the tenant and enforce its rate. The DPU gets its requests first.
            return all(rates[program].get("client", {}).get(f"{each}_per_second", 0) > 0
                       for program, each in (("ros2store-engine", "bytes"),
                                             ("ros2store-dpu", "bytes"),
                                             ("ros2store-dpu", "throttled_seconds"))) \
                and rates["ros2store-dpu"]["client"]["sessions"] >= 1  # not between two copies

        wait_until(busy, "rates")
        mine = rates["ros2store-dpu"]["client"]
        for each in ("requests_per_second", "names_per_second", "latency_p50_seconds",
                     "latency_p99_seconds", "busy_seconds_per_second", "throttled_seconds_per_second"):
            self.assertGreater(mine[each], 0, each)
        self.assertLessEqual(mine["latency_p50_seconds"], mine["latency_p99_seconds"])

        # Without a terminal it prints one table, also without --once.
        for once in ([], ["--once"]):
            lines = run("top", self.pool, "--interval", 3, *once).stdout.splitlines()
            first = next(i for i, line in enumerate(lines)
                         if line.startswith(f"ros2store-dpu of {self.pool}: "))
            self.assertRegex(lines[first], r"requests/s, .* sessions?$")
            self.assertTrue(lines[first + 2].startswith("TENANT "), lines)
            row = next(line for line in lines[first + 3:] if line.startswith("client "))
            requests, names, mib = map(float, row.split()[2:5])
            self.assertGreater(min(requests, names, mib), 0, row)
            self.assertGreater(float(row.split()[9]), 0, row)  # throttled

    def test_rates_of_sessions(self):
        self.up("--size", SIZE)
        self.load()
        for by, name in (("tenant", "client"), ("container", "pool/main"), ("process", "ros2store"),
                         ("mount", "pool/main by ros2store")):
            def shown():
                for daemon in self.top("--by", by).values():
                    self.assertEqual(daemon["by"], by)
                    if not any(each["name"].startswith(name) and each["writes_per_second"] > 0 and
                               each["bytes_per_second"] > 0 and each["sessions"] > 0 for each in daemon["groups"]):
                        return False
                return True

            wait_until(shown, f"rates by {by}")
        lines = run("top", self.pool, "--by", "mount").stdout.splitlines()
        self.assertTrue(any(line.startswith("MOUNT ") for line in lines), lines)
        self.assertTrue(any("WRITES" in line for line in lines), lines)

    def test_mounts_have_changes_that_are_not_durable(self):
        self.up("--size", SIZE)
        uris = {program: f"{scheme}:///pool/main?dir={self.pool}"
                for program, scheme in (("ros2store-engine", "ros2s"), ("ros2store-dpu", "ros2s+dpu"))}
        run("container", "set", uris["ros2store-engine"], "--durability", "fsync")
        ended = threading.Event()

        def write(path):
            for number in itertools.count():
                if ended.is_set():
                    break
                path.write_text(str(number), encoding="ascii")

        writers = []
        for program, uri in uris.items():
            mount_point = self.scratch / program
            mount_point.mkdir()
            run("mount", uri, mount_point)
            writers.append(threading.Thread(target=write, args=[mount_point / program]))
            writers[-1].start()
        try:
            def shown():
                top = self.top("--by", "mount")
                return all(any(each["name"].startswith("pool/main by ros2store-fuse") and
                               each["volatile_changes"] > 0 and each["volatile_bytes"] > 0 and
                               each["volatile_seconds"] > 0 for each in top[program]["groups"]) for program in uris)

            wait_until(shown, "volatile changes of both mounts")
        finally:
            ended.set()
            for writer in writers:
                writer.join()
        for program in uris:
            run("umount", self.scratch / program)

    def test_a_daemon_that_ends_and_comes_back(self):
        self.up("--size", SIZE)
        shown = Terminal("top", self.pool, "--interval", 0.3)
        self.addCleanup(shown.process.kill)
        dpu = f"ros2store-dpu of {self.pool}"
        self.assertIn(f"{dpu}: its rates follow", shown.read_until("\033[J"))
        shown.read_until(f"{dpu}: 0 requests/s")
        os.kill(self.daemons()["ros2store-dpu"]["pid"], signal.SIGKILL)
        said = shown.read_until(f"{dpu}: it does not run; start it with: ros2store up {self.pool}")
        self.assertIn(f"ros2store-engine of {self.pool}: ", said)
        run("up", self.pool)
        said = shown.read_until(" requests/s, ") + shown.read_until(f"{dpu}: 0")
        self.assertNotRegex(said, r" -\d")
        self.assertEqual(shown.interrupt(), (0, b""))

    def test_daemons_without_numbers(self):
        self.refused("top", self.scratch, says=[f"{self.scratch}: no daemons were started here",
                                                f"ros2store up {self.scratch}"])
        self.up("--size", SIZE)
        wrong = self.scratch / "wrong"
        wrong.write_text("guess\n", encoding="ascii")
        self.refused("top", "--once", self.pool, "--password-file", wrong,
                     says=["ros2store-dpu of ", "ros2store-engine of ", "it refuses the password",
                           f"first line of {wrong}", "--password-file"])
        self.refused("top", "--once", self.pool, "--password-file", self.scratch / "none",
                     says=[f"{self.scratch}/none: No such file", "'metrics: password_file'"])

        # The engine hangs, and the DPU daemon has no metrics.
        settings = self.pool / "dpu.yaml"
        text = settings.read_text(encoding="utf-8")
        run("down", self.pool)
        listen = '  listen: "127.0.0.1:0"\n'
        self.assertEqual(text.count(listen), 1)
        settings.write_text(text.replace(listen, ""), encoding="utf-8")
        self.up()
        top = self.top()
        self.assertIn(f"in {settings}, set 'listen' in the group 'metrics'",
                      top["ros2store-dpu"]["trouble"])
        self.assertIn(f'"{self.pool}/run/dpu.metrics"', top["ros2store-dpu"]["trouble"])
        self.assertIsNone(top["ros2store-dpu"]["tenants"])
        self.assertEqual(top["ros2store-engine"]["sessions"], 0)
        engine = self.daemons()["ros2store-engine"]["pid"]
        os.kill(engine, signal.SIGSTOP)
        try:
            self.refused("top", "--once", self.pool, says=["does not answer within 5 s"])
        finally:
            os.kill(engine, signal.SIGCONT)
        run("down", self.pool)
        self.refused("top", self.pool, says=["ros2store-engine of ", "it does not run"])


class OfServers(Refusal):
    def setUp(self):
        super().setUp()
        self.password = ("--password-file", self.scratch / "password")
        self.password[1].write_text("secret\n", encoding="ascii")

    def test_restarted_counters_show_no_negative_rates(self):
        with server(page("CN=a", 1000), page("CN=a", 3)) as url:
            said = run("top", url, "--interval", 0.5, *self.password).stdout
        row = next(line for line in said.splitlines() if line.startswith("CN=a "))
        requests, _, mib = map(float, row.split()[2:5])
        self.assertGreater(requests, 0)
        self.assertLessEqual(requests, 6)
        self.assertGreater(mib, 0)
        self.assertNotIn(" -1", said)

    def test_a_name_cannot_write_to_the_terminal(self):
        with server(page("CN=\x1b]0;x\x07\u009b2J\\n", 1)) as url:
            said = run("top", url, "--interval", 0.1, *self.password).stdout
            self.assertIn(r"CN=\x1b]0;x\x07\xc2\x9b2J\x0a ", said)
            self.assertTrue(all(each == "\n" or " " <= each <= "~" for each in said), said)
            tenants = answer("top", url, "--interval", 0.1, *self.password)["daemons"][0]["tenants"]
            self.assertEqual(tenants[0]["tenant"], "CN=\x1b]0;x\x07\u009b2J\n")

    def test_missing_daemon_leaves_the_others_shown(self):
        with socket.socket() as silent, server(page("CN=a", 1)) as url:
            silent.bind(("127.0.0.1", 0))
            gone = f"http://127.0.0.1:{silent.getsockname()[1]}"
            said = run("top", gone, url, "--interval", 0.1, *self.password).stdout
            self.assertIn(f"{gone}: no process listens at ", said)
            self.assertIn("CN=a ", said)
            self.refused("top", gone, "--once", *self.password, says=["no process listens"])

    def test_server_that_is_no_daemon_is_refused(self):
        with server("<html>\x1b[2J</html>\n") as url:
            self.refused("top", url, *self.password, says=["line 1 is not a metric", "is not a daemon of"])
        with server("go_goroutines 7\n") as url:
            self.refused("top", url, *self.password, says="it has no ros2store_sessions")

    def test_arguments(self):
        self.refused("top", "http://127.0.0.1:1", says=["needs a password", "--password-file"])
        for url in ("http://", "http://127.0.0.1:1/other"):
            self.refused("top", url, *self.password, says="is not an address of metrics")
        self.refused("top", "http://localhost:1", *self.password, says="is not an address: give IP:PORT")
        self.refused("top", "ros2s://192.0.2.1:1/pool/main", says="is on a server")
        for seconds in ("0", "x", "-1", "nan", "4000"):
            self.refused("top", "--interval", seconds, says=["a number of seconds from 0.1 to 3600"],
                         status=2)
        self.refused("top", "--by", "user", says=["--by", "container"], status=2)


if __name__ == "__main__":
    unittest.main()

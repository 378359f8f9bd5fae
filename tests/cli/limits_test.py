"""Tests the limits of a process: open files, file sizes, address space; and how soon a command ends. Under each limit a
command, or a program with the library, works or fails with a sentence that names the limit.

usage: limits_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import os
import resource
import select
import signal
import socket
import subprocess
import threading
import time
import unittest

from program import BIN, PROGRAM, SIZE, UP, Refusal, WithPool, answer, run

MIB = 1 << 20
LEVELS = 1100
WITHIN_SECONDS = 1
# For a machine that other tests load; a hang takes for ever.
SLACK_SECONDS = 4


def limited(**limits):
    """Returns what lowers the limits of a child, by the names in `resource`."""
    def lower():
        for name, most in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    return lower


class Limits(WithPool):
    def test_cp_uses_a_bounded_number_of_descriptors(self):
        tree = self.scratch / "tree"
        for i in range(40):
            (tree / f"d{i}").mkdir(parents=True)
            for j in range(5):
                (tree / f"d{i}/f{j}").write_text("x")
        run("cp", "-r", tree, self.mine("tree"), preexec_fn=limited(NOFILE=48))
        run("cp", "-r", self.mine("tree"), self.scratch / "back", preexec_fn=limited(NOFILE=48))
        done = subprocess.run(["diff", "-r", tree, self.scratch / "back"], check=False)
        self.assertEqual(done.returncode, 0)

    def test_cp_of_a_deep_tree(self):
        # Python's rmtree() is recursive.
        self.addCleanup(subprocess.run, ["rm", "-rf", self.scratch / "d"], check=True)
        here = os.open(self.scratch, os.O_PATH)
        for _ in range(LEVELS):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_PATH, dir_fd=here)
            os.close(here)
            here = below
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=here))
        os.close(here)
        said = run("cp", "-r", self.scratch / "d", self.mine("deep"),
                   preexec_fn=limited(NOFILE=1024)).stdout
        self.assertIn(f"copied 1 file, {LEVELS} directories", said)
        run("rm", "-r", self.mine("deep"))

    def test_file_size_limit_below_the_pool_is_reported(self):
        for words in (("ls", self.mine()), ("mkdir", self.mine("a"))):
            self.refused(*words, says=["device-0", "ulimit -f"],
                         preexec_fn=limited(FSIZE=10 * MIB))
        self.refused(*UP, self.scratch / "p", "--size", SIZE, says="ulimit -f",
                     preexec_fn=limited(FSIZE=10 * MIB))
        self.assertFalse((self.scratch / "p/config.yaml").exists())

    def library(self, **limits):
        """Runs a program with the library that has the default action for SIGXFSZ. Returns (status, its answer)."""
        if not (BIN.parent / "python").is_dir():
            self.skipTest("the Python module is not built")
        text = f"""
import os, signal, ros2store
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
try:
    with ros2store.open({self.mine()!r}).open("x", "w+") as file:
        file.pwrite(b"x" * 3000000, 0)
    print(0)
except (OSError, ImportError) as error:
    print(getattr(error, "errno", None), error)
"""
        done = subprocess.run(["/usr/bin/python3", "-c", text], capture_output=True, text=True, timeout=60,
                              check=False, preexec_fn=limited(**limits),
                              env={**os.environ, "PYTHONPATH": str(BIN.parent / "python")})
        return done.returncode, done.stdout.strip() or done.stderr.strip()

    def test_file_size_limit_is_an_error_and_no_signal(self):
        for most in (0, 10 * MIB):
            status, said = self.library(FSIZE=most)
            self.assertEqual(status, 0, said)
            self.assertTrue(said.startswith("27 "), said)  # EFBIG

    def test_the_library_under_a_limit_on_address_space(self):
        enough = None
        for most in range(100, 1200, 50):
            status, said = self.library(AS=most * MIB)
            self.assertEqual(status, 0, f"{most} MiB: {said}")
            # ENOMEM, EAGAIN (a thread), or the module itself cannot be loaded.
            right = said == "0" or said.startswith(("12 ", "11 ", "None "))
            self.assertTrue(right, f"{most} MiB: {said}")
            # malloc gives a thread a heap of 64 MiB where so much is left, so a little more than enough may not be.
            self.assertTrue(said == "0" or enough is None or most - enough < 256,
                            f"{most} MiB: {said}, and {enough} were enough")
            enough = enough or (most if said == "0" else None)
        self.assertTrue(enough)


@unittest.skipUnless(os.geteuid() == 0, "the limit on threads does not hold for root, who alone can be another user")
class Threads(Refusal):
    USER = 64_987  # has no other process

    def test_the_library_with_few_threads(self):
        if not (BIN.parent / "python").is_dir():
            self.skipTest("the Python module is not built")
        os.chown(self.scratch, self.USER, self.USER)
        pool = self.scratch / "pool"
        run(*UP, pool, "--size", "64M", user=self.USER, group=self.USER, extra_groups=[])
        text = f"""
import ros2store
try:
    with ros2store.open("ros2s+local:///pool/main?dir={pool}").open("x", "w+") as file:
        file.pwrite(b"x" * 3000000, 0)
    print(0)
except OSError as error:
    print(error.errno, error)
"""
        answers = []
        for most in range(1, 16):
            done = subprocess.run(["/usr/bin/python3", "-c", text], capture_output=True, text=True, timeout=60,
                                  check=False, user=self.USER, group=self.USER, extra_groups=[],
                                  preexec_fn=limited(NPROC=most),
                                  env={**os.environ, "PYTHONPATH": str(BIN.parent / "python")})
            self.assertEqual(done.returncode, 0, f"{most} threads: {done.stderr}")
            answers.append(done.stdout.split()[0])
            self.assertIn(answers[-1], ("0", "11"), done.stdout)  # EAGAIN
        self.assertEqual((answers[0], answers[-1]), ("11", "0"))
        self.assertEqual(answers, sorted(answers, reverse=True), "more threads are never worse")


class SilentServer:
    """Accepts connections, and says nothing."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.came = threading.Event()
        self.taken = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                self.taken.append(self.socket.accept())
                self.came.set()
        except OSError:
            return  # closed

    def close(self):
        self.socket.close()
        for each, _ in self.taken:
            each.close()


class Ends(Refusal):
    def setUp(self):
        super().setUp()
        self.server = SilentServer()
        self.addCleanup(self.server.close)
        run("certs", "init", self.scratch / "certs")
        self.env = {**os.environ, "ROS2STORE_CERTS": str(self.scratch / "certs")}

    def ended_by(self, which, *arguments, ready, stdout=subprocess.PIPE):
        with subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL,
                              stdout=stdout, stderr=subprocess.PIPE, env=self.env) as command:
            self.addCleanup(command.kill)
            ready(command)
            begun = time.monotonic()
            command.send_signal(which)
            said = command.communicate(timeout=60)[1]
            took = time.monotonic() - begun
        self.assertEqual(command.returncode, 130, said)
        self.assertLess(took, WITHIN_SECONDS + SLACK_SECONDS)

    def test_a_signal_ends_a_command_that_waits_for_a_server(self):
        for scheme in ("ros2s", "ros2s+dpu"):
            for which in (signal.SIGTERM, signal.SIGINT):
                self.server.came.clear()
                self.ended_by(which, "ls", f"{scheme}://127.0.0.1:{self.server.port}/pool/main",
                              ready=lambda _: self.assertTrue(self.server.came.wait(60)))

    def test_a_signal_ends_a_command_that_the_kernel_blocks(self):
        with open(self.scratch / "large", "wb") as large:
            large.truncate(4 * MIB)
        read_end, write_end = os.pipe()  # nobody reads it
        self.addCleanup(os.close, read_end)
        self.addCleanup(os.close, write_end)
        self.ended_by(signal.SIGTERM, "cat", self.scratch / "large", stdout=write_end,
                      ready=lambda _: self.assertTrue(select.select([read_end], [], [], 60)[0]))

    def test_a_timeout_bounds_opening(self):
        for scheme in ("ros2s", "ros2s+dpu"):
            begun = time.monotonic()
            self.refused("ls", f"{scheme}://127.0.0.1:{self.server.port}/pool/main?timeout=1",
                         says="timeout, 1 s", env=self.env)
            self.assertLess(time.monotonic() - begun, 1 + SLACK_SECONDS)


class Daemons(Refusal):
    def test_a_timeout_bounds_opening_of_daemons_that_stand_still(self):
        pool = self.scratch / "pool"
        self.addCleanup(run, "down", "--kill", pool, expect=None)
        run("up", pool, "--size", "64M")
        pids = [each["pid"] for each in answer("status", pool)["daemons"]]
        library = """
import os, sys, ros2store
try:
    ros2store.open(sys.argv[1])
except OSError as error:
    print(error.errno, error)
"""
        for still in pids, pids[:1]:
            for pid in still:
                os.kill(pid, signal.SIGSTOP)
            for scheme in ("ros2s", "ros2s+dpu"):
                uri = f"{scheme}:///pool/main?dir={pool}&timeout=1"
                begun = time.monotonic()
                self.refused("ls", uri, says="timeout, 1 s")
                if (BIN.parent / "python").is_dir():
                    said = subprocess.run(["/usr/bin/python3", "-c", library, uri], capture_output=True, text=True,
                                          timeout=60, check=False,
                                          env={**os.environ, "PYTHONPATH": str(BIN.parent / "python")})
                    self.assertTrue(said.stdout.startswith("110 "), said.stdout + said.stderr)
                self.assertLess(time.monotonic() - begun, 2 * (1 + SLACK_SECONDS))
            for pid in still:
                os.kill(pid, signal.SIGCONT)

    def test_a_dpu_at_its_limit_of_open_files_is_named(self):
        pool = self.scratch / "pool"
        self.addCleanup(run, "down", "--kill", pool, expect=None)
        run("up", pool, "--size", "64M")
        dpu = next(each["pid"] for each in answer("status", pool)["daemons"] if "dpu" in each["program"])
        uri = f"ros2s+dpu:///pool/main?dir={pool}&timeout=10"
        before = resource.prlimit(dpu, resource.RLIMIT_NOFILE)
        opened = len(os.listdir(f"/proc/{dpu}/fd"))
        for more in (1, 4, 6):
            resource.prlimit(dpu, resource.RLIMIT_NOFILE, (opened + more, before[1]))
            done = run("ls", uri, expect=None)
            if done.returncode != 0:
                self.assertRegex(done.stderr, "open files|open no more files", more)
        resource.prlimit(dpu, resource.RLIMIT_NOFILE, before)
        run("ls", uri)

    def test_up_with_few_open_files(self):
        for most in (20, 22, 24, 26, 28, 48):
            pool = self.scratch / f"pool-{most}"
            self.addCleanup(run, "down", pool, expect=None)
            done = run("up", pool, "--size", "64M", expect=None, timeout=60, preexec_fn=limited(NOFILE=most))
            if done.returncode != 0:
                self.assertIn("open files", done.stderr, most)
        self.assertEqual(done.returncode, 0, done.stderr)


@unittest.skipUnless((BIN.parent / "python").is_dir(), "a sanitizer has the whole address space; no library is built")
class AddressSpace(Refusal):
    """Clients of daemons under ulimit -v: each works, or ends in time with a sentence that names the limit."""

    MOST = 16_000  # MiB; enough for any number of cores

    def setUp(self):
        super().setUp()
        self.pool = self.scratch / "pool"
        self.addCleanup(run, "down", "--kill", self.pool, expect=None)
        run("up", self.pool, "--size", "64M")
        self.uris = [f"{scheme}:///pool/main?dir={self.pool}&timeout=5" for scheme in ("ros2s", "ros2s+dpu")]

    def sweep(self, values, attempt):
        """`attempt`: takes a limit, and returns what a program said, or an empty string if it worked."""
        worked = False
        for most in (*values, self.MOST):
            begun = time.monotonic()
            said = attempt(limited(AS=most * MIB))
            self.assertLess(time.monotonic() - begun, 5 + SLACK_SECONDS, f"{most} MiB")
            if said:
                self.assertIn("ulimit -v", said, f"{most} MiB")
                self.assertFalse(worked, f"{most} MiB: {said}, and less was enough")
            worked = not said
        self.assertTrue(worked)

    def test_commands_of_clients(self):
        (self.scratch / "large").write_bytes(os.urandom(8 * MIB))
        for uri in self.uris:
            def copy(lower, uri=uri):
                done = run("cp", self.scratch / "large", uri.replace("main?", "main/large?"), expect=None,
                           timeout=60, preexec_fn=lower)
                self.assertIn(done.returncode, (0, 1), done.stderr)
                return done.stderr
            self.sweep((76, 90, 130, 230, 260, 300, 340, 450), copy)

    def test_programs_with_the_library(self):
        text = """
import sys, ros2store
try:
    with ros2store.open(sys.argv[1]).open("x", "w+") as file:
        file.pwrite(b"x" * 3000000, 0)
except (OSError, ImportError) as error:
    print(error)
"""
        for uri in self.uris:
            def program(lower, uri=uri):
                done = subprocess.run(["/usr/bin/python3", "-c", text, uri], capture_output=True, text=True,
                                      timeout=60, check=False, preexec_fn=lower,
                                      env={**os.environ, "PYTHONPATH": str(BIN.parent / "python")})
                self.assertEqual(done.returncode, 0, done.stderr)
                return done.stdout
            self.sweep((50, 80, 150, 300, 500, 800, 1000), program)

    def test_mounts(self):
        mount_point = self.scratch / "mount"
        mount_point.mkdir()
        for uri in self.uris:
            def mount(lower, uri=uri):
                done = run("mount", uri, mount_point, expect=None, timeout=60, preexec_fn=lower)
                if done.returncode == 0:
                    (mount_point / "file").write_bytes(bytes(4 * MIB))
                    self.assertEqual((mount_point / "file").read_bytes(), bytes(4 * MIB))
                    subprocess.run(["umount", mount_point], check=True)
                return done.stderr
            self.sweep((90, 130, 240, 300, 340), mount)


if __name__ == "__main__":
    unittest.main()

"""Tests `ros2store up` with daemons, as a person uses it: real processes in the background.

usage: daemons_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from daemons import SIZE, TIMEOUT_SECONDS, WithDirectory, answer, processes_of, run, wait_until
from program import BIN, PROGRAM


def listens_on_networks(pid):
    """Returns the TCP ports on which a process listens."""
    sockets = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(os.readlink(each))
        except FileNotFoundError:  # closed meanwhile
            continue
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def ports_of(daemon):
    """Returns the ports that the daemon reports."""
    return {int(address.rpartition(":")[2]) for address in daemon["addresses"]
            if " 127.0.0.1:" in address}


class Life(WithDirectory):
    def test_daemons_start_stop_and_start_again(self):
        up = self.up("--size", SIZE)
        self.assertTrue(up["made"])
        self.assertEqual([each["program"] for each in up["daemons"]],
                         ["ros2store-engine", "ros2store-dpu"])
        self.assertEqual(set(up["uris"]), {"offload", "direct", "local"})
        status = answer("status", self.pool)
        engine, dpu = status["daemons"]
        self.assertEqual(processes_of(self.scratch), {engine["pid"]: "ros2store-engine",
                                                      dpu["pid"]: "ros2store-dpu"})
        self.assertEqual(status["owner"]["pid"], engine["pid"])
        self.assertIn(f"control unix:{self.pool}/run/engine.control", engine["addresses"])
        # Only connections with a ticket are accepted: no port of UCX or libfabric is open by default.
        self.assertEqual(listens_on_networks(engine["pid"]), ports_of(engine))
        self.assertEqual(listens_on_networks(dpu["pid"]), ports_of(dpu))
        self.assertEqual({address.split(" ")[0] for address in engine["addresses"]},
                         {"control", "shm", "metrics"})
        self.assertLessEqual(abs(engine["since"] - time.time()), 600)
        for each in status["daemons"]:
            self.assertEqual(os.getsid(each["pid"]), each["pid"], "in a session of its own")
            self.wait_for_line(each["program"].removeprefix("ros2store-"), "ready")
        self.assertEqual([each["sessions"] for each in (engine, dpu)], [0, 0])
        said = run("status", self.pool).stdout
        self.assertRegex(said, f"ros2store-dpu: process {dpu['pid']}, since 20.*, 0 sessions")

        down = answer("down", self.pool)
        self.assertEqual([each["changed"] for each in down["daemons"]], [True, True])
        self.assertEqual(processes_of(self.scratch), {})
        self.assertIn("everything is closed", (self.pool / "run/engine.log").read_text())
        self.assertIn("open by     no process", run("status", self.pool).stdout)

        again = self.up()
        self.assertFalse(again["made"])
        self.assertEqual([each["changed"] for each in again["daemons"]], [True, True])
        self.assertNotEqual(self.pids(), [engine["pid"], dpu["pid"]])
        run("down", self.pool)
        self.assertIn("no process has", run("down", self.pool).stdout)  # a second one is no error

    def test_second_up_changes_nothing(self):
        self.up("--size", SIZE)
        before = self.pids()
        settings = (self.pool / "engine.yaml").read_bytes()
        again = self.up("--size", SIZE)
        self.assertEqual([each["changed"] for each in again["daemons"]], [False, False])
        self.assertIn("ran already", run("up", self.pool).stdout)
        self.assertEqual(self.pids(), before)
        self.assertEqual((self.pool / "engine.yaml").read_bytes(), settings)
        self.refused("up", self.pool, "--size", "128M", says=["already", "--size", "pool grow"])
        self.refused("up", self.pool, "--pool", "other", says=["'pool'", "--pool"])
        self.refused("up", "--no-daemons", self.pool, says="already")

    def test_killed_engine_is_reported_and_restarted(self):
        self.up("--size", SIZE)
        engine, dpu = self.pids()
        os.kill(engine, signal.SIGKILL)
        wait_until(lambda: self.daemons()["ros2store-engine"]["pid"] is None, "the engine's end")
        status = answer("status", self.pool)
        self.assertEqual(status["daemons"][0]["ended_pid"], engine)
        self.assertEqual(status["daemons"][1]["pid"], dpu)
        said = run("status", self.pool).stdout
        self.assertIn(f"ros2store-engine has ended (process {engine}): it was killed, "
                      "or exited without an error message", said)
        self.assertEqual(status["daemons"][0]["last_words"], "")
        self.assertIn(f"its log: {self.pool}/run/engine.log", said)
        self.assertIn(f"ros2store up {self.pool}", said)
        again = self.up()
        self.assertEqual([each["changed"] for each in again["daemons"]], [True, False])
        # A daemon that was stopped is reported differently.
        engine = self.pids()[0]
        os.kill(engine, signal.SIGTERM)
        wait_until(lambda: self.daemons()["ros2store-engine"]["pid"] is None, "the engine's end")
        self.assertIn("a signal stopped it, and it closed everything",
                      run("status", self.pool).stdout)
        self.up()
        engine = self.pids()[0]
        os.kill(engine, signal.SIGKILL)
        os.kill(dpu, signal.SIGKILL)
        wait_until(lambda: self.pids() == [None, None], "their end")
        said = run("down", self.pool).stdout
        self.assertIn(f"ros2store-engine had ended before (process {engine})", said)
        self.assertFalse((self.pool / "run/engine.control").exists())
        self.assertNotIn("has ended", run("status", self.pool).stdout)

    def test_commands_name_the_killed_daemon(self):
        """Commands say which program does not run, and what starts it, without gRPC's words."""
        uris = self.up("--size", SIZE)["uris"]
        engine, dpu = self.pids()
        # The report of its end contains its last error.
        with open(self.pool / "run/dpu.log", "a", encoding="ascii") as log:
            log.write("2026-11-21T00:00:00.000000Z error: the device is on fire\n"
                      "2026-11-21T00:00:01.000000Z info: session 1 ended\n")
        for pid, way in ((dpu, "offload"), (engine, "direct")):
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: pid not in processes_of(self.scratch), "its end")
            for command in ("ls", "cat", "stat"):
                said = self.refused(command, uris[way],
                                    says=["does not answer: nothing listens there",
                                          f"ros2store up {self.pool}"])
                for word in ("failed to connect", "UNKNOWN", "last error", "errno"):
                    self.assertNotIn(word, said)
        said = run("status", self.pool).stdout
        self.assertIn(f"ros2store-dpu has ended (process {dpu}): its last error was: "
                      "the device is on fire", said)

    def test_dpu_reports_its_missing_engine(self):
        """The DPU daemon, its log, counters and hosts say which process is away, and since when."""
        uri = self.up("--size", SIZE)["uris"]["offload"]
        engine, dpu = self.pids()
        address = next(each for each in self.daemons()["ros2store-dpu"]["addresses"]
                       if each.startswith("metrics ")).partition(" ")[2]

        # Other users of the machine cannot read it.
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://{address}/metrics", timeout=60)
        self.assertEqual(refused.exception.code, 401)
        password = self.pool / "run/dpu.metrics"
        self.assertEqual(password.stat().st_mode & 0o777, 0o600)
        basic = base64.b64encode(f"any:{password.read_text().strip()}".encode()).decode()
        request = urllib.request.Request(f"http://{address}/metrics",
                                         headers={"Authorization": f"Basic {basic}"})

        def counted(value):
            with urllib.request.urlopen(request, timeout=60) as counters:
                found = [line for line in counters.read().decode().splitlines()
                         if line.startswith("ros2store_engine_reachable{")]
            self.assertEqual(len(found), 1, found)
            self.assertIn('pool="pool"', found[0])
            return found[0].endswith(f" {value}")

        def lines(words):
            log = (self.pool / "run/dpu.log").read_text(encoding="utf-8")
            return [line for line in log.splitlines() if words in line]

        self.assertTrue(counted(1))
        for turn in (1, 2):
            os.kill(engine, signal.SIGKILL)
            wait_until(lambda: counted(0), "the news of the engine's end")
            wait_until(lambda: len(lines("cannot be reached")) == turn, "the log's line")
            self.assertIn("the engine or cluster of the pool 'pool' has been unreachable since 20",
                          self.daemons()["ros2store-dpu"]["trouble"])
            if turn == 1:
                found = json.loads(run("--json", "doctor", self.pool, expect=1).stdout)["findings"]
                wrong = next(each for each in found if each["what"] == "engine")
                self.assertIn("of the pool 'pool' behind this DPU", wrong["found"])
                self.assertEqual(wrong["remedy"], f"ros2store up {self.pool}")
                # After the documented half minute, the error on the host names the engine as the cause.
                said = self.refused("ls", uri, says=["cannot reach the engine behind it since 20",
                                                     f"ros2store up {self.pool}"])
                self.assertNotIn("engine.control", said)
            self.up()
            wait_until(lambda: len(lines("is back after")) == turn, "the log's line")
            self.assertTrue(counted(1))
            self.assertNotIn("cannot reach", self.daemons()["ros2store-dpu"]["trouble"] or "")
            self.assertEqual(run("ls", uri).stdout, "")
            engine, still = self.pids()
            self.assertEqual(still, dpu)
        went = lines("cannot be reached")
        self.assertEqual(len(went), 2)
        for part in (" warning: ", f"the engine at unix:{self.pool}/run/engine.control",
                     "the pool 'pool'", "start ros2store-engine there"):
            self.assertIn(part, went[0])

    def test_up_right_after_a_kill_succeeds(self):
        """A killed daemon holds its lock until the kernel has removed the process."""
        self.up("--size", SIZE)
        for turn in range(10):
            victim = turn % 2
            pids = self.pids()
            os.kill(pids[victim], signal.SIGKILL)
            again = self.up()
            self.assertEqual([each["changed"] for each in again["daemons"]],
                             [victim == 0, victim == 1])
            self.assertEqual(self.pids()[1 - victim], pids[1 - victim])

    def test_directory_with_odd_characters_is_served(self):
        self.pool = self.scratch / "my pool, 50%41 #1?"
        self.refused("up", self.pool, "--size", SIZE, says="comma")
        # Messages of gRPC have only UTF-8, and later nothing could open it.
        self.pool = self.scratch / os.fsdecode(b"p\xff\xfe")
        self.refused("up", self.pool, "--size", SIZE, says="is not UTF-8")
        self.assertFalse(self.pool.exists())
        self.pool = self.scratch / "my pool; 50%41 #1? é \"'\\"
        self.up("--size", SIZE)
        self.assertEqual(answer("status", self.pool)["containers"], ["main"])
        run("down", self.pool)

    @unittest.skipUnless(os.geteuid() == 0 and subprocess.run(
        ["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0, "no network namespaces here")
    def test_machine_without_ipv4_loopback_is_served(self):
        for lo, listens in (("up; ip addr del 127.0.0.1/8 dev lo", "metrics [::1]:"), ("up; ip addr del 127.0.0.1/8 dev lo; ip addr del ::1/128 dev lo", None)):
            with self.subTest(lo=lo):
                subprocess.run(["unshare", "-n", "sh", "-c", f'ip link set lo {lo}; "$0" up "$1" --size {SIZE}',
                                BIN / "ros2store", self.pool], check=True, capture_output=True)
                run("ls", f"ros2s+dpu:///pool/main?dir={self.pool}")
                for daemon in self.daemons().values():
                    metrics = [each for each in daemon["addresses"] if each.startswith("metrics")]
                    self.assertEqual(len(metrics), listens is not None)
                    self.assertTrue(all(each.startswith(listens) for each in metrics))
                run("down", self.pool)
                run("pool", "destroy", "--yes", self.pool)

    @unittest.skipUnless(os.geteuid() == 0 and subprocess.run(
        ["unshare", "-m", "umount", "-l", "/proc"], capture_output=True, check=False).returncode == 0,
        "no mount namespaces here")
    def test_machine_without_proc_is_served(self):
        uri = f"ros2s+dpu:///pool/main?dir={self.pool}"
        script = ('umount -l /proc; set -e; "$0" up "$1" --size "$2"; "$0" ls "$3"; '
                  '"$0" status "$1"; "$0" down "$1"')
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, BIN / "ros2store", self.pool, SIZE, uri],
                              check=False, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)

    def assert_dpu_uses(self, provider):
        """The DPU opens sessions with the engine for its hosts."""
        run("ls", f"ros2s+dpu:///pool/main?dir={self.pool}")
        self.wait_for_line("dpu", f"the pool 'pool' for the tenant 'client': {provider} to ")

    def test_dpu_uses_the_given_provider(self):
        self.up("--size", SIZE, "--provider", "ofi+tcp;ofi_rxm, ucx+tcp", "--trusted-network")
        self.wait_for_line("engine", "warning: ofi+tcp;ofi_rxm 127.0.0.1:0 trusts its network")
        self.assert_dpu_uses("ofi+tcp;ofi_rxm")
        self.refused("up", self.pool, "--provider", "shm", says=["ofi+tcp;ofi_rxm", "ros2store down"])
        run("down", self.pool)
        self.refused("up", self.pool, "--provider", "ucx+tcp", says=["--trusted-network"])
        self.up("--provider", "ucx+tcp", "--trusted-network")
        self.assert_dpu_uses("ucx+tcp")
        run("down", self.pool)
        self.up("--provider", "shm")
        self.assertIn('providers: "shm"', (self.pool / "dpu.yaml").read_text())
        self.assert_dpu_uses("shm")

    def test_a_provider_that_the_settings_do_not_allow(self):
        self.up("--size", SIZE)
        run("down", self.pool)
        engine, dpu = self.pool / "engine.yaml", self.pool / "dpu.yaml"
        before = engine.read_text() + dpu.read_text()
        options = ("--provider", "tls, ucx+tcp", "--trusted-network")
        self.refused("up", self.pool, *options, says=[
            f"in {engine}, add ', tls 127.0.0.1:0' to 'listen' of 'data'", "', ucx+tcp 127.0.0.1:0'",
            f"in {engine}, set 'trusted_network' of 'data' to loopback",
            f"in {dpu}, set 'trusted_network' of 'engine' to loopback"])
        self.assertEqual(engine.read_text() + dpu.read_text(), before)
        for settings in (engine, dpu):  # what it says, done
            text = settings.read_text().replace('#   trusted_network: "no"', "  trusted_network: loopback")
            settings.write_text(text.replace('engine.data"', 'engine.data, tls 127.0.0.1:0, ucx+tcp 127.0.0.1:0"'))
        self.up(*options)
        self.assert_dpu_uses("tls")

    def uri(self, container):
        return f"ros2s+local:///pool/{container}?dir={self.pool}"

    def test_pool_commands_ask_the_engine(self):
        self.up("--size", SIZE)
        run("container", "create", self.uri("second"), "--chunk", "64K")
        listed = answer("container", "list", self.pool)["containers"]
        self.assertEqual([(each["container"], each["encryption"]) for each in listed],
                         [("main", "none"), ("second", "none")])
        one = answer("container", "query", self.uri("second"))
        self.assertEqual(one["chunk_bytes"], 64 << 10)
        for command in (("status",), ("pool", "query")):
            told = answer(*command, self.pool)
            self.assertEqual(told["containers"], ["main", "second"])
            self.assertGreater(told["free_bytes"], 0)
            self.assertLessEqual(told["free_bytes"], told["total_bytes"])
        self.assertRegex(run("status", self.pool).stdout, r"containers +main, second\n")
        self.refused("container", "create", self.uri("second"), says="second")
        self.refused("container", "query", self.uri("none"), says="none")
        self.refused("container", "query", self.uri("main").replace("/pool/", "/other/"),
                     says=["'pool'", "'other'"])
        run("container", "destroy", "--yes", self.uri("main"))
        # The paths that `up` prints exist.
        self.assertEqual(self.up()["container"], "second")
        self.refused("up", self.pool, "--container", "main", says=["'main'", "container create"])
        disk = self.scratch / "disk"
        disk.mkdir()
        grow = ["pool", "grow", str(self.pool), "--size", "64M", "--device-dir", str(disk)]
        commands = [["down", str(self.pool)], grow, ["up", str(self.pool)]]
        self.refused(*grow,
                     says=["ros2store-engine",
                           " && ".join(f"ros2store {' '.join(each)}" for each in commands)])
        for command in commands:
            run(*command)
        self.assertEqual(len(answer("status", self.pool)["devices"]), 2)
        run("down", self.pool)
        self.assertEqual(answer("container", "query", self.uri("second"))["id"], one["id"])

    def test_a_pool_that_lost_a_device_is_stopped(self):
        disk = self.scratch / "disk"
        disk.mkdir()
        self.up("--size", "128M", "--devices", "2", "--device-dir", disk)
        device = self.pool / "device-1"
        there = os.readlink(device)
        device.unlink()
        device.symlink_to(self.scratch / "gone")
        self.refused("up", self.pool, says="device-1")
        run("down", self.pool)
        device.unlink()
        device.symlink_to(there)
        self.up()
        run("down", self.pool)

    def test_each_uri_shows_the_same_files(self):
        uris = self.up("--size", SIZE)["uris"]
        run("cp", __file__, uris["offload"].replace("?", "/one?"))
        for way, uri in uris.items():
            with self.subTest(way=way):
                self.assertEqual(run("cat", uri.replace("?", "/one?")).stdout,
                                 Path(__file__).read_text())
                path = answer("why", uri.replace("?", "/one?"))["io_path"]
                engine = r"engine, .+, 1 device"
                self.assertRegex(path, rf"^host link over shm to the DPU at \S+, \S+ to its {engine}$"
                                 if way == "offload" else rf"^shm to \S+, {engine}$")
        # The DPU in the URI is queried, not the directory.
        made = uris["offload"].replace("main", "second")
        run("container", "create", made)
        self.wait_for_line("dpu", "CN=client (unix:) created the container pool/second")
        self.assertEqual(answer("ls", made)["entries"], [])
        self.assertEqual([each["container"] for each in answer("container", "list", uris["offload"])["containers"]],
                         ["main", "second"])

    @unittest.skipUnless(os.access("/dev/fuse", os.R_OK | os.W_OK), "no FUSE here")
    def test_why_traces_all_processes(self):
        self.up()
        uri = f"ros2s+dpu:///pool/main/file?dir={self.pool}"
        source = self.pool.parent / "source"
        source.write_bytes(os.urandom(10000))
        run("cp", source, uri)
        file = self.pool.parent / "trace.json"
        told = answer("why", "--write", uri, "--trace-file", file)
        for request, last in (("read", "device.read"), ("write", "device.flush")):
            names = [step["step"] for step in told[request]["steps"]]
            for name in ("rpc.call", "dpu.serve", "engine.serve", last):
                self.assertIn(name, names, told[request])
        events = json.loads(file.read_text())["traceEvents"]
        processes = {event["pid"]: event["args"]["name"] for event in events
                     if event["name"] == "process_name"}
        self.assertEqual(sorted(processes.values()), ["dpu", "engine", "host"])
        steps = [event for event in events if event["ph"] == "X"]
        for event in steps:
            self.assertGreaterEqual(event["ts"], 0)
            self.assertGreaterEqual(event["dur"], 0)
            self.assertIn(event["pid"], processes)
        where = {(event["name"], processes[event["pid"]]) for event in steps}
        for step in (("rpc.call", "host"), ("rpc.call", "dpu"), ("device.read", "engine"),
                     ("journal.write", "engine"), ("device.flush", "engine")):
            self.assertIn(step, where)
        # Each step is within the time of the server's step that contains it.
        for name in ("dpu.serve", "engine.serve"):
            for whole in (event for event in steps if event["name"] == name):
                for part in steps:
                    if (part["pid"], part["tid"]) == (whole["pid"], whole["tid"]):
                        self.assertGreaterEqual(part["ts"] + 0.01, whole["ts"])
                        self.assertLessEqual(part["ts"] + part["dur"],
                                             whole["ts"] + whole["dur"] + 0.01)
        run("why", uri, "--trace-file", "/nowhere/x", expect=1)

    def test_down_unmounts(self):
        uris = self.up("--size", SIZE)["uris"]
        mount_point = self.scratch / "mount"
        mount_point.mkdir()
        run("mount", uris["offload"], mount_point)
        (mount_point / "one").write_text("1")
        status = answer("status", self.pool)
        self.assertEqual(status["mounts"], [str(mount_point)])
        self.assertEqual(status["daemons"][1]["sessions"], 1)
        self.assertEqual(run("cat", uris["direct"].replace("?", "/one?")).stdout, "1")
        with open(mount_point / "one", encoding="ascii"):
            self.refused("down", self.pool, says=[str(mount_point), "in use"])
        self.assertEqual(len(processes_of(self.scratch)), 3)  # both daemons, and the mount's
        down = answer("down", self.pool)
        self.assertEqual(down["all_unmounted"], [str(mount_point)])
        self.assertFalse(os.path.ismount(mount_point))
        wait_until(lambda: not processes_of(self.scratch), "the mount's process")

    def test_sync_and_umount_of_a_container_with_durability_fsync(self):
        self.up("--size", SIZE, "--no-daemons")
        uri = f"ros2s+local:///pool/main?dir={self.pool}"
        run("container", "set", uri, "--durability", "fsync")
        mount_point = self.scratch / "mount"
        mount_point.mkdir()
        run("mount", uri, mount_point)
        (mount_point / "one").write_text("1")
        self.assertEqual(answer("sync", mount_point / "one")["durable"], str(mount_point / "one"))
        self.assertIn("everything is durable", run("why", mount_point / "one").stdout)
        # At most for a second, and perhaps less on a busy machine.
        def says_what_waits():
            (mount_point / "one").write_text("12345")
            return answer("status", self.pool)["unsynced"][str(mount_point)]["changes"] > 0
        wait_until(says_what_waits, "changes that are not durable")
        wait_until(lambda: f"{mount_point}: everything is durable" in run("status", self.pool).stdout,
                   "the end of the second")
        (mount_point / "one").write_text("1")
        self.refused("sync", self.scratch, says=["no mount of ros2store"])
        self.refused("sync", mount_point / "none", says=["cannot open", "No such file"])
        self.refused("umount", self.scratch, says=["no mount of ros2store"])
        with open(mount_point / "one", encoding="ascii"):
            self.refused("umount", mount_point, says=[str(mount_point), "in use"])
        self.assertEqual(answer("umount", mount_point)["unmounted"], str(mount_point))
        self.assertFalse(os.path.ismount(mount_point))
        self.refused("umount", mount_point, says=["no mount of ros2store"])
        wait_until(lambda: not processes_of(self.scratch), "the mount's process")
        self.assertEqual(run("cat", uri.replace("?", "/one?")).stdout, "1")

    def test_space_of_removed_files_comes_back_after_each_start(self):
        """An engine waits for clients that may have files open, and for no others."""
        mount_point = self.scratch / "mount"
        mount_point.mkdir()

        def expect_space_comes_back(when):
            with open(mount_point / "large", "wb") as file:
                file.write(bytes(range(256)) * (16 << 12))
            before = os.statvfs(mount_point).f_bfree
            os.unlink(mount_point / "large")
            end = time.monotonic() + 12  # without the list it takes 30 s
            while os.statvfs(mount_point).f_bfree - before < (12 << 20) // 4096:
                self.assertLess(time.monotonic(), end, when)
                time.sleep(0.1)

        for when in ("the first start", "a start after an orderly end"):
            uris = self.up("--size", SIZE)["uris"] if when == "the first start" else self.up()["uris"]
            run("mount", uris["offload"], mount_point)
            expect_space_comes_back(when)
            if when == "the first start":
                run(mount_point, program="umount")
                run("down", self.pool)
        with open(mount_point / "kept", "w+b", buffering=0) as kept:
            kept.write(b"content")
            os.unlink(mount_point / "kept")
            os.kill(self.pids()[0], signal.SIGKILL)
            wait_until(lambda: self.daemons()["ros2store-engine"]["pid"] is None, "the engine's end")
            self.up()
            expect_space_comes_back("a start after a kill, with the only client still there")
            self.assertEqual(os.pread(kept.fileno(), 100, 0), b"content")

    def test_an_engine_that_hangs(self):
        uris = self.up("--size", SIZE)["uris"]
        engine, _ = self.pids()
        mount_point = self.scratch / "mount"
        mount_point.mkdir()
        run("mount", uris["offload"], mount_point)
        os.kill(engine, signal.SIGSTOP)
        status = answer("status", self.pool)
        self.assertEqual((status["mounts"], status["dead_mounts"]), ([str(mount_point)], []))
        self.assertIsNone(status["containers"])
        self.assertTrue(status["trouble"])
        hung, well = status["daemons"]
        self.assertEqual((hung["pid"], hung["sessions"]), (engine, None))
        self.assertIn("not answered", hung["trouble"])
        self.assertIn("the engine or cluster of the pool 'pool' has been unreachable", well["trouble"])
        down = run("down", "--kill", self.pool).stdout
        self.assertIn("killed ros2store-engine", down)
        self.assertIn(f"unmounted {mount_point}, which did not answer", down)
        self.assertFalse(os.path.ismount(mount_point))
        left = processes_of(self.scratch)
        self.assertLessEqual(set(left.values()), {"ros2store-fuse"})
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # it would wait for the daemons first

    def test_down_says_what_it_waits_for(self):
        self.up("--size", SIZE)
        _, dpu = self.pids()
        os.kill(dpu, signal.SIGSTOP)
        try:
            down = subprocess.Popen([PROGRAM, "down", self.pool], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True)
            self.addCleanup(down.kill)
            said = down.stderr.readline()
        finally:
            os.kill(dpu, signal.SIGCONT)
        self.assertIn(f"ros2store-dpu (process {dpu}) has not ended yet", said)
        self.assertIn("down --kill", said)
        self.assertIn("no process has", down.communicate(timeout=TIMEOUT_SECONDS)[0])

    def test_destroy_of_a_served_pool_is_refused(self):
        self.up("--size", SIZE)
        engine, _ = self.pids()
        self.refused("pool", "destroy", "--yes", self.pool,
                     says=[f"process {engine}", f"ros2store down {self.pool}"])
        self.assertTrue((self.pool / "certs/storage/ca.crt").exists())
        run("down", self.pool)
        run("pool", "destroy", "--yes", self.pool)
        self.assertFalse(self.pool.exists())

    def test_down_spares_an_unrelated_process(self):
        self.up("--size", SIZE)
        run("down", self.pool)
        with subprocess.Popen(["sleep", "600"]) as stranger:
            self.addCleanup(stranger.kill)
            (self.pool / "run/engine.pid").write_text(f"pid: {stranger.pid}\nsince: 1\n")
            run("down", "--kill", self.pool)
            self.assertIsNone(stranger.poll())
            stranger.kill()


# In its own mount namespace: a socket at the path of the journal's, and the program that writes to it.
JOURNAL = """
import os, pathlib, signal, socket, subprocess, sys
subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
pathlib.Path("/run/systemd/journal").mkdir(parents=True)
journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
journal.bind("/run/systemd/journal/socket")
journal.settimeout(60)
errors, into = os.pipe()
of = os.fstat(into)
daemon = subprocess.Popen(sys.argv[1:], stderr=into, stdin=subprocess.DEVNULL, stdout=into,
                          env=os.environ | {"JOURNAL_STREAM": f"{of.st_dev}:{of.st_ino}"})
os.close(into)
said = ""
while "MESSAGE=stopped" not in said:
    entry = journal.recv(65536).decode()
    if "MESSAGE=ready\\n" in entry:
        daemon.send_signal(signal.SIGTERM)
    said += entry + "---\\n"
status = daemon.wait(60)
sys.stdout.write(said)
sys.stdout.write("STDERR=" + os.read(errors, 65536).decode())
sys.exit(status)
"""


class Log(WithDirectory):
    def test_lines_have_time_and_fields(self):
        uris = self.up("--size", SIZE)["uris"]
        run("ls", uris["offload"])
        self.wait_for_line("dpu", "of CN=client ended")
        log = (self.pool / "run/dpu.log").read_text()
        self.assertRegex(log, r"(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z info: ready$")
        self.assertRegex(log, r"(?m)^\S+Z info: session (\d+) opened by CN=client for link of pool "
                              r'pool \(.*\) \[session=\1 tenant="CN=client" peer=unix: action=session pool=pool '
                              r'decision=allowed reason=none\]$')
        self.assertRegex(log, r'(?m) info: session (\d+) of CN=client ended \[session=\1 ')

    @unittest.skipUnless(os.geteuid() == 0 and subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/run"], capture_output=True,
        check=False).returncode == 0, "no mount namespaces here")
    def test_entries_of_the_journal(self):
        self.up("--size", SIZE)
        run("down", self.pool)
        done = subprocess.run(
            ["unshare", "-m", sys.executable, "-c", JOURNAL,
             BIN / "ros2store-engine", "--config", self.pool / "engine.yaml"],
            capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        entries = done.stdout.split("---\n")
        self.assertIn("MESSAGE=ready\nPRIORITY=6\nSYSLOG_IDENTIFIER=ros2store-engine\n", entries)
        self.assertEqual(entries[-1], "STDERR=", "nothing twice")


if __name__ == "__main__":
    unittest.main(verbosity=2)

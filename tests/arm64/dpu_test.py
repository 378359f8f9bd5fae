"""Runs an arm64 DPU daemon between an amd64 host and an amd64 engine, as with a BlueField. The DPU's program
runs under qemu-user, everything else natively. Both architectures therefore use each format on the wires and
in shared memory.

usage: dpu_test.py NATIVE-BUILD ARM64-BUILD SYSROOT [unittest options]"""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

NATIVE, ARM64, SYSROOT = (Path(sys.argv.pop(1)) for _ in range(3))
EMULATED = ["qemu-aarch64-static", "-L", SYSROOT]
PATIENCE_SECONDS = 120
PROMISE_BYTES = 24  # an acknowledgement of kill_writer
TREE = Path("/usr/include/fmt")
ENGINE = """
pools: {scratch}/pool
access: {{"CN=client": {{write: pool/*}}}}
control: {{listen: "unix:{scratch}/engine.ctl", certificates: {scratch}/certs}}
data: {{listen: "ucx+tcp 127.0.0.1:0", trusted_network: loopback}}
"""
DPU = """
pools: pool
access: {{"CN=client": {{write: pool/*}}}}
engine: {{control: "unix:{scratch}/engine.ctl", providers: ucx+tcp, trusted_network: loopback, certificates: {scratch}/certs}}
control: {{listen: "unix:{scratch}/dpu.ctl", certificates: {scratch}/certs}}
data: {{listen: "shm {scratch}/dpu.sock"}}
"""


def run(*words, **more):
    done = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=300, check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class WithPool(unittest.TestCase):
    def setUp(self):
        self.scratch = Path(tempfile.mkdtemp(prefix="ros2s-arm-"))
        self.addCleanup(shutil.rmtree, self.scratch)
        self.store(["certs", "init", self.scratch / "certs"])
        self.store(["up", "--no-daemons", self.scratch / "pool", "--size", "128MiB"])

    def store(self, words):
        return run(NATIVE / "bin/ros2store", *words,
                   env={"ROS2STORE_CERTS": str(self.scratch / "certs")})

    def start(self, words, settings, name):
        (self.scratch / f"{name}.yaml").write_text(settings.format(scratch=self.scratch))
        log = self.scratch / f"{name}.log"
        with open(log, "wb") as said:
            daemon = subprocess.Popen([*words, "--config", self.scratch / f"{name}.yaml"],
                                      stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        self.addCleanup(self.end, daemon)
        give_up = time.monotonic() + PATIENCE_SECONDS
        while "ready" not in log.read_text():
            self.assertIsNone(daemon.poll(), f"{name} ended:\n{log.read_text()}")
            self.assertLess(time.monotonic(), give_up, f"{name} is not ready:\n{log.read_text()}")
            time.sleep(0.05)
        return daemon

    @staticmethod
    def end(daemon):
        if daemon.poll() is None:
            daemon.kill()
        daemon.wait()

    def there_and_back(self, uri, name):
        self.store(["cp", "-r", TREE, f"{uri[0]}/{name}{uri[1]}"])
        self.store(["cp", "-r", f"{uri[0]}/{name}{uri[1]}", self.scratch / name])
        run("diff", "-r", TREE, self.scratch / name)


class ArmDpu(WithPool):
    def test_copied_tree_and_fio_verify_through_the_dpu(self):
        self.start([NATIVE / "bin/ros2store-engine"], ENGINE, "engine")
        dpu = self.start([*EMULATED, ARM64 / "bin/ros2store-dpu"], DPU, "dpu")
        uri = "ros2s+dpu:///pool/main", f"?socket={self.scratch}/dpu.ctl"
        self.there_and_back(uri, "tree")
        run("fio", "--name=arm", "--thread", "--filename=arm", "--rw=randrw", "--bs=16k", "--size=4M",
            "--iodepth=8", "--verify=crc32c", "--do_verify=1",
            f"--ioengine=external:{NATIVE}/plugins/fio/libros2store-fio.so",
            f"--uri={''.join(uri)}", cwd=self.scratch,
            env={"ROS2STORE_CERTS": str(self.scratch / "certs")})
        dpu.send_signal(signal.SIGTERM)
        self.assertEqual(dpu.wait(PATIENCE_SECONDS), 0)


class ArmPool(WithPool):
    def test_pool_of_the_other_architecture_opens(self):
        """An arm64 program reads what an amd64 program wrote."""
        uri = "ros2s+local:///pool/main", f"?dir={self.scratch}/pool"
        self.there_and_back(uri, "native")
        for path in sorted(TREE.iterdir()):
            read = run(*EMULATED, ARM64 / "bin/ros2store", "cat",
                       f"{uri[0]}/native/{path.name}{uri[1]}")
            self.assertEqual(read, path.read_text(), path)

    def test_pool_of_arm64_keeps_acknowledged_data(self):
        """An arm64 writer is killed. An amd64 program reads what was acknowledged to it."""
        self.store(["mkdir", self.killed()])
        with open(self.scratch / "promises", "wb") as promises:
            writer = subprocess.Popen([*EMULATED, ARM64 / "bin/kill_writer", "write", self.killed(), "64", "8", "1"],
                                      stdin=subprocess.DEVNULL, stdout=promises)
        self.addCleanup(self.end, writer)
        give_up = time.monotonic() + PATIENCE_SECONDS
        while (self.scratch / "promises").stat().st_size < 200 * PROMISE_BYTES:
            self.assertIsNone(writer.poll())
            self.assertLess(time.monotonic(), give_up)
            time.sleep(0.05)
        self.end(writer)
        self.assertEqual(writer.returncode, -signal.SIGKILL)
        with open(self.scratch / "promises", "r+b") as promises:
            promises.truncate(promises.seek(0, 2) // PROMISE_BYTES * PROMISE_BYTES)
        with open(self.scratch / "promises", "rb") as promises:
            subprocess.run([NATIVE / "bin/kill_writer", "verify", self.killed()], stdin=promises, check=True)

    def killed(self):
        return f"ros2s+local:///pool/main/killed?dir={self.scratch}/pool"


if __name__ == "__main__":
    unittest.main()

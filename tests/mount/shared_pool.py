"""Makes a pool that clients share: an engine with four reactors and two devices, and two DPU daemons."""
import os
import signal
import struct
import subprocess

import mounted_pool
from mounted_pool import DIRECT, OFFLOAD, Pool
from runner import wait_until


class SharedPool(Pool):
    """Makes the pool, two mounts through each DPU daemon, and one that uses the engine directly."""

    def __init__(self):
        super().__init__("512MiB", scheme=OFFLOAD, devices=2)
        self.second_dpu, self.mounts = None, []
        self.clocks = f"{self.top}/clocks"

    def start(self):
        self.run(mounted_pool.CLI, "down", self.directory)
        with open(f"{self.directory}/engine.yaml", "a") as settings:
            settings.write("\nservice:\n  reactors: 4\n")
        self.run(mounted_pool.CLI, "up", self.directory)
        self.start_second_dpu()
        beyond = f"{OFFLOAD}:///pool/main?socket={self.directory}/run/dpu2.control"
        os.environ["ROS2STORE_CERTS"] = f"{self.directory}/certs/hosts"
        direct = f"{DIRECT}:///pool/main?dir={self.directory}"
        for number, uri in enumerate((self.uri, self.uri, beyond, beyond, direct)):
            top = f"{self.top}/mount{number}"
            os.mkdir(top)
            self.mounts.append(top)
            self.run(mounted_pool.FUSE, uri, top)

    def start_second_dpu(self):
        path = f"{self.directory}/dpu2.yaml"
        with open(f"{self.directory}/dpu.yaml") as settings:
            text = settings.read().replace("/run/dpu.", "/run/dpu2.")
        with open(path, "w") as settings:
            settings.write(text)
        control = f"{self.directory}/run/dpu2.control"
        with open(f"{self.directory}/run/dpu2.log", "ab") as log:
            self.second_dpu = subprocess.Popen(
                [f"{os.path.dirname(mounted_pool.CLI)}/ros2store-dpu", "--config", path],
                stdout=log, stderr=log)
        wait_until(lambda: os.path.exists(control), "the second DPU")

    def give_daemons_clocks(self):
        """Lets a test set the clocks of the daemons, and of no other program. Called before start()."""
        os.mkdir(self.clocks)
        for program in ("ros2store-engine", "ros2store-dpu"):
            self.set_clock(program, 0)
        os.environ["ROS2STORE_TEST_CLOCKS"] = self.clocks
        os.environ["LD_PRELOAD"] = mounted_pool.STEPPED_CLOCK

    def set_clock(self, program, ahead_seconds):
        """Sets the clock of all running daemons of this program."""
        file = os.open(f"{self.clocks}/{program}", os.O_WRONLY | os.O_CREAT)
        os.pwrite(file, struct.pack("q", ahead_seconds * 10**9), 0)
        os.close(file)

    def kill(self, turn):
        """Kills the engine and each DPU in turn, and starts it again."""
        if turn % 3 == 2:
            self.second_dpu.kill()
            self.second_dpu.wait()
            os.unlink(f"{self.directory}/run/dpu2.control")
            self.start_second_dpu()
        else:
            os.kill(self.daemon(("ros2store-engine", "ros2store-dpu")[turn % 3]), signal.SIGKILL)
            self.run(mounted_pool.CLI, "up", self.directory)

    def __exit__(self, *error):
        os.environ.pop("LD_PRELOAD", None)
        for top in self.mounts:
            subprocess.run(["umount", "-l", top], capture_output=True, check=False)
        if self.second_dpu is not None:
            self.second_dpu.kill()
            self.second_dpu.wait()
        super().__exit__(*error)

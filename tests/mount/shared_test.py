#!/usr/bin/env python3
"""usage: shared_test.py BUILD_DIRECTORY [KILLS]

Two DPU daemons with two hosts each, and a client of the engine, share a container of an engine with
four reactors and two devices, while daemons are killed (KILLS times, default 3) and started again: appends, renames
against creates, and files that one host has open and another one removes or replaces.
The last line is "N passed, N failed". Exit status 77 where this machine cannot mount.
"""
import errno
import os
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import mounted_pool  # noqa: E402
import runner  # noqa: E402
from mounted_pool import DIRECT, OFFLOAD, Pool, pattern  # noqa: E402
from runner import wait_until  # noqa: E402

test = runner.Tests()
KILLS = 3
SIZE = 100_000


class SharedPool(Pool):
    """Its engine's four reactors, a second DPU daemon, two mounts through each, one past them."""

    def __init__(self):
        super().__init__("512MiB", scheme=OFFLOAD, devices=2)
        self.second_dpu, self.mounts = None, []

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

    def kill(self, turn):
        """In turn the engine and each DPU; and starts it again."""
        if turn % 3 == 2:
            self.second_dpu.kill()
            self.second_dpu.wait()
            os.unlink(f"{self.directory}/run/dpu2.control")
            self.start_second_dpu()
        else:
            os.kill(self.daemon(("ros2store-engine", "ros2store-dpu")[turn % 3]), signal.SIGKILL)
            self.run(mounted_pool.CLI, "up", self.directory)

    def __exit__(self, *error):
        for top in self.mounts:
            subprocess.run(["umount", "-l", top], capture_output=True, check=False)
        if self.second_dpu is not None:
            self.second_dpu.kill()
            self.second_dpu.wait()
        super().__exit__(*error)


class Host(threading.Thread):
    """Works through one mount, and, to remove and replace, through its neighbours."""

    def __init__(self, mounts, number):
        super().__init__()
        self.mounts, self.number, self.top = mounts, number, mounts[number]
        self.turns, self.stops, self.failure = 0, False, None

    def neighbour(self, name):
        others = [top for top in self.mounts if top != self.top]
        return f"{others[self.turns % len(others)]}/{name}"

    def run(self):
        try:
            self.log = os.open(f"{self.top}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            while not self.stops:
                self.append()
                self.lose_an_open_file()
                self.meet_others()
                self.turns += 1
            os.close(self.log)
        except Exception as error:  # noqa: BLE001: any failure is a finding
            self.failure = f"host {self.number}, turn {self.turns}: {error!r}"

    def record(self, turn):
        return b"%d %08d\n" % (self.number, turn)

    def append(self):
        record = self.record(self.turns)
        assert os.write(self.log, record) == len(record)

    def lose_an_open_file(self):
        name = f"own.{self.number}"
        file = os.open(f"{self.top}/{name}", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        assert os.pwrite(file, pattern(SIZE, self.turns), 0) == SIZE
        if self.turns % 2 == 0:
            os.unlink(self.neighbour(name))
        else:
            other = os.open(self.neighbour(f"new.{self.number}"), os.O_WRONLY | os.O_CREAT)
            os.close(other)
            os.rename(self.neighbour(f"new.{self.number}"), self.neighbour(name))
        assert os.pread(file, SIZE + 1, 0) == pattern(SIZE, self.turns), "it was punched"
        assert os.pwrite(file, pattern(SIZE, self.turns + 1), 50_000) == SIZE
        assert os.pread(file, SIZE + 1, 50_000) == pattern(SIZE, self.turns + 1), "a write was lost"
        os.close(file)
        if self.turns % 2 == 1:
            os.unlink(f"{self.top}/{name}")

    def meet_others(self):
        """All want one name. Who has it has it whole."""
        mine = pattern(5000, self.number)
        try:
            if self.number % 2 == 0:
                temporary = f"{self.top}/temporary.{self.number}"
                with open(temporary, "wb") as file:
                    file.write(mine)
                os.rename(temporary, f"{self.top}/name")
            else:
                file = os.open(f"{self.top}/name", os.O_RDWR | os.O_CREAT | os.O_EXCL)
                assert os.write(file, mine) == 5000
                assert os.pread(file, 5001, 0) == mine, "another's file"
                os.close(file)
            os.unlink(self.neighbour("name"))
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOENT):
                raise


def free_bytes(top):
    space = os.statvfs(top)
    return space.f_bfree * space.f_frsize


@test
def hosts_of_two_dpus_share_a_container():
    with SharedPool() as pool:
        pool.start()
        before = free_bytes(pool.mounts[0])
        hosts = [Host(pool.mounts, number) for number in range(5)]
        for host in hosts:
            host.start()
        try:
            for turn in range(KILLS):
                turns = [host.turns for host in hosts]
                wait_until(lambda: any(host.failure for host in hosts) or all(
                    host.turns > at + 3 for host, at in zip(hosts, turns, strict=True)), "work")
                pool.kill(turn)
            time.sleep(1)
        finally:
            for host in hosts:
                host.stops = True
            for host in hosts:
                host.join()
        failures = [host.failure for host in hosts if host.failure]
        assert not failures, "\n".join(failures)
        for top in pool.mounts:
            with open(f"{top}/log", "rb") as log:
                records = log.read().splitlines(keepends=True)
            for host in hosts:
                own = [each for each in records if each.startswith(b"%d " % host.number)]
                assert own == [host.record(turn) for turn in range(host.turns)], \
                    f"host {host.number}: {len(own)} of {host.turns} records"
        for name in os.listdir(pool.mounts[0]):
            os.unlink(f"{pool.mounts[0]}/{name}")
        # What the killed daemons had open is looked at again after their grace.
        wait_until(lambda: free_bytes(pool.mounts[0]) == before, "all space to come back", 300)
        assert all(os.listdir(top) == [] for top in pool.mounts)
        direct = f"{DIRECT}:///pool/main?dir={pool.directory}"
        said = pool.run(mounted_pool.CLI, "container", "check", direct).stdout
        assert "every object" in said, said


def main():
    global KILLS
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if len(sys.argv) > 2:
        KILLS = int(sys.argv[2])
    return test.run([]) if mounted_pool.use(sys.argv[1]) else 77


if __name__ == "__main__":
    sys.exit(main())

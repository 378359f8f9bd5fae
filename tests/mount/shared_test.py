#!/usr/bin/env python3
"""usage: shared_test.py BUILD_DIRECTORY [KILLS]

Two DPU daemons with two hosts each, and a client of the engine, share a container of an engine with
four reactors and two devices, while daemons are killed (KILLS times, default 3) and started again: appends, renames
against creates, and files that one host has open and another one removes or replaces.
The last line is "N passed, N failed". Exit status 77 where this machine cannot mount.
"""
import errno
import os
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import mounted_pool  # noqa: E402
import runner  # noqa: E402
from mounted_pool import DIRECT, pattern  # noqa: E402
from runner import wait_until  # noqa: E402
from shared_pool import SharedPool  # noqa: E402

test = runner.Tests()
KILLS = 3
SIZE = 100_000


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

#!/usr/bin/env python3
"""usage: shared_test.py BUILD_DIRECTORY [KILLS]

Two DPU daemons with two hosts each, and a client of the engine, share a container of an engine with four
reactors and two devices. Meanwhile daemons are killed (KILLS times, default 3) and started again. Tests
appends, renames against creates, files that one host has open and another one removes or replaces, locks, and
times of files after the daemons' clocks were set. The last line is "N passed, N failed". Exit status 77 where
this machine cannot mount.
"""
import collections
import errno
import fcntl
import os
import struct
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import mounted_pool  # noqa: E402
import runner  # noqa: E402
from mounted_pool import DIRECT, pattern, write  # noqa: E402
from runner import wait_until  # noqa: E402
from shared_pool import SharedPool  # noqa: E402

test = runner.Tests()
KILLS = 3
SIZE = 100_000
# Daemons' certificates are valid for a year.
AHEAD_SECONDS = 300 * 86400


class Host(threading.Thread):
    """Works through one mount. Removes and replaces files through the neighbour's mounts."""

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
        """Several clients create one name; exactly one succeeds completely."""
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


def open_file_lock(file, kind):
    return fcntl.fcntl(file, fcntl.F_OFD_SETLKW, struct.pack("hhqqi", kind, os.SEEK_SET, 0, 0, 0))


class Locker(threading.Thread):
    """Counts in files through one mount, each time under a lock. A lock that is lost is EIO: then the file is
    opened again, and it is unknown whether its last count was written."""

    # By name: lock, unlock.
    LOCKS = {"flock": (lambda file: fcntl.flock(file, fcntl.LOCK_EX),
                       lambda file: fcntl.flock(file, fcntl.LOCK_UN)),
             "process": (lambda file: fcntl.lockf(file, fcntl.LOCK_EX),
                         lambda file: fcntl.lockf(file, fcntl.LOCK_UN)),
             "open file": (lambda file: open_file_lock(file, fcntl.F_WRLCK),
                           lambda file: open_file_lock(file, fcntl.F_UNLCK))}

    def __init__(self, top):
        super().__init__()
        self.top = top
        self.files = {kind: self.open(kind) for kind in self.LOCKS}
        self.counted = collections.Counter()
        self.unknown = collections.Counter()
        self.stops, self.failure = False, None

    def open(self, kind):
        return os.open(f"{self.top}/{kind}", os.O_RDWR | os.O_CREAT)

    def run(self):
        try:
            while not self.stops:
                for kind in self.LOCKS:
                    self.count(kind)
            for file in self.files.values():
                os.close(file)
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.failure = f"locks through {self.top}: {error!r}"

    def count(self, kind):
        lock, unlock = self.LOCKS[kind]
        file = self.files[kind]
        try:
            lock(file)
            number = int(os.pread(file, 20, 0) or b"0")
            os.pwrite(file, b"%20d" % (number + 1), 0)
            unlock(file)
            self.counted[kind] += 1
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            self.unknown[kind] += 1
            os.close(file)
            self.files[kind] = self.open(kind)

    @staticmethod
    def check(lockers, top):
        for kind in Locker.LOCKS:
            counted = sum(locker.counted[kind] for locker in lockers)
            unknown = sum(locker.unknown[kind] for locker in lockers)
            with open(f"{top}/{kind}", "rb") as file:
                found = int(file.read())
            print(f"{kind}: {counted} counted, {unknown} with a lost lock")
            assert counted <= found <= counted + unknown, f"{kind}: {counted} counted, {found} in the file"


def free_bytes(top):
    space = os.statvfs(top)
    return space.f_bfree * space.f_frsize


@test
def hosts_of_two_dpus_share_a_container():
    with SharedPool() as pool:
        pool.start()
        before = free_bytes(pool.mounts[0])
        hosts = [Host(pool.mounts, number) for number in range(5)]
        lockers = [Locker(top) for top in pool.mounts]
        for thread in (*hosts, *lockers):
            thread.start()
        try:
            for turn in range(KILLS):
                turns = [host.turns for host in hosts]
                wait_until(lambda: any(host.failure for host in hosts) or all(
                    host.turns > at + 3 for host, at in zip(hosts, turns, strict=True)), "work")
                counted = sum(locker.counted.total() for locker in lockers)
                pool.kill(turn)
                wait_until(lambda: any(locker.failure for locker in lockers) or
                           sum(locker.counted.total() for locker in lockers) > counted + 20, "locks")
            time.sleep(1)
        finally:
            for thread in (*hosts, *lockers):
                thread.stops = True
            for thread in (*hosts, *lockers):
                thread.join()
        failures = [thread.failure for thread in (*hosts, *lockers) if thread.failure]
        assert not failures, "\n".join(failures)
        Locker.check(lockers, pool.mounts[0])
        for top in pool.mounts:
            with open(f"{top}/log", "rb") as log:
                records = log.read().splitlines(keepends=True)
            for host in hosts:
                own = [each for each in records if each.startswith(b"%d " % host.number)]
                assert own == [host.record(turn) for turn in range(host.turns)], \
                    f"host {host.number}: {len(own)} of {host.turns} records"
        for name in os.listdir(pool.mounts[0]):
            os.unlink(f"{pool.mounts[0]}/{name}")
        # Files that were open at the killed daemons are checked again after the grace.
        wait_until(lambda: free_bytes(pool.mounts[0]) == before, "all space to come back", 300)
        assert all(os.listdir(top) == [] for top in pool.mounts)
        direct = f"{DIRECT}:///pool/main?dir={pool.directory}"
        said = pool.run(mounted_pool.CLI, "container", "check", direct).stdout
        assert "every object" in said, said


def make(pool, ahead_seconds):
    """Writes a source through each mount, and then a target. Through other mounts both have the engine's
    times, so that they see which one is newer."""
    for number, top in enumerate(pool.mounts):
        for name in ("source", "target"):
            called = time.time_ns()
            write(f"{top}/{name}", pattern(5000, number))
            returned = time.time_ns()
            modified = os.stat(f"{pool.mounts[number - 1]}/{name}").st_mtime_ns
            modified -= ahead_seconds * 10**9
            assert called <= modified <= returned, \
                f"{name} through mount {number}: {(modified - called) / 1e9} s after it was called"


# gRPC's reconnection timers wait for points in wall time, a second ahead.
@test
def times_follow_clocks_that_are_set():
    with SharedPool() as pool:
        pool.give_daemons_clocks()
        pool.start()
        make(pool, 0)
        for turn in range(max(2, KILLS // 3)):
            engine = (AHEAD_SECONDS, 0, 0, AHEAD_SECONDS)[turn % 4]
            dpus = (AHEAD_SECONDS, 0)[turn % 2]
            pool.set_clock("ros2store-engine", engine)
            pool.set_clock("ros2store-dpu", dpus)
            make(pool, engine)
            time.sleep(1.5)
            for daemon in range(3):
                killer = threading.Thread(target=pool.kill, args=(daemon,))
                killer.start()
                while killer.is_alive():
                    make(pool, engine)
                killer.join()
                make(pool, engine)


def main():
    global KILLS
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if len(sys.argv) > 2:
        KILLS = int(sys.argv[2])
    return test.run([]) if mounted_pool.use(sys.argv[1]) else 77


if __name__ == "__main__":
    sys.exit(main())

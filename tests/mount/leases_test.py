#!/usr/bin/env python3
"""usage: leases_test.py BUILD_DIRECTORY [NAME…]

Mounts one container twice, behind an engine or a DPU. A mount keeps names and attributes in its caches, and shows no
old ones when the other mount has changed them. The last line is "N passed, N failed". Exit status 77 where
this machine cannot mount.
"""
import contextlib
import json
import mmap
import os
import random
import shutil
import signal
import socket
import stat
import sys
import threading
import time
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import mounted_pool  # noqa: E402
import runner  # noqa: E402
from mounted_pool import DIRECT, OFFLOAD, SERVED, Pool, write  # noqa: E402
from runner import wait_until  # noqa: E402

test = runner.Tests()
# The longest time for which a mount that does not answer delays others, and some for this machine.
OTHERS_WAIT_SECONDS = 2 + 6


# The server of the first mount.
SERVERS = {DIRECT: "ros2store-engine", OFFLOAD: "ros2store-dpu"}


@contextlib.contextmanager
def two_mounts(scheme, *options, second=None):
    with Pool(scheme=scheme) as pool:
        pid = pool.mount(*options)
        yield pool, pid, pool.mount_second(second or scheme)


def contents(path):
    with open(path, "rb") as file:
        return file.read()


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def in_child(work):
    """Runs it in a process. The result of the returned function says whether it ended well in time."""
    child = os.fork()
    if child == 0:
        done = False
        try:
            work()
            done = True
        finally:
            os._exit(0 if done else 1)
    statuses = []

    def ends_well(seconds):
        end = time.monotonic() + seconds
        while not statuses and time.monotonic() < end:
            pid, status = os.waitpid(child, os.WNOHANG)
            statuses.extend([status] * (pid == child))
            time.sleep(0.01)
        return statuses == [0]

    yield ends_well
    if not statuses:
        os.waitpid(child, 0)


def seconds_of(change):
    begun = time.monotonic()
    change()
    return time.monotonic() - begun


def shown(path):
    """What a program sees of a name; None: nothing."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    kind = stat.S_IFMT(status.st_mode)
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    return (status.st_ino, kind, stat.S_IMODE(status.st_mode), status.st_nlink, size,
            status.st_mtime_ns, status.st_ctime_ns)


@test.each(*SERVED)
def names_and_attributes_are_answered_without_the_server(scheme):
    with two_mounts(scheme) as (pool, _, _):
        for i in range(100):
            write(pool.path(f"f{i}"), b"x" * i)
        names = [f"f{i}" for i in range(100)] + ["absent"]
        time.sleep(0.3)
        before = [shown(pool.path(name)) for name in names]
        with stopped(pool.daemon(SERVERS[scheme])):
            took = seconds_of(lambda: [shown(pool.path(name)) for name in names])
        assert took < 1.5, took  # a request would wait for the engine
        assert [shown(pool.path(name)) for name in names] == before
        assert before[99][4] == 99 and before[100] is None, before


@test.each(*SERVED)
def bytes_are_read_without_the_server(scheme):
    with two_mounts(scheme) as (pool, _, second):
        names = [f"f{i}" for i in range(8)]
        for i, name in enumerate(names):
            write(f"{second}/{name}", bytes([i]) * (1 + 50_000 * i))
        time.sleep(0.3)
        before = [contents(pool.path(name)) for name in names]
        assert [len(each) for each in before] == [1 + 50_000 * i for i in range(8)]

        def read_again():
            assert [contents(pool.path(name)) for name in names] == before

        def are_read_while_the_server_is_stopped():
            read_again()
            with contextlib.ExitStack() as stack, stopped(pool.daemon(SERVERS[scheme])):
                ends_well = stack.enter_context(in_child(read_again))
                return ends_well(1.5)

        # On a busy machine the leases may end first.
        assert any(are_read_while_the_server_is_stopped() for _ in range(12)), "a read waits for the server"


class Views:
    """The ways in which a program reads a file."""

    def __init__(self, path):
        self.path = path
        self.file = os.open(path, os.O_RDONLY)
        self.size = os.fstat(self.file).st_size
        self.mapping = mmap.mmap(self.file, self.size, prot=mmap.PROT_READ)

    def close(self):
        self.mapping.close()
        os.close(self.file)

    def sent(self):
        """By sendfile, from the page cache."""
        ends = socket.socketpair()
        with ends[0], ends[1]:
            ends[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            count = os.sendfile(ends[0].fileno(), self.file, 0, self.size)
            return ends[1].recv(count, socket.MSG_WAITALL)

    def all(self):
        return {"read": os.pread(self.file, self.size, 0), "mapping": self.mapping[:],
                "open": contents(self.path), "sendfile": self.sent()}


# The time is set back, so that the kernel does not see by it that the file has changed.
@test.each((DIRECT, DIRECT), (OFFLOAD, OFFLOAD), (OFFLOAD, DIRECT))
def bytes_changed_by_the_other_mount_are_seen_at_once(schemes):
    seed = random.randrange(1 << 32)
    chosen = random.Random(seed)
    with two_mounts(schemes[0], second=schemes[1]) as (pool, _, second):
        size = 50_000
        data = bytearray(chosen.randbytes(size))
        write(f"{second}/f", bytes(data))
        time.sleep(0.3)
        views = Views(pool.path("f"))
        there = os.open(f"{second}/f", os.O_RDWR)
        status = os.fstat(there)
        for turn in range(30):
            for name, seen in views.all().items():
                assert seen == data, f"seed {seed}, turn {turn}: {name}"
            if turn % 5 == 0:
                time.sleep(0.4)  # otherwise it is recalled too often, and they are not kept
                views.all()
            at, count = chosen.randrange(size - 100), chosen.randrange(1, 100)
            data[at:at + count] = chosen.randbytes(count)
            os.pwrite(there, data[at:at + count], at)
            os.utime(there, ns=(status.st_atime_ns, status.st_mtime_ns))
            for name, seen in views.all().items():
                assert seen == data, f"seed {seed}, turn {turn}: {name}"
        os.close(there)
        views.close()


@test.each(*SERVED)
def own_writes_are_seen_by_all_readers_at_once(scheme):
    with two_mounts(scheme) as (pool, _, _):
        data = bytearray(os.urandom(50_000))
        write(pool.path("f"), bytes(data))
        time.sleep(0.3)
        views = Views(pool.path("f"))
        assert set(map(bytes, views.all().values())) == {bytes(data)}
        for turn in range(20):
            at = turn * 2000
            data[at:at + 100] = os.urandom(100)
            with open(pool.path("f"), "r+b") as file:
                os.pwrite(file.fileno(), data[at:at + 100], at)
                assert set(map(bytes, views.all().values())) == {bytes(data)}, turn
            assert set(map(bytes, views.all().values())) == {bytes(data)}, turn
        os.truncate(pool.path("f"), 1000)
        assert os.pread(views.file, 50_000, 0) == data[:1000]
        os.truncate(pool.path("f"), 2000)
        assert os.pread(views.file, 50_000, 0) == data[:1000] + bytes(1000)
        views.close()


@test.each(*SERVED)
def stopped_mount_shows_no_old_bytes(scheme):
    with two_mounts(scheme) as (pool, pid, second):
        write(pool.path("f"), b"old")
        time.sleep(0.3)
        file = os.open(pool.path("f"), os.O_RDONLY)
        assert os.pread(file, 3, 0) == b"old"
        def see_new():
            assert os.pread(file, 3, 0) == b"new"

        with contextlib.ExitStack() as stack:
            with stopped(pid):
                write(f"{second}/f", b"new")
                ends_well = stack.enter_context(in_child(see_new))
                ends_well(0.5)
            assert ends_well(30)
        os.close(file)


@test.each(*SERVED)
def mount_without_caches_asks_the_server(scheme):
    with two_mounts(scheme, "--no-cache") as (pool, _, _):
        write(pool.path("f"), b"x")
        time.sleep(0.3)
        shown(pool.path("f"))
        with stopped(pool.daemon(SERVERS[scheme])):
            child = os.fork()
            if child == 0:
                shown(pool.path("f"))
                os._exit(0)
            time.sleep(0.5)
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "it was answered from a cache"
        os.waitpid(child, 0)


class Changes:
    """Changes files at random through one mount, and returns the names that it touched."""

    def __init__(self, top, seed):
        self.top, self.random, self.turn = top, random.Random(seed), 0

    def path(self, name):
        return f"{self.top}/{name}"

    def name(self):
        return self.random.choice("abcdef")

    def make(self):
        name = self.name()
        with open(self.path(name), "wb") as file:
            file.write(b"x" * self.random.randrange(5000))
        return [name]

    def change(self):
        name = self.name()
        os.chmod(self.path(name), self.random.choice((0o600, 0o644, 0o755)))
        return [name]

    def cut(self):
        name = self.name()
        os.truncate(self.path(name), self.random.randrange(9000))
        return [name]

    def remove(self):
        name = self.name()
        os.unlink(self.path(name))
        return [name]

    def move(self):
        names = [self.name(), self.name()]
        os.rename(*map(self.path, names))
        return names

    def link(self):
        names = [self.name(), self.name()]
        os.link(*map(self.path, names))
        return names

    def one(self):
        self.turn += 1
        work = self.random.choice((self.make, self.make, self.change, self.cut, self.remove, self.move,
                                   self.link))
        try:
            return work()
        except (FileNotFoundError, FileExistsError):
            return []


# Their servers.
@test.each((DIRECT, DIRECT), (OFFLOAD, OFFLOAD), (OFFLOAD, DIRECT))
def changes_by_the_other_mount_are_seen_at_once(schemes):
    seed = random.randrange(1 << 32)
    with two_mounts(schemes[0], second=schemes[1]) as (pool, _, second):
        changes = Changes(second, seed)
        end = time.monotonic() + 4
        while changes.turn < 30 or time.monotonic() < end:
            for name in "abcdef":  # they are kept now, unless they are changed too often
                shown(pool.path(name))
            if changes.turn % 7 == 0:
                time.sleep(0.25)
            changes.one()
            for name in "abcdef":
                here, there = shown(pool.path(name)), shown(f"{second}/{name}")
                assert here == there, f"seed {seed}, turn {changes.turn}, {name}: {here} and {there}"
            assert sorted(os.listdir(pool.mount_point)) == sorted(os.listdir(second))


@test.each((DIRECT, DIRECT), (OFFLOAD, OFFLOAD), (OFFLOAD, DIRECT))
def names_kept_by_the_kernel_end_with_the_change(schemes):
    """The kernel keeps names of a directory that nobody has changed for a second."""
    with two_mounts(schemes[0], second=schemes[1]) as (pool, _, second):
        first = pool.mount_point
        tops = [f"d{i}" for i in range(24)]
        for top in tops:
            os.mkdir(f"{second}/{top}")
            for name in ("gone", "moved", "replaced", "stays"):
                write(f"{second}/{top}/{name}", name.encode())
        time.sleep(1.3)
        names = ("gone", "moved", "replaced", "stays", "new", "target")
        times = []
        for top in tops:
            for _ in range(2):
                before = {name: shown(f"{first}/{top}/{name}") for name in names}
            assert [name for name in names if before[name]] == list(names[:4]), before
            times.append(seconds_of(lambda: os.unlink(f"{second}/{top}/gone")))  # noqa: B023
            assert shown(f"{first}/{top}/gone") is None
            os.rename(f"{second}/{top}/moved", f"{second}/{top}/target")
            write(f"{second}/{top}/new", b"n")
            os.rename(f"{second}/{top}/new", f"{second}/{top}/replaced")
            for name in names:
                assert shown(f"{first}/{top}/{name}") == shown(f"{second}/{top}/{name}"), (top, name)
        assert sorted(times)[len(times) // 2] < 0.5, times


@test.each(*SERVED)
def name_moved_here_and_removed_there_is_gone(scheme):
    with two_mounts(scheme) as (pool, _, second):
        for i in range(8):
            os.makedirs(pool.path(f"from{i}"))
            os.makedirs(pool.path(f"to{i}"))
            write(pool.path(f"from{i}/a"), b"a")
        time.sleep(1.3)
        for i in range(8):
            old, new = pool.path(f"from{i}/a"), pool.path(f"to{i}/b")
            assert shown(old) and shown(old) and not shown(new)
            os.rename(old, new)
            os.unlink(f"{second}/to{i}/b")
            assert shown(new) is None and shown(old) is None


@test.each(*SERVED)
def own_changes_are_seen_at_once(scheme):
    seed = random.randrange(1 << 32)
    with two_mounts(scheme) as (pool, _, second):
        changes = Changes(pool.mount_point, seed)
        for _ in range(300):
            changes.one()
            for name in "abcdef":
                here, there = shown(pool.path(name)), shown(f"{second}/{name}")
                assert here == there, f"seed {seed}, turn {changes.turn}, {name}: {here} and {there}"


@test.each(*SERVED)
def stopped_mount_delays_others_for_two_seconds(scheme):
    with two_mounts(scheme) as (pool, pid, second):
        write(pool.path("f"), b"x")
        time.sleep(0.3)
        shown(pool.path("f"))
        with stopped(pid):
            took = seconds_of(lambda: os.chmod(f"{second}/f", 0o600))
            assert took < OTHERS_WAIT_SECONDS, took
            assert seconds_of(lambda: write(f"{second}/g", b"x")) < OTHERS_WAIT_SECONDS
        assert shown(pool.path("f")) == shown(f"{second}/f")
        assert shown(pool.path("g")) == shown(f"{second}/g")


def leases(pool, place, *options):
    return json.loads(pool.run(mounted_pool.CLI, "--json", "leases", place, *options).stdout)


def log_of(pool, scheme):
    name = {DIRECT: "engine", OFFLOAD: "dpu"}[scheme]
    with open(f"{pool.directory}/run/{name}.log") as file:
        return file.read()


@test.each(*SERVED)
def operator_sees_for_whom_others_wait(scheme):
    with two_mounts(scheme) as (pool, pid, second):
        write(f"{second}/f", b"x")
        time.sleep(1)
        shown(pool.path("f"))
        seen = leases(pool, pool.uri)
        assert len(seen["holders"]) == 2 and seen["barred"] == [], seen
        for holder in seen["holders"]:
            assert holder["container"] == "main" and holder["tenant"] == "client", holder
            assert holder["session"] > 0 and holder["program"].startswith("ros2store-fuse"), holder
        with stopped(pid):
            change = threading.Thread(target=os.chmod, args=(f"{second}/f", 0o600))
            change.start()
            waited_for = []
            while change.is_alive() and not waited_for:
                waited_for = [each for each in leases(pool, pool.uri)["holders"] if each["recalls"]]
            change.join()
        assert len(waited_for) == 1 and waited_for[0]["nodes"] > 0, waited_for
        name = waited_for[0]["holder"]
        wait_until(lambda: f"holder {name}" in log_of(pool, scheme), "the log names the holder")


@test.each(*SERVED)
def evicted_mount_begins_again(scheme):
    with two_mounts(scheme) as (pool, _, second):
        write(f"{second}/f", b"x")
        time.sleep(1)
        shown(pool.path("f"))
        before = max(leases(pool, pool.uri)["holders"], key=lambda each: each["nodes"])
        assert before["nodes"] > 0, before
        pool.run(mounted_pool.CLI, "evict", pool.uri, before["holder"])

        def again():
            return any(each["holder"] == before["holder"] and each["held_s"] < before["held_s"]
                       for each in leases(pool, pool.uri)["holders"])
        wait_until(again, "the mount has begun again")
        assert shown(pool.path("f")) == shown(f"{second}/f")
        # At the engine the holders of a DPU's hosts are the DPU's.
        assert len(leases(pool, pool.directory)["holders"]) == 2
        pool.run(mounted_pool.CLI, "evict", pool.uri, "nobody", expect=1)
        assert len(leases(pool, pool.uri, "--holder", before["holder"])["holders"]) == 1
        pool.run(mounted_pool.CLI, "leases", pool.uri, "--holder", "nobody", expect=1)
        assert "is empty" in pool.run(mounted_pool.CLI, "evict", pool.uri, "", expect=1).stderr


@test.each(*SERVED)
def another_tenant_sees_no_leases(scheme):
    with two_mounts(scheme) as (pool, _, second):
        write(f"{second}/f", b"x")
        shown(pool.path("f"))
        holder = leases(pool, pool.uri)["holders"][0]["holder"]
        pool.run(mounted_pool.CLI, "tenant", "create", pool.directory, "other", "--subject", "CN=other",
                 "--read", "main")
        authority = f"{pool.directory}/certs/{'storage' if scheme == DIRECT else 'hosts'}"
        pool.run(mounted_pool.CLI, "certs", "issue", authority, "other")
        own = f"{pool.top}/other"
        os.mkdir(own)
        for source, target in (("ca.crt", "ca.crt"), ("other.crt", "client.crt"), ("other.key", "client.key")):
            shutil.copy(f"{authority}/{source}", f"{own}/{target}")
        kind = "engine" if scheme == DIRECT else "dpu"
        uri = f"{scheme}:///pool/main?socket={pool.directory}/run/{kind}.control"
        with unittest.mock.patch.dict(os.environ, ROS2STORE_CERTS=own):
            time.sleep(1.5)  # the DPU follows the tenants
            if scheme == DIRECT:  # programs of tenants have no right there without a capability
                pool.run(mounted_pool.CLI, "leases", uri, expect=1)
            else:
                assert leases(pool, uri) == {"holders": [], "barred": []}
            pool.run(mounted_pool.CLI, "evict", uri, holder, expect=1)


@test.each(*SERVED)
def killed_mount_delays_others_for_two_seconds(scheme):
    with two_mounts(scheme) as (pool, pid, second):
        write(pool.path("f"), b"x")
        time.sleep(0.3)
        shown(pool.path("f"))
        os.kill(pid, signal.SIGKILL)
        took = seconds_of(lambda: os.unlink(f"{second}/f"))
        assert took < OTHERS_WAIT_SECONDS, took


# A thread that drops pages waits for the read, and the read for the server.
@test.each(*SERVED)
def killed_mount_ends_while_pages_are_awaited(scheme):
    with two_mounts(scheme) as (pool, pid, _):
        write(pool.path("f"), bytes(4 << 20))
        time.sleep(0.3)
        os.stat(pool.path("f"))
        with stopped(pool.daemon(SERVERS[scheme])), in_child(lambda: contents(pool.path("f"))) as ends_well:
            assert not ends_well(5)  # the leases end meanwhile
            os.kill(pid, signal.SIGKILL)
            try:
                runner.wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the mount ends", 40)
                assert not ends_well(40), "it fails"
            finally:
                pool.run("umount", "--force", "--lazy", pool.mount_point)


@test.each(*SERVED)
def restarted_servers_show_nothing_old(scheme):
    with two_mounts(scheme) as (pool, _, second):
        write(pool.path("f"), b"x")
        time.sleep(0.3)
        shown(pool.path("f"))
        for program in {"ros2store-engine", SERVERS[scheme]}:
            os.kill(pool.daemon(program), signal.SIGKILL)
        pool.run(mounted_pool.CLI, "up", pool.directory)
        for mode in (0o600, 0o644, 0o640):
            took = seconds_of(lambda: os.chmod(f"{second}/f", mode))  # noqa: B023
            assert took < OTHERS_WAIT_SECONDS + 10, took
            assert shown(pool.path("f")) == shown(f"{second}/f")


@test.each(*SERVED)
def tailed_log_is_written_without_delay(scheme):
    with two_mounts(scheme) as (pool, _, second):
        log = os.open(f"{second}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        times = []
        for i in range(200):
            times.append(seconds_of(lambda: os.write(log, b"line\n")))
            assert os.stat(pool.path("log")).st_size == 5 * (i + 1)
        os.close(log)
        assert sorted(times)[100] < 0.05, times


if __name__ == "__main__":
    mounted_pool.main(test, __doc__)

#!/usr/bin/env python3
"""usage: two_mounts_test.py BUILD_DIRECTORY [NAME…]

Mounts one container twice, behind an engine and behind a DPU daemon. Tests what one mount does to files that
the other has open, and what they do together. The last line is "N passed, N failed". Exit status 77 where
this machine cannot mount.
"""
import collections
import errno
import json
import mmap
import os
import random
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import mounted_pool  # noqa: E402
import runner  # noqa: E402
from modelled_file import ZERO, ModelledFile, fallocate  # noqa: E402
from mounted_pool import DIRECT, OFFLOAD, SERVED, Pool, kernel_is, pattern, two_mounts, write  # noqa: E402
from runner import wait_until  # noqa: E402

test = runner.Tests()
MIB = 1 << 20
KINDS_SECONDS = 4
REPLACING_SECONDS = 3


def free_bytes(pool):
    space = os.statvfs(pool.mount_point)
    return space.f_bfree * space.f_frsize


def leaks(pool):
    uri = f"{DIRECT}:///pool/main?dir={pool.directory}"
    found = pool.run(mounted_pool.CLI, "--json", "container", "check", uri)
    answer = json.loads(found.stdout)
    return answer["objects"] + answer["keys"]


class Open:
    """A file of some MiB that the first mount has open while its name is removed."""

    def __init__(self, pool, name, size=4 * MIB):
        self.pool, self.size = pool, size
        self.file = os.open(pool.path(name), os.O_RDWR | os.O_CREAT)
        assert os.pwrite(self.file, pattern(size, 1), 0) == size

    def expect_usable(self):
        """Checks that the whole file can be read, and takes writes that can be read again."""
        assert os.pread(self.file, self.size, 0) == pattern(self.size, 1), "it was punched"
        assert os.pwrite(self.file, pattern(self.size, 2), MIB) == self.size
        os.fsync(self.file)
        assert os.pread(self.file, self.size, MIB) == pattern(self.size, 2), "a write was lost"
        assert os.pwrite(self.file, pattern(MIB, 1) + pattern(self.size, 1)[MIB:], 0) == self.size
        status = os.fstat(self.file)
        assert status.st_nlink == 0 and status.st_size == self.size + MIB, status

    def close(self):
        os.close(self.file)


def expect_all_back(pool, before):
    wait_until(lambda: free_bytes(pool) == before, "all space to come back")
    assert leaks(pool) == 0


@test
def open_file_survives_unlink_by_the_other_mount():
    with two_mounts(scheme=DIRECT) as (pool, second):
        before = free_bytes(pool)
        one = Open(pool, "f")
        os.unlink(f"{second}/f")
        one.expect_usable()
        one.close()
        expect_all_back(pool, before)


@test
def open_file_survives_replacement_by_the_other_mount():
    with two_mounts(scheme=DIRECT) as (pool, second):
        before = free_bytes(pool)
        one = Open(pool, "f")
        write(f"{second}/g", b"new")
        os.rename(f"{second}/g", f"{second}/f")
        one.expect_usable()
        with open(pool.path("f"), "rb") as new:
            assert new.read() == b"new"
        one.close()
        os.unlink(pool.path("f"))
        expect_all_back(pool, before)


@test.each(*SERVED)
def an_open_file_without_a_name_outlives_other_mounts(scheme):
    with Pool(scheme=scheme) as pool:
        pool.mount()
        before = free_bytes(pool)
        one = Open(pool, "f")
        os.unlink(pool.path("f"))
        direct = f"{DIRECT}:///pool/main?dir={pool.directory}"
        for uri in {direct, pool.uri}:
            assert pool.run(mounted_pool.CLI, "ls", uri).stdout == ""
        pool.run(mounted_pool.CLI, "mkdir", f"{direct}".replace("/main?", "/main/d?"))
        pool.mount_second()
        one.expect_usable()
        one.close()
        expect_all_back(pool, before)


@test
def a_nameless_file_ends_with_its_mount():
    with Pool(scheme=OFFLOAD) as pool:
        pid = pool.mount()
        second = pool.mount_second()
        if not kernel_is(6, 2):
            raise runner.NotHere("it needs Linux 6.2")
        before = os.statvfs(second).f_bfree
        file = os.open(pool.mount_point, os.O_TMPFILE | os.O_RDWR)
        assert os.pwrite(file, pattern(4 * MIB, 1), 0) == 4 * MIB
        assert os.statvfs(second).f_bfree < before
        os.kill(pid, signal.SIGKILL)
        pool.run("umount", "--lazy", pool.mount_point)
        pool.mount()
        wait_until(lambda: os.statvfs(second).f_bfree == before, "all space to come back")
        assert leaks(pool) == 0


# As above. Also, the engine, which knows which mount has it open, is killed and started again.
@test.each(*SERVED)
def an_open_file_without_a_name_outlives_the_engine(scheme):
    with two_mounts(scheme=scheme) as (pool, second):
        one, other = Open(pool, "one"), Open(pool, "other")
        os.unlink(f"{second}/one")
        os.kill(pool.daemon("ros2store-engine"), signal.SIGKILL)
        pool.run(mounted_pool.CLI, "up", pool.directory)
        os.unlink(f"{second}/other")
        pool.run(mounted_pool.CLI, "ls", f"{DIRECT}:///pool/main?dir={pool.directory}")
        one.expect_usable()
        other.expect_usable()
        before = free_bytes(pool)
        one.close()
        other.close()
        # Waits for the grace after its start, and for the next check by the second mount.
        wait_until(lambda: free_bytes(pool) >= before + 10 * MIB, "all space to come back")
        assert leaks(pool) == 0


# Each operation uses a random mount.
@test.each(*SERVED, *(f"{scheme} fsync" for scheme in SERVED))
def two_mounts_in_turn_agree_with_a_model(case):
    scheme, _, deferred = case.partition(" ")
    with Pool(scheme=scheme) as pool:
        if deferred:
            pool.defer()
        pool.mount()
        file = ModelledFile([pool.mount_point, pool.mount_second()], "f", seed=7)
        for _ in range(300):
            file.change()
        file.unlink()
        for _ in range(100):
            file.change()
        file.close()


# One mount zeroes a block after the end of the file while the other writes it. The block is never a mixture
# of both.
@test.each(*SERVED)
def concurrent_zeroing_and_writing_agree(scheme):
    with Pool("64MiB", scheme=scheme) as pool:
        pool.mount()
        zeroing, writing = (os.open(f"{top}/f", os.O_RDWR | os.O_CREAT)
                            for top in (pool.mount_point, pool.mount_second()))
        delays = random.Random(1)

        def write_late(delay):
            time.sleep(delay)
            os.pwrite(writing, b"x" * 4096, 4096)

        for turn in range(500):
            os.ftruncate(zeroing, 0)
            writer = threading.Thread(target=write_late, args=(delays.random() / 1000,))
            writer.start()
            fallocate(zeroing, ZERO, 4096, 4096)
            writer.join()
            found = os.pread(writing, 10_000, 0)
            assert len(found) == 8192, (turn, len(found))
            assert found[4096:] in (b"x" * 4096, bytes(4096)), (turn, found[4096:].count(b"x"))
        os.close(zeroing)
        os.close(writing)


# One mount renames a file to a name while the other creates that name. Each result is one of the two, whole.
@test
def concurrent_renames_and_creates_agree():
    with two_mounts(scheme=DIRECT) as (pool, second):
        before = free_bytes(pool)
        contents = {b"renamed" * 1000, b"created" * 1000, b""}
        failures = []

        def rename():
            for _ in range(100):
                write(pool.path("temporary"), b"renamed" * 1000)
                os.rename(pool.path("temporary"), pool.path("name"))

        def create_once():
            file = os.open(f"{second}/name", os.O_CREAT | os.O_EXCL | os.O_RDWR)
            assert os.write(file, b"created" * 1000) == 7000
            assert os.pread(file, 7001, 0) == b"created" * 1000, "another's file"
            os.close(file)
            os.unlink(f"{second}/name")

        def create():
            for _ in range(100):
                try:
                    create_once()
                except OSError as error:
                    if error.errno == errno.EEXIST:
                        os.unlink(f"{second}/name")
                    elif error.errno != errno.ENOENT:
                        raise

        def collect(work):
            try:
                work()
            except Exception as error:  # noqa: BLE001: any failure is a finding
                failures.append(repr(error))

        both = [threading.Thread(target=collect, args=(each,)) for each in (rename, create)]
        for each in both:
            each.start()
        for each in both:
            each.join()
        assert not failures, failures
        for name in os.listdir(pool.mount_point):
            with open(pool.path(name), "rb") as file:
                assert file.read() in contents
            os.unlink(pool.path(name))
        expect_all_back(pool, before)


def send(file, size):
    """What sendfile gives of the file, from its start."""
    one, other = socket.socketpair()
    try:
        sent = os.sendfile(one.fileno(), file, 0, size)
        return other.recv(size) if sent else b""
    finally:
        one.close()
        other.close()


# sendfile is answered from the first mount's page cache.
@test.each(*SERVED)
def sendfile_sees_the_other_mount_within_a_second(scheme):
    with two_mounts("64MiB", scheme=scheme) as (pool, second):
        write(pool.path("f"), b"a" * 4096)
        source = os.open(pool.path("f"), os.O_RDONLY)
        for letter in (b"b", b"c"):
            send(source, 4096)
            write(f"{second}/f", letter * 4096)
            written = time.monotonic()
            wait_until(lambda: send(source, 4096) == letter * 4096, "the other's write")
            # The kernel's limit is a second. The rest is for a busy machine.
            assert time.monotonic() - written < 5
        os.close(source)


# sendfile and the first copy put pages into the first mount's kernel.
@test.each(*SERVED)
def copy_has_the_other_mounts_bytes(scheme):
    with two_mounts("64MiB", scheme=scheme) as (pool, second):
        write(pool.path("f"), b"a" * 4096)
        source = os.open(pool.path("f"), os.O_RDONLY)
        target = os.open(pool.path("g"), os.O_RDWR | os.O_CREAT)
        one, other = socket.socketpair()
        assert os.sendfile(one.fileno(), source, 0, 4096) == 4096
        assert os.copy_file_range(source, target, 4096, 0, 0) == 4096
        other_file = os.open(f"{second}/f", os.O_WRONLY)
        os.pwrite(other_file, b"b" * 3 * MIB, 0)
        assert os.copy_file_range(source, target, 4096, 0, 0) == 4096
        assert os.pread(target, 4097, 0) == b"b" * 4096
        os.fstat(source)  # the kernel copies up to the size that it knows
        assert os.copy_file_range(source, target, 3 * MIB, 0, 5000) == 3 * MIB
        assert os.copy_file_range(source, target, 10, 3 * MIB, 0) == 0
        expected = b"b" * 4096 + bytes(904) + b"b" * 3 * MIB
        assert os.pread(target, len(expected) + 1, 0) == expected
        for each in (one, other):
            each.close()
        for file in (source, target, other_file):
            os.close(file)


# Each mount has the page in a mapping before the other changes it.
@test.each(*SERVED)
def mapped_store_keeps_writes_of_the_other_mount(scheme):
    with two_mounts("64MiB", scheme=scheme) as (pool, second):
        size = 3 * 4096 + 100
        write(pool.path("f"), bytes(size))
        files = [os.open(f"{top}/f", os.O_RDWR) for top in (pool.mount_point, second)]
        views = [mmap.mmap(file, size) for file in files]
        assert all(view[:] == bytes(size) for view in views)
        os.pwrite(files[1], b"written", 5000)
        os.pwrite(files[1], b"written", size - 7)
        views[0][4096:4100] = b"one\n"
        views[1][4104:4108] = b"two\n"
        for each in range(0, 4096, 16):  # more pieces than are written one by one
            views[0][each:each + 8] = b"mapping0"
            views[1][each + 8:each + 16] = b"mapping1"
        for view in views:
            view.flush()
        expected = bytearray(size)
        expected[:4096] = b"mapping0mapping1" * 256
        expected[4096:4100], expected[4104:4108] = b"one\n", b"two\n"
        expected[5000:5007] = expected[size - 7:] = b"written"
        for file in files:
            assert os.pread(file, size + 1, 0) == expected
        for view, file in zip(views, files, strict=True):
            view.close()
            os.close(file)


# A file that is open for writing, one that has just been changed, and one that is read between many changes have no
# lease.
@test.each(*SERVED)
def mapping_without_lease_is_soon_new(scheme):
    with two_mounts("64MiB", scheme=scheme) as (pool, second):
        for name, access in ("written here", os.O_RDWR), ("just changed", os.O_RDONLY), ("hot", os.O_RDONLY):
            write(f"{second}/{name}", b"old" * 1000)
            for turn in range(10 if name == "hot" else 1):
                write(f"{second}/{name}", b"old" * 1000)
                with open(pool.path(name), "rb") as file:
                    assert file.read() == b"old" * 1000, (name, turn)
            with open(f"{second}/{name}", "r+b", buffering=0) as other:
                other.write(b"OLD")
                file = os.open(pool.path(name), access)
                with mmap.mmap(file, 3000, prot=mmap.PROT_READ) as view:
                    assert view[:3] == b"OLD"
                    for data in b"new", b"two":
                        time.sleep(1.5)
                        other.seek(0)
                        other.write(data)
                        began = time.monotonic()
                        while view[:3] != data:
                            assert time.monotonic() < began + 10, (name, data, view[:3])
                            time.sleep(0.02)
                os.close(file)


# What a local file system answers, whatever has the name at the moment.
ANSWERS = {
    "create": (lambda path: os.close(os.open(path, os.O_WRONLY | os.O_CREAT)), {errno.EISDIR}),
    "create and truncate": (
        lambda path: os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)), {errno.EISDIR}),
    "create a new one": (lambda path: os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)),
                         {errno.EEXIST}),
    "open": (lambda path: os.close(os.open(path, os.O_RDONLY)), {errno.ENOENT}),
    "open a directory": (lambda path: os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY)),
                         {errno.ENOENT, errno.ENOTDIR}),
    "open no link": (lambda path: os.close(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)),
                     {errno.ENOENT, errno.ELOOP}),
    "readlink": (os.readlink, {errno.ENOENT, errno.EINVAL}),
    "list": (os.listdir, {errno.ENOENT, errno.ENOTDIR}),
    "truncate": (lambda path: os.truncate(path, 5), {errno.ENOENT, errno.EISDIR}),
    "chmod": (lambda path: os.chmod(path, 0o755), {errno.ENOENT}),
    "stat in it": (lambda path: os.stat(f"{path}/x"), {errno.ENOENT, errno.ENOTDIR}),
    "mkdir": (os.mkdir, {errno.EEXIST}),
    "rmdir": (os.rmdir, {errno.ENOENT, errno.ENOTDIR}),
    "unlink": (os.unlink, {errno.ENOENT, errno.EISDIR}),
}


def change_kinds(path, ends):
    """Makes a link, a file and a directory at the path in turn."""
    target = os.path.join(os.path.dirname(path), "target")
    steps = (lambda: os.symlink(target, path), lambda: os.unlink(path), lambda: os.mkdir(path),
             lambda: os.rmdir(path), lambda: os.symlink(target, path), lambda: os.unlink(path),
             lambda: os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)),
             lambda: os.unlink(path))
    while time.monotonic() < ends:
        for step in steps:
            try:
                step()
            except OSError:  # another thread was first
                pass


# The kernel looks a name up before it uses what the name has.
@test.each(*SERVED)
def lookups_survive_a_changed_file_type(scheme):
    with two_mounts("64MiB", scheme=scheme) as (pool, second):
        write(pool.path("target"), b"")
        ends = time.monotonic() + KINDS_SECONDS
        wrong = collections.Counter()

        def use(path, names):
            while time.monotonic() < ends:
                for name in names:
                    call, expected = ANSWERS[name]
                    try:
                        call(path)
                    except OSError as error:
                        if error.errno not in expected:
                            wrong[name, errno.errorcode[error.errno]] += 1

        names = [*ANSWERS]
        with ThreadPoolExecutor(6) as threads:
            running = [threads.submit(change_kinds, f"{second}/{name}", ends) for name in "ab"]
            running += [threads.submit(use, pool.path("a"), ["create"]),
                        threads.submit(use, pool.path("a"), ["create and truncate"]),
                        threads.submit(use, pool.path("b"), names),
                        threads.submit(use, pool.path("b"), names[::-1])]
        for each in running:
            each.result()
        assert not wrong, dict(wrong)


@test.each(*SERVED)
def a_file_is_linked_while_the_other_replaces_its_name(scheme):
    with two_mounts("64MiB", scheme=scheme) as (pool, second):
        write(pool.path("f"), b"")
        ends = time.monotonic() + REPLACING_SECONDS

        def replace():
            while time.monotonic() < ends:
                os.close(os.open(f"{second}/new", os.O_WRONLY | os.O_CREAT))
                os.rename(f"{second}/new", f"{second}/f")

        replacing = threading.Thread(target=replace)
        replacing.start()
        while time.monotonic() < ends:
            os.link(pool.path("f"), pool.path("g"))
            os.unlink(pool.path("g"))
        replacing.join()


if __name__ == "__main__":
    mounted_pool.main(test, __doc__)

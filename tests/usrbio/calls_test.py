#!/usr/bin/env python3
"""Reads and writes of 3FS's USRBIO on mounts, what the kernel shows, and refused arguments: calls_test.py BUILD_DIR [TEST…]"""
import ctypes
import datetime
import errno
import mmap
import os
import random
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from usrbio import MIB, NOBODY, Rings, calls, io, on_mount, opened, raises, test  # first: it has the paths of the others

import mounted_pool
import runner
from mounted_pool import SCHEMES, SERVED, Pool, pattern, read, write


@on_mount(*SCHEMES)
def random_ranges_equal_the_kernels(mount):
    chance, size = random.Random(7), 3 * MIB + 777
    model = bytearray(pattern(size))
    write(f"{mount}/f", model)
    rings, fd = Rings(mount), opened(f"{mount}/f")
    for turn in range(120):
        offset, length = chance.randrange(size + 5000), chance.choice((1, 7, 512, 4096, 4097, 65536, MIB))
        if chance.random() < 0.5:
            assert rings.read(fd, offset, length) == bytes(model[offset:offset + length]), (offset, length)
            continue
        data = chance.randbytes(length)
        assert rings.write(fd, offset, data) == length
        model[len(model):offset] = bytes(max(offset - len(model), 0))
        model[offset:offset + length] = data
        size = len(model)
        assert os.fstat(fd).st_size == size
        assert os.pread(fd, length + 10, max(offset - 5, 0)) == bytes(model[max(offset - 5, 0):][:length + 10])
    assert read(f"{mount}/f") == bytes(model)
    assert rings.read(fd, size, 100) == b"" and rings.read(fd, size - 3, 100) == bytes(model[-3:])


@on_mount()
def full_rings_complete_in_any_order(mount):
    data = pattern(8 * MIB)
    write(f"{mount}/f", data)
    rings, fd = Rings(mount, 4 * MIB, 256), opened(f"{mount}/f", os.O_RDONLY)
    chance = random.Random(3)
    for _ in range(20):
        offsets = [chance.randrange(0, len(data) - 16384) for _ in range(256)]
        for i, offset in enumerate(offsets):
            rings.reads.prepare(rings.iov[i * 16384:][:16384], True, fd, offset, userdata=offset)
        raises(errno.EAGAIN, rings.reads.prepare, rings.iov[:1], True, fd, 0)
        done = rings.reads.submit().wait(min_results=256)
        assert len(done) == 256
        for each in done:
            assert each.result == 16384 and bytes(each) == data[each.userdata:each.userdata + 16384]


@on_mount(size="512MiB")
def requests_may_be_larger_than_a_connections_memory(mount):
    size, count = 32 * MIB, 6
    data = pattern(size * 2)
    rings, fd = Rings(mount, size * count), opened(f"{mount}/f")
    rings.memory[:2 * size] = data
    for i in range(2):
        rings.writes.prepare(rings.iov[i * size:][:size], False, fd, i * size)
    assert [each.result for each in rings.writes.submit().wait(min_results=2)] == [size] * 2
    for i in range(count):
        rings.reads.prepare(rings.iov[i * size:][:size], True, fd, i * 5 * MIB, userdata=i)
    for each in rings.reads.submit().wait(min_results=count):
        assert each.result == size and bytes(each) == data[each.userdata * 5 * MIB:][:size]


@on_mount()
def threads_have_rings_of_their_own(mount):
    write(f"{mount}/f", pattern(MIB))

    def work(number):
        rings, fd = Rings(mount), opened(f"{mount}/t{number}")
        for turn in range(40):
            data = bytes([number, turn]) * 5000
            assert rings.write(fd, turn * 10000, data) == len(data)
            assert rings.read(fd, turn * 10000, 10000) == data
        io.deregister_fd(fd)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))


# ---- what the kernel has

@on_mount(*SCHEMES)
def kernel_shows_what_was_written_and_reads_see_its_stores(mount):
    write(f"{mount}/f", bytes(3 * 4096))
    rings, fd = Rings(mount), opened(f"{mount}/f")
    mapping = mmap.mmap(fd, 3 * 4096)
    assert mapping[:4] == bytes(4) and read(f"{mount}/f") == bytes(3 * 4096)
    assert rings.write(fd, 4096, b"new") == 3
    assert mapping[4096:4099] == b"new" and os.pread(fd, 3, 4096) == b"new"
    # Stores that the kernel has not written back, also in the same page.
    mapping[0:5] = b"store"
    mapping[4200:4205] = b"store"
    assert rings.read(fd, 0, 5) == b"store"
    assert rings.write(fd, 4300, b"more") == 4
    assert rings.read(fd, 4096, 300)[:3] == b"new" and rings.read(fd, 4200, 5) == b"store"
    assert mapping[4200:4205] == b"store" and mapping[4300:4304] == b"more"
    # The kernel appends where it takes the end to be.
    log = os.open(f"{mount}/f", os.O_WRONLY | os.O_APPEND)
    for end in (20000, 24576, 40001):
        assert rings.write(fd, end - 4, b"last") == 4
        os.write(log, b"appended")
        assert os.fstat(fd).st_size == end + 8 and os.pread(fd, 20, end - 4) == b"lastappended"
    os.ftruncate(fd, 10)
    assert rings.read(fd, 0, 4096) == b"store" + bytes(5)
    assert io.punch_hole(f"{mount}/f", [0], [5]) is None and rings.read(fd, 0, 10) == bytes(10)
    io.hardlink(f"{mount}/f", f"{mount}/g")
    assert os.stat(f"{mount}/g").st_nlink == 2


def second_mounts_view(mount, second):
    rings, fd = Rings(mount), opened(f"{mount}/f")
    other = os.open(f"{second}/f", os.O_RDWR)
    for turn in range(20):
        data = f"turn {turn}".encode()
        assert rings.write(fd, 0, data) == len(data)
        assert os.pread(other, 100, 0) == data
        os.pwrite(other, data[::-1], 0)
        assert rings.read(fd, 0, 100) == data[::-1]
        os.ftruncate(other, 0)


@test.each(*SERVED)
def another_mount_sees_each_write(scheme):
    with mounted_pool.two_mounts(scheme=scheme) as (pool, second):
        calls(second_mounts_view, pool.mount_point, second)


def set_ids(mount):
    for name in ("own", "passed"):
        write(f"{mount}/{name}", b"x")
        os.chown(f"{mount}/{name}", NOBODY, NOBODY)
        os.chmod(f"{mount}/{name}", 0o6755)
    passed = os.open(f"{mount}/passed", os.O_RDWR)
    calls(write_as_user, mount, passed, user=NOBODY)
    os.close(passed)
    for name in ("own", "passed"):
        assert stat.S_IMODE(os.stat(f"{mount}/{name}").st_mode) == 0o755, name


def write_as_user(mount, passed):
    rings, own = Rings(mount), opened(f"{mount}/own", os.O_RDWR)
    io.register_fd(passed)
    assert rings.write(own, 0, b"y") == 1 and rings.write(passed, 0, b"y") == 1


@test.each(*SCHEMES)
def writes_by_users_clear_set_id_bits(scheme):
    runner.need_root()
    with Pool(scheme=scheme) as pool:
        os.chmod(pool.top, 0o755)
        pid = pool.mount("--allow-other")
        os.chmod(pool.mount_point, 0o777)
        set_ids(pool.mount_point)
        pool.unmount(pid)




# ---- arguments and waits

@on_mount()
def wrong_arguments_are_refused(mount):
    write(f"{mount}/f", pattern(10000))
    rings, fd = Rings(mount), opened(f"{mount}/f", os.O_RDONLY)
    raises(errno.EINVAL, io.register_fd, fd)
    raises(errno.EBADF, io.register_fd, 999)
    with open("/dev/null") as null:
        raises(errno.EBADF, io.register_fd, null.fileno())
        assert not io._library.hf3fs_is_hf3fs(null.fileno()) & 1 and io._library.hf3fs_is_hf3fs(fd) & 1
    directory = os.open(mount, os.O_RDONLY)
    raises(errno.EINVAL, io.register_fd, directory)
    raises(errno.EBADF, io.make_ioring, "/tmp", 4)
    raises(errno.ENOENT, io.make_ioring, f"{mount}/absent", 4)
    for entries in (0, -1, 65537):
        raises(errno.EINVAL, io.make_ioring, mount, entries)
    raises(errno.EOPNOTSUPP, io.make_ioring, mount, 4, flags=2)
    raises(errno.EINVAL, io.make_ioring, mount, 4, flags=4)
    reads, iov = rings.reads, rings.iov
    raises(errno.EINVAL, reads.prepare, iov[:1], False, fd, 0)      # the ring is for reads
    raises(errno.EINVAL, reads.prepare, iov[:0], True, fd, 0)
    raises(errno.EINVAL, reads.prepare, iov[:1], True, fd, 2**63)
    raises(errno.EACCES, rings.writes.prepare, iov[:1], False, fd, 0)  # opened for reading
    raises(errno.EBADF, reads.prepare, iov[:1], True, fd + 50, 0)
    outside = io.iovec(iov._whole, iov._address + MIB - 1, 2)
    raises(errno.EINVAL, reads.prepare, outside, True, fd, 0)
    below = io.iovec(iov._whole, iov._address - 1, 1)
    raises(errno.EINVAL, reads.prepare, below, True, fd, 0)
    other = io._Iov()
    assert io._library.hf3fs_iovcreate(ctypes.byref(other), mount.encode(), ctypes.c_size_t(8192), ctypes.c_size_t(0), -1) == 0
    created = io.iovec(other, other.base, 8192)
    kept = io._Iov.from_buffer_copy(other)
    reads.prepare(created, True, fd, 0)
    io._library.hf3fs_iovdestroy(ctypes.byref(other))  # with a request that is not even submitted
    assert reads.submit().wait(min_results=1)[0].result == 8192
    raises(errno.EINVAL, reads.prepare, created, True, fd, 0)
    raises(errno.EINVAL, reads.prepare, io.iovec(kept, kept.base, 1), True, fd, 0)
    assert io._library.hf3fs_iovcreate(ctypes.byref(other), mount.encode(), ctypes.c_size_t(0), ctypes.c_size_t(0), -1) == -errno.EINVAL
    io.deregister_fd(fd)
    raises(errno.EBADF, reads.prepare, iov[:1], True, fd, 0)
    io.register_fd(fd)
    assert rings.read(fd, 0, 5) == pattern(5)
    reads.destroy()
    raises(errno.EINVAL, reads.prepare, iov[:1], True, fd, 0)
    raises(errno.EINVAL, reads.submit)
    raises(errno.EINVAL, reads.wait)
    assert io.extract_mount_point("/tmp") is None and io.extract_mount_point("/absent") is None
    assert io.extract_mount_point(f"{mount}/f") == mount
    small = ctypes.create_string_buffer(b"unchanged", 10)
    assert io._library.hf3fs_extract_mount_point(ctypes.addressof(small), 3, mount.encode()) == len(mount) + 1
    assert small.value == b"unchanged"


@on_mount()
def waits_end_with_results_or_time(mount):
    write(f"{mount}/f", pattern(10000))
    rings, fd = Rings(mount), opened(f"{mount}/f")
    began = time.monotonic()
    assert rings.reads.wait() == []
    assert rings.reads.wait(min_results=1, timeout=datetime.timedelta(milliseconds=100)) == []
    assert 0.1 <= time.monotonic() - began < 20
    assert rings.reads.wait(min_results=1, timeout=-1) == []
    # One thread waits, and another submits.
    done = []
    waiter = threading.Thread(target=lambda: done.extend(rings.reads.wait(min_results=2)))
    waiter.start()
    time.sleep(0.05)
    for _ in range(2):
        rings.reads.prepare(rings.iov[:10], True, fd, 0)
        rings.reads.submit()
        time.sleep(0.05)
    waiter.join(60)
    assert [each.result for each in done] == [10, 10]
    # A wait submits what was prepared; it returns no more than is wanted.
    for _ in range(5):
        rings.reads.prepare(rings.iov[:10], True, fd, 0)
    assert len(rings.reads.wait(max_results=3, min_results=3)) == 3
    assert len(rings.reads.wait(max_results=9, min_results=2)) == 2


if __name__ == "__main__":
    mounted_pool.main(test, __doc__)

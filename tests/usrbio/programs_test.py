#!/usr/bin/env python3
"""The calls of programs for 3FS's USRBIO, as their public sources have them: programs_test.py BUILD_DIR [TEST…]"""
import ctypes
import datetime
import fcntl
import mmap
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.shared_memory import SharedMemory

from usrbio import MIB, io, on_mount, test  # first: it has the paths of the others

import mounted_pool
from mounted_pool import SCHEMES, pattern, read, write


class Raw:
    """The library's functions on structs, as programs in C call them."""

    def __getattr__(self, name):
        function = getattr(io._library, f"hf3fs_{name}")

        def call(*arguments):
            converted = [ctypes.byref(each) if isinstance(each, ctypes.Structure) else
                         each.encode() if isinstance(each, str) else each for each in arguments]
            return function(*converted)
        return call


def size_t(value):
    return ctypes.c_size_t(value)


def as_fio(mount, writes):
    """3FS's engine for fio: two rings, one iov, a batch is submitted and waited for."""
    raw, reads, other = Raw(), io._Ior(), io._Ior()
    iov, depth, block = io._Iov(), 16, 65536
    assert raw.iorcreate3(reads, mount, depth, True, 0, 0, 1, -1) == 0
    assert raw.iorcreate(other, mount, depth, False, 0, -1) == 0
    assert raw.iovcreate(iov, mount, size_t(depth * block), size_t(0), -1) == 0
    fd = os.open(f"{mount}/f", os.O_RDWR)
    assert raw.reg_fd(fd, 0) <= 0
    cqes = (io._Cqe * depth)()
    ior = other if writes else reads
    for turn in range(4):
        for i in range(depth):
            if writes:
                ctypes.memset(iov.base + i * block, turn * depth + i, block)
            assert raw.prep_io(ior, iov, not writes, iov.base + i * block, fd, (turn * depth + i) * block, block,
                               None) >= 0
        assert raw.submit_ios(ior) == 0
        assert raw.wait_for_ios(ior, cqes, depth, depth, None) == depth
        assert {each.result for each in cqes} == {block}
        for i in range(depth):
            assert ctypes.string_at(iov.base + i * block, block) == bytes([turn * depth + i]) * block
    raw.dereg_fd(fd)
    os.close(fd)
    raw.iovdestroy(iov)
    raw.iordestroy(reads)
    raw.iordestroy(other)


@on_mount(*SCHEMES)
def fio_reads_back_what_it_wrote(mount):
    engine = f"{os.path.abspath(sys.argv[1])}/tests/usrbio/libusrbio-fio.so"
    if not os.path.exists(engine):
        print("SKIPPED: the build has no plug-in for fio")
        return
    write(f"{mount}/f", bytes(8 * MIB))
    done = subprocess.run(["fio", "--name=verify", f"--ioengine=external:{engine}", f"--mountpoint={mount}",
                           f"--filename={mount}/f", "--size=8m", "--rw=randwrite", "--bs=4k-64k", "--iodepth=16",
                           "--iodepth_batch_submit=16", "--iodepth_batch_complete_min=16", "--verify=crc32c",
                           "--verify_fatal=1", "--verify_state_save=0", "--thread"], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr


def as_nixl(mount):
    """NIXL's HF3FS plug-in: page-aligned memory is wrapped and other memory goes through an iov of its size; a thread
    polls with a time of another clock, which has passed."""
    raw = Raw()
    found = ctypes.create_string_buffer(256)
    assert raw.extract_mount_point(ctypes.addressof(found), 256, f"{mount}/") == len(mount) + 1
    mount = found.value.decode()
    fd = os.open(f"{mount}/f", os.O_RDWR)
    assert raw.reg_fd(fd, 0) <= 0
    count, block = 8, 128 * 1024
    whole = mmap.mmap(-1, count * block)
    base = ctypes.addressof(ctypes.c_char.from_buffer(whole))
    for is_read in (False, True):
        ior = io._Ior()
        assert raw.iorcreate(ior, mount, count, is_read, count, -1) == 0
        ios = []
        for i in range(count):
            iov = io._Iov()
            if i % 2 == 0:
                assert raw.iovwrap(iov, base, bytes(16), mount, size_t(count * block), size_t(0), -1) == 0
                address = base + i * block
            else:
                assert raw.iovcreate(iov, mount, size_t(block), size_t(block), -1) == 0
                address = iov.base
            if not is_read:
                ctypes.memset(address, 65 + i, block)
            ios.append((iov, address))
        for i, (iov, address) in enumerate(ios):
            assert raw.prep_io(ior, iov, is_read, address, fd, i * block, block, 1000 + i) >= 0
        assert raw.submit_ios(ior) == 0
        seen = []

        def poll(ior=ior, seen=seen):
            cqes = (io._Cqe * 1024)()
            while len(seen) < count:
                at = time.monotonic_ns() + 10**7
                ready = raw.wait_for_ios(ior, cqes, 1024, 1, io._Timespec(at // 10**9, at % 10**9))
                assert ready >= 0
                seen += [(each.userdata, each.result) for each in cqes[:ready]]

        thread = threading.Thread(target=poll)
        thread.start()
        thread.join(60)
        assert sorted(seen) == [(1000 + i, block) for i in range(count)], seen
        for i, (iov, address) in enumerate(ios):
            assert ctypes.string_at(address, block) == bytes([65 + i]) * block
            if i % 2 == 1:
                raw.iovdestroy(iov)
        raw.iordestroy(ior)
    raw.dereg_fd(fd)


def as_sglang(mount):
    """SGLang's client: a preallocated file, a page for each entry, shared memory that is unlinked at once."""
    path, page, entries = f"{mount}/hicache.0.bin", 65536, 8
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, 64 * page)
    io.register_fd(fd)
    point = io.extract_mount_point(path)
    shm_r, shm_w = (SharedMemory(size=page * entries, create=True) for _ in range(2))
    ior_r = io.make_ioring(point, entries, for_read=True, timeout=1, numa=-1)
    ior_w = io.make_ioring(point, entries, for_read=False, timeout=1, numa=-1)
    iov_r, iov_w = io.make_iovec(shm_r, point), io.make_iovec(shm_w, point)
    shm_r.unlink()
    shm_w.unlink()
    limit = datetime.timedelta(seconds=30)
    offsets = [i * 3 * page for i in range(entries)]
    for i, offset in enumerate(offsets):
        shm_w.buf[i * page:(i + 1) * page] = bytes([i + 1]) * page
        ior_w.prepare(iov_w[i * page:(i + 1) * page], False, fd, offset)
    assert [each.result for each in ior_w.submit().wait(min_results=entries, timeout=limit)] == [page] * entries
    for i, offset in enumerate(offsets):
        ior_r.prepare(iov_r[i * page:(i + 1) * page], True, fd, offset)
    assert [each.result for each in ior_r.submit().wait(min_results=entries, timeout=limit)] == [page] * entries
    assert bytes(shm_r.buf) == bytes(shm_w.buf)
    os.fsync(fd)
    io.deregister_fd(fd)
    os.close(fd)
    del ior_r, ior_w, iov_r, iov_w
    shm_r.close()
    shm_w.close()


def as_lmcache(mount):
    """LMCache's connector: a client for each thread, a temporary file that is written and renamed, a metadata part
    and a data part."""
    assert io.extract_mount_point(mount) == mount
    data, header = pattern(3 * MIB), b"m" * 28

    def put_and_get(number):
        size = 2 * MIB
        names = [f"hd_{os.getpid()}_{number}_{kind}" for kind in ("rd", "wt")]
        shm_read, shm_write = (SharedMemory(name=name, size=size, create=True) for name in names)
        iov_read = io.make_iovec(shm=shm_read, hf3fs_mount_point=mount, numa=-1)
        iov_write = io.make_iovec(shm=shm_write, hf3fs_mount_point=mount, numa=-1)
        ior_read = io.make_ioring(mount, 256, for_read=True, timeout=200, numa=-1)
        ior_write = io.make_ioring(mount, 256, for_read=False, timeout=200, numa=-1)

        def moved(ring, iov, is_read, fd, off, length):
            ring.prepare(iov[:length], is_read, fd, off)
            return ring.submit().wait(min_results=1)[0].result

        final, temporary = f"{mount}/key{number}", f"{mount}/key{number}.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        io.register_fd(fd)
        at = 0
        for part in (header, data[:size], data[size:]):
            shm_write.buf[:len(part)] = part
            assert moved(ior_write, iov_write, False, fd, at, len(part)) == len(part)
            at += len(part)
        io.deregister_fd(fd)
        os.close(fd)
        os.rename(temporary, final)
        fd = os.open(final, os.O_RDONLY)
        io.register_fd(fd)
        assert moved(ior_read, iov_read, True, fd, 0, 28) == 28 and bytes(shm_read.buf[:28]) == header
        got = b""
        while length := moved(ior_read, iov_read, True, fd, 28 + len(got), size):
            got += bytes(shm_read.buf[:length])
        assert got == data
        io.deregister_fd(fd)
        os.close(fd)
        del ior_read, ior_write, iov_read, iov_write
        for each in (shm_read, shm_write):
            each.close()
            each.unlink()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(put_and_get, range(4)))
    assert all(read(f"{mount}/key{number}") == header + data for number in range(4))
    assert io.read_file(f"{mount}/key0", block_size=MIB) == header + data


def as_mooncake(mount):
    """Mooncake's adapter: memory and rings for each thread; a file is locked by flock, and moved in pieces of the
    memory's size, one after the other."""
    raw, size = Raw(), MIB

    def put_and_get(number):
        iov, reads, writes = io._Iov(), io._Ior(), io._Ior()
        assert raw.iovcreate(iov, mount, size_t(size), size_t(0), -1) == 0
        for ior, is_read in ((reads, True), (writes, False)):
            assert raw.iorcreate4(ior, mount, 16, is_read, 0, 0, -1, ctypes.c_uint64(0)) == 0
        data, path = pattern(2 * size + 999, number), f"{mount}/mooncake{number}"

        def move(ior, is_read, fd, offset, length):
            cqe = io._Cqe()
            assert raw.prep_io(ior, iov, is_read, iov.base, fd, offset, length, None) >= 0
            assert raw.submit_ios(ior) == 0 and raw.wait_for_ios(ior, cqe, 1, 1, None) == 1
            return cqe.result

        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        assert raw.reg_fd(fd, 0) <= 0
        fcntl.flock(fd, fcntl.LOCK_EX)
        for at in range(0, len(data), size):
            part = data[at:at + size]
            ctypes.memmove(iov.base, part, len(part))
            assert move(writes, False, fd, at, len(part)) == len(part)
        fcntl.flock(fd, fcntl.LOCK_UN)
        raw.dereg_fd(fd)
        os.close(fd)
        fd, got = os.open(path, os.O_RDONLY), b""
        assert raw.reg_fd(fd, 0) <= 0
        fcntl.flock(fd, fcntl.LOCK_SH)
        while len(got) < len(data):
            moved = move(reads, True, fd, len(got), min(size, len(data) - len(got)))
            got += ctypes.string_at(iov.base, moved)
        fcntl.flock(fd, fcntl.LOCK_UN)
        assert got == data
        raw.dereg_fd(fd)
        os.close(fd)
        raw.iordestroy(writes)
        raw.iordestroy(reads)
        raw.iovdestroy(iov)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(put_and_get, range(4)))


@on_mount(*SCHEMES)
def calls_of_programs_work(mount):
    write(f"{mount}/f", bytes(4 * MIB))
    as_fio(mount, writes=True)
    as_fio(mount, writes=False)
    as_nixl(mount)
    as_sglang(mount)
    as_lmcache(mount)
    as_mooncake(mount)


if __name__ == "__main__":
    mounted_pool.main(test, __doc__)

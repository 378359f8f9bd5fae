#!/usr/bin/env python3
"""3FS's USRBIO over real mounts: usrbio_test.py BUILD_DIR [TEST…]

Each test's calls are made in a child process, which is ended if they hang."""
import contextlib
import ctypes
import datetime
import errno
import mmap
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from multiprocessing.shared_memory import SharedMemory

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{os.path.dirname(HERE)}/mount", os.path.dirname(HERE)]

import mounted_pool  # noqa: E402
import runner  # noqa: E402
from mounted_pool import LOCAL, SCHEMES, Pool, pattern, read, write  # noqa: E402

test = runner.Tests()
io = None  # hf3fs_fuse.io, in the child
lib = None
NOBODY = 65534
CALLS_SECONDS = 100
MIB = 1 << 20


def load():
    global io, lib
    sys.path.insert(0, f"{os.path.abspath(sys.argv[1])}/lib/ros2store/usrbio")
    import hf3fs_fuse.io
    io, lib = hf3fs_fuse.io, hf3fs_fuse.io._library


def calls(function, *arguments, user=None):
    """Runs it in a child, which loads the library."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        failed = 1
        try:
            signal.alarm(CALLS_SECONDS)
            load()
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            function(*arguments)
            failed = 0
        except BaseException:  # noqa: BLE001: shown here
            import traceback
            traceback.print_exc(file=sys.stdout)
        finally:
            sys.stdout.flush()
            os._exit(failed)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {os.waitstatus_to_exitcode(status)}"


class Rings:
    """Two rings and memory of a mount."""

    def __init__(self, mount, size=MIB, entries=16):
        self.memory = mmap.mmap(-1, size)
        self.iov = io.make_iovec(self.memory, mount)
        self.reads = io.make_ioring(mount, entries)
        self.writes = io.make_ioring(mount, entries, for_read=False)

    def read(self, fd, offset, size):
        self.reads.prepare(self.iov[:size], True, fd, offset)
        done = self.reads.submit().wait(min_results=1)[0].result
        return done if done < 0 else bytes(self.memory[:done])

    def write(self, fd, offset, data):
        self.memory[:len(data)] = data
        self.writes.prepare(self.iov[:len(data)], False, fd, offset)
        return self.writes.submit().wait(min_results=1)[0].result


def opened(path, flags=os.O_RDWR | os.O_CREAT):
    fd = os.open(path, flags, 0o644)
    io.register_fd(fd)
    return fd


def raises(code, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except OSError as error:
        assert error.errno == code, error
        return
    raise AssertionError(f"{function} did not fail")


# ---- reads and writes

def random_ranges(mount):
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


@test.each(*SCHEMES)
def random_ranges_equal_the_kernels(scheme):
    with Pool(scheme=scheme) as pool:
        pid = pool.mount()
        calls(random_ranges, pool.mount_point)
        pool.unmount(pid)


def many_in_flight(mount):
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


def large_requests(mount):
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


@test
def requests_may_be_larger_than_a_connections_memory():
    with Pool(size="512MiB") as pool:
        pid = pool.mount()
        calls(large_requests, pool.mount_point)
        pool.unmount(pid)


@test
def full_rings_complete_in_any_order():
    with Pool() as pool:
        pid = pool.mount()
        calls(many_in_flight, pool.mount_point)
        pool.unmount(pid)


def several_threads(mount):
    write(f"{mount}/f", pattern(MIB))
    failures = []

    def work(number):
        try:
            rings, fd = Rings(mount), opened(f"{mount}/t{number}")
            for turn in range(40):
                data = bytes([number, turn]) * 5000
                assert rings.write(fd, turn * 10000, data) == len(data)
                assert rings.read(fd, turn * 10000, 10000) == data
            io.deregister_fd(fd)
        except BaseException as error:  # noqa: BLE001: it is passed on
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures, failures


@test
def threads_have_rings_of_their_own():
    with Pool() as pool:
        pid = pool.mount()
        calls(several_threads, pool.mount_point)
        pool.unmount(pid)


# ---- what the kernel has

def kernels_view(mount):
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


@test.each(*SCHEMES)
def kernel_shows_what_was_written_and_reads_see_its_stores(scheme):
    with Pool(scheme=scheme) as pool:
        pid = pool.mount()
        calls(kernels_view, pool.mount_point)
        pool.unmount(pid)


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


@test.each(*mounted_pool.SERVED)
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


# ---- arguments, waits, ends

def wrong_arguments(mount):
    write(f"{mount}/f", pattern(10000))
    rings, fd = Rings(mount), opened(f"{mount}/f", os.O_RDONLY)
    raises(errno.EINVAL, io.register_fd, fd)
    raises(errno.EBADF, io.register_fd, 999)
    with open("/dev/null") as null:
        raises(errno.EBADF, io.register_fd, null.fileno())
        assert not lib.hf3fs_is_hf3fs(null.fileno()) & 1 and lib.hf3fs_is_hf3fs(fd) & 1
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
    assert lib.hf3fs_iovcreate(ctypes.byref(other), mount.encode(), ctypes.c_size_t(8192), ctypes.c_size_t(0), -1) == 0
    created = io.iovec(other, other.base, 8192)
    kept = io._Iov.from_buffer_copy(other)
    reads.prepare(created, True, fd, 0)
    lib.hf3fs_iovdestroy(ctypes.byref(other))  # with a request that is not even submitted
    assert reads.submit().wait(min_results=1)[0].result == 8192
    raises(errno.EINVAL, reads.prepare, created, True, fd, 0)
    raises(errno.EINVAL, reads.prepare, io.iovec(kept, kept.base, 1), True, fd, 0)
    assert lib.hf3fs_iovcreate(ctypes.byref(other), mount.encode(), ctypes.c_size_t(0), ctypes.c_size_t(0), -1) == -errno.EINVAL
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
    assert lib.hf3fs_extract_mount_point(ctypes.addressof(small), 3, mount.encode()) == len(mount) + 1
    assert small.value == b"unchanged"


@test
def wrong_arguments_are_refused():
    with Pool() as pool:
        pid = pool.mount()
        calls(wrong_arguments, pool.mount_point)
        pool.unmount(pid)


def waits(mount):
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


@test
def waits_end_with_results_or_time():
    with Pool() as pool:
        pid = pool.mount()
        calls(waits, pool.mount_point)
        pool.unmount(pid)


def closed_descriptor(mount):
    write(f"{mount}/f", pattern(MIB))
    rings, fd = Rings(mount), opened(f"{mount}/f", os.O_RDONLY)
    for i in range(16):
        rings.reads.prepare(rings.iov[i * 65536:][:65536], True, fd, i * 65536, userdata=i)
    rings.reads.submit()
    os.close(fd)
    os.unlink(f"{mount}/f")
    io.deregister_fd(fd)
    done = rings.reads.wait(min_results=16)
    assert {each.result for each in done} == {65536}
    assert all(bytes(each) == pattern(MIB)[each.userdata * 65536:][:65536] for each in done)
    raises(errno.EBADF, rings.reads.prepare, rings.iov[:1], True, fd, 0)
    # The library's own descriptor is closed, too.
    assert not [name for name in os.listdir("/proc/self/fd")
                if os.path.islink(f"/proc/self/fd/{name}") and os.readlink(f"/proc/self/fd/{name}").startswith(mount)]
    # Without deregistering, the file stays usable.
    fd = opened(f"{mount}/g")
    assert rings.write(fd, 0, b"kept") == 4
    os.close(fd)
    assert rings.read(fd, 0, 10) == b"kept"
    other = os.open(f"{mount}/h", os.O_RDWR | os.O_CREAT)  # which gets the number
    assert other == fd
    raises(errno.EINVAL, io.register_fd, other)
    io.deregister_fd(fd)
    io.register_fd(other)
    assert rings.read(other, 0, 10) == b""


@test
def files_outlive_the_programs_descriptor():
    with Pool() as pool:
        pid = pool.mount()
        calls(closed_descriptor, pool.mount_point)
        pool.unmount(pid)


def killed_mount(pool, pid, how):
    mount = pool.mount_point
    write(f"{mount}/f", pattern(MIB))
    rings, fd = Rings(mount), opened(f"{mount}/f", os.O_RDONLY)
    assert rings.read(fd, 0, 4) == pattern(4)
    os.kill(pid, signal.SIGSTOP)
    for i in range(16):
        rings.reads.prepare(rings.iov[i * 4096:][:4096], True, fd, i * 4096)
    rings.reads.submit()
    assert rings.reads.wait(min_results=1, timeout=0.2) == []
    how(pid)
    began = time.monotonic()
    done = rings.reads.wait(min_results=16)
    assert len(done) == 16 and {each.result for each in done} == {-errno.ENOTCONN}, done[0].result
    assert time.monotonic() - began < 20
    assert rings.read(fd, 0, 10) == -errno.ENOTCONN
    with contextlib.suppress(OSError):
        os.close(fd)  # which the kernel reports, too
    io.deregister_fd(fd)
    return rings


def killed_and_mounted_again(pool, pid):
    old = killed_mount(pool, pid, lambda pid: os.kill(pid, signal.SIGKILL))
    subprocess.run(["umount", "-l", pool.mount_point], check=True)
    pool.mount()
    rings, fd = Rings(pool.mount_point), opened(pool.path("f"), os.O_RDONLY)
    assert rings.read(fd, 0, 10) == pattern(10)
    raises(errno.ENOTCONN, old.reads.prepare, old.iov[:1], True, fd, 0)


@test.each(*SCHEMES)
def requests_end_if_the_mount_is_killed(scheme):
    with Pool(scheme=scheme) as pool:
        calls(killed_and_mounted_again, pool, pool.mount())


def ended_mount(pool, pid):
    mount = pool.mount_point
    write(f"{mount}/f", pattern(MIB))
    rings, fd = Rings(mount), opened(f"{mount}/f")
    assert rings.write(fd, 0, b"last") == 4
    os.kill(pid, signal.SIGTERM)  # it waits for nobody who has a file open
    runner.wait_until(lambda: rings.read(fd, 0, 10) == -errno.ENOTCONN, "the mount to end")


@test
def requests_end_if_the_mount_ends():
    with Pool() as pool:
        pid = pool.mount()
        calls(ended_mount, pool, pid)
        pool.wait_for_end(pid)
        pool.mount()
        assert read(pool.path("f"))[:10] == b"last" + pattern(10)[4:]


def killed_engine(pool):
    write(pool.path("f"), pattern(MIB))
    rings, fd = Rings(pool.mount_point), opened(pool.path("f"))
    engine = pool.daemon("ros2store-engine")
    for turn in range(5):
        rings.writes.prepare(rings.iov[:4096], False, fd, turn * 4096)
    rings.writes.submit()
    os.kill(engine, signal.SIGKILL)
    subprocess.run([mounted_pool.CLI, "up", pool.directory], check=True, capture_output=True)
    assert {each.result for each in rings.writes.wait(min_results=5)} == {4096}
    assert rings.write(fd, 0, b"again") == 5 and os.pread(fd, 5, 0) == b"again"


@test.each(*mounted_pool.SERVED)
def restart_of_the_engine_delays_requests(scheme):
    with Pool(scheme=scheme) as pool:
        pid = pool.mount()
        calls(killed_engine, pool)
        pool.unmount(pid)


def revoked_mount(pool, certificates):
    write(pool.path("f"), pattern(MIB))
    rings, fd = Rings(pool.mount_point), opened(pool.path("f"), os.O_RDONLY)
    assert rings.read(fd, 0, 4) == pattern(4)
    pool.run(mounted_pool.CLI, "certs", "revoke", f"{pool.directory}/certs/{certificates}", "client")
    runner.wait_until(lambda: rings.read(fd, 0, 4) == -errno.EPERM, "the right to end")


@test.each(*mounted_pool.SERVED)
def revocation_of_the_mounts_certificate_ends_requests(scheme):
    with Pool(scheme=scheme) as pool:
        pool.mount()
        calls(revoked_mount, pool, "hosts" if scheme == mounted_pool.OFFLOAD else "storage")


def forked_child(mount):
    write(f"{mount}/f", pattern(10000))
    rings, fd = Rings(mount), opened(f"{mount}/f")
    assert rings.read(fd, 0, 5) == pattern(5)

    def in_child():
        raises(errno.EINVAL, rings.reads.prepare, rings.iov[:5], True, fd, 0)
        raises(errno.EINVAL, rings.reads.wait)
        io.deregister_fd(fd)
        own, own_fd = Rings(mount), opened(f"{mount}/f")
        assert own.read(own_fd, 0, 5) == pattern(5)
        raises(errno.EBADF, own.reads.prepare, own.iov[:5], True, fd, 0)
        io.register_fd(fd)
        assert own.read(fd, 5, 5) == pattern(10)[5:]
        rings.reads.destroy()

    calls(in_child)
    assert rings.read(fd, 5, 5) == pattern(10)[5:]


@test
def forked_child_makes_its_own():
    with Pool() as pool:
        pid = pool.mount()
        calls(forked_child, pool.mount_point)
        pool.unmount(pid)


def shared_iov(mount):
    write(f"{mount}/f", pattern(10000))
    rings, fd = Rings(mount), opened(f"{mount}/f")
    iov = io._Iov()
    size = ctypes.c_size_t
    assert lib.hf3fs_iovcreate(ctypes.byref(iov), mount.encode(), size(8192), size(0), -1) == 0
    identity = ctypes.string_at(ctypes.addressof(iov) + io._Iov.id.offset, 16)

    def in_child():
        theirs = io._Iov()
        for length, result in ((MIB, -errno.EINVAL), (8192, 0)):
            assert lib.hf3fs_iovopen(ctypes.byref(theirs), identity, mount.encode(), size(length), size(0), -1) == result
        own, own_fd = io.make_ioring(mount, 4), opened(f"{mount}/f")
        own.prepare(io.iovec(theirs, theirs.base, 8192), True, own_fd, 0)
        assert own.submit().wait(min_results=1)[0].result == 8192

    calls(in_child)
    assert bytes(io.iovec(iov, iov.base, 8192)) == pattern(8192)
    rings.writes.prepare(io.iovec(iov, iov.base, 4), False, fd, 0)
    assert rings.writes.submit().wait(min_results=1)[0].result == 4
    lib.hf3fs_iovunlink(ctypes.byref(iov))
    assert lib.hf3fs_iovopen(ctypes.byref(io._Iov()), identity, mount.encode(), size(8192), size(0), -1) == -errno.ENOENT


@test
def processes_share_memory_by_its_id():
    with Pool() as pool:
        pid = pool.mount()
        calls(shared_iov, pool.mount_point)
        pool.unmount(pid)


# ---- users

def read_as_user(mount):
    rings, fd = Rings(mount), opened(f"{mount}/f", os.O_RDONLY)
    assert rings.read(fd, 0, 5) == pattern(5)
    raises(errno.EACCES, os.open, f"{mount}/secret", os.O_RDONLY)


@test.each(*SCHEMES)
def other_users_need_no_certificate(scheme):
    runner.need_root()
    with Pool(scheme=scheme) as pool:
        os.chmod(pool.top, 0o755)
        pid = pool.mount("--allow-other")
        write(pool.path("f"), pattern(10000))
        write(pool.path("secret"), b"x")
        os.chmod(pool.path("secret"), 0o600)
        calls(read_as_user, pool.mount_point, user=NOBODY)
        pool.unmount(pid)


# ---- the calls of programs, in their order, as their public sources have them

class Raw:
    """The library's functions on structs, as programs in C call them."""

    def __init__(self):
        self.iov, self.ior = io._Iov, io._Ior

    def __getattr__(self, name):
        function = getattr(lib, f"hf3fs_{name}")

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

    threads = [threading.Thread(target=put_and_get, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(read(f"{mount}/key{number}") == header + data for number in range(4))
    assert io.read_file(f"{mount}/key0", block_size=MIB) == header + data


def as_programs(mount):
    write(f"{mount}/f", bytes(4 * MIB))
    as_fio(mount, writes=True)
    as_fio(mount, writes=False)
    as_nixl(mount)
    as_sglang(mount)
    as_lmcache(mount)


@test.each(*SCHEMES)
def calls_of_programs_work(scheme):
    with Pool(scheme=scheme) as pool:
        pid = pool.mount()
        calls(as_programs, pool.mount_point)
        pool.unmount(pid)


if __name__ == "__main__":
    mounted_pool.main(test, __doc__)

#!/usr/bin/env python3
"""How files, mounts, processes and rights end under 3FS's USRBIO: ends_test.py BUILD_DIR [TEST…]"""
import contextlib
import ctypes
import errno
import os
import signal
import subprocess
import time

from usrbio import MIB, NOBODY, Rings, calls, io, on_mount, opened, raises, test  # first: it has the paths of the others

import mounted_pool
import runner
from mounted_pool import SCHEMES, SERVED, Pool, pattern, read, write


@on_mount()
def files_outlive_the_programs_descriptor(mount):
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


def killed_and_mounted_again(pool, pid):
    mount = pool.mount_point
    write(f"{mount}/f", pattern(MIB))
    rings, fd = Rings(mount), opened(f"{mount}/f", os.O_RDONLY)
    assert rings.read(fd, 0, 4) == pattern(4)
    os.kill(pid, signal.SIGSTOP)
    for i in range(16):
        rings.reads.prepare(rings.iov[i * 4096:][:4096], True, fd, i * 4096)
    rings.reads.submit()
    assert rings.reads.wait(min_results=1, timeout=0.2) == []
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    done = rings.reads.wait(min_results=16)
    assert len(done) == 16 and {each.result for each in done} == {-errno.ENOTCONN}, done[0].result
    assert time.monotonic() - began < 20
    assert rings.read(fd, 0, 10) == -errno.ENOTCONN
    with contextlib.suppress(OSError):
        os.close(fd)  # which the kernel reports, too
    io.deregister_fd(fd)
    subprocess.run(["umount", "-l", mount], check=True)
    pool.mount()
    again, fd = Rings(mount), opened(f"{mount}/f", os.O_RDONLY)
    assert again.read(fd, 0, 10) == pattern(10)
    raises(errno.ENOTCONN, rings.reads.prepare, rings.iov[:1], True, fd, 0)


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


@test.each(*SERVED)
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


@test.each(*SERVED)
def revocation_of_the_mounts_certificate_ends_requests(scheme):
    with Pool(scheme=scheme) as pool:
        pool.mount()
        calls(revoked_mount, pool, "hosts" if scheme == mounted_pool.OFFLOAD else "storage")


@on_mount()
def forked_child_makes_its_own(mount):
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


@on_mount()
def processes_share_memory_by_its_id(mount):
    write(f"{mount}/f", pattern(10000))
    rings, fd = Rings(mount), opened(f"{mount}/f")
    iov = io._Iov()
    size = ctypes.c_size_t
    assert io._library.hf3fs_iovcreate(ctypes.byref(iov), mount.encode(), size(8192), size(0), -1) == 0
    identity = ctypes.string_at(ctypes.addressof(iov) + io._Iov.id.offset, 16)

    def in_child():
        theirs = io._Iov()
        for length, result in ((MIB, -errno.EINVAL), (8192, 0)):
            assert io._library.hf3fs_iovopen(ctypes.byref(theirs), identity, mount.encode(), size(length), size(0), -1) == result
        own, own_fd = io.make_ioring(mount, 4), opened(f"{mount}/f")
        own.prepare(io.iovec(theirs, theirs.base, 8192), True, own_fd, 0)
        assert own.submit().wait(min_results=1)[0].result == 8192

    calls(in_child)
    assert bytes(io.iovec(iov, iov.base, 8192)) == pattern(8192)
    rings.writes.prepare(io.iovec(iov, iov.base, 4), False, fd, 0)
    assert rings.writes.submit().wait(min_results=1)[0].result == 4
    io._library.hf3fs_iovunlink(ctypes.byref(iov))
    assert io._library.hf3fs_iovopen(ctypes.byref(io._Iov()), identity, mount.encode(), size(8192), size(0), -1) == -errno.ENOENT


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


if __name__ == "__main__":
    mounted_pool.main(test, __doc__)

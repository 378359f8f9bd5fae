#!/usr/bin/env python3
"""usage: exclusive_test.py BUILD_DIRECTORY [NAME…]

Tests mounts that have a container alone (`exclusive`), where the kernel keeps writes: what programs see, what a
kill leaves, and who is refused meanwhile. The last line is "N passed, N failed". Exit status 77 where this machine
cannot mount.
"""
import contextlib
import errno
import mmap
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import mounted_pool  # noqa: E402
import runner  # noqa: E402
from modelled_file import ModelledFile  # noqa: E402
from mounted_pool import DIRECT, LOCAL, OFFLOAD, SCHEMES, SERVED, Pool, is_running, pattern, read, write  # noqa: E402
from posix_calls import fails  # noqa: E402
from runner import wait_until  # noqa: E402

test = runner.Tests()


def deferred(scheme, **options):
    pool = Pool(scheme=scheme, **options)
    pool.defer()
    return pool


@test.each(LOCAL, OFFLOAD)
def posix_checks(scheme):
    with deferred(scheme, size="1GiB") as pool:
        pid = pool.mount("--exclusive")
        done = subprocess.run([sys.executable, "-B", f"{HERE}/posix_checks.py", "--exclusive", pool.mount_point],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        pool.unmount(pid)


class KeptFile(ModelledFile):
    """Also by stores to a mapping, and in small parts through a descriptor that cannot read."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.operations += [self.store, self.write_parts, self.write_parts, self.sync]

    def store(self, through, offset, length):
        length = min(length, len(self.expected) - offset)
        if length <= 0:
            return
        data = pattern(length, self.turn)
        with mmap.mmap(self.files[through], len(self.expected)) as mapped:
            mapped[offset:offset + length] = data
        self.expected[offset:offset + length] = data

    def write_parts(self, through, offset, _length):
        file = os.open(self.paths[through], os.O_WRONLY)
        for part in range(20):
            data = pattern(self.random.randrange(1, 700), self.turn + part)
            os.pwrite(file, data, offset)
            self.extend(offset + len(data))
            self.expected[offset:offset + len(data)] = data
            offset += self.random.randrange(1500)
        os.close(file)

    def sync(self, through, _offset, _length):
        os.fsync(self.files[through])


@test.each(*SCHEMES)
def a_file_agrees_with_a_model(scheme):
    with deferred(scheme) as pool:
        pid = pool.mount("--exclusive")
        file = KeptFile([pool.mount_point], "f", 1)
        for _ in range(300):
            file.change()
        file.compare_all()
        modified = os.fstat(file.files[0]).st_mtime_ns
        file.close()
        pool.unmount(pid)
        pid = pool.mount()
        assert read(pool.path("f")) == file.expected
        assert os.stat(pool.path("f")).st_mtime_ns == modified
        pool.unmount(pid)


@test.each(*SCHEMES)
def what_was_synced_outlives_kills(scheme):
    with deferred(scheme) as pool:
        pid = pool.mount("--exclusive")
        write(pool.path("closed"), pattern(100_000, 1))
        file = os.open(pool.path("synced"), os.O_RDWR | os.O_CREAT)
        for part in range(1000):
            os.write(file, pattern(256, part))
        os.fsync(file)
        os.write(file, pattern(5000, 2))  # nobody is promised this
        os.kill(pid, signal.SIGKILL)
        if pool.is_served:
            for program in ("ros2store-engine", "ros2store-dpu"):
                os.kill(pool.daemon(program), signal.SIGKILL)
            pool.run(mounted_pool.CLI, "up", pool.directory)
        for call in (os.fsync, os.close):
            with contextlib.suppress(ConnectionError, OSError):
                call(file)
        wait_until(lambda: not is_running(pid), "the killed process to end")
        pid = pool.mount(*(["--exclusive"] if scheme == LOCAL else []))
        assert read(pool.path("closed")) == pattern(100_000, 1)
        assert read(pool.path("synced"))[:256_000] == b"".join(pattern(256, part) for part in range(1000))
        pool.unmount(pid)


@test
def files_that_other_users_move_keep_their_times():
    runner.need_root()
    with deferred(OFFLOAD) as pool:
        pid = pool.mount("--exclusive", "--allow-other")
        os.chmod(pool.top, 0o755)
        os.chmod(pool.mount_point, 0o777)
        with open(pool.path("f"), "xb") as file:
            os.fchmod(file.fileno(), 0o600)
            subprocess.run(["mv", pool.path("f"), pool.path("g")], user=1000, group=1000, extra_groups=[],
                           check=True)
            os.fsync(file)
        pool.unmount(pid)


@test
def a_full_pool_is_told_by_close_or_fsync():
    with deferred(LOCAL, size="64MiB") as pool:
        pid = pool.mount("--exclusive")
        for end in (os.fsync, os.close):
            file = os.open(pool.path("f"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for _ in range(96):
                os.write(file, bytes(1 << 20))
            fails(errno.ENOSPC, end, file)
            if end is os.fsync:
                os.close(file)
            os.unlink(pool.path("f"))
        write(pool.path("g"), b"more")
        pool.unmount(pid)


@test
def a_signal_loses_no_write():
    with deferred(LOCAL) as pool:
        pid = pool.mount("--exclusive")
        file = os.open(pool.path("f"), os.O_RDWR | os.O_CREAT)
        for part in range(0, 1000, 2):
            os.pwrite(file, pattern(3000, part), part * 4096)
        os.kill(pid, signal.SIGTERM)
        pool.wait_for_end(pid)
        fails(errno.ENOTCONN, os.close, file)
        pid = pool.mount()
        content = read(pool.path("f"))
        assert all(content[part * 4096:][:3000] == pattern(3000, part) for part in range(0, 1000, 2))
        pool.unmount(pid)


def refused(pool, *words):
    """Returns what a program says that may not use the container."""
    done = subprocess.run([pool.programs.get(words[0], words[0]), *words[1:]], capture_output=True, text=True)
    assert done.returncode == 1, f"{words}: {done.stdout}{done.stderr}"
    return done.stderr


def uri(pool, scheme):
    return f"{scheme}:///pool/main?dir={pool.directory}"


@test.each(*SERVED)
def nobody_else_opens_the_container(scheme):
    with deferred(scheme) as pool:
        os.mkdir(pool.second_mount_point)
        pid = pool.mount("--exclusive")
        write(pool.path("f"), b"content")
        holder = f":{pool.mount_point} (process {pid})"
        mount = mounted_pool.FUSE, *(("--exclusive",) if scheme == OFFLOAD else ("--no-cache",))
        other = DIRECT if scheme == OFFLOAD else OFFLOAD
        change = mounted_pool.CLI, "container", "set", uri(pool, DIRECT), "--durability", "fsync"
        for words in ((*mount, pool.uri, pool.second_mount_point), (mounted_pool.CLI, "ls", uri(pool, other)), change):
            said = refused(pool, *words)
            assert holder in said and "unmount it there" in said, said
        refused(pool, mounted_pool.CLI, "container", "check", uri(pool, DIRECT))
        write(pool.path("f"), b"more")
        pool.run("fusermount3", "-u", pool.mount_point)
        pool.run(*change)
        assert pool.run(mounted_pool.CLI, "ls", uri(pool, OFFLOAD)).stdout == "f\n"


@test.each(*SERVED)
def it_is_refused_while_others_have_the_container(scheme):
    with deferred(scheme) as pool:
        other = OFFLOAD if scheme == DIRECT else DIRECT
        pool.run(mounted_pool.FUSE, uri(pool, other), pool.mount_point)
        write(pool.path("f"), b"content")
        os.mkdir(pool.second_mount_point)
        said = refused(pool, mounted_pool.FUSE, "--exclusive", pool.uri, pool.second_mount_point)
        assert "is open elsewhere" in said, said
        pool.run("fusermount3", "-u", pool.mount_point)
        wait_until(lambda: subprocess.run([mounted_pool.FUSE, "--exclusive", pool.uri, pool.second_mount_point],
                                          capture_output=True).returncode == 0, "the container to be free")
        assert read(f"{pool.second_mount_point}/f") == b"content"


@test.each(*SERVED)
def the_mount_keeps_the_container_when_the_engine_is_killed(scheme):
    with deferred(scheme) as pool:
        pid = pool.mount("--exclusive")
        file = os.open(pool.path("f"), os.O_RDWR | os.O_CREAT)
        for turn in range(2):
            for part in range(500):
                os.pwrite(file, pattern(300, turn + part), part * 300)
            engine = pool.daemon("ros2store-engine")
            os.kill(engine, (signal.SIGTERM, signal.SIGKILL)[turn])
            wait_until(lambda: not is_running(engine), "the engine to end")
            pool.run(mounted_pool.CLI, "up", pool.directory)
            assert "exclusive" in refused(pool, mounted_pool.CLI, "ls", uri(pool, DIRECT))
            os.fsync(file)
        os.close(file)
        pool.unmount(pid)
        pid = pool.mount()
        assert read(pool.path("f")) == b"".join(pattern(300, 1 + part) for part in range(500))
        pool.unmount(pid)


@test
def what_a_killed_mount_had_open_keeps_nobody_out():
    with deferred(DIRECT) as pool:
        pid = pool.mount()
        file = os.open(pool.path("f"), os.O_RDWR | os.O_CREAT)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_running(pid), "the killed process to end")
        with contextlib.suppress(OSError):
            os.close(file)
        pool.run("umount", "--lazy", pool.mount_point)
        wait_until(lambda: subprocess.run([mounted_pool.FUSE, "--exclusive", pool.uri, pool.mount_point],
                                          capture_output=True).returncode == 0, "the container to be free", 20)
        pool.unmount(pool.pid())


@test
def a_restart_of_its_dpu_ends_it_aloud():
    with deferred(OFFLOAD) as pool:
        pool.mount("--exclusive")
        file = os.open(pool.path("f"), os.O_RDWR | os.O_CREAT)
        os.write(file, b"synced")
        os.fsync(file)
        os.kill(pool.daemon("ros2store-dpu"), signal.SIGKILL)
        pool.run(mounted_pool.CLI, "up", pool.directory)
        second = pool.mount_second()
        write(f"{second}/f", b"others")
        os.pwrite(file, b"late", 0)
        fails(errno.EIO, os.fsync, file)
        fails(errno.EIO, write, pool.path("g"), b"late")
        with contextlib.suppress(OSError):
            os.close(file)
        assert read(f"{second}/f") == b"others"


@test.each(*SCHEMES)
def durable_containers_refuse_it(scheme):
    with Pool(scheme=scheme) as pool:
        said = refused(pool, mounted_pool.FUSE, "--exclusive", pool.uri, pool.mount_point)
        assert "durable when it returns" in said, said


if __name__ == "__main__":
    mounted_pool.main(test, __doc__)

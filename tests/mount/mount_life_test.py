#!/usr/bin/env python3
"""usage: mount_life_test.py BUILD_DIRECTORY [NAME…]

Tests ros2store-fuse as a process: how it starts, refuses and ends, that nothing acknowledged is lost when it
or a daemon is killed, and the memory that it gives back. The last line is "N passed, N failed". Exit status 77
where this machine cannot mount.
"""
import errno
import fcntl
import mmap
import os
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import mounted_pool  # noqa: E402
import posix_calls  # noqa: E402
import runner  # noqa: E402
from mounted_pool import DIRECT, LOCAL, OFFLOAD, SCHEMES, SERVED, Pool, is_running, pattern, read, write  # noqa: E402
from posix_calls import fails  # noqa: E402
from runner import wait_until  # noqa: E402

test = runner.Tests()


@test
def corrupt_bytes_are_logged_with_their_path():
    with Pool("64MiB") as pool:
        pool.mount()
        block = os.urandom(4096)
        write(pool.path("f"), os.urandom(8192) + block)
        inode = os.stat(pool.path("f")).st_ino
        pool.unmount(pool.pid())
        with open(f"{pool.directory}/device-0", "r+b") as device:
            at = device.read().index(block)
            device.seek(at)
            device.write(bytes([block[0] ^ 1]))
        owner = subprocess.Popen([mounted_pool.FUSE, "-f", pool.uri, pool.mount_point], stderr=subprocess.PIPE,
                                 text=True)
        wait_until(pool.is_mounted, "the mount")
        try:
            with open(pool.path("f"), "rb") as file:
                file.read()
            raise AssertionError("read corrupt bytes")
        except OSError as error:
            assert error.errno == errno.EIO, error
        subprocess.run(["fusermount3", "-u", pool.mount_point], check=True)
        said = owner.communicate(timeout=runner.PATIENCE_SECONDS)[1]
        assert f"inode {inode} on {pool.mount_point}: corrupt" in said, said
        assert "in the 4 KiB at byte 8192" in said, said
        assert f"`find {pool.mount_point} -xdev -inum {inode}` names the file" in said, said


class Writer(threading.Thread):
    """Overwrites 4 KiB blocks of a file, each with the number of its turn, until that fails."""

    def __init__(self, path, blocks):
        super().__init__()
        self.path, self.blocks, self.acknowledged = path, blocks, [0] * blocks
        self.turns, self.in_flight = 0, None

    def run(self):
        try:
            descriptor = os.open(self.path, os.O_WRONLY)
            for turn in range(1, 1_000_000_000):
                block = turn * 7919 % self.blocks
                self.in_flight = (block, turn)
                os.pwrite(descriptor, pattern(4096, turn), block * 4096)
                self.acknowledged[block] = turn
                self.turns = turn
        except OSError:
            pass

    def expect_all(self, content):
        """Checks that each block is as acknowledged. One block may be in the state of the last write."""
        for block in range(self.blocks):
            found = content[block * 4096:(block + 1) * 4096]
            turn = self.acknowledged[block]
            allowed = [pattern(4096, turn) if turn else bytes(4096)]
            if self.in_flight[0] == block:
                allowed.append(pattern(4096, self.in_flight[1]))
            assert found in allowed, f"block {block}: turn {turn}, found {found[:16]}"


@test.each(*SCHEMES, *(f"{scheme} fsync" for scheme in SCHEMES))
def killed_mount_loses_nothing_acknowledged(case):
    scheme, _, deferred = case.partition(" ")
    with Pool(scheme=scheme) as pool:
        if deferred:
            pool.defer()
        for round_number in range(3):
            pid = pool.mount()
            os.makedirs(pool.path(f"d{round_number}/deep"))
            for i in range(20):
                write(pool.path(f"d{round_number}/deep/{i}"), pattern(i * 5000, i))
            blocks = 64
            write(pool.path("log"), bytes(blocks * 4096))
            writer = Writer(pool.path("log"), blocks)
            writer.start()
            wait_until(lambda: writer.turns > 300, "writes")
            os.kill(pid, signal.SIGKILL)
            writer.join()
            wait_until(lambda: not is_running(pid), "the killed process to end")
            pid = pool.mount()  # the dead mount is taken away
            writer.expect_all(read(pool.path("log")))
            for before in range(round_number + 1):
                for i in range(20):
                    assert read(pool.path(f"d{before}/deep/{i}")) == pattern(i * 5000, i)
            pool.unmount(pid)


@test.each("durable", "fsync")
def a_mount_goes_on_when_the_daemons_behind_it_are_killed(durability):
    with Pool(scheme=OFFLOAD) as pool:
        if durability == "fsync":
            pool.defer()
        pid = pool.mount()
        blocks = 64
        write(pool.path("log"), bytes(blocks * 4096))
        writer = Writer(pool.path("log"), blocks)
        writer.start()
        try:
            for program in ("ros2store-engine", "ros2store-dpu"):
                turns = writer.turns
                wait_until(lambda: writer.turns > turns + 100, "writes")
                os.kill(pool.daemon(program), signal.SIGKILL)
                pool.run(mounted_pool.CLI, "up", pool.directory)
            turns = writer.turns
            wait_until(lambda: writer.turns > turns + 100, f"writes after {turns}")
        finally:
            os.kill(pid, signal.SIGKILL)
            writer.join()
        wait_until(lambda: not is_running(pid), "its end")
        pid = pool.mount()
        writer.expect_all(read(pool.path("log")))
        pool.unmount(pid)


def copy_media(of, to):
    """The devices and the index of a pool."""
    subprocess.run(["cp", "-a", "--sparse=always", f"{of}/device-0", f"{of}/index", to], check=True)


# The media get back the state that was durable before the last changes, as by a loss of power.
@test.each(*SERVED)
def changes_that_the_server_lost_with_its_power_are_repeated(scheme):
    with Pool("64MiB", scheme=scheme) as pool:
        pool.defer()
        pid, engine = pool.mount(), pool.daemon("ros2store-engine")
        saved = f"{pool.top}/saved"
        for _ in range(20):
            write(pool.path("old"), b"old")
            pool.run(mounted_pool.CLI, "sync", pool.mount_point)
            subprocess.run(["rm", "-rf", saved], check=True)
            os.mkdir(saved)
            copy_media(pool.directory, saved)
            begun = time.monotonic()
            for i in range(20):
                write(pool.path(f"{i}"), pattern(i * 500, i))
            os.rename(pool.path("19"), pool.path("old"))
            os.kill(engine, signal.SIGKILL)
            if time.monotonic() - begun < 0.5:
                break
            # The mount may have heard that they are durable.
            pool.run(mounted_pool.CLI, "up", pool.directory)
            engine = pool.daemon("ros2store-engine")
        wait_until(lambda: not is_running(engine), "the engine to end")
        subprocess.run(["rm", "-rf", f"{pool.directory}/index"], check=True)
        copy_media(saved, pool.directory)
        pool.run(mounted_pool.CLI, "up", pool.directory)
        second = pool.mount_second(DIRECT)
        for path in (second, pool.mount_point):
            assert sorted(os.listdir(path), key=str) == sorted([*map(str, range(19)), "old"]), os.listdir(path)
            for i in range(19):
                assert read(f"{path}/{i}") == pattern(i * 500, i)
            assert read(f"{path}/old") == pattern(19 * 500, 19)
        write(pool.path("0"), b"and on")
        pool.run("umount", second)
        pool.unmount(pid)


# The DPU that would repeat the changes ends with the server's power. Only the host knows of them then.
@test
def changes_that_are_lost_with_dpu_and_server_are_told_by_fsync():
    with Pool("64MiB", scheme=OFFLOAD) as pool:
        pool.defer()
        pid = pool.mount()
        saved = f"{pool.top}/saved"
        descriptors = []
        for _ in range(20):
            write(pool.path("f"), b"old")
            write(pool.path("g"), b"old")
            pool.run(mounted_pool.CLI, "sync", pool.mount_point)
            subprocess.run(["rm", "-rf", saved], check=True)
            os.mkdir(saved)
            copy_media(pool.directory, saved)
            daemons = [pool.daemon("ros2store-engine"), pool.daemon("ros2store-dpu")]
            descriptors = [os.open(pool.path(name), os.O_WRONLY) for name in ("f", "g")]
            begun = time.monotonic()
            for each in descriptors:
                os.pwrite(each, b"new", 0)
            for each in daemons:
                os.kill(each, signal.SIGKILL)
            if time.monotonic() - begun < 0.5:
                break
            # The host may have heard that they are durable.
            pool.run(mounted_pool.CLI, "up", pool.directory)
            for each in descriptors:
                os.close(each)
        wait_until(lambda: not any(map(is_running, daemons)), "the daemons to end")
        subprocess.run(["rm", "-rf", f"{pool.directory}/index"], check=True)
        copy_media(saved, pool.directory)
        pool.run(mounted_pool.CLI, "up", pool.directory)
        for each in descriptors:
            fails(errno.EIO, os.fsync, each)
        os.fsync(descriptors[0])
        os.close(descriptors[1])
        assert read(pool.path("f")) == b"old"
        # Without the loss of power the engine has them.
        os.pwrite(descriptors[0], b"new", 0)
        os.kill(pool.daemon("ros2store-dpu"), signal.SIGKILL)
        pool.run(mounted_pool.CLI, "up", pool.directory)
        os.fsync(descriptors[0])
        os.close(descriptors[0])
        assert read(pool.path("f")) == b"new"
        pool.unmount(pid)


HANDLES_A_SIGNAL = """
import signal, sys
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.2)
open(sys.argv[1], "x").close()
"""


@test.each(*SERVED, *(f"{scheme} fsync" for scheme in SERVED))
def killed_programs_end_while_a_server_is_stopped(case):
    scheme, _, deferred = case.partition(" ")
    with Pool("64MiB", scheme=scheme) as pool:
        if deferred:
            pool.defer()
        pid = pool.mount()
        # The kernel lets one program at a time make a name in a directory.
        for name in ("lives", "handles", "ends"):
            os.mkdir(pool.path(name))
        stopped = pool.daemon("ros2store-dpu" if scheme == OFFLOAD else "ros2store-engine")
        os.kill(stopped, signal.SIGSTOP)
        try:
            lives, handles = (subprocess.Popen([sys.executable, "-c", HANDLES_A_SIGNAL, pool.path(f"{name}/f")])
                              for name in ("lives", "handles"))
            for number in (signal.SIGINT, signal.SIGKILL):
                program = subprocess.Popen(["touch", pool.path("ends/f")])
                time.sleep(0.3)
                program.send_signal(number)
                assert program.wait(20) == -number
            handles.kill()
            assert handles.wait(20) == -signal.SIGKILL
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert lives.wait(runner.PATIENCE_SECONDS) == 0
        assert os.listdir(pool.path("lives")) == ["f"]
        pool.unmount(pid)


READS_MUCH = """
import os, sys, threading
file = os.open(sys.argv[1], os.O_RDWR)
print("opened", flush=True)
sys.stdin.readline()
for i in range(200):
    threading.Thread(target=os.pread, args=(file, 100, 0)).start()
print("reading", flush=True)
"""


@test.each(*SERVED)
def a_program_with_more_calls_than_the_mount_takes_ends_when_killed(scheme):
    with Pool("64MiB", scheme=scheme) as pool:
        pid = pool.mount()
        write(pool.path("f"), bytes(100))
        program = subprocess.Popen([sys.executable, "-c", READS_MUCH, pool.path("f")], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        assert program.stdout.readline() == b"opened\n"
        stopped = pool.daemon("ros2store-dpu" if scheme == OFFLOAD else "ros2store-engine")
        os.kill(stopped, signal.SIGSTOP)
        try:
            program.stdin.write(b"\n")
            program.stdin.flush()
            assert program.stdout.readline() == b"reading\n"
            time.sleep(0.5)
            program.kill()
            assert program.wait(20) == -signal.SIGKILL
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert read(pool.path("f")) == bytes(100)
        pool.unmount(pid)


@test.each(*SCHEMES)
def a_signal_unmounts_also_while_files_are_open(scheme):
    with Pool(scheme=scheme) as pool:
        pid = pool.mount()
        path = pool.path("mapped")
        size, pages = 16 << 20, range(0, 16 << 20, 8192)  # more writes than one queue takes
        write(path, bytes(size))
        descriptor = os.open(path, os.O_RDWR)
        view = mmap.mmap(descriptor, size)
        for page in pages:
            view[page + 500:page + 505] = b"dirty"  # in the kernel's pages only
        os.kill(pid, signal.SIGTERM)
        pool.wait_for_end(pid)
        for use in (lambda: os.pwrite(descriptor, b"x", 0), lambda: os.stat(path)):
            try:
                use()
            except OSError:
                continue
            raise AssertionError("the mount still answers after it ended")
        view.close()
        try:
            os.close(descriptor)
        except OSError:
            pass
        pid = pool.mount()
        content = read(path)
        lost = [page for page in pages if content[page + 500:page + 505] != b"dirty"]
        assert not lost, f"{len(lost)} of {len(pages)} changed pages, the first at {lost[0]}"
        os.kill(pid, signal.SIGTERM)
        pool.wait_for_end(pid)


@test.each(*SCHEMES)
def foreground_mount_ends_at_interrupt(scheme):
    with Pool(scheme=scheme) as pool:
        process = subprocess.Popen([mounted_pool.FUSE, "--foreground", pool.uri, pool.mount_point],
                                   stderr=subprocess.PIPE, text=True)
        wait_until(pool.is_mounted, "the mount")
        write(pool.path("a"), b"a")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=runner.PATIENCE_SECONDS)
        assert process.returncode == 0 and "is mounted" in said and "is unmounted" in said, said
        assert not pool.is_mounted()


@test
def mount_and_fstab_use_the_helper():
    runner.need_root()
    with Pool("64MiB") as pool:
        helpers = f"{pool.top}/helpers"
        os.mkdir(helpers)
        os.symlink(mounted_pool.FUSE, f"{helpers}/mount.ros2store")
        pool.run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={helpers}:/usr/sbin",
                 "/usr/sbin")
        try:
            write(f"{pool.top}/fstab", f"{pool.uri} {pool.mount_point} ros2store "
                                       "ro,allow_other,users,nofail,x-a.b=c 0 0\n".encode())
            pool.run("mount", "--fstab", f"{pool.top}/fstab", pool.mount_point)
            pid = pool.pid()
            fails(errno.EROFS, os.mkdir, pool.path("d"))
            assert os.statvfs(pool.mount_point).f_flag & os.ST_NOEXEC, "users means noexec"
            pool.run("mount", "--fstab", f"{pool.top}/fstab", "--all")  # it is mounted already
            pool.run("umount", pool.mount_point)
            pool.wait_for_end(pid)
            done = pool.run("mount", "-t", "ros2store", "-o", "bogus=a", pool.uri, pool.mount_point,
                            expect=1)
            assert "mount.ros2store: the mount option 'bogus=a'" in done.stderr, done.stderr
            done = pool.run("mount", "-t", "ros2store", pool.uri + "none", pool.mount_point,
                            expect=32)
            assert "none" in done.stderr, done.stderr
        finally:
            pool.run("umount", "/usr/sbin")


@test
def a_pool_is_mounted_again_at_once():
    with Pool("64MiB") as pool:
        pid = pool.mount()
        os.kill(pid, signal.SIGSTOP)  # it hears of the end when the next one is waiting already
        pool.run("fusermount3", "-u", pool.mount_point)
        next_one = subprocess.Popen([mounted_pool.FUSE, pool.uri, pool.mount_point], stderr=subprocess.PIPE,
                                    text=True)
        time.sleep(0.5)
        os.kill(pid, signal.SIGCONT)
        _, said = next_one.communicate(timeout=runner.PATIENCE_SECONDS)
        assert next_one.returncode == 0, said
        pool.unmount(pool.pid())


def resident_mib(pid, kind="RssAnon"):
    """Returns the resident size of a kind. RssAnon has no pages of files, which depend on what the
    kernel reads. RssShmem is memory shared with peers, and counts in both processes."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith(kind))


def use_directly(path):
    memory = mmap.mmap(-1, 1 << 20)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    for operation, times in ((os.pwritev, 16), (os.preadv, 4)):
        for _ in range(times):
            operation(descriptor, [memory], 0)
    os.close(descriptor)


def use_many_files(pool):
    users = [threading.Thread(target=use_directly, args=(pool.path(f"file{i}"),))
             for i in range(64)]
    for each in users:
        each.start()
    for each in users:
        each.join()
    for name in os.listdir(pool.mount_point):
        os.unlink(pool.path(name))


def memory_is_given_back(pool, *pids):
    """Each process gives back memory after many threads have used files and removed them."""
    before = [resident_mib(pid) for pid in pids]
    use_many_files(pool)
    busy = [resident_mib(pid) for pid in pids]
    for i, pid in enumerate(pids):
        allowed = before[i] + 8
        wait_until(lambda: resident_mib(pid) <= allowed,
                   f"{before} MiB before, {busy} MiB at work; process {i} at rest again at most "
                   f"{allowed}")


def keeps_freed_memory():
    """Returns whether the program keeps freed memory, as a sanitizer does."""
    with open(mounted_pool.FUSE, "rb") as program:
        return b"__asan_init" in program.read()


@test
def the_memory_of_a_mount_is_given_back():
    if keeps_freed_memory():
        return
    with Pool("512MiB") as pool:
        pid = pool.mount()
        memory_is_given_back(pool, pid)
        pool.unmount(pid)


@test
def the_memory_of_daemons_is_given_back():
    if keeps_freed_memory():
        return
    with Pool("512MiB", scheme=OFFLOAD) as pool:
        pid = pool.mount()
        memory_is_given_back(
            pool, *map(pool.daemon, ("ros2store-engine", "ros2store-dpu")))
        pool.unmount(pid)


# The DPU's session with the engine stays, with its shared memory.
@test.each(*SERVED)
def shared_memory_ends_with_its_session(scheme):
    with Pool("512MiB", scheme=scheme) as pool:
        daemon = pool.daemon("ros2store-engine" if scheme == DIRECT else "ros2store-dpu")
        pid = pool.mount()
        use_many_files(pool)
        shared = resident_mib(pid, "RssShmem")
        busy = resident_mib(daemon, "RssShmem")
        assert busy >= shared >= 8, (busy, shared)
        pool.unmount(pid)
        # Both counts are of touched pages, which differ slightly.
        wait_until(lambda: resident_mib(daemon, "RssShmem") <= busy - shared // 2,
                   f"{busy} MiB shared, {shared} MiB of it with the mount, to be given back")
        if scheme == DIRECT:
            assert resident_mib(daemon, "RssShmem") <= 1


@test
def handles_outlive_the_mount():
    runner.need_root()
    with Pool("64MiB") as pool:
        pid = pool.mount()
        os.mkdir(pool.path("d"))
        write(pool.path("d/file"), b"content")
        handles = [posix_calls.handle_of(pool.path(name)) for name in ("d/file", "d")]
        pool.unmount(pid)
        pid = pool.mount()
        opened = [posix_calls.open_by_handle(pool.mount_point, each) for each in handles]
        assert os.read(opened[0], 100) == b"content" and os.listdir(opened[1]) == ["file"]
        for descriptor in opened:
            os.close(descriptor)
        os.unlink(pool.path("d/file"))

        def is_gone():
            try:
                os.close(posix_calls.open_by_handle(pool.mount_point, handles[0]))
            except OSError as error:
                assert error.errno == errno.ESTALE, error
                return True
            return False

        # A node that lost its name stays usable for a while.
        wait_until(is_gone, "a removed file to be gone")
        pool.unmount(pid)


def refused(pool, *words, status=1, says=()):
    done = pool.run(*words, expect=status)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("ros2store-fuse: "), done.stderr
    for text in says:
        assert text in lines[0], f"{text!r} is not in: {lines[0]}"


@test
def refusals_say_what_to_do():
    with Pool() as pool:
        mount = pool.mount_point
        refused(pool, mounted_pool.FUSE, status=2, says=["URI", "--help"])
        refused(pool, mounted_pool.FUSE, pool.uri, mount, "--nonsense", status=2, says=["--nonsense"])
        refused(pool, mounted_pool.FUSE, "http://x", mount, status=2, says=["ros2s+local"])
        refused(pool, mounted_pool.FUSE, "ros2s+local:///pool/main/sub?dir=x", mount, status=2, says=["/sub"])
        refused(pool, mounted_pool.FUSE, pool.uri, f"{pool.top}/none", says=[f"mkdir -p {pool.top}/none"])
        write(f"{pool.top}/file", b"")
        refused(pool, mounted_pool.FUSE, pool.uri, f"{pool.top}/file", says=["not a directory"])
        refused(pool, mounted_pool.FUSE, pool.uri, pool.top, says=["not empty"])
        refused(pool, mounted_pool.FUSE, f"{LOCAL}:///pool/main?dir=/nowhere", mount, says=["/nowhere"])
        refused(pool, mounted_pool.FUSE, pool.uri.replace("/main", "/other"), mount, says=["other", "main"])
        pid = pool.mount()
        refused(pool, mounted_pool.FUSE, pool.uri, mount, says=["mount point already", "fusermount3 -u"])
        second = f"{pool.top}/second"
        os.mkdir(second)
        refused(pool, mounted_pool.FUSE, pool.uri, second, says=[str(pid), mount])
        refused(pool, mounted_pool.FUSE, "--foreground", pool.uri, second, says=[str(pid)])
        pool.unmount(pid)


@test
def refusal_without_the_device():
    runner.need_root()
    with Pool() as pool:
        script = (f"mount -t tmpfs none /dev && exec '{mounted_pool.FUSE}' '{pool.uri}' {pool.mount_point}")
        refused(pool, "unshare", "-m", "sh", "-c", script, says=["/dev/fuse", "modprobe fuse"])


@test
def a_mount_whose_daemon_is_away_is_not_dead():
    with Pool(scheme=OFFLOAD) as pool:
        pid = pool.mount()
        write(pool.path("file"), b"still here")
        os.kill(pool.daemon("ros2store-dpu"), signal.SIGKILL)
        try:
            os.statvfs(pool.mount_point)
            found = 0
        except OSError as error:
            found = error.errno
        assert found == errno.EHOSTDOWN, os.strerror(found)  # ENOTCONN: its process is gone
        pool.run(mounted_pool.CLI, "up", pool.directory)
        assert read(pool.path("file")) == b"still here"
        pool.unmount(pid)


@test
def a_failure_in_the_background_is_reported():
    with Pool() as pool:
        refused(pool, "sh", "-c", f"ulimit -n 6; exec '{mounted_pool.FUSE}' '{pool.uri}' {pool.mount_point}")
        assert not pool.is_mounted()


@test
def an_interrupted_start_leaves_no_mount():
    with Pool() as pool:
        owner = open(f"{pool.directory}/owner", "r+", encoding="utf-8")
        fcntl.lockf(owner, fcntl.LOCK_EX)
        owner.write(f"pid: {os.getpid()}\nprogram: ros2store\n")  # a command, so that it is waited for
        owner.flush()
        starter = subprocess.Popen([mounted_pool.FUSE, pool.uri, pool.mount_point])
        children = f"/proc/{starter.pid}/task/{starter.pid}/children"
        wait_until(lambda: os.path.exists(children) and read(children), "the background process")
        child = int(read(children))
        starter.send_signal(signal.SIGINT)
        assert starter.wait(timeout=runner.PATIENCE_SECONDS) == -signal.SIGINT
        owner.close()
        pool.wait_for_end(child)
        assert not pool.is_mounted()


if __name__ == "__main__":
    mounted_pool.main(test, __doc__)

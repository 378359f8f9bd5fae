#!/usr/bin/env python3
"""usage: mount_test.py BUILD_DIRECTORY [NAME…]

Tests ros2store-fuse on real pools, embedded, behind an engine and behind a DPU daemon: the meaning of files
through the kernel, that nothing acknowledged is lost when a process is killed, and how the program starts,
refuses and ends. The last line is "N passed, N failed". Exit status 77 where this machine cannot mount.
"""
import errno
import fcntl
import mmap
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import aio  # noqa: E402
import mounted_pool  # noqa: E402
import posix_checks  # noqa: E402
import removed_directories  # noqa: E402
import runner  # noqa: E402
from mounted_pool import (  # noqa: E402
    DIRECT, LOCAL, OFFLOAD, SCHEMES, SERVED, Pool, is_running, pattern, read, write)
from runner import wait_until  # noqa: E402

test = runner.Tests()
URI = f"{LOCAL}:///pool/main?dir="
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
        owner = subprocess.Popen([FUSE, "-f", pool.uri, pool.mount_point], stderr=subprocess.PIPE,
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


@test.each(*SCHEMES)
def posix_checks_on_a_real_pool(scheme):
    with Pool("1GiB", scheme=scheme) as pool:
        pid = pool.mount()
        shared = ["--shared"] if pool.is_served else []
        done = subprocess.run([sys.executable, "-B", f"{HERE}/posix_checks.py", *shared,
                               pool.mount_point], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        pool.unmount(pid)
        pid = pool.mount()
        assert os.listdir(pool.mount_point) == []
        pool.unmount(pid)


def read_on_and_on(path, size, end):
    """Keeps the kernel's pages of a file full."""
    descriptor = os.open(path, os.O_RDONLY)
    while not end.is_set():
        os.pread(descriptor, size, 0)


@test.each(*SCHEMES)
def asynchronous_direct_writes_reach_buffered_readers(scheme):
    if aio.CALLS is None:
        raise runner.NotHere("the numbers of its calls are not known on this machine")
    with Pool("64MiB", scheme=scheme) as pool:
        pid = pool.mount()
        path, size = pool.path("f"), 65536
        write(path, bytes(2 * size))
        end = multiprocessing.Event()
        reader = multiprocessing.Process(target=read_on_and_on, args=(path, size, end))
        reader.start()
        try:
            with open(path, "rb") as file:
                writer = aio.DirectWriter(path, size)
                contents = [bytes([turn]) * size for turn in range(1, 101)]
                stale = []
                for content in contents:
                    writer.write(content, 0)
                    if os.pread(file.fileno(), size, 0) != content:
                        stale.append(content[0])
                writer.close()
            assert not stale, f"after these writes old bytes were read: {stale}"
        finally:
            end.set()
            reader.join()
        assert read(path) == contents[-1] + bytes(size)
        pool.unmount(pid)


@test.each(*SERVED)
def appends_of_two_mounts_are_all_kept(scheme):
    with Pool("64MiB", scheme=scheme) as pool:
        pool.mount()
        second = pool.mount_second()
        logs = [os.open(f"{top}/log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
                for top in (pool.mount_point, second)]
        records = [b"%08d\n" % number for number in range(600)]
        for number, record in enumerate(records[:300]):  # in turn
            assert os.write(logs[number % 2], record) == len(record)
        halves = [threading.Thread(target=lambda log, some: [os.write(log, each) for each in some],
                                   args=(log, records[300 + 150 * i:450 + 150 * i]))
                  for i, log in enumerate(logs)]
        for each in halves:
            each.start()
        for each in halves:
            each.join()
        for log in logs:
            found = os.pread(log, 100_000, 0).splitlines(keepends=True)
            assert found[:300] == records[:300] and sorted(found) == records, len({*found})
            assert os.fstat(log).st_size == 5400
            os.close(log)


@test.each(*SERVED)
def another_mount_reads_what_was_written(scheme):
    with Pool("64MiB", scheme=scheme) as pool:
        pool.mount()
        second = pool.mount_second()
        path = pool.path("f")
        write(path, pattern(100_000, 0))
        before = os.stat(path)
        with open(f"{second}/f", "rb") as file:
            for turn in range(10):
                assert os.pread(file.fileno(), 100_000, 0) == pattern(100_000, turn), turn
                with mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ) as view:
                    assert view[:] == pattern(100_000, turn), f"mapped, {turn}"
                with open(path, "r+b") as other:
                    other.write(pattern(100_000, turn + 1))
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as rsync -t


# A node without a name is usable for some seconds. Longer than that.
GONE_SECONDS = 5


@test.each(*SCHEMES)
def removed_directories_in_use_answer_as_in_linux(scheme):
    with Pool("64MiB", scheme=scheme) as pool:
        pool.mount()
        removers = [pool.mount_point] + ([pool.mount_second()] if pool.is_served else [])
        removed_directories.check(pool.mount_point, removers, GONE_SECONDS)


@test.each(*SCHEMES)
def times_that_cannot_be_kept_are_cut(scheme):
    with Pool("64MiB", scheme=scheme) as pool:
        pid = pool.mount()
        write(pool.path("f"), b"")
        year = 31_556_952
        for seconds, kept in ((330 * year, 292), (-330 * year, -293), (200 * year, 200)):
            os.utime(pool.path("f"), (seconds, seconds))
            assert os.stat(pool.path("f")).st_mtime // year == kept, os.stat(pool.path("f"))
            assert os.stat(pool.path("f")).st_atime // year == kept, os.stat(pool.path("f"))
        pool.unmount(pid)


def cut_times(pool, uri, wanted):
    """What these times of a file become, and what the mount's log says."""
    mount = subprocess.Popen([FUSE, "-f", uri, pool.mount_point], stderr=subprocess.PIPE, text=True)
    wait_until(pool.is_mounted, "the mount")
    kept = []
    for seconds in wanted:
        write(pool.path("f"), b"")
        os.utime(pool.path("f"), (0, seconds))
        kept.append(os.stat(pool.path("f")).st_mtime_ns // 10**9)
    subprocess.run(["fusermount3", "-u", pool.mount_point], check=True)
    return kept, mount.communicate(timeout=runner.PATIENCE_SECONDS)[1]


# The limits are 1677 and 2262. ext4 stores no time before 1901 and gives no message. The mount does.
@test
def times_that_were_cut_are_logged():
    wanted = (-10**10, -8 * 10**9, -10**9, 5 * 10**9, 10**10)
    with Pool("64MiB", scheme=OFFLOAD) as pool:
        served = f"{pool.top}/served"
        os.mkdir(served)
        for uri in (pool.uri, pool.serve(served)):
            kept, said = cut_times(pool, uri, wanted)
            assert kept[2] == wanted[2] and kept[0] != wanted[0] and kept[4] != wanted[4], kept
            for seconds, became in zip(wanted, kept, strict=True):
                line = f"a time was set to {seconds} s from 1970 and became {became} s"
                assert (line in said) == (seconds != became), (uri, seconds, became, said)
            assert said.count("a time was set") == sum(
                seconds != became for seconds, became in zip(wanted, kept, strict=True)), said


@test
def a_mount_without_caches_keeps_its_locks():
    with Pool("64MiB") as pool:
        pid = pool.mount("--no-cache")
        with open(pool.path("f"), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with open(pool.path("f"), "w") as other:
                try:
                    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    raise AssertionError("the lock was granted twice")
                except BlockingIOError:
                    pass
        pool.unmount(pid)


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


@test.each(*SCHEMES)
def killed_mount_loses_nothing_acknowledged(scheme):
    with Pool(scheme=scheme) as pool:
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


@test
def a_mount_goes_on_when_the_daemons_behind_it_are_killed():
    with Pool(scheme=OFFLOAD) as pool:
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
                pool.run(CLI, "up", pool.directory)
            turns = writer.turns
            wait_until(lambda: writer.turns > turns + 100, f"writes after {turns}")
        finally:
            os.kill(pid, signal.SIGKILL)
            writer.join()
        wait_until(lambda: not is_running(pid), "its end")
        pid = pool.mount()
        writer.expect_all(read(pool.path("log")))
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
        process = subprocess.Popen([FUSE, "--foreground", pool.uri, pool.mount_point],
                                   stderr=subprocess.PIPE, text=True)
        wait_until(pool.is_mounted, "the mount")
        write(pool.path("a"), b"a")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=runner.PATIENCE_SECONDS)
        assert process.returncode == 0 and "is mounted" in said and "is unmounted" in said, said
        assert not pool.is_mounted()


@test.each(*SCHEMES)
def read_only_mount(scheme):
    with Pool(scheme=scheme) as pool:
        pid = pool.mount()
        write(pool.path("a"), b"a")
        pool.unmount(pid)
        pid = pool.mount("--read-only")
        assert read(pool.path("a")) == b"a"
        try:
            write(pool.path("b"), b"b")
            raise AssertionError("a read-only mount took a write")
        except OSError as error:
            assert error.errno == 30, error  # EROFS
        pool.unmount(pid)


@test.each(*SCHEMES)
def a_container_at_its_cap_says_edquot(scheme):
    with Pool("64MiB", scheme=scheme) as pool:
        # Caps are set by administrators of the engine.
        pool.run(CLI, "container", "set", pool.uri.replace("ros2s+dpu:", "ros2s:"), "--space", "4MiB")
        pid = pool.mount()
        space = os.statvfs(pool.mount_point)
        assert space.f_blocks * space.f_frsize == 4 << 20, space
        written = 0
        try:
            with open(pool.path("large"), "wb", buffering=0) as file:
                while written < 8 << 20:
                    written += file.write(pattern(1 << 16, written))
                os.fsync(file.fileno())
            raise AssertionError("a container took twice its cap")
        except OSError as error:
            assert error.errno == errno.EDQUOT, error
        # Acknowledged bytes are there, and a shorter file frees space.
        content = read(pool.path("large"))
        assert all(content[at:at + (1 << 16)] == pattern(1 << 16, at)
                   for at in range(0, written - (1 << 16), 1 << 16)), written
        os.truncate(pool.path("large"), 0)
        write(pool.path("small"), pattern(1 << 20, 1))
        assert read(pool.path("small")) == pattern(1 << 20, 1)
        pool.unmount(pid)


@test.each(*SCHEMES)
def allocated_space_takes_writes_in_a_full_pool(scheme):
    mib = 1 << 20
    with Pool("128MiB", scheme=scheme) as pool:
        pid = pool.mount()
        with open(pool.path("allocated"), "w+b", buffering=0) as file, \
                open(pool.path("rest"), "wb", buffering=0) as rest:
            os.posix_fallocate(file.fileno(), 0, 16 * mib)
            try:
                while rest.write(pattern(mib, 1)) == mib:
                    pass
                rest.write(pattern(mib, 1))
                raise AssertionError("the pool is not full")
            except OSError as error:
                assert error.errno == errno.ENOSPC, error
            for number in range(16):
                assert os.pwrite(file.fileno(), pattern(mib, number), number * mib) == mib
            for number in range(16):
                assert os.pread(file.fileno(), mib, number * mib) == pattern(mib, number)
        # Behind the end there is nothing that can have space.
        done = pool.run("fallocate", "--keep-size", "--offset", str(16 * mib), "--length", "4096",
                        pool.path("allocated"), expect=1)
        assert "unsupported" in done.stderr, done.stderr
        pool.unmount(pid)


@test
def mount_and_fstab_use_the_helper():
    runner.need_root()
    with Pool("64MiB") as pool:
        helpers = f"{pool.top}/helpers"
        os.mkdir(helpers)
        os.symlink(FUSE, f"{helpers}/mount.ros2store")
        pool.run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={helpers}:/usr/sbin",
                 "/usr/sbin")
        try:
            write(f"{pool.top}/fstab", f"{pool.uri} {pool.mount_point} ros2store "
                                       "ro,allow_other,nofail,x-a.b=c 0 0\n".encode())
            pool.run("mount", "--fstab", f"{pool.top}/fstab", pool.mount_point)
            pid = pool.pid()
            posix_checks.fails(errno.EROFS, os.mkdir, pool.path("d"))
            pool.run("mount", "--fstab", f"{pool.top}/fstab", "--all")  # it is mounted already
            pool.run("umount", pool.mount_point)
            pool.wait_for_end(pid)
            done = pool.run("mount", "-t", "ros2store", "-o", "noexec", pool.uri, pool.mount_point,
                            expect=1)
            assert "mount.ros2store: the mount option 'noexec'" in done.stderr, done.stderr
            done = pool.run("mount", "-t", "ros2store", pool.uri + "none", pool.mount_point,
                            expect=32)
            assert "none" in done.stderr, done.stderr
        finally:
            pool.run("umount", "/usr/sbin")


@test
def other_users_and_permissions():
    runner.need_root()
    script = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
results = []
for path, flags in (("open", os.O_RDONLY), ("open", os.O_WRONLY), ("closed/x", os.O_RDONLY)):
    try:
        os.close(os.open(sys.argv[1] + "/" + path, flags))
        results.append("yes")
    except PermissionError:
        results.append("no")
print(*results)
"""
    with Pool() as pool:
        os.chmod(pool.top, 0o755)
        for options, expected in (((), "no no no"), (("--allow-other",), "yes no no")):
            pid = pool.mount(*options)
            if not options:
                write(pool.path("open"), b"")
                os.chmod(pool.path("open"), 0o644)
                os.mkdir(pool.path("closed"), 0o700)
                write(pool.path("closed/x"), b"")
            done = pool.run(sys.executable, "-c", script, pool.mount_point)
            assert done.stdout.strip() == expected, done.stdout
            pool.unmount(pid)


# As rootless Podman mounts the layers of a container. Arguments: lower layer, mount, merged view.
IN_OVERLAY = """
overlay() { mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work,userxattr" "$3"; }
mkdir "$2/upper" "$2/work"
overlay "$@"
cd "$3"
rm removed
echo more >>changed
mv moved new
rm -r tree && mkdir tree && echo inside >tree/inside
rm removed.later && echo back >removed.later
cd /
umount "$3"
overlay "$@"
cd "$3"
echo $(ls; ls tree; cat changed new tree/inside removed.later)
"""


@test.each(*SCHEMES)
def an_overlay_has_its_upper_layer_in_a_mount(scheme):
    runner.need_root()
    namespace = "unshare", "--user", "--map-root-user", "--mount"
    # The work directory of an overlay has mode 000. A DPU does not see that a user has a capability.
    owner = 0 if scheme == OFFLOAD else 65534
    with Pool("64MiB", scheme=scheme, owner=owner or None) as pool:
        if subprocess.run([*namespace, "true"], capture_output=True).returncode != 0 or \
                "overlay" not in read("/proc/filesystems").decode():
            raise runner.NotHere("it needs user namespaces and overlayfs")
        lower, merged = f"{pool.top}/lower", f"{pool.top}/merged"
        os.makedirs(f"{lower}/tree/below")
        os.mkdir(merged)
        for name in ("removed", "removed.later", "changed", "moved"):
            write(f"{lower}/{name}", b"lower\n")
        for path in (lower, merged, *(f"{lower}/{name}" for name in os.listdir(lower)),
                     f"{lower}/tree/below"):
            os.chown(path, owner, owner)
        pid = pool.mount()
        done = pool.run(*namespace, "sh", "-euc", IN_OVERLAY, "sh", lower, pool.mount_point, merged)
        assert done.stdout.split() == ["changed", "new", "removed.later", "tree", "inside", "lower",
                                       "more", "lower", "inside", "back"], done.stdout
        left = pool.run("stat", "-c", "%F %t:%T", pool.path("upper/removed")).stdout
        assert left == "character special file 0:0\n", left
        pool.run("rm", "-rf", pool.path("upper"), pool.path("work"))
        pool.unmount(pid)


@test.each(*SCHEMES)
def set_id_bits_are_kept_and_cleared_as_in_linux(scheme):
    runner.need_root()
    with Pool("64MiB", scheme=scheme) as pool:
        os.chmod(pool.top, 0o755)
        for options in ((),) if pool.is_served else ((), ("--no-cache",)):
            pid = pool.mount("--allow-other", *options)
            pool.run(sys.executable, "-B", f"{HERE}/set_id_checks.py", pool.mount_point)
            pool.unmount(pid)


@test.each(*SCHEMES)
def users_run_programs_that_they_cannot_read(scheme):
    runner.need_root()
    script = "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); " \
             "os.execv(sys.argv[1], ['true'])"
    with Pool("64MiB", scheme=scheme) as pool:
        os.chmod(pool.top, 0o755)
        pid = pool.mount("--allow-other")
        os.chmod(pool.mount_point, 0o755)
        path = pool.path("true")
        shutil.copy(shutil.which("true"), path)
        for mode in (0o711, 0o111):
            os.chmod(path, mode)
            pool.run(sys.executable, "-c", script, path)
        os.chmod(path, 0o744)
        assert "PermissionError" in pool.run(sys.executable, "-c", script, path, expect=1).stderr
        pool.unmount(pid)


@test
def a_pool_is_mounted_again_at_once():
    with Pool("64MiB") as pool:
        pid = pool.mount()
        os.kill(pid, signal.SIGSTOP)  # it hears of the end when the next one is waiting already
        pool.run("fusermount3", "-u", pool.mount_point)
        next_one = subprocess.Popen([FUSE, pool.uri, pool.mount_point], stderr=subprocess.PIPE,
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
    with open(FUSE, "rb") as program:
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
        handles = [posix_checks.handle_of(pool.path(name)) for name in ("d/file", "d")]
        pool.unmount(pid)
        pid = pool.mount()
        opened = [posix_checks.open_by_handle(pool.mount_point, each) for each in handles]
        assert os.read(opened[0], 100) == b"content" and os.listdir(opened[1]) == ["file"]
        for descriptor in opened:
            os.close(descriptor)
        os.unlink(pool.path("d/file"))

        def is_gone():
            try:
                os.close(posix_checks.open_by_handle(pool.mount_point, handles[0]))
            except OSError as error:
                assert error.errno == errno.ESTALE, error
                return True
            return False

        # A node that lost its name stays usable for a while.
        wait_until(is_gone, "a removed file to be gone")
        pool.unmount(pid)


@test
def an_ordinary_user_mounts():
    runner.need_root()
    with Pool(owner=65534) as pool:
        pid = pool.mount()
        done = pool.run("sh", "-c", f"echo mine >{pool.path('f')} && cat {pool.path('f')}")
        assert done.stdout == "mine\n"
        pool.unmount(pid)
        pid = pool.mount()
        os.kill(pid, signal.SIGTERM)
        pool.wait_for_end(pid)


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
        refused(pool, FUSE, status=2, says=["URI", "--help"])
        refused(pool, FUSE, pool.uri, mount, "--nonsense", status=2, says=["--nonsense"])
        refused(pool, FUSE, "http://x", mount, status=2, says=["ros2s+local"])
        refused(pool, FUSE, "ros2s+local:///pool/main/sub?dir=x", mount, status=2, says=["/sub"])
        refused(pool, FUSE, pool.uri, f"{pool.top}/none", says=[f"mkdir -p {pool.top}/none"])
        write(f"{pool.top}/file", b"")
        refused(pool, FUSE, pool.uri, f"{pool.top}/file", says=["not a directory"])
        refused(pool, FUSE, pool.uri, pool.top, says=["not empty"])
        refused(pool, FUSE, URI + "/nowhere", mount, says=["/nowhere"])
        refused(pool, FUSE, pool.uri.replace("/main", "/other"), mount, says=["other", "main"])
        pid = pool.mount()
        refused(pool, FUSE, pool.uri, mount, says=["mount point already", "fusermount3 -u"])
        second = f"{pool.top}/second"
        os.mkdir(second)
        refused(pool, FUSE, pool.uri, second, says=[str(pid), mount])
        refused(pool, FUSE, "--foreground", pool.uri, second, says=[str(pid)])
        pool.unmount(pid)


@test
def refusal_without_the_device():
    runner.need_root()
    with Pool() as pool:
        script = (f"mount -t tmpfs none /dev && exec '{FUSE}' '{pool.uri}' {pool.mount_point}")
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
        pool.run(CLI, "up", pool.directory)
        assert read(pool.path("file")) == b"still here"
        pool.unmount(pid)


@test
def a_failure_in_the_background_is_reported():
    with Pool() as pool:
        refused(pool, "sh", "-c", f"ulimit -n 6; exec '{FUSE}' '{pool.uri}' {pool.mount_point}")
        assert not pool.is_mounted()


@test
def an_interrupted_start_leaves_no_mount():
    with Pool() as pool:
        owner = open(f"{pool.directory}/owner", "r+", encoding="utf-8")
        fcntl.lockf(owner, fcntl.LOCK_EX)
        owner.write(f"pid: {os.getpid()}\nprogram: ros2store\n")  # a command, so that it is waited for
        owner.flush()
        starter = subprocess.Popen([FUSE, pool.uri, pool.mount_point])
        children = f"/proc/{starter.pid}/task/{starter.pid}/children"
        wait_until(lambda: os.path.exists(children) and read(children), "the background process")
        child = int(read(children))
        starter.send_signal(signal.SIGINT)
        assert starter.wait(timeout=runner.PATIENCE_SECONDS) == -signal.SIGINT
        owner.close()
        pool.wait_for_end(child)
        assert not pool.is_mounted()


def main():
    global CLI, FUSE
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if not mounted_pool.use(sys.argv[1]):
        return 77
    CLI, FUSE = mounted_pool.CLI, mounted_pool.FUSE
    return test.run(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""usage: mount_test.py BUILD_DIRECTORY [NAME…]

Tests the files of ros2store-fuse on real pools, embedded, behind an engine and behind a DPU daemon: what files
mean through the kernel, and who may use them. mount_life_test.py tests how the program starts and ends. The
last line is "N passed, N failed". Exit status 77 where this machine cannot mount.
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

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import aio  # noqa: E402
import file_tier  # noqa: E402
import mounted_pool  # noqa: E402
import posix_checks  # noqa: E402
import removed_directories  # noqa: E402
import runner  # noqa: E402
from mounted_pool import OFFLOAD, SCHEMES, SERVED, Pool, pattern, read, two_mounts, write  # noqa: E402
from runner import wait_until  # noqa: E402

test = runner.Tests()


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
    with two_mounts("64MiB", scheme=scheme) as (pool, second):
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
    with two_mounts("64MiB", scheme=scheme) as (pool, second):
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
def calls_of_vllms_file_tier_work(scheme):
    if scheme == mounted_pool.LOCAL:
        with Pool() as pool:
            pool.mount()
            file_tier.check(pool.mount_point, pool.mount_point)
        return
    with two_mounts(scheme=scheme) as (pool, second):
        file_tier.check(pool.mount_point, second)


@test.each(*SCHEMES)
def blocks_of_a_cache_are_files_that_cannot_be_changed(scheme):
    with Pool("64MiB", scheme=scheme) as pool:
        files, blocks = pool.uri, pool.uri.replace("/main?", "/blocks?")
        engine = blocks.replace(OFFLOAD, mounted_pool.DIRECT)
        pool.run(mounted_pool.CLI, "container", "create", "--cache", "--size", "16MiB", engine)
        pool.uri = blocks

        def change_blocks(code):
            python = f"PYTHONPATH={os.path.dirname(os.path.dirname(mounted_pool.CLI))}/python"
            pool.run("env", python, "/usr/bin/python3", "-c", f"import ros2store; fs = ros2store.open({blocks!r}); {code}")

        change_blocks("assert fs.write_many([('first', b'x' * 300_000)], new=True) == [None]")
        pid = pool.mount()
        path = pool.path("first")
        assert os.listdir(pool.mount_point) == ["first"] and read(path) == b"x" * 300_000
        assert os.stat(path).st_mode == stat.S_IFREG | 0o444
        assert b"blocks=1 " in os.getxattr(pool.mount_point, "user.ros2store.cache")
        for change in (lambda: write(pool.path("second"), b""), lambda: os.unlink(path), lambda: os.chmod(path, 0o600),
                       lambda: os.rename(path, pool.path("second")), lambda: os.mkdir(pool.path("d")),
                       lambda: open(path, "r+b").close()):
            try:
                change()
                raise AssertionError("a change was not refused")
            except OSError as error:
                assert error.errno == errno.EROFS, error
        if scheme != mounted_pool.LOCAL:  # its other processes are read-only with the mount
            file = os.open(path, os.O_RDONLY)
            change_blocks("fs.unlink('first')")
            assert os.listdir(pool.mount_point) == [] and not os.path.exists(path)
            try:
                os.pread(file, 10, 0)
                raise AssertionError("a removed block was read")
            except OSError as error:
                assert error.errno == errno.ESTALE, error
            os.close(file)
        pool.unmount(pid)
        pool.uri = files


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
    mount = subprocess.Popen([mounted_pool.FUSE, "-f", uri, pool.mount_point], stderr=subprocess.PIPE, text=True)
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
        pool.run(mounted_pool.CLI, "container", "set", pool.uri.replace("ros2s+dpu:", "ros2s:"), "--space", "4MiB")
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


# As rootless Podman mounts the layers of a container. Arguments: lower layer, mount, merged view, Python.
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
"$4" -c 'import os; os.write(os.open(".", os.O_TMPFILE | os.O_RDWR), b"x")'
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
        done = pool.run(*namespace, "sh", "-euc", IN_OVERLAY, "sh", lower, pool.mount_point, merged,
                        sys.executable if owner == 0 and mounted_pool.kernel_is(6, 2) else "true")
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


if __name__ == "__main__":
    mounted_pool.main(test, __doc__)

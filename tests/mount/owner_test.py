#!/usr/bin/env python3
"""usage: owner_test.py BUILD_DIRECTORY [NAME…]

Tests what `ros2store why`, `status` and `down` learn from the process that has a pool mounted, and what that
process tells other users. The last line is "N passed, N failed". Exit status 77 where this machine cannot
mount.
"""
import errno
import json
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import mounted_pool  # noqa: E402
import runner  # noqa: E402
from mounted_pool import Pool, is_running, pattern, read, write  # noqa: E402
from runner import wait_until  # noqa: E402

test = runner.Tests()


def steps_of(request):
    return {step["step"] for step in request["steps"]}


def why(pool, *words):
    return json.loads(pool.run(mounted_pool.CLI, "--json", "why", *words).stdout)


@test
def why_asks_the_owner():
    with Pool() as pool:
        pid = pool.mount()
        content = pattern(3 * 4096, 5)
        os.mkdir(pool.path("d"))
        write(pool.path("d/f"), content)
        os.symlink("/d/f", pool.path("link"))  # from the container's root
        before = os.stat(pool.path("d/f")).st_mtime_ns
        for place in (pool.uri.replace("/main", "/main/d/f"), pool.path("d/f"),
                      pool.uri.replace("/main", "/main/link")):
            found = why(pool, place, "--offset", "4096")
            assert "embedded engine" in found["io_path"], found
            assert "mount" in found["opened"], found
            assert found["read"]["bytes"] == 4096 and found["fuse_us"] > 0, found
            assert {"fs.pread", "engine.fetch", "device.read"} <= steps_of(found["read"]), found
            assert found["write"] is None, found
            done = pool.run(mounted_pool.CLI, "why", "--write", place, expect=1)
            assert "leave out --write" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
        assert f"process {pid}" in why(pool, pool.uri.replace("/main", "/main/d/f"))["opened"]
        # Nothing was changed.
        assert os.listdir(pool.path("d")) == ["f"] and read(pool.path("d/f")) == content
        assert os.stat(pool.path("d/f")).st_mtime_ns == before
        pool.unmount(pid)
        pid = pool.mount("--read-only")
        assert steps_of(why(pool, pool.path("d/f"))["read"])
        pool.unmount(pid)


@test
def status_asks_the_owner():
    with Pool() as pool:
        pid = pool.mount()
        status = json.loads(pool.run(mounted_pool.CLI, "--json", "status", pool.directory).stdout)
        assert (status["targets"], status["read_only"]) == (16, False), status
        assert status["owner"]["pid"] == pid and status["total_bytes"] > 200 << 20, status
        assert status["index_bytes"] > 0, status
        said = pool.run(mounted_pool.CLI, "status", pool.directory).stdout
        for each in ("targets     16", "takes reads and writes", f"process {pid}",
                     f"mounted at {pool.mount_point}", f"ros2store down {pool.directory}"):
            assert each in said, said
        pool.unmount(pid)


@test
def down_names_the_process_that_has_a_copy_of_the_mount():
    if os.geteuid() != 0:
        raise runner.NotHere("only root creates mount namespaces")
    with Pool("64MiB") as pool:
        pid = pool.mount()
        with subprocess.Popen(["unshare", "--mount", "--propagation", "private", "cat"],
                              stdin=subprocess.PIPE) as other:
            wait_until(lambda: os.readlink(f"/proc/{other.pid}/exe").endswith("cat"), "its start")
            with subprocess.Popen([mounted_pool.CLI, "down", pool.directory], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) as down:
                said = down.stderr.readline()
                for each in (f"process {pid} still has", f"process {other.pid} (cat) has a copy",
                             f"nsenter -t {other.pid} -m umount {pool.mount_point}"):
                    assert each in said, said
                other.stdin.close()
                assert down.stdout.readline() == f"unmounted {pool.mount_point}\n"
            assert down.returncode == 0
        wait_until(lambda: not is_running(pid), "its end")


@test
def down_removes_what_a_killed_process_left():
    with Pool("64MiB") as pool:
        pid = pool.mount()
        write(pool.path("a"), b"a")
        inside = os.open(pool.mount_point, os.O_RDONLY)  # as a shell that stands in it has
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_running(pid), "its end")
        try:
            assert pool.is_mounted(), "there is nothing to find"
            def dead_mounts():
                status = json.loads(pool.run(mounted_pool.CLI, "--json", "status", pool.directory).stdout)
                assert status["owner"] is None, status
                return status["dead_mounts"]
            # Its connection ends a moment after its process.
            wait_until(lambda: dead_mounts() == [pool.mount_point], "the dead mount")
            said = pool.run(mounted_pool.CLI, "status", pool.directory).stdout
            assert f"dead mount  {pool.mount_point}" in said and "ros2store down" in said, said
            down = json.loads(pool.run(mounted_pool.CLI, "--json", "down", pool.directory).stdout)
            assert down["dead_unmounted"] == [pool.mount_point], down
            assert down["unmounted"] is None, down
            assert not pool.is_mounted()
        finally:
            os.close(inside)
        status = json.loads(pool.run(mounted_pool.CLI, "--json", "status", pool.directory).stdout)
        assert status["dead_mounts"] == [], status
        pid = pool.mount()
        assert read(pool.path("a")) == b"a"
        status = json.loads(pool.run(mounted_pool.CLI, "--json", "status", pool.directory).stdout)
        assert status["dead_mounts"] == [], "a living mount is called dead"
        pool.unmount(pid)


@test
def unknown_attributes_of_the_owner_are_refused():
    with Pool() as pool:
        pid = pool.mount()
        content = pattern(4096, 1)
        write(pool.path("f"), content)
        asks = "user.ros2store.why."
        assert b"embedded engine" in os.getxattr(pool.path("f"), asks + "0")
        for path, attribute, expected in (
                ("f", asks + "write", errno.ENODATA),
                ("f", asks + "4x", errno.ENODATA),
                ("", asks + "0", errno.EISDIR),
                ("f", "user.ros2store.status", errno.ENODATA)):
            try:
                os.getxattr(pool.path(path), attribute)
                raise AssertionError(f"{attribute} of '{path}' was answered")
            except OSError as error:
                assert error.errno == expected, (path, attribute, error)
        for name in (asks + "0", asks + "write", "user.ros2store.status", "user.ros2store.own"):
            try:
                os.setxattr(pool.path("f"), name, b"x")
                raise AssertionError(f"{name} was set")
            except OSError as error:
                assert error.errno == errno.EOPNOTSUPP, (name, error)
        assert os.listxattr(pool.path("f")) == [] and read(pool.path("f")) == content
        pool.unmount(pid)


if __name__ == "__main__":
    mounted_pool.main(test, __doc__)

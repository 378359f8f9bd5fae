#!/usr/bin/env python3
"""usage: acl_test.py BUILD_DIRECTORY [NAME…]

Mounts containers, and checks access control lists on one mount and on two. The last line is "N passed, N
failed". Exit status 77 where this machine cannot mount.
"""
import contextlib
import errno
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import mounted_pool  # noqa: E402
import runner  # noqa: E402
from acl_checks import ACCESS, DEFAULT, NAMED, OTHER, failure, grant, mode_of, rights, shown  # noqa: E402
from leases_test import SERVERS, seconds_of, stopped  # noqa: E402
from mounted_pool import DIRECT, LOCAL, OFFLOAD, SCHEMES, SERVED, Pool, write  # noqa: E402

test = runner.Tests()
LIST = f"u::rw-,u:{NAMED}:rw-,g::---,m::rw-,o::---"
INHERITED = f"u::rwx,u:{NAMED}:rwx,g::---,m::rwx,o::---"
OF_NEW_FILE = f"u::rw-,u:{NAMED}:rwx,g::---,m::rw-,o::---"


@contextlib.contextmanager
def pool_for_users(scheme):
    runner.need_root()
    with Pool("64MiB", scheme=scheme) as pool:
        os.chmod(pool.top, 0o755)
        yield pool


@test.each(*SCHEMES)
def lists_are_those_of_linux(scheme):
    with pool_for_users(scheme) as pool:
        for options in ((), ("--no-cache",)):
            pid = pool.mount("--allow-other", *options)
            pool.run(sys.executable, "-B", f"{HERE}/acl_checks.py", pool.mount_point)
            pool.unmount(pid)


@test.each((DIRECT,), (OFFLOAD,), (DIRECT, "--no-cache"), (OFFLOAD, "--no-cache"))
def list_counts_on_another_mount_at_once(setup):
    scheme, *options = setup
    with pool_for_users(scheme) as pool:
        pool.mount("--allow-other", *options)
        os.mkdir(pool.second_mount_point)
        uri = f"{OFFLOAD if scheme == DIRECT else DIRECT}:{pool.uri.partition(':')[2]}"
        pool.run(mounted_pool.FUSE, "--allow-other", *options, uri, pool.second_mount_point)
        for top in (pool.mount_point, pool.second_mount_point):
            os.chmod(top, 0o755)
        os.mkdir(pool.path("directory"), 0o700)
        write(pool.path("directory/file"), b"x")
        os.chmod(pool.path("directory/file"), 0o600)
        here, there = (f"{top}/directory" for top in (pool.mount_point, pool.second_mount_point))
        for turn in range(8):
            assert rights(f"{there}/file", NAMED) == "", turn
            grant(here, f"u::rwx,u:{NAMED}:--x,g::---,m::--x,o::---")
            grant(f"{here}/file", LIST)
            assert rights(f"{there}/file", NAMED) == "rw" and rights(f"{there}/file", OTHER) == "", turn
            assert shown(f"{there}/file") == LIST and mode_of(f"{there}/file") == 0o660, turn
            os.chmod(f"{there}/file", 0o640)
            assert rights(f"{here}/file", NAMED) == "r", turn
            assert shown(f"{here}/file") == LIST.replace("m::rw-", "m::r--"), turn
            os.removexattr(f"{there}/file", ACCESS)
            os.chmod(f"{there}/file", 0o600)
            assert rights(f"{here}/file", NAMED) == "" and shown(f"{here}/file") == "", turn
            os.chmod(here, 0o700)
            assert failure(os.stat, f"{there}/file", user=NAMED) == errno.EACCES, turn
        grant(here, INHERITED, DEFAULT)
        write(f"{there}/new", b"x")
        assert shown(f"{here}/new") == OF_NEW_FILE


@test.each(*SERVED)
def missing_list_is_answered_without_the_server(scheme):
    with pool_for_users(scheme) as pool:
        pool.mount("--allow-other")
        os.chmod(pool.mount_point, 0o755)
        paths = [pool.path(f"f{i}") for i in range(50)]
        for path in paths:
            write(path, b"x")

        def look():
            for path in paths:
                assert os.access(path, os.R_OK) and not os.access(path, os.W_OK)
                assert shown(path) == ""
        time.sleep(0.3)
        assert failure(look, user=OTHER) == 0
        with stopped(pool.daemon(SERVERS[scheme])):
            took = seconds_of(lambda: failure(look, user=OTHER))
        assert took < 1.5, took  # a request would wait for the server


@test
def lists_stay_with_their_nodes():
    with pool_for_users(LOCAL) as pool:
        pid = pool.mount()
        os.mkdir(pool.path("directory"))
        grant(pool.path("directory"), INHERITED, DEFAULT)
        write(pool.path("directory/file"), b"x")
        pool.unmount(pid)
        # Into a directory of this machine, and back.
        run = (mounted_pool.CLI, "cp", "-r")
        source = f"{LOCAL}:///pool/main/directory?dir={pool.directory}"
        pool.run(*run, source, f"{pool.top}/plain")
        assert shown(f"{pool.top}/plain/file") == "", "others' lists are no rights on this machine"
        pool.run(*run, "-p", source, f"{pool.top}/copy")
        assert shown(f"{pool.top}/copy", DEFAULT) == INHERITED
        assert shown(f"{pool.top}/copy/file") == OF_NEW_FILE
        pool.run(*run, f"{pool.top}/copy", f"{LOCAL}:///pool/main/back?dir={pool.directory}")
        pid = pool.mount()
        for name in ("directory", "back"):
            assert shown(pool.path(name), DEFAULT) == INHERITED, name
            assert shown(pool.path(f"{name}/file")) == OF_NEW_FILE, name
        pool.unmount(pid)


@test
def directory_of_a_dpu_has_none():
    with pool_for_users(OFFLOAD) as pool:
        served = f"{pool.top}/served"
        os.mkdir(served)
        grant(served, INHERITED)
        pool.uri = pool.serve(served)
        pool.mount("--allow-other")
        path = pool.path("directory")
        os.mkdir(path, 0o777)
        assert mode_of(path) == 0o755, "the umask"
        assert failure(grant, path, INHERITED) == errno.EOPNOTSUPP
        assert failure(os.getxattr, pool.mount_point, ACCESS) == errno.EOPNOTSUPP
        assert ACCESS not in os.listxattr(pool.mount_point)


if __name__ == "__main__":
    os.umask(0o022)
    mounted_pool.main(test, __doc__)

#!/usr/bin/env python3
"""usage: set_id_checks.py DIRECTORY [NAME…]

Changes files that have set-id bits, as root and as another user, and compares their modes with what Linux
keeps. It runs on any file system, as root; on ext4 it checks itself. The last line is "N passed, N failed";
the exit status is 1 if one failed.
"""
import ctypes
import mmap
import os
import stat
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import runner  # noqa: E402
from mounted_pool import write  # noqa: E402

check = runner.Tests()
TOP = None
OTHER = 65534
SET_IDS = stat.S_ISUID | stat.S_ISGID
FOR_EVERYBODY = (0o6666, 0o6676, 0o2666)
MODES = (*FOR_EVERYBODY, 0o4755)
LIBC = ctypes.CDLL(None, use_errno=True)
PUNCH_HOLE, ZERO_RANGE = 3, 0x10
CAP_FSETID = 4


def fallocate(file, mode):
    if LIBC.fallocate(file, mode, ctypes.c_long(0), ctypes.c_long(4096)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def copy_into(file):
    source = os.open(f"{TOP}/source", os.O_RDONLY)
    assert os.copy_file_range(source, file, 100, 0, 0) == 100
    os.close(source)


def opened(flags, change=lambda file: None):
    def change_by_path(path):
        file = os.open(path, flags)
        change(file)
        os.close(file)
    return change_by_path


# By descriptor.
CHANGES = {
    "write": lambda file: os.pwrite(file, b"x", 0),
    "truncate": lambda file: os.ftruncate(file, 10),
    "hole": lambda file: fallocate(file, PUNCH_HOLE),
    "zeros": lambda file: fallocate(file, ZERO_RANGE),
    "copy": copy_into,
}
# By path.
CHANGES_BY_PATH = {
    **{name: opened(os.O_WRONLY, change) for name, change in CHANGES.items()},
    "append": opened(os.O_WRONLY | os.O_APPEND, lambda file: os.write(file, b"x")),
    "O_DIRECT": opened(os.O_WRONLY | os.O_DIRECT,
                       lambda file: os.pwritev(file, [mmap.mmap(-1, 4096)], 0)),
    "O_TRUNC": opened(os.O_WRONLY | os.O_TRUNC),
    "O_CREAT": opened(os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    "truncate by path": lambda path: os.truncate(path, 10),
}
OWNER_CHANGES = {
    "chown": lambda path: os.chown(path, os.stat(path).st_uid, os.stat(path).st_gid),
    "chown to nobody new": lambda path: os.chown(path, -1, -1),
}


def mode_of(path):
    """statx(2) for the mode alone, as stat(1) calls it: the kernel may answer with what it remembers."""
    attributes = ctypes.create_string_buffer(256)
    only_mode, here, offset = 2, -100, 28
    assert LIBC.statx(here, os.fsencode(path), 0, only_mode, attributes) == 0
    return stat.S_IMODE(int.from_bytes(attributes[offset:offset + 2], sys.byteorder))


def make(mode, owner=(0, 0)):
    path = f"{TOP}/file"
    if not os.path.exists(path):
        write(path, b"x" * 8192)
    status = os.stat(path)
    if (status.st_uid, status.st_gid) != owner:
        os.chown(path, *owner)
    if mode_of(path) != mode:
        os.chmod(path, mode)
    assert mode_of(path) == mode
    return path


def as_other():
    os.setgroups([])
    os.setgid(OTHER)
    os.setuid(OTHER)


def as_member_of_roots_group():
    os.setgroups([0])
    os.setgid(OTHER)
    os.setuid(OTHER)


def without_capability():
    class Header(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]

    class Sets(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]

    header, sets = Header(0x20080522, 0), (Sets * 2)()
    assert LIBC.capget(ctypes.byref(header), sets) == 0
    sets[0].effective &= ~(1 << CAP_FSETID)
    assert LIBC.capset(ctypes.byref(header), sets) == 0


def run_as(become, function, *arguments):
    child = os.fork()
    if child == 0:
        status = 255
        try:
            become()
            function(*arguments)
            status = 0
        except OSError as error:
            status = error.errno
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def effective(mode):
    return stat.S_ISUID | (stat.S_ISGID if mode & stat.S_IXGRP else 0)


def change_all(become, owner, cleared, changes=CHANGES_BY_PATH, modes=MODES):
    wrong = []
    for mode in modes:
        for what, change in changes.items():
            path = make(mode, owner)
            failed = run_as(become, change, path)
            assert not failed, f"{what} of {mode:o}: {os.strerror(failed)}"
            found, expected = mode_of(path), mode & ~cleared(mode)
            if found != expected:
                wrong.append(f"{what} of {mode:o}: {found:o}, not {expected:o}")
    assert not wrong, "\n".join(wrong)


@check
def changes_by_root_keep_set_id_bits():
    change_all(lambda: None, (OTHER, OTHER), lambda mode: 0)


@check
def changes_by_a_non_member_clear_both_bits():
    change_all(as_other, (0, 0), lambda mode: SET_IDS, modes=FOR_EVERYBODY)
    change_all(as_other, (OTHER, 0), lambda mode: SET_IDS)


@check
def changes_by_a_member_clear_effective_bits():
    change_all(as_other, (OTHER, OTHER), effective)
    change_all(as_member_of_roots_group, (OTHER, 0), effective)


@check
def changes_by_root_without_cap_fsetid_clear_bits():
    for what, change in {**CHANGES_BY_PATH, **OWNER_CHANGES}.items():
        path = make(0o6777)
        assert run_as(without_capability, change, path) == 0, what
        assert mode_of(path) == 0o777, f"{what}: {mode_of(path):o}"


@check
def chown_clears_effective_bits():
    change_all(lambda: None, (0, 0), effective, OWNER_CHANGES)
    change_all(as_other, (OTHER, OTHER), effective, OWNER_CHANGES)
    change_all(as_other, (OTHER, 0), lambda mode: SET_IDS,
               {"chgrp": lambda path: os.chown(path, -1, OTHER)})


@check
def changes_drop_file_capabilities():
    value = struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)
    for what, change in {**CHANGES_BY_PATH, **OWNER_CHANGES}.items():
        path = make(0o755)
        os.setxattr(path, "security.capability", value)
        assert os.getxattr(path, "security.capability") == value
        os.chmod(path, 0o700)
        os.utime(path)
        assert os.listxattr(path) == ["security.capability"], what
        change(path)
        assert os.listxattr(path) == [], what


@check
def descriptor_of_root_clears_bits_for_other_writers():
    for become in (as_other, without_capability):
        for what, change in CHANGES.items():
            path = make(0o6777)
            file = os.open(path, os.O_RDWR)
            failed = run_as(become, change, file)
            assert not failed, f"{what}: {os.strerror(failed)}"
            assert mode_of(path) == 0o777, f"{what}: {mode_of(path):o}"
            os.chmod(path, 0o6777)
            CHANGES[what](file)  # root again
            assert mode_of(path) == 0o6777, f"{what}: {mode_of(path):o}"
            os.close(file)


@check
def chmod_of_a_file_of_another_group_clears_set_gid():
    path = make(0o644, (OTHER, 0))
    assert run_as(as_other, os.chmod, path, 0o6755) == 0
    assert mode_of(path) == 0o4755
    assert run_as(as_member_of_roots_group, os.chmod, path, 0o6755) == 0
    assert mode_of(path) == 0o6755


def main():
    global TOP
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    TOP = sys.argv[1]
    os.chmod(TOP, 0o777)
    write(f"{TOP}/source", b"source" * 1000)
    status = check.run(sys.argv[2:])
    os.unlink(f"{TOP}/source")
    os.unlink(f"{TOP}/file")
    return status


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())

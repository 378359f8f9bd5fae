"""System calls that Python lacks, and how the checks of files through the kernel call programs."""
import ctypes
import errno
import os
import struct
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100


def fails(number, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except OSError as error:
        assert error.errno == number, f"expected {errno.errorcode[number]}, got {error}"
        return
    raise AssertionError(f"expected {errno.errorcode[number]}, but it succeeded")


def run(*words, cwd=None):
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.returncode}: {done.stderr}"
    return done.stdout


def renamed(old, new, flags):
    if LIBC.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def birth_time(path):
    """In ns; None if the file system does not know it."""
    statx = ctypes.create_string_buffer(256)
    basic_stats, birth = 0x7ff, 0x800
    if LIBC.statx(AT_FDCWD, os.fsencode(path), 0, basic_stats | birth, statx) != 0:
        raise OSError(ctypes.get_errno(), "statx")
    mask, = struct.unpack_from("<I", statx, 0)
    size, = struct.unpack_from("<Q", statx, 40)
    assert size == os.stat(path).st_size
    seconds, nanoseconds = struct.unpack_from("<qI", statx, 80)
    return seconds * 10**9 + nanoseconds if mask & birth else None


def handle_of(path):
    """Returns a struct file_handle with room for its bytes."""
    handle = ctypes.create_string_buffer((128).to_bytes(4, sys.byteorder), 8 + 128)
    mount_id = ctypes.c_int()
    if LIBC.name_to_handle_at(AT_FDCWD, os.fsencode(path), handle, ctypes.byref(mount_id), 0) != 0:
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    return handle


def open_by_handle(top, handle):
    inside = os.open(top, os.O_RDONLY)
    descriptor = LIBC.open_by_handle_at(inside, handle, os.O_RDONLY)
    number = ctypes.get_errno()
    os.close(inside)
    if descriptor < 0:
        raise OSError(number, f"open_by_handle_at: {os.strerror(number)}")
    return descriptor

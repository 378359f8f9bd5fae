"""Checks of posix_checks.py: names, links, directories and attributes."""
import ctypes
import errno
import os
import shutil
import stat
import time

import removed_directories
import runner
from mounted_pool import kernel_is, pattern, read, write
from posix_calls import LIBC, birth_time, fails, handle_of, open_by_handle, renamed, run

check = runner.Tests()
TICK_NS = 20_000_000


@check
def rename_over_an_open_file(top):
    write(f"{top}/old", b"old")
    write(f"{top}/new", b"new")
    with open(f"{top}/old", "rb") as file:
        os.rename(f"{top}/new", f"{top}/old")
        assert file.read() == b"old"
        assert os.fstat(file.fileno()).st_nlink == 0
        assert read(f"{top}/old") == b"new"
    assert os.listdir(top) == ["old"]


@check
def renames(top):
    os.makedirs(f"{top}/a/b/c")
    os.mkdir(f"{top}/d")
    write(f"{top}/f", b"f")
    fails(errno.EINVAL, os.rename, f"{top}/a", f"{top}/a/b/x")
    fails(errno.ENOTEMPTY, os.rename, f"{top}/d", f"{top}/a")
    fails(errno.ENOTDIR, os.rename, f"{top}/d", f"{top}/f")
    fails(errno.EISDIR, os.rename, f"{top}/f", f"{top}/d")
    fails(errno.ENOENT, os.rename, f"{top}/none", f"{top}/x")
    os.rename(f"{top}/a/b", f"{top}/d/b")
    assert os.listdir(f"{top}/d") == ["b"] and os.listdir(f"{top}/a") == []
    os.rename(f"{top}/d", f"{top}/a")  # over an empty directory
    assert os.path.isdir(f"{top}/a/b/c") and not os.path.exists(f"{top}/d")
    write(f"{top}/g", b"g")
    fails(errno.EEXIST, renamed, f"{top}/f", f"{top}/g", 1)
    renamed(f"{top}/f", f"{top}/g", 2)
    assert read(f"{top}/f") == b"g" and read(f"{top}/g") == b"f"
    renamed(f"{top}/f", f"{top}/a", 2)  # a file and a directory
    assert os.path.isdir(f"{top}/f/b/c") and read(f"{top}/a") == b"g"


@check
def a_rename_leaves_a_whiteout(top):
    write(f"{top}/f", b"f")
    write(f"{top}/g", b"g")
    no_replace, exchange, whiteout = 1, 2, 4
    fails(errno.EEXIST, renamed, f"{top}/f", f"{top}/g", no_replace | whiteout)
    fails(errno.EINVAL, renamed, f"{top}/f", f"{top}/g", exchange | whiteout)
    renamed(f"{top}/f", f"{top}/g", whiteout)
    assert read(f"{top}/g") == b"f"
    status = os.stat(f"{top}/f")
    assert stat.S_ISCHR(status.st_mode) and status.st_rdev == 0, status
    os.link(f"{top}/f", f"{top}/h")
    os.rename(f"{top}/g", f"{top}/f")
    assert read(f"{top}/f") == b"f" and stat.S_ISCHR(os.stat(f"{top}/h").st_mode)
    assert {*os.listdir(top)} == {"f", "h"}


@check
def times_of_birth(top):
    if not kernel_is(6, 6):
        return
    write(f"{top}/f", b"f")
    born = birth_time(f"{top}/f")
    # A kernel that keeps writes sets the time itself, by a clock that moves every few ms.
    assert born is not None and born <= os.stat(f"{top}/f").st_ctime_ns + TICK_NS
    write(f"{top}/f", b"more")
    os.utime(f"{top}/f", ns=(0, 0))
    os.rename(f"{top}/f", f"{top}/g")
    assert birth_time(f"{top}/g") == born
    os.mkdir(f"{top}/d")
    assert birth_time(f"{top}/d") > born


@check
def immutable_and_append_only(top):
    if os.geteuid() != 0 or not shutil.which("chattr"):
        return
    path = f"{top}/d/f"
    os.mkdir(f"{top}/d")
    write(path, b"content")
    for flag, name in ("i", "immutable"), ("a", "append"):
        run("chattr", f"+{flag}", path)
        assert flag in run("lsattr", path).split()[0], name
        try:
            fails(errno.EPERM, os.open, path, os.O_RDWR)
            fails(errno.EPERM, os.truncate, path, 1)
            fails(errno.EPERM, os.chmod, path, 0o600)
            fails(errno.EPERM, os.unlink, path)
            fails(errno.EPERM, os.rename, path, f"{top}/g")
            fails(errno.EPERM, os.link, path, f"{top}/g")
            fails(errno.EPERM, os.setxattr, path, "user.a", b"1")
            if flag == "a":
                with open(path, "ab") as file:
                    file.write(b" more")
            else:
                fails(errno.EPERM, os.open, path, os.O_WRONLY | os.O_APPEND)
            assert read(path) == (b"content" if flag == "i" else b"content more")
        finally:
            run("chattr", f"-{flag}", path)
        run("chattr", f"+{flag}", f"{top}/d")
        try:
            fails(errno.EPERM, os.unlink, path)
            if flag == "i":
                fails(errno.EPERM, os.mkdir, f"{top}/d/e")
        finally:
            run("chattr", f"-{flag}", f"{top}/d")
    os.unlink(path)


@check
def removed_directories_in_use_answer_as_in_linux(top):
    removed_directories.check(top, [top], 0)


@check
def directory_read_behind_its_end(top):
    write(f"{top}/file", b"")
    buffer = ctypes.create_string_buffer(4096)
    descriptor = os.open(top, os.O_RDONLY)
    try:
        # Where offsets are positions of names, names may follow the smaller offsets.
        for offset in (1000, 1 << 31, 1 << 40, (1 << 63) - 10):
            os.lseek(descriptor, offset, os.SEEK_SET)
            got = LIBC.getdents64(descriptor, buffer, ctypes.c_size_t(len(buffer)))
            error = os.strerror(ctypes.get_errno())
            assert got == 0 or (got > 0 and offset < (1 << 63) - 10), f"{offset}: {got}: {error}"
        os.lseek(descriptor, 0, os.SEEK_SET)
        assert LIBC.getdents64(descriptor, buffer, ctypes.c_size_t(len(buffer))) > 0
    finally:
        os.close(descriptor)


@check
def files_opened_by_handle(top):
    if os.geteuid() != 0:
        return
    write(f"{top}/file", b"content")
    os.mkdir(f"{top}/d")
    for path in (f"{top}/file", f"{top}/d"):
        descriptor = open_by_handle(top, handle_of(path))
        try:
            assert os.path.samestat(os.fstat(descriptor), os.stat(path))
        finally:
            os.close(descriptor)


@check
def a_rename_changes_the_ctime(top):
    write(f"{top}/file", b"x")
    os.mkdir(f"{top}/d")
    for old, new in (("file", "d/file"), ("d", "e")):
        before = os.stat(f"{top}/{old}")
        time.sleep(TICK_NS / 1e9)
        os.rename(f"{top}/{old}", f"{top}/{new}")
        after = os.stat(f"{top}/{new}")
        assert after.st_ctime_ns > before.st_ctime_ns, (old, before, after)
        assert old == "d" or after.st_mtime_ns == before.st_mtime_ns


@check
def hard_links(top):
    write(f"{top}/a", b"content")
    os.link(f"{top}/a", f"{top}/b")
    os.mkdir(f"{top}/d")
    os.link(f"{top}/b", f"{top}/d/c")
    assert os.stat(f"{top}/a").st_nlink == 3
    assert os.path.samefile(f"{top}/a", f"{top}/d/c")
    write(f"{top}/d/c", b"changed")
    assert read(f"{top}/a") == b"changed"
    os.unlink(f"{top}/a")
    assert os.stat(f"{top}/b").st_nlink == 2
    fails(errno.EEXIST, os.link, f"{top}/b", f"{top}/d/c")
    fails(errno.EPERM, os.link, f"{top}/d", f"{top}/e")


@check
def symbolic_links(top):
    os.symlink("target", f"{top}/s")
    write(f"{top}/target", b"t")
    assert read(f"{top}/s") == b"t" and os.readlink(f"{top}/s") == "target"
    assert os.lstat(f"{top}/s").st_size == 6
    os.symlink("loop", f"{top}/loop")
    fails(errno.ELOOP, os.stat, f"{top}/loop")
    long = "x/" * 2000
    os.symlink(long, f"{top}/long")
    assert os.readlink(f"{top}/long") == long


@check
def extended_attributes(top):
    path = f"{top}/f"
    write(path, b"")
    os.setxattr(path, "user.one", b"1")
    os.setxattr(path, "user.empty", b"")
    os.setxattr(path, "user.big", pattern(2000))
    assert sorted(os.listxattr(path)) == ["user.big", "user.empty", "user.one"]
    assert os.getxattr(path, "user.big") == pattern(2000)
    assert os.getxattr(path, "user.empty") == b""
    fails(errno.EEXIST, os.setxattr, path, "user.one", b"2", os.XATTR_CREATE)
    fails(errno.ENODATA, os.setxattr, path, "user.two", b"2", os.XATTR_REPLACE)
    os.setxattr(path, "user.one", b"2", os.XATTR_REPLACE)
    assert os.getxattr(path, "user.one") == b"2"
    os.removexattr(path, "user.one")
    fails(errno.ENODATA, os.getxattr, path, "user.one")
    fails(errno.ENODATA, os.removexattr, path, "user.one")
    run("setfattr", "-n", "user.dir", "-v", "yes", top)
    assert "yes" in run("getfattr", "-n", "user.dir", "--only-values", top)


@check
def modes_owners_and_times(top):
    path = f"{top}/f"
    write(path, b"x")
    os.chmod(path, 0o4711)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o4711
    os.utime(path, ns=(1_000_000_007, 2_000_000_000_123_456_789))
    status = os.stat(path)
    assert (status.st_atime_ns, status.st_mtime_ns) == (1_000_000_007, 2_000_000_000_123_456_789)
    os.utime(path, ns=(-1_500_000_000, -1))  # before 1970
    assert os.stat(path).st_mtime_ns == -1
    before = os.stat(path).st_ctime_ns
    os.chmod(path, 0o600)
    assert os.stat(path).st_ctime_ns >= before
    before_umask = os.umask(0o022)
    os.mkdir(f"{top}/d", 0o751)
    os.umask(before_umask)
    assert stat.S_IMODE(os.stat(f"{top}/d").st_mode) == 0o751 & ~0o022
    before = os.stat(f"{top}/d").st_mtime_ns
    write(f"{top}/d/new", b"")
    assert os.stat(f"{top}/d").st_mtime_ns > before
    assert os.stat(f"{top}/d").st_nlink in (1, 2)  # 1: subdirectories are not counted
    os.mkdir(f"{top}/d/sub")
    assert os.stat(f"{top}/d").st_nlink in (1, 3)
    os.mkfifo(f"{top}/fifo")
    assert stat.S_ISFIFO(os.stat(f"{top}/fifo").st_mode)
    if os.geteuid() == 0:
        os.chown(path, 1234, 5678)
        status = os.stat(path)
        assert (status.st_uid, status.st_gid) == (1234, 5678)
        os.chown(f"{top}/d", -1, 4321)
        os.chmod(f"{top}/d", 0o2775)
        write(f"{top}/d/inherits", b"")
        os.mkdir(f"{top}/d/too")
        assert os.stat(f"{top}/d/inherits").st_gid == 4321
        assert os.stat(f"{top}/d/too").st_gid == 4321
        assert os.stat(f"{top}/d/too").st_mode & stat.S_ISGID


@check
def names_and_limits(top):
    os.mkdir(f"{top}/" + "n" * 255)
    fails(errno.ENAMETOOLONG, os.mkdir, f"{top}/" + "n" * 256)
    odd = os.fsencode(top) + b"/\xff\xfe odd\n"
    write(odd, b"odd")
    assert read(odd) == b"odd"
    fails(errno.EEXIST, os.mkdir, f"{top}/" + "n" * 255)
    fails(errno.ENOENT, os.rmdir, f"{top}/none")
    fails(errno.ENOENT, os.stat, f"{top}/none")
    write(f"{top}/none", b"")  # the name whose absence may be remembered
    os.stat(f"{top}/none")
    fails(errno.ENOTDIR, os.stat, f"{top}/none/x")
    fails(errno.EISDIR, os.open, top, os.O_WRONLY)
    fails(errno.ENOTEMPTY, os.rmdir, top)
    fails(errno.EEXIST, os.open, f"{top}/none", os.O_CREAT | os.O_EXCL | os.O_WRONLY)


@check
def large_directory(top):
    count = 1000
    for i in range(count):
        os.close(os.open(f"{top}/name-{i:06d}", os.O_CREAT | os.O_WRONLY))
    names = os.listdir(top)
    assert len(names) == count and len(set(names)) == count
    assert run("ls", "-l", top).count("\n") == count + 1
    with os.scandir(top) as entries:  # removing while reading
        seen = 0
        for entry in entries:
            assert entry.is_file()
            os.unlink(entry.path)
            seen += 1
    assert seen == count and os.listdir(top) == []


class Dirent(ctypes.Structure):
    _fields_ = [("d_ino", ctypes.c_uint64), ("d_off", ctypes.c_int64),
                ("d_reclen", ctypes.c_ushort), ("d_type", ctypes.c_ubyte),
                ("d_name", ctypes.c_char * 256)]


@check
def positions_in_a_directory(top):
    """seekdir() to a position of telldir() finds the name, however often."""
    for i in range(300):
        os.close(os.open(f"{top}/name-{i:06d}", os.O_CREAT | os.O_WRONLY))
    for name, result, arguments in (
            ("opendir", ctypes.c_void_p, [ctypes.c_char_p]),
            ("readdir", ctypes.POINTER(Dirent), [ctypes.c_void_p]),
            ("telldir", ctypes.c_long, [ctypes.c_void_p]),
            ("seekdir", None, [ctypes.c_void_p, ctypes.c_long]),
            ("closedir", ctypes.c_int, [ctypes.c_void_p])):
        function = getattr(LIBC, name)
        function.restype, function.argtypes = result, arguments
    directory = LIBC.opendir(os.fsencode(top))
    found = []
    while True:
        position = LIBC.telldir(directory)
        entry = LIBC.readdir(directory)
        if not entry:
            break
        found.append((position, entry.contents.d_name))
    assert len(found) == 302
    for turn in range(2000):
        position, name = found[turn * 97 % len(found)]
        LIBC.seekdir(directory, position)
        entry = LIBC.readdir(directory)
        assert entry and entry.contents.d_name == name, (turn, name)
    LIBC.closedir(directory)

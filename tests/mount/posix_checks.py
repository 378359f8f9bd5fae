#!/usr/bin/env python3
"""usage: posix_checks.py [--shared] DIRECTORY [NAME…]

Uses a directory through the kernel as Linux programs do, and compares with what POSIX and open(2) promise. It
runs on any file system; on ext4 it checks itself. Each check gets its own directory. The last line is "N
passed, N failed"; the exit status is 1 if one failed. --shared: the mount is one of several. File locks are
refused, and shared mappings need Linux 6.6.
"""
import ctypes
import errno
import fcntl
import hashlib
import mmap
import multiprocessing
import os
import shutil
import sqlite3
import stat
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import removed_directories  # noqa: E402
import runner  # noqa: E402
from mounted_pool import kernel_is, read, write  # noqa: E402
from removed_directories import fails  # noqa: E402

check = runner.Tests()
SHARED = False


def maps_shared():
    return not SHARED or kernel_is(6, 6)


def run(*words, cwd=None):
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.returncode}: {done.stderr}"
    return done.stdout


LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100


def renamed(old, new, flags):
    if LIBC.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def pattern(size, seed=1):
    block = hashlib.sha256(str(seed).encode()).digest() * 2048
    return (block * (size // len(block) + 1))[:size]


def hashes(top):
    found = {}
    for directory, names, files in os.walk(top):
        for name in names + files:
            path = os.path.join(directory, name)
            key = os.path.relpath(path, top)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                found[key] = ("link", os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                found[key] = ("directory", stat.S_IMODE(status.st_mode))
            else:
                content = hashlib.sha256(read(path)).hexdigest()
                found[key] = ("file", stat.S_IMODE(status.st_mode), int(status.st_mtime), content)
    return found


@check
def copy_of_a_tree(top):
    source = tempfile.mkdtemp()
    try:
        for i in range(8):
            os.makedirs(f"{source}/d{i}/e/f")
            for j, size in enumerate((0, 1, 100, 4095, 4096, 4097, 70000)):
                write(f"{source}/d{i}/e/{j}", pattern(size, i * 10 + j))
            os.symlink("e/0", f"{source}/d{i}/link")
            os.chmod(f"{source}/d{i}/e/1", 0o640 + i % 8)
        write(f"{source}/large", pattern(9 * 1024 * 1024 + 17))
        run("cp", "-a", source, f"{top}/copy")
        assert hashes(source) == hashes(f"{top}/copy")
        run("cp", "-r", f"{top}/copy", f"{top}/again")
        assert set(hashes(source)) == set(hashes(f"{top}/again"))
        run("tar", "-cf", f"{top}/t.tar", "-C", top, "copy")
        os.mkdir(f"{top}/untarred")
        run("tar", "-xf", f"{top}/t.tar", "-C", f"{top}/untarred")
        assert hashes(source) == hashes(f"{top}/untarred/copy")
        count = run("find", f"{top}/copy", "-type", "f").count("\n")
        assert count == 8 * 7 + 1, count
        run("rm", "-rf", f"{top}/copy", f"{top}/again", f"{top}/untarred")
        assert os.listdir(top) == ["t.tar"]
    finally:
        shutil.rmtree(source)


@check
def git_repository(top):
    git = ["git", "-C", top, "-c", "user.name=t", "-c", "user.email=t@example.org"]
    run("git", "init", "-q", top)
    for i in range(30):
        write(f"{top}/file{i}", pattern(i * 997, i))
    run(*git, "add", "-A")
    run(*git, "commit", "-q", "-m", "one")
    assert run(*git, "status", "--porcelain") == ""
    write(f"{top}/file3", b"changed")
    assert run(*git, "status", "--porcelain").split() == ["M", "file3"]
    run(*git, "commit", "-qam", "two")
    run(*git, "gc", "-q")
    run(*git, "fsck", "--strict")
    run("git", "clone", "-q", top, f"{top}/clone")
    assert read(f"{top}/clone/file29") == pattern(29 * 997, 29)


@check
def sqlite_database(top):
    for mode in ("delete", "wal"):
        path = f"{top}/{mode}.db"
        db = sqlite3.connect(path)
        assert db.execute(f"pragma journal_mode={mode}").fetchone()[0] == mode
        db.execute("create table t(a integer primary key, b blob)")
        for i in range(15):
            with db:
                db.executemany("insert into t(b) values(?)", [(pattern(i * 31, i),)] * 5)
        try:
            with db:
                db.execute("delete from t")
                raise KeyError  # rolls back
        except KeyError:
            pass
        db.close()
        db = sqlite3.connect(path)
        assert db.execute("pragma integrity_check").fetchone()[0] == "ok"
        assert db.execute("select count(*), sum(length(b)) from t").fetchone() == (
            75, sum(i * 31 * 5 for i in range(15)))
        db.close()


@check
def memory_maps(top):
    path = f"{top}/mapped"
    write(path, pattern(300000))
    with open(path, "r+b") as file:
        with mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ) as view:
            assert view[:] == pattern(300000)
        if not maps_shared():
            fails(errno.ENODEV, mmap.mmap, file.fileno(), 0)
            return
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
            assert view[:] == pattern(300000)
        with mmap.mmap(file.fileno(), 0) as view:
            view[100000:100005] = b"HELLO"
            view[4096:4097] = b"!"
            view.flush()
            assert os.pread(file.fileno(), 5, 100000) == b"HELLO"
            os.pwrite(file.fileno(), b"there", 200000)
            assert view[200000:200005] == b"there"
    expected = bytearray(pattern(300000))
    expected[100000:100005], expected[4096:4097] = b"HELLO", b"!"
    expected[200000:200005] = b"there"
    assert read(path) == bytes(expected)
    assert os.stat(path).st_size == 300000


# One process stores to pages of a mapping while another one writes elsewhere in the same pages.
@check
def stores_beside_writes_of_the_same_pages(top):
    if not maps_shared():
        return
    pages = 64
    file = os.open(f"{top}/mapped", os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, pages * 4096)
    with mmap.mmap(file, pages * 4096) as view:
        for turn in range(1, 6):
            writer = os.fork()
            if writer == 0:
                for page in range(pages):
                    os.pwrite(file, bytes([turn] * 3), page * 4096 + 1021)
                os._exit(0)
            for page in range(pages):
                view[page * 4096 + 1020] = view[page * 4096 + 1024] = turn
            assert os.waitpid(writer, 0)[1] == 0
            view.flush()
            for found in (os.pread(file, pages * 4096, 0), view[:]):
                wrong = [page for page in range(pages)
                         if found[page * 4096 + 1020:page * 4096 + 1025] != bytes([turn] * 5)]
                assert not wrong, (turn, wrong)
    os.close(file)


def append_lines(path, who, count):
    with open(path, "ab", buffering=0) as file:
        for i in range(count):
            file.write(f"{who:02d} {i:05d} {'x' * 80}\n".encode())


@check
def appends_from_several_processes(top):
    path = f"{top}/log"
    children = [multiprocessing.Process(target=append_lines, args=(path, i, 100)) for i in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    lines = read(path).decode().splitlines()
    assert len(lines) == 400 and all(len(line) == 89 for line in lines)
    for who in range(4):
        own = [line for line in lines if line.startswith(f"{who:02d} ")]
        assert own == sorted(own) and len(own) == 100


@check
def appends_by_one_descriptor(top):
    path = f"{top}/log"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, b"x" * 5000)
        os.pwrite(descriptor, b"end", 0)  # Linux appends nevertheless
        assert read(path) == b"x" * 5000 + b"end"
        if maps_shared():  # what a mapping changes is written in its place
            with mmap.mmap(descriptor, 5003) as view:
                view[10:15] = b"HELLO"
                view.flush()
            assert read(path) == b"x" * 10 + b"HELLO" + b"x" * 4985 + b"end"
        fcntl.fcntl(descriptor, fcntl.F_SETFL, 0)
        os.pwrite(descriptor, b"in its place", 0)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
        os.write(descriptor, b", again")
        content = read(path)
        assert content.startswith(b"in its place") and content.endswith(b"end, again")
        assert len(content) == os.fstat(descriptor).st_size == 5010
    finally:
        os.close(descriptor)


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
def nameless_files(top):
    if not kernel_is(6, 2):
        return
    with open(os.open(top, os.O_TMPFILE | os.O_RDWR, 0o640), "w+b", buffering=0) as file:
        assert os.listdir(top) == []
        file.write(b"content")
        status = os.fstat(file.fileno())
        assert (status.st_nlink, status.st_size, status.st_mode) == (0, 7, stat.S_IFREG | 0o640)
        os.link(f"/proc/self/fd/{file.fileno()}", f"{top}/f", src_dir_fd=0, follow_symlinks=True)
        file.write(b" and more")
        assert os.fstat(file.fileno()).st_nlink == 1
    assert read(f"{top}/f") == b"content and more"
    with tempfile.TemporaryFile(dir=top) as file:
        file.write(pattern(300000))
        file.seek(0)
        assert file.read() == pattern(300000) and os.listdir(top) == ["f"]
        # Python opens it with O_EXCL.
        fails(errno.ENOENT, os.link, f"/proc/self/fd/{file.fileno()}", f"{top}/g", src_dir_fd=0,
              follow_symlinks=True)
    fails(errno.EINVAL, os.open, top, os.O_TMPFILE | os.O_RDONLY)
    fails(errno.ENOTDIR, os.open, f"{top}/f", os.O_TMPFILE | os.O_RDWR)


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


@check
def times_of_birth(top):
    if not kernel_is(6, 6):
        return
    write(f"{top}/f", b"f")
    born = birth_time(f"{top}/f")
    assert born is not None and born <= os.stat(f"{top}/f").st_ctime_ns
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
def unlink_while_open(top):
    path = f"{top}/gone"
    with open(path, "w+b") as file:
        file.write(pattern(200000))
        file.flush()
        os.unlink(path)
        assert os.listdir(top) == []
        file.seek(0)
        assert file.read() == pattern(200000)
        os.pwrite(file.fileno(), b"more", 200000)
        os.ftruncate(file.fileno(), 200002)
        assert os.pread(file.fileno(), 10, 200000) == b"mo"
        os.fchmod(file.fileno(), 0o600)
        status = os.fstat(file.fileno())
        assert (status.st_nlink, status.st_size, status.st_mode & 0o777) == (0, 200002, 0o600)
    fails(errno.ENOENT, os.stat, path)


@check
def removed_directories_in_use_answer_as_in_linux(top):
    removed_directories.check(top, [top], 0)


@check
def directory_read_behind_its_end(top):
    write(f"{top}/file", b"")
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(4096)
    descriptor = os.open(top, os.O_RDONLY)
    try:
        # Where offsets are positions of names, names may follow the smaller offsets.
        for offset in (1000, 1 << 31, 1 << 40, (1 << 63) - 10):
            os.lseek(descriptor, offset, os.SEEK_SET)
            got = libc.getdents64(descriptor, buffer, ctypes.c_size_t(len(buffer)))
            error = os.strerror(ctypes.get_errno())
            assert got == 0 or (got > 0 and offset < (1 << 63) - 10), f"{offset}: {got}: {error}"
        os.lseek(descriptor, 0, os.SEEK_SET)
        assert libc.getdents64(descriptor, buffer, ctypes.c_size_t(len(buffer))) > 0
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


def handle_of(path):
    """Returns a struct file_handle with room for its bytes."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = ctypes.create_string_buffer((128).to_bytes(4, sys.byteorder), 8 + 128)
    mount_id = ctypes.c_int()
    if libc.name_to_handle_at(-100, os.fsencode(path), handle, ctypes.byref(mount_id), 0) != 0:
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    return handle


def open_by_handle(top, handle):
    libc = ctypes.CDLL(None, use_errno=True)
    inside = os.open(top, os.O_RDONLY)
    descriptor = libc.open_by_handle_at(inside, handle, os.O_RDONLY)
    number = ctypes.get_errno()
    os.close(inside)
    if descriptor < 0:
        raise OSError(number, f"open_by_handle_at: {os.strerror(number)}")
    return descriptor


@check
def a_rename_changes_the_ctime(top):
    write(f"{top}/file", b"x")
    os.mkdir(f"{top}/d")
    for old, new in (("file", "d/file"), ("d", "e")):
        before = os.stat(f"{top}/{old}")
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
def space(top):
    status = os.statvfs(top)
    assert status.f_blocks >= status.f_bfree > 0 and status.f_namemax == 255
    assert run("df", "-k", top).count("\n") == 2
    write(f"{top}/f", pattern(5000000))
    used = os.stat(f"{top}/f").st_blocks * 512
    assert used >= 5000000, used
    assert os.statvfs(top).f_bfree < status.f_bfree


@check
def truncation(top):
    path = f"{top}/f"
    write(path, pattern(100000))
    os.truncate(path, 5000)
    os.truncate(path, 9000)
    assert read(path) == pattern(5000) + bytes(4000)
    os.truncate(path, 3 << 20)
    content = read(path)
    assert len(content) == 3 << 20 and content[5000:].count(0) == (3 << 20) - 5000
    with open(path, "wb"):  # O_TRUNC
        pass
    assert os.stat(path).st_size == 0
    before = os.stat(path)
    os.truncate(path, 10)
    assert os.stat(path).st_mtime_ns >= before.st_mtime_ns


@check
def holes(top):
    path = f"{top}/f"
    with open(path, "w+b", buffering=0) as file:
        os.pwrite(file.fileno(), b"end", 10 << 20)
        status = os.fstat(file.fileno())
        assert status.st_size == (10 << 20) + 3
        assert status.st_blocks * 512 < 5 << 20, "not sparse"
        assert os.pread(file.fileno(), 100, 5 << 20) == bytes(100)
        os.pwrite(file.fileno(), pattern(1 << 20), 0)
        # A file that programs may store to through a mapping counts as data.
        assert os.lseek(file.fileno(), 2 << 20, os.SEEK_DATA) == 2 << 20
        assert os.lseek(file.fileno(), 2 << 20, os.SEEK_HOLE) == (10 << 20) + 3
        run("fallocate", "--punch-hole", "--offset", "4096", "--length", "100000", path)
        expected = pattern(1 << 20)
        expected = expected[:4096] + bytes(100000) + expected[104096:]
        assert os.pread(file.fileno(), 1 << 20, 0) == expected
        assert os.fstat(file.fileno()).st_size == (10 << 20) + 3
        os.posix_fallocate(file.fileno(), 0, 65536)
        os.fsync(file.fileno())
        os.fdatasync(file.fileno())
    with open(path, "rb") as file:
        assert os.lseek(file.fileno(), 1 << 20, os.SEEK_DATA) == 10 << 20
        # A file system may find the hole in the middle of a chunk, too.
        assert os.lseek(file.fileno(), 0, os.SEEK_HOLE) in (65536, 1 << 20)
        assert os.lseek(file.fileno(), 10 << 20, os.SEEK_HOLE) == (10 << 20) + 3
        fails(errno.ENXIO, os.lseek, file.fileno(), (10 << 20) + 3, os.SEEK_DATA)


@check
def allocated_space(top):
    path = f"{top}/f"
    with open(path, "w+b", buffering=0) as file:
        def blocks():
            return os.fstat(file.fileno()).st_blocks * 512

        os.posix_fallocate(file.fileno(), 100, (3 << 20) + 100)
        assert os.fstat(file.fileno()).st_size == (3 << 20) + 200
        assert blocks() >= 3 << 20
        assert os.pread(file.fileno(), 4 << 20, 0) == bytes((3 << 20) + 200)
        os.pwrite(file.fileno(), pattern(5000), 1 << 20)
        run("fallocate", "--punch-hole", "--offset", str(2 << 20), "--length", str(1 << 20), path)
        few = blocks()
        run("fallocate", "--keep-size", "--length", str(3 << 20), path)
        assert blocks() >= few + (1 << 20)
        assert os.fstat(file.fileno()).st_size == (3 << 20) + 200
        assert os.pread(file.fileno(), 1 << 20, 1 << 20) == pattern(5000) + bytes((1 << 20) - 5000)
        try:
            os.posix_fallocate(file.fileno(), 0, 1 << 43)
            raise AssertionError("8 TiB were allocated")
        except OSError as error:
            assert error.errno in (errno.ENOSPC, errno.EFBIG), error
        assert os.fstat(file.fileno()).st_size == (3 << 20) + 200


@check
def large_and_odd_transfers(top):
    path = f"{top}/f"
    content = bytearray(pattern(6 << 20, 5))
    with open(path, "w+b", buffering=0) as file:
        assert file.write(bytes(content)) == len(content)
        for offset, size in ((0, 1), (4095, 2), (1048575, 3), (1 << 20, 1 << 20), (777, 3000001)):
            piece = pattern(size, offset)
            assert os.pwrite(file.fileno(), piece, offset) == size
            content[offset:offset + size] = piece
        for offset, size in ((0, len(content)), (1048570, 20), (5 << 20, 2 << 20)):
            got = b""
            while len(got) < size:
                more = os.pread(file.fileno(), size - len(got), offset + len(got))
                if not more:
                    break
                got += more
            assert got == bytes(content[offset:offset + size])
    descriptor = os.open(path, os.O_RDWR | os.O_DIRECT)
    try:
        memory = mmap.mmap(-1, 1 << 20)
        assert os.preadv(descriptor, [memory], 1 << 20) == 1 << 20
        assert memory[:] == bytes(content[1 << 20:2 << 20])
        memory[:] = pattern(1 << 20, 9)
        assert os.pwritev(descriptor, [memory], 3 << 20) == 1 << 20
    finally:
        os.close(descriptor)
    content[3 << 20:4 << 20] = pattern(1 << 20, 9)
    assert read(path) == bytes(content)


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
    os.mkdir(f"{top}/d", 0o751)
    assert stat.S_IMODE(os.stat(f"{top}/d").st_mode) == 0o751 & ~CURRENT_UMASK
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
    library = ctypes.CDLL(None)
    for name, result, arguments in (
            ("opendir", ctypes.c_void_p, [ctypes.c_char_p]),
            ("readdir", ctypes.POINTER(Dirent), [ctypes.c_void_p]),
            ("telldir", ctypes.c_long, [ctypes.c_void_p]),
            ("seekdir", None, [ctypes.c_void_p, ctypes.c_long]),
            ("closedir", ctypes.c_int, [ctypes.c_void_p])):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    directory = library.opendir(os.fsencode(top))
    found = []
    while True:
        position = library.telldir(directory)
        entry = library.readdir(directory)
        if not entry:
            break
        found.append((position, entry.contents.d_name))
    assert len(found) == 302
    for turn in range(2000):
        position, name = found[turn * 97 % len(found)]
        library.seekdir(directory, position)
        entry = library.readdir(directory)
        assert entry and entry.contents.d_name == name, (turn, name)
    library.closedir(directory)


@check
def locks(top):
    with open(f"{top}/f", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with open(f"{top}/f", "w") as other:
            fails(errno.EAGAIN, fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        child = os.fork()
        if child == 0:
            try:
                fails(errno.EAGAIN, fcntl.lockf, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        os.close(os.open(f"{top}/f", os.O_RDONLY))  # ends the locks of this process
        child = os.fork()
        if child == 0:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0


def main():
    global SHARED
    arguments = sys.argv[1:]
    SHARED = arguments[:1] == ["--shared"]
    if SHARED:
        del arguments[0]
    if not arguments:
        sys.exit(__doc__)
    top, *names = arguments

    def in_own_directory(function):
        directory = os.path.join(top, function.__name__)
        os.mkdir(directory)
        function(directory)
        shutil.rmtree(directory)

    return check.run(names, in_own_directory)


if __name__ == "__main__":
    CURRENT_UMASK = os.umask(0o022)
    os.umask(CURRENT_UMASK)
    sys.exit(main())

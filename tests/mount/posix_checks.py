#!/usr/bin/env python3
"""usage: posix_checks.py [--shared | --exclusive] DIRECTORY [NAME…]

Uses a directory through the kernel as Linux programs do, and compares with what POSIX and open(2) promise. It
runs on any file system; on ext4 it checks itself. Each check gets its own directory. The last line is "N
passed, N failed"; the exit status is 1 if one failed. --shared: the mount is one of several. File locks are
refused, and shared mappings need Linux 6.6. --exclusive: the kernel keeps writes.
"""
import errno
import fcntl
import hashlib
import mmap
import multiprocessing
import os
import shutil
import sqlite3
import stat
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import posix_names  # noqa: E402
import runner  # noqa: E402
from mounted_pool import kernel_is, pattern, read, write  # noqa: E402
from posix_calls import fails, run  # noqa: E402

check = runner.Tests()
SHARED = WRITES_BACK = False


def maps_shared():
    return not SHARED or kernel_is(6, 6)


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
        # A kernel that keeps writes finds no holes.
        assert os.lseek(file.fileno(), 1 << 20, os.SEEK_DATA) == (1 << 20 if WRITES_BACK else 10 << 20)
        if WRITES_BACK:
            return
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
        # In a large file system 8 TiB would take all free space from others before they fail.
        all_bytes = os.statvfs(top).f_blocks * os.statvfs(top).f_frsize
        try:
            os.posix_fallocate(file.fileno(), 0, 1 << (43 if all_bytes < 1 << 32 else 60))
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
    global SHARED, WRITES_BACK
    arguments = sys.argv[1:]
    SHARED, WRITES_BACK = (arguments[:1] == [option] for option in ("--shared", "--exclusive"))
    if SHARED or WRITES_BACK:
        del arguments[0]
    if not arguments:
        sys.exit(__doc__)
    top, *names = arguments

    def in_own_directory(function):
        directory = os.path.join(top, function.__name__)
        os.mkdir(directory)
        function(directory)
        shutil.rmtree(directory)

    check.extend(posix_names.check)
    return check.run(names, in_own_directory)


if __name__ == "__main__":
    CURRENT_UMASK = os.umask(0o022)
    os.umask(CURRENT_UMASK)
    sys.exit(main())


if __name__ == "__main__":
    sys.exit(main())

"""What a program can do with a directory that was removed while the program has it open, or as its working
directory: as on a local file system, except that ESTALE is allowed for listing and changing it."""
import errno
import itertools
import multiprocessing
import os
import stat
import time

from mounted_pool import write
from posix_calls import fails


def use(file, descriptor=None):
    """Uses the directory that is open, or the working directory. `file`: another one, for links."""
    target, at = (".", None) if descriptor is None else (descriptor, descriptor)
    status = os.stat(target)
    assert status.st_nlink == 0 and stat.S_ISDIR(status.st_mode), status
    for function, *arguments in (os.listdir,), (os.chmod, 0o700), (os.utime, (1, 2)):
        try:
            assert not function(target, *arguments)
        except OSError as error:
            assert error.errno == errno.ESTALE, error
    assert os.listxattr(target) == []
    write(file, b"")
    for function, *arguments, named in (
            (os.open, "x", os.O_CREAT | os.O_WRONLY, {"dir_fd": at}),
            (os.open, "x", os.O_CREAT | os.O_EXCL | os.O_WRONLY, {"dir_fd": at}),
            (os.open, "x", os.O_RDONLY, {"dir_fd": at}),
            (os.stat, "x", {"dir_fd": at}),
            (os.mkdir, "x", {"dir_fd": at}),
            (os.mkfifo, "x", {"dir_fd": at}),
            (os.symlink, "y", "x", {"dir_fd": at}),
            (os.link, file, "x", {"dst_dir_fd": at}),
            (os.rename, file, "x", {"dst_dir_fd": at}),
            (os.rename, "x", f"{file}.y", {"src_dir_fd": at}),
            (os.rmdir, "x", {"dir_fd": at}),
            (os.unlink, "x", {"dir_fd": at})):
        fails(errno.ENOENT, function, *arguments, **named)


def remove(path, how):
    if how == "rmdir":
        os.rmdir(path)
    else:
        os.mkdir(f"{path}.new")
        os.rename(f"{path}.new", path)


def use_later(path, is_open, ready, seconds):
    os.chdir(path)
    descriptor = os.open(".", os.O_RDONLY) if is_open else None
    ready.send(None)
    ready.recv()
    time.sleep(seconds)
    if is_open:
        use(f"{path}.file", descriptor)
    use(f"{path}.file")


def check(top, removers, seconds):
    """`removers`: the directory through the mounts that remove. The programs wait for this time meanwhile."""
    users = []
    for remover, how, is_open in itertools.product(removers, ("rmdir", "rename"), (True, False)):
        name = f"d{len(users)}"
        os.mkdir(f"{top}/{name}")
        ready, theirs = multiprocessing.Pipe()
        user = multiprocessing.Process(target=use_later,
                                       args=(f"{top}/{name}", is_open, theirs, seconds))
        user.start()
        ready.recv()
        remove(f"{remover}/{name}", how)
        users.append((user, f"{how} through {remover}, {'open' if is_open else 'not open'}"))
        ready.send(None)
    for user, _ in users:
        user.join()
    failed = [what for user, what in users if user.exitcode != 0]
    assert not failed, failed

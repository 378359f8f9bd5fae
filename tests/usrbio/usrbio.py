"""What tests of 3FS's USRBIO begin with: calls in a child process, rings and memory, and tests on a mount."""
import mmap
import os
import signal
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{os.path.dirname(HERE)}/mount", os.path.dirname(HERE),
                f"{os.path.abspath(sys.argv[1])}/lib/ros2store/usrbio"]

import runner  # noqa: E402
from mounted_pool import Pool  # noqa: E402

test = runner.Tests()
NOBODY = 65534
CALLS_SECONDS = 100
MIB = 1 << 20


class Library:
    """The module hf3fs_fuse.io. Only the children load it."""

    def __getattr__(self, name):
        import hf3fs_fuse.io
        return getattr(hf3fs_fuse.io, name)


io = Library()


def calls(function, *arguments, user=None):
    """Runs it in a child, which is ended if it hangs."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        failed = 1
        try:
            signal.alarm(CALLS_SECONDS)
            if user is not None:
                getattr(io, "make_ioring")  # it may be unreadable for the user
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            function(*arguments)
            failed = 0
        except BaseException:  # noqa: BLE001: shown here
            traceback.print_exc(file=sys.stdout)
        finally:
            sys.stdout.flush()
            os._exit(failed)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {os.waitstatus_to_exitcode(status)}"


def on_mount(*schemes, **options):
    """Makes a test, for each scheme, of a function of a mount point. It is called in a child."""
    def add(function):
        def run(**scheme):
            with Pool(**scheme, **options) as pool:
                pid = pool.mount()
                calls(function, pool.mount_point)
                pool.unmount(pid)

        def of(scheme):
            run(scheme=scheme)
        run.__name__ = of.__name__ = function.__name__
        if schemes:
            test.each(*schemes)(of)
        else:
            test(run)
        return function
    return add


class Rings:
    """Two rings and memory of a mount."""

    def __init__(self, mount, size=MIB, entries=16):
        self.memory = mmap.mmap(-1, size)
        self.iov = io.make_iovec(self.memory, mount)
        self.reads = io.make_ioring(mount, entries)
        self.writes = io.make_ioring(mount, entries, for_read=False)

    def read(self, fd, offset, size):
        self.reads.prepare(self.iov[:size], True, fd, offset)
        done = self.reads.submit().wait(min_results=1)[0].result
        return done if done < 0 else bytes(self.memory[:done])

    def write(self, fd, offset, data):
        self.memory[:len(data)] = data
        self.writes.prepare(self.iov[:len(data)], False, fd, offset)
        return self.writes.submit().wait(min_results=1)[0].result


def opened(path, flags=os.O_RDWR | os.O_CREAT):
    fd = os.open(path, flags, 0o644)
    io.register_fd(fd)
    return fd


def raises(code, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except OSError as error:
        assert error.errno == code, error
        return
    raise AssertionError(f"{function} did not fail")

#!/usr/bin/env python3
"""usage: locks_test.py BUILD_DIRECTORY [NAME…]

Mounts one container twice, behind an engine and behind a DPU daemon. Locks by fcntl(2) and flock(2) hold across
both. The last line is "N passed, N failed". Exit status 77 where this machine cannot mount.
"""
import contextlib
import errno
import fcntl
import os
import resource
import select
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import mounted_pool  # noqa: E402
import runner  # noqa: E402
from mounted_pool import SERVED, Pool  # noqa: E402
from runner import wait_until  # noqa: E402

test = runner.Tests()
NOW = fcntl.LOCK_NB
FLOCK = struct.Struct("hhqqi4x")


def get_lock(file, kind, start=0, length=0):
    """Returns type, start, length and process of the lock in the way."""
    found = fcntl.fcntl(file, fcntl.F_GETLK, FLOCK.pack(kind, os.SEEK_SET, start, length, 0))
    type_, _, start, length, pid = FLOCK.unpack(found)
    return type_, start, length, pid


def set_open_file_lock(file, kind, command=fcntl.F_OFD_SETLK):
    fcntl.fcntl(file, command, FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0))


def is_granted(lock, *arguments):
    try:
        lock(*arguments)
        return True
    except BlockingIOError:
        return False


class Child:
    """A process that calls `function`, and then waits until it is ended. It is ended also if the test fails:
    otherwise it would keep the mounts busy."""

    def __init__(self, function):
        self.ready, ready = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.write(ready, b"%d" % (function() or 0))
                signal.pause()
            finally:
                os._exit(1)
        os.close(ready)

    def result(self):
        """Waits for the function."""
        return int(os.read(self.ready, 20))

    def is_done(self):
        return bool(select.select([self.ready], [], [], 0)[0])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end()

    def end(self):
        if self.pid is None:
            return
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.ready)
        self.pid = None


class TwoMounts:
    """A file that is open through two mounts, twice through the first."""

    def __init__(self, scheme):
        self.pool = Pool("64MiB", scheme=scheme)

    def __enter__(self):
        self.pool.__enter__()
        self.pool.mount()
        paths = self.pool.path("f"), self.pool.path("f"), f"{self.pool.mount_second()}/f"
        self.path, self.second_path = paths[0], paths[2]
        self.files = [os.open(path, os.O_RDWR | os.O_CREAT) for path in paths]
        return self.files

    def __exit__(self, *error):
        for file in self.files:
            try:
                os.close(file)
            except OSError:
                pass
        self.pool.__exit__(*error)


@test.each(*SERVED)
def locks_exclude_those_of_the_other_mount(scheme):
    with TwoMounts(scheme) as (one, again, other):
        fcntl.lockf(one, fcntl.LOCK_EX, 10)
        assert is_granted(fcntl.lockf, other, fcntl.LOCK_EX | NOW, 10, 10)
        assert not is_granted(fcntl.lockf, other, fcntl.LOCK_SH | NOW, 1, 9)
        assert get_lock(other, fcntl.F_WRLCK, 0, 1) == (fcntl.F_WRLCK, 0, 10, 0)
        # Not of the bytes that the other mount has locked: one of both would be found.
        with Child(lambda: get_lock(one, fcntl.F_WRLCK, 0, 10)[3]) as child:
            assert child.result() == os.getpid(), "the process of a lock of the same mount"
        fcntl.lockf(one, fcntl.LOCK_UN)
        assert is_granted(fcntl.lockf, other, fcntl.LOCK_EX | NOW)
        fcntl.lockf(other, fcntl.LOCK_UN)

        fcntl.flock(one, fcntl.LOCK_SH)
        assert is_granted(fcntl.flock, other, fcntl.LOCK_SH | NOW)
        assert not is_granted(fcntl.flock, again, fcntl.LOCK_EX | NOW)
        fcntl.flock(other, fcntl.LOCK_UN)
        fcntl.flock(one, fcntl.LOCK_EX)
        assert not is_granted(fcntl.flock, other, fcntl.LOCK_SH | NOW)
        fcntl.flock(one, fcntl.LOCK_UN)

        set_open_file_lock(one, fcntl.F_WRLCK)
        assert not is_granted(set_open_file_lock, again, fcntl.F_RDLCK)
        assert not is_granted(set_open_file_lock, other, fcntl.F_RDLCK)
        assert not is_granted(fcntl.lockf, other, fcntl.LOCK_SH | NOW)


@test.each(*SERVED)
def sharers_that_both_want_it_alone_get_it_in_turn(scheme):
    with TwoMounts(scheme) as (one, again, other):
        for second in again, other:
            fcntl.flock(one, fcntl.LOCK_SH)
            fcntl.flock(second, fcntl.LOCK_SH)

            def take(file):
                fcntl.flock(file, fcntl.LOCK_EX)
                fcntl.flock(file, fcntl.LOCK_UN)
            with Child(lambda: take(one)) as first, Child(lambda: take(second)) as last:
                wait_until(lambda: first.is_done() and last.is_done(), "both upgrades")


def wait_for_range(file, start, is_of_process=True):
    """Returns the errno."""
    command = fcntl.F_SETLKW if is_of_process else fcntl.F_OFD_SETLKW
    try:
        fcntl.fcntl(file, command, FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, 10, 0))
    except OSError as error:
        return error.errno
    return 0


@contextlib.contextmanager
def waiting_for_each_other(path, is_of_process, other_path=None):
    """Two processes. The second one completes a cycle. Its result is the errno."""
    def first():
        file = os.open(path, os.O_RDWR)
        signal.signal(signal.SIGUSR1, lambda *_: wait_for_range(file, 10, is_of_process))
        return wait_for_range(file, 0, is_of_process)
    with Child(first) as one:
        assert one.result() == 0

        def second():
            file = os.open(other_path or path, os.O_RDWR)
            wait_for_range(file, 10, is_of_process)
            os.kill(one.pid, signal.SIGUSR1)
            time.sleep(1)
            return wait_for_range(file, 0, is_of_process)
        with Child(second) as other:
            yield other


@test.each(*SERVED)
def processes_that_wait_for_each_other_learn_it(scheme):
    mounts = TwoMounts(scheme)
    with mounts as (_, _, other):
        for second in None, mounts.second_path:
            with waiting_for_each_other(mounts.path, True, second) as child:
                wait_until(child.is_done, "the error")
                assert child.result() == errno.EDEADLK
        with waiting_for_each_other(mounts.path, False) as child:
            time.sleep(2)
            assert not child.is_done(), "another thread might unlock the open file"
        wait_until(lambda: is_granted(fcntl.lockf, other, fcntl.LOCK_EX | NOW), "the end of all")


def wait_in_many_threads(path, count):
    """Waits for a lock in so many threads, and returns how many got an error."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))
    threading.stack_size(65536)
    refused = []

    def wait(file):
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            refused.append(error.errno)
    for _ in range(count):
        threading.Thread(target=wait, args=(os.open(path, os.O_RDWR),), daemon=True).start()
    time.sleep(1)
    assert set(refused) <= {errno.ENOLCK}
    return len(refused)


@test
def many_waiting_locks_of_a_user_leave_room_for_other_calls():
    mounts = TwoMounts(mounted_pool.DIRECT)
    with mounts as (one, _, other):
        fcntl.flock(one, fcntl.LOCK_EX)
        fcntl.lockf(one, fcntl.LOCK_EX)
        with Child(lambda: wait_in_many_threads(mounts.path, 4200)) as child:
            assert child.result() > 0, "there is a bound"
            beside = os.open(f"{mounts.path}.beside", os.O_RDWR | os.O_CREAT)
            fcntl.flock(beside, fcntl.LOCK_EX | NOW)
            os.close(beside)
            assert get_lock(one, fcntl.F_WRLCK)[0] == fcntl.F_UNLCK
            fcntl.lockf(one, fcntl.LOCK_UN)
            fcntl.flock(one, fcntl.LOCK_UN)
        wait_until(lambda: is_granted(fcntl.flock, other, fcntl.LOCK_EX | NOW), "the end of the waiting locks")


@test.each(*SERVED)
def killed_mount_has_no_locks(scheme):
    mounts = TwoMounts(scheme)
    with mounts as (one, _, other):
        fcntl.flock(one, fcntl.LOCK_EX)
        fcntl.lockf(one, fcntl.LOCK_EX)
        os.kill(mounts.pool.pid(), signal.SIGKILL)
        killed = time.monotonic()
        fcntl.flock(other, fcntl.LOCK_EX)
        fcntl.lockf(other, fcntl.LOCK_EX)
        assert time.monotonic() - killed < 10


@test.each(*SERVED)
def closing_ends_locks(scheme):
    with TwoMounts(scheme) as (one, again, other):
        fcntl.lockf(one, fcntl.LOCK_EX)
        os.close(again)  # of any descriptor of the process
        assert is_granted(fcntl.lockf, other, fcntl.LOCK_EX | NOW)
        fcntl.lockf(other, fcntl.LOCK_UN)
        set_open_file_lock(one, fcntl.F_WRLCK)
        fcntl.flock(one, fcntl.LOCK_EX)
        os.close(one)
        wait_until(lambda: is_granted(set_open_file_lock, other, fcntl.F_WRLCK), "the end of the lock")
        wait_until(lambda: is_granted(fcntl.flock, other, fcntl.LOCK_EX | NOW), "the end of the lock")


@test.each(*SERVED)
def killed_process_has_no_locks(scheme):
    mounts = TwoMounts(scheme)
    with mounts as (_, _, other):
        def lock():
            file = os.open(mounts.path, os.O_RDWR)
            fcntl.flock(file, fcntl.LOCK_EX)
            fcntl.lockf(file, fcntl.LOCK_EX)
        with Child(lock) as child:
            child.result()
            assert not is_granted(fcntl.flock, other, fcntl.LOCK_SH | NOW)
        wait_until(lambda: is_granted(fcntl.flock, other, fcntl.LOCK_EX | NOW), "the end of its flock")
        wait_until(lambda: is_granted(fcntl.lockf, other, fcntl.LOCK_EX | NOW), "the end of its lockf")


def wait_for_lock(path):
    file = os.open(path, os.O_RDWR)
    fcntl.lockf(file, fcntl.LOCK_EX)


def interrupted_wait(path):
    """Returns the errno of a wait that a signal ends."""
    def interrupt(*_):
        raise InterruptedError(errno.EINTR, "")
    signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(1)
    try:
        wait_for_lock(path)
    except InterruptedError as error:
        return error.errno
    return 0


@test.each(*SERVED)
def waiting_lock_is_granted_or_interrupted(scheme):
    mounts = TwoMounts(scheme)
    with mounts as (one, _, other):
        fcntl.lockf(one, fcntl.LOCK_EX)
        with Child(lambda: interrupted_wait(mounts.second_path)) as interrupted:
            assert interrupted.result() == errno.EINTR
        children = contextlib.ExitStack()
        waiting = [children.enter_context(Child(lambda: wait_for_lock(mounts.second_path))) for _ in range(200)]
        with children:
            time.sleep(1)
            assert not any(child.is_done() for child in waiting)
            os.pwrite(other, b"served", 0)  # although more wait than the mount has requests
            waiting.pop().end()
            fcntl.lockf(one, fcntl.LOCK_UN)
            while waiting:
                wait_until(lambda: any(child.is_done() for child in waiting), "a waiting lock")
                done = [child for child in waiting if child.is_done()]
                assert len(done) == 1, "two have the lock"
                waiting.remove(done[0])
                done[0].end()
        wait_until(lambda: is_granted(fcntl.lockf, one, fcntl.LOCK_EX | NOW), "the end of the last lock")


@test.each(*SERVED)
def locks_survive_a_restart_of_the_engine(scheme):
    mounts = TwoMounts(scheme)
    with mounts as (one, _, other):
        fcntl.lockf(one, fcntl.LOCK_EX, 10)
        fcntl.flock(one, fcntl.LOCK_EX)
        for end in signal.SIGTERM, signal.SIGKILL:
            engine = mounts.pool.daemon("ros2store-engine")
            os.kill(engine, end)
            wait_until(lambda: not mounted_pool.is_running(engine), "the engine to end")
            mounts.pool.run(mounted_pool.CLI, "up", mounts.pool.directory)
            assert not is_granted(fcntl.lockf, other, fcntl.LOCK_EX | NOW, 1)
            assert not is_granted(fcntl.flock, other, fcntl.LOCK_SH | NOW)
        assert is_granted(fcntl.lockf, other, fcntl.LOCK_EX | NOW, 1, 10)
        assert os.pwrite(one, b"still mine", 0) == 10
        fcntl.flock(one, fcntl.LOCK_UN)
        assert is_granted(fcntl.flock, other, fcntl.LOCK_EX | NOW)


@test
def holder_that_does_not_return_after_a_restart_keeps_others_from_locks_ten_seconds():
    mounts = TwoMounts(mounted_pool.DIRECT)
    with mounts as (one, _, other):
        fcntl.lockf(one, fcntl.LOCK_EX, 10)
        engine, mount = mounts.pool.daemon("ros2store-engine"), mounts.pool.pid()
        for each in engine, mount:
            os.kill(each, signal.SIGKILL)
            wait_until(lambda: not mounted_pool.is_running(each), "its end")
        mounts.pool.run(mounted_pool.CLI, "up", mounts.pool.directory)
        begun = time.monotonic()
        assert is_granted(fcntl.lockf, other, fcntl.LOCK_EX | NOW, 10)
        assert time.monotonic() - begun < 20


def append(file):
    """Writes to the end, in a mode that the descriptor was not opened with."""
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    try:
        return os.write(file, b"x")
    finally:
        fcntl.fcntl(file, fcntl.F_SETFL, 0)


@test
def restarted_dpu_has_lost_locks():
    mounts = TwoMounts(mounted_pool.OFFLOAD)
    with mounts as (one, again, _):
        fcntl.flock(one, fcntl.LOCK_EX)
        assert append(one) == 1
        os.kill(mounts.pool.daemon("ros2store-dpu"), signal.SIGKILL)
        mounts.pool.run(mounted_pool.CLI, "up", mounts.pool.directory)
        for use in (lambda: os.pread(one, 1, 0), lambda: os.pwrite(one, b"x", 0),
                    lambda: append(one), lambda: fcntl.flock(one, fcntl.LOCK_SH)):
            try:
                use()
                raise AssertionError("the lost lock was not noticed")
            except OSError as error:
                assert error.errno == errno.EIO, error
        os.pwrite(again, b"x", 0)  # had no lock
        fcntl.flock(one, fcntl.LOCK_UN)
        assert os.pwrite(one, b"x", 0) == 1
        wait_until(lambda: is_granted(fcntl.flock, one, fcntl.LOCK_EX | NOW), "the end of the lost lock", 60)


WRITER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=120, isolation_level=None)
for i in range(60):
    db.execute("begin immediate")
    (n,) = db.execute("select max(n) from t").fetchone()
    db.execute("insert into t values(?)", (n + 1,))
    db.execute("commit")
"""


@test.each(*SERVED)
def sqlite_counts_through_both_mounts(scheme):
    mounts = TwoMounts(scheme)
    with mounts:
        paths = [f"{os.path.dirname(path)}/db" for path in (mounts.path, mounts.path, mounts.second_path)]
        with sqlite3.connect(paths[0]) as db:
            db.execute("create table t(n integer)")
            db.execute("insert into t values(0)")
        db.close()
        writers = [subprocess.Popen([sys.executable, "-c", WRITER, path]) for path in paths]
        assert [writer.wait() for writer in writers] == [0, 0, 0]
        db = sqlite3.connect(paths[0])
        assert db.execute("select max(n), count(*) from t").fetchone() == (180, 181)
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        db.close()


if __name__ == "__main__":
    mounted_pool.main(test, __doc__)

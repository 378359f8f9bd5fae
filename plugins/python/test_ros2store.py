"""Tests the Python module on a real pool, by each kind of URI. LYING_LIBRARY is the library of a client whose server
lies."""
import asyncio
import ctypes
import errno
import fcntl
import multiprocessing
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import ros2store
from on_pool import OnPool, ros2store_command


def work(fs, file, number):
    """What a worker of multiprocessing finds in what its parent opened."""
    file.pwrite(bytes([number]), number)
    with fs.open(f"of {number}", "x+") as own:
        own.pwrite(b"worker", 0)
    return file.pread(1, number), fs.read_many([f"of {number}"]), fs.exists("shared")


def write_later(file):
    def write():
        time.sleep(0.1)
        file.pwrite(b"later", 0)

    threading.Thread(target=write).start()


def work_anew(uri, number):
    with ros2store.open(uri) as fs:
        return fs.read_many(["index"])[0] + bytes([number])


def read(fs, file):
    return file.pread(1, 0), fs.exists("shared")


def read_anew(uri):
    fs = ros2store.open(uri)
    read(fs, fs.open("shared", "rb", 0))


# What the workers of a test use. multiprocessing's fork start method hands it over in memory.
of_parent = None


def work_in_pool(number):
    return work(*of_parent, number)


class Embedded(OnPool):
    path = r"engine, io_uring|engine, threads"  # the path in a file's report

    def test_locks_of_two_files_exclude_each_other(self):
        with self.fs.open("a", "w+") as one, self.fs.open("a", "r+") as other:
            one.lockf(fcntl.LOCK_EX, 10)
            other.lockf(fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 10)
            with self.assertRaises(BlockingIOError):
                other.lockf(fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 9)
            one.flock(fcntl.LOCK_SH)
            other.flock(fcntl.LOCK_SH)
            with self.assertRaises(BlockingIOError):
                other.flock(fcntl.LOCK_EX | fcntl.LOCK_NB)
            one.close()
            other.flock(fcntl.LOCK_EX)
            other.lockf(fcntl.LOCK_EX)

    def test_reads_what_it_wrote(self):
        with self.fs.open("a", "w+") as file:
            self.assertEqual(file.pwrite(b"hello", 3), 5)
            self.assertEqual(file.pread(100, 0), b"\0\0\0hello")
            self.assertEqual(file.pread(100, 8), b"")
            into = bytearray(5)
            self.assertEqual(file.readinto(into, 3), 5)
            self.assertEqual(into, b"hello")
            self.assertEqual(file.readinto(memoryview(into)[1:3], 4), 2)
            file.truncate(4)
            self.assertEqual(file.size(), 4)
            file.fsync()
            self.assertRegex(file.path_report(), f"path +.*({self.path})")
        with self.assertRaises(OSError) as caught:
            file.pread(1, 0)
        self.assertEqual(caught.exception.errno, errno.EBADF)
        with self.assertRaises(TypeError):
            self.fs.open("a").readinto(5)
        with self.assertRaises(BufferError):
            self.fs.open("a").readinto(b"constant")

    def test_errors_are_pythons_own(self):
        with self.assertRaises(FileNotFoundError) as caught:
            self.fs.open("missing")
        self.assertEqual(caught.exception.errno, errno.ENOENT)
        self.assertEqual(caught.exception.strerror, "open 'missing': not found")
        with self.assertRaises(ValueError):
            self.fs.open("a", "q")
        with self.assertRaises(OSError) as caught:
            ros2store.open("nonsense")
        self.assertIn("it is written like ros2s+local:///", str(caught.exception))
        self.write("x", b"")
        with self.assertRaises(FileExistsError):
            self.fs.open("x", "x")

    def test_a_name_does_not_end_at_a_nul(self):
        self.write("kept", b"x")
        for call in (self.fs.unlink, self.fs.stat, self.fs.open, self.fs.listdir,
                     lambda name: self.fs.unlink_many([name]), lambda name: self.fs.read_many([name]),
                     lambda name: self.fs.rename(name, "moved"),
                     lambda name: self.fs.rename("kept", name)):
            with self.assertRaisesRegex(OSError, "NUL") as caught:
                call("kept\0.more")
            self.assertEqual(caught.exception.errno, errno.EINVAL)
        self.assertTrue(self.fs.exists("kept"))
        self.fs.unlink("kept")

    def test_names_that_are_not_utf8(self):
        self.fs.mkdir("bytes")
        name = b"\xff"
        self.fs.create_many([name], "bytes")
        self.assertEqual([os.fsencode(each) for each in self.fs.listdir("bytes")], [name])
        self.assertEqual([os.fsencode(each) for each, _ in self.fs.scandir("bytes")], [name])
        for each, _ in self.fs.scandir("bytes"):
            self.assertEqual(self.fs.stat("bytes/" + each).st_size, 0)
            self.assertEqual(len(self.fs.stat_many([each], pathlib.Path("bytes"))), 1)
            self.fs.unlink("bytes/" + each)
        with self.assertRaises(FileNotFoundError) as raised:
            self.fs.stat(b"bytes/" + name)
        self.assertIn("bytes/\udcff", str(raised.exception))
        for nothing in (None, 7, "no list"):
            with self.assertRaisesRegex(TypeError, "is no list of names"):
                self.fs.create_many(nothing)
        for call in (lambda: self.fs.stat(7), lambda: self.fs.stat_many([7])):
            with self.assertRaisesRegex(TypeError, "expected str, bytes or os.PathLike object, not int"):
                call()
        self.fs.rmdir(pathlib.Path("bytes"))

    def test_names(self):
        self.fs.mkdir("d")
        self.write("d/a", b"a")
        self.assertEqual(self.fs.listdir("d"), ["a"])
        self.assertTrue(stat.S_ISREG(self.fs.stat("d/a").st_mode))
        self.assertEqual(self.fs.stat("d/a").st_size, 1)
        self.fs.rename("d/a", "d/b")
        self.assertTrue(self.fs.exists("d/b"))
        self.assertFalse(self.fs.exists("d/a"))
        self.fs.unlink("d/b")
        self.fs.rmdir("d")

    def test_read_many(self):
        self.fs.mkdir("many")
        contents = [bytes([i]) * (i * 1000) for i in range(40)]
        for i, data in enumerate(contents):
            self.write(f"many/{i}", data)
        names = [str(i) for i in range(40)]
        self.assertEqual(self.fs.read_many(names, "many"), contents)
        self.assertEqual(self.fs.read_many(names, "many", most=100),
                         [data[:100] for data in contents])
        self.assertEqual(self.fs.read_many([]), [])
        with self.assertRaises(FileNotFoundError):
            self.fs.read_many(["0", "missing"], "many")

    def test_many_names(self):
        self.fs.mkdir("names")
        names = [f"n{i:03}" for i in range(300)]  # more than one request takes
        self.fs.create_many(names, "names")
        self.write("names/n007", b"seven")
        found = self.fs.stat_many(["n007", "missing", "n299"], "names")
        self.assertEqual([each and each.st_size for each in found], [5, None, 0])
        self.assertEqual(self.fs.exists_many((name for name in ["n007", "missing"]), "names"), [True, False])
        with self.assertRaisesRegex(OSError, "read '/a': Invalid argument: it is not a name in the directory"):
            self.fs.read_many(["/a"], "names")
        listed = dict(self.fs.scandir("names"))
        self.assertEqual(sorted(listed), names)
        self.assertEqual(listed["n007"].st_ino, self.fs.stat("names/n007").st_ino)
        with self.assertRaisesRegex(FileExistsError, "create 'n299'"):
            self.fs.create_many(["n299", "new"], "names")
        self.assertTrue(self.fs.exists("names/new"), "a name after the one that failed was not tried")
        with self.assertRaisesRegex(FileNotFoundError, "unlink 'missing'"):
            self.fs.unlink_many([*names, "missing", "new"], "names")
        self.assertEqual(self.fs.scandir("names"), [])
        self.assertEqual(self.fs.stat_many([], "names"), [])
        with self.assertRaises(NotADirectoryError):
            self.write("plain", b"")
            self.fs.scandir("plain")
        self.fs.rmdir("names")

    def test_threads_overlap(self):
        # Another thread runs while one waits in a call: the GIL is released.
        ticks = 0
        done = threading.Event()

        def tick():
            nonlocal ticks
            while not done.is_set():
                ticks += 1
                time.sleep(0)

        ticker = threading.Thread(target=tick)
        ticker.start()
        with self.fs.open("big", "w+") as file:
            data = bytes(4 << 20)
            for i in range(200):  # on a busy machine the other thread may not run for a while
                before = ticks
                file.pwrite(data, 0)
                during = ticks - before
                if during > 2:  # around the call, the interpreter itself switches once or twice
                    break
        done.set()
        ticker.join()
        self.assertGreater(during, 2)

        def work(number):
            with self.fs.open(f"t{number}", "w+") as file:
                for i in range(50):
                    file.pwrite(bytes([number]) * 4096, i * 4096)
                    self.assertEqual(file.pread(4096, i * 4096), bytes([number]) * 4096)

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))

    def test_a_forked_child(self):
        """Workers use what the parent opened, and the parent goes on."""
        global of_parent
        with self.fs.open("shared", "w+") as file:
            file.pwrite(bytes(8), 0)
            of_parent = self.fs, file
            with multiprocessing.get_context("fork").Pool(4) as pool:
                for number, (read, small, exists) in enumerate(pool.map(work_in_pool, range(8), 1)):
                    self.assertEqual((read, small, exists), (bytes([number]), [b"worker"], True))
            of_parent = None
            self.assertEqual(file.pread(8, 0), bytes(range(8)))
            self.assertEqual(file.pwrite(b"parent", 0), 6)
            self.assertEqual(self.fs.read_many(["shared"]), [b"parent" + bytes([6, 7])])

    def test_a_thread_of_a_worker_goes_on_after_its_function(self):
        with self.fs.open("late", "w+b", 0) as file:
            worker = multiprocessing.get_context("fork").Process(target=write_later, args=(file,))
            worker.start()
            worker.join()
            self.assertEqual((worker.exitcode, file.pread(9, 0)), (0, b"later"))

    def test_workers_after_the_parent_has_closed(self):
        with ros2store.open(self.uri) as fs, fs.open("index", "w") as file:
            file.pwrite(b"i", 0)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            done = pool.starmap(work_anew, [(self.uri, number) for number in range(4)])
        self.assertEqual(done, [b"i" + bytes([number]) for number in range(4)])

    def test_children_end(self):
        for number in range(10):
            child = os.fork()
            if child == 0:
                self.fs.exists("a")
                ctypes.CDLL(None).exit(3 if number % 2 else 4)  # sys.exit() comes to this, too
            deadline = time.monotonic() + 60
            ended = 0, 0
            while ended == (0, 0):
                self.assertLess(time.monotonic(), deadline, "the child does not end")
                time.sleep(0.01)
                ended = os.waitpid(child, os.WNOHANG)
            self.assertEqual(os.waitstatus_to_exitcode(ended[1]), 3 if number % 2 else 4)
            self.assertFalse(self.fs.exists("a"))


class FullPool(unittest.TestCase):
    def test_a_write_of_which_a_part_fits_raises(self):
        base = tempfile.mkdtemp(prefix="ros2store-python-")
        self.addCleanup(shutil.rmtree, base)
        ros2store_command("up", "--no-daemons", base + "/pool", "--size", "64MiB")
        with ros2store.open(f"ros2s+local:///pool/main?dir={base}/pool") as fs:
            for mode in "w", "a":
                with fs.open("big", mode) as file:
                    with self.assertRaises(OSError) as caught:
                        file.pwrite(bytes(64 << 20), 0)
                    self.assertEqual(caught.exception.errno, errno.ENOSPC)
                    self.assertGreater(file.size(), 0)
            self.write_asynchronously(fs, bytes(64 << 20))
            try:
                import torch
            except ImportError:
                return
            self.write_asynchronously(fs, torch.zeros(16 << 20))

    def write_asynchronously(self, fs, buffer):
        async def write():
            async with await fs.aopen("big", "wb") as file:
                await file.awrite(buffer, 0)

        with self.assertRaises(OSError) as caught:
            asyncio.run(write())
        self.assertEqual(caught.exception.errno, errno.ENOSPC)


class FalseServer(unittest.TestCase):
    program = """
import errno, resource, ros2store
with ros2store.open("ros2s+dpu://liar/pool/main") as fs:
    try:
        fs.read_many(["a", "b"])
    except OSError as error:
        print(errno.errorcode[error.errno], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""

    def test_a_size_that_is_only_stated_gets_no_memory(self):
        done = subprocess.run([sys.executable, "-c", self.program], capture_output=True, text=True,
                              env=dict(os.environ, LD_PRELOAD=os.environ["LYING_LIBRARY"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        error, peak_kib = done.stdout.split()
        self.assertEqual(error, "EIO")
        self.assertLess(int(peak_kib), 512 << 10)


class DirectOverShm(Embedded):
    scheme, further = "ros2s", "&provider=shm"
    path = "shm to /"

    def test_a_worker_that_ended_delays_no_writer(self):
        """Leases of a session that is not closed delay a writer for 2 s."""
        with self.fs.open("shared", "w+b", 0) as file:
            for method, work, arguments in (("fork", read, (self.fs, file)), ("forkserver", read_anew, (self.uri,))):
                file.pwrite(b"1", 0)
                worker = multiprocessing.get_context(method).Process(target=work, args=arguments)
                worker.start()
                worker.join()
                begin = time.monotonic()
                file.pwrite(b"2", 0)
                with self.subTest(method=method):
                    self.assertEqual(worker.exitcode, 0)
                    self.assertLess(time.monotonic() - begin, 1)


def errno_of_open(uri):
    try:
        ros2store.open(uri)
    except OSError as error:
        return error.errno
    return 0


class DirectOverUcx(Embedded):
    scheme, further = "ros2s", "&provider=ucx+tcp"
    path = r"ucx\+tcp to 127\.0\.0\.1"
    test_workers_after_the_parent_has_closed = test_children_end = None
    test_a_thread_of_a_worker_goes_on_after_its_function = None

    def test_a_forked_child(self):
        """UCX works in one process only, until the parent has closed."""
        context = multiprocessing.get_context("fork")
        self.write("index", b"i")
        with context.Pool(1) as pool:
            self.assertEqual(pool.apply(errno_of_open, (self.uri,)), errno.EOPNOTSUPP)
            other = self.uri.replace("provider=ucx+tcp", "provider=shm")
            self.assertEqual(pool.apply(work_anew, (other, 1)), b"i\x01")
        self.fs.close()
        with context.Pool(1) as pool:
            self.assertEqual(pool.apply(work_anew, (self.uri, 2)), b"i\x02")


class Offload(Embedded):
    scheme = "ros2s+dpu"
    path = "host link over shm to the DPU"


if __name__ == "__main__":
    unittest.main()

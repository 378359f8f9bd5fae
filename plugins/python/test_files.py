"""Tests files as those of io.open(), alone and in the hands of libraries."""
import csv
import errno
import fcntl
import gzip
import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
import threading
import unittest
import zipfile

import ros2store
from on_pool import OnPool, module


class Embedded(OnPool):
    def test_open_returns_the_layers_of_io(self):
        self.write("a", b"")
        for mode, buffering, kind in (("rb", 0, io.RawIOBase), ("rb", -1, io.BufferedIOBase),
                                      ("wb", -1, io.BufferedIOBase), ("r+b", -1, io.BufferedIOBase),
                                      ("xb", 4096, io.BufferedIOBase), ("r", -1, io.TextIOWrapper),
                                      ("at", 1, io.TextIOWrapper)):
            with self.subTest(mode=mode), self.fs.open("new" if "x" in mode else "a", mode, buffering) as file:
                self.assertIsInstance(file, kind)
                self.assertEqual(file.readable(), "r" in mode or "+" in mode)
                self.assertEqual(file.writable(), "r" not in mode or "+" in mode)
                self.assertTrue(file.seekable())
                self.assertEqual(file.name, "new" if "x" in mode else "a")
                with self.assertRaises(io.UnsupportedOperation):
                    file.fileno()
        self.fs.unlink("new")

    def test_a_raw_file_has_a_position(self):
        with self.fs.open("raw", "w+b", buffering=0) as file:
            self.assertEqual(file.write(b"hello, world"), 12)
            self.assertEqual((file.tell(), file.seek(-5, os.SEEK_END), file.read()), (12, 7, b"world"))
            self.assertEqual(file.read(), b"")
            self.assertEqual((file.seek(1), file.seek(1, os.SEEK_CUR), file.read(3)), (1, 2, b"llo"))
            into = bytearray(3)
            self.assertEqual((file.readinto(into), into, file.tell()), (3, b", w", 8))
            self.assertEqual((file.readinto(into, 0), into, file.tell()), (3, b"hel", 8))
            self.assertEqual((file.truncate(), file.size(), file.truncate(5), file.tell()), (8, 8, 5, 8))
            self.assertEqual(file.read(1), b"")
            self.assertEqual(file.pread(9, 0), b"hello")
            self.assertEqual(file.seek(0, os.SEEK_HOLE), 5)
            self.assertEqual(file.tell(), 5)
            for wrong in ((-1,), (-6, os.SEEK_CUR)):
                with self.assertRaises(OSError) as caught:
                    file.seek(*wrong)
                self.assertEqual(caught.exception.errno, errno.EINVAL)
            with self.assertRaises(ValueError):
                file.seek(0, 99)

    def test_appends_are_at_the_end(self):
        self.write("log", b"one\n")
        for buffering in 0, -1:
            with self.fs.open("log", "ab", buffering) as file:
                self.assertEqual(file.tell(), 4 if buffering == 0 else 8)
                file.write(b"two\n")
                file.flush()
                self.assertEqual(file.tell(), file.size())
        with self.fs.open("log", "a+") as file:
            file.seek(0)
            file.write("end\n")
            file.seek(0)
            self.assertEqual(file.readlines(), ["one\n", "two\n", "two\n", "end\n"])

    def test_a_truncation_leaves_the_position_of_appends(self):
        for buffering in 0, -1:
            with self.subTest(buffering=buffering), self.fs.open("shorter", "ab", buffering) as file:
                file.write(b"123456")
                file.flush()
                self.assertEqual((file.truncate(2), file.tell(), file.size()), (2, 6, 2))
                self.assertEqual((file.write(b"3"), file.flush(), file.tell()), (1, None, 3))
            self.fs.unlink("shorter")

    def test_layers_have_the_methods_of_a_file(self):
        for mode in "w+", "w+b":
            with self.subTest(mode=mode), self.fs.open("layers", mode) as file:
                file.write("text" if mode == "w+" else b"text")
                self.assertEqual(file.pread(9, 0), b"text")
                self.assertEqual(file.pwrite(b"T", 0), 1)
                file.seek(0)
                self.assertIn(file.read(), ("Text", b"Text"))
                into = bytearray(2)
                self.assertEqual((file.readinto(into, 2), into), (2, b"xt"))
                self.assertEqual((file.size(), file.stat().st_size, file.seek(1, os.SEEK_DATA)), (4, 4, 1))
                file.flock(fcntl.LOCK_EX)
                file.fsync()
                file.punch_hole(0, 1)
                self.assertEqual(file.pread(4, 0), b"\0ext")

    def test_text_has_an_encoding_and_newlines(self):
        with self.fs.open("text", "w", encoding="utf-16-le", newline="\r\n") as file:
            file.write("é\n")
            print("ü", file=file)
        self.assertEqual(self.read("text"), "é\r\nü\r\n".encode("utf-16-le"))
        with self.fs.open("text", encoding="utf-16-le") as file:
            self.assertEqual(list(file), ["é\n", "ü\n"])
        with self.fs.open("text", encoding="ascii", errors="ignore") as file:
            self.assertIn("\n", file.read())
        with self.assertRaises(UnicodeDecodeError), self.fs.open("text", encoding="ascii") as file:
            file.read()

    def test_lines_of_a_buffered_file(self):
        self.write("lines", b"1\n2\n3")
        self.assertEqual(list(self.fs.open("lines", "rb")), [b"1\n", b"2\n", b"3"])
        with self.fs.open("lines", "rb") as file:
            self.assertEqual((next(file), file.peek()[:1], file.readline(), file.read(5), file.readlines()),
                             (b"1\n", b"2", b"2\n", b"3", []))
            self.assertEqual(file.raw.name, "lines")
        self.assertTrue(file.closed and file.raw.closed)

    def test_a_loop_over_lines_that_ends_early_leaves_the_file_open(self):
        self.write("lines", b"1\n2\n3\n4")
        with self.fs.open("lines", "r+b") as file:
            for line in file:
                break
            self.assertEqual((line, file.readlines(1), list(zip("a", file))), (b"1\n", [b"2\n"], [("a", b"3\n")]))
            self.assertEqual((file.read(), file.write(b"5")), (b"4", 1))
        self.assertEqual(self.read("lines"), b"1\n2\n3\n45")

    def test_a_file_that_only_its_method_keeps(self):
        opened = lambda mode="rb": self.fs.open("one", mode)
        self.assertEqual(opened("wb").write(b"12\n3"), 4)
        for call, expected in ((lambda: opened().read(), b"12\n3"), (lambda: opened().readline(), b"12\n"),
                               (lambda: opened().readlines(), [b"12\n", b"3"]), (lambda: opened().peek()[:1], b"1"),
                               (lambda: opened().read1(2), b"12"), (lambda: opened("r+b").read(2), b"12"),
                               (lambda: opened("r").read(), "12\n3"), (lambda: opened().detach().read(), b"12\n3"),
                               (lambda: self.fs.path("one").open("rb").read(), b"12\n3"),
                               (lambda: opened("r+b").write(b"ab"), 2), (lambda: opened().read(), b"ab\n3")):
            self.assertEqual(call(), expected)

    def test_tensors_in_buffered_files(self):
        torch = module("torch")
        with self.fs.open("tensor", "w+b") as file:
            self.assertEqual(file.write(torch.ones(3)), 12)
            file.seek(0)
            into = torch.zeros(3)
            self.assertEqual((file.readinto(into), into.tolist()), (12, [1, 1, 1]))
            with self.assertRaises(BufferError):
                file.write(torch.ones(4, 4)[:, 0])

    def test_larger_than_a_buffer(self):
        data = os.urandom(3 << 20)
        with self.fs.open("large", "wb") as file:
            for begin in range(0, len(data), 10_000):
                file.write(data[begin:begin + 10_000])
        self.assertEqual(self.read("large"), data)
        with self.fs.open("large", "rb", buffering=0) as file:
            self.assertEqual(file.readall(), data)
        with self.fs.open("large", "rb") as file:
            self.assertEqual(b"".join(iter(lambda: file.read(77_777), b"")), data)

    def test_wrong_modes_and_layers(self):
        self.write("a", b"1")
        for arguments in (("q",), ("rw",), ("rbt",), ("rr",), ("",), ("+",), ("r", 0), ("rb", -1, "utf-8"),
                          ("rb", -1, None, None, "\n")):
            with self.subTest(arguments=arguments), self.assertRaises(ValueError):
                self.fs.open("a", *arguments)
        with self.fs.open("a", "rb", buffering=0) as file:
            for call in (lambda: file.write(b"x"), lambda: file.truncate(0)):
                with self.assertRaisesRegex(io.UnsupportedOperation, "'a': it was opened with mode 'rb'"):
                    call()
            with self.assertRaises(OSError):
                file.pwrite(b"x", 0)
        with self.fs.open("a", "wb", buffering=0) as file:
            for call in (file.read, lambda: file.read(1), lambda: file.readinto(bytearray(1))):
                with self.assertRaises(io.UnsupportedOperation):
                    call()
        for call in (file.read, file.tell, file.readable, lambda: file.seek(0), lambda: file.write(b"")):
            with self.assertRaisesRegex(ValueError, "the file 'a' is closed"):
                call()
        for call in (file.size, file.fsync, lambda: file.pread(1, 0), lambda: file.pwrite(b"", 0)):
            with self.assertRaisesRegex(OSError, "the file is closed") as caught:
                call()
            self.assertEqual(caught.exception.errno, errno.EBADF)
        file.close()

    def test_wrong_buffers(self):
        with self.fs.open("a", "w+b", buffering=0) as file:
            file.write(b"1234")
            for buffer in (b"read-only", memoryview(b"read-only"), memoryview(bytearray(8))[::2]):
                with self.assertRaises(BufferError):
                    file.readinto(buffer, 0)
            for buffer in (None, 5, "text", [1]):
                with self.assertRaises(TypeError):
                    file.readinto(buffer, 0)
                with self.assertRaises(TypeError):
                    file.pwrite(buffer, 0)
            for call in (lambda: file.pread(-1, 0), lambda: file.pread(1, -1), lambda: file.pread(1 << 63, 0),
                         lambda: file.pwrite(b"", -1), lambda: file.truncate(-1), lambda: self.fs.truncate("a", -1)):
                with self.assertRaisesRegex(ValueError, r"^-?\d+ is no number of bytes"):
                    call()
            with self.assertRaisesRegex(MemoryError, f"there is no memory for {1 << 62} bytes"):
                file.pread(1 << 62, 0)
            self.assertEqual(file.readinto(bytearray(), 0), 0)

    def test_a_close_lets_the_running_call_end(self):
        with self.fs.open("locked", "w+b", 0) as one:
            other = self.fs.open("locked", "r+b", 0)
            one.flock(fcntl.LOCK_EX)
            errors = []

            def run(call):
                try:
                    call()
                except OSError as error:
                    errors.append(error.errno)

            waiting = threading.Thread(target=run, args=(lambda: other.flock(fcntl.LOCK_EX),))
            waiting.start()
            waiting.join(0.2)
            closing = threading.Thread(target=other.close)
            closing.start()
            closing.join(0.2)
            self.assertTrue(waiting.is_alive() and closing.is_alive())
            run(lambda: other.pread(1, 0))
            self.assertEqual(errors, [errno.EBADF], "a call that begins after the close fails")
            one.flock(fcntl.LOCK_UN)
            waiting.join(30)
            closing.join(30)
            self.assertFalse(waiting.is_alive() or closing.is_alive())
            self.assertEqual(errors, [errno.EBADF])
            one.flock(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_a_close_while_threads_read(self):
        self.write("shared", bytes(100_000))
        for turn in range(20):
            file = self.fs.open("shared", "rb", 0)
            wrong = []

            def read():
                try:
                    while True:
                        if len(file.pread(100_000, 0)) != 100_000:
                            wrong.append("short")
                except OSError as error:
                    if error.errno != errno.EBADF:
                        wrong.append(error)

            threads = [threading.Thread(target=read) for _ in range(3)]
            for thread in threads:
                thread.start()
            file.close()
            for thread in threads:
                thread.join(30)
            self.assertEqual(wrong, [])

    def test_the_file_system_closed_while_threads_use_it(self):
        self.write("shared", b"1")
        wrong = []

        def use(fs):
            try:
                while True:
                    fs.stat("shared")
            except OSError as error:
                if error.errno != errno.EBADF:
                    wrong.append(error)

        for _ in range(5):
            fs = ros2store.open(self.uri)
            threads = [threading.Thread(target=use, args=(fs,)) for _ in range(3)]
            for thread in threads:
                thread.start()
            fs.close()
            for thread in threads:
                thread.join(30)
        self.assertEqual(wrong, [])

    def test_an_exit_with_daemon_threads_in_calls(self):
        program = f"""
import ros2store, threading, time
fs = ros2store.open({self.uri!r})
file = fs.open("daemons", "w+b", 0)
file.pwrite(bytes(1 << 20), 0)
def work():
    while True:
        file.pread(1 << 20, 0)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
"""
        self.fs.close()
        for _ in range(5):
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_json_csv_pickle_gzip(self):
        with self.fs.open("a.json", "w") as file:
            json.dump({"a": [1, 2]}, file)
        with self.fs.open("a.json") as file:
            self.assertEqual(json.load(file), {"a": [1, 2]})
        with self.fs.open("a.csv", "w", newline="") as file:
            csv.writer(file).writerows([["x", "a\nb"], ["1", "2"]])
        with self.fs.open("a.csv", newline="") as file:
            self.assertEqual(list(csv.reader(file)), [["x", "a\nb"], ["1", "2"]])
        with self.fs.open("a.pickle", "wb") as file:
            pickle.dump(list(range(1000)), file)
        with self.fs.open("a.pickle", "rb") as file:
            self.assertEqual(pickle.load(file), list(range(1000)))
        with self.fs.open("a.gz", "wb") as file, gzip.open(file, "wb") as packed:
            packed.write(b"x" * 100_000)
        with self.fs.open("a.gz", "rb", 0) as file, gzip.open(file) as packed:
            self.assertEqual(packed.read(), b"x" * 100_000)

    def test_archives(self):
        with self.fs.open("a.zip", "wb") as file, zipfile.ZipFile(file, "w") as archive:
            archive.writestr("inner", b"zipped" * 1000)
        with self.fs.open("a.zip", "r+b") as file, zipfile.ZipFile(file, "a") as archive:
            archive.writestr("more", b"1")
        with self.fs.open("a.zip", "rb") as file, zipfile.ZipFile(file) as archive:
            self.assertEqual(archive.read("inner"), b"zipped" * 1000)
            self.assertEqual(archive.namelist(), ["inner", "more"])
        with self.fs.open("a.tar", "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
            entry = tarfile.TarInfo("inner")
            entry.size = 6000
            archive.addfile(entry, io.BytesIO(b"tarred" * 1000))
        with self.fs.open("a.tar", "rb", 0) as file, tarfile.open(fileobj=file) as archive:
            self.assertEqual(archive.extractfile("inner").read(), b"tarred" * 1000)

    def test_numpy(self):
        numpy = module("numpy")
        array = numpy.arange(100_000).reshape(100, 1000)
        for name, mode in (("a.npy", 0), ("b.npy", -1)):
            with self.fs.open(name, "wb", mode) as file:
                numpy.save(file, array)
            with self.fs.open(name, "rb", mode) as file:
                numpy.testing.assert_array_equal(numpy.load(file), array)
        with self.fs.open("a.npz", "wb") as file:
            numpy.savez(file, x=array)
        with self.fs.open("a.npz", "rb") as file:
            numpy.testing.assert_array_equal(numpy.load(file)["x"], array)
        with self.fs.open("text", "w") as file:
            numpy.savetxt(file, array[:2])
        with self.fs.open("text") as file:
            numpy.testing.assert_array_equal(numpy.loadtxt(file), array[:2])
        into = numpy.zeros_like(array)
        with self.fs.open("flat", "w+b", 0) as file:
            self.assertEqual(file.pwrite(array, 0), array.nbytes)
            self.assertEqual(file.readinto(into), array.nbytes)
            with self.assertRaises((BufferError, ValueError)):
                file.readinto(into[:, ::2], 0)
        numpy.testing.assert_array_equal(into, array)

    def test_pandas(self):
        pandas = module("pandas")
        frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "ü"]})
        for mode in "", "b":
            with self.fs.open("a.csv", "w" + mode) as file:
                frame.to_csv(file, index=False)
            with self.fs.open("a.csv", "r" + mode) as file:
                pandas.testing.assert_frame_equal(pandas.read_csv(file), frame)

    def test_torch(self):
        torch = module("torch")
        state = {"w": torch.arange(100_000, dtype=torch.float32), "step": 3}
        with self.fs.open("model.pt", "wb") as file:
            torch.save(state, file)
        for buffering in 0, -1:
            with self.fs.open("model.pt", "rb", buffering) as file:
                loaded = torch.load(file)
            self.assertTrue(torch.equal(loaded["w"], state["w"]))
        into = torch.zeros(100_000, dtype=torch.bfloat16)
        with self.fs.open("tensor", "w+b", 0) as file:
            source = state["w"].to(torch.bfloat16)
            self.assertEqual(file.pwrite(source, 0), 200_000)
            self.assertEqual(file.readinto(into), 200_000)
            with self.assertRaisesRegex(BufferError, "not contiguous"):
                file.readinto(torch.zeros(4, 4).t(), 0)
        self.assertTrue(torch.equal(into, source))


class Direct(Embedded):
    scheme = "ros2s"


class Offload(Embedded):
    scheme = "ros2s+dpu"


if __name__ == "__main__":
    unittest.main()

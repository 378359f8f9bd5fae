"""Tests calls on many files: reads into buffers of the caller, and writes of whole files."""
import errno
import threading
import unittest

from on_pool import OnPool, half_of


class Embedded(OnPool):
    def setUp(self):
        super().setUp()
        if not self.fs.exists("many"):
            self.fs.mkdir("many")
        self.contents = [bytes([i]) * (i * 1000) for i in range(40)]
        self.names = [f"f{i}" for i in range(40)]
        self.sizes = [len(data) for data in self.contents]
        self.fs.write_many(zip(self.names, self.contents), "many")

    def tearDown(self):
        self.fs.rmtree("many")
        super().tearDown()

    def error_of(self, kind, *arguments, **named):
        with self.assertRaises(kind) as caught:
            self.fs.read_many(*arguments, **named)
        return caught.exception

    def test_sizes_are_given_or_learnt(self):
        for sizes in (self.sizes, None, None, [size // 2 for size in self.sizes], [size + 1 for size in self.sizes],
                      [0] * 40):
            with self.subTest(sizes=sizes):
                self.assertEqual(self.fs.read_many(self.names, "many", sizes=sizes), self.contents)
        self.write("many/f1", bytes(500_000))
        self.write("many/f2", b"")
        self.assertEqual([len(data) for data in self.fs.read_many(["f1", "f2", "f3"], "many")], [500_000, 0, 3000])
        self.assertEqual(self.fs.read_many(self.names[3:], "many", most=1500),
                         [data[:1500] for data in self.contents[3:]])

    def test_one_buffer_has_the_files_one_after_the_other(self):
        into = bytearray(sum(self.sizes) + 10)
        for sizes in self.sizes, None, [size + 1 if size < 10_000 else size for size in self.sizes]:
            into[:] = bytes(len(into))
            got = self.fs.read_many(self.names, "many", sizes=sizes, into=memoryview(into))
            self.assertEqual(got, self.sizes)
            self.assertEqual(into[:sum(got)], b"".join(self.contents))
        self.assertEqual(self.fs.read_many(self.names[2:], "many", most=5, into=into), [5] * 38)
        self.assertEqual(into[:10], b"\2\2\2\2\2\3\3\3\3\3")
        small = bytearray(1500)
        error = self.error_of(OSError, ["f1", "f2"], "many", into=small)
        self.assertEqual((error.errno, error.strerror),
                         (errno.ERANGE, "read 'f2': the buffer of 1500 bytes has no room for its 2000"))
        error = self.error_of(OSError, ["f1", "f2"], "many", sizes=[1000, 500], into=small)
        self.assertEqual((error.errno, error.strerror),
                         (errno.ERANGE, "read 'f2': it has 2000 bytes, and there is room for 500"))

    def test_a_buffer_for_each_file(self):
        buffers = [bytearray(size) for size in self.sizes]
        self.assertEqual(self.fs.read_many(self.names, "many", into=buffers), self.sizes)
        self.assertEqual(list(map(bytes, buffers)), self.contents)
        larger = (bytearray(3000), memoryview(bytearray(3000))[:2000])
        self.assertEqual(self.fs.read_many(["f1", "f2"], "many", into=larger), [1000, 2000])
        error = self.error_of(OSError, ["f1", "f2"], "many", into=[bytearray(1000), bytearray(1999)])
        self.assertEqual(error.errno, errno.ERANGE)
        self.assertEqual(self.fs.read_many(["f1", "f2"], "many", most=7, into=[bytearray(7), bytearray(9)]), [7, 7])

    def test_a_file_larger_than_a_request_takes(self):
        large = bytes(range(256)) * (70 << 12)  # 70 MiB
        self.write("many/large", large)
        for sizes in None, [len(large), 1000], [1, 1]:
            self.assertTrue(self.fs.read_many(["large", "f1"], "many", sizes=sizes) == [large, self.contents[1]])
        most = (68 << 20) + 5
        self.assertTrue(self.fs.read_many(["large"], "many", most) == [large[:most]])
        into = bytearray(len(large))
        self.assertEqual(self.fs.read_many(["large"], "many", into=into), [len(large)])
        self.assertTrue(into == large)
        self.assertEqual(self.fs.read_many(["large", "f1"], "many", most=most, into=[into, bytearray(1000)]), [most, 1000])

    def test_wrong_arguments(self):
        self.error_of(ValueError, self.names, "many", sizes=[1])
        self.error_of(ValueError, self.names, "many", into=[bytearray(1)])
        self.error_of(ValueError, self.names, "many", sizes=[-1] * 40)
        self.error_of(TypeError, self.names, "many", into=5)
        self.error_of(TypeError, ["f1"], "many", into=["text"])
        self.error_of(BufferError, ["f1"], "many", into=bytes(9000))
        self.error_of(BufferError, ["f1"], "many", into=[b"read-only"])
        self.error_of(FileNotFoundError, ["f1", "missing"], "many", into=bytearray(9000))
        self.error_of(IsADirectoryError, ["many"], "")
        self.assertEqual(self.error_of(OSError, ["f1\0"], "many").errno, errno.EINVAL)
        self.assertEqual(self.fs.read_many([], "many", into=bytearray()), [])
        self.assertEqual(self.fs.read_many([], "many", sizes=[], into=[]), [])

    def test_exists_many(self):
        self.fs.symlink("nothing", "many/link")
        names = [f"n{i}" for i in range(300)]  # more than one request takes
        self.assertEqual(self.fs.exists_many(["f1", "missing", b"f2", *names, "link"], "many"),
                         [True, False, True, *[False] * 300, True])
        self.assertEqual(self.fs.exists_many([], "many"), [])
        with self.assertRaises(FileNotFoundError):
            self.fs.exists_many(["a"], "missing")

    def test_write_many(self):
        for publish in False, True:
            with self.subTest(publish=publish):
                self.fs.mkdir("many/w")
                self.fs.mkdir("many/w/directory")
                items = {f"n{i}": b"x" * i for i in range(300)}
                results = self.fs.write_many({**items, "directory": b"", b"\xff": bytearray(b"y"), "a/b": b""}, "many/w",
                                             publish=publish, mode=0o600)
                self.assertEqual(results[:300], [None] * 300)
                self.assertIsInstance(results[300], IsADirectoryError)
                self.assertIsNone(results[301])
                self.assertEqual((results[302].errno, results[302].strerror),
                                 (errno.EINVAL, "write 'a/b': Invalid argument: it is not a name in the directory"))
                self.assertEqual(self.fs.read_many(list(items), "many/w"), list(items.values()))
                self.assertEqual(len(self.fs.listdir("many/w")), 302)
                self.assertEqual(self.fs.stat("many/w/n1").st_mode & 0o777, 0o600)
                results = self.fs.write_many([("n1", b"other"), ("new", b"1")], "many/w", publish=publish, new=True)
                self.assertIsInstance(results[0], FileExistsError)
                self.assertEqual((results[1], self.read("many/w/n1"), self.read("many/w/new")), (None, b"x", b"1"))
                self.assertEqual(self.fs.write_many([["n1", b"other"]], "many/w", publish=publish), [None])
                self.assertEqual(self.read("many/w/n1"), b"other")
                self.fs.rmtree("many/w")
        self.assertEqual(self.fs.write_many({}), [])
        for items in (None, 5, ["ab"], [("a",)], [(1, b"")], [("a", "text")], {"a": None}):
            with self.subTest(items=items), self.assertRaises(TypeError):
                self.fs.write_many(items, "many")
        with self.assertRaises(FileNotFoundError):
            self.fs.write_many({"a": b""}, "missing")
        with self.assertRaisesRegex(OSError, "NUL"):
            self.fs.write_many({"a\0": b""}, "many")

    def test_a_published_file_is_never_seen_in_part(self):
        self.fs.write_many({"p": bytes(1000)}, "many", publish=True)
        done = threading.Event()
        seen = set()

        def look():
            while not done.is_set():
                seen.add(len(self.read("many/p")))

        looking = threading.Thread(target=look)
        looking.start()
        for i in range(1, 30):
            self.fs.write_many({"p": bytes(1000 * i)}, "many", publish=True)
        done.set()
        looking.join(30)
        self.assertEqual({size % 1000 for size in seen}, {0})
        self.assertNotIn(0, seen)


class Direct(half_of(Embedded, 0)):
    scheme = "ros2s"


class Offload(half_of(Embedded, 1)):
    scheme = "ros2s+dpu"


if __name__ == "__main__":
    unittest.main()

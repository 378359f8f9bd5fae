"""Tests the file systems of fsspec. The cases of copy, get and put have the names that they have in fsspec's own abstract
tests."""
import asyncio
import datetime
import gc
import gzip
import importlib
import io
import os
import pickle
import shutil
import tempfile
import unittest

import ros2store
from on_pool import OnPool, calls_of

try:
    import fsspec
    from fsspec.implementations.local import LocalFileSystem
except ImportError:
    raise unittest.SkipTest("fsspec is not installed") from None

ALL = ["file1", "file2", "subdir0/nesteddir/nestedfile", "subdir0/subfile1", "subdir0/subfile2",
       "subdir1/nesteddir/nestedfile", "subdir1/subfile1", "subdir1/subfile2"]
SHALLOW = [name for name in ALL if "nested" not in name]
# pattern, recursive, maxdepth, what is copied
GLOB_EDGE_CASES = (
    ("*", False, None, ["file1", "file2"]), ("*", True, None, ALL), ("*", True, 1, ["file1", "file2"]),
    ("*", True, 2, SHALLOW), ("*1", False, None, ["file1"]),
    ("*1", True, None, ["file1", "subdir1/nesteddir/nestedfile", "subdir1/subfile1", "subdir1/subfile2"]),
    ("*1", True, 2, ["file1", "subdir1/subfile1", "subdir1/subfile2"]),
    ("**", False, None, ALL), ("**", True, None, ALL), ("**", True, 1, ["file1", "file2"]), ("**", False, 2, SHALLOW),
    ("**/*1", False, None, ["file1", "subdir0/subfile1", "subdir1/subfile1"]),
    ("**/*1", True, 1, ["file1"]), ("**/*1", False, 2, ["file1", "subdir0/subfile1", "subdir1/subfile1"]),
    ("**/subdir0", False, None, []), ("**/subdir0", True, None, ["nesteddir/nestedfile", "subfile1", "subfile2"]),
    ("**/subdir0/nested*", False, 2, []), ("**/subdir0/nested*", True, 2, ["nestedfile"]),
    ("subdir[1-2]", False, None, []), ("subdir[1-2]", True, None, ["nesteddir/nestedfile", "subfile1", "subfile2"]),
    ("subdir[1-2]", True, 2, ["subfile1", "subfile2"]),
    ("subdir[0-1]", True, None, [name for name in ALL if "/" in name]),
    ("subdir[0-1]/*fil[e]*", False, None, [name for name in SHALLOW if "/" in name]),
)


class OnFsspec(OnPool):
    def setUp(self):
        super().setUp()
        self.local_fs = LocalFileSystem(auto_mkdir=True)
        self.remote_fs = fsspec.filesystem(self.scheme, uri=self.uri)
        self.local = tempfile.mkdtemp(dir=self.base)
        self.remote = "/" + os.path.basename(self.local)
        self.remote_fs.mkdir(self.remote)

    def tearDown(self):
        self.remote_fs.rm(self.remote, recursive=True)
        # fsspec keeps every file system, and so the pool, open.
        type(self.remote_fs).clear_instance_cache()
        self.remote_fs.files.close()
        del self.remote_fs
        gc.collect()
        super().tearDown()

    def url(self, path):
        uri, _, query = self.uri.partition("?")
        return f"{uri}{path}?{query}"

    def found(self, fs, path):
        return sorted(name[len(path) + 1:] for name in fs.find(path))


class Copies:
    """The cases of a copy between `source` and `target`, each a file system and a directory."""

    def fill(self):
        fs, source = self.source
        for name in ("file1", "file2", "subdir/subfile1", "subdir/subfile2", "subdir/nesteddir/nestedfile"):
            fs.makedirs(os.path.dirname(f"{source}/src/{name}"), exist_ok=True)
            fs.pipe_file(f"{source}/src/{name}", name.encode())
        self.src, self.dst = source + "/src", self.target[1] + "/dst"
        self.target[0].mkdir(self.dst)

    def expect(self, *names, at=""):
        self.assertEqual(self.found(self.target[0], self.dst + at), sorted(names))
        fs = self.target[0]
        for name in names:
            content = fs.cat_file(f"{self.dst}{at}/{name}")
            self.assertTrue(content.decode().endswith(os.path.basename(name).replace("newfile", "subfile1")), name)
        fs.rm(self.dst, recursive=True)
        fs.mkdir(self.dst)

    def test_file_to_existing_directory(self):
        self.fill()
        for target in "", "/":
            self.copy(self.src + "/subdir/subfile1", self.dst + target)
            self.expect("subfile1")

    def test_file_to_new_directory(self):
        self.fill()
        self.copy(self.src + "/subdir/subfile1", self.dst + "/newdir/")
        self.expect("newdir/subfile1")

    def test_file_to_file_in_existing_directory(self):
        self.fill()
        self.copy(self.src + "/subdir/subfile1", self.dst + "/newfile")
        self.expect("newfile")

    def test_file_to_file_in_new_directory(self):
        self.fill()
        self.copy(self.src + "/subdir/subfile1", self.dst + "/newdir/newfile")
        self.expect("newdir/newfile")

    def test_directory_to_existing_directory(self):
        self.fill()
        for slash in "", "/":
            source = self.src + "/subdir" + slash
            into = "" if slash else "subdir/"
            self.copy(source, self.dst)
            self.assertEqual(self.target[0].ls(self.dst, detail=False), [], "not recursive")
            self.copy(source, self.dst, recursive=True)
            self.expect(into + "subfile1", into + "subfile2", into + "nesteddir/nestedfile")
            self.copy(source, self.dst, recursive=True, maxdepth=1)
            self.expect(into + "subfile1", into + "subfile2")

    def test_directory_to_new_directory(self):
        self.fill()
        for from_slash in "", "/":
            for to_slash in "", "/":
                source, target = self.src + "/subdir" + from_slash, self.dst + "/newdir" + to_slash
                self.copy(source, target)
                self.assertEqual(self.target[0].ls(self.dst, detail=False), [], "not recursive")
                # A target with a slash is a directory into which the source goes.
                into = "newdir/" + ("subdir/" if to_slash and not from_slash else "")
                self.copy(source, target, recursive=True)
                self.expect(into + "subfile1", into + "subfile2", into + "nesteddir/nestedfile")

    def test_glob_to_existing_directory(self):
        self.fill()
        for slash in "", "/":
            self.copy(self.src + "/subdir/*", self.dst + slash)
            self.expect("subfile1", "subfile2")
            self.copy(self.src + "/subdir/*", self.dst + slash, recursive=True)
            self.expect("subfile1", "subfile2", "nesteddir/nestedfile")
            self.copy(self.src + "/subdir/*", self.dst + slash, recursive=True, maxdepth=1)
            self.expect("subfile1", "subfile2")

    def test_glob_to_new_directory(self):
        self.fill()
        for slash in "", "/":
            self.copy(self.src + "/subdir/*", self.dst + "/newdir" + slash)
            self.expect("newdir/subfile1", "newdir/subfile2")
            self.copy(self.src + "/subdir/*", self.dst + "/newdir" + slash, recursive=True)
            self.expect("newdir/subfile1", "newdir/subfile2", "newdir/nesteddir/nestedfile")

    def test_list_of_files_to_existing_directory(self):
        self.fill()
        names = [self.src + "/file1", self.src + "/file2", self.src + "/subdir/subfile1"]
        for slash in "", "/":
            self.copy(names, self.dst + slash)
            self.expect("file1", "file2", "subfile1")

    def test_list_of_files_to_new_directory(self):
        self.fill()
        self.copy([self.src + "/file1", self.src + "/file2", self.src + "/subdir/subfile1"], self.dst + "/newdir/")
        self.expect("newdir/file1", "newdir/file2", "newdir/subfile1")

    def test_two_files_new_directory(self):
        self.fill()
        self.copy([self.src + "/file1", self.src + "/file2"], self.dst + "/newdir/")
        self.expect("newdir/file1", "newdir/file2")

    def test_directory_without_files_with_same_name_prefix(self):
        fs, source = self.source
        for name in ("subdir/subfile.txt", "subdir.txt"):
            fs.makedirs(os.path.dirname(f"{source}/{name}"), exist_ok=True)
            fs.pipe_file(f"{source}/{name}", os.path.basename(name).encode())
        self.dst = self.target[1] + "/dst"
        self.target[0].mkdir(self.dst)
        self.copy(source + "/subdir", self.dst, recursive=True)
        self.expect("subdir/subfile.txt")

    def test_with_source_and_destination_as_list(self):
        self.fill()
        names = ["file1", "file2"]
        self.copy([f"{self.src}/{name}" for name in names], [f"{self.dst}/new/{name}" for name in names])
        self.expect("new/file1", "new/file2")

    def test_directory_recursive(self):
        self.fill()
        fs, target = self.target[0], self.dst + "/target"
        source = self.src + "/subdir"
        for slash in "", "/":
            for is_there in False, True:
                self.copy(source + slash, target, recursive=True)
                self.assertTrue(fs.isfile(target + "/subfile1"))
                self.assertEqual(fs.isfile(target + "/subdir/subfile1"), is_there and not slash)
            fs.rm(target, recursive=True)

    def test_empty_directory(self):
        self.fill()
        self.source[0].mkdir(self.src + "/empty")
        self.copy(self.src + "/empty", self.dst, recursive=True)
        self.assertTrue(self.target[0].isdir(self.dst + "/empty"))

    def test_missing_source(self):
        self.fill()
        with self.assertRaises(FileNotFoundError):
            self.copy(self.src + "/missing", self.dst)

    def test_glob_edge_cases(self):
        fs, source = self.source
        if not isinstance(fs, type(self.remote_fs)):
            self.skipTest("the patterns are those of fsspec's local file system")
        for name in ALL:
            fs.makedirs(os.path.dirname(f"{source}/src/{name}"), exist_ok=True)
            fs.pipe_file(f"{source}/src/{name}", os.path.basename(name).encode())
        self.dst = self.target[1] + "/dst"
        self.target[0].mkdir(self.dst)
        for pattern, recursive, maxdepth, names in GLOB_EDGE_CASES:
            for slash in "", "/":
                with self.subTest(pattern=pattern, recursive=recursive, maxdepth=maxdepth, slash=slash):
                    self.copy(f"{source}/src/{pattern}", self.dst + slash, recursive=recursive, maxdepth=maxdepth)
                    self.expect(*names)


class Copy(Copies, OnFsspec):
    def setUp(self):
        super().setUp()
        self.source = self.target = (self.remote_fs, self.remote)
        self.copy = self.remote_fs.copy


class Get(Copies, OnFsspec):
    def setUp(self):
        super().setUp()
        self.source, self.target = (self.remote_fs, self.remote), (self.local_fs, self.local)
        self.copy = self.remote_fs.get


class Put(Copies, OnFsspec):
    def setUp(self):
        super().setUp()
        self.source, self.target = (self.local_fs, self.local), (self.remote_fs, self.remote)
        self.copy = self.remote_fs.put


class Embedded(OnFsspec):
    def path(self, name):
        return f"{self.remote}/{name}"

    # ---- open, pipe, mv
    def test_open_exclusive(self):
        with self.remote_fs.open(self.path("x"), "xb") as file:
            file.write(b"1")
        with self.assertRaises(FileExistsError):
            self.remote_fs.open(self.path("x"), "xb")

    def test_pipe_exclusive(self):
        self.remote_fs.pipe_file(self.path("x"), b"1")
        with self.assertRaises(FileExistsError):
            self.remote_fs.pipe_file(self.path("x"), b"2", mode="create")
        self.assertEqual(self.remote_fs.cat(self.path("x")), b"1")
        local = self.local + "/file"
        self.local_fs.pipe_file(local, b"3")
        with self.assertRaises(FileExistsError):
            self.remote_fs.put_file(local, self.path("x"), mode="create")

    def test_mv(self):
        fs = self.remote_fs
        fs.pipe({self.path("d/a"): b"a", self.path("d/b"): b"b"})
        fs.mv(self.path("d/a"), self.path("d/c"))
        fs.mkdir(self.path("e"))
        fs.mv(self.path("d/c"), self.path("e"))
        fs.mv(self.path("d"), self.path("new/d"), recursive=True)
        self.assertEqual(self.found(fs, self.remote), ["e/c", "new/d/b"])
        fs.mv(self.path("*/c"), self.path("f/"))
        self.assertEqual(self.found(fs, self.remote), ["f/c", "new/d/b"])
        with self.assertRaises(FileNotFoundError):
            fs.mv(self.path("missing"), self.path("x"))

    def test_open_reads_and_writes(self):
        data = os.urandom(3_000_000)
        with self.remote_fs.open(self.path("f"), "wb") as file:
            for begin in range(0, len(data), 70_000):
                file.write(data[begin:begin + 70_000])
            self.assertFalse(self.remote_fs.exists(self.path("f")), "it has its name when it is complete")
        with self.remote_fs.open(self.path("f")) as file:
            self.assertEqual((file.size, file.read(10), file.tell()), (len(data), data[:10], 10))
            file.seek(-5, 2)
            self.assertEqual(file.read(), data[-5:])
            file.seek(1_500_000)
            into = bytearray(1_200_000)
            self.assertEqual((file.readinto(into), into == data[1_500_000:2_700_000]), (1_200_000, True))
            self.assertEqual(file.read(10), data[2_700_000:2_700_010])
        with self.remote_fs.open(self.path("f"), "ab") as file:
            file.write(b"end")
        self.assertEqual(self.remote_fs.tail(self.path("f"), 4), data[-1:] + b"end")
        with self.remote_fs.open(self.path("text"), "w", encoding="latin-1") as file:
            file.write("ü\n")
        self.assertEqual(self.remote_fs.read_text(self.path("text"), encoding="latin-1"), "ü\n")
        with self.remote_fs.open(self.path("f"), "r+b") as file:
            file.write(b"new")
        self.assertEqual(self.remote_fs.head(self.path("f"), 4), b"new" + data[3:4])
        with self.assertRaises(FileNotFoundError):
            self.remote_fs.open(self.path("missing"))

    def test_a_failed_write_leaves_no_file(self):
        for data in b"small", bytes(3 << 20):
            with self.assertRaises(ZeroDivisionError), self.remote_fs.open(self.path("f"), "wb") as file:
                file.write(data)
                1 / 0
        with self.remote_fs.transaction:
            with self.remote_fs.open(self.path("in/t"), "wb") as file:
                file.write(b"1")
            self.assertFalse(self.remote_fs.exists(self.path("in/t")))
        self.assertEqual(self.found(self.remote_fs, self.remote), ["in/t"])

    def test_a_with_statement_that_fails_keeps_the_old_content(self):
        fs, name = self.remote_fs, self.path("f")
        compressed = self.path("f.gz")
        fs.pipe({name: b"old", compressed: b"old"})
        for size in 5, 3 << 20:
            for opened in (lambda: fs.open(name, "w"), lambda: fs.open(compressed, "wb", compression="infer"),
                           lambda: fs.open(compressed, "wt", compression="gzip"), lambda: fsspec.open(self.url(name), "wb"),
                           lambda: fsspec.open(self.url(name), "w"),
                           lambda: fsspec.open(self.url(compressed), "wt", compression="gzip")):
                with self.assertRaises(ZeroDivisionError), opened() as file:
                    file.write(("x" if isinstance(file, io.TextIOBase) else b"x") * size)
                    file.flush()
                    1 / 0
                self.assertEqual(fs.cat(self.path("*")), {name: b"old", compressed: b"old"})
        self.assertEqual(len(fs.files.listdir(self.remote)), 2)
        try:
            1 / 0
        except ZeroDivisionError:
            with fsspec.open(self.url(name), "w") as file:
                file.write("text")
            with fs.open(compressed, "wt", compression="gzip") as file:
                file.write("text")
        self.assertEqual((fs.cat(name), gzip.decompress(fs.cat(compressed))), (b"text", b"text"))

    def test_a_new_content_keeps_permissions_and_links(self):
        fs, files = self.remote_fs, self.remote_fs.files
        local = self.local + "/x"
        self.local_fs.pipe_file(local, b"put")
        fs.pipe_file(self.path("source"), b"cp")

        def write(path):
            with fs.open(path, "wb") as file:
                file.write(b"open")

        for content, call in ((b"pipe", lambda path: fs.pipe(path, b"pipe")), (b"open", write),
                              (b"put", lambda path: fs.put_file(local, path)),
                              (b"cp", lambda path: fs.cp_file(self.path("source"), path))):
            with self.subTest(content=content):
                fs.pipe({self.path("d/f"): b"old"})
                fs.chmod(self.path("d/f"), 0o640)
                files.symlink("d/f", self.path("link"))
                files.symlink("new", self.path("dangling"))
                for path in (self.path("d/f"), self.path("link"), self.path("dangling"), self.path("plain")):
                    call(path)
                    self.assertEqual(fs.cat(path), content)
                self.assertEqual([oct(files.stat(self.path(name)).st_mode & 0o777) for name in ("d/f", "new", "plain")],
                                 ["0o640", "0o644", "0o644"])
                self.assertEqual([fs.islink(self.path(name)) for name in ("link", "dangling")], [True, True])
                fs.rm([self.path(name) for name in ("d", "link", "dangling", "new", "plain")], recursive=True)
        files.symlink("loop", self.path("loop"))
        with self.assertRaises(OSError):
            fs.pipe(self.path("loop"), b"")

    def test_files_of_killed_writers_are_not_listed(self):
        fs = self.remote_fs
        fs.pipe({self.path("d/a"): b"", self.path("d/.0123456789abcdef.part"): b"", self.path("d/.b"): b""})
        fs.files.symlink(".", self.path("d/up"))
        paths = [self.path("d/.b"), self.path("d/a")]
        self.assertEqual((fs.find(self.path("d")), fs.glob(self.path("d/*[ab]"))), (paths, paths))
        self.assertEqual([(sorted(directories), sorted(files)) for _, directories, files in fs.walk(self.path("d"))],
                         [(["up"], [".b", "a"])])
        self.assertEqual(len(fs.ls(self.path("d"))), 4)

    def test_a_new_content_is_synced_before_it_gets_its_name(self):
        """In a container with durability=fsync a change is durable at the next fsync."""
        fs, name = self.remote_fs, self.path("a")
        local = self.local + "/x"
        self.local_fs.pipe_file(local, b"1")
        fs.pipe_file(self.path("source"), b"1")
        for write in (lambda: fs.open(name, "wb").close(), lambda: fs.put_file(local, name),
                      lambda: fs.cp_file(self.path("source"), name)):
            with calls_of((ros2store.File, "fsync"), (ros2store.FileSystem, "replace")) as calls:
                write()
            before, _, after = " ".join(calls).partition("replace")
            self.assertTrue("fsync" in before and "fsync" in after, calls)
        with calls_of((ros2store.File, "fsync")) as calls:
            fs.open(name, "ab").close()
        self.assertEqual(calls, ["fsync"])

    def test_a_close_that_fails_leaves_no_file(self):
        file = self.remote_fs.open(self.path("f"), "wb")
        file.write(b"1")
        self.remote_fs.files.mkdir(self.path("f"))  # the name cannot be given
        with self.assertRaises(IsADirectoryError):
            file.close()
        self.assertEqual((file.closed, self.remote_fs.ls(self.remote, detail=False)), (True, [self.path("f")]))

    # ---- names and content
    def test_ls_info_find_walk(self):
        fs = self.remote_fs
        fs.pipe({self.path("d/a"): b"12", self.path("d/e/b"): b"", self.path("c"): b"1"})
        fs.symlink(self.path("d/a"), self.path("link"))
        self.assertEqual(sorted(fs.ls(self.remote, detail=False)), [self.path(name) for name in ("c", "d", "link")])
        listed = {info["name"]: info for info in fs.ls(self.remote)}
        self.assertEqual([(listed[self.path(name)]["type"], listed[self.path(name)]["size"]) for name in ("c", "link")],
                         [("file", 1), ("file", 2)])
        self.assertEqual((listed[self.path("d")]["type"], listed[self.path("link")]["destination"]), ("directory", self.path("d/a")))
        self.assertEqual(fs.info(self.path("c")), listed[self.path("c")])
        self.assertEqual(fs.ls(self.path("c"), detail=False), [self.path("c")])
        self.assertEqual(self.found(fs, self.path("d")), ["a", "e/b"])
        self.assertEqual([top for top, _, _ in fs.walk(self.path("d"))], [self.path("d"), self.path("d/e")])
        self.assertEqual(fs.du(self.path("d")), 2)
        self.assertEqual((fs.exists(self.path("x")), fs.isdir(self.path("d")), fs.isfile(self.path("d"))),
                         (False, True, False))
        for call in (fs.info, fs.ls, fs.cat, fs.rm):
            with self.assertRaises(FileNotFoundError):
                call(self.path("missing"))
        with self.assertRaises(FileExistsError):
            fs.makedirs(self.path("d"))
        fs.makedirs(self.path("d"), exist_ok=True)
        with self.assertRaises(OSError):
            fs.rmdir(self.path("d"))
        fs.touch(self.path("c"))
        self.assertEqual(fs.size(self.path("c")), 0)
        age = datetime.datetime.now(datetime.timezone.utc) - fs.modified(self.path("c"))
        self.assertLess(abs(age.total_seconds()), 3600)
        fs.rm([self.path("c"), self.path("d/*")], recursive=True)
        self.assertEqual(sorted(fs.ls(self.remote, detail=False)), [self.path("d"), self.path("link")])
        self.assertTrue(fs.lexists(self.path("link")))

    def test_cat_and_ranges(self):
        fs = self.remote_fs
        fs.pipe({self.path(f"{i}"): bytes([i]) * 1000 for i in range(5)})
        self.assertEqual(fs.cat([self.path("1"), self.path("3")]),
                         {self.path("1"): b"\1" * 1000, self.path("3"): b"\3" * 1000})
        self.assertEqual(len(fs.cat(self.path("*"))), 5)
        self.assertEqual(fs.cat_file(self.path("2"), -10, -4), b"\2" * 6)
        self.assertEqual(fs.cat_file(self.path("2"), 990), b"\2" * 10)
        paths = [self.path(name) for name in ("1", "1", "2", "missing", "3")]
        got = fs.cat_ranges(paths, [0, 995, None, 0, -3], [5, 2000, None, 1, None])
        self.assertEqual([got[0], got[1], len(got[2]), got[4]], [b"\1" * 5, b"\1" * 5, 1000, b"\3" * 3])
        self.assertIsInstance(got[3], FileNotFoundError)
        self.assertEqual(fs.cat_ranges([self.path("1")] * 600, list(range(600)), list(range(2, 602))), [b"\1\1"] * 600)
        with self.assertRaises(FileNotFoundError):
            fs.cat_ranges(paths, 0, 1, on_error="raise")
        self.assertEqual(fs.cat_ranges([], [], []), [])
        self.assertEqual(set(fs.cat([self.path("1"), self.path("2")], on_error="omit")), {self.path("1"), self.path("2")})
        paths = [self.path("1"), self.path("missing")]
        self.assertEqual(set(fs.cat(paths, on_error="omit")), {paths[0]})
        self.assertIsInstance(fs.cat(paths, on_error="return")[paths[1]], FileNotFoundError)
        with self.assertRaises(FileNotFoundError):
            fs.cat(paths)
        self.assertEqual(fs.expand_path(paths), paths)
        mapper = fs.get_mapper(self.path("map"))
        mapper["a/b"] = b"1"
        self.assertEqual((list(mapper), mapper["a/b"], "x" in mapper), (["a/b"], b"1", False))
        self.assertEqual(mapper.getitems(["a/b", "x"], on_error="omit"), {"a/b": b"1"})

    def test_asynchronous(self):
        async def work():
            fs = fsspec.filesystem(self.scheme, uri=self.uri, asynchronous=True, skip_instance_cache=True)
            self.assertTrue(fs.async_impl)
            await fs._pipe_file(self.path("a"), b"0123456789" * 100)
            await fs._pipe({self.path("b/c"): b"1"})
            got = await asyncio.gather(*(fs._cat_file(self.path("a"), i, i + 3) for i in range(20)))
            self.assertEqual(got, [(b"0123456789" * 3)[i:i + 3] for i in range(20)])
            paths = [self.path("a")] * 3 + [self.path("missing")]
            got = await fs._cat_ranges(paths, [0, -2, 998, 0], [2, None, 2000, 1])
            self.assertEqual((got[:3], type(got[3])), ([b"01", b"89", b"89"], FileNotFoundError))
            with self.assertRaises(FileNotFoundError):
                await fs._cat_file(self.path("missing"))
            self.assertEqual((await fs._exists(self.path("b")), (await fs._info(self.path("a")))["size"],
                              await fs._find(self.path("b")), fs.cat_file(self.path("b/c"))),
                             (True, 1000, [self.path("b/c")], b"1"))
            self.assertEqual((await fs._cat(self.path("b/c")), await fs._cat([self.path("b/c"), self.path("x")], on_error="omit")),
                             (b"1", {self.path("b/c"): b"1"}))
            await fs._rm(self.path("b"), recursive=True)
            self.assertEqual(await fs._ls(self.remote, detail=False), [self.path("a")])
            fs.files.close()

        asyncio.run(work())

    def test_urls(self):
        name = self.path("a b%ü\udcff.txt")  # \udcff: a byte that is not UTF-8
        url = self.remote_fs.unstrip_protocol(name)
        self.assertIn("a%20b%25%C3%BC%FF.txt?dir=", url)
        with fsspec.open(url, "wb") as file:
            file.write(b"1")
        self.assertEqual(fsspec.open(url).open().read(), b"1")
        fs, path = fsspec.core.url_to_fs(url)
        self.assertEqual((path, fs.uri), (name, self.uri))
        plain = f"{self.scheme}:///pool/main{self.path('plain')}"
        with fsspec.open(plain, "w", dir=self.directory) as file:
            file.write("text")
        self.assertEqual(self.remote_fs.cat(plain), b"text")
        self.assertEqual(pickle.loads(pickle.dumps(fs)).ls(self.remote, detail=False), fs.ls(self.remote, detail=False))
        self.assertEqual(fsspec.AbstractFileSystem.from_json(fs.to_json()).uri, fs.uri)
        files = fsspec.open_files(self.url(self.path("*")))
        self.assertEqual(sorted(file.path for file in files), sorted([name, self.path("plain")]))
        uri = "ros2s:///pool/main?dir=/a%20b%FF&provider=ucx+tcp&timeout=5"
        self.assertEqual(fsspec.filesystem("ros2s", **fs._get_kwargs_from_urls(uri)).uri, uri)
        for wrong in ({}, {"uri": self.url("/a")}, {"uri": self.uri, "wrong": 1}):
            with self.assertRaises(ValueError):
                fsspec.filesystem(self.scheme, **wrong)
        for wrong, sentence in ((self.url(name) + "&wrong=1", "wrong"), (self.url(name) + "&durability=wrong", "durability")):
            wrong_fs, path = fsspec.core.url_to_fs(wrong)
            with self.assertRaisesRegex(OSError, sentence):
                wrong_fs.cat(path)
        fs, _ = fsspec.core.url_to_fs(plain, dir=self.directory, durability="durable")
        self.assertTrue(fs.uri.endswith("&durability=durable"))

    def test_a_protocol_without_plus(self):
        alias = self.scheme.replace("+", "")
        url = self.url(self.path("a")).replace(self.scheme, alias, 1)
        with fsspec.open(url, "wb") as file:
            file.write(b"1")
        fs, path = fsspec.core.url_to_fs(url)
        self.assertEqual((path, fs.uri, self.remote_fs.cat(self.path("a"))), (self.path("a"), self.uri, b"1"))
        self.assertEqual(fs.unstrip_protocol(path), self.url(self.path("a")))
        self.assertIs(type(fsspec.filesystem(alias, uri=self.uri)), type(fs))

    def test_a_put_is_atomic_and_counted(self):
        self.remote_fs.pipe_file(self.path("f"), bytes(100_000))
        with open(self.local + "/x", "wb") as file:
            self.remote_fs.get_file(self.path("f"), file)
        self.assertEqual(os.path.getsize(self.local + "/x"), 100_000)
        seen = []

        class Callback(fsspec.callbacks.Callback):
            def relative_update(callback, count=1):
                super().relative_update(count)
                seen.append(self.remote_fs.exists(self.path("g")))

        callback = Callback()
        self.remote_fs.put_file(self.local + "/x", self.path("g"), callback=callback)
        self.assertEqual((callback.size, callback.value, seen), (100_000, 100_000, [False]))

    # ---- libraries
    def library(self, name):
        try:
            return importlib.import_module(name)
        except ImportError:
            self.skipTest(f"{name} is not installed")

    def test_pandas_reads_and_writes_csv_by_a_url(self):
        pandas = self.library("pandas")
        frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "ü"]})
        frame.to_csv(self.url(self.path("a.csv")), index=False)
        pandas.testing.assert_frame_equal(pandas.read_csv(self.url(self.path("a.csv"))), frame)
        plain = f"{self.scheme}:///pool/main{self.path('a.csv.gz')}"
        frame.to_csv(plain, index=False, storage_options={"dir": self.directory})
        pandas.testing.assert_frame_equal(pandas.read_csv(plain, storage_options={"dir": self.directory}), frame)

    def test_numpy_and_torch(self):
        numpy = self.library("numpy")
        with self.remote_fs.open(self.path("a.npy"), "wb") as file:
            numpy.save(file, numpy.arange(1000))
        with self.remote_fs.open(self.path("a.npy")) as file:
            self.assertEqual(numpy.load(file).sum(), 499_500)
        torch = self.library("torch")
        with fsspec.open(self.url(self.path("a.pt")), "wb") as file:
            torch.save({"w": torch.arange(1000)}, file)
        with fsspec.open(self.url(self.path("a.pt"))) as file:
            self.assertEqual(int(torch.load(file)["w"].sum()), 499_500)
        with self.remote_fs.open(self.path("tensor"), "wb") as file:
            self.assertEqual(file.write(torch.arange(4)), 32)
        into = torch.zeros(4, dtype=torch.int64)
        with self.remote_fs.open(self.path("tensor")) as file:
            self.assertEqual((file.readinto(into), into.tolist()), (32, [0, 1, 2, 3]))

    def test_zarr(self):
        zarr = self.library("zarr")
        numpy = self.library("numpy")
        array = zarr.open(self.url(self.path("a.zarr")), mode="w", shape=(100, 100), chunks=(10, 100), dtype="i4")
        array[:] = numpy.arange(10_000).reshape(100, 100)
        again = zarr.open(self.url(self.path("a.zarr")), mode="r")
        self.assertEqual(int(again[:].sum()), 49_995_000)
        for store in fsspec.get_mapper(self.url(self.path("b.zarr"))), zarr.storage.FSStore(self.url(self.path("c.zarr"))):
            array = zarr.open(store, mode="w", shape=(100,), chunks=(10,), dtype="i4", fill_value=7)
            array[:10] = 1
            self.assertEqual(int(zarr.open(store, mode="r")[:].sum()), 10 + 7 * 90, "with chunks that were never written")


class Offload(Embedded):
    scheme = "ros2s+dpu"


class PutBehindADpu(Put):
    scheme = "ros2s+dpu"


if __name__ == "__main__":
    unittest.main()

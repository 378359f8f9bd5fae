"""Tests the file systems of fsspec: files, names, contents and URLs, and libraries that use it."""
import asyncio
import datetime
import errno
import gc
import gzip
import io
import os
import pickle
import stat
import unittest
from unittest import mock

import ros2store
from on_fsspec import OnFsspec, fsspec
from on_pool import calls_of, half_of, module


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

    def test_put_exclusive(self):
        fs, name, local = self.remote_fs, self.path("new"), self.local + "/file"
        self.local_fs.pipe_file(local, b"put")

        class Callback(fsspec.callbacks.Callback):
            def relative_update(callback, count=1):
                fs.pipe_file(name, b"other")

        with self.assertRaises(FileExistsError):
            fs.put_file(local, name, mode="create", callback=Callback())
        self.assertEqual(fs.cat(name), b"other")
        fs.rm(name)
        fs.files.symlink("target", name)
        with self.assertRaises(FileExistsError):
            fs.put_file(local, name, mode="create")
        self.assertEqual(fs.files.listdir(self.remote), ["new"])
        fs.put_file(local, self.path("target"), mode="create")
        self.assertEqual((fs.cat(name), sorted(fs.files.listdir(self.remote))), (b"put", ["new", "target"]))

    def test_rm_of_directories_whose_names_begin_alike(self):
        fs = self.remote_fs
        for paths in [self.path("*"), self.path("run/")], self.path("**"), [self.path("run"), self.path("run-1"), self.path("run/a")]:
            with self.subTest(paths=paths):
                fs.pipe({self.path(name): b"" for name in ("run/a", "run/d/b", "run-1/b")})
                fs.rm(paths, recursive=True)
                self.assertEqual(fs.ls(self.remote), [])

    def test_rm_of_some_levels(self):
        fs = self.remote_fs
        fs.pipe({self.path(name): b"" for name in ("d/a", "d/e/b", "d/e/f/c")})
        fs.mkdir(self.path("d/empty"))
        fs.rm(self.path("d"), recursive=True, maxdepth=1)
        self.assertEqual(self.found(fs, self.remote), ["d/e/b", "d/e/f/c"])
        self.assertEqual(fs.ls(self.path("d"), detail=False), [self.path("d/e")])
        fs.rm([self.path("d"), self.path("d/e/f")], recursive=True, maxdepth=2)
        self.assertEqual(fs.ls(self.remote), [])

    def test_a_walk_skips_directories_that_the_caller_removes(self):
        fs = self.remote_fs
        fs.pipe({self.path(name): b"" for name in ("d/a", "e/b", "e/f/c")})
        for detail in False, True:
            seen = []
            for path, directories, _ in fs.walk(self.remote, detail=detail):
                seen.append(path)
                if path == self.remote:
                    directories.pop("d") if detail else directories.remove("d")
            self.assertEqual(seen, [self.remote, self.path("e"), self.path("e/f")])

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

    def test_each_cache_of_fsspec_reads_the_same(self):
        data = os.urandom(5000)
        self.remote_fs.pipe_file(self.path("f"), data)
        for kind in "readahead", "bytes", "none", "all", "mmap", "first":
            with self.subTest(kind=kind), self.remote_fs.open(self.path("f"), block_size=64, cache_type=kind) as file:
                for begin, size in ((4000, 700), (0, 10), (4600, 500), (63, 1), (10, 4900), (4999, 9), (0, 5000)):
                    file.seek(begin)
                    self.assertEqual(file.read(size), data[begin:begin + size])

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
                fs.pipe_file(self.path("private"), b"old")
                fs.chmod(self.path("private"), 0)
                call(self.path("private"))
                self.assertEqual(stat.S_IMODE(files.stat(self.path("private")).st_mode), 0)
                fs.rm(self.path("private"))
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

    def test_an_open_that_fails_keeps_the_old_content(self):
        self.remote_fs.pipe_file(self.path("f"), b"old")
        for wrong in {"encoding": "none"}, {"compression": "none"}, {"errors": 5}:
            with self.subTest(wrong=wrong), self.assertRaises((LookupError, ValueError, TypeError)):
                self.remote_fs.open(self.path("f"), "w", **wrong)
            gc.collect()
            self.assertEqual(self.remote_fs.cat(self.path("f")), b"old")

    def test_a_forked_child_that_drops_a_file_publishes_nothing(self):
        fs = self.remote_fs
        for mode in "wb", "w", "ab":
            name = self.path(mode)
            file = fs.open(name, mode)
            file.write("parent " if mode == "w" else b"parent ")
            child = os.fork()
            if child == 0:
                del file
                gc.collect()
                os._exit(0)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            self.assertFalse(fs.exists(name))
            file.write("goes on" if mode == "w" else b"goes on")
            file.close()
            self.assertEqual(fs.cat(name), b"parent goes on")
            file = fs.open(name, mode)
            del file
            gc.collect()
        self.assertEqual([fs.cat(self.path(mode)) for mode in ("wb", "w", "ab")], [b"", b"", b"parent goes on"])

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

    def test_ls_below_a_file_is_an_error(self):
        self.remote_fs.pipe_file(self.path("f"), b"")
        for detail in False, True:
            self.assertEqual(len(self.remote_fs.ls(self.path("f"), detail=detail)), 1)
            with self.assertRaises(NotADirectoryError):
                self.remote_fs.ls(self.path("f/below"), detail=detail)

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
            self.assertEqual([each async for each in fs._walk(self.remote)],
                             [(self.remote, ["b"], ["a"]), (self.path("b"), [], ["c"])])
            self.assertEqual(await fs._sizes([self.path("a"), self.path("b/c")]), [1000, 1])
            await fs._rm(self.path("b"), recursive=True)
            self.assertEqual(await fs._ls(self.remote, detail=False), [self.path("a")])
            fs.files.close()

        asyncio.run(work())

    def test_a_cancelled_read_is_cancelled_and_closes_its_file(self):
        async def work():
            fs = type(self.remote_fs)(uri=self.uri, asynchronous=True, skip_instance_cache=True)
            reading = asyncio.ensure_future(fs._cat_file(self.path("f")))
            await asyncio.sleep(0)
            reading.cancel()
            with mock.patch.object(ros2store.File, "close", autospec=True, side_effect=ros2store.File.close) as closing:
                with self.assertRaises(asyncio.CancelledError):
                    await reading
            self.assertTrue(closing.call_args.args[0].closed)
            fs.files.close()

        self.remote_fs.pipe_file(self.path("f"), bytes(1 << 20))
        asyncio.run(work())

    def test_a_get_writes_all_where_a_write_takes_less(self):
        class Short(io.FileIO):
            def write(self, data):
                return super().write(data[:1000])

        def opened(path, mode, buffering=-1):
            return Short(path, mode) if buffering == 0 else io.BufferedWriter(Short(path, mode))

        self.remote_fs.pipe_file(self.path("f"), bytes(100_000))
        with mock.patch("ros2store.fsspec.open", opened, create=True):
            self.remote_fs.get_file(self.path("f"), self.local + "/f")
        self.assertEqual(os.path.getsize(self.local + "/f"), 100_000)

    def test_a_directory_that_cannot_be_read_is_an_error(self):
        fs = self.remote_fs
        fs.pipe({self.path("d/a"): b"", self.path("d/e/b"): b""})
        scandir, seen = fs.files.scandir, []

        def failing(path):
            if path.endswith("/e"):
                raise OSError(errno.EIO, "damaged")
            return scandir(path)

        with mock.patch.object(fs.files, "scandir", failing):
            self.assertEqual(fs.find(self.path("d")), [self.path("d/a")])
            self.assertEqual(len(list(fs.walk(self.path("d"), on_error=seen.append))), 1)
            self.assertEqual([error.errno for error in seen], [errno.EIO])
            for call in (lambda: list(fs.walk(self.path("d"), on_error="raise")),
                         lambda: fs.get(self.path("d"), self.local + "/got", recursive=True),
                         lambda: fs.copy(self.path("d"), self.path("copy"), recursive=True),
                         lambda: fs.get(self.path("d/**"), self.local + "/got")):
                with self.assertRaisesRegex(OSError, "damaged"):
                    call()

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
    def test_pandas_reads_and_writes_csv_by_a_url(self):
        pandas = module("pandas")
        frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "ü"]})
        frame.to_csv(self.url(self.path("a.csv")), index=False)
        pandas.testing.assert_frame_equal(pandas.read_csv(self.url(self.path("a.csv"))), frame)
        plain = f"{self.scheme}:///pool/main{self.path('a.csv.gz')}"
        frame.to_csv(plain, index=False, storage_options={"dir": self.directory})
        pandas.testing.assert_frame_equal(pandas.read_csv(plain, storage_options={"dir": self.directory}), frame)

    def test_numpy_and_torch(self):
        numpy = module("numpy")
        with self.remote_fs.open(self.path("a.npy"), "wb") as file:
            numpy.save(file, numpy.arange(1000))
        with self.remote_fs.open(self.path("a.npy")) as file:
            self.assertEqual(numpy.load(file).sum(), 499_500)
        torch = module("torch")
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
        zarr = module("zarr")
        numpy = module("numpy")
        array = zarr.open(self.url(self.path("a.zarr")), mode="w", shape=(100, 100), chunks=(10, 100), dtype="i4")
        array[:] = numpy.arange(10_000).reshape(100, 100)
        again = zarr.open(self.url(self.path("a.zarr")), mode="r")
        self.assertEqual(int(again[:].sum()), 49_995_000)
        for store in fsspec.get_mapper(self.url(self.path("b.zarr"))), zarr.storage.FSStore(self.url(self.path("c.zarr"))):
            array = zarr.open(store, mode="w", shape=(100,), chunks=(10,), dtype="i4", fill_value=7)
            array[:10] = 1
            self.assertEqual(int(zarr.open(store, mode="r")[:].sum()), 10 + 7 * 90, "with chunks that were never written")


class Direct(half_of(Embedded, 0)):
    scheme = "ros2s"


class Offload(half_of(Embedded, 1)):
    scheme = "ros2s+dpu"


if __name__ == "__main__":
    unittest.main()

"""Tests the names of a container: directories, links, attributes, paths, and what is known about the package."""
import ast
import errno
import importlib.metadata
import inspect
import os
import pathlib
import pickle
import shutil
import stat
import subprocess
import sys
import unittest

import ros2store
import ros2store.path
from on_pool import OnPool


class Embedded(OnPool):
    def tree(self, *names):
        for name in names:
            if "/" in name:
                self.fs.makedirs(os.path.dirname(name), exist_ok=True)
            self.write(name, name.encode())

    def test_makedirs(self):
        self.fs.makedirs("m/a/b")
        self.fs.makedirs(pathlib.PurePath("m/a/b"), exist_ok=True)
        self.fs.makedirs(b"/m/c/d/", 0o700)
        self.assertEqual(stat.S_IMODE(self.fs.stat("m/c/d").st_mode), 0o700)
        with self.assertRaises(FileExistsError):
            self.fs.makedirs("m/a/b")
        self.tree("m/file")
        with self.assertRaises(FileExistsError):
            self.fs.makedirs("m/file", exist_ok=True)
        with self.assertRaises(NotADirectoryError):
            self.fs.makedirs("m/file/below")

    def test_walk(self):
        self.tree("w/1", "w/a/2", "w/a/b/3", "w/c/4")
        self.fs.symlink("a", "w/link")
        found = {top: (sorted(directories), sorted(files)) for top, directories, files in self.fs.walk("w")}
        self.assertEqual(found, {"w": (["a", "c", "link"], ["1"]), "w/a": (["b"], ["2"]), "w/a/b": ([], ["3"]),
                                 "w/c": ([], ["4"])})
        self.assertIn("w/link/b", [top for top, _, _ in self.fs.walk("w", followlinks=True)])
        tops = [top for top, _, _ in self.fs.walk("w", topdown=False)]
        self.assertLess(tops.index("w/a/b"), tops.index("w/a"))
        self.assertEqual(tops[-1], "w")
        tops = []
        for top, directories, _ in self.fs.walk(pathlib.PurePath("w")):
            directories.clear()
            tops.append(os.fspath(top))
        self.assertEqual(tops, ["w"])
        self.assertEqual(list(self.fs.walk("missing")), [])
        errors = []
        list(self.fs.walk("missing", onerror=errors.append))
        self.assertIsInstance(errors[0], FileNotFoundError)

    def test_glob(self):
        self.tree("g/a.txt", "g/b.txt", "g/.hidden.txt", "g/d/c.txt", "g/d/e/f.bin", "g/[x]")
        for pattern, found in (("g/*.txt", ["g/a.txt", "g/b.txt"]), ("g/.*", ["g/.hidden.txt"]), ("g/a.txt", ["g/a.txt"]),
                               ("g/**/*.txt", ["g/a.txt", "g/b.txt", "g/d/c.txt"]), ("*/[ab].txt", ["g/a.txt", "g/b.txt"]),
                               ("g/d/**", ["g/d", "g/d/c.txt", "g/d/e", "g/d/e/f.bin"]), ("g/*/", ["g/d/"]),
                               ("/g/?.txt", ["/g/a.txt", "/g/b.txt"]), ("g/[[]x]", ["g/[x]"]), ("missing/*", []),
                               ("g/missing", []), ("g/a.txt/*", []), (b"g/a*", ["g/a.txt"])):
            with self.subTest(pattern=pattern):
                self.assertEqual(self.fs.glob(pattern), found)
        self.assertEqual(self.fs.glob("**/*.txt", "g/d"), ["c.txt"])
        self.assertEqual(self.fs.glob("d/*", "g"), ["d/c.txt", "d/e"])

    def test_links(self):
        self.fs.mkdir("l")
        self.write("l/file", b"1234")
        self.fs.link("l/file", "l/second")
        self.assertEqual((self.fs.stat("l/second").st_nlink, self.fs.stat("l/second").st_ino),
                         (2, self.fs.stat("l/file").st_ino))
        self.fs.symlink("file", "l/soft")
        self.fs.symlink("nothing", "l/dangling")
        self.assertEqual(self.fs.readlink("l/soft"), "file")
        self.assertEqual((self.fs.islink("l/soft"), self.fs.isfile("l/soft"), self.fs.islink("l/file")),
                         (True, True, False))
        self.assertTrue(stat.S_ISLNK(self.fs.lstat("l/dangling").st_mode))
        self.assertEqual((self.fs.exists("l/dangling"), self.fs.isdir("l"), self.fs.isdir("l/file")),
                         (False, True, False))
        with self.assertRaises(FileExistsError):
            self.fs.symlink("x", "l/soft")
        with self.assertRaises(PermissionError):
            self.fs.link("l", "l/directory")
        with self.assertRaises(OSError) as caught:
            self.fs.readlink("l/file")
        self.assertEqual(caught.exception.errno, errno.EINVAL)
        self.fs.symlink(b"\xff", "l/bytes")
        self.assertEqual(os.fsencode(self.fs.readlink("l/bytes")), b"\xff")
        self.fs.rmtree("l")
        self.assertFalse(self.fs.exists("l"))

    def test_rmtree_leaves_what_links_lead_to(self):
        self.tree("outside/file", "inside/a/b/c")
        self.fs.symlink("/outside", "inside/link")
        with self.assertRaisesRegex(NotADirectoryError, "'inside/link': it is a symbolic link"):
            self.fs.rmtree("inside/link")
        self.fs.rmtree("inside")
        self.assertEqual((self.fs.exists("inside"), self.fs.exists("outside/file")), (False, True))
        with self.assertRaises(NotADirectoryError):
            self.fs.rmtree("outside/file")

    def test_attributes(self):
        self.write("attr", b"1234")
        self.fs.chmod("attr", 0o640)
        self.fs.utime("attr", (1_000_000_001, -1))
        self.fs.truncate("attr", 10)
        self.fs.chown("attr", -1, -1)
        found = self.fs.stat("attr")
        self.assertEqual((stat.S_IMODE(found.st_mode), found.st_size, found.st_atime_ns), (0o640, 10, 1_000_000_001))
        self.fs.utime("attr", ns=(5, -1))
        self.assertEqual(self.fs.stat("attr").st_mtime_ns, -1)
        self.fs.utime("attr")
        self.assertGreater(self.fs.stat("attr").st_mtime, 1e9)
        space = self.fs.statvfs()
        self.assertTrue(64 << 20 < space.f_frsize * space.f_blocks <= 128 << 20)
        self.assertLess(space.f_bfree, space.f_blocks)

    def test_extended_attributes(self):
        self.write("x", b"")
        self.fs.setxattr("x", "user.a", b"1")
        self.fs.setxattr("x", "user.large", bytearray(10_000))
        self.fs.setxattr("x", "user.empty", b"")
        self.assertEqual((self.fs.getxattr("x", "user.a"), self.fs.getxattr("x", b"user.large"),
                          self.fs.getxattr("x", "user.empty")), (b"1", bytes(10_000), b""))
        self.assertEqual(sorted(self.fs.listxattr("x")), ["user.a", "user.empty", "user.large"])
        with self.assertRaises(FileExistsError):
            self.fs.setxattr("x", "user.a", b"2", os.XATTR_CREATE)
        self.fs.removexattr("x", "user.a")
        for call in (lambda: self.fs.getxattr("x", "user.a"), lambda: self.fs.removexattr("x", "user.a"),
                     lambda: self.fs.setxattr("x", "user.a", b"2", os.XATTR_REPLACE)):
            with self.assertRaises(OSError) as caught:
                call()
            self.assertEqual(caught.exception.errno, errno.ENODATA)
        with self.assertRaises(TypeError):
            self.fs.setxattr("x", "user.a", "text")

    def test_copy_and_replace(self):
        data = os.urandom(9 << 20)
        self.write("from", data)
        self.fs.chmod("from", 0o600)
        self.write("to", b"old")
        self.assertEqual(self.fs.copy("from", "to"), len(data))
        self.assertEqual(self.read("to"), data)
        self.assertEqual(stat.S_IMODE(self.fs.stat("to").st_mode), 0o600)
        with self.assertRaisesRegex(OSError, "is the same file"):
            self.fs.copy("from", "from")
        self.assertEqual(self.fs.stat("from").st_size, len(data))
        with self.assertRaises(FileNotFoundError):
            self.fs.copy("missing", "to")
        self.fs.replace("to", "from")
        self.assertFalse(self.fs.exists("to"))
        self.fs.remove("from")

    def test_paths(self):
        root = self.fs.path("p")
        (root / "a" / "b").mkdir(parents=True)
        path = root / "a" / "file.tar.gz"
        self.assertEqual((path.name, path.stem, path.suffix, path.suffixes, path.parts),
                         ("file.tar.gz", "file.tar", ".gz", [".tar", ".gz"], ("p", "a", "file.tar.gz")))
        self.assertEqual((path.parent, path.with_name("x"), path.with_suffix(".z").name),
                         (root / "a", root.joinpath("a", "x"), "file.tar.z"))
        self.assertEqual(str(path.relative_to("p")), "a/file.tar.gz")
        self.assertEqual((path.is_relative_to("p"), path.is_relative_to("q")), (True, False))
        self.assertEqual((path.write_text("text\n"), path.read_text(), path.read_bytes()), (5, "text\n", b"text\n"))
        self.assertEqual((path.write_bytes(b"12"), path.stat().st_size), (2, 2))
        self.assertEqual((path.exists(), path.is_file(), path.is_dir(), path.is_symlink()), (True, True, False, False))
        self.assertEqual(sorted(root.joinpath("a").iterdir()), [root / "a/b", path])
        self.assertEqual(list(root.glob("*/*.gz")), [path])
        self.assertEqual(list(root.walk()), [(root, ["a"], []), (root / "a", ["b"], ["file.tar.gz"]), (root / "a/b", [], [])])
        self.assertEqual(sorted(root.rglob("*")), [root / "a", root / "a/b", path])
        self.assertEqual(path.rename("p/moved"), root / "moved")
        (root / "link").symlink_to("moved")
        (root / "hard").hardlink_to(root / "moved")
        self.assertEqual((str((root / "link").readlink()), (root / "hard").stat().st_nlink), ("moved", 2))
        self.assertEqual([root.joinpath("moved").samefile(root / each) for each in ("link", "hard", "a")], [True, True, False])
        (root / "new").touch()
        (root / "new").touch()
        with self.assertRaises(FileExistsError):
            (root / "new").touch(exist_ok=False)
        (root / "dangling").symlink_to("target")
        (root / "dangling").touch()
        self.assertTrue((root / "target").is_file())
        for each in "dangling", "target":
            (root / each).unlink()
        with (root / "new").open("w") as file:
            file.write("x")
        (root / "new").chmod(0o400)
        self.assertEqual(stat.S_IMODE((root / "new").lstat().st_mode), 0o400)
        with self.assertRaises(FileExistsError):
            root.mkdir()
        root.mkdir(exist_ok=True)
        (root / "missing").unlink(missing_ok=True)
        with self.assertRaises(FileNotFoundError):
            (root / "missing").unlink()
        self.assertEqual(len({root, self.fs.path("p"), self.fs.path("q")}), 2)
        self.assertIn("p/a", repr(root / "a"))
        self.assertIn(self.uri, repr(root))
        self.assertEqual(self.fs.listdir(root / "a"), ["b"])
        self.fs.rmtree(root)
        self.assertIn("p", [each.name for each in [root, *self.fs.path().iterdir()]])

    def test_a_path_is_none_of_this_machine(self):
        path = self.fs.path("only-in-the-container")
        for call in (open, os.fspath, os.stat, pathlib.Path, lambda each: shutil.copy(__file__, each)):
            with self.assertRaisesRegex(TypeError, "'only-in-the-container' is a path in ros2s.*use a file from its open"):
                call(path)
        self.fs.makedirs(path)
        self.fs.rename(path, self.fs.path("p2"))
        self.fs.path("p2", "a").touch()
        self.fs.copy(self.fs.path("p2", "a"), path)
        self.assertEqual((self.fs.glob(self.fs.path("p2", "*")), self.fs.stat_many([path])[0].st_size), (["p2/a"], 0))
        self.assertEqual([files for _, _, files in self.fs.walk(self.fs.path("p2"))], [["a"]])
        self.fs.rmtree(self.fs.path("p2"))

    def test_paths_that_lead_nowhere(self):
        self.tree("nowhere/file")
        self.fs.symlink("loop", "nowhere/loop")
        for path in "nowhere/loop", "nowhere/loop/x", "x" * 300, "nowhere/file/x":
            with self.subTest(path=path):
                self.assertEqual((self.fs.exists(path), self.fs.isfile(path), self.fs.isdir(path)), (False, False, False))
                self.assertEqual((self.fs.path(path).exists(), self.fs.path(path).is_dir()), (False, False))
        self.assertTrue(self.fs.islink("nowhere/loop"))
        self.assertEqual(sorted(path.name for path in self.fs.path("nowhere").rglob("*")), ["file", "loop"])
        self.assertEqual((self.fs.glob("nowhere/*/*"), self.fs.glob("nowhere/l*")), ([], ["nowhere/loop"]))
        self.fs.rmtree("nowhere")

    def test_a_file_system_pickles_as_its_uri(self):
        copy = pickle.loads(pickle.dumps(self.fs))
        self.write("pickled", b"1")
        self.assertEqual((copy.uri, copy.stat("pickled").st_size), (self.uri, 1))
        path = pickle.loads(pickle.dumps(self.fs.path("pickled")))
        self.assertEqual((path, path.read_bytes()), (self.fs.path("pickled"), b"1"))
        path.fs.close()
        copy.close()
        self.assertTrue(copy.closed)
        with self.assertRaisesRegex(OSError, "the file system is closed") as caught:
            copy.listdir()
        self.assertEqual(caught.exception.errno, errno.EBADF)
        self.assertEqual(repr(copy), f"<ros2store.FileSystem {self.uri!r} closed>")
        with self.fs.open("pickled") as file:
            self.assertEqual(repr(file), f"<ros2store.TextFile 'pickled' mode='r' in {self.uri!r}>")
            with self.assertRaises(TypeError):
                pickle.dumps(file)


class Direct(Embedded):
    scheme = "ros2s"


class Offload(Embedded):
    scheme = "ros2s+dpu"


class Package(unittest.TestCase):
    def test_the_version_is_that_of_the_metadata(self):
        self.assertEqual(importlib.metadata.version("ros2store"), ros2store.__version__)

    def test_the_stubs_have_all_methods_and_these_have_docstrings(self):
        folder = pathlib.Path(ros2store.__file__).parent
        self.assertTrue((folder / "py.typed").exists())
        kinds = [ros2store.FileSystem, ros2store.File, ros2store.BufferedFile, ros2store.TextFile, ros2store.path.Path]
        try:
            from ros2store import checkpoint, torch
            kinds += [checkpoint.Checkpoints, checkpoint.StorageReader, checkpoint.StorageWriter, torch.Files, torch.Loader,
                      torch.Stream, torch.Tars]
        except ImportError:
            print("torch is not installed (python3-torch): the classes for it are not looked at")
        for kind in kinds:
            module = kind.__module__.removeprefix("ros2store.")
            stub_file = module + ".pyi" if (folder / (module + ".pyi")).exists() else "__init__.pyi"
            stubs = {node.name: node for each in folder.glob("*.pyi")
                     for node in ast.parse(each.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)}
            own = {method.name for base in (kind.__name__, "_Methods", "Directory")
                   for method in stubs[base].body if hasattr(method, "name")}
            for base in kind.__mro__:
                if not base.__module__.startswith("ros2store"):
                    continue
                for name, member in vars(base).items():
                    if name.startswith("_") or not (callable(member) or isinstance(member, property)):
                        continue
                    with self.subTest(kind=kind.__name__, name=name):
                        self.assertIn(name, own, f"it is missing in {stub_file}")
                        self.assertTrue(inspect.getdoc(getattr(kind, name)), "it has no docstring")

    def test_no_module_is_loaded_before_it_is_needed(self):
        code = ("import sys; before = set(sys.modules); import ros2store; "
                "print(*{'asyncio', 'fsspec', 'pathlib', 'torch', 'typing'} & (set(sys.modules) - before))")
        done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
        self.assertEqual((done.stdout.strip(), done.stderr), ("", ""))


if __name__ == "__main__":
    unittest.main()

"""Tests copies by fsspec. The cases have the names that they have in fsspec's own abstract tests."""
import os
import unittest

from on_fsspec import OnFsspec

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
            for into in "", "/", "/newdir", "/newdir/":
                with self.subTest(pattern=pattern, recursive=recursive, maxdepth=maxdepth, into=into):
                    self.copy(f"{source}/src/{pattern}", self.dst + into, recursive=recursive, maxdepth=maxdepth)
                    self.expect(*(f"{into.strip('/')}/{name}".lstrip("/") for name in names))


class Copy(Copies, OnFsspec):
    def setUp(self):
        super().setUp()
        self.source = self.target = (self.remote_fs, self.remote)
        self.copy = self.remote_fs.copy


class Get(Copies, OnFsspec):
    scheme = "ros2s"

    def setUp(self):
        super().setUp()
        self.source, self.target = (self.remote_fs, self.remote), (self.local_fs, self.local)
        self.copy = self.remote_fs.get


class Put(Copies, OnFsspec):
    scheme = "ros2s+dpu"

    def setUp(self):
        super().setUp()
        self.source, self.target = (self.local_fs, self.local), (self.remote_fs, self.remote)
        self.copy = self.remote_fs.put


if __name__ == "__main__":
    unittest.main()

"""Path: a path of a FileSystem, used as a pathlib.Path."""
import fnmatch
import os
from pathlib import PurePosixPath


class Path:
    """A path of a FileSystem. Its methods and properties are those of pathlib.Path, and their errors are those of the
    FileSystem. `/` joins. Paths of the same URI compare and hash by their names. str() gives the name in the container.
    It is no path of this machine: functions that would open it there raise TypeError."""
    __slots__ = ("fs", "_pure")

    def __init__(self, fs, *parts):
        self.fs = fs
        self._pure = PurePosixPath(*(part._pure if isinstance(part, Path) else os.fsdecode(part) for part in parts))

    @property
    def _name_in_container(self):
        return "" if str(self._pure) == "." else str(self._pure)

    def _with(self, pure):
        return type(self)(self.fs, pure)

    def __fspath__(self):
        raise TypeError(f"'{self}' is a path in {self.fs.uri}, and not of this machine: use a file from its open()")

    def __str__(self):
        return str(self._pure)

    def __repr__(self):
        return f"<ros2store.Path {str(self)!r} in {self.fs.uri!r}>"

    def __reduce__(self):
        return type(self), (self.fs, str(self._pure))

    def __truediv__(self, other):
        return self.joinpath(other)

    def _key(self):
        return self.fs.uri, self._pure

    def __eq__(self, other):
        return self._key() == other._key() if isinstance(other, Path) else NotImplemented

    def __lt__(self, other):
        return self._key() < other._key() if isinstance(other, Path) else NotImplemented

    def __hash__(self):
        return hash(self._key())

    # ---- names
    name = property(lambda self: self._pure.name, doc="The last name.")
    stem = property(lambda self: self._pure.stem, doc="The last name without its suffix.")
    suffix = property(lambda self: self._pure.suffix, doc="The last name's suffix with its dot, or ''.")
    suffixes = property(lambda self: self._pure.suffixes, doc="All suffixes of the last name.")
    parts = property(lambda self: self._pure.parts, doc="The names of the path.")
    parent = property(lambda self: self._with(self._pure.parent), doc="The path without its last name.")
    parents = property(lambda self: [self._with(each) for each in self._pure.parents], doc="The paths above this one.")

    def is_absolute(self):
        """Whether the path starts at the container's root."""
        return self._pure.is_absolute()

    def as_posix(self):
        """The path as text."""
        return str(self)

    def joinpath(self, *parts):
        """The path of these names below this one."""
        return type(self)(self.fs, self, *parts)

    def with_name(self, name):
        """The path with another last name."""
        return self._with(self._pure.with_name(name))

    def with_stem(self, stem):
        """The path with another stem."""
        return self._with(self._pure.with_stem(stem))

    def with_suffix(self, suffix):
        """The path with another suffix."""
        return self._with(self._pure.with_suffix(suffix))

    def relative_to(self, *other):
        """The path from `other` on, as a pathlib.PurePosixPath. ValueError if it is not below."""
        return self._pure.relative_to(*other)

    def is_relative_to(self, *other):
        """Whether the path is `other` or below it."""
        return self._pure.is_relative_to(*other)

    def match(self, pattern):
        """Whether the path matches a pattern, as PurePath.match()."""
        return self._pure.match(pattern)

    # ---- files
    def open(self, mode="r", buffering=-1, encoding=None, errors=None, newline=None):
        """As FileSystem.open()."""
        return self.fs.open(self, mode, buffering, encoding, errors, newline)

    def read_bytes(self):
        """The content of the file."""
        with self.open("rb", 0) as file:
            return file.readall()

    def read_text(self, encoding=None, errors=None):
        """The content of the file as text."""
        with self.open("r", encoding=encoding, errors=errors) as file:
            return file.read()

    def write_bytes(self, data):
        """Makes or overwrites the file; returns the number of bytes, which are durable."""
        with self.open("wb", 0) as file:
            return file.write(data)

    def write_text(self, data, encoding=None, errors=None, newline=None):
        """Makes or overwrites the file; returns the number of characters."""
        with self.open("w", encoding=encoding, errors=errors, newline=newline) as file:
            return file.write(data)

    def touch(self, mode=0o644, exist_ok=True):
        """Makes an empty file. If it exists, sets its times to now, or without `exist_ok` raises FileExistsError."""
        try:
            self.fs.open(self, "xb", 0, permissions=mode).close()
        except FileExistsError:
            if not exist_ok:
                raise
            try:
                self.fs.utime(self)
            except FileNotFoundError:  # a link to nothing
                self.fs.open(self, "ab", 0, permissions=mode).close()

    # ---- attributes
    def stat(self, *, follow_symlinks=True):
        """The os.stat_result."""
        return self.fs.stat(self) if follow_symlinks else self.fs.lstat(self)

    def lstat(self):
        """The os.stat_result, of a symbolic link its own."""
        return self.fs.lstat(self)

    def exists(self):
        """Whether the path leads to anything."""
        return self.fs.exists(self)

    def is_file(self):
        """Whether the path leads to a regular file."""
        return self.fs.isfile(self)

    def is_dir(self):
        """Whether the path leads to a directory."""
        return self.fs.isdir(self)

    def is_symlink(self):
        """Whether the path is a symbolic link."""
        return self.fs.islink(self)

    def samefile(self, other):
        """Whether both paths lead to one file of the container."""
        return self.stat().st_ino == self.fs.stat(other).st_ino

    def chmod(self, mode):
        """Sets the permission bits."""
        self.fs.chmod(self, mode)

    # ---- directories and names
    def iterdir(self):
        """Yields the paths in the directory."""
        for name in self.fs.listdir(self):
            yield self / name

    def glob(self, pattern):
        """Yields the paths below this one that match, as FileSystem.glob()."""
        for found in self.fs.glob(pattern, self):
            yield self / found

    def walk(self, top_down=True, on_error=None, follow_symlinks=False):
        """Yields (path, names of directories, names of other files), as FileSystem.walk()."""
        for top, directories, files in self.fs.walk(self._name_in_container, top_down, on_error, follow_symlinks):
            yield self._with(PurePosixPath(top)), directories, files

    def rglob(self, pattern):
        """Yields the paths at any depth below this one whose last name matches."""
        for top, directories, files in self.fs.walk(self._name_in_container):
            for name in fnmatch.filter(directories + files, pattern):
                yield self._with(PurePosixPath(top, name))

    def mkdir(self, mode=0o755, parents=False, exist_ok=False):
        """Makes the directory, with `parents` also those above it. `mode` is used without the umask."""
        if parents:
            self.fs.makedirs(self, mode, exist_ok)
            return
        try:
            self.fs.mkdir(self, mode)
        except FileExistsError:
            if not exist_ok or not self.is_dir():
                raise

    def rmdir(self):
        """Removes the empty directory."""
        self.fs.rmdir(self)

    def unlink(self, missing_ok=False):
        """Removes the name of a file."""
        try:
            self.fs.unlink(self)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rename(self, target):
        """Renames atomically, and returns the new path. A file at `target` is replaced."""
        self.fs.rename(self, target)
        return type(self)(self.fs, target)

    replace = rename

    def symlink_to(self, target):
        """Makes this path a symbolic link to `target`."""
        self.fs.symlink(target, self)

    def hardlink_to(self, target):
        """Makes this path a second name of `target`."""
        self.fs.link(target, self)

    def readlink(self):
        """The target of the symbolic link."""
        return type(self)(self.fs, self.fs.readlink(self))

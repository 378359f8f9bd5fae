"""An opened container."""
import errno
import fnmatch
import os
import re
import stat

from ros2store import _ros2store, children
from ros2store.files import File, layered, name_of, text_of

COPY_BYTES = 8 << 20  # what copy() moves at a time
_NO_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}  # a path leads to nothing
_FLAGS = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "x": os.O_CREAT | os.O_EXCL, "a": os.O_CREAT | os.O_APPEND}


class FileSystem(_ros2store.FileSystem):
    """An opened container. Use it in a `with` statement.

    It pickles as its URI: the copy opens the container again."""

    def __init__(self, uri):
        super().__init__(uri)
        children.opened(self)

    def __repr__(self):
        return f"<ros2store.FileSystem {self.uri!r}{' closed' if self.closed else ''}>"

    def __reduce__(self):
        return type(self), (self.uri,)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def open(self, path, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *, permissions=0o644):
        """Opens a file as io.open() does, and returns a file of `io` that also has the methods of File.

        `mode`: r, r+, w, w+, x, x+, a or a+, with b for bytes, else for text. `buffering`: 0 for a File, which has no
        buffer (bytes only), 1 for lines (text only), more for the size of the buffer in bytes. A buffered write is
        durable after flush() or close(). `permissions` of a new file are used without the umask.

        Errors: FileNotFoundError, FileExistsError (mode x), IsADirectoryError, NotADirectoryError, PermissionError,
        ValueError (the mode or the layers)."""
        kinds = mode.translate({ord(each): None for each in "bt+"})
        binary, text, plus = "b" in mode, "t" in mode, "+" in mode
        if kinds not in _FLAGS or len(set(mode)) != len(mode) or (binary and text):
            raise ValueError(f"mode '{mode}' is not one of r, r+, w, w+, x, x+, a, a+, with b for bytes")
        if binary and (encoding is not None or errors is not None or newline is not None):
            raise ValueError("a binary file has no encoding, errors or newline")
        access = os.O_RDWR if plus else os.O_RDONLY if kinds == "r" else os.O_WRONLY
        native = self.open_file(path, _FLAGS[kinds] | access, permissions)
        children.opened(native)
        file = File(native, name_of(path), kinds + "b" + ("+" if plus else ""), self)
        return layered(file, mode, buffering, encoding, errors, newline)

    def pread_many(self, ranges):
        """Reads many ranges of open files at once: for each (file, offset, bytes) returns the bytes, fewer only at the
        end of the file, or its OSError."""
        return self._pread_many([(file._file()._native, file.name, offset, bytes) for file, offset, bytes in ranges])

    def close(self):
        """Lets running calls end, then closes. The container is released when its last file is closed. Asynchronous
        requests are waited for; close in the thread of their event loop."""
        for queue in self.__dict__.pop("_queues", {}).values():
            queue.close()
        super().close()

    # ---- with asyncio
    async def aopen(self, path, mode="rb", *, permissions=0o644):
        """Opens a File (binary, without a buffer), whose aread, areadinto, awrite and afsync let other tasks run. The
        opening is one request, which the event loop waits for."""
        return self.open(path, mode, 0, permissions=permissions)

    async def aread_many(self, ranges):
        """As pread_many(), and other tasks run meanwhile."""
        return await self._queued().read_many(ranges)

    def _queued(self):
        """The queue of the running event loop."""
        from ros2store.aio import queue_of
        return queue_of(self)

    def _end_closed_loops(self):
        from ros2store.aio import end_closed_loops
        return end_closed_loops(self)

    # ---- names
    remove = _ros2store.FileSystem.unlink
    replace = _ros2store.FileSystem.rename

    def path(self, *parts):
        """Returns a ros2store.path.Path of this file system, which is used as a pathlib.Path."""
        from ros2store.path import Path
        return Path(self, *parts)

    def exists(self, path):
        """Whether the path leads to a file or directory; false for a link to nothing."""
        return self._mode(self.stat, path) != 0

    def isfile(self, path):
        """Whether the path leads to a regular file."""
        return stat.S_ISREG(self._mode(self.stat, path))

    def isdir(self, path):
        """Whether the path leads to a directory."""
        return stat.S_ISDIR(self._mode(self.stat, path))

    def islink(self, path):
        """Whether the path is a symbolic link."""
        return stat.S_ISLNK(self._mode(self.lstat, path))

    def _mode(self, how, path):
        try:
            return how(path).st_mode
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
            return 0

    def makedirs(self, path, mode=0o755, exist_ok=False):
        """Makes a directory and those above it that are missing. FileExistsError if it exists, with `exist_ok` only if
        it is no directory."""
        try:
            self.mkdir(path, mode)
        except FileNotFoundError:
            parent = os.path.dirname(name_of(path).rstrip(_like(path, "/")))
            if not parent:
                raise
            self.makedirs(parent, exist_ok=True)
            self.makedirs(path, mode, exist_ok)
        except FileExistsError:
            if not exist_ok or not self.isdir(path):
                raise

    def walk(self, top="", topdown=True, onerror=None, followlinks=False):
        """Yields (directory, names of directories, names of other files) as os.walk() does, with a request for 256
        entries. With `topdown` the caller may remove names of directories from the list. An error of a directory is
        given to `onerror`, if any, and skips the directory."""
        try:
            entries = self.scandir(top)
        except OSError as error:
            if onerror is not None:
                onerror(error)
            return
        directories, files, links = [], [], set()
        for name, attributes in entries:
            if stat.S_ISLNK(attributes.st_mode):
                links.add(name)
            is_directory = stat.S_ISDIR(attributes.st_mode) or (name in links and self.isdir(_join(top, name)))
            (directories if is_directory else files).append(name)
        if topdown:
            yield top, directories, files
        for name in directories:
            if followlinks or name not in links:
                yield from self.walk(_join(top, name), topdown, onerror, followlinks)
        if not topdown:
            yield top, directories, files

    def glob(self, pattern, directory=""):
        """Returns the sorted paths that match, as glob.glob(…, recursive=True) does: `*`, `?` and `[…]` match within a
        name, and none that begins with a dot; `**` matches directories at any depth, not through links. Paths are
        relative to `directory`, as the pattern is."""
        pattern = text_of(pattern)
        root = "/" if pattern.startswith("/") else ""
        found = [root]
        parts = [part for part in pattern.split("/") if part]
        for i, part in enumerate(parts):
            found = self._glob_step(directory, found, part, i == len(parts) - 1)
        if pattern.endswith("/"):
            found = [each + "/" for each in found if self.isdir(_join(directory, each))]
        return sorted({each for each in found if each})

    def _glob_step(self, base, paths, part, is_last):
        if part == "**":
            below = []
            for path in paths:
                below.append(path)
                for top, directories, files in self.walk(_join(base, path)):
                    directories[:] = [name for name in directories if not name.startswith(".")]
                    here = _relative(top, base, path)
                    below += [_join(here, name) for name in directories]
                    if is_last:
                        below += [_join(here, name) for name in files if not name.startswith(".")]
            return below
        if not re.search(r"[*?\[]", part):
            joined = [_join(path, part) for path in paths]
            return [each for each in joined if self._mode(self.lstat, _join(base, each))]
        matches = re.compile(fnmatch.translate(part)).match
        found = []
        for path in paths:
            try:
                names = self.listdir(_join(base, path))
            except OSError as error:
                if error.errno not in _NO_FILE:
                    raise
                continue
            found += [_join(path, name) for name in names
                      if matches(name) and (part.startswith(".") or not name.startswith("."))]
        return found

    def rmtree(self, path):
        """Removes a directory and everything in it. Symbolic links are not followed: NotADirectoryError."""
        if self.islink(path):
            raise NotADirectoryError(errno.ENOTDIR, f"rmtree '{text_of(path)}': it is a symbolic link")
        self._rmtree(path)

    def _rmtree(self, path):
        others = []
        for name, attributes in self.scandir(path):
            if stat.S_ISDIR(attributes.st_mode):
                self._rmtree(_join(path, name))
            else:
                others.append(name)
        self.unlink_many(others, path)
        self.rmdir(path)

    def copy(self, source, target):
        """Copies a file with its permissions; a file at `target` is overwritten. Symbolic links are followed. Returns
        the number of bytes. OSError(EINVAL) if both are the same file."""
        with self.open(source, "rb", 0) as from_file:
            attributes = from_file.stat()
            permissions = stat.S_IMODE(attributes.st_mode)
            exists = self.exists(target)
            if exists and self.stat(target).st_ino == attributes.st_ino:
                raise OSError(errno.EINVAL, f"copy '{source}': '{target}' is the same file")
            with self.open(target, "wb", 0, permissions=permissions) as to_file:
                memory = memoryview(bytearray(min(COPY_BYTES, attributes.st_size + 1)))
                done, count = 0, len(memory)
                while count == len(memory):
                    count = from_file.readinto(memory, done)
                    to_file.pwrite(memory[:count], done)
                    done += count
        if exists:
            self.chmod(target, permissions)
        return done


def is_unfinished(name):
    """Whether it is the name of a file that is not complete: a writer has another name for it, or was killed."""
    return name.startswith(".") and name.endswith(".part")


def _like(path, text):
    return os.fsencode(text) if isinstance(name_of(path), bytes) else text


def _join(top, name):
    """os.path.join(), also of bytes and text; "" stays relative."""
    top = text_of(top)
    if not top or not name or name.startswith("/"):
        return name or top
    return top.rstrip("/") + "/" + name


def _relative(top, base, path):
    """The directory `top` of a walk of base/path, from `base` on."""
    begin = _join(base, path)
    return path + top[len(begin):] if path else top[len(begin):].lstrip("/")

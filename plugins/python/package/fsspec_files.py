"""The files of ros2store.fsspec."""
import io
import os
import posixpath
import secrets
import sys

from fsspec.core import OpenFile
from fsspec.spec import AbstractBufferedFile

from ros2store.files import memory_of

NEW_PERMISSIONS = 0o644


def hidden_beside(path):
    """A new name in the directory of a path."""
    return posixpath.join(posixpath.dirname(path), f".{secrets.token_hex(8)}.part")


def permissions_of(replaced):
    """Those of a file that replaces one with these, or that is new, with None."""
    return NEW_PERMISSIONS if replaced is None else replaced


class BufferedFile(AbstractBufferedFile):
    """A file of fsspec. Reads of a block or more go into the caller's memory. What is opened with "wb" gets its name at
    the end: of close(), or of the transaction. If the `with` statement ends in an exception, it never does."""

    DEFAULT_BLOCK_SIZE = 1 << 20

    def __init__(self, fs, path, mode="rb", block_size="default", autocommit=True, cache_type="readahead", **kwargs):
        self._file = self._hidden = None
        self._is_given_up = False
        self._process = os.getpid()
        if mode == "rb":
            self._file = fs.files.open(path, "rb", 0)
            kwargs["size"] = self._file.size()
        super().__init__(fs, path, mode, block_size, autocommit, cache_type, **kwargs)

    def _fetch_range(self, start, end):
        return self._file.pread(max(0, end - start), start)  # the cache "mmap" asks for less than nothing

    def readinto(self, buffer):
        """Fills a buffer from the position on; returns the bytes read."""
        memory = memoryview(memory_of(buffer, True)).cast("B")
        if self.mode != "rb" or self.closed or len(memory) < self.blocksize:
            return super().readinto(memory)
        count = self._file.readinto(memory, self.loc)
        self.loc += count
        return count

    def write(self, data):
        """Writes a buffer or a tensor of torch; returns the bytes."""
        return super().write(memory_of(data, False))

    def _initiate_upload(self):
        if self.mode == "ab":
            self._file = self.fs.files.open(self.path, "ab", 0)
        else:
            self._target, permissions = self.fs._target(self.path)
            hidden = hidden_beside(self._target)
            self._file = self.fs.files.open(hidden, "xb", 0, permissions=permissions_of(permissions))
            self._hidden = hidden

    def _upload_chunk(self, final=False):
        self._file.write(self.buffer.getbuffer())
        if final:
            self._file.fsync()
            self._file.close()
            if self.autocommit:
                self.commit()
        return True

    def commit(self):
        """Gives the file its name."""
        if self._hidden is not None:
            self.fs._publish(self._hidden, self._target)
            self._hidden = None

    def give_up(self):
        """Makes close() discard what was written."""
        self._is_given_up = True

    def discard(self):
        """Removes what was written."""
        self.closed = True
        if self._hidden is not None:
            self._file.close()
            self.fs.files.path(self._hidden).unlink(missing_ok=True)
            self._hidden = None

    def close(self):
        """Writes what is buffered, and closes the file. After an error nothing is left of a new file."""
        if self.mode == "wb" and not self.closed and (self._is_given_up or _ends_in_exception(self)):
            self.discard()
            return
        try:
            super().close()
        except BaseException:
            self.discard()
            raise
        finally:
            if self._file is not None and self.mode == "rb":
                self._file.close()

    def __exit__(self, kind, *error):
        if kind is not None:
            self.give_up()
        self.close()

    def is_of_parent(self):
        """Whether this is a forked child's copy of a file that the parent opened."""
        return self._process != os.getpid()

    def __del__(self):
        if not self.is_of_parent():  # which may still write
            super().__del__()


class _Layer:
    """Of a file that is written through it: an exception that ends the `with` statement is told to the file."""

    def __init__(self, file, *arguments, **options):
        self._file = file
        super().__init__(*arguments, **options)

    def __exit__(self, kind, *error):
        if kind is not None:
            self._file.give_up()
        self.close()

    def __del__(self):
        if not self._file.is_of_parent():
            super().__del__()


class TextFile(_Layer, io.TextIOWrapper):
    pass


class CompressedFile(_Layer, io.BufferedIOBase):
    """Closes the file, too, which the compressing object does not."""

    def __init__(self, file, compressing):
        super().__init__(file)
        self._compressing = compressing

    def writable(self):
        return True

    def write(self, data):
        return self._compressing.write(data)

    def flush(self):
        if not self._compressing.closed:
            self._compressing.flush()

    def tell(self):
        return self._compressing.tell()

    def close(self):
        if self.closed:
            return
        try:
            self._compressing.close()
        except BaseException:
            self._file.give_up()
            raise
        finally:
            self._file.close()
            super().close()


def _ends_in_exception(file):
    """Whether fsspec closes the file because the `with` statement of its OpenFile ends in an exception, of which it tells
    nothing."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code is OpenFile.__exit__.__code__ and any(each is file for each in frame.f_locals["self"].fobjects):
            return any(frame.f_locals.get("args", ()))
        frame = frame.f_back
    return False


class Ranges:
    """The requests for ranges of files, each of which is opened once, until the end of the `with` statement."""

    def __init__(self, fs, paths, starts, ends, max_gap):
        if max_gap is not None:
            raise NotImplementedError("cat_ranges: max_gap")
        starts = starts if isinstance(starts, (list, tuple)) else [starts] * len(paths)
        ends = ends if isinstance(ends, (list, tuple)) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("cat_ranges: paths, starts and ends differ in length")
        self.requests, self._opened, self._places, self._results = [], {}, [], [None] * len(paths)
        for i, (path, start, end) in enumerate(zip(map(fs._strip_protocol, paths), starts, ends)):
            try:
                if path not in self._opened:
                    self._opened[path] = fs.files.open(path, "rb", 0)
                self.requests.append((self._opened[path], *range_of(self._opened[path], start, end)))
                self._places.append(i)
            except OSError as error:
                self._results[i] = error

    def results(self, contents, on_error):
        for i, content in zip(self._places, contents):
            self._results[i] = content
        for result in self._results:
            if on_error == "raise" and isinstance(result, Exception):
                raise result
        return self._results

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for file in self._opened.values():
            file.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        for file in self._opened.values():
            await file.aclose()  # when its requests have ended, also those of a task that was cancelled


def range_of(file, start, end):
    """The offset and number of bytes of a range whose ends may be None or count from the end."""
    size = file.size() if start is None or end is None or start < 0 or end < 0 else None
    start = 0 if start is None else max(0, size + start) if start < 0 else start
    end = size if end is None else size + end if end < 0 else end
    return start, max(0, end - start)

"""Open files: the raw File, and what open() puts on it."""
import errno
import io
import os

from ros2store import _ros2store

DEFAULT_BUFFER_BYTES = 64 << 10


def name_of(path):
    """What os.fspath() returns, or the name of a ros2store.path.Path."""
    name = getattr(path, "_name_in_container", None)
    return os.fspath(path) if name is None else name


def text_of(path):
    """name_of(), as os.fsdecode() makes it."""
    return os.fsdecode(name_of(path))


class File(io.RawIOBase):
    """An open file without a buffer, from open(…, buffering=0).

    An io.RawIOBase with a position, and pread and pwrite, which have none. Sizes and offsets are in bytes. A write is
    durable when it returns, in a container with durability=fsync after fsync(). There is no fileno():
    io.UnsupportedOperation. After close() the methods of io raise ValueError, the others OSError(EBADF)."""

    def __init__(self, native, name, mode, fs):
        self._native = native
        self._fs = fs
        self._position = 0
        self._appends = "a" in mode
        self._at_end = self._appends  # the position is the end, which is not known yet
        self._readable = "r" in mode or "+" in mode
        self._writable = "r" not in mode or "+" in mode
        self.name = name
        self.mode = mode

    def __repr__(self):
        return _shown(self, self)

    # ---- io.RawIOBase
    def readable(self):
        """Whether the file was opened for reading. ValueError after close()."""
        self._check_open()
        return self._readable

    def writable(self):
        """Whether the file was opened for writing. ValueError after close()."""
        self._check_open()
        return self._writable

    def seekable(self):
        """True. ValueError after close()."""
        self._check_open()
        return True

    def tell(self):
        """The position, in bytes from the beginning."""
        self._check_open()
        if self._at_end:
            self._position, self._at_end = self._native.size(), False
        return self._position

    def seek(self, offset, whence=os.SEEK_SET):
        """Moves the position and returns it.

        `whence` is os.SEEK_SET, SEEK_CUR or SEEK_END. With SEEK_DATA or SEEK_HOLE the position becomes the first byte
        at or behind `offset` that is in data or in a hole; OSError(ENXIO) if there is none. A negative position is
        OSError(EINVAL)."""
        self._check_open()
        if whence in (os.SEEK_DATA, os.SEEK_HOLE):
            position = self._native.seek(offset, whence)
        elif whence == os.SEEK_SET:
            position = offset
        elif whence == os.SEEK_CUR:
            position = self.tell() + offset
        elif whence == os.SEEK_END:
            position = self._native.size() + offset
        else:
            raise ValueError(f"seek in '{self.name}': whence {whence!r} is none of os.SEEK_SET, SEEK_CUR, SEEK_END, "
                             "SEEK_DATA, SEEK_HOLE")
        if position < 0:
            raise OSError(errno.EINVAL, f"seek in '{self.name}': the position {position} is before the beginning")
        self._position, self._at_end = int(position), False
        return self._position

    def readinto(self, buffer, offset=None):
        """Fills a writable buffer from the position on, and moves the position; returns the bytes read, fewer than
        the buffer only at the end of the file. With `offset`: reads from there, and moves nothing. Without a copy: any
        contiguous object of the buffer protocol, or a tensor of torch. BufferError if it is read-only."""
        if offset is not None:
            return self._native.readinto(buffer, offset)
        self._check_can(self._readable, "read")
        count = self._native.readinto(buffer, self.tell())
        self._position += count
        return count

    def read(self, size=-1):
        """Returns at most `size` bytes from the position on, all up to the end if it is negative or None."""
        if size is None or size < 0:
            return self.readall()
        self._check_can(self._readable, "read")
        data = self._native.pread(size, self.tell())
        self._position += len(data)
        return data

    def readall(self):
        """Returns the bytes from the position to the end of the file."""
        self._check_can(self._readable, "read")
        parts = []
        while True:
            # One byte more: if it is missing, the file has ended.
            wanted = max(self._native.size() - self.tell(), 0) + 1
            parts.append(self._native.pread(wanted, self._position))
            self._position += len(parts[-1])
            if len(parts[-1]) < wanted:
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def write(self, buffer):
        """Writes all of the buffer at the position, in mode "a" at the end, and moves the position. Returns the number
        of bytes, which are durable. After an error a part of them may be written."""
        self._check_can(self._writable, "write")
        if self._appends:
            count = self._native.pwrite(buffer, 0)
            self._at_end = True
        else:
            count = self._native.pwrite(buffer, self._position)
            self._position += count
        return count

    def truncate(self, size=None):
        """Sets the size of the file, without `size` to the position. Returns it. The position stays."""
        self._check_can(self._writable, "truncate")
        position = self.tell()  # before the end moves, where it may be
        size = position if size is None else size
        self._native.truncate(size)
        return size

    def close(self):
        """Lets running calls end, then closes. A file whose close raises OSError is closed, except with EBUSY:
        asynchronous requests of an event loop that is not closed use it; await aclose()."""
        if self.closed:
            return
        try:
            self._native.close()
        except OSError as error:
            if error.errno == errno.EBUSY:
                if self._fs._end_closed_loops():
                    return self.close()
                raise
            super().close()
            raise
        super().close()

    # ---- without a position
    def pread(self, bytes, offset):
        """Returns up to `bytes` bytes at `offset`; fewer only at the end of the file."""
        return self._native.pread(bytes, offset)

    def pwrite(self, buffer, offset):
        """Writes all of the buffer at `offset` (in mode "a" at the end); durable on return. After an error a part of it
        may be written. Returns the number of bytes."""
        return self._native.pwrite(buffer, offset)

    def punch_hole(self, offset, bytes):
        """Frees a range, which reads as zeros afterwards. The size does not change."""
        self._native.punch_hole(offset, bytes)

    def fsync(self):
        """Makes all writes durable, which they are already, except in a container with durability=fsync."""
        self._native.fsync()

    def flock(self, operation):
        """As fcntl.flock(). The lock holds against all mounts and programs, and belongs to this file. BlockingIOError
        with fcntl.LOCK_NB if another lock is in the way."""
        self._native.flock(operation)

    def lockf(self, operation, length=0, start=0):
        """As fcntl.lockf(), of `length` bytes (0: all) from `start` on, but the lock belongs to this file, not to the
        process."""
        self._native.lockf(operation, length, start)

    def size(self):
        """The size in bytes."""
        return self._native.size()

    def stat(self):
        """The os.stat_result of the file."""
        return self._native.stat()

    def path_report(self):
        """How this file's I/O travelled, with counters, as text."""
        return self._native.path_report()

    def _file(self):
        return self

    # ---- with asyncio
    async def __aenter__(self):
        return self

    async def __aexit__(self, *exception):
        await self.aclose()

    async def aclose(self):
        """Lets asynchronous requests of this event loop end, also cancelled ones, then closes; as `async with` does."""
        while not self.closed:
            try:
                self.close()
            except OSError as error:
                if error.errno != errno.EBUSY or not await self._fs._queued().one_ended():
                    raise

    async def aread(self, bytes, offset):
        """As pread(), and other tasks run meanwhile."""
        return await self._fs._queued().read(self, bytes, offset)

    async def areadinto(self, buffer, offset):
        """As readinto(buffer, offset), and other tasks run meanwhile. If it is cancelled, the buffer may be written to
        until the request ends."""
        return await self._fs._queued().readinto(self, buffer, offset)

    async def awrite(self, buffer, offset):
        """As pwrite(), and other tasks run meanwhile. If it is cancelled, the bytes may be written or not."""
        return await self._fs._queued().write(self, buffer, offset)

    async def afsync(self):
        """As fsync(), and other tasks run meanwhile."""
        return await self._fs._queued().fsync(self)

    def _check_open(self):
        if self.closed:
            raise ValueError(f"the file '{self.name}' is closed")

    def _check_can(self, can, what):
        self._check_open()
        if not can:
            raise io.UnsupportedOperation(f"{what} '{self.name}': it was opened with mode {self.mode!r}")


def _shown(layer, file):
    state = " closed" if file.closed else ""
    return f"<ros2store.{type(layer).__name__} {file.name!r} mode={layer.mode!r} in {file._fs.uri!r}{state}>"


class _Layer:
    """The methods of File that a buffered or text file has too. They write what is buffered first."""
    __slots__ = ()

    def __repr__(self):
        return _shown(self, self._raw())

    def _file(self):
        file = self._raw()
        if not file.closed:
            self.flush()
        return file

    def _raw(self):
        return self.raw


def _delegate(name):
    method = getattr(File, name)

    def call(self, *args, **kwargs):
        return getattr(self._file(), name)(*args, **kwargs)

    call.__name__, call.__doc__ = name, method.__doc__
    setattr(_Layer, name, call)


for _name in ("pread", "pwrite", "punch_hole", "fsync", "flock", "lockf", "size", "stat", "path_report"):
    _delegate(_name)


class BufferedFile(_Layer, io.BufferedIOBase):
    """A file with the methods of io.BufferedReader, BufferedWriter or BufferedRandom, and those of File.

    It is no instance of these, because numpy takes such an instance for a file with a fileno()."""

    def __init__(self, file, size):
        kind = (io.BufferedRandom if file.readable() and file.writable()
                else io.BufferedWriter if file.writable() else io.BufferedReader)
        self._buffer = kind(file, size)

    raw = property(lambda self: self._buffer.raw, doc="The File.")
    name = property(lambda self: self._buffer.name, doc="The path with which the file was opened.")
    mode = property(lambda self: self._buffer.mode, doc="The mode of the File.")
    closed = property(lambda self: self._buffer.closed, doc="Whether the file is closed.")

    def __iter__(self):
        # Keeps this object, which closes the file when it is collected. `yield from` would close the buffer when a loop
        # ends early.
        for line in self._buffer:
            yield line

    def __next__(self):
        return next(self._buffer)

    def readinto(self, buffer, offset=None):
        """As File.readinto()."""
        return self._buffer.readinto(memory_of(buffer, True)) if offset is None else self._file().readinto(buffer, offset)

    def readinto1(self, buffer):
        """As readinto(), by at most one read of the File."""
        return self._buffer.readinto1(memory_of(buffer, True))

    def write(self, buffer):
        """Writes a buffer or a tensor of torch, which is durable after flush() or close(). Returns the bytes."""
        return self._buffer.write(memory_of(buffer, False))

    def close(self):
        """Writes what is buffered, and closes the file. A file whose close raises OSError is closed."""
        self._buffer.close()


def _of_buffer(name):
    # A method of this object, and not of its buffer: the object closes the file when it is collected.
    def call(self, *arguments):
        return getattr(self._buffer, name)(*arguments)

    call.__name__, call.__doc__ = name, f"As io.BufferedRandom.{name}()."
    setattr(BufferedFile, name, call)


for _name in ("read", "read1", "readline", "peek", "flush", "seek", "tell", "truncate", "detach", "readable", "writable",
              "seekable"):
    _of_buffer(_name)


def memory_of(buffer, writable):
    """The buffer, or that of a tensor of torch, which has no buffer protocol."""
    return memoryview(_ros2store.View(buffer, writable)) if hasattr(buffer, "data_ptr") else buffer


class TextFile(_Layer, io.TextIOWrapper):
    """An io.TextIOWrapper with the methods of File."""

    def _raw(self):
        return self.buffer.raw

    def readinto(self, buffer, offset=0):
        """As File.readinto(): reads bytes from `offset` on, and moves nothing."""
        return self._file().readinto(buffer, offset)

    def seek(self, cookie, whence=os.SEEK_SET):
        """As io.TextIOBase.seek(); with os.SEEK_DATA and SEEK_HOLE as File.seek(), where the text position stays."""
        if whence in (os.SEEK_DATA, os.SEEK_HOLE):
            return self._file().seek(cookie, whence)
        return super().seek(cookie, whence)


def layered(file, mode, buffering, encoding, errors, newline):
    """Puts on a File what io.open() puts on a file."""
    text = "b" not in mode
    try:
        if buffering == 0:
            if text:
                raise ValueError("a text file has a buffer")
            return file
        buffered = BufferedFile(file, DEFAULT_BUFFER_BYTES if buffering in (-1, 1) else buffering)
        if not text:
            return buffered
        made = TextFile(buffered, io.text_encoding(encoding), errors, newline, buffering == 1)
        made.mode = mode
        return made
    except BaseException:
        file.close()
        raise

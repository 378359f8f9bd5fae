"""The names of 3FS's hf3fs_fuse.io, over a mounted ros2store container.

    fd = os.open(f"{mount}/file", os.O_RDONLY)
    register_fd(fd)
    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=1 << 20)
    iov, ring = make_iovec(memory, mount), make_ioring(mount, 16)
    ring.prepare(iov[:4096], True, fd, 0, userdata="first")
    done = ring.submit().wait(min_results=1)    # done[0].result: bytes, or a negative errno
    deregister_fd(fd)

A call that fails raises OSError. One thread at a time prepares and submits in a ring, and one waits.
"""
import ctypes
import datetime
import itertools
import multiprocessing.shared_memory
import os
import time
import uuid

__all__ = ["IorPriority", "deregister_fd", "extract_mount_point", "force_fsync", "hardlink", "ioring", "iovec",
           "make_iovec", "make_ioring", "punch_hole", "read_file", "register_fd"]


class _Iov(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("iovh", ctypes.c_void_p), ("id", ctypes.c_char * 16),
                ("mount_point", ctypes.c_char * 256), ("size", ctypes.c_size_t), ("block_size", ctypes.c_size_t),
                ("numa", ctypes.c_int)]


class _Ior(ctypes.Structure):
    _fields_ = [("iov", _Iov), ("iorh", ctypes.c_void_p), ("mount_point", ctypes.c_char * 256),
                ("for_read", ctypes.c_bool), ("io_depth", ctypes.c_int), ("priority", ctypes.c_int),
                ("timeout", ctypes.c_int), ("flags", ctypes.c_uint64)]


class _Cqe(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int32), ("reserved", ctypes.c_int32), ("result", ctypes.c_int64),
                ("userdata", ctypes.c_void_p)]


class _Timespec(ctypes.Structure):
    _fields_ = [("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long)]


def _load():
    name = "libhf3fs_api_shared.so"
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), name)
    library = ctypes.CDLL(beside if os.path.exists(beside) else name)
    integer, text, size, pointer = ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p
    iov, ior, boolean, word = ctypes.POINTER(_Iov), ctypes.POINTER(_Ior), ctypes.c_bool, ctypes.c_uint64
    for function, arguments in {
            "extract_mount_point": (pointer, integer, text),
            "reg_fd": (integer, word),
            "iovwrap": (iov, pointer, text, text, size, size, integer),
            "iorcreate4": (ior, text, integer, boolean, integer, integer, integer, word),
            "io_entries": (ior,),
            "prep_io": (ior, iov, boolean, pointer, integer, size, word, pointer),
            "submit_ios": (ior,),
            "wait_for_ios": (ior, ctypes.POINTER(_Cqe), integer, integer, ctypes.POINTER(_Timespec)),
            "hardlink": (text, text),
            "punchhole": (integer, integer, ctypes.POINTER(size), ctypes.POINTER(size), size)}.items():
        getattr(library, f"hf3fs_{function}").argtypes = arguments
    library.hf3fs_ior_size.restype = size
    library.hf3fs_iordestroy.argtypes, library.hf3fs_iordestroy.restype = (ior,), None
    library.hf3fs_dereg_fd.restype = None
    return library


_library = _load()


def _check(result):
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def _check_errno(result):
    if result > 0:
        raise OSError(result, os.strerror(result))


def extract_mount_point(path):
    """The mount point of the path; None: it is in no mounted container."""
    buffer = ctypes.create_string_buffer(4096)
    length = _library.hf3fs_extract_mount_point(buffer, len(buffer), os.fsencode(path))
    return None if length < 0 else os.fsdecode(buffer.value)


def register_fd(fd, flags=0):
    _check_errno(max(_library.hf3fs_reg_fd(fd, flags), 0))


def deregister_fd(fd):
    _library.hf3fs_dereg_fd(fd)


def force_fsync(fd):
    os.fsync(fd)
    return 0


def hardlink(target, link_name):
    _check_errno(_library.hf3fs_hardlink(os.fsencode(target), os.fsencode(link_name)))


def punch_hole(file, start, end, flags=0):
    """`file`: a descriptor or a name. The ranges [start[i], end[i]) become holes."""
    if len(start) != len(end):
        raise ValueError("as many ends as starts are needed")
    if not isinstance(file, int):
        opened = os.open(file, os.O_RDWR)
        try:
            return punch_hole(opened, start, end, flags)
        finally:
            os.close(opened)
    ranges = ctypes.c_size_t * len(start)
    return _check_errno(_library.hf3fs_punchhole(file, len(start), ranges(*start), ranges(*end), flags))


class iovec:
    """Memory for data, or a slice of it: iov[begin:end]. It does not keep the memory."""

    def __init__(self, whole, address, size):
        self._whole, self._address, self._size = whole, address, size
        self.result, self.userdata = 0, None

    @property
    def base_off(self):
        return self._address - self._whole.base

    def _bytes(self):
        return (ctypes.c_char * self._size).from_address(self._address)

    def __len__(self):
        return self._size

    def __getitem__(self, part):
        begin, end, step = part.indices(self._size)
        if step != 1:
            raise ValueError("an iovec has slices with step 1 only")
        return iovec(self._whole, self._address + begin, max(end - begin, 0))

    def __setitem__(self, part, value):
        memoryview(self._bytes()).cast("B")[part] = value

    def __bytes__(self):
        return self._bytes().raw


def make_iovec(shm, hf3fs_mount_point, block_size=0, numa=-1):
    """`shm`: a multiprocessing.shared_memory.SharedMemory, or another writable buffer. It must stay as long as
    requests use it."""
    buffer = getattr(shm, "buf", shm)
    size = memoryview(buffer).nbytes
    # The object that has the address would keep the buffer from being closed.
    address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    whole = _Iov()
    _check(_library.hf3fs_iovwrap(whole, address, uuid.uuid4().bytes, os.fsencode(hf3fs_mount_point), size,
                                  block_size, numa))
    return iovec(whole, address, size)


class IorPriority:
    HIGH, NORMAL, LOW = -1, 0, 1


class ioring:
    def __init__(self, mount_point, entries, for_read, io_depth, timeout, numa, flags):
        self._ior = _Ior()
        _check(_library.hf3fs_iorcreate4(self._ior, os.fsencode(mount_point), entries, for_read, io_depth, timeout,
                                         numa, flags))
        self._numbers = itertools.count(1)
        self._prepared = {}  # by number: an index is used again while its result is returned

    @staticmethod
    def size_for_entries(entries):
        return _library.hf3fs_ior_size(entries)

    @property
    def entries(self):
        return _check(_library.hf3fs_io_entries(self._ior))

    def prepare(self, iov, read, fd, off, userdata=None):
        """The iovec's size is that of the request."""
        number = next(self._numbers)
        self._prepared[number] = iov, userdata  # before: a thread that waits may get its result at once
        result = _library.hf3fs_prep_io(self._ior, iov._whole, read, iov._address, fd, off, iov._size, number)
        if result < 0:
            del self._prepared[number]
        _check(result)
        return self

    def submit(self):
        _check(_library.hf3fs_submit_ios(self._ior))
        return self

    def wait(self, *, max_results=0, min_results=0, timeout=None):
        """Returns the iovecs of requests that are done, each with its `result` and `userdata`. `timeout`: a
        timedelta, or seconds; None: no limit."""
        most = max(max_results, min_results, 1)
        until = None
        if timeout is not None:
            seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout
            at = time.time_ns() + int(seconds * 10**9)
            until = ctypes.byref(_Timespec(at // 10**9, at % 10**9))
        cqes = (_Cqe * most)()
        count = _check(_library.hf3fs_wait_for_ios(self._ior, cqes, most, min_results, until))
        done = []
        for cqe in cqes[:count]:
            iov, userdata = self._prepared.pop(cqe.userdata)
            iov.result, iov.userdata = cqe.result, userdata
            done.append(iov)
        return done

    def destroy(self):
        _library.hf3fs_iordestroy(self._ior)

    def __del__(self):
        self.destroy()


def make_ioring(hf3fs_mount_point, entries, for_read=True, io_depth=0, priority=None, timeout=None, numa=-1, flags=0):
    """A ring for reads, or for writes. io_depth, priority, timeout and numa have no effect."""
    del priority
    return ioring(hf3fs_mount_point, entries, for_read, io_depth, timeout or 0, numa, flags)


def _parts(fd, ring, iov, off):
    while True:
        ring.prepare(iov[:], True, fd, off)
        count = _check(ring.submit().wait(min_results=1)[0].result)
        yield off, count
        if count < len(iov):
            return
        off += count


def read_file(fn, hf3fs_mount_point=None, block_size=1 << 30, off=0, priority=None, cb=None):
    """The file from `off` on. `cb`: is called with each part and its offset, until it returns true; then nothing
    is returned."""
    mount = hf3fs_mount_point or extract_mount_point(fn)
    if mount is None:
        raise OSError(f"{fn} is not in a mounted container")
    fd = os.open(fn, os.O_RDONLY)
    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=min(block_size, max(os.fstat(fd).st_size, 1)))
    try:
        register_fd(fd)
        parts = []
        ring = make_ioring(mount, 1, priority=priority)
        for at, count in _parts(fd, ring, make_iovec(memory, mount), off):
            if cb is None:
                parts.append(bytes(memory.buf[:count]))
            elif cb(memory.buf[:count], at):
                break
        return b"".join(parts) if cb is None else None
    finally:
        deregister_fd(fd)
        os.close(fd)
        memory.close()
        memory.unlink()

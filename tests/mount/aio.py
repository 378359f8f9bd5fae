"""Writes asynchronously with O_DIRECT by the kernel's own interface (io_submit), which has no C library."""
import ctypes
import mmap
import os
import platform
import struct

# io_setup, io_destroy, io_getevents, io_submit
CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}.get(platform.machine())
PWRITE = 1


class DirectWriter:
    """Writes blocks of `size` bytes of a file, one at a time."""

    def __init__(self, path, size):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.setup, self.destroy, self.getevents, self.submit = CALLS
        self.descriptor = os.open(path, os.O_WRONLY | os.O_DIRECT)
        self.memory = mmap.mmap(-1, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.context = ctypes.c_ulong(0)
        self.call(self.setup, 1, ctypes.byref(self.context))

    def call(self, number, *arguments):
        done = self.libc.syscall(ctypes.c_long(number), *arguments)
        if done < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return done

    def write(self, content, offset):
        """Writes a block. Returns when the kernel has reported that it is done."""
        ctypes.memmove(self.address, content, len(content))
        # struct iocb: data, key and flags, opcode, priority, descriptor, buffer, bytes, offset, …
        control = ctypes.create_string_buffer(struct.pack(
            "<QIIHhIQQqQII", 0, 0, 0, PWRITE, 0, self.descriptor, self.address, len(content), offset,
            0, 0, 0))
        pointer = ctypes.c_void_p(ctypes.addressof(control))
        assert self.call(self.submit, self.context, ctypes.c_long(1), ctypes.byref(pointer)) == 1
        event = ctypes.create_string_buffer(32)
        assert self.call(self.getevents, self.context, ctypes.c_long(1), ctypes.c_long(1), event,
                         None) == 1
        result = struct.unpack("<QQqq", event.raw)[2]
        if result != len(content):
            raise OSError(-result, f"asynchronous write: {result}")

    def close(self):
        self.call(self.destroy, self.context)
        os.close(self.descriptor)

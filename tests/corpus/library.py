"""Calls libros2store through ctypes: what neither the command line nor the Python module offers."""

import ctypes
import os
from pathlib import Path


class Container:
    """An open container. Errors are OSError."""

    def __init__(self, programs, uri):
        self.library = ctypes.CDLL(str(Path(programs).parent / "lib" / "libros2store.so"))
        for name in ("ros2s_pread", "ros2s_pwrite", "ros2s_getxattr", "ros2s_readlink"):
            getattr(self.library, name).restype = ctypes.c_ssize_t
        self.fs, error = ctypes.c_void_p(), ctypes.create_string_buffer(512)
        done = self.library.ros2s_open(uri.encode(), None, ctypes.byref(self.fs), error, len(error))
        if done < 0:
            raise OSError(-done, f"{uri}: {error.value.decode()}")

    def call(self, name, *arguments):
        done = getattr(self.library, f"ros2s_{name}")(*arguments)
        if done < 0:
            raise OSError(-done, f"{name} {arguments}: {os.strerror(-done)}")
        return done

    def mkdir(self, path, mode=0o755):
        self.call("mkdir", self.fs, path.encode(), mode)

    def open(self, path, flags=os.O_RDWR | os.O_CREAT, mode=0o644):
        file = ctypes.c_void_p()
        self.call("file_open", self.fs, path.encode(), flags, mode, ctypes.byref(file))
        return file

    def pwrite(self, file, content, offset=0):
        assert self.call("pwrite", file, content, ctypes.c_size_t(len(content)), ctypes.c_uint64(offset)) == len(content)

    def write(self, path, content, offset=0):
        file = self.open(path)
        self.pwrite(file, content, offset)
        self.call("file_close", file)

    def read(self, path, size):
        file = self.open(path, os.O_RDONLY)
        content = ctypes.create_string_buffer(size + 1)
        length = self.call("pread", file, content, ctypes.c_size_t(size + 1), ctypes.c_uint64(0))
        self.call("file_close", file)
        return content.raw[:length]

    def punch_hole(self, path, offset, size):
        file = self.open(path)
        self.call("punch_hole", file, ctypes.c_uint64(offset), ctypes.c_uint64(size))
        self.call("file_close", file)

    def link(self, path, new):
        self.call("link", self.fs, path.encode(), new.encode())

    def symlink(self, target, path):
        self.call("symlink", self.fs, target.encode(), path.encode())

    def readlink(self, path):
        target = ctypes.create_string_buffer(4097)
        length = self.call("readlink", self.fs, path.encode(), target, ctypes.c_size_t(len(target)))
        return target.raw[:length].decode()

    def rename(self, old, new):
        self.call("rename", self.fs, old.encode(), new.encode(), 0)

    def unlink(self, path):
        self.call("unlink", self.fs, path.encode())

    def setxattr(self, path, name, value):
        self.call("setxattr", self.fs, path.encode(), name.encode(), value, ctypes.c_size_t(len(value)), 0)

    def getxattr(self, path, name):
        value = ctypes.create_string_buffer(65536)
        length = self.call("getxattr", self.fs, path.encode(), name.encode(), value, ctypes.c_size_t(len(value)))
        return value.raw[:length]

    def close(self):
        self.call("close", self.fs)

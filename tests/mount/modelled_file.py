"""A file that several mounts change in turn, as in fsx, and a model of its contents."""
import ctypes
import os
import random

from mounted_pool import pattern

LIBC = ctypes.CDLL(None, use_errno=True)
KEEP_SIZE, PUNCH, ZERO = 1, 2, 16
OFFSET_MAX, LENGTH_MAX = 3 << 20, 300_000


def fallocate(file, mode, offset, length):
    if LIBC.fallocate(file, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class ModelledFile:
    """Runs each operation through a mount that the seed selects, and reads the changed range through another
    one."""

    def __init__(self, tops, name, seed):
        self.paths = [f"{top}/{name}" for top in tops]
        self.random = random.Random(seed)
        self.expected, self.turn, self.log = bytearray(), 0, []
        os.close(os.open(self.paths[0], os.O_CREAT | os.O_EXCL, 0o600))
        self.files = [os.open(path, os.O_RDWR) for path in self.paths]
        self.operations = [self.write] * 3 + [self.truncate, self.append, self.punch, self.zero,
                                              self.reopen]

    def change(self):
        """Runs one operation. Checks the range that it may have changed, and the size, against the model."""
        self.turn += 1
        through = self.random.randrange(len(self.files))
        offset = self.random.randrange(OFFSET_MAX)
        length = self.random.randrange(1, LENGTH_MAX)
        operation = self.random.choice(self.operations)
        self.log = [*self.log[-20:], f"{self.turn}: {operation.__name__} {offset} {length} "
                                     f"through {through}"]
        operation(through, offset, length)
        self.compare(self.random.randrange(len(self.files)), offset - 5000, length + 10_000)

    def compare(self, through, offset=0, length=OFFSET_MAX * 10):
        offset = max(0, offset)
        size = os.fstat(self.files[through]).st_size
        found = os.pread(self.files[through], length, offset)
        expected = bytes(self.expected[offset:offset + length])
        if size == len(self.expected) and found == expected:
            return
        differs = next((i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b),
                       min(len(found), len(expected)))
        raise AssertionError("\n".join([
            *self.log, f"read through {through}: {size} bytes, not {len(self.expected)}; "
                       f"from {offset + differs} on not what was written"]))

    def compare_all(self):
        for through in range(len(self.files)):
            self.compare(through)

    def extend(self, end):
        self.expected.extend(bytes(max(0, end - len(self.expected))))

    def write(self, through, offset, length):
        data = pattern(length, self.turn)
        assert os.pwrite(self.files[through], data, offset) == length
        self.extend(offset + length)
        self.expected[offset:offset + length] = data

    def append(self, through, _, length):
        if len(self.expected) > OFFSET_MAX or self.is_nameless():
            return
        data = pattern(length, self.turn)
        file = os.open(self.paths[through], os.O_WRONLY | os.O_APPEND)
        assert os.write(file, data) == length
        os.close(file)
        self.expected.extend(data)

    def truncate(self, through, offset, _):
        os.ftruncate(self.files[through], offset)
        del self.expected[offset:]
        self.extend(offset)

    def punch(self, through, offset, length):
        fallocate(self.files[through], PUNCH | KEEP_SIZE, offset, length)
        self.clear(offset, length)

    def zero(self, through, offset, length):
        keeps_size = self.random.random() < 0.5
        fallocate(self.files[through], ZERO | (KEEP_SIZE if keeps_size else 0), offset, length)
        if not keeps_size:
            self.extend(offset + length)
        self.clear(offset, length)

    def clear(self, offset, length):
        end = min(offset + length, len(self.expected))
        self.expected[offset:end] = bytes(max(0, end - offset))

    def reopen(self, through, _offset, _length):
        if self.is_nameless():
            return
        os.close(self.files[through])
        self.files[through] = os.open(self.paths[through], os.O_RDWR)

    def is_nameless(self):
        return not self.paths

    def unlink(self):
        os.unlink(self.paths[self.random.randrange(len(self.paths))])
        self.paths = []

    def close(self):
        for file in self.files:
            os.close(file)

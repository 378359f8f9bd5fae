"""The calls of vLLM's file tier (vllm/v1/kv_offload/tiering/fs, 2026), in their order, and the test of these on mounts.

A look-up is access(2). A store looks, makes the directories, creates a temporary file with O_EXCL and O_DIRECT, writes
the block in one call, and renames the file. A load opens with O_DIRECT and reads in one call; a block of another length
is removed. Sixteen threads store, and sixteen load."""
import concurrent.futures
import hashlib
import mmap
import os
import random

THREADS = 16
KIB = 1024


class FileTier:
    """The tier in the directory `root`."""

    def __init__(self, root):
        self.root = root
        self.stores, self.loads = (concurrent.futures.ThreadPoolExecutor(THREADS) for _ in range(2))
        probe = f"{root}/.o_direct_probe_{random.getrandbits(63)}.tmp"
        fd = os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_DIRECT, 0o644)
        os.write(fd, mmap.mmap(-1, mmap.PAGESIZE))
        os.close(fd)
        os.remove(probe)

    def path(self, key):
        name = hashlib.sha256(str(key).encode()).hexdigest()
        return f"{self.root}/llama_0123456789ab_r0/{name[:3]}/{name[3:5]}_g0/{name}.bin"

    def lookup(self, key):
        return os.access(self.path(key), os.F_OK)

    def store(self, key, block):
        path = self.path(key)
        if os.path.exists(path):
            return
        temporary = f"{path}_{random.getrandbits(63)}.tmp"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            fd = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_TRUNC | os.O_DIRECT, 0o644)
            try:
                if os.write(fd, block) < len(block):
                    raise OSError("short write")
            finally:
                os.close(fd)
            os.replace(temporary, path)
        except OSError:
            os.remove(temporary)
            raise

    def load(self, key, block):
        path = self.path(key)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        try:
            if os.readv(fd, [block]) < len(block):
                os.remove(path)
                raise OSError("short read")
        finally:
            os.close(fd)

    def store_all(self, keys, blocks):
        list(self.stores.map(self.store, keys, blocks))

    def load_all(self, keys, blocks):
        list(self.loads.map(self.load, keys, blocks))


def check(mount, second):
    """`second`: another mount of the container, or the same. Memory need not be aligned."""
    tier, other = FileTier(mount), FileTier(second)
    for size, offset in ((256 * KIB, 0), (300_001, 0), (64 * KIB, 513), (KIB, 1)):
        count = 24
        memory = memoryview(mmap.mmap(-1, count * (size + offset)))
        blocks = [memory[i * (size + offset) + offset:][:size] for i in range(count)]
        for i, block in enumerate(blocks):
            block[:] = bytes([i, size % 251]) * (size // 2) + b"x" * (size % 2)
        keys = [f"{size} {i}" for i in range(count)]
        absent = [f"{size} absent {i}" for i in range(100)]
        assert not any(map(other.lookup, keys + absent))
        tier.store_all(keys * 2, blocks * 2)
        assert all(map(other.lookup, keys)) and not any(map(other.lookup, absent))
        got = memoryview(mmap.mmap(-1, count * (size + offset)))
        other.load_all(keys, [got[i * (size + offset) + offset:][:size] for i in range(count)])
        assert all(got[i * (size + offset) + offset:][:size] == blocks[i] for i in range(count)), size
        os.truncate(tier.path(keys[3]), size - 1)
        try:
            other.load(keys[3], bytearray(size))
            raise AssertionError("a short block was loaded")
        except OSError:
            assert not tier.lookup(keys[3]) and not other.lookup(keys[3])
        tier.store(keys[3], blocks[3])
        other.load(keys[3], got[:size])
        assert got[:size] == blocks[3]
    names = [name for _, _, files in os.walk(mount) for name in files]
    assert len(names) == 4 * 24 and not [name for name in names if name.endswith(".tmp")], names

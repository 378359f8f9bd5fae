"""A cache of blocks for inference servers: each is put once by a key, got often, and may vanish.

    from ros2store.cache import BlockCache
    with BlockCache("ros2s+dpu:///pool/kv?dir=/srv/ros2s", deadline=0.5) as cache:
        cache.put_many([key], [block])
        if cache.get_many([key], [buffer]) == [len(block)]:
            ...

Keys are bytes or str of 1 to 64 bytes. Blocks are objects of the buffer protocol, or tensors of torch in host memory,
of at most 64 MiB - 4 KiB (in a container of blocks 32 MiB). Each call is one batch, whose results are in the order of its keys.

A block is got whole and as it was put, by its length and a checksum over block and key, or not at all. What fails is a
miss, which counters() tells apart. A call ends at the deadline: its keys are misses then, and its buffers are not used
any more. Only arguments that are wrong raise, and calls after close() (OSError with EBADF) or in a forked child.

Any number of threads may use a cache. Calls release the GIL, and the threads of the cache do not take it.
"""
import asyncio
import errno
import hashlib
import re
import weakref

import ros2store
from ros2store import _ros2store

LOOK_KEYS = 4096  # what leading() looks for at a time
CLEAR_KEYS = 256  # what clear() removes at a time
NAMESPACE_BYTES, SHORT_BYTES = 16, 48  # of a key, together
NAME = re.compile(r"%([0-9a-f]{2}){1,64}")  # of a block's file


class BlockCache:
    """The cache in a container of blocks (`ros2store container create --cache`), which removes what is cold, or in the
    directory that a URI names, and below it in `directory`, which is made.

    `deadline`: seconds after which a call ends. A server is given up after the next whole second, or after the
    timeout= of the URI. `threads`: how many requests are in progress; each has up to 1,024 keys, or 1 MiB of blocks.

    Errors: as ros2store.open()."""

    def __init__(self, uri, *, directory="", deadline=1.0, threads=4):
        self._native = _ros2store.BlockCache(_with_timeout(uri, deadline), directory, deadline, threads)
        self._queue = _ros2store.BlockQueue(self._native)
        self._loops = weakref.WeakKeyDictionary()
        self._directory = directory
        self.uri = uri

    def __repr__(self):
        return f"<ros2store.cache.BlockCache {self.uri!r}{' closed' if self.closed else ''}>"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    @property
    def closed(self):
        """Whether close() was called."""
        return self._native.closed

    def close(self):
        """Ends what is in progress, as misses, and waits for requests to the store, which end at their timeout."""
        self._native.close()

    def counters(self):
        """Counts of blocks since the opening: hits, misses, stored, present (put again; a container of blocks says
        stored), refused (put again with other bytes), corrupt, failed; bytes_got, bytes_put; and late: calls that ended at the deadline."""
        return self._native.counters()

    # ---- calls that wait
    def put_many(self, keys, blocks):
        """Stores blocks. They are durable then, except in a container of blocks. Returns None for each, also if it was
        there with the same bytes, and else its OSError: FileExistsError if the key has other bytes, which stay."""
        return self._native.put(keys, blocks)

    def get_many(self, keys, buffers):
        """Fills a buffer for each key. Returns the bytes of each block, or None: a miss, also if the block is larger
        than its buffer. The buffer of a miss is not changed."""
        return self._native.get(keys, buffers)

    def exists_many(self, keys):
        """Whether each block is there. It may vanish before it is got."""
        return self._native.exists(keys)

    def leading(self, keys):
        """How many of the first keys are there, one after the other."""
        for begin in range(0, len(keys), LOOK_KEYS):
            count = _leading(self.exists_many(keys[begin:begin + LOOK_KEYS]))
            if count < LOOK_KEYS:
                return min(begin + count, len(keys))
        return len(keys)

    def touch(self, keys):
        """Counts a use of each block, or sets the time of the last access of its file. Returns whether it was there."""
        return self._native.touch(keys)

    def pin(self, keys, seconds):
        """Keeps blocks from eviction for so long, at most a day, or until the process has closed the container. Pinning again sets a new end.
        Returns whether each is pinned: all that are there, or none, if more than half of the budget would be. Only in a
        container of blocks."""
        return self._native.pin(keys, seconds)

    def unpin(self, keys):
        """Ends the process's pins. Returns False for each if that failed."""
        return self._native.unpin(keys)

    def delete_many(self, keys):
        """Removes blocks. Returns for each whether it is gone, also if there was none."""
        return self._native.delete(keys)

    def clear(self):
        """Removes all blocks, also those that others put. Raises OSError, also if some stay. Only parts of it end at the
        deadline."""
        with ros2store.open(self.uri) as fs:
            names = fs.listdir("" if self._native.is_of_blocks else self._directory)
        if not self._native.is_of_blocks:
            names = filter(NAME.fullmatch, names)
        keys = [bytes.fromhex(name[1:]) if name[0] == "%" else name for name in names]
        for begin in range(0, len(keys), CLEAR_KEYS):
            stay = self.delete_many(keys[begin:begin + CLEAR_KEYS]).count(False)
            if stay:
                raise OSError(errno.EIO, f"{stay} of {len(keys)} blocks could not be removed, or not in time: clear again",
                              self.uri)

    # ---- a queue: calls return an id, and a descriptor is readable when some have ended
    def submit_put(self, keys, blocks):
        """As put_many(). The blocks must not change until the completion."""
        return self._queue.put(keys, blocks)

    def submit_get(self, keys, buffers):
        """As get_many()."""
        return self._queue.get(keys, buffers)

    def submit_exists(self, keys):
        """As exists_many()."""
        return self._queue.exists(keys)

    def submit_touch(self, keys):
        """As touch()."""
        return self._queue.touch(keys)

    def submit_pin(self, keys, seconds):
        """As pin()."""
        return self._queue.pin(keys, seconds)

    def submit_unpin(self, keys):
        """As unpin()."""
        return self._queue.unpin(keys)

    def submit_delete(self, keys):
        """As delete_many()."""
        return self._queue.delete(keys)

    def fileno(self):
        """An eventfd, readable while there are completions. Do not read it. It is open as long as the cache exists,
        also after close()."""
        return self._queue.fileno()

    def completions(self):
        """Returns (id, results) of the calls that have ended, without waiting; also after close()."""
        return self._queue.completions()

    # ---- with asyncio
    async def aput_many(self, keys, blocks):
        """As put_many(), and other tasks run meanwhile."""
        return await self._of_loop().run("put", keys, blocks)

    async def aget_many(self, keys, buffers):
        """As get_many(), and other tasks run meanwhile. After a cancellation the buffers may still be used until the
        deadline."""
        return await self._of_loop().run("get", keys, buffers)

    async def aexists_many(self, keys):
        """As exists_many(), and other tasks run meanwhile."""
        return await self._of_loop().run("exists", keys)

    async def aleading(self, keys):
        """As leading(), and other tasks run meanwhile."""
        return _leading(await self.aexists_many(keys))

    async def atouch(self, keys):
        """As touch(), and other tasks run meanwhile."""
        return await self._of_loop().run("touch", keys)

    async def apin(self, keys, seconds):
        """As pin(), and other tasks run meanwhile."""
        return await self._of_loop().run("pin", keys, seconds)

    async def aunpin(self, keys):
        """As unpin(), and other tasks run meanwhile."""
        return await self._of_loop().run("unpin", keys)

    async def adelete_many(self, keys):
        """As delete_many(), and other tasks run meanwhile."""
        return await self._of_loop().run("delete", keys)

    def _of_loop(self):
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._loops[loop] = _LoopQueue(self._native)
        return self._loops[loop]


class Namespace:
    """Makes keys of a server's keys, str or bytes of any length. Those of other namespaces differ."""

    def __init__(self, name):
        self._short, self._long = (hashlib.blake2b(f"{kind} {name}".encode(), digest_size=NAMESPACE_BYTES).digest()
                                   for kind in ("short", "long"))

    def keys(self, keys):
        """A key of 64 bytes at most for each. Long ones are hashed, which takes about a microsecond."""
        keys = [key.encode() if isinstance(key, str) else bytes(key) for key in keys]
        return [self._short + key if len(key) <= SHORT_BYTES else
                self._long + hashlib.blake2b(key, digest_size=32).digest() for key in keys]


class _LoopQueue:
    """The queue of an event loop."""

    def __init__(self, cache):
        self._queue = _ros2store.BlockQueue(cache)
        self._futures = {}

    async def run(self, what, *arguments):
        loop = asyncio.get_running_loop()
        number = getattr(self._queue, what)(*arguments)
        if not self._futures:  # the loop keeps what it watches, so only calls in progress keep the cache
            loop.add_reader(self._queue.fileno(), self._end, loop)
        self._futures[number] = loop.create_future()
        return await self._futures[number]

    def _end(self, loop):
        for number, results in self._queue.completions():
            future = self._futures.pop(number)
            if not future.done():
                future.set_result(results)
        if not self._futures:
            loop.remove_reader(self._queue.fileno())


def _leading(found):
    return found.index(False) if False in found else len(found)


def _with_timeout(uri, deadline):
    """The URI with a timeout, so that a server that hangs does not hold the threads of the cache."""
    if uri.startswith("ros2s+local:") or "timeout=" in uri.partition("?")[2]:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}timeout={max(1, -int(-deadline // 1))}"

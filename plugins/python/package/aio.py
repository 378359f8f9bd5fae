"""Requests of asyncio's tasks: a queue of the library for each event loop, which watches its descriptor. No threads."""
import asyncio
import collections
import errno
import os
import weakref

from ros2store import _ros2store

DEPTH = 1024


class _Batch:
    """Requests that one task waits for."""
    __slots__ = ("future", "results", "left")

    def __init__(self, future, count):
        self.future, self.results, self.left = future, [None] * count, count

    def done(self, index, result):
        self.results[index] = result
        self.left -= 1
        if self.left == 0:
            _end(self.future, self.results)


class LoopQueue:
    """The queue of an event loop. Used in its thread."""

    def __init__(self, fs, loop):
        self._queue = fs._queue(DEPTH)
        self._loop = weakref.ref(loop)
        self._watching = []  # futures that the next completions end
        self._waiting = collections.deque()  # (submit, batch, index) of requests for which the queue has no room
        loop.add_reader(self._queue.descriptor(), self._reap)

    def close(self):
        """Ends what is in progress."""
        loop = self._loop()
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._queue.descriptor())
        self._finish(self._queue.reap(True))
        while self._waiting:
            _, batch, index = self._waiting.popleft()
            batch.done(index, OSError(errno.EBADF, "the file system is closed"))
        self._queue.close()

    async def one_ended(self):
        """Waits until a request has ended, and returns False if none is in progress."""
        if self._queue.in_progress() == 0:
            return False
        self._watching.append(asyncio.get_running_loop().create_future())
        await self._watching[-1]
        return True

    async def read(self, file, bytes, offset):
        return await self._run_one(file, "read", lambda token: self._queue.read(file._native, bytes, offset, token))

    async def readinto(self, file, buffer, offset):
        return await self._run_one(file, "read", lambda token: self._queue.readinto(file._native, buffer, offset, token))

    async def write(self, file, buffer, offset):
        memory = memoryview(_ros2store.View(buffer, False))  # of a tensor, too
        done = await self._run_one(file, "write", lambda token: self._queue.write(file._native, memory, offset, token))
        # A request writes fewer bytes only if the rest failed. Another one with the rest returns the error.
        while done < len(memory):
            rest, at = memory[done:], offset + done
            count = await self._run_one(file, "write", lambda token: self._queue.write(file._native, rest, at, token))
            if count == 0:
                raise _error("write", file, -errno.EIO)
            done += count
        return done

    async def fsync(self, file):
        await self._run_one(file, "fsync", lambda token: self._queue.fsync(file._native, token))

    async def read_many(self, ranges):
        ranges = [(file._file(), offset, bytes) for file, offset, bytes in ranges]
        read = self._queue.read
        results = await self._run([lambda token, native=file._native, offset=offset, bytes=bytes:
                                   read(native, bytes, offset, token) for file, offset, bytes in ranges])
        return [_error("read", file, result) if isinstance(result, int) else result
                for (file, _, _), result in zip(ranges, results)]

    async def _run_one(self, file, what, submit):
        result, = await self._run([submit])
        if isinstance(result, int) and result < 0:
            raise _error(what, file, result)
        return result

    async def _run(self, submits):
        batch = _Batch(asyncio.get_running_loop().create_future(), len(submits))
        if submits:
            self._waiting.extend((submit, batch, index) for index, submit in enumerate(submits))
            self._submit()
            await batch.future
        for result in batch.results:
            if isinstance(result, Exception):
                raise result
        return batch.results

    def _submit(self):
        while self._waiting:
            submit, batch, index = self._waiting[0]
            if not batch.future.done():
                try:
                    if not submit((batch, index)):
                        return
                except Exception as error:  # it is the task's
                    batch.done(index, error)
            self._waiting.popleft()

    def _reap(self):
        self._finish(self._queue.reap(False))
        self._submit()

    def _finish(self, completions):
        for (batch, index), result in completions:
            batch.done(index, result)
        watching, self._watching = self._watching, []
        for future in watching:
            _end(future, None)


def _end(future, result):
    # Nobody gets the result of a future whose event loop is closed.
    if not future.done() and not future.get_loop().is_closed():
        future.set_result(result)


def _error(what, file, result):
    reason = f"it was opened with mode {file.mode!r}" if result == -errno.EPERM else os.strerror(-result)
    return OSError(-result, f"{what} '{file.name}': {reason}")


def queue_of(fs):
    """The queue of the file system for the running event loop."""
    loop = asyncio.get_running_loop()
    queues = fs.__dict__.setdefault("_queues", weakref.WeakKeyDictionary())
    queue = queues.get(loop)
    if queue is None:
        queue = queues[loop] = LoopQueue(fs, loop)
    return queue


def end_closed_loops(fs):
    """Ends the requests of closed event loops, which nobody else does. Returns whether there is such a loop."""
    queues = fs.__dict__.get("_queues", weakref.WeakKeyDictionary())
    closed = [loop for loop in (each() for each in queues.keyrefs()) if loop is not None and loop.is_closed()]
    ended = [queues.pop(loop, None) for loop in closed]
    for queue in filter(None, ended):
        queue.close()
    return any(ended)

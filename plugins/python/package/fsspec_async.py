"""fsspec's file systems for asyncio: what asynchronous=True gives."""
from ros2store.fsspec import Ros2storeFileSystem, contents_of
from ros2store.fsspec_files import Ranges


class AsyncRos2storeFileSystem(Ros2storeFileSystem):
    """`await fs._cat_file(…)` and others, in the caller's event loop. Reads let other tasks
    run. Other calls are requests that the event loop waits for."""

    async_impl = True

    async def _cat_file(self, path, start=None, end=None, **kwargs):
        return (await self._cat_ranges([path], start, end, on_error="raise"))[0]

    async def _cat(self, path, recursive=False, on_error="raise", **kwargs):
        paths = self._files_of(path, recursive)
        if paths is None:
            return await self._cat_file(path, **kwargs)
        contents = await self._cat_ranges(paths, kwargs.get("start"), kwargs.get("end"),
                                          on_error="raise" if on_error == "raise" else "return")
        return contents_of(paths, contents, on_error)

    async def _walk(self, path, maxdepth=None, **kwargs):
        for each in self.walk(path, maxdepth, **kwargs):
            yield each

    async def _cat_ranges(self, paths, starts, ends, max_gap=None, on_error="return", **kwargs):
        async with Ranges(self, paths, starts, ends, max_gap) as ranges:
            return ranges.results(await self.files.aread_many(ranges.requests), on_error)


def _awaited(name):
    async def call(self, *arguments, **named):
        return getattr(self, name)(*arguments, **named)

    setattr(AsyncRos2storeFileSystem, "_" + name, call)


for _name in ("copy", "cp_file", "du", "exists", "expand_path", "find", "get", "get_file", "glob", "info", "isdir", "isfile",
              "ls", "makedirs", "mkdir", "mv", "pipe", "pipe_file", "put", "put_file", "rm", "rm_file", "rmdir", "size", "sizes",
              "touch"):
    _awaited(_name)

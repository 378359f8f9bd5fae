"""fsspec's file systems ros2s, ros2s+local and ros2s+dpu, which fsspec finds by the package's entry points.

    fsspec.open("ros2s+dpu://HOST/pool/main/a.csv")
    pandas.read_csv("ros2s+local:///pool/main/a.csv", storage_options={"dir": "/srv/ros2s"})

A URL is the URI of a file: its query (?dir=…) and storage options of the same names are parts of the container's URI.
In a file system, paths are absolute in the container.

ros2slocal:// and ros2sdpu:// mean ros2s+local:// and ros2s+dpu://, for libraries that know no "+" in a URL: xarray takes
such a URL for a path of this machine."""
import datetime
import errno
import fnmatch
import os
import posixpath
import stat
from urllib.parse import quote, unquote

from fsspec import AbstractFileSystem
from fsspec.callbacks import _DEFAULT_CALLBACK
from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.implementations.local import LocalFileSystem, make_path_posix
from fsspec.utils import common_prefix, isfilelike, stringify_path

import ros2store
from ros2store.file_system import is_unfinished
from ros2store.fsspec_files import NEW_PERMISSIONS, BufferedFile, CompressedFile, TextFile, hidden_beside

# The scheme of a container's URI for each protocol.
SCHEMES = {"ros2s": "ros2s", "ros2s+local": "ros2s+local", "ros2s+dpu": "ros2s+dpu",
           "ros2slocal": "ros2s+local", "ros2sdpu": "ros2s+dpu"}
# Of a container's URI. Others in a URL are left to the library, which refuses them.
PARAMETERS = ("dir", "socket", "provider", "timeout", "durability", "rados", "user", "metadata", "data")
# Options that fsspec itself has for each file system.
OPTIONS_OF_FSSPEC = ("use_listings_cache", "listings_expiry_time", "max_paths", "skip_instance_cache", "batch_size",
                     "default_cache_type", "default_block_size", "asynchronous", "loop")
LINKS_MAX = 40


def _split(url):
    """The container's URI without its query, the path in the container, and the parameters of a URL."""
    scheme, _, rest = url.partition("://")
    rest, _, query = rest.partition("?")
    authority, _, names = rest.partition("/")
    pool, _, names = names.partition("/")
    container, _, path = names.partition("/")
    # Other than in a form, '+' is no space: provider=ucx+tcp.
    pairs = [each.partition("=")[::2] for each in query.split("&") if each]
    return f"{SCHEMES.get(scheme, scheme)}://{authority}/{pool}/{container}", _decoded(path), {key: _decoded(value) for key, value in pairs}


def _decoded(text):
    return unquote(text, errors="surrogateescape")


def _encoded(text):
    return quote(str(text), safe="/~:,;+", errors="surrogateescape")


class Ros2storeFileSystem(AbstractFileSystem):
    """A container as a file system of fsspec.

    `uri` is the container's URI, such as ros2s+dpu://HOST/pool/main; `parameters` are those of a URI: dir, socket,
    provider, timeout and others. With `auto_mkdir` missing directories of a new file are made. With `asynchronous` it is
    an AsyncRos2storeFileSystem.

    pipe, put, copy and files opened with "w" are atomic: the file gets its name when it is complete. It takes the
    permissions of a file that it replaces, and a link is followed. Errors are those of ros2store."""

    protocol = tuple(SCHEMES)
    root_marker = "/"
    blocksize = 1 << 22

    def __new__(cls, *arguments, asynchronous=False, **options):
        return super().__new__(AsyncRos2storeFileSystem if asynchronous else cls)

    def __init__(self, uri=None, auto_mkdir=True, **options):
        super().__init__(**options)
        if uri is None:
            raise ValueError("a file system of ros2store needs uri=, such as ros2s+dpu://HOST/pool/main")
        uri, path, parameters = _split(uri)
        if path:
            raise ValueError(f"uri={uri}/{path}: it names a path, and a file system is a whole container")
        unknown = sorted(set(options) - set(PARAMETERS) - set(OPTIONS_OF_FSSPEC))
        if unknown:
            raise ValueError(f"'{unknown[0]}' is no option of a container: use {', '.join(PARAMETERS)}, auto_mkdir")
        parameters.update({key: options[key] for key in PARAMETERS if options.get(key) is not None})
        query = "&".join(f"{key}={_encoded(value)}" for key, value in parameters.items())
        self.uri = uri + ("?" + query if query else "")
        self.auto_mkdir = auto_mkdir
        self._files = None

    @property
    def files(self):
        """The ros2store.FileSystem, which is opened when it is first used."""
        if self._files is None:
            self._files = ros2store.open(self.uri)
        return self._files

    # ---- URLs
    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        path = stringify_path(path)
        for protocol in SCHEMES:
            if path.startswith(protocol + "://"):
                path = _split(path)[1]
            elif path.startswith(protocol + "::"):
                path = path[len(protocol) + 2:]
        return "/" + path.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(url):
        url = stringify_path(url)
        if not url.startswith(tuple(protocol + "://" for protocol in SCHEMES)):
            return {}
        _, query, parameters = url.partition("?")
        return {"uri": _split(url)[0] + query + parameters}

    def unstrip_protocol(self, name):
        """The URL of a path."""
        name = stringify_path(name)
        if "://" in name:
            return name
        uri, _, query = self.uri.partition("?")
        return uri + _encoded(self._strip_protocol(name)) + ("?" + query if query else "")

    # ---- names
    def _described(self, path, attributes, is_link=False):
        kind = {stat.S_IFDIR: "directory", stat.S_IFREG: "file"}.get(stat.S_IFMT(attributes.st_mode), "other")
        return {"name": path, "size": attributes.st_size, "type": kind, "islink": is_link,
                "created": attributes.st_ctime, "mtime": attributes.st_mtime, "mode": attributes.st_mode,
                "uid": attributes.st_uid, "gid": attributes.st_gid, "ino": attributes.st_ino,
                "nlink": attributes.st_nlink}

    def _described_link(self, path):
        target = self.files.readlink(path)
        try:
            attributes = self.files.stat(path)
        except OSError:
            attributes = self.files.lstat(path)
        return {**self._described(path, attributes, True), "destination": target}

    def info(self, path, **kwargs):
        """Name, size in bytes, type ("file", "directory", "other") and attributes. FileNotFoundError."""
        path = self._strip_protocol(path)
        attributes = self.files.lstat(path)
        return self._described_link(path) if stat.S_ISLNK(attributes.st_mode) else self._described(path, attributes)

    def ls(self, path, detail=True, **kwargs):
        """The entries of a directory, or of a file itself, in few requests."""
        path = self._strip_protocol(path)
        try:
            entries = self.files.scandir(path)
        except NotADirectoryError:
            return [self.info(path)] if detail else [path]
        if not detail:
            return [posixpath.join(path, name) for name, _ in entries]
        return [self._described_link(posixpath.join(path, name)) if stat.S_ISLNK(attributes.st_mode)
                else self._described(posixpath.join(path, name), attributes) for name, attributes in entries]

    def exists(self, path, **kwargs):
        """Whether the path leads to anything."""
        return self.files.exists(self._strip_protocol(path))

    def lexists(self, path, **kwargs):
        """Whether the path exists, if only as a link to nothing."""
        path = self._strip_protocol(path)
        return self.files.exists(path) or self.files.islink(path)

    def isdir(self, path):
        """Whether the path leads to a directory."""
        return self.files.isdir(self._strip_protocol(path))

    def isfile(self, path):
        """Whether the path leads to a regular file."""
        return self.files.isfile(self._strip_protocol(path))

    def islink(self, path):
        """Whether the path is a symbolic link."""
        return self.files.islink(self._strip_protocol(path))

    def created(self, path):
        """When the attributes were last changed."""
        return datetime.datetime.fromtimestamp(self.info(path)["created"], datetime.timezone.utc)

    def modified(self, path):
        """When the content was last changed."""
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], datetime.timezone.utc)

    def mkdir(self, path, create_parents=True, **kwargs):
        """Makes a directory. FileExistsError."""
        path = self._strip_protocol(path)
        if create_parents:
            self.files.makedirs(path)
        else:
            self.files.mkdir(path)

    def makedirs(self, path, exist_ok=False):
        """Makes a directory and those above it. FileExistsError."""
        self.files.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path):
        """Removes an empty directory."""
        self.files.rmdir(self._strip_protocol(path))

    def rm_file(self, path):
        """Removes a file."""
        self.files.unlink(self._strip_protocol(path))

    def rm(self, path, recursive=False, maxdepth=None):
        """Removes files, and with `recursive` directories with all that is in them."""
        gone = None
        for each in _expanded(self, path):
            if gone is not None and each.startswith(gone + "/"):
                continue
            if recursive and self.isdir(each) and not self.islink(each):
                self.files.rmtree(each)
                gone = each
            else:
                self.rm_file(each)

    def link(self, path1, path2, **kwargs):
        """Makes path2 a second name of the file path1."""
        self.files.link(self._strip_protocol(path1), self._strip_protocol(path2))

    def symlink(self, path1, path2, **kwargs):
        """Makes path2 a symbolic link to path1."""
        self.files.symlink(self._strip_protocol(path1), self._strip_protocol(path2))

    def chmod(self, path, mode):
        """Sets the permission bits."""
        self.files.chmod(self._strip_protocol(path), mode)

    def touch(self, path, truncate=True, **kwargs):
        """Makes an empty file, or sets its times to now, with `truncate` also its size to 0."""
        path = self._strip_protocol(path)
        self._make_parent(path)
        self.files.path(path).touch()
        if truncate:
            self.files.truncate(path, 0)

    def _make_parent(self, path):
        if self.auto_mkdir and not self.files.isdir(self._parent(path)):
            self.files.makedirs(self._parent(path), exist_ok=True)

    # ---- files
    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **kwargs):
        path = self._strip_protocol(path)
        if "r" not in mode:
            self._make_parent(path)
        if mode not in ("rb", "wb", "ab"):
            return self.files.open(path, mode)
        return BufferedFile(self, path, mode, block_size or "default", autocommit, cache_options=cache_options, **kwargs)

    def open(self, path, mode="rb", block_size=None, cache_options=None, compression=None, **kwargs):
        """Opens a file. If the `with` statement of a file that is opened for writing ends in an exception, or that of
        fsspec.open(), nothing of it is seen."""
        if mode.translate({ord("b"): None, ord("t"): None}) != "w":
            return super().open(path, mode, block_size, cache_options, compression, **kwargs)
        text = {key: kwargs.pop(key) for key in ("encoding", "errors", "newline") if "b" not in mode and key in kwargs}
        file = layer = super().open(path, "wb", block_size, cache_options, **kwargs)
        compression = get_compression(self._strip_protocol(path), compression)
        if compression is not None:
            layer = CompressedFile(file, compr[compression](file, mode="w"))
        return layer if "b" in mode else TextFile(file, layer, **text)

    def _target(self, path):
        """The path where a new content of a path goes, to which links lead, and the permissions of the file that it
        replaces, or None."""
        for _ in range(LINKS_MAX):
            attributes, = self._replaced(self._parent(path), [posixpath.basename(path)])
            if attributes is None or not stat.S_ISLNK(attributes.st_mode):
                return path, attributes and attributes.st_mode & 0o777
            path = posixpath.join(self._parent(path), self.files.readlink(path))
        raise OSError(errno.ELOOP, f"'{path}': {os.strerror(errno.ELOOP)}")

    def cat_file(self, path, start=None, end=None, **kwargs):
        """The bytes of a file from `start` to `end`; negative ones count from its end."""
        with self.files.open(self._strip_protocol(path), "rb", 0) as file:
            begin, bytes = _range(file, start, end)
            return file.pread(bytes, begin)

    def cat(self, path, recursive=False, on_error="raise", **kwargs):
        """The content of a file, or {path: content} of a list, a pattern or a directory, read in one batch. With
        on_error="return" an exception takes the place of a content, and with "omit" there is no entry."""
        paths = self._files_of(path, recursive)
        if paths is None:
            return self.cat_file(path, **kwargs)
        contents = self.cat_ranges(paths, kwargs.get("start"), kwargs.get("end"),
                                   on_error="raise" if on_error == "raise" else "return")
        return _contents(paths, contents, on_error)

    def _files_of(self, path, recursive):
        """The files that cat() returns, or None: the path is that of one file."""
        paths = self.expand_path(path, recursive)
        if isinstance(path, str) and paths == [self._strip_protocol(path)]:
            return None
        return [each for each in paths if not self.isdir(each)] if recursive else paths

    def cat_ranges(self, paths, starts, ends, max_gap=None, on_error="return", **kwargs):
        """The bytes of each (path, start, end), read in one batch: each file is opened once. With on_error="return" an
        exception takes the place of the bytes that could not be read."""
        with _Ranges(self, paths, starts, ends, max_gap) as ranges:
            return ranges.results(self.files.pread_many(ranges.requests), on_error)

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        """Makes or replaces a file at once. With mode="create" FileExistsError if it exists."""
        self._pipe_many({self._strip_protocol(path): value}, mode)

    def pipe(self, path, value=None, **kwargs):
        """Makes or replaces a file, or each of {path: value}, at once. Files of one directory are one batch."""
        values = {path: value} if isinstance(path, str) else path
        if not isinstance(values, dict):
            raise ValueError("pipe: path is a str or a dict")
        self._pipe_many({self._strip_protocol(each): data for each, data in values.items()}, **kwargs)

    def _pipe_many(self, values, mode="overwrite", **kwargs):
        is_new = mode == "create"
        directories, batches = {}, {}
        for path, value in values.items():
            directories.setdefault(self._parent(path), {})[posixpath.basename(path)] = value
        for directory, items in directories.items():
            for (name, value), attributes in zip(items.items(), self._replaced(directory, list(items))):
                path, permissions = posixpath.join(directory, name), attributes and attributes.st_mode & 0o777
                if attributes is not None and stat.S_ISLNK(attributes.st_mode) and not is_new:
                    path, permissions = self._target(path)
                batch = self._parent(path), permissions or NEW_PERMISSIONS
                batches.setdefault(batch, []).append((posixpath.basename(path), value))
        for (directory, permissions), items in batches.items():
            for error in self.files.write_many(items, directory, publish=True, new=is_new, mode=permissions):
                if error is not None:
                    raise error

    def _replaced(self, directory, names):
        """The attributes of each name in a directory, or None. The directory is made if it is missing."""
        try:
            return self.files.stat_many(names, directory)
        except FileNotFoundError:
            self._make_parent(posixpath.join(directory, "x"))
            return [None] * len(names)

    def walk(self, path, maxdepth=None, topdown=True, detail=False, **kwargs):
        """Yields (directory, names of directories, names of other files), with `detail` {name: info} of each, of at most
        `maxdepth` levels. Links to directories are not followed, and files that are not complete (.*.part) left out."""
        path = self._strip_protocol(path)
        try:
            found = {posixpath.basename(info["name"]): info for info in self.ls(path)}
        except OSError:
            return
        if list(found) == [posixpath.basename(path)] and self.isfile(path):
            found = {"": found.popitem()[1]}
        directories = {name: info for name, info in found.items() if info["type"] == "directory"}
        files = {name: info for name, info in found.items() if info["type"] != "directory" and not is_unfinished(name)}
        names = (directories, files) if detail else (list(directories), list(files))
        if topdown:
            yield path, *names
        if maxdepth is None or maxdepth > 1:
            for info in directories.values():
                if not info["islink"]:
                    yield from self.walk(info["name"], maxdepth and maxdepth - 1, topdown, detail)
        if not topdown:
            yield path, *names

    # ---- patterns
    def glob(self, path, maxdepth=None, detail=False, **kwargs):
        """The paths that match a pattern: `*`, `?` and `[…]` match within a name, `**` any number of names. `maxdepth`:
        how many names `**` matches at most."""
        path = self._strip_protocol(path)
        parts = path.split("/")[1:]
        fixed = next((i for i, part in enumerate(parts) if _is_pattern(part)), None)
        if fixed is None:
            found = {path: self.info(path)} if self.exists(path) else {}
            return found if detail else list(found)
        parts, base = parts[fixed:], "/" + "/".join(parts[:fixed])
        depth = len(parts) if "**" not in parts else maxdepth and parts.index("**") + maxdepth
        found = self.find(base, maxdepth=depth, withdirs=True, detail=True)
        skip = len(base.rstrip("/")) + 1
        matching = {name: found[name] for name in sorted(found) if _matches(parts, name[skip:].split("/"))}
        return matching if detail else list(matching)

    def expand_path(self, path, recursive=False, maxdepth=None, **kwargs):
        """The paths that a path, a pattern or a list of them stands for, with `recursive` also those below. Without it, a
        path need not exist."""
        return _expanded(self, path, recursive, maxdepth, must_exist=recursive)

    # ---- copies: to another place in the container, from it, and to it
    def _copies(self, source, target, recursive, maxdepth, source_fs, target_is_directory):
        """(from, to) for each file and directory of a copy, by the rules of fsspec: a source goes into a target that is
        a directory or ends in "/"; of a source directory that ends in "/", what is in it."""
        paths = _expanded(source_fs, source, recursive, maxdepth)
        if isinstance(source, str) and (not recursive or maxdepth is not None):
            paths = [path for path in paths if not source_fs.isdir(path)]
        if not isinstance(target, str):
            if len(paths) != len(target):
                raise ValueError("the lists of sources and targets differ in length")
            return list(zip(map(source_fs._strip_protocol, source), target))
        into = target_is_directory or target.endswith("/")
        target = target.rstrip("/")
        if not isinstance(source, str):
            return [(path, f"{target}/{posixpath.basename(path)}") for path in paths]
        if not paths:
            return []
        base = source_fs._strip_protocol(source)
        if _is_pattern(source) and not source_fs.lexists(base):
            base = common_prefix(paths) if len(paths) > 1 else posixpath.dirname(paths[0])
        elif into and not source.endswith("/"):
            base = posixpath.dirname(base)
        return [(path, target + path[len(base.rstrip("/")):]) for path in paths]

    def copy(self, path1, path2, recursive=False, maxdepth=None, on_error=None, **kwargs):
        """Copies files, and with `recursive` directories, in the container. on_error="ignore" skips files that do not
        exist any more, as does `recursive` without on_error."""
        ignores = on_error == "ignore" or (on_error is None and recursive)
        target = [self._strip_protocol(each) for each in path2] if isinstance(path2, (list, tuple)) else self._kept(path2)
        is_directory = isinstance(target, str) and self.isdir(target)
        for from_path, to_path in self._copies(path1, target, recursive, maxdepth, self, is_directory):
            try:
                self.cp_file(from_path, to_path)
            except FileNotFoundError:
                if not ignores:
                    raise

    def _kept(self, path):
        """The path in the container, with a "/" at its end if it had one."""
        stripped = self._strip_protocol(path)
        return stripped + "/" if stringify_path(path).endswith("/") and stripped != "/" else stripped

    def cp_file(self, path1, path2, **kwargs):
        """Copies a file, or makes a directory for a directory."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(path1):
            self.files.makedirs(path2, exist_ok=True)
            return
        self._make_parent(path2)

        def write(hidden, permissions):
            self.files.copy(path1, hidden)
            if permissions is not None:
                self.files.chmod(hidden, permissions)

        self._published(path2, write)

    def _published(self, path, write):
        """Calls write(name, permissions) with a hidden name, and then renames that to the path."""
        path, permissions = self._target(path)
        hidden = hidden_beside(path)
        try:
            write(hidden, permissions)
            self._publish(hidden, path)
        except BaseException:
            self.files.path(hidden).unlink(missing_ok=True)
            raise

    def _publish(self, hidden, path):
        """Renames a file when it is durable, and makes that durable, also in a container with durability=fsync."""
        with self.files.open(hidden, "rb", 0) as file:
            file.fsync()
            self.files.replace(hidden, path)
            file.fsync()

    def mv(self, path1, path2, recursive=False, maxdepth=None, **kwargs):
        """Renames a file or directory at once. Of a pattern or a list, the files are moved one by one, and with
        `recursive` the directories. Into path2 if it is a directory or ends in "/"."""
        target = self._kept(path2)
        is_directory = self.isdir(target) or target.endswith("/")
        sources = _expanded(self, path1)
        is_one = isinstance(path1, str) and sources == [self._strip_protocol(path1)]
        for source in sources:
            if not is_one and not recursive and self.isdir(source):
                continue
            to_path = posixpath.join(target, posixpath.basename(source)) if is_directory else target
            self._make_parent(to_path)
            self.files.rename(source, to_path)

    def get(self, rpath, lpath, recursive=False, callback=_DEFAULT_CALLBACK, maxdepth=None, **kwargs):
        """Copies files, and with `recursive` directories, to this machine."""
        if isinstance(lpath, (list, tuple)):
            lpath, is_directory = list(map(make_path_posix, map(stringify_path, lpath))), False
        else:
            lpath = make_path_posix(stringify_path(lpath))
            is_directory = os.path.isdir(lpath)
        pairs = self._copies(rpath, lpath, recursive, maxdepth, self, is_directory)
        callback.set_size(len(pairs))
        for from_path, to_path in callback.wrap(pairs):
            callback.branch(from_path, to_path, kwargs)
            self.get_file(from_path, to_path, **kwargs)

    def get_file(self, rpath, lpath, callback=_DEFAULT_CALLBACK, outfile=None, **kwargs):
        """Copies a file to this machine, or makes a directory for a directory."""
        if isfilelike(lpath):
            outfile = lpath
        elif self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        with self.files.open(self._strip_protocol(rpath), "rb", 0) as file:
            callback.set_size(file.size())
            if outfile is not None:
                self._pour(file, outfile, callback)
                return
            os.makedirs(os.path.dirname(lpath) or ".", exist_ok=True)
            with open(lpath, "wb", 0) as local:
                self._pour(file, local, callback)

    def put(self, lpath, rpath, recursive=False, callback=_DEFAULT_CALLBACK, maxdepth=None, **kwargs):
        """Copies files, and with `recursive` directories, from this machine. Each file appears when it is complete."""
        local = LocalFileSystem()
        if isinstance(lpath, (list, tuple)):
            lpath = [make_path_posix(stringify_path(each)) for each in lpath]
        else:
            lpath = make_path_posix(stringify_path(lpath))
        target = [self._strip_protocol(each) for each in rpath] if isinstance(rpath, (list, tuple)) else self._kept(rpath)
        is_directory = isinstance(target, str) and self.isdir(target)
        pairs = self._copies(lpath, target, recursive, maxdepth, local, is_directory)
        callback.set_size(len(pairs))
        for from_path, to_path in callback.wrap(pairs):
            callback.branch(from_path, to_path, kwargs)
            self.put_file(from_path, to_path, **kwargs)

    def put_file(self, lpath, rpath, callback=_DEFAULT_CALLBACK, mode="overwrite", **kwargs):
        """Copies a file from this machine, which appears when it is complete, or makes a directory for a directory. With
        mode="create" FileExistsError if it exists."""
        rpath = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            self.files.makedirs(rpath, exist_ok=True)
            return
        if mode == "create" and self.exists(rpath):
            raise FileExistsError(errno.EEXIST, f"put '{rpath}': it exists")
        self._make_parent(rpath)

        def write(hidden, permissions):
            with (open(lpath, "rb", 0) as local,
                  self.files.open(hidden, "xb", 0, permissions=permissions or NEW_PERMISSIONS) as file):
                callback.set_size(os.fstat(local.fileno()).st_size)
                self._pour(local, file, callback)

        self._published(rpath, write)

    def _pour(self, from_file, to_file, callback):
        memory = memoryview(bytearray(self.blocksize))
        while count := from_file.readinto(memory):
            to_file.write(memory[:count])
            callback.relative_update(count)


class AsyncRos2storeFileSystem(Ros2storeFileSystem):
    """What asynchronous=True gives: `await fs._cat_file(…)` and others, in the caller's event loop. Reads let other tasks
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
        return _contents(paths, contents, on_error)

    async def _cat_ranges(self, paths, starts, ends, max_gap=None, on_error="return", **kwargs):
        with _Ranges(self, paths, starts, ends, max_gap) as ranges:
            return ranges.results(await self.files.aread_many(ranges.requests), on_error)


def _awaited(name):
    async def call(self, *arguments, **named):
        return getattr(self, name)(*arguments, **named)

    setattr(AsyncRos2storeFileSystem, "_" + name, call)


for _name in ("copy", "cp_file", "du", "exists", "expand_path", "find", "get", "get_file", "glob", "info", "isdir", "isfile",
              "ls", "makedirs", "mkdir", "mv", "pipe", "pipe_file", "put", "put_file", "rm", "rm_file", "rmdir", "size", "touch",
              "walk"):
    _awaited(_name)


class _Ranges:
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
                self.requests.append((self._opened[path], *_range(self._opened[path], start, end)))
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


def _contents(paths, contents, on_error):
    return {path: content for path, content in zip(paths, contents)
            if on_error != "omit" or not isinstance(content, Exception)}


def _is_pattern(path):
    return not {"*", "?", "["}.isdisjoint(path)


def _matches(parts, names):
    """Whether the names of a path match the parts of a pattern."""
    if not parts:
        return not names
    if parts[0] == "**":
        least = 1 if len(parts) == 1 else 0
        return any(_matches(parts[1:], names[count:]) for count in range(least, len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], parts[0]) and _matches(parts[1:], names[1:])


def _expanded(fs, path, recursive=False, maxdepth=None, must_exist=True):
    """The paths of `fs` that a path, a pattern or a list of them stands for, sorted."""
    if maxdepth is not None and maxdepth < 1:
        raise ValueError("maxdepth is at least 1")
    out = set()
    for each in [path] if isinstance(path, (str, os.PathLike)) else path:
        each = fs._strip_protocol(each)
        if not (must_exist or _is_pattern(each)):
            out.add(each)
            continue
        exists = fs.lexists(each)
        if not exists and not _is_pattern(each):
            raise FileNotFoundError(errno.ENOENT, f"'{each}': not found")
        # The pattern counts as a level.
        roots, depth = ([each], maxdepth) if exists else (_glob(fs, each, maxdepth), maxdepth and maxdepth - 1)
        out.update(roots)
        if recursive and depth != 0:
            for root in filter(fs.isdir, roots):
                out.update(fs.find(root, maxdepth=depth, withdirs=True))
    if not out:
        raise FileNotFoundError(errno.ENOENT, f"'{path}': nothing matches")
    return sorted(out)


def _glob(fs, pattern, maxdepth):
    return fs.glob(pattern, maxdepth=maxdepth) if isinstance(fs, Ros2storeFileSystem) else fs.glob(pattern)


def _range(file, start, end):
    """The offset and number of bytes of a range whose ends may be None or count from the end."""
    size = file.size() if start is None or end is None or start < 0 or end < 0 else None
    start = 0 if start is None else max(0, size + start) if start < 0 else start
    end = size if end is None else size + end if end < 0 else end
    return start, max(0, end - start)

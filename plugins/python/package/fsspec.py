"""fsspec's file systems ros2s, ros2s+local and ros2s+dpu, which fsspec finds by the package's entry points.

    fsspec.open("ros2s+dpu://HOST/pool/main/a.csv")
    pandas.read_csv("ros2s+local:///pool/main/a.csv", storage_options={"dir": "/srv/ros2s"})

A URL is the URI of a file: its query (?dir=…) and storage options of the same names are parts of the container's URI.
In a file system, paths are absolute in the container.

ros2slocal:// and ros2sdpu:// mean ros2s+local:// and ros2s+dpu://, for libraries that know no "+" in a URL: xarray takes
such a URL for a path of this machine."""
import datetime
import errno
import os
import posixpath
import stat
from urllib.parse import quote, unquote

from fsspec import AbstractFileSystem
from fsspec.callbacks import _DEFAULT_CALLBACK
from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.implementations.local import LocalFileSystem, make_path_posix
from fsspec.utils import isfilelike, stringify_path

import ros2store
from ros2store.file_system import is_unfinished
from ros2store.fsspec_files import BufferedFile, CompressedFile, Ranges, TextFile, hidden_beside, permissions_of, range_of
from ros2store.fsspec_paths import above, copies, expanded, is_pattern, matches

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
        if asynchronous:
            from ros2store.fsspec_async import AsyncRos2storeFileSystem as cls
        return super().__new__(cls)

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
            info = self.info(path)  # raises if a directory of the path is a file
            return [info] if detail else [path]
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
        """Removes files, and with `recursive` directories with all that is in them, or with what is in `maxdepth` levels:
        then a directory with more stays."""
        if recursive and maxdepth is not None:
            self._rm_levels(path, maxdepth)
            return
        removed = set()
        for each in expanded(self, path):
            if not removed.isdisjoint(above(each)):
                continue
            if recursive and self.isdir(each) and not self.islink(each):
                self.files.rmtree(each)
                removed.add(each)
            else:
                self.rm_file(each)

    def _rm_levels(self, path, maxdepth):
        for each in reversed(expanded(self, path, True, maxdepth)):
            if not self.isdir(each) or self.islink(each):
                self.rm_file(each)
                continue
            try:
                self.rmdir(each)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise

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
        compression = get_compression(self._strip_protocol(path), compression)
        file = layer = super().open(path, "wb", block_size, cache_options, **kwargs)
        try:
            if compression is not None:
                layer = CompressedFile(file, compr[compression](file, mode="w"))
            return layer if "b" in mode else TextFile(file, layer, **text)
        except BaseException:
            file.give_up()
            raise

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
            begin, bytes = range_of(file, start, end)
            return file.pread(bytes, begin)

    def cat(self, path, recursive=False, on_error="raise", **kwargs):
        """The content of a file, or {path: content} of a list, a pattern or a directory, read in one batch. With
        on_error="return" an exception takes the place of a content, and with "omit" there is no entry."""
        paths = self._files_of(path, recursive)
        if paths is None:
            return self.cat_file(path, **kwargs)
        contents = self.cat_ranges(paths, kwargs.get("start"), kwargs.get("end"),
                                   on_error="raise" if on_error == "raise" else "return")
        return contents_of(paths, contents, on_error)

    def _files_of(self, path, recursive):
        """The files that cat() returns, or None: the path is that of one file."""
        paths = self.expand_path(path, recursive)
        if isinstance(path, str) and paths == [self._strip_protocol(path)]:
            return None
        return [each for each in paths if not self.isdir(each)] if recursive else paths

    def cat_ranges(self, paths, starts, ends, max_gap=None, on_error="return", **kwargs):
        """The bytes of each (path, start, end), read in one batch: each file is opened once. With on_error="return" an
        exception takes the place of the bytes that could not be read."""
        with Ranges(self, paths, starts, ends, max_gap) as ranges:
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
                batch = self._parent(path), permissions_of(permissions)
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

    def walk(self, path, maxdepth=None, topdown=True, on_error="omit", detail=False, **kwargs):
        """Yields (directory, names of directories, names of other files), with `detail` {name: info} of each, of at most
        `maxdepth` levels. Links to directories are not followed, and files that are not complete (.*.part) left out. A
        directory that cannot be read is left out, with on_error="raise" raises, and else on_error(error) is called. With
        `topdown` the caller may remove names of directories."""
        path = self._strip_protocol(path)
        try:
            found = {posixpath.basename(info["name"]): info for info in self.ls(path)}
        except OSError as error:
            if on_error == "raise":
                raise
            if callable(on_error):
                on_error(error)
            return
        if list(found) == [posixpath.basename(path)] and self.isfile(path):
            found = {"": found.popitem()[1]}
        directories = {name: info for name, info in found.items() if info["type"] == "directory"}
        files = {name: info for name, info in found.items() if info["type"] != "directory" and not is_unfinished(name)}
        names = (directories, files) if detail else (list(directories), list(files))
        if topdown:
            yield path, *names
        if maxdepth is None or maxdepth > 1:
            for info in [found[name] for name in names[0]]:
                if not info["islink"]:
                    yield from self.walk(info["name"], maxdepth and maxdepth - 1, topdown, on_error, detail)
        if not topdown:
            yield path, *names

    # ---- patterns
    def glob(self, path, maxdepth=None, detail=False, **kwargs):
        """The paths that match a pattern: `*`, `?` and `[…]` match within a name, `**` any number of names. `maxdepth`:
        how many names `**` matches at most."""
        path = self._strip_protocol(path)
        parts = path.split("/")[1:]
        fixed = next((i for i, part in enumerate(parts) if is_pattern(part)), None)
        if fixed is None:
            found = {path: self.info(path)} if self.exists(path) else {}
            return found if detail else list(found)
        parts, base = parts[fixed:], "/" + "/".join(parts[:fixed])
        depth = len(parts) if "**" not in parts else maxdepth and parts.index("**") + maxdepth
        found = self.find(base, maxdepth=depth, withdirs=True, detail=True, **kwargs)
        skip = len(base.rstrip("/")) + 1
        matching = {name: found[name] for name in sorted(found) if matches(parts, name[skip:].split("/"))}
        return matching if detail else list(matching)

    def expand_path(self, path, recursive=False, maxdepth=None, **kwargs):
        """The paths that a path, a pattern or a list of them stands for, with `recursive` also those below. Without it, a
        path need not exist."""
        return expanded(self, path, recursive, maxdepth, must_exist=recursive)

    # ---- copies: to another place in the container, from it, and to it
    def copy(self, path1, path2, recursive=False, maxdepth=None, on_error=None, **kwargs):
        """Copies files, and with `recursive` directories, in the container. on_error="ignore" skips files that do not
        exist any more, as does `recursive` without on_error."""
        ignores = on_error == "ignore" or (on_error is None and recursive)
        target = [self._strip_protocol(each) for each in path2] if isinstance(path2, (list, tuple)) else self._kept(path2)
        is_directory = isinstance(target, str) and self.isdir(target)
        for from_path, to_path in copies(self, path1, target, recursive, maxdepth, is_directory):
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

    def _published(self, path, write, is_new=False):
        """Calls write(name, permissions) with a hidden name, and then renames that to the path, with `is_new` only if
        that does not exist."""
        path, permissions = (path, None) if is_new else self._target(path)
        hidden = hidden_beside(path)
        try:
            write(hidden, permissions)
            self._publish(hidden, path, is_new)
        except BaseException:
            self.files.path(hidden).unlink(missing_ok=True)
            raise

    def _publish(self, hidden, path, is_new=False):
        """Renames a file when it is durable, and makes that durable, also in a container with durability=fsync."""
        with self.files.open(hidden, "rb", 0) as file:
            file.fsync()
            (self.files._rename_new if is_new else self.files.replace)(hidden, path)
            file.fsync()

    def mv(self, path1, path2, recursive=False, maxdepth=None, **kwargs):
        """Renames a file or directory at once. Of a pattern or a list, the files are moved one by one, and with
        `recursive` the directories. Into path2 if it is a directory or ends in "/"."""
        target = self._kept(path2)
        is_directory = self.isdir(target) or target.endswith("/")
        sources = expanded(self, path1)
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
        pairs = copies(self, rpath, lpath, recursive, maxdepth, is_directory)
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
            with open(lpath, "wb") as local:  # with a buffer: its writes are whole
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
        pairs = copies(local, lpath, target, recursive, maxdepth, is_directory)
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
        is_new = mode == "create"
        if is_new and self.lexists(rpath):  # before its data is sent
            raise FileExistsError(errno.EEXIST, f"put '{rpath}': it exists")
        self._make_parent(rpath)

        def write(hidden, permissions):
            with (open(lpath, "rb", 0) as local,
                  self.files.open(hidden, "xb", 0, permissions=permissions_of(permissions)) as file):
                callback.set_size(os.fstat(local.fileno()).st_size)
                self._pour(local, file, callback)

        self._published(rpath, write, is_new)

    def _pour(self, from_file, to_file, callback):
        memory = memoryview(bytearray(self.blocksize))
        while count := from_file.readinto(memory):
            to_file.write(memory[:count])
            callback.relative_update(count)


def contents_of(paths, contents, on_error):
    return {path: content for path, content in zip(paths, contents)
            if on_error != "omit" or not isinstance(content, Exception)}

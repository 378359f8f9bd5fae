"""Paths of fsspec: what patterns and lists of paths stand for, and where a copy goes."""
import errno
import fnmatch
import os
import posixpath

from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import common_prefix


def above(path):
    """The directories above a path, without the root."""
    while (path := posixpath.dirname(path)) != "/":
        yield path


def is_pattern(path):
    return not {"*", "?", "["}.isdisjoint(path)


def matches(parts, names):
    """Whether the names of a path match the parts of a pattern."""
    if not parts:
        return not names
    if parts[0] == "**":
        least = 1 if len(parts) == 1 else 0
        return any(matches(parts[1:], names[count:]) for count in range(least, len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], parts[0]) and matches(parts[1:], names[1:])


def expanded(fs, path, recursive=False, maxdepth=None, must_exist=True):
    """The paths of `fs` that a path, a pattern or a list of them stands for, sorted."""
    if maxdepth is not None and maxdepth < 1:
        raise ValueError("maxdepth is at least 1")
    out = set()
    for each in [path] if isinstance(path, (str, os.PathLike)) else path:
        each = fs._strip_protocol(each)
        if not (must_exist or is_pattern(each)):
            out.add(each)
            continue
        exists = fs.lexists(each)
        if not exists and not is_pattern(each):
            raise FileNotFoundError(errno.ENOENT, f"'{each}': not found")
        # The pattern counts as a level.
        roots, depth = ([each], maxdepth) if exists else (_globbed(fs, each, maxdepth), maxdepth and maxdepth - 1)
        out.update(roots)
        if recursive and depth != 0:
            for root in filter(fs.isdir, roots):
                out.update(fs.find(root, maxdepth=depth, withdirs=True, on_error=_raise_unless_gone))
    if not out:
        raise FileNotFoundError(errno.ENOENT, f"'{path}': nothing matches")
    return sorted(out)


def _globbed(fs, pattern, maxdepth):
    if isinstance(fs, LocalFileSystem):
        return fs.glob(pattern)
    return fs.glob(pattern, maxdepth=maxdepth, on_error=_raise_unless_gone)


def _raise_unless_gone(error):
    """So that a copy of a directory is whole, or an error."""
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error


def copies(source_fs, source, target, recursive, maxdepth, target_is_directory):
    """(from, to) for each file and directory of a copy, by the rules of fsspec: a source goes into a target that is
    a directory or ends in "/"; of a source directory that ends in "/", what is in it."""
    paths = expanded(source_fs, source, recursive, maxdepth)
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
    if is_pattern(source) and not source_fs.lexists(base):
        base = common_prefix(paths) if len(paths) > 1 else posixpath.dirname(paths[0])
    elif into and not source.endswith("/"):
        base = posixpath.dirname(base)
    return [(path, target + path[len(base.rstrip("/")):]) for path in paths]

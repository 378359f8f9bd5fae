"""Compares two file trees: what `lstat` says of each name, and the bytes."""

import hashlib
import os
import stat
from pathlib import Path


def entries(root):
    """Returns every name below a directory with what `lstat` says of it, and link targets."""
    root = os.fsencode(root)
    found = {}
    inodes = {}
    for directory, names, files in os.walk(root):
        names.sort()  # the order of the walk too: a hard link's first name is the same on both sides
        for name in names + sorted(files):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            kind = stat.S_IFMT(status.st_mode)
            relative = os.path.relpath(path, root)
            value = {"mode": oct(status.st_mode), "owner": (status.st_uid, status.st_gid),
                     "modified": status.st_mtime_ns}
            if kind == stat.S_IFREG:
                value["size"] = status.st_size
                if status.st_nlink > 1:
                    value["first name"] = inodes.setdefault(status.st_ino, relative)
            elif kind == stat.S_IFLNK:
                value["target"] = os.readlink(path)
            found[relative] = value
    return found


def different(one, other):
    """Returns lines that say how two trees differ, in what `lstat` says of each name and in the bytes."""
    left, right = entries(one), entries(other)
    lines = [f"  only in one: {name!r}" for name in sorted(left.keys() ^ right.keys())]
    for name in left.keys() & right.keys():
        lines += [f"  {name!r}: {key} is {left[name].get(key)} and {right[name].get(key)}"
                  for key in left[name] if left[name].get(key) != right[name].get(key)]
    return lines + different_content(one, other)


def different_content(one, other):
    lines = []
    for directory, _, files in os.walk(one):
        for name in files:
            path = Path(directory) / name
            if path.is_symlink() or not path.is_file():
                continue
            copy = Path(other) / path.relative_to(one)
            if sha256(path) != sha256(copy):
                lines.append(f"  {copy}: other bytes")
    return lines


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()

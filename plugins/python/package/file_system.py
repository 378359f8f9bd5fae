"""An opened container."""
import os

from ros2store import _ros2store
from ros2store.files import File, layered

_FLAGS = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "x": os.O_CREAT | os.O_EXCL, "a": os.O_CREAT | os.O_APPEND}


class FileSystem(_ros2store.FileSystem):
    """An opened container. Use it in a `with` statement.

    It pickles as its URI: the copy opens the container again."""

    def __repr__(self):
        return f"<ros2store.FileSystem {self.uri!r}{' closed' if self.closed else ''}>"

    def __reduce__(self):
        return type(self), (self.uri,)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def open(self, path, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *, permissions=0o644):
        """Opens a file as io.open() does, and returns a file of `io` that also has the methods of File.

        `mode`: r, r+, w, w+, x, x+, a or a+, with b for bytes, else for text. `buffering`: 0 for a File, which has no
        buffer (bytes only), 1 for lines (text only), more for the size of the buffer in bytes. A buffered write is
        durable after flush() or close(). `permissions` of a new file are used without the umask.

        Errors: FileNotFoundError, FileExistsError (mode x), IsADirectoryError, NotADirectoryError, PermissionError,
        ValueError (the mode or the layers)."""
        kinds = mode.translate({ord(each): None for each in "bt+"})
        binary, text, plus = "b" in mode, "t" in mode, "+" in mode
        if kinds not in _FLAGS or len(set(mode)) != len(mode) or (binary and text):
            raise ValueError(f"mode '{mode}' is not one of r, r+, w, w+, x, x+, a, a+, with b for bytes")
        if binary and (encoding is not None or errors is not None or newline is not None):
            raise ValueError("a binary file has no encoding, errors or newline")
        access = os.O_RDWR if plus else os.O_RDONLY if kinds == "r" else os.O_WRONLY
        native = self.open_file(path, _FLAGS[kinds] | access, permissions)
        name = path if isinstance(path, bytes) else os.fspath(path)
        file = File(native, name, kinds + "b" + ("+" if plus else ""), self.uri)
        return layered(file, mode, buffering, encoding, errors, newline)

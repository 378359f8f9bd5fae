"""Files in a ros2store container. (Not the Robot Operating System.)

    import ros2store
    with ros2store.open("ros2s+local:///pool/main?dir=/srv/ros2s") as fs:
        with fs.open("a.json", "w") as file:
            json.dump([1, 2], file)

Names are str, bytes or os.PathLike, as for the functions of `os`, or a Path of fs.path(). A path with a leading '/' starts at the
container's root, any other at the path of the URI. Errors are OSError and its subclasses, with the library's
sentence. Calls release the GIL. Any number of threads may use an object. A close lets running calls end first.
"""
from ros2store._ros2store import __version__
from ros2store.files import BufferedFile, File, TextFile
from ros2store.file_system import FileSystem

__all__ = ["BufferedFile", "File", "FileSystem", "TextFile", "open", "__version__"]


def open(uri):
    """Opens the container of a URI and returns its FileSystem.

    Errors: OSError with EINVAL (the URI), FileNotFoundError (no such pool, container or path), EBUSY (the pool's owner
    does not share it), ConnectionError and ENOTCONN (no server answers), PermissionError, EIO. Waits until the recovery
    of an embedded pool has finished."""
    return FileSystem(uri)

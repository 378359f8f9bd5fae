"""The end of a child of multiprocessing. A forked one ends by os._exit(), which closes nothing: its leases would delay
writers elsewhere until the server drops its session. So what is open is closed before."""
import contextlib
import os
import sys
import threading
import weakref

from ros2store import _ros2store

CLOSE_SECONDS = 2  # a child waits no longer, as for a server that does not answer
_open = weakref.WeakSet()  # the native file systems and files, without buffers and queues
_is_after_fork = False  # multiprocessing calls _at_end_of_child() in forked children
_process = None  # the one in which _close_all() is called at the end


def opened(handle):
    """Closes a file system or a file at the end, if this process is such a child."""
    _open.add(handle)
    process = sys.modules.get("multiprocessing.process")
    is_spawned = "--multiprocessing-fork" in sys.orig_argv  # it ends as any program
    if process is not None and process.parent_process() is not None and not is_spawned:
        _at_end_of_child()


def _at_end_of_child(*_):
    global _process
    if _process != os.getpid():
        _process = os.getpid()
        # After the finalizers of others, which may use files.
        sys.modules["multiprocessing.util"].Finalize(None, _close_all, exitpriority=-1000)


def _before_fork():
    global _is_after_fork
    util = sys.modules.get("multiprocessing.util")
    if util is not None and not _is_after_fork:
        _is_after_fork = True
        util.register_after_fork(_before_fork, _at_end_of_child)


def _close_all():
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()  # the end of the process would wait for it, too
    closing = threading.Thread(target=_close, args=(list(_open),), daemon=True)
    closing.start()
    closing.join(CLOSE_SECONDS)


def _close(handles):
    for kind in _ros2store.File, _ros2store.FileSystem:
        for handle in handles:
            if isinstance(handle, kind):
                with contextlib.suppress(OSError):
                    kind.close(handle)


os.register_at_fork(before=_before_fork)

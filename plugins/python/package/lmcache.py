"""LMCache's second level in a container: the class that its adapter `native_plugin` loads.

    {"type": "native_plugin", "module_path": "ros2store.lmcache", "class_name": "Connector",
     "adapter_params": {"uri": "ros2s+dpu:///pool/kv?dir=/srv/ros2s", "deadline": 0.5}}

Written for LMCache's main branch of September 2026 (native_connector_l2_adapter.py). It needs neither LMCache nor torch.
"""
import itertools
import os
import threading

from ros2store.cache import BlockCache, Namespace

REFUSED = (OSError, ValueError, TypeError, BufferError)


class Connector:
    """`uri`, `directory`, `deadline` and `threads` are those of BlockCache. Keys of another `namespace` are others.

    Calls never raise: what cannot be begun ends as a failure. A key that is stored again keeps its block."""

    def __init__(self, uri, *, directory="lmcache", namespace="", deadline=1.0, threads=4):
        self._cache = BlockCache(uri, directory=directory, deadline=deadline, threads=threads)
        self._namespace = Namespace(f"lmcache {namespace}")
        self._lock = threading.Lock()
        self._calls = {}  # of each id: what turns its results into a completion
        self._refused = []
        self._refused_ids = itertools.count(1 << 62)  # the cache counts from 1

    def event_fd(self):
        """Readable while there are completions. It stays open after close()."""
        return self._cache.fileno()

    def submit_batch_get(self, keys, memoryviews):
        """Fills the views. A block of another size than its view is a miss."""
        sizes = [getattr(view, "nbytes", -1) for view in memoryviews]
        return self._submit(lambda names: self._cache.submit_get(names, memoryviews), keys,
                            lambda results: (True, "", [got == size for got, size in zip(results, sizes)]))

    def submit_batch_set(self, keys, memoryviews):
        """Stores the views, which must not change until the completion."""
        return self._submit(lambda names: self._cache.submit_put(names, memoryviews), keys, _stored)

    def submit_batch_exists(self, keys):
        """Looks for keys."""
        return self._submit(self._cache.submit_exists, keys, lambda results: (True, "", results))

    def submit_batch_delete(self, keys):
        """Removes keys. One that is not there counts as removed."""
        return self._submit(self._cache.submit_delete, keys, lambda results: (all(results), "", results))

    def drain_completions(self):
        """Returns (id, whether it succeeded, error, a bool for each key) of the calls that have ended."""
        with self._lock:
            refused, self._refused = self._refused, []
            return refused + [(number, *self._calls.pop(number)(results)) for number, results in self._cache.completions()]

    def close(self):
        """Ends the calls in progress as failures. Their memory is not used any more."""
        self._cache.close()

    def _submit(self, submit, keys, completion):
        # The completion may be there before submit() returns.
        with self._lock:
            try:
                number = submit(self._namespace.keys(keys))
                self._calls[number] = completion
            except REFUSED as error:
                number = next(self._refused_ids)
                self._refused.append((number, False, str(error), [False] * len(keys)))
                os.eventfd_write(self.event_fd(), 1)
            return number


def _stored(results):
    errors = [error for error in results if error is not None and not isinstance(error, FileExistsError)]
    kept = [error is None or isinstance(error, FileExistsError) for error in results]
    return not errors, str(errors[0]) if errors else "", kept

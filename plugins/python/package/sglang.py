"""SGLang's HiCache in a container, by --hicache-storage-backend dynamic.

    {"backend_name": "ros2store", "module_path": "ros2store.sglang", "class_name": "HiCacheRos2store",
     "interface_v1": 1, "uri": "ros2s+dpu:///pool/kv?dir=/srv/ros2s", "deadline": 0.5}

Written for SGLang's main branch of September 2026 (hicache_storage.py, backend_factory.py).
"""
import ctypes
import functools
import logging

from ros2store.cache import BlockCache, Namespace

try:
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorage
except ImportError:
    HiCacheStorage = object

logger = logging.getLogger(__name__)
OPTIONS = ("directory", "deadline", "threads")


def _or(otherwise):
    """A call that returns otherwise(arguments) instead of an exception, which would end SGLang's thread."""
    def of(call):
        @functools.wraps(call)
        def safe(self, *arguments, **named):
            try:
                return call(self, *arguments, **named)
            except Exception as error:  # noqa: BLE001: a cache that fails is a miss
                logger.warning("ros2store: %s: %s", call.__name__, error)
                return otherwise(*arguments, **named)
        return safe
    return of


def _of_each(value):
    return lambda keys, *arguments, **named: [value] * len(keys)


class HiCacheRos2store(HiCacheStorage):
    """Blocks are pages, or the parts of one. What fails is a miss. A key that is stored again keeps its block."""

    def __init__(self, storage_config, kwargs=None):
        extra = storage_config.extra_config or {}
        if "uri" not in extra:
            raise ValueError('the configuration of ros2store.sglang has no "uri"')
        options = {name: extra[name] for name in OPTIONS if name in extra}
        self._cache = BlockCache(extra["uri"], **{"directory": "sglang", **options})
        self._in_parts = bool(extra.get("interface_v1", 0))
        self._namespace = f"sglang {extra.get('namespace', '')} {_namespace_of(storage_config)}"

    def close(self):
        """Ends calls in progress as misses."""
        self._cache.close()

    def register_mem_pool_host(self, mem_pool_host):
        """The memory that batch_get_v1 and batch_set_v1 use."""
        self.mem_pool_host = mem_pool_host

    # ---- what is there
    @_or(lambda key: False)
    def exists(self, key):
        """Whether a page is there."""
        return self._cache.exists_many(self._names([key]))[0]

    @_or(lambda keys, extra_info=None: 0)
    def batch_exists(self, keys, extra_info=None):
        """How many of the first pages are there, one after the other."""
        return self._cache.leading(self._names(keys))

    # ---- pages in the memory of the pool
    @_or(_of_each(False))
    def batch_get_v1(self, keys, host_indices, extra_info=None):
        """Fills pages of the pool. Returns for each whether it has all its parts."""
        parts, buffers = self._parts(len(keys), host_indices)
        names = [name for part in range(parts) for name in self._names(keys, part)]
        results = self._cache.get_many(names, buffers)
        whole = [got == len(buffer) for got, buffer in zip(results, buffers)]
        return [all(whole[i::len(keys)]) for i in range(len(keys))]

    @_or(_of_each(False))
    def batch_set_v1(self, keys, host_indices, extra_info=None):
        """Stores pages of the pool."""
        parts, buffers = self._parts(len(keys), host_indices)
        stored = [True] * len(keys)
        # The first part is what is looked for, so it comes last, and only where the others are there.
        for part in reversed(range(parts)):
            wanted = [i for i in range(len(keys)) if stored[i]]
            results = self._put(self._names([keys[i] for i in wanted], part), [buffers[part * len(keys) + i] for i in wanted])
            for i, result in zip(wanted, results):
                stored[i] = result
        return stored

    # ---- other pools than that of keys and values: none of their pages is stored
    @_or(lambda keys, *arguments, **named: _hits(0))
    def batch_exists_v2(self, keys, pool_transfers=None, extra_info=None):
        """As batch_exists(), and 0 if pages of other pools are needed."""
        return _hits(0 if pool_transfers else self.batch_exists(keys))

    def batch_get_v2(self, transfers, extra_info=None):
        """Misses."""
        return {each.name: [False] * len(each.keys or ()) for each in transfers}

    batch_set_v2 = batch_get_v2

    # ---- pages in tensors
    @_or(lambda *arguments, **named: None)
    def get(self, key, target_location=None, target_sizes=None):
        """The tensor, filled, or None."""
        return self.batch_get([key], [target_location])[0]

    @_or(lambda keys, *arguments, **named: [None] * len(keys))
    def batch_get(self, keys, target_locations=None, target_sizes=None):
        """The tensors, filled, and None for each miss."""
        if target_locations is None or len(target_locations) != len(keys):
            return [None] * len(keys)
        results = self._cache.get_many(self._names(keys), target_locations)
        return [tensor if got == _size_of(tensor) else None for got, tensor in zip(results, target_locations)]

    @_or(lambda *arguments, **named: False)
    def set(self, key, value=None, target_location=None, target_sizes=None):
        """Whether the tensor is stored."""
        return self.batch_set([key], [value])

    @_or(lambda *arguments, **named: False)
    def batch_set(self, keys, values=None, target_locations=None, target_sizes=None):
        """Whether all tensors are stored."""
        if values is None or len(values) != len(keys):
            return False
        return all(self._put(self._names(keys), [_contiguous(value) for value in values]))

    @_or(lambda: False)
    def clear(self):
        """Removes all pages in the directory, also of other ranks. Whether it succeeded."""
        self._cache.clear()
        return True

    def get_stats(self):
        """None: SGLang's own measurements are of other tiers. counters() has those of the cache."""
        return None

    def counters(self):
        """Those of BlockCache."""
        return self._cache.counters()

    def _names(self, keys, part=0):
        kind = f"part {part}" if self._in_parts else "page"
        return Namespace(f"{self._namespace} {kind}").keys(keys)

    def _put(self, names, values):
        return [error is None or isinstance(error, FileExistsError) for error in self._cache.put_many(names, values)]

    def _parts(self, pages, host_indices):
        """The number of parts of a page, and their memory: the first part of each page, then the second…"""
        addresses, sizes = self.mem_pool_host.get_page_buffer_meta(host_indices)
        parts = len(addresses) // pages if pages else 0
        is_without = pages > 0 and parts == 0
        if is_without or len(addresses) != parts * pages or len(sizes) != len(addresses):
            raise ValueError(f"{pages} pages have {len(addresses)} parts of {len(sizes)} sizes")
        memory = [_array_of(size).from_address(address) for address, size in zip(addresses, sizes)]
        return parts, [memory[page * parts + part] for part in range(parts) for page in range(pages)]


# ctypes keeps the type of each size for ever, so there is one of each.
@functools.cache
def _array_of(size):
    return ctypes.c_char * size


def _size_of(tensor):
    return tensor.numel() * tensor.element_size() if hasattr(tensor, "numel") else memoryview(tensor).nbytes


def _contiguous(value):
    return value.contiguous() if hasattr(value, "contiguous") else value


def _hits(pages):
    from sglang.srt.mem_cache.hicache_storage import PoolTransferResult
    return PoolTransferResult(pages, {})


def _namespace_of(config):
    """What ranks must not share. All ranks of an MLA model have the same pages."""
    ranks = [getattr(config, name, None) for name in ("pp_rank", "pp_size", "attn_cp_rank", "attn_cp_size")]
    if not config.is_mla_model:
        ranks += [config.tp_rank, config.tp_size]
    return f"{config.model_name!r} {ranks} {getattr(config, 'is_page_first_layout', None)}"

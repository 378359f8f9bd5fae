"""Tests ros2store.sglang with the calls of SGLang's HiCache: a factory that wants a subclass, a thread that looks and
prefetches in batches of 128 pages, and one that backs up. An exception, or None for a list, would end these threads."""
import abc
import ctypes
import dataclasses
import importlib
import logging
import queue
import sys
import threading
import types
import unittest

from on_pool import OnPool, module, on_cache

BATCH = 128
PAGE = 4  # tokens


# ---- what of SGLang the module and the threads use
@dataclasses.dataclass
class Config:
    tp_rank: int = 0
    tp_size: int = 2
    pp_rank: int = 0
    pp_size: int = 1
    is_mla_model: bool = False
    is_page_first_layout: bool = True
    model_name: str = "meta/llama"
    extra_config: dict = None


@dataclasses.dataclass
class PoolTransferResult:
    kv_hit_pages: int
    extra_pool_hit_pages: dict


class HiCacheStorage(abc.ABC):
    def register_mem_pool_host(self, mem_pool_host):
        self.mem_pool_host = mem_pool_host


for name in ("get", "batch_get", "set", "batch_set", "exists"):
    setattr(HiCacheStorage, name, abc.abstractmethod(lambda self, *arguments: None))
HiCacheStorage.__abstractmethods__ = frozenset(("get", "batch_get", "set", "batch_set", "exists"))


def install():
    stub = types.ModuleType("sglang.srt.mem_cache.hicache_storage")
    stub.HiCacheStorage, stub.PoolTransferResult = HiCacheStorage, PoolTransferResult
    for name in ("sglang", "sglang.srt", "sglang.srt.mem_cache"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules[stub.__name__] = stub


class Pool:
    """Host memory in the layout page_first: all keys, then all values."""
    bytes_per_token = 600

    def __init__(self, tokens):
        self.tokens = tokens
        self.memory = ctypes.create_string_buffer(2 * tokens * self.bytes_per_token)
        self.page_size = PAGE

    def get_page_buffer_meta(self, indices):
        assert len(indices) % PAGE == 0
        addresses = []
        for i in range(0, len(indices), PAGE):
            for half in range(2):
                addresses.append(ctypes.addressof(self.memory) + (half * self.tokens + indices[i]) * self.bytes_per_token)
        return addresses, [PAGE * self.bytes_per_token] * len(addresses)

    def page(self, page):
        size = PAGE * self.bytes_per_token
        return [self.memory[at:at + size] for at in (page * size, self.tokens * self.bytes_per_token + page * size)]

    def fill(self, page, data):
        for half in range(2):
            ctypes.memset(ctypes.addressof(self.memory) + (half * self.tokens + page * PAGE) * self.bytes_per_token, data + half,
                          PAGE * self.bytes_per_token)


def indices(pages):
    return [page * PAGE + token for page in pages for token in range(PAGE)]


class Controller:
    """The two threads of SGLang."""

    def __init__(self, backend, pool):
        self.backend, self.queue, self.done = backend, queue.Queue(), queue.Queue()
        backend.register_mem_pool_host(pool)
        self.threads = [threading.Thread(target=self.serve, daemon=True) for _ in range(2)]
        for each in self.threads:
            each.start()

    def serve(self):
        for call in iter(self.queue.get, None):
            self.done.put(call())

    def run(self, call):
        self.queue.put(call)
        return self.done.get(timeout=60)

    def backup(self, keys, pages):
        def call():
            for begin in range(0, len(keys), BATCH):
                part = keys[begin:begin + BATCH]
                if not all(self.backend.batch_set_v1(part, indices(pages[begin:begin + BATCH]), object())):
                    return False
            return True
        return self.run(call)

    def prefetch(self, keys, pages):
        """How many leading pages were found, and how many loaded."""
        def call():
            found = 0
            for begin in range(0, len(keys), BATCH):
                part = keys[begin:begin + BATCH]
                hits = self.backend.batch_exists(part, object())
                found += hits
                if hits < len(part):
                    break
            loaded = 0
            for begin in range(0, found, BATCH):
                part = keys[begin:min(begin + BATCH, found)]
                results = self.backend.batch_get_v1(part, indices(pages[begin:begin + len(part)]), object())
                for i in range(len(part)):
                    if not results[i]:
                        return found, loaded
                    loaded += 1
            return found, loaded
        return self.run(call)


def keys_of(count, begin=0):
    return [f"{i:064x}" for i in range(begin, begin + count)]


class Embedded(OnPool):
    count = 0

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        install()
        import ros2store.sglang
        cls.module = importlib.reload(ros2store.sglang)
        cls.module.logger.setLevel(logging.ERROR)

    def backend(self, config=None, **options):
        extra = {"backend_name": "ros2store", "module_path": "ros2store.sglang", "class_name": "HiCacheRos2store",
                 "interface_v1": 1, "uri": self.uri, "directory": self.folder, "deadline": 60.0, **options}
        made = getattr(self.module, extra["class_name"])
        assert issubclass(made, HiCacheStorage)
        backend = made(dataclasses.replace(config or Config(), extra_config=extra), {})
        self.addCleanup(backend.close)
        return backend

    def setUp(self):
        super().setUp()
        Embedded.count += 1
        self.folder = f"s/{Embedded.count}"

    def test_backup_and_prefetch(self):
        pool, keys = Pool(300 * PAGE), keys_of(300)
        controller = Controller(self.backend(), pool)
        for page in range(300):
            pool.fill(page, page % 200)
        self.assertEqual(controller.prefetch(keys, range(300)), (0, 0))
        self.assertTrue(controller.backup(keys, list(range(300))))
        self.assertTrue(controller.backup(keys, list(range(1, 300)) + [0]))  # they keep their blocks
        other = Pool(300 * PAGE)
        again = Controller(self.backend(), other)
        self.assertEqual(again.prefetch(keys + keys_of(1, 300), list(range(300))), (300, 300))
        self.assertTrue(pool.memory.raw == other.memory.raw)
        for rank in Config(tp_rank=1), Config(model_name="other"), Config(is_mla_model=True):
            self.assertEqual(self.backend(rank).batch_exists(keys), 0)
        mla = [Config(tp_rank=rank, is_mla_model=True) for rank in range(2)]
        first, second = Controller(self.backend(mla[0]), pool), Controller(self.backend(mla[1]), other)
        self.assertTrue(first.backup(keys[:2], [0, 1]))
        self.assertEqual(second.prefetch(keys[:2], [2, 3]), (2, 2))
        self.assertEqual((other.page(2), other.page(3)), (pool.page(0), pool.page(1)))

    def test_damaged_and_missing_parts_are_misses(self):
        pool, keys = Pool(8 * PAGE), keys_of(4)
        controller = Controller(self.backend(), pool)
        for page in range(4):
            pool.fill(page, page)
        self.assertTrue(controller.backup(keys, [0, 1, 2, 3]))
        names = controller.backend._names(keys, 1)
        with self.fs.open(f"{self.folder}/%{names[1].hex()}", "r+b", 0) as file:
            file.pwrite(b"x", 100)
        self.fs.unlink(f"{self.folder}/%{names[3].hex()}")
        self.assertEqual(controller.backend.batch_get_v1(keys, indices([4, 5, 6, 7])), [True, False, True, False])
        self.assertEqual(controller.prefetch(keys, [4, 5, 6, 7]), (4, 1))
        self.assertTrue(controller.backup(keys, [0, 1, 2, 3]))
        self.assertEqual(controller.prefetch(keys, [4, 5, 6, 7]), (4, 4))
        self.assertEqual(pool.page(7), pool.page(3))

    def test_tensors(self):
        torch = module("torch")
        backend = self.backend(interface_v1=0)
        made = [torch.arange(i, i + 600, dtype=torch.int64).to(torch.bfloat16) for i in range(5)]
        keys = keys_of(6)
        self.assertIs(backend.batch_set(keys[:5], made), True)
        self.assertIs(backend.set(keys[0], made[0].reshape(20, 30).t()), True)  # not contiguous; the key keeps its block
        places = [torch.zeros(600, dtype=torch.bfloat16) for _ in range(6)]
        got = backend.batch_get(keys, places)
        self.assertTrue(all(one is place and torch.equal(one, tensor) for one, place, tensor in zip(got, places, made)))
        self.assertIsNone(got[5])
        self.assertIs(backend.get(keys[2], places[0]), places[0])
        self.assertIsNone(backend.get(keys[2], torch.zeros(601, dtype=torch.bfloat16)))
        self.assertIsNone(backend.get(keys[2], torch.zeros(599, dtype=torch.bfloat16)))
        self.assertEqual((backend.exists(keys[0]), backend.exists(keys[5]), backend.batch_exists(keys)), (True, False, 5))
        self.assertIs(backend.clear(), True)
        self.assertEqual((backend.batch_exists(keys), backend.get_stats()), (0, None))

    def check_misses(self, backend):
        """All calls return what SGLang's threads can use."""
        keys = keys_of(3)
        memory = [bytearray(10) for _ in keys]
        self.assertEqual((backend.exists(keys[0]), backend.batch_exists(keys)), (False, 0))
        self.assertEqual((backend.batch_get_v1(keys, indices([0, 1, 2])), backend.batch_set_v1(keys, indices([0, 1, 2]))),
                         ([False] * 3, [False] * 3))
        self.assertEqual((backend.batch_get(keys, memory), backend.batch_get(keys), backend.get(keys[0], memory[0])),
                         ([None] * 3, [None] * 3, None))
        self.assertEqual((backend.set(keys[0], memory[0]), backend.batch_set(keys, memory)), (False, False))

    def test_wrong_arguments_are_misses(self):
        backend = self.backend()
        self.check_misses_of_v1(backend)
        pool = Pool(8 * PAGE)
        backend.register_mem_pool_host(pool)
        keys = keys_of(3)
        pool.get_page_buffer_meta = lambda indices: ([1, 2], [5, 5])
        self.check_misses_of_v1(backend)
        pool.get_page_buffer_meta = lambda indices: ([], [])
        self.check_misses_of_v1(backend)
        pool.get_page_buffer_meta = lambda indices: None
        self.check_misses_of_v1(backend)
        self.assertEqual((backend.batch_get_v1([], []), backend.batch_set_v1([], []), backend.batch_exists([])), ([], [], 0))
        self.assertEqual((backend.set(keys[0]), backend.set(keys[0], None), backend.batch_set(keys, [b"1"])), (False,) * 3)
        self.assertEqual((backend.get(keys[0]), backend.batch_get(keys, [b"read-only"] * 3)), (None, [None] * 3))
        self.assertEqual((backend.exists(None), backend.batch_exists([None])), (False, 0))
        transfer = types.SimpleNamespace(name="mamba", keys=keys)
        self.assertEqual((backend.batch_get_v2([transfer]), backend.batch_set_v2([transfer])), ({"mamba": [False] * 3},) * 2)
        self.assertEqual(backend.batch_exists_v2(keys, [transfer]), PoolTransferResult(0, {}))
        for extra in {}, None:
            with self.assertRaisesRegex(ValueError, "uri"):
                self.module.HiCacheRos2store(Config(extra_config=extra), {})

    def check_misses_of_v1(self, backend):
        keys = keys_of(3)
        self.assertEqual((backend.batch_get_v1(keys, indices([0, 1, 2])), backend.batch_set_v1(keys, indices([0, 1, 2]))),
                         ([False] * 3, [False] * 3))

    def test_calls_after_close_are_misses(self):
        backend = self.backend()
        backend.register_mem_pool_host(Pool(8 * PAGE))
        backend._cache.put_many(["stays"], [b"1"])
        backend._cache.delete_many = lambda keys: [True] * (len(keys) - 1) + [False]
        self.assertIs(backend.clear(), False)
        del backend._cache.delete_many
        backend.close()
        self.check_misses(backend)
        self.assertIs(backend.clear(), False)

    def test_calls_of_lost_directories_are_misses(self):
        backend = self.backend()
        backend.register_mem_pool_host(Pool(8 * PAGE))
        self.fs.rmtree(self.folder)
        self.check_misses(backend)
        self.assertIs(backend.clear(), False)


class Direct(Embedded):
    scheme, hangs = "ros2s", "engine"

    def test_a_server_that_hangs_is_a_miss(self):
        backend = self.backend(deadline=0.2)
        pool = Pool(8 * PAGE)
        Controller(backend, pool)
        before = pool.memory.raw
        with self.stopped(self.hangs):
            self.check_misses(backend)
        self.assertEqual(pool.memory.raw, before)


class Offload(Direct):
    scheme, hangs = "ros2s+dpu", "dpu"


OffloadOnCache = on_cache(Offload, "test_damaged_and_missing_parts_are_misses", "test_calls_of_lost_directories_are_misses")


if __name__ == "__main__":
    unittest.main()

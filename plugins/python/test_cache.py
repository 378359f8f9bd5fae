"""Tests ros2store.cache: what a batch returns, blocks that are damaged, deadlines, queues, threads, ends."""
import asyncio
import contextlib
import ctypes
import errno
import gc
import mmap
import os
import select
import signal
import struct
import subprocess
import threading
import time
import unittest
import weakref
from concurrent.futures import ThreadPoolExecutor

from on_pool import OnPool, on_cache
from ros2store.cache import BlockCache

FILL = b"\xee"


def block(i, size=5000):
    return bytes([i]) * size


def name_of(key):
    return "%" + (key.encode() if isinstance(key, str) else key).hex()


class Embedded(OnPool):
    count = 0

    def setUp(self):
        super().setUp()
        Embedded.count += 1
        self.folder = f"blocks/{Embedded.count}"
        self.cache = self.opened()

    def tearDown(self):
        self.cache.close()
        super().tearDown()

    def opened(self, **options):
        cache = BlockCache(self.uri, directory=self.folder, **{"deadline": 60.0, **options})
        self.addCleanup(cache.close)
        return cache

    def got(self, keys, size=5000, cache=None):
        buffers = [bytearray(FILL * size) for _ in keys]
        return (cache or self.cache).get_many(keys, buffers), buffers

    # ---- batches
    def test_blocks_are_got_as_they_were_put(self):
        keys = [b"\0", b"\xff" * 64, "text", "\N{SNOWMAN}" * 21, os.urandom(32)]
        sizes = [0, 1, 4096, 5000, 1 << 20]
        blocks = [os.urandom(size) for size in sizes]
        self.assertEqual(self.cache.put_many(keys, blocks), [None] * 5)
        buffers = [bytearray(size) for size in sizes]
        self.assertEqual(self.cache.get_many(keys, buffers), sizes)
        self.assertEqual(buffers, blocks)
        self.assertEqual(self.cache.exists_many([*keys, b"text", b"no"]), [True] * 6 + [False])
        with self.opened() as again:
            self.assertEqual(self.got(keys[2:4], 5000, again)[0], sizes[2:4])

    def test_a_miss_leaves_its_buffer(self):
        self.cache.put_many(["a", "c", "large"], [block(1), block(3, 10), block(5, 6000)])
        results, buffers = self.got(["a", "b", "c", "large"])
        self.assertEqual(results, [5000, None, 10, None])
        self.assertEqual(buffers[0], block(1))
        self.assertEqual(buffers[1], FILL * 5000)
        self.assertEqual(buffers[2], block(3, 10) + FILL * 4990)
        self.assertEqual(buffers[3], FILL * 5000)
        counters = self.cache.counters()
        self.assertEqual([counters[name] for name in ("hits", "misses", "failed", "stored", "bytes_got", "bytes_put")],
                         [2, 1, 1, 3, 5010, 11010])

    def test_a_present_key_keeps_its_block(self):
        self.assertEqual(self.cache.put_many(["a", "b"], [block(1), block(2)]), [None, None])
        same, other, shorter, new = self.cache.put_many(["a", "b", "a", "n"], [block(1), block(9), block(1, 4999), block(3)])
        self.assertEqual((same, new), (None, None))
        for each in other, shorter:
            self.assertIsInstance(each, FileExistsError)
        self.assertEqual(self.got(["a", "b"]), ([5000] * 2, [block(1), block(2)]))
        twice = self.cache.put_many(["t", "t", "t"], [block(1), block(1), block(2)])
        self.assertEqual(twice[:2], [None, None])
        self.assertIsInstance(twice[2], FileExistsError)
        counters = self.cache.counters()
        self.assertEqual([counters[name] for name in ("stored", "present", "refused")],
                         [6, 0, 3] if self.cache_options else [4, 2, 3])

    def test_concurrent_puts_of_a_key_get_one_block(self):
        def put(i):
            with self.opened(threads=1) as cache:
                for turn in range(10):
                    results.append((turn, i, cache.put_many([f"k{turn}"], [block(i, 100)])[0]))

        results = []
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(put, [0, 1, 0, 1]))
        buffers = self.got([f"k{turn}" for turn in range(10)], 100)[1]
        for turn, i, result in results:
            self.assertEqual(result is None, buffers[turn] == block(i, 100))

    def test_calls_of_more_keys_than_a_request_takes(self):
        keys = [struct.pack(">I", i) for i in range(2500)]
        self.assertEqual(self.cache.put_many(keys, [key * 8 for key in keys]), [None] * 2500)
        results, buffers = self.got(keys, 32)
        self.assertEqual(results, [32] * 2500)
        self.assertEqual(buffers, [key * 8 for key in keys])
        self.assertEqual(self.cache.leading(keys * 2 + [b"no"]), 5000)
        self.assertEqual(self.cache.exists_many(keys * 30), [True] * 75_000)  # more than may wait of others
        self.cache.delete_many([keys[2100]])
        self.assertEqual((self.cache.leading(keys), self.cache.leading(keys[2100:]), self.cache.leading([])), (2100, 0, 0))
        large = os.urandom(9 << 20)  # more bytes than a request takes
        self.assertEqual(self.cache.put_many(["l", "m"], [large, large]), [None, None])
        results, buffers = self.got(["l", "m"], len(large))
        self.assertEqual((results, buffers[1] == large), ([len(large)] * 2, True))

    def test_touch_and_delete(self):
        self.cache.put_many(["a", b"\0" * 64], [b"1", b"2"])
        self.assertEqual(sorted(self.fs.listdir(self.folder)), sorted(map(name_of, ["a", b"\0" * 64])))
        path = f"{self.folder}/{name_of('a')}"
        self.fs.utime(path, (0, 5))
        self.assertEqual(self.cache.touch(["a", "no"]), [True, False])
        attributes = self.fs.stat(path)
        self.assertGreater(attributes.st_atime_ns, 1 << 60)
        self.assertEqual(attributes.st_mtime_ns, 5)
        self.assertEqual(self.cache.delete_many(["a", "no"]), [True, True])
        self.assertEqual(self.cache.exists_many(["a", b"\0" * 64]), [False, True])

    def test_keys_that_become_more_are_looked_for(self):
        class Growing:
            count = 0

            def __len__(self):
                self.count += 1
                return self.count ** 8

            def __getitem__(self, i):
                if i >= self.count ** 8:
                    raise IndexError
                return "no"

        self.assertEqual(set(self.cache.exists_many(Growing())), {False})

    def test_memory_of_any_kind(self):
        memory = mmap.mmap(-1, 8192)
        raw = (ctypes.c_char * 4096).from_buffer(memory, 4096)
        self.assertEqual(self.cache.put_many(["a"], [memoryview(bytearray(block(7, 4096)))]), [None])
        self.assertEqual(self.cache.get_many(["a", "a"], [memoryview(memory)[:4096], raw]), [4096] * 2)
        self.assertEqual(memory[:], block(7, 8192))

    def test_wrong_arguments_raise_and_change_nothing(self):
        for keys in (["x" * 65], [""], [b""], ["\N{SNOWMAN}" * 22], b"ab", "ab", [5], [None], ["\ud800"]):
            with self.subTest(keys=keys), self.assertRaises((TypeError, ValueError)):
                self.cache.exists_many(keys)
        for call, buffers, kind in ((self.cache.put_many, [b"1", b"2"], ValueError), (self.cache.put_many, [], ValueError),
                                    (self.cache.put_many, [None], TypeError), (self.cache.get_many, [b"1"], BufferError),
                                    (self.cache.get_many, None, Exception), (self.cache.submit_get, [b"1"], BufferError)):
            with self.subTest(buffers=buffers), self.assertRaises(kind):
                call(["a"], buffers)
        with self.assertRaises(ValueError):
            self.cache.put_many(["a"], [mmap.mmap(-1, 64 << 20)])
        for options in (dict(deadline=0), dict(deadline=float("nan")), dict(deadline=1e9), dict(threads=0), dict(threads=65)):
            with self.subTest(options=options), self.assertRaises(ValueError):
                self.opened(**options)
        with self.assertRaises(NotADirectoryError):
            self.fs.write_many({"file": b""})
            BlockCache(self.uri, directory="file")
        with self.assertRaisesRegex(OSError, "mkdir|not a directory|Not a directory"):
            BlockCache(self.uri, directory="file/below")
        with self.assertRaises(OSError):
            BlockCache("ros2s+local:///absent/main?dir=/absent")
        self.assertEqual(self.fs.listdir(self.folder), [])

    # ---- what is in the container
    def test_damaged_blocks_are_misses_and_go(self):
        keys = [f"k{i}" for i in range(6)]
        self.cache.put_many(keys, [block(i) for i in range(6)])
        files = [f"{self.folder}/{name_of(key)}" for key in keys]
        for path, offset in zip(files, (40, 5031, 12, 16)):  # the block, its end, the checksum, the length
            with self.fs.open(path, "r+b", 0) as file:
                byte = file.pread(1, offset)
                file.pwrite(bytes([byte[0] ^ 1]), offset)
        self.fs.truncate(files[4], 5000)
        results, buffers = self.got(keys)
        self.assertEqual(results, [None] * 5 + [5000])
        self.assertEqual(buffers[:5], [FILL * 5000] * 5)
        self.assertEqual(self.cache.counters()["corrupt"], 5)
        self.assertEqual(self.cache.exists_many(keys), [False] * 5 + [True])
        self.assertEqual(self.cache.put_many(keys, [block(i) for i in range(6)]), [None] * 6)
        self.assertEqual(self.got(keys)[0], [5000] * 6)

    def test_a_block_under_another_name_is_a_miss(self):
        self.cache.put_many(["a"], [block(1)])
        self.fs.rename(f"{self.folder}/{name_of('a')}", f"{self.folder}/{name_of('b')}")
        self.assertEqual(self.got(["b"]), ([None], [FILL * 5000]))

    def test_other_files_are_left_alone(self):
        self.fs.write_many({name_of("a"): b"short", name_of("b"): bytes(5032)}, self.folder)
        self.fs.mkdir(f"{self.folder}/{name_of('c')}")
        self.assertEqual(self.got(["a", "b", "c"])[0], [None] * 3)
        refused = self.cache.put_many(["a", "b", "c"], [block(1)] * 3)
        self.assertTrue(all(isinstance(each, OSError) for each in refused), refused)
        self.assertEqual(self.fs.read_many([name_of("a")], self.folder), [b"short"])
        self.fs.rmtree(self.folder)
        self.assertEqual((self.got(["a"])[0], self.cache.exists_many(["a"])), ([None], [False]))
        self.assertIsInstance(self.cache.put_many(["a"], [b"1"])[0], OSError)

    # ---- deadlines
    def test_late_completions_do_not_touch_the_buffer(self):
        keys = [f"k{i}" for i in range(64)]
        self.cache.put_many(keys, [block(i, 100_000) for i in range(64)])
        hits = 0
        with self.opened(deadline=1e-4) as cache:
            for _ in range(20):
                results, buffers = self.got(keys, 100_000, cache)
                seen = [bytes(buffer) for buffer in buffers]
                self.assertTrue(all((result == 100_000 and data == block(i, 100_000)) or (result is None and data == FILL * 100_000)
                                    for i, (result, data) in enumerate(zip(results, seen))))
                hits += results.count(100_000)
                time.sleep(0.01)
                self.assertEqual(seen, buffers)
            self.assertGreater(cache.counters()["late"], 0)
        self.assertLess(hits, 20 * 64)

    # ---- queues
    def next_completions(self, cache, count=1):
        done = []
        while len(done) < count:
            self.assertTrue(select.select([cache], [], [], 60)[0])
            done += cache.completions()
        return done

    def test_a_queue_returns_each_call_once(self):
        cache = self.cache
        buffers = [bytearray(5000), bytearray(5000)]
        self.assertEqual(cache.completions(), [])
        put = cache.submit_put(["a", "b"], [block(1), block(2)])
        self.assertEqual(self.next_completions(cache), [(put, [None, None])])
        calls = {cache.submit_get(["a", "no"], buffers): [5000, None], cache.submit_exists(["b", "no"]): [True, False],
                 cache.submit_touch(["a"]): [True], cache.submit_exists([]): [], cache.submit_get([], []): []}
        self.assertEqual(dict(self.next_completions(cache, 5)), calls)
        self.assertEqual(buffers[0], block(1))
        self.assertEqual(self.next_completions(cache, 1) if cache.submit_delete(["a"]) else None, [(max(calls) + 1, [True])])
        self.assertFalse(select.select([cache], [], [], 0)[0])

    def test_buffers_live_until_the_completion(self):
        self.cache.put_many(["a"], [block(1)])
        self.cache.submit_get(["a"], [bytearray(5000)])
        memory = bytearray(5000)
        self.cache.submit_get(["a"], [memory])
        with self.assertRaises(BufferError):
            memory.extend(b"more")
        self.next_completions(self.cache, 2)
        memory.extend(b"more")
        self.assertEqual(memory, block(1) + b"more")

    def test_threads_share_a_cache(self):
        def work(number):
            for turn in range(15):
                keys = [f"{number} {turn} {i}" for i in range(4)]
                assert self.cache.put_many(keys, [block(number)] * 4) == [None] * 4
                results, buffers = self.got(keys)
                assert results == [5000] * 4 and buffers == [block(number)] * 4
                assert self.cache.exists_many(keys) == [True] * 4

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(work, range(8)))

    def test_asyncio(self):
        async def use(turn):
            keys = [f"{turn} {i}" for i in range(10)]
            self.assertEqual(await self.cache.aput_many(keys, [block(turn)] * 10), [None] * 10)
            buffers = [bytearray(5000) for _ in keys]
            self.assertEqual(await self.cache.aget_many(keys, buffers), [5000] * 10)
            self.assertEqual(buffers, [block(turn)] * 10)
            self.assertEqual((await self.cache.aexists_many(["no", *keys[:1]]), await self.cache.aleading([*keys, "no"])),
                             ([False, True], 10))
            self.assertEqual((await self.cache.atouch(keys[:1]), await self.cache.adelete_many(keys[:1])), ([True], [True]))

        async def many():
            cancelled = asyncio.ensure_future(self.cache.aexists_many(["a"]))
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.gather(*map(use, range(8)))

        for _ in range(2):  # each has another event loop
            asyncio.run(many())
            self.cache.clear()

    def test_an_event_loop_does_not_keep_a_cache(self):
        async def use():
            cache = BlockCache(self.uri, directory=self.folder)
            await cache.aexists_many(["a"])
            queue = weakref.ref(cache._loops[asyncio.get_running_loop()])
            del cache
            gc.collect()
            self.assertIsNone(queue())

        asyncio.run(use())

    # ---- ends
    def test_after_close_calls_raise_and_completions_are_there(self):
        cache = self.opened()
        with self.assertRaises(ValueError):
            cache.submit_put(["a"], [])
        submitted = {cache.submit_put([f"k{i}" for i in range(200)], [block(1, 50_000)] * 200) for _ in range(20)}
        descriptor = cache.fileno()
        with ThreadPoolExecutor(3) as threads:
            for _ in range(3):
                threads.submit(cache.close)
        done = dict(self.next_completions(cache, 20))
        self.assertEqual(set(done), submitted)
        ends = {getattr(result, "errno", 0) for results in done.values() for result in results}
        self.assertLessEqual(ends, {0, errno.ECANCELED})
        self.assertTrue(cache.closed)
        cache.close()
        for call in (lambda: cache.put_many(["a"], [b"1"]), lambda: cache.exists_many(["a"]), lambda: cache.submit_exists(["a"]),
                     lambda: asyncio.run(cache.aexists_many(["a"]))):
            with self.assertRaises(OSError) as caught:
                call()
            self.assertEqual(caught.exception.errno, errno.EBADF)
        self.assertEqual((cache.completions(), cache.fileno()), ([], descriptor))
        os.fstat(descriptor)

    def test_close_ends_calls_of_other_threads(self):
        cache = self.opened()
        ends = []

        def look():
            with contextlib.suppress(OSError):
                while True:
                    ends.append(cache.exists_many(["a"] * 3000))

        threads = [threading.Thread(target=look) for _ in range(4)]
        for each in threads:
            each.start()
        time.sleep(0.05)
        cache.close()
        for each in threads:
            each.join(60)
            self.assertFalse(each.is_alive())
        self.assertFalse(any(map(any, ends)))

    def test_a_forked_child_must_open_its_own(self):
        self.cache.put_many(["a"], [block(1)])
        child = os.fork()
        if child == 0:
            ends = []
            with contextlib.suppress(BaseException):
                signal.alarm(60)
                try:
                    self.cache.exists_many(["a"])
                except OSError as error:
                    ends.append(error.errno)
                ends.append((self.cache.closed, self.cache.completions()))
                self.cache.close()
                ends.append(self.got(["a"], cache=BlockCache(self.uri, directory=self.folder))[0])
            os._exit(0 if ends == [errno.EBADF, (True, []), [5000]] else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.got(["a"])[0], [5000])

    def test_a_program_may_end_without_close(self):
        code = f"""
import sys
from ros2store.cache import BlockCache
cache = BlockCache({self.uri!r}, directory={self.folder!r})
cache.submit_put(["k%d" % i for i in range(500)], [bytes(20000)] * 500)
kept = [cache]
kept.append(kept)
"""
        done = subprocess.run([os.sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Direct(Embedded):
    scheme, hangs = "ros2s", "engine"

    def test_a_server_that_hangs_is_a_miss_after_the_deadline(self):
        self.cache.put_many(["a", "b"], [block(1), block(2)])
        cache = self.opened(deadline=0.3, threads=2)
        self.assertEqual(self.got(["a"], cache=cache)[0], [5000])
        began = time.monotonic()
        with self.stopped(self.hangs):
            results, buffers = self.got(["a", "b"], cache=cache)
            self.assertEqual((results, buffers), ([None, None], [FILL * 5000] * 2))
            self.assertEqual(cache.exists_many(["x", "y"]), [False, False])
            self.assertIsInstance(cache.put_many(["new"], [block(3)])[0], TimeoutError)
            # Calls beyond what the threads can begin, and beyond what waits.
            ids = [cache.submit_get(["a"], [bytearray(5000)]) for _ in range(10)]
            self.assertEqual(dict(self.next_completions(cache, 10)), {number: [None] for number in ids})
            ids = [cache.submit_exists(["x"] * 9000) for _ in range(9)]
            self.assertEqual(dict(self.next_completions(cache, 9)), {number: [False] * 9000 for number in ids})
            self.assertLess(time.monotonic() - began, 20)
        time.sleep(0.2)
        self.assertEqual(buffers, [FILL * 5000] * 2)
        while self.got(["a", "b"], cache=cache)[0] != [5000, 5000]:
            self.assertLess(time.monotonic(), began + 60)

    def test_close_ends_calls_of_a_server_that_hangs(self):
        cache = self.opened()
        self.cache.put_many(["a"], [block(1)])
        with self.stopped(self.hangs):
            buffer = bytearray(FILL * 5000)
            number = cache.submit_get(["a"], [buffer])
            closes = threading.Thread(target=cache.close)
            closes.start()
            self.assertEqual(self.next_completions(cache), [(number, [None])])
        closes.join()
        self.assertEqual(buffer, FILL * 5000)


class Offload(Direct):
    scheme, hangs = "ros2s+dpu", "dpu"


OffloadOnCache = on_cache(Offload, "test_touch_and_delete", "test_wrong_arguments_raise_and_change_nothing",
                          "test_damaged_blocks_are_misses_and_go", "test_a_block_under_another_name_is_a_miss",
                          "test_other_files_are_left_alone")


class OfBlocks(OnPool):
    """In a container of blocks, which has no directories and evicts."""
    cache_options = "--size", "8MiB"

    def setUp(self):
        super().setUp()
        self.cache = BlockCache(self.uri, directory="of/no/use", deadline=60.0)
        self.addCleanup(self.cache.close)

    def test_blocks_are_the_files(self):
        keys = ["name", b"\0\xff", "%", "\N{SNOWMAN}" * 21, os.urandom(64), "."]
        self.assertEqual(self.cache.put_many(keys, [block(i) for i in range(6)]), [None] * 6)
        self.assertEqual(self.fs.read_many(["name", "%00ff", "%25"]), [block(0), block(1), block(2)])
        same, other = self.cache.put_many(["name", "name"], [block(0), block(1)])
        self.assertIsNone(same)
        self.assertIsInstance(other, FileExistsError)
        buffers = [bytearray(FILL * 5000) for _ in range(8)]
        self.assertEqual(self.cache.get_many([*keys, "no", "name"], [*buffers[:7], buffers[7][:]]), [5000] * 6 + [None, 5000])
        self.assertEqual(buffers[:7], [*map(block, range(6)), FILL * 5000])
        self.assertEqual(self.cache.get_many(["name"], [bytearray(4999)]), [None])
        self.assertEqual((self.cache.leading([*keys, "no"]), self.cache.touch(["name", "no"])), (6, [True, False]))
        self.assertEqual(self.cache.delete_many(["name", "no"]), [True, True])
        self.cache.clear()
        self.assertEqual((self.fs.listdir(), self.cache.exists_many(keys)), ([], [False] * 6))

    def test_pinned_blocks_stay(self):
        keys = [f"pinned-{i}" for i in range(60)]
        self.assertEqual(self.cache.put_many(keys, [block(1, 60_000)] * 60), [None] * 60)
        self.assertEqual(self.cache.pin([*keys[:50], "no"], 60), [True] * 50 + [False])
        self.assertEqual(self.cache.pin(keys[50:], 60), [True] * 10)
        others = [f"other-{i}" for i in range(200)]
        for begin in range(0, 200, 40):
            self.cache.put_many(others[begin:begin + 40], [block(2, 60_000)] * 40)
        self.assertEqual(self.cache.exists_many(keys), [True] * 60)
        present = [key for key, is_there in zip(others, self.cache.exists_many(others)) if is_there]
        self.assertEqual(self.cache.pin(present, 60), [False] * len(present))  # more than half of the budget
        self.assertEqual(asyncio.run(self.cache.aunpin(keys)), [True] * 60)
        number = self.cache.submit_pin(keys[:1], 0.5)
        select.select([self.cache], [], [])
        self.assertEqual(self.cache.completions(), [(number, [True])])
        self.assertEqual(asyncio.run(self.cache.apin(["no"], 1)), [False])
        for seconds in (0, -1, 90_000, float("nan")):
            with self.assertRaises(ValueError):
                self.cache.pin(keys, seconds)

    def test_more_than_the_budget_is_put_and_evicted(self):
        keys = [f"k{i}" for i in range(400)]
        for begin in range(0, 400, 40):
            part = keys[begin:begin + 40]
            self.assertEqual(self.cache.put_many(part, [block(i % 251, 60_000) for i in range(begin, begin + 40)]), [None] * 40)
        buffers = [bytearray(60_000) for _ in keys]
        results = self.cache.get_many(keys, buffers)
        self.assertEqual({*results}, {60_000, None})
        for i, (result, buffer) in enumerate(zip(results, buffers)):
            self.assertEqual(buffer, bytes(60_000) if result is None else block(i % 251, 60_000))


    def test_gets_and_puts_beside_removals_of_their_keys(self):
        keys, size, ends = [f"k{i}" for i in range(20)], 60_000, time.monotonic() + 2
        found = {"got": 0, "missed": 0, "put": 0, "refused": 0}

        def put(turn):
            for result in self.cache.put_many(keys, [block(turn % 200, size)] * 20):
                assert result is None or isinstance(result, FileExistsError), result
                found["refused" if result else "put"] += 1

        def get(turn):
            buffers = [bytearray(FILL * size) for _ in keys]
            results = self.cache.get_many(keys, buffers)
            for result, buffer in zip(results, buffers):
                assert result in (size, None) and buffer == buffer[:1] * size and (buffer[:1] == FILL) == (result is None)
            found["got"] += 20 - results.count(None)
            found["missed"] += results.count(None)

        def delete(turn):
            assert all(self.cache.delete_many(keys[turn % 20::4]))

        def evict(turn):
            self.cache.put_many([f"other {turn} {i}" for i in range(40)], [block(1, size)] * 40)

        def repeat(call):
            turn = 0
            while time.monotonic() < ends:
                call(turn)
                turn += 1

        with ThreadPoolExecutor(5) as threads:
            list(threads.map(repeat, (put, get, get, delete, evict)))
        self.assertTrue(all(found.values()), found)
        self.assertEqual([self.cache.counters()[name] for name in ("corrupt", "late")], [0, 0])


class OfBlocksDirect(OfBlocks):
    scheme = "ros2s"


class OfBlocksOffload(OfBlocks):
    scheme = "ros2s+dpu"


if __name__ == "__main__":
    unittest.main()

"""A cache container that several use: keys of a container, another DPU, tenants beside each other, rights that end, and
processes that die."""
import base64
import contextlib
import ctypes
import json
import mmap
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
import urllib.request
from unittest import mock

import ros2store
from on_pool import OnPool, ros2store_command
from ros2store.cache import BlockCache
from test_blocks import BLOCK, GET, PUT, Calls, facts

MARK = b"these bytes are secret. "


def block(i, size=BLOCK):
    return bytes([i % 251]) * size


@contextlib.contextmanager
def certificates(directory):
    with mock.patch.dict(os.environ, ROS2STORE_CERTS=str(directory)):
        yield


class OnCache(OnPool):
    scheme, cache_options = "ros2s+dpu", ("--size", "16MiB")

    @property
    def engine(self):
        return self.uri.replace("ros2s+dpu", "ros2s")

    def opened(self, uri=None, **options):
        cache = BlockCache(uri or self.uri, **{"deadline": 60.0, **options})
        self.addCleanup(cache.close)
        return cache

    def wait_for(self, uri):
        began = time.monotonic()
        while True:
            try:
                ros2store.open(uri).close()
                return
            except OSError:
                self.assertLess(time.monotonic(), began + 60)
                time.sleep(0.05)

    def got(self, cache, keys, size=BLOCK):
        buffers = [bytearray(size) for _ in keys]
        return cache.get_many(keys, buffers), buffers


class Damaged(OnCache):
    scheme = "ros2s"

    def corrupt_reads(self):
        """What the engine has counted."""
        status = json.loads(ros2store_command("status", self.directory, "--json"))
        address = next(each.partition(" ")[2] for daemon in status["daemons"] for each in daemon["addresses"]
                       if daemon["program"] == "ros2store-engine" and each.startswith("metrics "))
        password = pathlib.Path(self.directory, "run/engine.metrics").read_text().strip()
        request = urllib.request.Request(f"http://{address}/metrics", headers={
            "Authorization": f"Basic {base64.b64encode(f'any:{password}'.encode()).decode()}"})
        with urllib.request.urlopen(request, timeout=60) as metrics:
            found = re.search(r"^ros2store_engine_fetch_corrupt_total.* (\S+)$", metrics.read().decode(), re.MULTILINE)
        return float(found[1])

    def test_damaged_block_is_a_counted_miss_and_can_be_put_again(self):
        keys, blocks = [b"one", b"two", b"three"], [os.urandom(BLOCK) for _ in range(3)]
        cache = self.opened()
        self.assertEqual(cache.put_many(keys, blocks), [None] * 3)
        cache.close()
        ros2store_command("down", self.directory)
        device = pathlib.Path(self.directory, "device-0")
        content = device.read_bytes()
        places = [place.start() for place in re.finditer(re.escape(blocks[1][8192:8256]), content)]
        self.assertNotEqual(places, [])
        with device.open("r+b") as file:
            for place in places:
                os.pwrite(file.fileno(), bytes([content[place] ^ 1]), place)
        ros2store_command("up", self.directory)
        cache = self.opened()
        self.assertEqual(self.corrupt_reads(), 0)
        results, buffers = self.got(cache, keys)
        self.assertEqual(results, [BLOCK, None, BLOCK])
        self.assertEqual((buffers[0], buffers[2]), (blocks[0], blocks[2]))
        self.assertEqual(self.corrupt_reads(), 1)
        self.assertEqual(cache.exists_many(keys), [True, False, True])
        other = os.urandom(BLOCK)
        self.assertEqual(cache.put_many(keys[1:2], [other]), [None])
        self.assertEqual(self.got(cache, keys[1:2]), ([BLOCK], [bytearray(other)]))


class Encrypted(OnCache):
    """Its keys are at the DPU, and not at the engine."""
    cache_options = *OnCache.cache_options, "--encryption", "aes-256-gcm", "--key", "k"

    @classmethod
    def setUpClass(cls):
        keys = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        (keys / "k.key").write_text("7" * 64)
        (keys / "k.key").chmod(0o600)
        cls.enterClassContext(mock.patch.dict(os.environ, ROS2STORE_KEYS=str(keys)))
        super().setUpClass()
        ros2store_command("down", cls.directory)
        with open(f"{cls.directory}/dpu.yaml", "a") as settings:
            settings.write(f"\nencryption: {{keys: {keys}}}\n")
        ros2store_command("up", cls.directory)

    def test_neither_keys_nor_bytes_are_on_the_devices(self):
        keys = [b"secret prompt %04d" % i for i in range(100)] + [b"s", bytes(range(64))]
        blocks = [(MARK + b"%d" % i) * (37 * i + 1) for i in range(len(keys))]
        cache = self.opened()
        self.assertEqual(cache.put_many(keys, blocks), [None] * len(keys))
        self.assertEqual(cache.put_many(keys, blocks), [None] * len(keys))
        self.assertIsInstance(cache.put_many(keys[:1], [b"others"])[0], FileExistsError)
        for uri in self.uri, self.engine:  # this program has the key, too
            with self.opened(uri) as reader:
                buffers = [bytearray(len(each)) for each in blocks]
                self.assertEqual(reader.get_many(keys, buffers), [len(each) for each in blocks])
                self.assertEqual(buffers, blocks)
                self.assertEqual(reader.leading([*keys, b"absent"]), len(keys))
                self.assertEqual(reader.touch([keys[5], b"absent"]), [True, False])
        self.assertEqual(len(self.fs.listdir()), len(keys))
        self.assertEqual(self.fs.read_many(["s"]), [blocks[100]])
        self.assertEqual(cache.pin(keys[:3], 60), [True] * 3)
        self.assertEqual(cache.delete_many(keys[:2]), [True] * 2)
        self.assertEqual(cache.exists_many(keys[:3]), [False, False, True])
        cache.close()
        self.fs.close()
        ros2store_command("down", self.directory)
        for path in pathlib.Path(self.directory).rglob("*"):
            if path.is_file() and path.name not in ("dpu.log", "engine.log"):
                stored = path.read_bytes()
                self.assertFalse(any(each in stored for each in (MARK, b"secret prompt", bytes(range(64)))), path)
        ros2store_command("up", self.directory)
        self.fs = ros2store.open(self.uri)
        self.assertEqual(self.got(self.opened(), keys[2:3], len(blocks[2])), ([len(blocks[2])], [blocks[2]]))


class TwoDpus(OnCache):
    """The second one has other sockets and the same settings."""

    def setUp(self):
        super().setUp()
        first = pathlib.Path(self.directory, "dpu.yaml").read_text()
        settings = pathlib.Path(self.directory, "second.yaml")
        settings.write_text(first.replace("/run/dpu.control", "/run/second.control").replace("/run/dpu.data", "/run/second.data"))
        settings.chmod(0o600)
        self.second = subprocess.Popen([os.environ["ROS2STORE_PROGRAMS"] + "/ros2store-dpu", "--config", settings],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end_second)
        self.enterContext(certificates(f"{self.directory}/certs/hosts"))
        self.through_second = f"ros2s+dpu:///pool/blocks?socket={self.directory}/run/second.control"
        self.wait_for(self.through_second)

    def end_second(self):
        self.second.terminate()
        self.assertEqual(self.second.wait(60), 0)

    def test_puts_and_removals_through_one_are_seen_through_the_other(self):
        one, other = self.opened(), self.opened(self.through_second)
        keys = [f"k{i}" for i in range(8)]
        for turn in range(5):
            self.assertEqual(other.exists_many(keys), [False] * 8)
            self.assertEqual(one.put_many(keys, [block(turn)] * 8), [None] * 8)
            self.assertEqual(self.got(other, keys), ([BLOCK] * 8, [block(turn)] * 8))
            self.assertIsInstance(other.put_many(keys[:1], [block(99)])[0], FileExistsError)
            self.assertEqual(other.delete_many(keys), [True] * 8)
            self.assertEqual(self.got(one, keys)[0], [None] * 8)
            one, other = other, one

    def test_the_budget_is_that_of_both(self):
        caches = self.opened(), self.opened(self.through_second)
        ends = []

        def put(number):
            for i in range(80):
                ends.append(caches[number].put_many([f"{number} {i}"], [block(i)])[0])

        threads = [threading.Thread(target=put, args=(number,)) for number in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(ends, [None] * 160)
        state = facts(self.engine)
        self.assertLessEqual(state["used_bytes"], state["cap_bytes"])
        self.assertGreater(state["cache"]["evicted"], 90)
        keys = [f"{number} {i}" for number in range(2) for i in range(80)]
        there = [cache.exists_many(keys) for cache in caches]
        self.assertEqual(there[0], there[1])
        self.assertEqual(sum(there[0]), state["cache"]["blocks"])


class Neighbours(OnCache):
    def tenant(self, name):
        """Makes a tenant that may write to the cache. Returns its certificates and its URI."""
        hosts = pathlib.Path(self.directory, "certs/hosts")
        ros2store_command("certs", "issue", str(hosts), name)
        own = pathlib.Path(self.base, name)
        own.mkdir()
        for source, target in (("ca.crt", "ca.crt"), (f"{name}.crt", "client.crt"), (f"{name}.key", "client.key")):
            (own / target).write_bytes((hosts / source).read_bytes())
            (own / target).chmod(0o600)
        ros2store_command("tenant", "create", self.directory, name, "--subject", f"CN={name}", "--write", "blocks")
        uri = f"ros2s+dpu:///pool/blocks?socket={self.directory}/run/dpu.control"
        with certificates(own):
            self.wait_for(uri)
        return own, uri

    def test_a_flood_of_misses_of_one_tenant_leaves_the_other_its_pace(self):
        own, uri = self.tenant("flooder")
        cache = self.opened()
        keys = [f"mine {i}" for i in range(16)]
        self.assertEqual(cache.put_many(keys, [block(i, 65536) for i in range(16)]), [None] * 16)

        def p99(seconds=2.0):
            took, ends = [], time.monotonic() + seconds
            while time.monotonic() < ends:
                began = time.monotonic()
                self.assertEqual(self.got(cache, keys[:1], 65536)[0], [65536])
                took.append(time.monotonic() - began)
            return sorted(took)[len(took) * 99 // 100]

        alone = p99()
        flood = f"""
from ros2store.cache import BlockCache
import os, select
cache = BlockCache({uri!r}, deadline=60.0, threads=16)
buffers = [bytearray(4096) for _ in range(1024)]
print("begun", flush=True)
while True:
    for _ in range(8):
        cache.submit_get([os.urandom(32) for _ in range(1024)], buffers)
        cache.submit_exists([os.urandom(32) for _ in range(1024)])
    select.select([cache], [], [])
    cache.completions()
"""
        with subprocess.Popen([sys.executable, "-c", flood], stdout=subprocess.PIPE,
                              env={**os.environ, "ROS2STORE_CERTS": str(own)}) as other:
            try:
                self.assertEqual(other.stdout.readline(), b"begun\n")
                beside = p99()
            finally:
                other.kill()
        self.assertLess(beside, max(10 * alone, 1))
        self.assertEqual(self.got(cache, keys, 65536)[0], [65536] * 16)

    def test_gets_end_with_the_right(self):
        own, uri = self.tenant("guest")
        mine = self.opened()
        with certificates(own):
            cache = self.opened(uri, deadline=5.0)
        keys = [f"k{i}" for i in range(16)]
        self.assertEqual(mine.put_many(keys, [block(i) for i in range(16)]), [None] * 16)
        seen, stop = [], threading.Event()

        def get():
            while not stop.is_set():
                results, buffers = self.got(cache, keys)
                seen.append(all(result is None or buffer == block(i)
                                for i, (result, buffer) in enumerate(zip(results, buffers))))
                if not any(results):
                    return

        threads = [threading.Thread(target=get) for _ in range(3)]
        for each in threads:
            each.start()
        time.sleep(0.2)
        ros2store_command("tenant", "revoke", self.directory, "guest")
        for each in threads:
            each.join(30)
        stop.set()
        self.assertFalse(any(each.is_alive() for each in threads))
        self.assertTrue(all(seen))
        self.assertGreater(len(seen), 3)
        self.assertEqual((cache.exists_many(keys), cache.leading(keys)), ([False] * 16, 0))
        self.assertEqual(self.got(mine, keys)[0], [BLOCK] * 16)


class Ends(OnCache):
    """What a process leaves behind that dies in the middle."""

    def begin_child(self, work):
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(60)
                work()
                os._exit(0)
            finally:
                traceback.print_exc()
                os._exit(1)
        return child

    def end_of(self, child, kill_after=None):
        """0 after the work, 1 after an exception, or the negative number of a signal."""
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def put_until_killed(self):
        cache = BlockCache(self.uri, deadline=60.0)
        for i in range(10**6):
            keys = [f"{os.getpid()} {i} {j}" for j in range(8)]
            cache.put_many(keys, [key.encode() * (BLOCK // len(key)) for key in keys])

    def check_that_blocks_are_whole(self, cache):
        names = self.fs.listdir()
        self.assertGreater(len(names), 8)
        for name in names:
            key = bytes.fromhex(name[1:]) if name[0] == "%" else name.encode()
            whole = key * (BLOCK // len(key))
            self.assertEqual(self.got(cache, [key], len(whole)), ([len(whole)], [whole]))

    def test_daemons_that_are_killed_under_puts_leave_whole_blocks_or_none(self):
        chance = random.Random(1)
        children = [self.begin_child(self.put_until_killed) for _ in range(2)]
        self.fs.close()
        for daemon in ("engine", "dpu") * 3:
            time.sleep(0.3 + chance.random() / 4)
            os.kill(self.pid_of(daemon), signal.SIGKILL)
            ros2store_command("up", self.directory)
        self.assertEqual([self.end_of(child, 0.3) for child in children], [-signal.SIGKILL] * 2)
        self.fs = ros2store.open(self.uri)
        with self.opened() as cache:
            self.check_that_blocks_are_whole(cache)
        state = facts(self.engine)
        self.assertLessEqual(state["used_bytes"], state["cap_bytes"])
        ros2store_command("down", self.directory)
        ros2store_command("pool", "check", self.directory)
        ros2store_command("up", self.directory)

    def test_a_host_that_dies_in_a_put_leaves_whole_blocks_or_none(self):
        chance, cache = random.Random(1), self.opened()
        for _ in range(6):
            child = self.begin_child(self.put_until_killed)
            self.assertEqual(self.end_of(child, 0.3 + chance.random() / 4), -signal.SIGKILL)
        self.check_that_blocks_are_whole(cache)
        cache.clear()
        state = facts(self.engine)
        self.assertEqual(state["cache"]["blocks"], 0)
        self.assertLess(state["used_bytes"], BLOCK, "nothing stays reserved")
        self.assertEqual(cache.put_many(["after"], [block(1)]), [None])

    def test_a_process_that_unmaps_memory_in_flight_harms_itself_alone(self):
        cache = self.opened()
        keys = [f"k{i}" for i in range(16)]
        self.assertEqual(cache.put_many(keys, [block(i) for i in range(16)]), [None] * 16)

        def unmap():
            calls = Calls(self.uri)
            blocks = calls.blocks([key.encode() for key in keys])
            unmapping = ctypes.CDLL(None).munmap
            kept = []  # to free one would unmap what is there since
            for turn in range(50):
                memory = mmap.mmap(-1, 16 * BLOCK)
                kept.append(memory)
                base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
                for i, each in enumerate(blocks):
                    each.data = base + i * BLOCK
                calls.register(base, 16 * BLOCK)
                while calls.submit((GET, PUT)[turn % 2], blocks, turn) == 0:
                    calls.reap()
                assert unmapping(ctypes.c_void_p(base), ctypes.c_size_t(16 * BLOCK)) == 0

        # It may end by its own access to the memory, but neither hangs nor ends otherwise.
        self.assertIn(self.end_of(self.begin_child(unmap)), (0, -signal.SIGSEGV, -signal.SIGBUS))
        self.assertEqual(self.got(cache, keys), ([BLOCK] * 16, [block(i) for i in range(16)]))
        self.assertEqual(cache.put_many(["new"], [block(99)]), [None])


if __name__ == "__main__":
    unittest.main()

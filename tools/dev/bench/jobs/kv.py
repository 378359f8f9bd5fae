"""A program of `./dev bench kv`: puts, gets and looks for blocks, in a container by ros2store.cache, or in a directory as
vLLM's file tier does.

    kv.py PLACE blocks MIB | kv.py PLACE gets SECONDS | kv.py PLACE look SECONDS
    PLACE: a directory, or the URI of a container

Each line that it prints is a workload, its operations and its seconds, and the 99th percentile in µs; `cpu`: seconds of
its processes since they opened the place."""
import mmap
import os
import random
import resource
import select
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "tests/mount"))
import file_tier  # noqa: E402

BLOCK, IN_FLIGHT = 256 << 10, 16
TOGETHER = 1024
PROMPT = 3600
GOT_AGAIN = 256
PROMPTS_LEAST = 3


def tell(workload, operations, seconds, *p99_us):
    print(workload, operations, f"{seconds:.6f}", *(f"{each:.1f}" for each in p99_us), flush=True)


def keys_of(workload, count):
    """As many keys of 32 bytes, always the same."""
    return [random.Random(f"{workload} {i}").randbytes(32) for i in range(count)]


class Directory:
    """vLLM's file tier in a directory."""

    def __init__(self, place, name):
        self.root = f"{place}/{name}"
        os.makedirs(self.root, exist_ok=True)
        self.tier = file_tier.FileTier(self.root)

    def put(self, keys, blocks):
        self.tier.store_all(keys, blocks)

    def get(self, keys, blocks):
        self.tier.load_all(keys, blocks)

    get_together = get

    def make(self, keys):
        for key in keys:
            path = self.tier.path(key)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))

    def exists(self, keys):
        return [self.tier.lookup(key) for key in keys]

    def leading(self, keys):
        found = self.exists(keys)
        return found.index(False) if False in found else len(found)

    def clear(self):
        shutil.rmtree(self.root)


class Container:
    """ros2store.cache, in a directory or in a container of blocks."""

    def __init__(self, uri, name):
        from ros2store.cache import BlockCache
        self.cache = BlockCache(uri, directory=name, deadline=100)
        self.clear = self.cache.clear
        self.exists, self.leading = self.cache.exists_many, self.cache.leading

    def run(self, submit, keys, blocks):
        """Blocks by themselves, as many as are in flight, as they come from a server's requests."""
        results, at = [], 0
        for key, block in zip(keys, blocks):
            if at - len(results) == IN_FLIGHT:
                select.select([self.cache], [], [])
                results += [result for _, found in self.cache.completions() for result in found]
            submit([key], [block])
            at += 1
        while len(results) < at:
            select.select([self.cache], [], [])
            results += [result for _, found in self.cache.completions() for result in found]
        return results

    def put(self, keys, blocks):
        assert not any(self.run(self.cache.submit_put, keys, blocks))

    def get(self, keys, blocks):
        assert set(self.run(self.cache.submit_get, keys, blocks)) == {BLOCK}

    def get_together(self, keys, blocks):
        """As many blocks as are in flight, in a call."""
        for begin in range(0, len(keys), IN_FLIGHT):
            end = begin + IN_FLIGHT
            assert set(self.cache.get_many(keys[begin:end], blocks[begin:end])) == {BLOCK}

    def make(self, keys):
        for begin in range(0, len(keys), TOGETHER):
            some = keys[begin:begin + TOGETHER]
            assert not any(self.cache.put_many(some, [b"1"] * len(some)))


def places_of(keys):
    """Memory for a block of each key, which is used again and again."""
    memory = memoryview(mmap.mmap(-1, 2 * IN_FLIGHT * BLOCK))
    memory[:] = os.urandom(len(memory))
    parts = [memory[i * BLOCK:(i + 1) * BLOCK] for i in range(2 * IN_FLIGHT)]
    return [parts[i % len(parts)] for i in range(len(keys))]


def blocks(place, mib):
    """Blocks that differ, put in order and got at random."""
    keys = keys_of("blocks", int(mib) * 4)
    places = places_of(keys)
    for name, work in (("put", place.put), ("get", place.get)):
        began = time.monotonic()
        work(keys, places)
        tell(name, len(keys), time.monotonic() - began)
        random.Random(1).shuffle(keys)
    place.clear()


def gets(place, seconds):
    """Gets of the same blocks, again and again. They stay for the next turn."""
    keys, seconds = keys_of("gets", GOT_AGAIN), int(seconds)
    places = places_of(keys)
    if not all(place.exists(keys)):
        place.put(keys, places)
    got, began = 0, time.monotonic()
    while time.monotonic() - began < seconds:
        place.get_together(random.sample(keys, len(keys)), places)
        got += len(keys)
    tell("gets", got, time.monotonic() - began)


def look(place, seconds):
    """Look-ups of keys of which all are there, and of prompts. The keys stay for the next turn."""
    keys, seconds = keys_of("look", PROMPT), int(seconds)
    if not place.exists(keys[-1:])[0]:
        place.make(keys)
    looked, began = 0, time.monotonic()
    while time.monotonic() - began < seconds:
        assert all(place.exists(random.sample(keys, TOGETHER)))
        looked += TOGETHER
    tell("exists", looked, time.monotonic() - began)
    took = []
    while len(took) < PROMPTS_LEAST or sum(took) < seconds:
        prompt = random.sample(keys, PROMPT)
        began = time.monotonic()
        assert place.leading(prompt) == PROMPT
        took.append(time.monotonic() - began)
    tell("prompt", len(took), sum(took), sorted(took)[len(took) * 99 // 100] * 1e6)


def spent():
    return sum(each.ru_utime + each.ru_stime for each in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


if __name__ == "__main__":
    opened = (Container if "://" in sys.argv[1] else Directory)(sys.argv[1], sys.argv[2])
    before = spent()
    {each.__name__: each for each in (blocks, gets, look)}[sys.argv[2]](opened, *sys.argv[3:])
    tell("cpu", 1, spent() - before)

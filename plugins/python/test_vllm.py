"""Tests ros2store.vllm with the calls of vLLM's TieringOffloadingManager: one thread, a look-up for each key of a request
in each step, jobs on blocks of the primary tier, whose memory is released after shutdown(). The methods have the names of
two times."""
import abc
import collections
import dataclasses
import enum
import importlib
import logging
import mmap
import os
import resource
import signal
import sys
import time
import types
import unittest

from on_pool import OnPool, on_cache

STRIDE = 6000
STEPS_MOST = 20_000
Context = collections.namedtuple("Context", "req_id")


# ---- what of vLLM the module uses
class LookupResult(enum.Enum):
    MISS = 0
    HIT = 1
    RETRY = 2


@dataclasses.dataclass
class JobResultOfMay:
    job_id: int
    success: bool


@dataclasses.dataclass
class JobResultOfSeptember:
    job_id: int
    success: bool
    successful_keys: list = None
    transfer_time: float = None


class FileMapper:
    """Names of blocks: model, rank, hash."""

    @classmethod
    def from_offloading_spec(cls, root, spec):
        mapper = cls()
        mapper.begin = f"{root}/{spec.model}_r{spec.rank}"
        return mapper

    def get_file_name(self, key):
        return f"{self.begin}/{bytes(key).hex()}.bin"


class Base(abc.ABC):
    def __init__(self, offloading_spec, primary_kv_view, tier_type):
        self._offloading_spec, self._primary_kv_view, self.tier_type = offloading_spec, primary_kv_view, tier_type


COMMON = ("lookup", "submit_store", "submit_load")
MAY, SEPTEMBER = "May", "September"
OF_TIME = {
    MAY: (JobResultOfMay, (*COMMON, "get_finished", "shutdown"), dict(finished="get_finished", ended="request_finished",
                                                                      begun="get_request_offloading_context", blocks="block_ids")),
    SEPTEMBER: (JobResultOfSeptember, (*COMMON, "get_finished_jobs", "on_new_request", "drain_jobs", "shutdown"),
                dict(finished="get_finished_jobs", ended="on_request_finished", begun="on_new_request", blocks="chunk_ids")),
}


def install(when):
    """The module, with the base class of that time."""
    job_result, abstract, _ = OF_TIME[when]
    base = types.ModuleType("vllm.v1.kv_offload.base")
    if when == SEPTEMBER:
        base.LookupResult = LookupResult
        base.Medium = enum.Enum("Medium", "CPU STORAGE")
    base.RequestOffloadingContext = type("RequestOffloadingContext", (), {})
    tiering = types.ModuleType("vllm.v1.kv_offload.tiering.base")
    tiering.JobResult = job_result
    tiering.SecondaryTierManager = type("SecondaryTierManager", (Base,), {
        name: abc.abstractmethod(lambda self, *arguments: None) for name in abstract})
    mapper = types.ModuleType("vllm.v1.kv_offload.file_mapper")
    mapper.FileMapper = FileMapper
    for name in ("vllm", "vllm.v1", "vllm.v1.kv_offload", "vllm.v1.kv_offload.tiering"):
        sys.modules[name] = types.ModuleType(name)
    for each in (base, tiering, mapper):
        sys.modules[each.__name__] = each
    import ros2store.vllm
    loaded = importlib.reload(ros2store.vllm)
    loaded.logger.setLevel(logging.ERROR)
    return loaded


class Manager:
    """vLLM's manager, with a primary tier of some blocks."""

    def __init__(self, module, when, blocks=64, stride=STRIDE, model="llama", **config):
        self.when, self.calls = when, OF_TIME[when][2]
        self.memory = mmap.mmap(-1, blocks * stride)
        self.view = memoryview(self.memory).cast("B", [blocks, stride])
        self.stride = stride
        self.jobs, self.results, self.next = {}, {}, 0
        tier_class = getattr(module, "Ros2storeTier")
        spec = types.SimpleNamespace(model=model, rank=0)
        self.tier = tier_class(offloading_spec=spec, primary_kv_view=self.view, tier_type="Ros2storeTier", **config)
        results = (LookupResult.HIT, LookupResult.MISS, LookupResult.RETRY) if when == SEPTEMBER else (True, False, None)
        self.hit, self.miss, self.retry = results

    def block(self, number):
        return self.memory[number * self.stride:(number + 1) * self.stride]

    def fill(self, number, data):
        self.memory[number * self.stride:(number + 1) * self.stride] = data * self.stride

    def call(self, what, *arguments):
        return getattr(self.tier, self.calls[what])(*arguments)

    def submit(self, loads, keys, blocks):
        fields = {"job_id": self.next, "keys": keys, "is_promotion": loads, "req_context": Context("r"),
                  self.calls["blocks"]: blocks}
        self.jobs[self.next] = loads
        (self.tier.submit_load if loads else self.tier.submit_store)(types.SimpleNamespace(**fields))
        self.next += 1
        return self.next - 1

    def process(self):
        for result in self.call("finished"):
            assert type(result.job_id) is int and type(result.success) is bool
            self.jobs.pop(result.job_id)  # KeyError: it was reported twice
            self.results[result.job_id] = result

    def result(self, job):
        for _ in range(STEPS_MOST):
            self.process()
            if job in self.results:
                return self.results[job]
            assert self.tier.has_pending_work()
            time.sleep(0.002)
        raise AssertionError("the job does not end")

    def store(self, keys, blocks):
        return self.result(self.submit(False, keys, blocks))

    def load(self, keys, blocks):
        return self.result(self.submit(True, keys, blocks))

    def step(self, keys, request):
        """One look-up of each key; RETRY of one does not keep from the others, a miss does."""
        self.process()
        found = []
        for key in keys:
            found.append(self.tier.lookup(key, request))
            if found[-1] is self.miss:
                break
        if self.when == SEPTEMBER:
            self.tier.on_schedule_end(object())
        return found

    def leading(self, keys, request="r"):
        context = Context(request)
        self.call("begun", context)
        for _ in range(STEPS_MOST):
            found = self.step(keys, context)
            assert all(each in (self.hit, self.miss, self.retry) for each in found), found
            if self.retry not in found:
                self.call("ended", context)
                return found.count(self.hit)
            time.sleep(0.002)
        raise AssertionError("the look-ups do not end")

    def shutdown(self):
        self.tier.shutdown()
        self.view.release()
        self.memory.close()


def keys_of(count, begin=0):
    return [i.to_bytes(4, "big") * 8 + b"\1\0\0\0" for i in range(begin, begin + count)]


class Embedded(OnPool):
    count = 0

    def setUp(self):
        super().setUp()
        Embedded.count += 1
        self.folder = f"v/{Embedded.count}"

    def manager(self, when=SEPTEMBER, module=None, **options):
        config = {"uri": self.uri, "directory": self.folder, "deadline": 60.0, **options}
        manager = Manager(module or install(when), when, **config)
        self.addCleanup(manager.tier.shutdown)
        return manager

    def test_a_prompt_is_stored_found_and_loaded(self):
        for when in MAY, SEPTEMBER:
            with self.subTest(when=when):
                manager, keys = self.manager(when, model=when), keys_of(30)
                for i in range(30):
                    manager.fill(i, bytes([i]))
                self.assertEqual(manager.leading(keys), 0)
                self.assertTrue(manager.store(keys, list(range(30))).success)
                self.assertEqual(manager.leading(keys + keys_of(3, 100)), 30)
                self.assertTrue(manager.load(keys, list(range(59, 29, -1))).success)
                self.assertEqual([manager.block(59 - i) for i in range(30)], [bytes([i]) * STRIDE for i in range(30)])
                self.assertTrue(manager.store(keys, list(range(1, 31))).success)  # they keep their blocks
                manager.shutdown()
                self.assertEqual(manager.tier.has_pending_work(), False)
                again = self.manager(when, model=when)
                self.assertTrue(again.load(keys[7:8], [0]).success)
                self.assertEqual(again.block(0), bytes([7]) * STRIDE)
                self.assertEqual(self.manager(when, model="other").leading(keys), 0)

    def test_a_prompt_of_3600_keys_is_looked_up_in_one_step(self):
        manager, keys = self.manager(blocks=1200, stride=64), keys_of(3600)
        for begin in range(0, 3600, 1200):
            self.assertTrue(manager.store(keys[begin:begin + 1200], list(range(1200))).success)
        self.assertEqual(set(manager.step(keys, Context("r"))), {LookupResult.RETRY})
        self.assertEqual(len(manager.tier._looks), 1)
        self.assertEqual(manager.leading(keys), 3600)
        self.assertEqual(manager.tier._found, {})

    def test_damaged_blocks_are_not_asked_for_again(self):
        manager, keys = self.manager(), keys_of(4)
        for i in range(4):
            manager.fill(i, b"abcd"[i:i + 1])
        self.assertTrue(manager.store(keys, [0, 1, 2, 3]).success)
        name = "%" + manager.tier._names(keys)[2].hex()
        with self.fs.open(f"{self.folder}/{name}", "r+b", 0) as file:
            file.pwrite(b"x", 3000)
        context = Context("request")
        while LookupResult.RETRY in manager.step(keys, context):
            time.sleep(0.002)
        result = manager.load(keys, [10, 11, 12, 13])
        self.assertEqual((result.success, result.successful_keys), (False, [keys[0], keys[1], keys[3]]))
        self.assertEqual((manager.block(12), manager.block(13)), (bytes(STRIDE), b"d" * STRIDE))
        self.assertEqual(manager.step(keys, context), [LookupResult.HIT, LookupResult.HIT, LookupResult.MISS])
        self.assertEqual(manager.leading(keys, "another"), 2)
        self.assertTrue(manager.store(keys, [0, 1, 2, 3]).success)
        self.assertEqual(manager.leading(keys), 4)

    def test_wrong_blocks_and_sizes_fail(self):
        manager, keys = self.manager(namespace="n"), keys_of(2)
        for blocks in ([0], [0, 64], [0, -1], [0, 1, 2]):
            for loads in False, True:
                with self.subTest(blocks=blocks, loads=loads):
                    self.assertFalse(manager.result(manager.submit(loads, keys, blocks)).success)
        self.assertTrue(manager.store([], []).success)
        self.assertTrue(manager.store(keys, [0, 1]).success)
        for stride in STRIDE - 1, STRIDE + 1:
            other = self.manager(namespace="n", stride=stride)
            self.assertEqual((other.leading(keys), other.load(keys, [0, 1]).success), (2, False))
        with self.assertRaisesRegex(ValueError, "dimensions"):
            install(SEPTEMBER).Ros2storeTier(None, memoryview(bytearray(10)), "t", uri=self.uri, namespace="")
        module = install(SEPTEMBER)
        del sys.modules["vllm.v1.kv_offload.file_mapper"]
        with self.assertRaisesRegex(ValueError, "namespace"):
            self.manager(module=module)

    def test_drain_waits_on_any_descriptor_and_ends_in_a_forked_child(self):
        manager, keys = self.manager(), keys_of(4)
        low = [os.open("/dev/null", os.O_RDONLY)]
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        try:
            while low[-1] < 1024:
                low.append(os.dup(low[0]))
            high = self.manager()
        finally:
            for each in low:
                os.close(each)
        self.assertGreater(high.tier._cache.fileno(), 1023)
        for each in manager, high:
            job = each.submit(False, keys, [0, 1, 2, 3])
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                each.tier.drain_jobs()
                os._exit(0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            each.tier.drain_jobs()
            self.assertTrue(each.result(job).success)

    def test_requests_end_in_any_state(self):
        manager, keys = self.manager(), keys_of(5)
        for request in range(5000):
            manager.tier.lookup(keys[request % 5], Context(f"{request}"))
            if request % 2:
                manager.call("ended", Context(f"{request}"))
        manager.process()
        self.assertEqual(manager.leading(keys), 0)
        self.assertLessEqual(len(manager.tier._found), 4096)
        manager.tier.touch(keys, Context("r"))

    def test_touch_sets_the_time_of_a_file(self):
        touching, keys = self.manager(touches=True), keys_of(5)
        touching.store(keys, [0] * 5)
        name = f"{self.folder}/%{touching.tier._names(keys)[0].hex()}"
        self.fs.utime(name, (0, 0))
        touching.tier.touch(keys, Context("r"))
        until = time.monotonic() + 60
        while self.fs.stat(name).st_atime == 0:
            self.assertLess(time.monotonic(), until)

    def test_drain_and_shutdown_in_flight_and_calls_after_it(self):
        manager, keys = self.manager(blocks=400), keys_of(400)
        stores = [manager.submit(False, keys, list(range(400))) for _ in range(4)]
        manager.tier.drain_jobs()
        manager.process()
        self.assertEqual(([manager.results[job].success for job in stores], manager.jobs), ([True] * 4, {}))
        for _ in range(4):
            manager.submit(True, keys, list(range(400)))
        manager.tier.lookup(keys[0], Context("r"))
        manager.shutdown()  # BufferError if its memory were in use
        manager.process()
        self.assertEqual(manager.jobs, {})
        self.assertFalse(manager.result(manager.submit(True, keys[:1], [0])).success)
        self.assertFalse(manager.result(manager.submit(False, keys[:1], [0])).success)
        self.assertEqual(manager.leading(keys[:1], "new"), 0)
        manager.tier.touch(keys)
        manager.tier.drain_jobs()
        manager.tier.shutdown()

    def test_late_loads_fail_and_leave_their_blocks(self):
        manager, keys = self.manager(stride=100_000), keys_of(64)
        for i in range(64):
            manager.fill(i, b"+")
        self.assertTrue(manager.store(keys, list(range(64))).success)
        late = self.manager(stride=100_000, deadline=1e-5)
        for _ in range(10):
            late.memory[:] = bytes(len(late.memory))
            result = late.load(keys, list(range(64)))
            seen = late.memory[:]
            good = keys if result.success else result.successful_keys
            self.assertEqual(seen, b"".join((b"+" if key in good else b"\0") * 100_000 for key in keys))
            self.assertEqual(manager.leading(keys), 64)  # the time of another call
            self.assertEqual(seen, late.memory[:])


class Direct(Embedded):
    scheme, hangs = "ros2s", "engine"

    def test_a_server_that_hangs_is_a_miss(self):
        keys = keys_of(3)
        self.assertTrue(self.manager().store(keys[:2], [0, 1]).success)
        manager = self.manager(deadline=0.3)
        with self.stopped(self.hangs):
            self.assertEqual(manager.leading(keys[1:]), 0)
            self.assertFalse(manager.load(keys[:2], [0, 1]).success)
            self.assertFalse(manager.store(keys[2:], [0]).success)
            manager.submit(True, keys[:2], [0, 1])
            manager.tier.drain_jobs()
            manager.process()
            self.assertEqual(manager.jobs, {})
            began = time.monotonic()
            for _ in range(100):  # nothing waits
                manager.step(keys, Context(os.urandom(4).hex()))
            self.assertLess(time.monotonic() - began, 20)


class Offload(Direct):
    scheme, hangs = "ros2s+dpu", "dpu"


OffloadOnCache = on_cache(Offload, "test_damaged_blocks_are_not_asked_for_again", "test_touch_sets_the_time_of_a_file")


if __name__ == "__main__":
    unittest.main()

"""A secondary tier of vLLM's TieringOffloadingSpec in a container, by module_path.

    {"type": "Ros2storeTier", "module_path": "ros2store.vllm",
     "uri": "ros2s+dpu:///pool/kv?dir=/srv/ros2s", "deadline": 0.5}

Written for vLLM's main branch of 2026 (vllm/v1/kv_offload/tiering/base.py), with the names of May (get_finished,
request_finished, block_ids) and of September (get_finished_jobs, on_request_finished, chunk_ids).
"""
import collections
import dataclasses
import importlib
import logging
import select
import time

from ros2store.cache import BlockCache, Namespace

try:
    from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager
except ImportError:
    SecondaryTierManager = object

    @dataclasses.dataclass
    class JobResult:
        """The result of a job, as vLLM has it."""
        job_id: int
        success: bool

logger = logging.getLogger(__name__)
MAPPERS = ("vllm.v1.kv_offload.file_mapper", "vllm.v1.kv_offload.tiering.fs.file_mapper")
NO_KEY = bytes(36)  # a hash and a group
REQUESTS_MOST = 4096  # whose look-ups are kept; vLLM forgets a request when it has finished
REFUSED = (OSError, ValueError, TypeError, BufferError)


def _of_vllm(name, otherwise=None):
    try:
        return getattr(importlib.import_module("vllm.v1.kv_offload.base"), name, otherwise)
    except ImportError:
        return otherwise


@dataclasses.dataclass
class _Job:
    number: int
    keys: list
    loads: bool
    began: float
    bytes: int


class Ros2storeTier(SecondaryTierManager):
    """`uri`, `directory`, `deadline` and `threads` are those of BlockCache.

    Blocks of different models, layouts and ranks have different keys, by the names of vLLM's own file tier, or by
    `namespace`. `touches`: whether touch() sets the access times of blocks. No method waits for the store, except
    drain_jobs() and shutdown(), until the deadline."""

    medium = getattr(_of_vllm("Medium"), "STORAGE", None)

    def __init__(self, offloading_spec, primary_kv_view, tier_type, *, uri, directory="vllm", namespace=None, deadline=1.0,
                 threads=4, touches=False, **of_base):
        if SecondaryTierManager is not object:
            super().__init__(offloading_spec, primary_kv_view, tier_type, **of_base)
        if primary_kv_view.ndim != 2:
            raise ValueError(f"the view of the primary tier has {primary_kv_view.ndim} dimensions, and not 2")
        self._block_bytes = primary_kv_view.strides[0]
        self._names = Namespace(f"vllm {_namespace_of(offloading_spec) if namespace is None else namespace}").keys
        self._memory = primary_kv_view.cast("B")
        self._touches = touches
        self._cache = BlockCache(uri, directory=directory, deadline=deadline, threads=threads)
        results = _of_vllm("LookupResult")
        self._hit, self._miss, self._retry = (results.HIT, results.MISS, results.RETRY) if results else (True, False, None)
        self._found = collections.OrderedDict()  # of each request: of each key True, False, or None: not known yet
        self._wanted = []  # (request, key) that the next look-up has
        self._looks = {}  # of each id: its (request, key)
        self._jobs = {}  # of each id
        self._finished = []

    # ---- look-ups: one batch for all keys of a step
    def lookup(self, key, req_context):
        """HIT, MISS, or RETRY until the result is there."""
        request = req_context.req_id
        found = self._found.setdefault(request, {})
        if key not in found:
            if len(self._found) > REQUESTS_MOST:
                self._found.popitem(last=False)
            found[key] = None
            self._wanted.append((request, key))
        elif found[key] is None:
            self._reap()
        known = found[key]
        return self._retry if known is None else self._hit if known else self._miss

    def on_schedule_end(self, context=None):
        """Begins the look-ups of the step."""
        self._look()

    def on_new_request(self, req_context):
        """This tier has no wishes."""
        make = _of_vllm("RequestOffloadingContext")
        return make() if make else None

    def on_request_finished(self, req_context):
        """Forgets the request's look-ups."""
        self._found.pop(req_context.req_id, None)

    get_request_offloading_context, request_finished = on_new_request, on_request_finished

    # ---- jobs
    def submit_store(self, job_metadata):
        """Stores blocks of the primary tier."""
        self._submit(job_metadata, False)

    def submit_load(self, job_metadata):
        """Fills blocks of the primary tier."""
        self._submit(job_metadata, True)

    def get_finished_jobs(self):
        """The jobs that have ended since the last call. Their memory is not used any more."""
        self._look()
        self._reap()
        finished, self._finished = self._finished, []
        return finished

    get_finished = get_finished_jobs

    def has_pending_work(self):
        """Whether jobs or look-ups are in progress."""
        return bool(self._jobs or self._looks or self._wanted or self._finished)

    def touch(self, keys, req_context=None):
        """Sets the access times of blocks, if the tier was told to."""
        if self._touches and not self._cache.closed:
            self._cache.submit_touch(self._names(keys))

    def drain_jobs(self):
        """Returns when no job is in progress, which is at their deadline. In a forked child none ends."""
        ended = select.poll()
        ended.register(self._cache, select.POLLIN)
        is_closed = False
        while self._jobs and not is_closed:
            is_closed = self._cache.closed
            if not is_closed:
                ended.poll(1000)
            self._reap()

    def shutdown(self):
        """Ends what is in progress. The memory of the primary tier is free then."""
        self._cache.close()
        self._reap()
        self._memory.release()

    def counters(self):
        """Those of BlockCache."""
        return self._cache.counters()

    def _submit(self, job, loads):
        keys = list(job.keys)
        blocks = job.chunk_ids if hasattr(job, "chunk_ids") else job.block_ids
        try:
            memory = [self._block(int(block)) for block in blocks]
            submit = self._cache.submit_get if loads else self._cache.submit_put
            number = submit(self._names(keys), memory)
        except REFUSED as error:
            logger.warning("ros2store: job %s: %s", job.job_id, error)
            self._finish(_Job(job.job_id, keys, loads, time.monotonic(), 0), [None if loads else error] * len(keys))
            return
        self._jobs[number] = _Job(job.job_id, keys, loads, time.monotonic(), len(keys) * self._block_bytes)

    def _block(self, number):
        begin = number * self._block_bytes
        if not 0 <= begin < len(self._memory):
            raise ValueError(f"the primary tier has no block {number}")
        return self._memory[begin:begin + self._block_bytes]

    def _look(self):
        wanted, self._wanted = self._wanted, []
        if not wanted:
            return
        try:
            self._looks[self._cache.submit_exists(self._names(key for _, key in wanted))] = wanted
        except REFUSED as error:
            logger.warning("ros2store: look-up: %s", error)
            self._learn(wanted, [False] * len(wanted))

    def _reap(self):
        for number, results in self._cache.completions():
            if number in self._looks:
                self._learn(self._looks.pop(number), results)
            elif number in self._jobs:
                self._finish(self._jobs.pop(number), results)

    def _learn(self, wanted, results):
        for (request, key), is_there in zip(wanted, results):
            if request in self._found:
                self._found[request][key] = is_there

    def _finish(self, job, results):
        if job.loads:
            good = [got == self._block_bytes for got in results]
            failed = {key for key, is_good in zip(job.keys, good) if not is_good}
            # Else a request would ask for a block again and again that looks there and cannot be loaded.
            for found in self._found.values():
                found.update((key, False) for key in failed & found.keys())
        else:
            good = [error is None or isinstance(error, FileExistsError) for error in results]
        success = all(good) and len(good) == len(job.keys)
        known = {"job_id": job.number, "success": success, "transfer_size": job.bytes,
                 "transfer_time": time.monotonic() - job.began}
        if job.loads and not success:
            known["successful_keys"] = [key for key, is_good in zip(job.keys, good) if is_good]
        fields = {field.name for field in dataclasses.fields(JobResult)}
        self._finished.append(JobResult(**{name: value for name, value in known.items() if name in fields}))


def _namespace_of(spec):
    """What vLLM's file tier has before the names of its blocks: model, layout, type and rank."""
    for name in MAPPERS:
        try:
            return importlib.import_module(name).FileMapper.from_offloading_spec("", spec).get_file_name(NO_KEY)
        except ImportError:
            continue
    raise ValueError('this vLLM has no FileMapper: give the tier a "namespace" that names model, layout, type and rank')

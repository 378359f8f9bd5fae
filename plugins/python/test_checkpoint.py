"""Tests checkpoints: of one and of many ranks, saves that fail, and the storage of torch.distributed.checkpoint."""
import abc
import contextlib
import dataclasses
import errno
import importlib
import io
import json
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import types
import unittest
from unittest import mock

import ros2store
from on_pool import OnPool, calls_of

try:
    import torch
except ImportError:
    raise unittest.SkipTest("torch is not installed (python3-torch)") from None

from ros2store import checkpoint, safetensors
from ros2store.checkpoint import Checkpoints
from ros2store.torch import Stream


def state_of(number):
    tied = torch.full((3, 4), float(number))
    return {"step": number, "nested": [torch.arange(number + 1), {"t": tied.t()}], "tied": (tied, tied[:]),
            "parameter": torch.nn.Parameter(torch.ones(2) * number), "complex": torch.ones(2, dtype=torch.complex64),
            "empty": torch.empty(0), "text": "é\udcff", "half": torch.ones(1, dtype=torch.bfloat16)}


def save_as_rank(uri, store, rank, world):
    """A rank of a job of torch.distributed."""
    torch.distributed.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=world)
    stream = Stream(range(10), 4)
    with ros2store.open(uri) as fs:
        checkpoints = Checkpoints(fs, "ranks", timeout=60)
        checkpoints.save("a", {"ranks": (checkpoints.rank, stream.rank, stream.world)})


def save_and_die(uri, run):
    fs = ros2store.open(uri)
    checkpoints = Checkpoints(fs, "ranks", rank=0, world=2, run=run)
    checkpoints.save_async("dies", {"a": torch.zeros(1000)})
    while not any(name.endswith(".saving") for name in fs.listdir("ranks")):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


class Embedded(OnPool):
    def setUp(self):
        super().setUp()
        self.checkpoints = Checkpoints(self.fs, self.id().rpartition(".")[2], timeout=20)
        self.path = self.checkpoints.path

    def test_views_share_their_storage_again(self):
        whole = torch.arange(12.0).reshape(3, 4)
        part = torch.arange(100)[40:60]
        state = {"whole": whole, "row": whole[1], "column": whole[:, 2], "part": part, "bytes": part.view(torch.uint8)[:8],
                 "expanded": torch.ones(1).expand(3), "nothing": whole[:0], "negative": torch.tensor([1j]).conj().imag}
        self.checkpoints.save("a", state)
        got = self.checkpoints.load()
        for name, tensor in state.items():
            self.assertTrue(torch.equal(got[name], tensor), name)
        got["whole"][1, 2] = 99
        self.assertEqual((float(got["row"][2]), float(got["column"][1]), got["expanded"].stride()), (99, 99, (0,)))
        self.assertLess(self.fs.stat(f"{self.path}/a/00000.safetensors").st_size, 4096)

    def test_a_checkpoint_is_removed_while_it_is_loaded(self):
        for name in "a", "b":
            self.checkpoints.save(name, {"name": name})
        with mock.patch.object(self.checkpoints, "latest", side_effect=["gone", "b"]):
            self.assertEqual(self.checkpoints.load(), {"name": "b"})
        entries = self.fs.scandir(self.path)
        before = [("gone", attributes) for name, attributes in entries if name == "a"]
        with mock.patch.object(self.fs, "scandir", side_effect=[before, entries]):
            self.assertEqual(self.checkpoints.list(), ["a", "b"])
        self.fs.unlink(f"{self.path}/b/00000.safetensors")
        for name in None, "gone":
            with self.assertRaises(FileNotFoundError):
                self.checkpoints.load(name)

    def test_a_save_of_the_parent_is_not_the_childs(self):
        self.checkpoints.save_async("a", {"a": torch.zeros(1000)})
        child = os.fork()
        if child == 0:
            try:
                self.checkpoints.wait()
            except OSError as error:
                os._exit(error.errno)
            os._exit(0)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), errno.ECANCELED)
        self.checkpoints.wait()
        self.assertEqual(self.checkpoints.list(), ["a"])

    def test_a_checkpoint_is_synced_before_it_is_published(self):
        """In a container with durability=fsync a change is durable at the next fsync."""
        with calls_of((ros2store.File, "fsync"), (ros2store.FileSystem, "rename")) as calls:
            self.checkpoints.save("a", {"a": torch.zeros(1)})
        # The file of the rank, the marker, and the checkpoint.
        self.assertEqual(calls, ["fsync", "rename", "fsync", "rename", "rename", "fsync"])

    def test_a_publication_that_fails_is_taken_back(self):
        fsync, rename = ros2store.File.fsync, self.fs.rename

        def fsync_or_fail(file):
            if file.name.endswith("/a/checkpoint.json"):
                raise OSError(errno.EIO, "no fsync")
            fsync(file)

        def rename_forward(source, target):
            if ".saving" in target and "/" not in source[len(self.path) + 1:]:
                raise OSError(errno.EIO, "no rename")
            rename(source, target)

        with mock.patch.object(ros2store.File, "fsync", fsync_or_fail):
            with self.assertRaisesRegex(OSError, "^\\[Errno 5\\] no fsync$"):
                self.checkpoints.save("a", {"by": 1})
            self.assertEqual((self.checkpoints.list(), self.fs.listdir(self.path)), ([], [".lock"]))
            with mock.patch.object(self.fs, "rename", rename_forward):
                with self.assertRaisesRegex(OSError, "no fsync.*it may be visible.*no rename"):
                    self.checkpoints.save("a", {"by": 2})
        self.fs.rmtree(self.path + "/a")
        self.checkpoints.save("a", {"by": 3})
        self.assertEqual(self.checkpoints.load(), {"by": 3})

    def test_a_state_is_as_it_was(self):
        self.assertEqual((self.checkpoints.list(), self.checkpoints.latest()), ([], None))
        with self.assertRaisesRegex(FileNotFoundError, "there is no checkpoint"):
            self.checkpoints.load()
        for name, number in (10, 10), ("b\udcff", 2), (b"a", 300):
            self.checkpoints.save(name, state_of(number))
        self.assertEqual(self.checkpoints.list(), ["10", "b\udcff", "a"])
        for name, number in (10, 10), ("b\udcff", 2), (None, 300):
            got, expected = self.checkpoints.load(name), state_of(number)
            with self.subTest(name=name):
                self.assertEqual((got["step"], got["text"]), (number, expected["text"]))
                for one, other in ((got["nested"][0], expected["nested"][0]), (got["nested"][1]["t"], expected["nested"][1]["t"]),
                                   (got["tied"][1], expected["tied"][0]), (got["parameter"], expected["parameter"]),
                                   (got["complex"], expected["complex"]), (got["empty"], expected["empty"]),
                                   (got["half"], expected["half"])):
                    self.assertTrue(torch.equal(one, other) and one.dtype == other.dtype, other)
                self.assertIsInstance(got["parameter"], torch.nn.Parameter)
                got["tied"][0][0, 0] = 5
                self.assertEqual(got["tied"][1][0, 0], 5)
        for name in "", ".a", "a/b", b"a/":
            with self.subTest(name=name), self.assertRaises(ValueError):
                self.checkpoints.save(name, {})
        with self.assertRaises(FileNotFoundError):
            self.checkpoints.load("missing")

    def test_a_state_that_trains_on(self):
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(4)).sum().backward()
        optimizer.step()
        self.checkpoints.save(1, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
        state = self.checkpoints.load()
        other = torch.nn.Linear(4, 4)
        other.load_state_dict(state["model"])
        torch.optim.Adam(other.parameters()).load_state_dict(state["optimizer"])
        self.assertTrue(torch.equal(other.weight, model.weight))

    def test_the_second_saver_of_a_name_fails(self):
        self.checkpoints.save("a", {"by": 1})
        with self.assertRaisesRegex(FileExistsError, "it exists"):
            self.checkpoints.save("a", {"by": 2})
        self.assertEqual(self.checkpoints.load("a"), {"by": 1})
        other = Checkpoints(self.fs, self.path, timeout=20)
        self.checkpoints.save_async("b", {"by": 1})
        other.save_async("b", {"by": 2})
        failed = 0
        for each in self.checkpoints, other:
            try:
                each.wait()
            except FileExistsError:
                failed += 1
        self.assertEqual((failed, self.checkpoints.list()), (1, ["a", "b"]))
        with self.checkpoints._locked(), self.assertRaisesRegex(TimeoutError, "another save to end"):
            Checkpoints(self.fs, self.path, timeout=0.1).save("c", {})

    def test_an_asynchronous_save_has_the_values_of_its_call(self):
        tensor = torch.zeros(1 << 18)
        for number in range(1, 5):
            tensor.fill_(number)
            self.checkpoints.save_async(number, {"t": tensor})
            memory = self.checkpoints._room.data_ptr()
            tensor.fill_(-1)
        self.checkpoints.wait()
        self.assertEqual(self.checkpoints._room.data_ptr(), memory)
        for number in range(1, 5):
            self.assertTrue(torch.equal(self.checkpoints.load(number)["t"], torch.full((1 << 18,), float(number))))
        self.checkpoints.save_async(4, {})
        with self.assertRaises(FileExistsError):
            self.checkpoints.save_async(5, {})
        self.checkpoints.wait()
        self.assertEqual(self.checkpoints.latest(), "4")
        with self.assertRaises(Exception):
            self.checkpoints.save("lambda", {"a": lambda: 0})
        self.checkpoints.save(5, {})

    def test_old_ones_are_removed_after_the_new_one(self):
        self.fs.makedirs(self.path + "/no checkpoint/a")
        kept = Checkpoints(self.fs, self.path, keep=2)
        for number in range(5):
            kept.save(number, {"n": number})
        self.assertEqual(kept.list(), ["3", "4"])
        with mock.patch.object(safetensors, "write_file", side_effect=OSError(errno.ENOSPC, "full")):
            with self.assertRaisesRegex(OSError, "full"):
                kept.save(5, {})
        self.assertEqual(kept.list(), ["3", "4"])
        self.assertEqual(kept.keep_last(1), ["3"])
        self.assertEqual([kept.load(), kept.keep_last(0), kept.list()], [{"n": 4}, ["4"], []])
        self.assertEqual(sorted(self.fs.listdir(self.path)), [".lock", "no checkpoint"])
        with self.assertRaises(ValueError):
            Checkpoints(self.fs, self.path, keep=0)

    def test_leftovers_are_never_seen_and_removed(self):
        for left in ".a.1.saving", ".b.1.removed":
            self.fs.makedirs(f"{self.path}/{left}")
            self.write(f"{self.path}/{left}/00000.safetensors", b"half")
        self.fs.mkdir(self.path + "/.mine")
        self.assertEqual(self.checkpoints.list(), [])
        self.assertEqual(sorted(self.checkpoints.clean()), [".a.1.saving", ".b.1.removed"])
        self.assertEqual(sorted(self.fs.listdir(self.path)), [".lock", ".mine"])
        self.fs.mkdir(self.path + "/.c.1.saving")
        self.checkpoints.save("d", {})
        self.assertEqual(sorted(self.fs.listdir(self.path)), [".lock", ".mine", "d"])

    def test_readers_never_see_half_of_one(self):
        done = threading.Event()
        seen = set()

        def look():
            while not done.is_set():
                for name in self.fs.listdir(self.path):
                    if not name.startswith("."):
                        seen.add(tuple(sorted(self.fs.listdir(f"{self.path}/{name}"))))

        looking = threading.Thread(target=look)
        looking.start()
        for number in range(10):
            self.checkpoints.save(number, {"n": number})
        done.set()
        looking.join(30)
        self.assertEqual(seen, {("00000.safetensors", "checkpoint.json")})

    def test_wrong_files_are_errors(self):
        self.checkpoints.save("a", {"t": torch.ones(4)})
        path = self.path + "/a/00000.safetensors"
        whole = self.read(path)
        self.write(path, whole[:-1])
        self.fs.truncate(path, len(whole) - 1)
        with self.assertRaisesRegex(ValueError, "offset"):
            self.checkpoints.load()
        huge = pickle.BINBYTES8 + (1 << 40).to_bytes(8, "little")
        for wrong in b"", b"\x80\x05N", huge, b"\x80\x05" + huge + b".", b"\x80\x05K\x07K\x00\x86Q.", b"K\x01Q.", b".", b"garbage":
            safetensors.save(self.fs, path, {checkpoint.STATE: torch.frombuffer(bytearray(wrong + b"\0"), dtype=torch.uint8)[:-1]})
            with self.subTest(wrong=wrong), self.assertRaisesRegex(ValueError, "a/00000.safetensors': its state does not"):
                self.checkpoints.load()
        for marker in b"", b"[]", b'{"sequence": null}', b"\xff":
            self.write(self.path + "/a/checkpoint.json", marker)
            self.fs.truncate(self.path + "/a/checkpoint.json", len(marker))
            self.assertEqual(self.checkpoints.list(), [])
        self.write(self.path + "/a/checkpoint.json", b'{"format": 2, "sequence": 1}')
        with self.assertRaisesRegex(OSError, "format 2 is not 1"):
            self.checkpoints.list()

    def test_use_after_close(self):
        self.checkpoints.save_async("a", {"t": torch.ones(4)})
        self.checkpoints.wait()
        self.fs.close()
        for action in (lambda: self.checkpoints.save("b", {}), self.checkpoints.load, self.checkpoints.list):
            with self.assertRaises(OSError) as caught:
                action()
            self.assertEqual(caught.exception.errno, errno.EBADF)

    def test_ranks_in_threads(self):
        ranks = [Checkpoints(self.fs, self.path, rank=rank, world=3, run="job", timeout=20) for rank in range(3)]
        for number in range(2):
            for each in ranks:
                each.save_async(number, {"rank": each.rank})
        for each in ranks:
            each.wait()
        self.assertEqual(ranks[0].list(), ["0", "1"])
        self.assertEqual([each.load() for each in ranks], [{"rank": rank} for rank in range(3)])
        self.assertEqual(ranks[0].load(0, rank=2), {"rank": 2})
        for each in ranks:
            each.save_async(1, {})
        for each in ranks:
            with self.assertRaises(FileExistsError):
                each.wait()
        for each in ranks[1:]:
            each.timeout = 0.5
            each.save_async(2, {})
        for each in ranks[1:]:
            with self.assertRaisesRegex(TimeoutError, "rank 0 to begin"):
                each.wait()
        with self.assertRaisesRegex(ValueError, "run="):
            Checkpoints(self.fs, self.path, rank=0, world=2)

    def test_ranks_go_on_after_an_error_of_one(self):
        ranks = [Checkpoints(self.fs, self.path, keep=1, rank=rank, world=2, run="r", timeout=2) for rank in range(2)]

        def save(name):
            errors = []
            for each in ranks:
                try:
                    each.save_async(name, {"name": name})
                except OSError as error:
                    errors.append(error)
            return errors

        save("a")
        for each in ranks:
            each.wait()
        with mock.patch.object(ranks[0], "_keep_last", side_effect=OSError(errno.EIO, "no removal")):
            self.assertEqual(save("b"), [])
            ranks[0]._saving.join()
        error, = save("c")
        self.assertRegex(str(error), "'.*/b' is published, but.*no removal")
        with self.assertRaises(TimeoutError):
            ranks[1].wait()
        self.assertEqual(save("d"), [])
        for each in ranks:
            each.wait()
        self.assertEqual((self.checkpoints.list(), ranks[1].load()), (["d"], {"name": "d"}))

    def test_without_a_rank_it_never_appears(self):
        ranks = [Checkpoints(self.fs, self.path, rank=rank, world=3, run="job", timeout=1 + 20 * rank) for rank in range(2)]
        for each in ranks:
            each.save_async("a", {})
        with self.assertRaisesRegex(TimeoutError, "the files of all ranks"):
            ranks[0].wait()
        with self.assertRaisesRegex(OSError, "rank 0 gave it up"):
            ranks[1].wait()
        self.assertEqual(self.fs.listdir(self.path), [".lock"])


class Direct(Embedded):
    scheme, further = "ros2s", "&provider=shm"


class Offload(Embedded):
    scheme = "ros2s+dpu"

    def test_ranks_in_processes(self):
        context = multiprocessing.get_context("spawn")
        store = f"{self.base}/store"
        ranks = [context.Process(target=save_as_rank, args=(self.uri, store, rank, 2)) for rank in range(2)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(90)
        self.assertEqual([rank.exitcode for rank in ranks], [0, 0])
        checkpoints = Checkpoints(self.fs, "ranks")
        self.assertEqual([checkpoints.load("a", rank)["ranks"] for rank in range(2)], [(0, 0, 2), (1, 1, 2)])
        self.fs.rmtree("ranks")

    def test_of_a_rank_that_dies_nothing_appears(self):
        checkpoints = Checkpoints(self.fs, "ranks", timeout=90)
        dying = multiprocessing.get_context("spawn").Process(target=save_and_die, args=(self.uri, "job"))
        dying.start()
        dying.join(60)
        self.assertEqual(dying.exitcode, -signal.SIGKILL)
        self.assertEqual(checkpoints.list(), [])
        self.assertEqual(checkpoints.clean(), [".dies.job-1.saving"])  # waits for the end of the lock
        checkpoints.save("dies", {"a": 1})
        self.assertEqual(checkpoints.load(), {"a": 1})


# ---- torch.distributed.checkpoint
def interface_of_2_3():
    """The abstract methods of torch.distributed.checkpoint 2.3, written from its documentation."""
    def abstract(*names, **others):
        return type("Base", (abc.ABC,), {**{name: abc.abstractmethod(lambda self: None) for name in names}, **others})

    module = types.ModuleType("torch.distributed.checkpoint")
    module.StorageWriter = abstract("reset", "set_up_storage_writer", "prepare_local_plan", "prepare_global_plan", "write_data",
                                    "finish", validate_checkpoint_id=classmethod(abc.abstractmethod(lambda cls: None)))
    module.StorageReader = abstract("reset", "read_metadata", "set_up_storage_reader", "prepare_local_plan",
                                    "prepare_global_plan", "read_data",
                                    validate_checkpoint_id=classmethod(abc.abstractmethod(lambda cls: None)))
    module.WriteResult = dataclasses.make_dataclass("WriteResult", ["index", "size_in_bytes", "storage_data"], frozen=True)
    module.StorageWriter.__module__ = module.StorageReader.__module__ = module.__name__
    return module


@dataclasses.dataclass(frozen=True)
class Index:
    fqn: str
    offset: tuple = ()


@dataclasses.dataclass
class Plan:
    items: list
    storage_data: object = None


@dataclasses.dataclass
class Metadata:
    storage_data: object = None


class Planner:
    """Of both kinds, over a dict."""

    def __init__(self, state):
        self.state, self.committed = state, []

    def resolve_data(self, item):
        return self.state[item.index]

    def load_bytes(self, item, value):
        self.state[item.dest_index] = value.getvalue()

    def resolve_tensor(self, item):
        return self.state[item.dest_index]

    def commit_tensor(self, item, tensor):
        self.committed.append(item.dest_index)


def write_item(index, kind):
    return types.SimpleNamespace(index=index, type=types.SimpleNamespace(name=kind))


def read_item(index, kind, offsets=(), lengths=()):
    return types.SimpleNamespace(storage_index=index, dest_index=index, type=types.SimpleNamespace(name=kind),
                                 storage_offsets=offsets, lengths=lengths)




@contextlib.contextmanager
def imported_storage(modules):
    """ros2store.checkpoint_storage, imported anew with these modules."""
    with mock.patch.dict(sys.modules, modules):
        del sys.modules["ros2store.checkpoint_storage"]
        yield importlib.import_module("ros2store.checkpoint_storage")


class DistributedCheckpoint(OnPool):
    scheme = "ros2s+dpu"

    def save_as_2_3(self, module, path, states):
        """As torch.distributed.checkpoint.save does it, for all ranks in turn."""
        writers = [module.StorageWriter(self.fs) for _ in states]
        for rank, writer in enumerate(writers):
            self.assertTrue(writer.validate_checkpoint_id(path))
            writer.reset(path)
            writer.set_up_storage_writer(rank == 0)
        plans = [Plan([write_item(index, "TENSOR" if isinstance(data, torch.Tensor) else "BYTE_IO")
                       for index, data in state.items()]) for state in states]
        plans = writers[0].prepare_global_plan([writer.prepare_local_plan(plan) for writer, plan in zip(writers, plans)])
        results = [writer.write_data(plan, Planner(state)).wait() for writer, plan, state in zip(writers, plans, states)]
        writers[0].finish(Metadata(), results)

    def test_the_interface_of_2_3(self):
        base = interface_of_2_3()
        with imported_storage({base.__name__: base}) as module:
            self.check_2_3(base, module)

    def check_2_3(self, base, module):
        self.assertTrue(issubclass(module.StorageWriter, base.StorageWriter))
        whole = torch.arange(24.).reshape(4, 6)
        states = [{Index("w", (0, 0)): whole[:2], Index("b"): io.BytesIO(b"bytes"), Index("none"): io.BytesIO(),
                   Index("c"): torch.ones(2, dtype=torch.complex64)},
                  {Index("w", (2, 0)): whole[2:], Index("i"): torch.tensor(7)}]
        with self.assertRaises(FileNotFoundError):
            module.StorageReader(self.fs, "dcp/1").read_metadata()
        self.save_as_2_3(module, "dcp/1", states)
        self.assertEqual(Checkpoints(self.fs, "dcp").list(), ["1"])
        with self.assertRaises(FileExistsError):
            self.save_as_2_3(module, "dcp/1", states)
        self.save_as_2_3(module, "top", states[1:])
        self.assertIn("top", Checkpoints(self.fs, "").list())
        self.assertEqual(Checkpoints(self.fs, "/").keep_last(0), ["top"])
        reader = module.StorageReader(self.fs)
        self.assertTrue(reader.validate_checkpoint_id("dcp/1") and not reader.validate_checkpoint_id(5))
        reader.reset("dcp/1")
        metadata = reader.read_metadata()
        reader.set_up_storage_reader(metadata, True)
        got = {Index("w", (0, 0)): torch.zeros(1, 3), Index("w", (2, 0)): torch.zeros(2, 6), Index("i"): torch.tensor(0),
               Index("c"): torch.zeros(2, dtype=torch.complex64)}
        items = [read_item(Index("w", (0, 0)), "TENSOR", (1, 2), (1, 3)), read_item(Index("w", (2, 0)), "TENSOR", (0, 0), (2, 6)),
                 read_item(Index("i"), "TENSOR"), read_item(Index("c"), "TENSOR", (0,), (2,)),
                 read_item(Index("b"), "BYTE_IO"), read_item(Index("none"), "BYTE_IO")]
        planner = Planner(got)
        plan = reader.prepare_global_plan([reader.prepare_local_plan(Plan(items))])[0]
        for most in module.READ_BYTES, 1:
            with mock.patch.object(module, "READ_BYTES", most):
                reader.read_data(plan, planner).wait()
            self.assertTrue(torch.equal(got[Index("w", (0, 0))], whole[1:2, 2:5]))
            self.assertTrue(torch.equal(got[Index("w", (2, 0))], whole[2:]))
            self.assertEqual((got[Index("i")], got[Index("b")], got[Index("none")]), (7, b"bytes", b""))
            self.assertEqual(got[Index("c")].tolist(), [1, 1])
        self.assertEqual(len(planner.committed), 8)
        piece = metadata.storage_data[Index("w", (2, 0))]
        for change in ({"offset": -8}, {"offset": 1 << 40}, {"bytes": 1 << 50}, {"bytes": -1}, {"shape": (1, 1)}, {"dtype": "X"}):
            metadata.storage_data[Index("w", (2, 0))] = dataclasses.astuple(dataclasses.replace(module.Piece(*piece), **change))
            with self.subTest(change=change), self.assertRaisesRegex(ValueError, "dcp/1/00001.safetensors': offset"):
                reader.read_data(Plan(items[1:2]), planner)
        self.write("dcp/1/.metadata", b"garbage")
        with self.assertRaisesRegex(ValueError, "dcp/1/.metadata': it does not unpickle"):
            reader.read_metadata()

    def test_torch_1_13(self):
        """Saves and loads by the functions of Debian's torch. Python 3.11 refuses its mutable defaults, and this test lets
        it take them."""
        if not torch.__version__.startswith("1.13"):
            self.skipTest(f"torch is {torch.__version__}")
        get_field = dataclasses._get_field

        def with_any_default(cls, name, kind, is_kw_only):
            default = getattr(cls, name, None)
            default = getattr(default, "default", default)
            if default.__class__.__hash__ is None and type(default).__module__.startswith("torch."):
                type(default).__hash__ = object.__hash__
            return get_field(cls, name, kind, is_kw_only)

        with mock.patch.object(dataclasses, "_get_field", with_any_default):
            theirs = importlib.import_module("torch.distributed._shard.checkpoint")
        with imported_storage({}) as module:
            self.check_1_13(theirs, module)

    def check_1_13(self, theirs, module):
        self.assertTrue(issubclass(module.StorageWriter, theirs.StorageWriter))
        state = {"w": torch.arange(6.), "i": torch.tensor([1, 2]), "object": {"a": [1]}}
        theirs.save_state_dict(state, module.StorageWriter(self.fs, "dcp13/1"), no_dist=True)
        with self.assertRaises(sys.modules[theirs.__name__ + ".api"].CheckpointException) as caught:
            theirs.save_state_dict(state, module.StorageWriter(self.fs, "dcp13/1"), no_dist=True)
        self.assertIn("it exists", str(caught.exception))
        got = {"w": torch.zeros(6), "i": torch.zeros(2, dtype=torch.int64), "object": None}
        theirs.load_state_dict(got, module.StorageReader(self.fs, "dcp13/1"), no_dist=True)
        self.assertTrue(torch.equal(got["w"], state["w"]) and torch.equal(got["i"], state["i"]))
        self.assertEqual(got["object"], {"a": [1]})
        self.assertEqual(json.loads(self.read("dcp13/1/checkpoint.json")), {"format": 1, "sequence": 1, "ranks": 1})


if __name__ == "__main__":
    unittest.main()

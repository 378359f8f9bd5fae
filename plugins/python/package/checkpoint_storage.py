"""Directories of checkpoints, and the storage of torch.distributed.checkpoint in them. ros2store.checkpoint has the
names for users."""
import contextlib
import dataclasses
import errno
import fcntl
import importlib
import io
import json
import math
import os
import pickle
import secrets
import stat
import sys
import time

import torch

from ros2store import safetensors
from ros2store.files import text_of

MARKER = "checkpoint.json"  # {"format": 1, "sequence": of publication, "ranks": …}
FORMAT = 1
METADATA = ".metadata"  # of torch.distributed.checkpoint
READ_BYTES = 256 << 20
POLL_SECONDS = 0.005, 0.5


class Directory:
    """The checkpoints of a directory, which is made if it is missing."""

    def __init__(self, fs, path, timeout=600):
        self.fs, self.path, self.timeout = fs, text_of(path), timeout
        if self.path:
            fs.makedirs(self.path, exist_ok=True)

    def list(self):
        """The names of the checkpoints, in the order of their publication."""
        return [name for _, name in self._published()]

    def latest(self):
        """The name of the last one, or None."""
        return (self.list() or [None])[-1]

    def clean(self):
        """Removes what saves that did not end have left, and returns its names. Waits while a save runs, at most
        `timeout` seconds: TimeoutError. Each save does it first."""
        with self._locked():
            return self._clean()

    def keep_last(self, count):
        """Removes all checkpoints but the last `count`, and returns their names. Waits as clean() does."""
        with self._locked():
            return self._keep_last(count)

    def _of(self, *names):
        return os.path.join(self.path, *names)

    def _published(self):
        while (found := self._seen()) is None:
            pass
        return found

    def _seen(self):
        """The checkpoints, or None if one was removed meanwhile: then a new one may have been published unseen."""
        found = []
        for name, attributes in self.fs.scandir(self.path):
            if name.startswith(".") or not stat.S_ISDIR(attributes.st_mode):
                continue
            try:
                marker = json.loads(self.fs.read_many([f"{name}/{MARKER}"], self.path)[0])
                format, sequence = int(marker["format"]), int(marker["sequence"])
            except FileNotFoundError:
                if not self.fs.exists(self._of(name)):
                    return None
                continue
            except (ValueError, KeyError, TypeError):
                continue  # another directory
            if format != FORMAT:
                raise OSError(errno.EOPNOTSUPP, f"checkpoint '{self._of(name)}': format {format} is not {FORMAT}: "
                                                "use the ros2store that wrote it")
            found.append((sequence, name))
        return sorted(found)

    def _locked(self):
        """The lock of this directory, as an open file. The lock of a process that was killed ends with its session,
        after at most 40 s."""
        file = self.fs.open(self._of(".lock"), "ab", 0)
        try:
            self._until(lambda: _is_locked(file), "another save to end")
        except BaseException:
            file.close()
            raise
        return file

    def _until(self, is_ready, what):
        deadline, pause = time.monotonic() + self.timeout, POLL_SECONDS[0]
        while not is_ready():
            if time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, f"checkpoint in '{self.path}': waited {self.timeout} s for {what}")
            time.sleep(pause)
            pause = min(2 * pause, POLL_SECONDS[1])

    # With the lock.
    def _clean(self):
        left = [name for name in self.fs.listdir(self.path)
                if name.startswith(".") and name.endswith((".saving", ".removed"))]
        for name in left:
            self.fs.rmtree(self._of(name))
        return left

    def _keep_last(self, count):
        removed = [name for _, name in self._published()[:-count or None]]
        for name in removed:
            hidden = self._of(f".{name}.{secrets.token_hex(4)}.removed")
            self.fs.rename(self._of(name), hidden)
            self.fs.rmtree(hidden)
        return removed

    def _begin(self, name, run):
        self._clean()
        if self.fs.exists(self._of(name)):
            raise exists_error(self._of(name))
        hidden = self._of(f".{name}.{run}.saving")
        self.fs.mkdir(hidden)
        return hidden

    def _publish(self, hidden, name, ranks):
        sequence = max([0, *(number for number, _ in self._published())]) + 1
        marker = {"format": FORMAT, "sequence": sequence, "ranks": ranks}
        safetensors.write_file(self.fs, f"{hidden}/{MARKER}", json.dumps(marker).encode())
        try:
            self.fs.rename(hidden, self._of(name))
            with self.fs.open(f"{self._of(name)}/{MARKER}", "rb", 0) as file:
                file.fsync()  # the renames, too
        except BaseException as error:
            self._hide_again(hidden, self._of(name), error)
            raise

    def _hide_again(self, hidden, path, cause):
        """After an error of the rename, or later. The rename is not undone by mistake: a name that another directory has
        cannot be moved to `hidden`, which then exists."""
        try:
            self.fs.rename(path, hidden)
        except OSError as error:
            with contextlib.suppress(OSError):
                if self.fs.exists(hidden):
                    return
            raise OSError(error.errno, f"checkpoint '{path}': its publication failed ({cause}), but it may be visible, "
                                       f"because hiding it failed ({error}). Remove it before another save") from cause


def _base(name):
    # torch 1.13 has them elsewhere, and there Python 3.11 cannot import them.
    for module in "torch.distributed.checkpoint", "torch.distributed._shard.checkpoint":
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError):
            continue
    return object


@dataclasses.dataclass
class Piece:
    """Where an item of torch.distributed.checkpoint is; in the metadata a tuple of these. Without a dtype, its bytes are
    what torch.save wrote."""
    file: str
    offset: int
    bytes: int
    dtype: str | None
    shape: tuple


class StorageWriter(_base("StorageWriter")):
    """A StorageWriter of torch.distributed.checkpoint, with the methods of torch 1.13 and of 2.3 and newer.

    `path`, or the checkpoint_id of save(), is the checkpoint, which appears there in finish(). FileExistsError: it
    exists. TimeoutError: another save holds the directory for `timeout` seconds."""

    def __init__(self, fs, path=None, timeout=600):
        super().__init__()
        self.fs, self.timeout = fs, timeout
        self._lock = None
        self.reset(path)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Whether it is a path."""
        return _is_path(checkpoint_id)

    def reset(self, checkpoint_id=None):
        """Begins another save, to `checkpoint_id` if it is given."""
        if checkpoint_id is not None:
            self.path = _path_of(checkpoint_id)
        self._unlock()

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        """Does nothing: the coordinator is the one that makes the global plan."""

    init = set_up_storage_writer

    def storage_meta(self):
        """None."""
        return None

    def prepare_local_plan(self, plan):
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans):
        """Makes the hidden directory, and gives each rank its file."""
        path, name = os.path.split(self.path)
        self._unlock()
        self._directory = Directory(self.fs, path, self.timeout)
        self._lock = self._directory._locked()
        try:
            self._hidden = self._directory._begin(name, secrets.token_hex(8))
        except BaseException:
            self._unlock()
            raise
        self._ranks = len(plans)
        return [dataclasses.replace(plan, storage_data=(self._hidden, file_of(rank)))
                for rank, plan in enumerate(plans)]

    def write_data(self, plan, planner):
        """Writes the items of this rank as one file, which is durable on return."""
        hidden, file = plan.storage_data
        tensors = {}
        items = []
        for item in plan.items:
            data = planner.resolve_data(item)
            name = item.index.fqn if item.index.fqn not in tensors else f"{item.index.fqn}#{len(items)}"
            if item.type.name != "BYTE_IO" and not has_type(data):
                whole = io.BytesIO()
                torch.save(data.detach().cpu().clone(), whole)
                data = whole
            is_bytes = isinstance(data, io.BytesIO)
            tensors[name] = as_tensor(data) if is_bytes else data
            items.append((item, name, None if is_bytes else safetensors.type_of(data)))
        memory, places = safetensors.pack(tensors)
        safetensors.write_file(self.fs, f"{hidden}/{file}", memory)
        results = [_WriteResult(index=item.index, size_in_bytes=places[name][1],
                                storage_data=(file, *places[name], dtype, tuple(tensors[name].shape)))
                   for item, name, dtype in items]
        return _done(results)

    def finish(self, metadata, results):
        """Writes the metadata and publishes the checkpoint."""
        try:
            metadata.storage_data = {result.index: result.storage_data for each in results for result in each}
            safetensors.write_file(self.fs, f"{self._hidden}/{METADATA}", pickle.dumps(metadata))
            self._directory._publish(self._hidden, os.path.basename(self.path), self._ranks)
        finally:
            self._unlock()

    def _unlock(self):
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class StorageReader(_base("StorageReader")):
    """A StorageReader of torch.distributed.checkpoint, with the methods of torch 1.13 and of 2.3 and newer, of what a
    StorageWriter wrote.

    As with torch's own reader, the metadata is a pickle: load only what you trust. ValueError: offsets or sizes in it
    are wrong, with the file and the offset."""

    def __init__(self, fs, path=None):
        super().__init__()
        self.fs = fs
        self.reset(path)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Whether it is a path."""
        return _is_path(checkpoint_id)

    def reset(self, checkpoint_id=None):
        """Begins another load, of `checkpoint_id` if it is given."""
        if checkpoint_id is not None:
            self.path = _path_of(checkpoint_id)

    def read_metadata(self, *args, **kwargs):
        """The metadata that finish() wrote."""
        data, = self.fs.read_many([METADATA], self.path)
        try:
            return pickle.loads(data)
        except Exception as error:
            raise ValueError(f"checkpoint '{self.path}/{METADATA}': it does not unpickle: {error!r}") from error

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        """Takes the places of the items from the metadata."""
        self._pieces = metadata.storage_data

    init = set_up_storage_reader

    def prepare_local_plan(self, plan):
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans):
        """The plans as they are."""
        return plans

    def read_data(self, plan, planner):
        """Reads the items of the plan, those of a file by reads of READ_BYTES and more."""
        files = {}
        for item in plan.items:
            piece = Piece(*self._pieces[item.storage_index])
            files.setdefault(piece.file, []).append((piece, item))
        for name, wanted in files.items():
            with self.fs.open(f"{self.path}/{os.path.basename(name)}", "rb", 0) as file:
                size = file.size()
                for piece, _ in wanted:
                    _check(file, size, piece)
                for run in _runs(sorted(wanted, key=lambda each: each[0].offset)):
                    self._read_run(file, run, planner)
        return _done(None)

    @staticmethod
    def _read_run(file, run, planner):
        begin, end = run[0][0].offset, max(piece.offset + piece.bytes for piece, _ in run)
        memory = safetensors.new_memory(torch, end - begin)
        safetensors.read_range(file, memory, begin)
        for piece, item in run:
            at = piece.offset - begin
            if item.type.name == "BYTE_IO":
                planner.load_bytes(item, io.BytesIO(memory[at:at + piece.bytes].numpy().tobytes()))
                continue
            if piece.dtype is None:
                tensor = torch.load(io.BytesIO(memory[at:at + piece.bytes].numpy().tobytes()), map_location="cpu")
            else:
                tensor = safetensors.tensor_of(torch, memory, piece.dtype, piece.shape, at, at + piece.bytes)
            for dimension, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths)):
                tensor = tensor.narrow(dimension, offset, length)
            target = planner.resolve_tensor(item).detach()
            if target.size() != tensor.size():
                raise ValueError(f"'{item.storage_index.fqn}': the checkpoint has the shape {tuple(tensor.size())}, and "
                                 f"{tuple(target.size())} is wanted")
            target.copy_(tensor)
            planner.commit_tensor(item, target)


def _check(file, size, piece):
    """ValueError: the piece is not within the file, or not what its type and shape need."""
    wanted = (piece.bytes if piece.dtype is None
              else math.prod(piece.shape) * safetensors.DTYPES.get(piece.dtype, ("", -1))[1])
    if piece.offset < 0 or piece.bytes != wanted or not 0 <= piece.bytes <= size - piece.offset:
        raise ValueError(f"checkpoint '{os.fsdecode(file.name)}': offset {piece.offset}: {piece.bytes} bytes as "
                         f"{piece.dtype} of shape {list(piece.shape)} are not in a file of {size} bytes")


def _runs(pieces):
    """Parts of a list that are in READ_BYTES, or one large item."""
    run = []
    for each in pieces:
        if run and each[0].offset + each[0].bytes - run[0][0].offset > READ_BYTES:
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def _done(value):
    future = torch.futures.Future()
    future.set_result(value)
    return future


def _is_locked(file):
    try:
        file.flock(fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def exists_error(path):
    return FileExistsError(errno.EEXIST, f"checkpoint '{path}': it exists")


def has_type(tensor):
    try:
        return safetensors.type_of(tensor) is not None
    except TypeError:
        return False


def as_tensor(file):
    data = file.getbuffer()
    return torch.frombuffer(data, dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)


def file_of(rank):
    return f"{rank:05}.safetensors"


def name_of(name):
    name = str(name) if isinstance(name, int) else os.fsdecode(name)
    if not name or name.startswith(".") or "/" in name:
        raise ValueError(f"checkpoint {name!r}: a name is not empty, begins with no dot and has no '/'")
    return name


def _is_path(path):
    try:
        return bool(_path_of(path))
    except (TypeError, ValueError):
        return False


def _path_of(path):
    path = text_of(path).rstrip("/")
    name_of(os.path.basename(path))
    return path


_WriteResult = getattr(sys.modules[StorageWriter.__mro__[1].__module__], "WriteResult", None)

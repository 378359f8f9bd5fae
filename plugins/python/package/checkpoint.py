"""Checkpoints that appear as a whole.

    checkpoints = ros2store.checkpoint.Checkpoints(fs, "run1", keep=3)
    for step in ...:
        checkpoints.save_async(step, {"model": model.state_dict(), "step": step})
    checkpoints.wait()
    state = checkpoints.load()

A checkpoint is a directory with a file in safetensors format for each rank. It is written as .NAME.RUN.saving, and gets
its name by a rename when the data of all ranks is durable. One save at a time runs in a directory of checkpoints: it
holds a lock on .lock there. StorageWriter and StorageReader do the same for torch.distributed.checkpoint."""
import contextlib
import errno
import io
import os
import pickle
import secrets
import threading

import torch

from ros2store import safetensors
from ros2store.checkpoint_storage import (Directory, StorageReader, StorageWriter, as_tensor, exists_error, file_of,
                                          has_type, name_of)

__all__ = ["Checkpoints", "Directory", "StorageReader", "StorageWriter"]

STATE = "ros2store.state"  # the tensor with the pickle of a state, in which tensors are views of numbered ones
BEGINS = "ros2store.begins"  # the tensor with the offsets of these in their storages


class Checkpoints(Directory):
    """Saves and loads states: any object that pickles, with tensors in it. Each rank has its own state. Tensors that
    share a storage share it again, so that what is between them is saved, too.

    `fs` is a FileSystem. With `keep` only the last `keep` checkpoints stay; others are removed when a new one is
    durable. A save waits at most `timeout` seconds for another save to end and for the other ranks.

    Without `rank` and `world` they are those of torch.distributed, if it is initialised; then all ranks must make this
    object together. Otherwise, with several ranks, `run` is a text that is the same in all, and another one each time
    the job starts."""

    def __init__(self, fs, path, keep=None, rank=None, world=None, run=None, timeout=600):
        super().__init__(fs, path, timeout)
        if keep is not None and keep < 1:
            raise ValueError("keep is at least 1")
        distributed = torch.distributed
        if world is None and distributed.is_available() and distributed.is_initialized():
            rank, world = distributed.get_rank(), distributed.get_world_size()
            shared = [secrets.token_hex(8)]
            distributed.broadcast_object_list(shared)
            run = shared[0]
        elif world is None:
            rank, world = 0, 1
        if run is None:
            if world > 1:
                raise ValueError("several ranks need run=, the same text in all of them, or torch.distributed")
            run = secrets.token_hex(8)
        self.keep, self.rank, self.world = keep, rank, world
        self._run = name_of(run)
        self._count = 0
        self._room = self._memory = None  # the memory that saves use, and the part with the file of the last one
        self._saving = self._process = None
        self._error = None

    def save(self, name, state):
        """Saves the state of this rank, and returns when the checkpoint of all ranks is published and durable.

        FileExistsError: it exists. TimeoutError: a rank or another save did not end. After an error of rank 0 it does
        not appear, except if the error says that it does or may."""
        self.save_async(name, state)
        self.wait()

    def save_async(self, name, state):
        """As save(), but returns when the tensors are copied into memory, which the next save uses again. Waits for the
        save before, and raises its error."""
        self._count += 1  # in all ranks, also in one that raises the error of the save before
        self.wait()
        name = name_of(name)
        self._memory = _packed(state, self._memory_of)
        self._saving = threading.Thread(target=self._save, args=(name, f"{self._run}-{self._count}"))
        self._process = os.getpid()
        self._saving.start()

    def wait(self):
        """Waits until the save in progress has ended, and raises its error. In a forked child, OSError(ECANCELED) for a
        save of the parent, which goes on there."""
        saving, self._saving = self._saving, None
        if saving is not None:
            if self._process != os.getpid():
                raise OSError(errno.ECANCELED, f"checkpoint in '{self.path}': the save is the parent process's")
            saving.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def keep_last(self, count):
        """As Directory.keep_last(), after the save in progress."""
        self.wait()
        return super().keep_last(count)

    def load(self, name=None, rank=None):
        """The state that this rank, or another one, has saved: of the last checkpoint, or of a name. Its tensors are in
        the memory of the host, and share it. As with torch.load, load only what you trust.

        FileNotFoundError: there is none. ValueError: the file is wrong. OSError(EIO): a block fails its checksum."""
        if name is not None:
            return self._load(name_of(name), rank)
        name = self.latest()
        while name is not None:
            try:
                return self._load(name, rank)
            except FileNotFoundError:
                last = self.latest()
                if last == name:
                    raise
                name = last  # another save has removed the one before
        raise FileNotFoundError(errno.ENOENT, f"there is no checkpoint in '{self.path}'")

    def _load(self, name, rank):
        path = self._of(name, file_of(self.rank if rank is None else rank))
        return _unpacked(path, safetensors.load(self.fs, path))

    def _memory_of(self, size):
        if self._room is None or len(self._room) < size:
            self._room = self._memory = None
            self._room = safetensors.new_memory(torch, size + size // 16)
        return self._room[:size]

    def _save(self, name, run):
        try:
            if self.rank == 0:
                self._save_first(name, run)
            else:
                self._save_other(name, run)
        except BaseException as error:  # for wait()
            self._error = error

    def _save_first(self, name, run):
        with self._locked():
            hidden = self._begin(name, run)
            try:
                safetensors.write_file(self.fs, f"{hidden}/{file_of(0)}", self._memory)
                files = [file_of(rank) for rank in range(self.world)]
                self._until(lambda: all(self.fs.exists_many(files, hidden)), "the files of all ranks")
                self._publish(hidden, name, self.world)
            except BaseException:
                with contextlib.suppress(OSError):  # the first error counts; the next save removes the rest
                    self.fs.rmtree(hidden)
                raise
            if self.keep is not None:
                self._keep_only(name)

    def _keep_only(self, name):
        try:
            self._keep_last(self.keep)
        except OSError as error:
            raise OSError(error.errno, f"checkpoint '{self._of(name)}' is published, but older ones could not be "
                                       f"removed: {error}") from error

    def _save_other(self, name, run):
        hidden, published = self._of(f".{name}.{run}.saving"), self._of(name)

        def is_begun():
            if self.fs.exists(hidden):
                return True
            if self.fs.exists(published):
                raise exists_error(published)
            return False

        def is_published():
            if self.fs.exists(hidden):
                return False
            if not self.fs.exists(published):
                raise OSError(errno.ECANCELED, f"checkpoint '{published}': rank 0 gave it up")
            return True

        self._until(is_begun, "rank 0 to begin")
        safetensors.write_file(self.fs, f"{hidden}/{file_of(self.rank)}", self._memory)
        self._until(is_published, "rank 0 to publish")


class _Storage:
    """The part of a storage that the tensors of a state use."""

    def __init__(self, tensor, number):
        self.tensor, self.number, self.begin, self.end = tensor, number, None, None

    def add(self, begin, end):
        self.begin = begin if self.begin is None else min(begin, self.begin)
        self.end = end if self.end is None else max(end, self.end)

    def flat(self):
        return torch.as_strided(self.tensor.detach(), (self.end - self.begin,), (1,), self.begin)


class _Pickler(pickle.Pickler):
    """Pickles a state without its tensors, which are views of storages instead."""

    def __init__(self, file):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._storages = {}

    def storages(self):
        return list(self._storages.values())  # by their numbers

    def persistent_id(self, value):
        if type(value) is not torch.Tensor or value.layout is not torch.strided or not has_type(value):
            return None
        tensor = value.resolve_neg()
        begin, end = tensor.storage_offset(), tensor.storage_offset()
        key = id(tensor)
        if tensor.numel() > 0:
            end += 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
            key = tensor.data_ptr() - begin * tensor.element_size(), tensor.dtype, tensor.device
        # Its reference to the tensor makes the key unique.
        storage = self._storages.setdefault(key, _Storage(tensor, len(self._storages)))
        storage.add(begin, end)
        return storage.number, value.requires_grad, begin, tuple(tensor.shape), tensor.stride()


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, tensors):
        super().__init__(file)
        self._tensors, self._begins = tensors, tensors[BEGINS].tolist()

    def persistent_load(self, identity):
        number, requires_grad, begin, shape, strides = identity
        flat = self._tensors[str(number)]
        view = flat.as_strided(shape, strides, flat.storage_offset() + begin - self._begins[number])
        return view.detach().requires_grad_(requires_grad)


def _packed(state, memory_of):
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(state)
    tensors = {str(storage.number): storage.flat() for storage in pickler.storages()}
    tensors[STATE] = as_tensor(file)
    tensors[BEGINS] = torch.tensor([storage.begin for storage in pickler.storages()], dtype=torch.int64)
    return safetensors.pack(tensors, memory_of=memory_of)[0]


def _unpacked(path, tensors):
    try:
        return _Unpickler(io.BytesIO(memoryview(tensors[STATE].numpy())), tensors).load()
    except Exception as error:
        raise ValueError(f"checkpoint '{path}': its state does not unpickle: {error!r}") from error

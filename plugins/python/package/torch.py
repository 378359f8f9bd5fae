"""Data sets of torch over files, and over tar files of samples.

    samples = ros2store.torch.Files("ros2s+dpu://HOST/pool/main", "train", decode)
    loader = ros2store.torch.Loader(ros2store.torch.Stream(samples, batch=64, seed=1), num_workers=4)
    for image, label in loader:
        ...

A batch is one request. Forked workers use what the parent opened; spawned ones open the URI again.

The module lets malloc keep 64 MiB of freed memory, unless the environment sets malloc's thresholds: the samples of a
batch are freed together, and memory that went back to the kernel costs more than the read."""
import concurrent.futures
import ctypes
import os
import random
import stat
import tarfile

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

import ros2store
from ros2store.file_system import is_unfinished
from ros2store.files import text_of

INDEX_THREADS = 8
INDEX_BUFFER_BYTES = 4096


def _keep_freed_memory():
    trim_threshold, mmap_threshold = -1, -3  # mallopt(3)
    names = ("GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and not any(name in os.environ for name in names):
        mallopt(trim_threshold, 64 << 20)
        mallopt(mmap_threshold, 32 << 20)


_keep_freed_memory()


class Files(Dataset):
    """A map-style dataset of files: sample i is decode(path, bytes), by default that pair.

    `fs` is a FileSystem or a URI. `files` is a directory, of which it takes all regular files at any depth in the order
    of their paths relative to it, without those that are not complete (.*.part), or a list of paths, all of them absolute or none. Names that are not UTF-8 are as
    os.fsdecode() makes them. Errors are those of read_many."""

    def __init__(self, fs, files="", decode=None):
        self.fs = _opened(fs)
        self.decode = decode
        if isinstance(files, (str, bytes, os.PathLike)):
            self.directory = text_of(files)
            found = sorted(_files_below(self.fs, self.directory))
            self.paths, self._sizes = [path for path, _ in found], [size for _, size in found]
        else:
            self.paths, self._sizes = [text_of(path) for path in files], None
            self.directory = "/" if all(path.startswith("/") for path in self.paths) else ""

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.__getitems__([index])[0]

    def __getitems__(self, indices):
        """The samples of a list of indices, by one request. DataLoader calls it for each batch."""
        paths = [self.paths[i] for i in indices]
        sizes = None if self._sizes is None else [self._sizes[i] for i in indices]
        names = [path.lstrip("/") for path in paths] if self.directory == "/" else paths
        contents = self.fs.read_many(names, self.directory, sizes=sizes)
        return list(zip(paths, contents) if self.decode is None else map(self.decode, paths, contents))


class Tars(Dataset):
    """A map-style dataset of tar files: sample i is decode(key, {suffix: bytes}), by default that pair.

    A sample is the members of a tar whose paths are equal up to the first dot of the last name: "a/1.jpg" and
    "a/1.seg.png" have the key "a/1" and the suffixes "jpg" and "seg.png". Samples are in the order of the tars and,
    within, of their first members. Opening reads the headers of all members.

    ValueError: a tar is damaged, or ends within a member or without its end mark; with its name and the offset."""

    def __init__(self, fs, tars, decode=None):
        self.fs = _opened(fs)
        self.decode = decode
        self.tars = [text_of(path) for path in tars]
        self._open = {}
        with concurrent.futures.ThreadPoolExecutor(INDEX_THREADS) as pool:
            indices = list(pool.map(self._index_of, self.tars))
        # (tar, key, [(suffix, offset, bytes)])
        self._samples = [(tar, key, members)
                         for tar, index in zip(self.tars, indices) for key, members in index.items()]

    def __getstate__(self):
        return {**self.__dict__, "_open": {}}

    def __len__(self):
        return len(self._samples)

    def __getitem__(self, index):
        return self.__getitems__([index])[0]

    def __getitems__(self, indices):
        """The samples of a list of indices, by one request. DataLoader calls it for each batch."""
        samples = [self._samples[i] for i in indices]
        ranges = [(self._file(tar), offset, size) for tar, _, members in samples for _, offset, size in members]
        parts = iter(zip(ranges, self.fs.pread_many(ranges)))
        out = []
        for _, key, members in samples:
            sample = {}
            for (suffix, _, size), ((file, offset, _), data) in zip(members, parts):
                if isinstance(data, OSError):
                    raise data
                if len(data) != size:
                    raise _wrong(file.name, offset, "the file has become shorter")
                sample[suffix] = data
            out.append((key, sample) if self.decode is None else self.decode(key, sample))
        return out

    def _file(self, tar):
        if tar not in self._open:
            self._open[tar] = self.fs.open(tar, "rb", 0)
        return self._open[tar]

    def _index_of(self, path):
        samples = {}
        # The reader skips the data of members, so that a small buffer reads little more than headers.
        with self.fs.open(path, "rb", INDEX_BUFFER_BYTES) as file:
            try:
                with tarfile.open(fileobj=file, mode="r:", errors="surrogateescape") as tar:
                    for member in tar:
                        if member.issparse():
                            raise _wrong(path, member.offset, f"'{member.name}' is sparse")
                        if member.isreg():
                            key, suffix = _key_of(member.name)
                            members = samples.setdefault(key, [])
                            if suffix in (each[0] for each in members):
                                raise _wrong(path, member.offset, f"'{member.name}' is there twice")
                            members.append((suffix, member.offset_data, member.size))
                    end = tar.offset
            except tarfile.TarError as error:
                raise _wrong(path, min(file.tell(), file.size()), error) from None
            # tarfile takes a damaged header for the end.
            end = min(end, file.size())
            if file.pread(tarfile.BLOCKSIZE, end) != bytes(tarfile.BLOCKSIZE):
                raise _wrong(path, end, "there is neither a header nor the end mark")
        return samples


class Stream(IterableDataset):
    """An iterable-style dataset of a Files or a Tars: this rank's and this worker's part of them.

    `batch` samples are one request; give DataLoader the same batch_size: then the order does not depend on the number
    of workers. With a `seed` the order is another one in each epoch. All ranks get as many samples: if need be, some
    from the beginning of the order are repeated. Without `rank` and `world` they are those of torch.distributed, if it
    is initialised.

    A new iteration starts its epoch at the beginning, or where load_state_dict() says. After its end the next epoch
    follows, with workers only in a Loader: with DataLoader call set_epoch(). Workers serve one epoch:
    persistent_workers is a RuntimeError."""

    def __init__(self, samples, batch, seed=None, rank=None, world=None):
        if (rank is None) != (world is None):
            raise ValueError("rank and world are given together")
        if world is None:
            rank, world = _rank_and_world()
        if not 0 <= rank < world or batch < 1:
            raise ValueError(f"rank {rank} of {world}, batch {batch}: rank must be below world, and batch above 0")
        self.samples, self.batch, self.seed, self.rank, self.world = samples, batch, seed, rank, world
        self.epoch = 0
        self._start = 0  # samples that all ranks together had used when the order began here
        self._used = 0  # samples since, in this process
        self._resumes = False
        self._in_worker = False

    def __len__(self):
        return -(-len(self.samples) // self.world)

    def set_epoch(self, epoch):
        """Starts an epoch at its beginning."""
        self.epoch, self._start, self._used, self._resumes = epoch, 0, 0, False

    def state_dict(self):
        """The position, of this process. With workers use that of the Loader, or torchdata's StatefulDataLoader."""
        return {"epoch": self.epoch, "start": self._start, "used": self._used, "world": self.world, "seed": self.seed,
                "samples": len(self.samples)}

    def load_state_dict(self, state):
        """Continues behind the last sample before state_dict(), also with another number of ranks or workers, or
        another batch. ValueError: it is the state of another seed or number of samples."""
        here = self.seed, len(self.samples)
        if (state["seed"], state["samples"]) != here:
            raise ValueError(f"the state is of (seed, samples) {(state['seed'], state['samples'])}, here is {here}")
        self.epoch, self._start, self._used, self._resumes = state["epoch"], state["start"], state["used"], True
        if get_worker_info() is None:
            self._start, self._used = self._start + self._used * state["world"], 0

    def __iter__(self):
        if self._in_worker:
            raise RuntimeError("a Stream has no persistent_workers: they would not learn of the next epoch")
        self._in_worker = get_worker_info() is not None
        self._begin()
        own = self._own_indices()
        for begin in range(self._used, len(own), self.batch):
            for sample in self.samples.__getitems__(own[begin:begin + self.batch].tolist()):
                self._used += 1
                yield sample
        self.set_epoch(self.epoch + 1)

    def _begin(self):
        if not self._resumes:
            self._start = self._used = 0
        self._resumes = False

    def _own_indices(self):
        count = len(self.samples)
        order = torch.arange(count)
        if self.seed is not None:
            # random() of a seed is the same in all versions of Python.
            draw = random.Random(f"{self.seed} {self.epoch}").random
            order = torch.tensor([draw() for _ in range(count)], dtype=torch.float64).argsort()
        mine = torch.arange(max(-(-(count - self._start) // self.world), 0))
        if count:
            mine = order[(self._start + self.rank + self.world * mine) % count]
        worker = get_worker_info()
        if worker is not None:  # DataLoader takes batches from the workers in turn
            mine = mine[torch.arange(len(mine)) // self.batch % worker.num_workers == worker.id]
        return mine


class Loader(DataLoader):
    """A torch.utils.data.DataLoader of a Stream, with its options. The state is exact also with workers."""

    def __init__(self, stream, **options):
        super().__init__(stream, batch_size=stream.batch, **options)

    def __iter__(self):
        if self.num_workers == 0:
            yield from super().__iter__()
            return
        stream = self.dataset
        batches = super().__iter__()  # the workers have a copy of the stream
        stream._begin()
        for batch in batches:
            stream._used += stream.batch
            yield batch
        stream.set_epoch(stream.epoch + 1)

    def set_epoch(self, epoch):
        """As Stream.set_epoch()."""
        self.dataset.set_epoch(epoch)

    def state_dict(self):
        """As Stream.state_dict(), behind the last batch that the loop got."""
        return self.dataset.state_dict()

    def load_state_dict(self, state):
        """As Stream.load_state_dict(). Before the iteration."""
        self.dataset.load_state_dict(state)


def _opened(fs):
    return ros2store.open(fs) if isinstance(fs, str) else fs


def _files_below(fs, top, prefix=""):
    for name, attributes in fs.scandir(os.path.join(top, prefix)):
        if stat.S_ISDIR(attributes.st_mode):
            yield from _files_below(fs, top, prefix + name + "/")
        elif stat.S_ISREG(attributes.st_mode) and not is_unfinished(name):
            yield prefix + name, attributes.st_size


def _key_of(path):
    directory, slash, name = path.rpartition("/")
    stem, _, suffix = name.partition(".")
    return directory + slash + stem, suffix


def _rank_and_world():
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def _wrong(name, offset, why):
    return ValueError(f"tar '{os.fsdecode(name)}': offset {offset}: {why}")

"""A program of `./dev bench loaders`: does what a training does, with plain files or with the package ros2store.

    loader.py PLACE WORKLOAD [ARGUMENT…]    PLACE: a directory, or the URI of a container

Each line that it prints is a workload, its operations and its seconds; `cpu`: seconds of its processes."""
import ctypes
import importlib.util
import mmap
import os
import random
import resource
import subprocess
import sys
import time

BATCH, SEED = 64, 1
BYTES_LEAST, BYTES_MOST = 20_000, 200_000
RECORDS_MIB, IN_FLIGHT = 64, 16
CHECKPOINT_TENSORS = 8


def is_uri(place):
    return "://" in place


def tell(workload, operations, seconds):
    print(workload, operations, f"{seconds:.6f}", flush=True)


def sizes(count):
    return [random.Random(f"{SEED} {i}").randrange(BYTES_LEAST, BYTES_MOST) for i in range(count)]


def name_of(i):
    return f"{i:06}.bin"


def make(place, count):
    """The files, and a file of records."""
    pattern = os.urandom(BYTES_MOST)
    if is_uri(place):
        import ros2store
        with ros2store.open(place) as fs:
            fs.makedirs("files", exist_ok=True)
            items = [(name_of(i), memoryview(pattern)[:size]) for i, size in enumerate(sizes(count))]
            for begin in range(0, count, BATCH):
                assert not any(fs.write_many(items[begin:begin + BATCH], "files"))
            with fs.open("records", "wb", 0) as file:
                for _ in range(RECORDS_MIB):
                    file.write(os.urandom(1 << 20))
        return
    os.makedirs(place + "/files", exist_ok=True)
    for i, size in enumerate(sizes(count)):
        with open(f"{place}/files/{name_of(i)}", "wb") as file:
            file.write(memoryview(pattern)[:size])
    os.sync()


class Plain:
    """A data set of plain files."""

    def __init__(self, place):
        self.paths = sorted(entry.path for entry in os.scandir(place + "/files"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb") as file:
            return len(file.read())


def forget(folder):
    """Removes the files of a folder from the page cache."""
    for entry in os.scandir(folder):
        if entry.is_file():
            descriptor = os.open(entry.path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def length(_, data):
    return len(data)


def epochs(place, workers):
    """A cold epoch and a second one of a DataLoader."""
    import torch
    workers = int(workers)
    if is_uri(place):
        from ros2store.torch import Files, Loader, Stream
        samples = Files(place, "files", length)
        loader = Loader(Stream(samples, BATCH, seed=SEED), num_workers=workers)
    else:
        forget(place + "/files")
        samples = Plain(place)
        loader = torch.utils.data.DataLoader(samples, batch_size=BATCH, shuffle=True, num_workers=workers)
    for epoch in "cold", "second":
        began = time.monotonic()
        read = sum(int(batch.sum()) for batch in loader)
        took = time.monotonic() - began
        assert read == sum(sizes(len(samples)))
        tell(epoch, len(samples), took)


def batches(place, count):
    """All files once, cold, in the order of their names."""
    names = [name_of(i) for i in range(int(count))]
    if is_uri(place):
        import ros2store
        with ros2store.open(place) as fs:
            began = time.monotonic()
            read = sum(len(content) for begin in range(0, len(names), BATCH)
                       for content in fs.read_many(names[begin:begin + BATCH], "files"))
            took = time.monotonic() - began
    else:
        forget(place + "/files")
        plain = Plain(place)
        began = time.monotonic()
        read = sum(plain[i] for i in range(len(plain)))
        took = time.monotonic() - began
    assert read == sum(sizes(len(names)))
    tell("batches", len(names), took)


class ReadItem(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("buffer", ctypes.c_void_p), ("capacity", ctypes.c_uint64),
                ("result", ctypes.c_int64), ("size", ctypes.c_uint64)]


def read_many(place, count, library):
    """The call of the package beside its C call, in turn."""
    import ros2store
    names = [name_of(i) for i in range(int(count))]
    batches = [names[begin:begin + BATCH] for begin in range(0, len(names), BATCH)]
    c = ctypes.CDLL(library)
    handle, error = ctypes.c_void_p(), ctypes.create_string_buffer(1024)
    assert c.ros2s_open(place.encode(), None, ctypes.byref(handle), error, len(error)) == 0, error.value
    buffers = [ctypes.create_string_buffer(BYTES_MOST) for _ in range(BATCH)]
    in_c = [(ReadItem * len(batch))(*((name.encode(), ctypes.addressof(buffer), BYTES_MOST)
                                      for name, buffer in zip(batch, buffers))) for batch in batches]
    took = {"C": 0.0, "Python": 0.0}
    with ros2store.open(place) as fs:
        def in_c_too(items):
            assert c.ros2s_read_many(handle, b"files", items, ctypes.c_size_t(len(items))) == 0

        def spend(side, work, *arguments):
            began = time.monotonic()
            result = work(*arguments)
            took[side] += time.monotonic() - began
            return result

        for i, (batch, items) in enumerate(zip(batches, in_c)):
            if i % 2 == 0:  # each side is the first one in turn
                spend("C", in_c_too, items)
            contents = spend("Python", fs.read_many, batch, "files")
            if i % 2 == 1:
                spend("C", in_c_too, items)
            assert [len(content) for content in contents] == [item.result for item in items]
    c.ros2s_close(handle)
    for name, seconds in took.items():
        tell(name, len(names), seconds)


def records(place, seconds):
    """Records of 4 to 64 KiB of one file, IN_FLIGHT at a time."""
    import asyncio

    import ros2store

    async def read_on(file, until, draw):
        count = 0
        while time.monotonic() < until:
            bytes = 4096 * draw.randrange(1, 17)
            data = await file.aread(bytes, 4096 * draw.randrange(((RECORDS_MIB << 20) - bytes) >> 12))
            assert len(data) == bytes
            count += 1
        return count

    async def work(fs):
        async with await fs.aopen("records") as file:
            began = time.monotonic()
            until = began + float(seconds)
            counts = await asyncio.gather(*(read_on(file, until, random.Random(i)) for i in range(IN_FLIGHT)))
            tell("records", sum(counts), time.monotonic() - began)

    with ros2store.open(place) as fs:
        asyncio.run(work(fs))


def state_of(mib):
    import torch
    each = (int(mib) << 20) // CHECKPOINT_TENSORS // 4
    return {f"t{i}": torch.full((each,), float(i)) for i in range(CHECKPOINT_TENSORS)}


def timed(workload, work):
    began = time.monotonic()
    result = work()
    tell(workload, 1, time.monotonic() - began)
    return result


def save(place, mib, number, ranks, run):
    """One rank of a checkpoint: the time for which a step waits."""
    import torch
    state = state_of(mib)
    if is_uri(place):
        import ros2store
        from ros2store.checkpoint import Checkpoints
        with ros2store.open(place) as fs:
            checkpoints = Checkpoints(fs, "checkpoints", keep=1, rank=int(number), world=int(ranks), run=run)
            checkpoints.save_async(f"{run}.0", state)  # the memory that later saves use is new
            checkpoints.wait()
            timed("stall", lambda: checkpoints.save_async(f"{run}.1", state))
            checkpoints.wait()
    else:
        path = f"{place}/checkpoint.{number}"
        timed("stall", lambda: torch.save(state, path))
        with open(path, "rb") as file:
            os.fsync(file.fileno())


def load(place, _, number, ranks, run):
    """One rank of a training that starts again, in a new process."""
    import torch
    if is_uri(place):
        import ros2store
        from ros2store.checkpoint import Checkpoints
        with ros2store.open(place) as fs:
            checkpoints = Checkpoints(fs, "checkpoints", rank=int(number), world=int(ranks), run=run)
            loaded = timed("load", checkpoints.load)
    else:
        with open(f"{place}/checkpoint.{number}", "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            loaded = timed("load", lambda: torch.load(file))
    assert bool((loaded["t1"] == 1).all())


def touch(mib):
    """Uses memory and gives it back: a virtual machine may get it from its host only now, which takes longer than to
    fill it, and the sides need different amounts."""
    memory = mmap.mmap(-1, mib << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    for at in range(0, mib << 20, mmap.PAGESIZE):
        memory[at] = 1


def checkpoint(place, mib, ranks):
    """The slowest of the ranks."""
    run = f"bench{time.monotonic_ns()}"
    for workload in "save", "load":
        touch(3 * int(mib))
        words = sys.executable, __file__, place, workload, str(int(mib) // int(ranks))
        started = [subprocess.Popen([*words, str(i), ranks, run], stdout=subprocess.PIPE, text=True)
                   for i in range(int(ranks))]
        slowest = {}
        for process in started:
            said = process.communicate()[0]
            assert process.returncode == 0
            for line in said.splitlines():
                name, _, seconds = line.split()
                if name != "cpu":
                    slowest[name] = max(slowest.get(name, 0), float(seconds))
        for name, seconds in slowest.items():
            tell(name, 1, seconds)


def own_kib():
    """The memory that this process shares with no other."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_"))


def fork(place, turns):
    """The first use of what the parent opened, in forked children."""
    import ros2store
    with ros2store.open(place) as fs:
        fs.exists("files")
        for turn in range(int(turns)):
            child = os.fork()
            if child == 0:
                before, began = own_kib(), time.monotonic()
                fs.exists("files")
                tell(f"first use in {'a' if turn else 'the first'} forked child", 1, time.monotonic() - began)
                tell("memory", max(0, own_kib() - before), 1)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0


def start(place, *is_cold):
    """The import of the package and the first open, in a process whose files are in memory. If it is cold, those of the
    package and the library are not, except what other processes have mapped."""
    if is_cold:
        package = os.path.dirname(importlib.util.find_spec("ros2store").origin)
        forget(package)
        forget(os.path.join(package, "../../lib"))
    began = time.monotonic()
    import ros2store
    ros2store.open(place).close()
    tell("import and open" + ", cold" * len(is_cold), 1, time.monotonic() - began)


if __name__ == "__main__":
    WORKLOADS = {each.__name__: each for each in (epochs, batches, read_many, records, save, load, checkpoint, fork, start)}
    if sys.argv[2] == "make":
        make(sys.argv[1], int(sys.argv[3]))
    else:
        WORKLOADS[sys.argv[2]](sys.argv[1], *sys.argv[3:])
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    tell("cpu", 1, sum(each.ru_utime + each.ru_stime for each in spent))

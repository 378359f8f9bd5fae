"""Tests the data sets of torch: order, parts of ranks and workers, positions, and wrong tar files."""
import errno
import io
import itertools
import os
import pickle
import signal
import tarfile
import unittest

import ros2store
from on_pool import OnPool, ros2store_command

try:
    import torch
    from torch.utils.data import DataLoader
except ImportError:
    raise unittest.SkipTest("torch is not installed (python3-torch)") from None

from ros2store.torch import Files, Loader, Stream, Tars

COUNT = 50


def number_of(path, data):
    """A decoder, which workers that are spawned can load."""
    assert int(data) == int(path.rpartition("/")[2].removesuffix(".txt"))
    return int(data)


def numbers_of(key, members):
    return int(members["txt"]), len(members["bin"])


def die(path, data):
    os.kill(os.getpid(), signal.SIGKILL)


def tar_of(members, **options):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **options) as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


class Numbers:
    """Samples without files."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitems__(self, indices):
        return indices


class Order(unittest.TestCase):
    def all_of(self, count, world, **options):
        return [list(Stream(Numbers(count), 4, rank=rank, world=world, **options)) for rank in range(world)]

    def test_ranks_share_the_samples_evenly(self):
        for count, world in (0, 1), (0, 3), (1, 4), (10, 1), (12, 3), (13, 3), (2, 5):
            for seed in None, 7:
                parts = self.all_of(count, world, seed=seed)
                with self.subTest(count=count, world=world, seed=seed):
                    self.assertEqual({len(part) for part in parts}, {-(-count // world)})
                    self.assertEqual({number for part in parts for number in part}, set(range(count)))

    def test_the_order_is_that_of_seed_and_epoch(self):
        stream = Stream(Numbers(100), 8, seed=1)
        self.assertEqual(list(Stream(Numbers(5), 8, seed=1)), [3, 1, 2, 4, 0])
        epochs = [list(stream) for _ in range(3)]
        self.assertEqual(len({tuple(epoch) for epoch in epochs}), 3)
        self.assertEqual(sorted(epochs[2]), list(range(100)))
        stream.set_epoch(1)
        self.assertEqual(list(stream), epochs[1])
        self.assertNotEqual(list(Stream(Numbers(100), 8, seed=2)), epochs[0])
        self.assertEqual(list(Stream(Numbers(100), 8)), list(range(100)))

    def test_a_loaded_state_continues_behind_any_sample(self):
        for world, later_world in (1, 1), (2, 2), (2, 1), (1, 2), (3, 2):
            for used in (0, 1, 5, 8, 19, 20):
                streams = [Stream(Numbers(60), 8, seed=3, rank=rank, world=world) for rank in range(world)]
                streams[0].set_epoch(2)
                state = streams[0].state_dict()
                iterators = [iter(stream) for stream in streams]
                for stream in streams:
                    stream.set_epoch(2)
                seen = [next(each) for each in iterators for _ in range(used)]
                state = streams[0].state_dict() if used else state
                rest = []
                for rank in range(later_world):
                    later = Stream(Numbers(60), 4, seed=3, rank=rank, world=later_world)
                    later.load_state_dict(pickle.loads(pickle.dumps(state)))
                    rest += list(later)
                    self.assertEqual(later.epoch, 3)
                    self.assertEqual(len(list(later)), 60 // later_world, "the epoch after it is a whole one")
                with self.subTest(world=world, later_world=later_world, used=used):
                    self.assertEqual(set(seen) | set(rest), set(range(60)))
                    self.assertLessEqual(len(seen) + len(rest), 60 + later_world - 1)
        with self.assertRaisesRegex(ValueError, r"\(3, 60\), here is \(4, 60\)"):
            Stream(Numbers(60), 8, seed=4).load_state_dict(state)
        with self.assertRaises(ValueError):
            Stream(Numbers(61), 8, seed=3).load_state_dict(state)

    def test_a_worker_continues_with_its_own_part(self):
        def in_worker(work):
            outside = torch.utils.data._utils.worker._worker_info
            torch.utils.data._utils.worker._worker_info = torch.utils.data._utils.worker.WorkerInfo(
                id=1, num_workers=2, seed=0, dataset=None)
            try:
                return work()
            finally:
                torch.utils.data._utils.worker._worker_info = outside

        def whole():
            return list(Stream(Numbers(21), 4))

        def parts():
            stream = Stream(Numbers(21), 4)
            iterator = iter(stream)
            seen = [next(iterator) for _ in range(5)]
            later = Stream(Numbers(21), 4)
            later.load_state_dict(stream.state_dict())
            return seen + list(later)

        self.assertEqual(in_worker(whole), [4, 5, 6, 7, 12, 13, 14, 15, 20])
        self.assertEqual(in_worker(parts), in_worker(whole))

    def test_wrong_arguments(self):
        for options in ({"rank": 1}, {"world": 2}, {"rank": 2, "world": 2}, {"rank": -1, "world": 1}, {"batch": 0}):
            with self.subTest(options=options), self.assertRaises(ValueError):
                Stream(Numbers(5), **{"batch": 1, **options})


class Embedded(OnPool):
    workers = 0, 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with ros2store.open(cls.uri) as fs:
            fs.makedirs("set/sub")
            names = [f"{i:04}.txt" for i in range(COUNT)]
            fs.write_many([(name, name[:4].encode()) for name in names[::2]], "set")
            fs.write_many([(name, name[:4].encode()) for name in names[1::2]], "set/sub")
            fs.symlink("0000.txt", "set/link")
            fs.path("set/sub/.0123456789abcdef.part").touch()  # of a writer that was killed
            for tar in range(3):
                members = [(f"dir/{i:04}.{suffix}", b"%d" % i if suffix == "txt" else bytes(i * 100))
                           for i in range(tar * 20, min(tar * 20 + 20, COUNT)) for suffix in ("txt", "bin")]
                with fs.open(f"{tar}.tar", "wb") as file:
                    file.write(tar_of([*members, ("dir/é\udcff" + "x" * 200 + ".a.b", b"last")][:None if tar == 2 else -1],
                                      format=(tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)[tar],
                                      errors="surrogateescape"))

    def files(self, decode=number_of):
        return Files(self.fs, "set", decode)

    def test_files_of_a_directory_and_of_a_list(self):
        files = Files(self.fs, "set")
        self.assertEqual(len(files), COUNT)
        self.assertEqual(files[1], ("0002.txt", b"0002"))
        self.assertEqual(files.__getitems__([0, 49, 0]), [files[0], ("sub/0049.txt", b"0049"), files[0]])
        some = Files(self.uri if self.scheme != "ros2s+local" else self.fs, ["set/0004.txt", b"set/sub/0003.txt"], number_of)
        self.assertEqual([some[i] for i in range(len(some))], [4, 3])
        self.assertEqual(Files(self.fs, ["/set/0004.txt"])[0], ("/set/0004.txt", b"0004"))
        self.assertEqual(Files(self.fs, "/set")[1], files[1])
        self.write("set/0000.txt", b"longer than it was")
        self.assertEqual(files[0], ("0000.txt", b"longer than it was"))
        self.write("set/0000.txt", b"0000")
        self.fs.truncate("set/0000.txt", 4)
        with self.assertRaises(IndexError):
            files[COUNT]
        with self.assertRaises(FileNotFoundError):
            Files(self.fs, ["missing"])[0]
        with self.assertRaises(FileNotFoundError):
            Files(self.fs, "missing")

    def test_names_that_are_not_utf8(self):
        self.fs.makedirs(b"bytes/\xff")
        self.write(b"bytes/\xff/\xfe", b"x")
        self.assertEqual(Files(self.fs, "bytes")[0], ("\udcff/\udcfe", b"x"))
        self.assertEqual(Files(self.fs, b"bytes/\xff")[0], ("\udcfe", b"x"))
        self.assertEqual(Files(self.fs, [b"bytes/\xff/\xfe"])[0][1], b"x")

    def test_a_data_loader_gets_all_samples(self):
        for workers in self.workers:
            with self.subTest(workers=workers):
                loader = DataLoader(self.files(), batch_size=8, num_workers=workers)
                self.assertEqual(sorted(torch.cat(list(loader)).tolist()), list(range(COUNT)))
                loader = DataLoader(Stream(self.files(), 8, seed=5), batch_size=8, num_workers=workers)
                self.assertEqual(torch.cat(list(loader)).tolist(), list(Stream(self.files(), 8, seed=5)))

    def test_a_loader_continues_behind_any_batch(self):
        for workers in self.workers:
            loader = Loader(Stream(self.files(), 8, seed=5), num_workers=workers)
            epochs = [[batch.tolist() for batch in loader] for _ in range(2)]
            self.assertEqual(sorted(sum(epochs[0], [])), list(range(COUNT)))
            self.assertNotEqual(epochs[0], epochs[1])
            loader.set_epoch(1)
            for batch in itertools.islice(loader, 3):
                pass
            self.assertEqual(batch.tolist(), epochs[1][2])
            state = loader.state_dict()
            for later_workers in self.workers:
                later = Loader(Stream(self.files(), 8, seed=5), num_workers=later_workers)
                later.load_state_dict(state)
                with self.subTest(workers=workers, later_workers=later_workers):
                    self.assertEqual([batch.tolist() for batch in later], epochs[1][3:])
                    self.assertEqual(sum(map(len, later)), COUNT)
                    self.assertEqual(later.state_dict()["epoch"], 3)

    def test_tars(self):
        tars = Tars(self.fs, ["0.tar", "1.tar", b"2.tar"], numbers_of)
        self.assertEqual(len(tars), COUNT + 1)
        self.assertEqual([tars[i] for i in range(COUNT)], [(i, i * 100) for i in range(COUNT)])
        self.assertEqual(Tars(self.fs, ["2.tar"])[10], ("dir/é\udcff" + "x" * 200, {"a.b": b"last"}))
        tars = Tars(self.fs, ["0.tar", "1.tar"], numbers_of)
        for workers in self.workers:
            loader = Loader(Stream(tars, 7, seed=1), num_workers=workers)
            self.assertEqual(sorted(torch.cat([numbers for numbers, _ in loader]).tolist()), list(range(40)))
        self.assertEqual(len(pickle.loads(pickle.dumps(tars))) if self.scheme != "ros2s+local" else 40, 40)

    def test_a_wrong_tar_is_a_value_error_with_name_and_offset(self):
        whole = tar_of([("a.txt", b"x" * 1000), ("b.txt", b"y" * 1000)])
        damaged = bytearray(whole)
        damaged[1536] ^= 1
        twice = tar_of([("a.txt", b""), ("a.txt", b"")])
        for data, offset, why in ((whole[:1000], 1000, "unexpected end"), (whole[:1536], 1536, "neither"),
                                  (whole[:1700], 1536, "neither"), (whole[:3000], r"\d+", "unexpected end"),
                                  (whole[:3072], 3072, "neither"), (bytes(damaged), 1536, "neither"),
                                  (b"", r"\d+", "empty"), (b"x" * 2000, r"\d+", ""), (twice, 512, "twice")):
            self.write("wrong.tar", data)
            with self.subTest(why=why, size=len(data)):
                with self.assertRaisesRegex(ValueError, f"^tar 'wrong.tar': offset {offset}: .*{why}"):
                    Tars(self.fs, ["wrong.tar"])
            self.fs.unlink("wrong.tar")
        self.write("wrong.tar", whole)
        tars = Tars(self.fs, ["wrong.tar"])
        self.fs.truncate("wrong.tar", 2100)
        self.assertEqual(tars[0], ("a", {"txt": b"x" * 1000}))
        with self.assertRaisesRegex(ValueError, "offset 2048: the file has become shorter"):
            tars[1]
        self.fs.unlink("wrong.tar")
        self.write("empty.tar", tar_of([]))
        self.assertEqual(len(Tars(self.fs, ["empty.tar"])), 0)

    def test_use_after_close(self):
        files, tars = self.files(), Tars(self.fs, ["0.tar"])
        self.fs.close()
        for samples in files, tars:
            with self.assertRaises(OSError) as caught:
                samples[0]
            self.assertEqual(caught.exception.errno, errno.EBADF)

    def test_a_worker_that_is_killed_is_an_error_and_the_next_epoch_works(self):
        with self.assertRaisesRegex(RuntimeError, "worker.*(killed|exited unexpectedly)"):
            list(DataLoader(Stream(self.files(die), 8), batch_size=8, num_workers=2))
        self.assertEqual(len(list(Loader(Stream(self.files(), 10), num_workers=2))), COUNT // 10)

    def test_persistent_workers_are_refused(self):
        loader = DataLoader(Stream(self.files(), 8), batch_size=8, num_workers=1, persistent_workers=True)
        list(loader)
        with self.assertRaisesRegex(RuntimeError, "persistent_workers"):
            list(loader)


class Direct(Embedded):
    scheme, further = "ros2s", "&provider=shm"


class Offload(Embedded):
    scheme = "ros2s+dpu"

    def test_a_killed_dpu_is_a_pause(self):
        for workers in 0, 2:
            seen = []
            for i, batch in enumerate(Loader(Stream(self.files(), 5, seed=3), num_workers=workers)):
                seen += batch.tolist()
                if i == 1:
                    with open(self.directory + "/run/dpu.pid") as file:
                        os.kill(int(file.readline().split()[1]), signal.SIGKILL)
                    ros2store_command("up", self.directory)
            with self.subTest(workers=workers):
                self.assertEqual(sorted(seen), list(range(COUNT)))

    def test_spawned_workers(self):
        loader = Loader(Stream(Files(self.uri, "set", number_of), 8, seed=5), num_workers=1, multiprocessing_context="spawn")
        self.assertEqual(sorted(torch.cat(list(loader)).tolist()), list(range(COUNT)))


if __name__ == "__main__":
    unittest.main()

"""Tests files of the safetensors format: what save writes, and wrong files."""
import errno
import json
import os
import struct
import unittest

import ros2store
from on_pool import OnPool
from ros2store import safetensors

try:
    import numpy
except ImportError:
    raise unittest.SkipTest("numpy is not installed (python3-numpy)") from None
try:
    import torch
except ImportError:
    torch = None


def file_of(header, data=b"", length=None):
    """A file with a header as text or object, and another length than it has."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


class Embedded(OnPool):
    def test_arrays_are_as_they_were(self):
        arrays = {"f": numpy.arange(12, dtype="f4").reshape(3, 4).T, "scalar": numpy.array(7), "empty": numpy.zeros((0, 3)),
                  "bool": numpy.array([True, False, True]), "h": numpy.ones(5, "f2"), "u": numpy.array([1 << 63], "u8"),
                  "größe\udcff".encode("utf-8", "surrogateescape").decode("latin1"): numpy.zeros(3, "i1")}
        safetensors.save(self.fs, b"a\xff.safetensors", arrays, {"a": "b"})
        got, metadata = safetensors.load_with_metadata(self.fs, b"a\xff.safetensors", "numpy")
        self.assertEqual((set(got), metadata), (set(arrays), {"a": "b"}))
        for name, array in arrays.items():
            with self.subTest(name=name):
                numpy.testing.assert_array_equal(got[name], array)
                self.assertEqual(got[name].dtype, array.dtype)
        self.assertEqual(len({id(array.base) for array in got.values()}), 1, "they do not share the memory of one read")
        self.assertIsNotNone(got["f"].base)
        got["f"][0, 0] = 1
        safetensors.save(self.fs, "a", {"replaced": arrays["h"]})
        safetensors.save(self.fs, "a", {})
        self.assertEqual(safetensors.load(self.fs, "a", "numpy"), {})
        self.assertEqual([name for name in self.fs.listdir() if name.endswith(".part")], [])
        for tensors, words in (({"a": numpy.zeros(1, "c8")}, "complex64"), ({"a": numpy.zeros(1, ">f4")}, ">f4"),
                               ({1: arrays["h"]}, "no name"), ({"__metadata__": arrays["h"]}, "no name")):
            with self.assertRaisesRegex(TypeError, words):
                safetensors.save(self.fs, "a", tensors)
        with self.assertRaises(TypeError):
            safetensors.save(self.fs, "a", arrays, {"a": 1})

    @unittest.skipIf(torch is None, "torch is not installed (python3-torch)")
    def test_tensors_are_as_they_were(self):
        tensors = {"f": torch.arange(12.).reshape(3, 4).t(), "scalar": torch.tensor(7), "empty": torch.zeros(0, 3),
                   "bool": torch.tensor([True, False]), "b": torch.ones(5, dtype=torch.bfloat16),
                   "parameter": torch.nn.Parameter(torch.ones(2))}
        safetensors.save(self.fs, "t", tensors)
        got = safetensors.load(self.fs, "t")
        self.assertEqual(set(got), set(tensors))
        for name, tensor in tensors.items():
            self.assertTrue(torch.equal(got[name], tensor) and got[name].dtype == tensor.dtype, name)
        self.assertEqual(len({each.storage().data_ptr() for each in got.values() if each.numel()}), 1)
        with self.assertRaisesRegex(TypeError, "numpy has no type bfloat16"):
            safetensors.load(self.fs, "t", "numpy")
        self.write("unaligned", file_of(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', struct.pack("<f", 1.5)))
        self.assertEqual(safetensors.load(self.fs, "unaligned")["a"].tolist(), [1.5])

    def test_a_wrong_file_is_a_value_error_with_name_and_offset(self):
        good = {"a": entry("F32", [2], 0, 8), "b": entry("U8", [3], 8, 11)}
        whole = file_of(good, bytes(11))
        base = len(whole) - 11
        twice = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
        cases = [
            (b"", 0, "fewer than the 8"), (b"1234567", 0, "fewer than the 8"),
            (file_of(good, length=100_000_001), 0, "more than 100000000"), (file_of(good, length=1 << 63), 0, "more than"),
            (whole[:50], 50, "ends in its header"), (file_of(b""), 8, "does not begin"), (file_of(b" {}"), 8, "does not begin"),
            (file_of(b"{"), 8, "not JSON"), (file_of(b"{\xff}"), 8, "not JSON"), (file_of(twice, b"1"), 8, "twice"),
            (file_of(b'{"a":' * 100_000), 8, "not JSON"), (file_of(b'{"a":' + b"9" * 5000 + b"}"), 8, "not JSON"),
            (file_of({"__metadata__": {"a": 1}}), 8, "no object of strings"), (file_of({"__metadata__": []}), 8, "no object"),
            (file_of({"a": 5}), 8, "not just"), (file_of({"a": {**good["a"], "more": 1}}), 8, "not just"),
            (file_of({"a": entry("F31", [2], 0, 8)}), 8, "unknown dtype"), (file_of({"a": entry([], [2], 0, 8)}), 8, "unknown"),
            *((file_of({"a": entry("U8", shape, 0, 8)}), 8, "no lists of sizes")
              for shape in (-1, [-8], [2.0], [True], "8", [1 << 63], [1] * 65, None)),
            (file_of({"a": entry("U8", [8], -8, 0)}), 8, "no lists"), (file_of({"a": {**good["a"], "data_offsets": [0]}}), 8, "no l"),
            (whole[:-1], base + 8, "has 10 bytes of data"), (whole + b"1", base + 11, "the tensors end here"),
            (file_of({"a": entry("U8", [8], 8, 0)}, bytes(8)), None, "has 8 bytes of data"),
            (file_of({"a": entry("F32", [3], 0, 8)}, bytes(8)), None, r"not F32 of shape \[3\]"),
            (file_of({"a": entry("F64", [1 << 62, 1 << 62], 0, 8)}, bytes(8)), None, "not F64"),
            (file_of({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 3, 7)}, bytes(7)), None, "'b' overlaps"),
            (file_of({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 5, 9)}, bytes(9)), None, "leaves a hole"),
            (file_of({"a": entry("U8", [4], 1, 5)}, bytes(5)), None, "leaves a hole")]
        for data, offset, why in cases:
            with self.subTest(why=why, data=data[:100]):
                self.write("wrong", data)
                at = r"\d+" if offset is None else offset
                with self.assertRaisesRegex(ValueError, f"^safetensors 'wrong': offset {at}: .*{why}"):
                    safetensors.load(self.fs, "wrong", "numpy")
                self.fs.unlink("wrong")
        with self.assertRaises(FileNotFoundError):
            safetensors.load(self.fs, "missing", "numpy")
        with self.assertRaises(IsADirectoryError):
            safetensors.load(self.fs, "", "numpy")
        self.fs.close()
        with self.assertRaises(OSError) as caught:
            safetensors.load(self.fs, "a", "numpy")
        self.assertEqual(caught.exception.errno, errno.EBADF)


class Direct(Embedded):
    scheme, further = "ros2s", "&provider=shm"


class Offload(Embedded):
    scheme = "ros2s+dpu"


class BadBlock(OnPool):
    def test_reading_a_bad_block_raises_name_and_offset(self):
        array = numpy.frombuffer(os.urandom(3 << 20), "u1")
        safetensors.save(self.fs, "a", {"x": array})
        self.fs.close()
        where = 2_500_000
        pattern = array[where:where + 64].tobytes()
        changed = 0
        for top, _, names in os.walk(self.directory):
            for name in names:
                with open(os.path.join(top, name), "r+b") as file:
                    at = file.read().find(pattern)
                    if at >= 0:
                        os.pwrite(file.fileno(), bytes(64), at)
                        changed += 1
        self.assertEqual(changed, 1)
        self.fs = ros2store.open(self.uri)
        with self.assertRaises(OSError) as caught:
            safetensors.load(self.fs, "a", "numpy")
        self.assertEqual(caught.exception.errno, errno.EIO)
        found = int(caught.exception.strerror.removeprefix("read 'a': offset ").split(":")[0])
        self.assertLess(abs(found - where), 8192)


if __name__ == "__main__":
    unittest.main()

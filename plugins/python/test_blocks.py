"""A cache container: blocks are put, read and looked up by the calls for many files, within a budget."""
import errno
import json
import os
import subprocess
import unittest

import ros2store
from on_pool import OnPool, ros2store_command

BLOCK = 256 << 10


def facts(uri):
    done = subprocess.run([os.environ["ROS2STORE_PROGRAMS"] + "/ros2store", "--json", "container", "query", uri],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def block(key):
    return key.encode().ljust(BLOCK, b".")


class Embedded(OnPool):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.uri = cls.uri.replace("/pool/main", "/pool/blocks")
        # A DPU creates none.
        cls.engine = cls.uri.replace("ros2s+dpu", "ros2s")
        ros2store_command("container", "create", "--cache", "--size", "8MiB", cls.engine)

    def keys(self, *numbers):
        return [f"key-{number}" for number in numbers]

    def put(self, keys):
        return self.fs.write_many([(key, block(key)) for key in keys], new=True)

    def remove_all(self):
        self.fs.unlink_many(self.fs.listdir())

    def test_puts_are_read_back_and_never_changed(self):
        self.remove_all()
        keys = self.keys(*range(8))
        self.assertEqual(self.put(keys), [None] * 8)
        self.assertEqual(self.fs.read_many(keys, sizes=[BLOCK] * 8), [block(key) for key in keys])
        self.assertEqual(self.fs.exists_many(keys + ["other"]), [True] * 8 + [False])
        self.assertEqual(self.put(keys[:2]), [None] * 2)
        other = self.fs.write_many([(keys[0], b"other")], new=True)
        self.assertEqual(other[0].errno, errno.EEXIST)
        self.assertEqual(sorted(self.fs.listdir()), keys)
        with self.assertRaises(OSError):
            self.fs.mkdir("directory")
        with self.assertRaises(PermissionError):
            self.fs.open(keys[0], "r+b")
        self.fs.unlink_many(keys[:4])
        self.assertEqual(self.fs.exists_many(keys), [False] * 4 + [True] * 4)
        with self.assertRaises(FileNotFoundError):
            self.fs.read_many([keys[0]])

    def test_create_without_a_budget_is_refused(self):
        for words, sentence in ((["--cache"], "give --size"), (["--ttl", "1h"], "give --cache"),
                                (["--cache", "--size", "8MiB", "--ttl", "5"], "give one as in 12h")):
            done = subprocess.run([os.environ["ROS2STORE_PROGRAMS"] + "/ros2store", "container", "create", *words,
                                   self.engine.replace("/blocks?", "/other?")],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(sentence, done.stderr)

    def test_budget_holds_and_a_restart_keeps_blocks(self):
        self.remove_all()
        keys = self.keys(*range(100, 200))
        for at in range(0, len(keys), 10):
            self.assertEqual(self.put(keys[at:at + 10]), [None] * 10)
        there = self.fs.exists_many(keys)
        self.assertTrue(there[-1])
        self.assertGreater(sum(there), 24)
        self.assertLessEqual(sum(there), 32)
        too_large = self.fs.write_many([("large", bytes(9 << 20))], new=True)
        self.assertEqual(too_large[0].errno, errno.EDQUOT)
        self.assertEqual(self.fs.exists_many(keys), there)
        self.assertIn(f"blocks={sum(there)} ".encode(), self.fs.getxattr("", "user.ros2store.cache"))
        self.fs.close()
        state = facts(self.engine)
        self.assertLessEqual(state["used_bytes"], state["cap_bytes"])
        self.assertEqual(state["cache"]["blocks"], sum(there))
        if self.scheme != "ros2s+local":
            self.assertGreaterEqual(state["cache"]["evicted"], 100 - 32)
            ros2store_command("down", self.directory)
            ros2store_command("up", self.directory)
        self.fs = ros2store.open(self.uri)
        self.assertEqual(self.fs.exists_many(keys), there)
        present = [key for key, is_there in zip(keys, there) if is_there]
        self.assertEqual(self.fs.read_many(present, sizes=[BLOCK] * len(present)), [block(key) for key in present])
        self.assertEqual(self.put(self.keys(300)), [None])


class Direct(Embedded):
    scheme, further = "ros2s", "&provider=shm"


class Offload(Embedded):
    scheme = "ros2s+dpu"


if __name__ == "__main__":
    unittest.main()

"""A cache container: blocks are put, read and looked up by the calls for many files, and by the calls of C for blocks,
within a budget."""
import contextlib
import ctypes
import errno
import json
import mmap
import os
import select
import subprocess
import sys
import time
import unittest

import ros2store
from on_pool import OnPool, ros2store_command

BLOCK = 256 << 10


HOUR = 3600 * 10**9
PUT, GET, FIND, TOUCH, PIN, UNPIN, REMOVE = range(5, 12)


class Block(ctypes.Structure):
    """ros2s_block"""
    _fields_ = [("key", ctypes.c_char_p), ("key_bytes", ctypes.c_uint64), ("data", ctypes.c_void_p),
                ("bytes", ctypes.c_uint64), ("result", ctypes.c_int64)]


class Request(ctypes.Structure):
    """ros2s_request"""
    _fields_ = [("opcode", ctypes.c_uint16), ("memory", ctypes.c_uint16), ("device", ctypes.c_uint32),
                ("file", ctypes.c_void_p), ("address", ctypes.c_void_p), ("bytes", ctypes.c_uint64),
                ("offset", ctypes.c_uint64), ("user_data", ctypes.c_uint64), ("buffer", ctypes.c_void_p),
                ("reserved", ctypes.c_uint64)]


class Memory(ctypes.Structure):
    """ros2s_memory"""
    _fields_ = [("struct_bytes", ctypes.c_uint32), ("kind", ctypes.c_uint32), ("device", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("address", ctypes.c_void_p), ("bytes", ctypes.c_uint64)]


class Calls:
    """The calls of C for blocks."""

    def __init__(self, uri):
        self.c = ctypes.CDLL("libros2store.so.0")
        self.c.ros2s_blocks.restype = ctypes.c_int64
        self.c.ros2s_blocks.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64]
        self.fs, self.queue = ctypes.c_void_p(), ctypes.c_void_p()
        assert self.c.ros2s_open(uri.encode(), None, ctypes.byref(self.fs), None, ctypes.c_size_t(0)) == 0

    def close(self):
        if self.queue:
            assert self.c.ros2s_queue_destroy(self.queue) == 0
        assert self.c.ros2s_close(self.fs) == 0

    def blocks(self, keys, data=None, size=BLOCK):
        """Blocks with room for what is got, or with these bytes."""
        self.memory = [ctypes.create_string_buffer(each, size) for each in data or [b""] * len(keys)]
        return (Block * len(keys))(*(Block(key, len(key), ctypes.addressof(memory), size, -1)
                                     for key, memory in zip(keys, self.memory)))

    def work(self, opcode, blocks, pin_ns=0):
        done = self.c.ros2s_blocks(self.fs, opcode, blocks, len(blocks), pin_ns)
        return done, [each.result for each in blocks]

    def submit(self, opcode, blocks, number, pin_ns=0):
        if not self.queue:
            assert self.c.ros2s_queue_create(self.fs, 8, ctypes.byref(self.queue)) == 0
        request = Request(opcode=opcode, address=ctypes.addressof(blocks), bytes=len(blocks), offset=pin_ns, user_data=number)
        return self.c.ros2s_queue_submit(self.queue, ctypes.byref(request), 1)

    def reap(self):
        """What has ended, after the queue's descriptor said so."""
        assert select.select([self.c.ros2s_queue_fd(self.queue)], [], [], 60)[0]
        completions = (ctypes.c_int64 * 16)()
        count = self.c.ros2s_queue_reap(self.queue, completions, 0, 8, ctypes.c_int64(0))
        return [(completions[2 * i], completions[2 * i + 1]) for i in range(count)]

    def register(self, address, size):
        memory, buffer = Memory(ctypes.sizeof(Memory), 0, 0, 0, address, size), ctypes.c_void_p()
        assert self.c.ros2s_buffer_register(self.fs, ctypes.byref(memory), ctypes.byref(buffer)) == 0
        return buffer

    @contextlib.contextmanager
    def registered(self, address, size):
        buffer = self.register(address, size)
        yield
        assert self.c.ros2s_buffer_unregister(buffer) == 0

    def counters(self, path):
        """Those of all layers of the process, from the report of a file."""
        file, text = ctypes.c_void_p(), ctypes.create_string_buffer(1 << 20)
        assert self.c.ros2s_file_open(self.fs, path.encode(), os.O_RDONLY, 0, ctypes.byref(file)) == 0
        assert self.c.ros2s_path_report(file, 1, text, ctypes.c_size_t(len(text))) > 0
        assert self.c.ros2s_file_close(file) == 0
        return json.loads(text.value)["counters"]


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


    # ---- the calls of C
    def calls(self, uri=None):
        calls = Calls(uri or self.uri)
        self.addCleanup(calls.close)
        return calls

    def test_calls_of_c_work_on_many_blocks(self):
        self.remove_all()
        calls = self.calls()
        keys = [b"key-%d" % i for i in range(1500)] + [b"\0\xff/", b""]
        blocks = calls.blocks(keys, keys, 16)
        self.assertEqual(calls.work(PUT, blocks), (1501, [0] * 1501 + [-errno.EINVAL]))
        got = calls.blocks(keys[:1501] + [b"none"], size=16)
        self.assertEqual(calls.work(GET, got), (1501, [16] * 1501 + [-errno.ENOENT]))
        self.assertEqual([memory.raw for memory in calls.memory[:1501]], [key.ljust(16, b"\0") for key in keys[:1501]])
        self.assertEqual(calls.work(GET, calls.blocks(keys[:1], size=15)), (0, [-errno.EMSGSIZE]))
        self.assertEqual(calls.work(PUT, calls.blocks(keys[:2], [b"x", keys[1]], 16)), (0, [-errno.EEXIST, 0]))
        some = calls.blocks([b"key-1", b"none", b"key-2"])
        for opcode in FIND, TOUCH, PIN:
            self.assertEqual(calls.work(opcode, some, HOUR), (1, [0, -errno.ENOENT, 0]))
        self.assertIn(b" pinned=2", self.fs.getxattr("", "user.ros2store.cache"))
        self.assertEqual(calls.work(UNPIN, some)[1], [0, 0, 0])
        self.assertIn(b" pinned=0", self.fs.getxattr("", "user.ros2store.cache"))
        self.assertEqual(calls.work(REMOVE, some), (1, [0, -errno.ENOENT, 0]))
        self.assertEqual(calls.work(FIND, calls.blocks([b"key-0", b"key-1", b"key-2", b"key-3"]))[1],
                         [0, -errno.ENOENT, -errno.ENOENT, 0])
        self.assertEqual(calls.work(PIN, some, 0)[0], -errno.EINVAL)
        self.assertEqual(calls.work(4, some)[0], -errno.EINVAL)
        self.assertEqual(calls.work(FIND, calls.blocks([])), (0, []))
        files = self.calls(self.uri.replace("/pool/blocks", "/pool/main"))
        self.assertEqual(files.work(FIND, some)[0], -errno.EOPNOTSUPP)

    def test_a_key_of_wrong_size_is_refused_alone(self):
        self.remove_all()
        calls = self.calls()
        for key in b"", b"k" * 65, b"k" * (1 << 20):
            for opcode, right in (PUT, 0), (GET, 16), (FIND, 0), (TOUCH, 0), (PIN, 0), (UNPIN, 0), (REMOVE, 0):
                blocks = calls.blocks([b"right", key, b"k" * 64], size=16)
                self.assertEqual(calls.work(opcode, blocks, HOUR), (1, [right, -errno.EINVAL, right]))

    def test_keys_may_be_in_a_batch_many_times(self):
        self.remove_all()
        calls = self.calls()
        keys = [b"key-%d" % (i % 3) for i in range(1024)]
        for opcode, result in (PUT, 0), (GET, 16), (FIND, 0), (TOUCH, 0), (PIN, 0), (UNPIN, 0), (REMOVE, 0):
            self.assertEqual(calls.work(opcode, calls.blocks(keys, keys, 16), HOUR), (1024, [result] * 1024))
        self.assertEqual(calls.work(FIND, calls.blocks(keys[:3]))[0], 0)

    def test_pins_end_with_their_file_system(self):
        self.remove_all()
        keys = [key.encode() for key in self.keys(*range(12))]
        self.put([key.decode() for key in keys])
        calls = Calls(self.uri)
        self.assertEqual(calls.work(PIN, calls.blocks(keys), HOUR)[0], 12)
        more = [key.encode() for key in self.keys(*range(12, 20))]
        self.put([key.decode() for key in more])
        self.assertEqual(calls.work(PIN, calls.blocks(more), HOUR), (0, [-errno.EDQUOT] * 8))
        self.put(self.keys(*range(100, 140)))
        self.assertEqual(calls.work(FIND, calls.blocks(keys))[0], 12)
        calls.close()
        self.fs.close()
        self.fs = ros2store.open(self.uri)
        self.assertIn(b" pinned=0", self.fs.getxattr("", "user.ros2store.cache"))

    def test_pins_end_with_a_process_that_is_killed(self):
        self.remove_all()
        self.put(self.keys(1, 2))
        program = """import sys, test_blocks
calls = test_blocks.Calls(sys.argv[1])
print(calls.work(test_blocks.PIN, calls.blocks([b"key-1", b"key-2"]), test_blocks.HOUR)[0], flush=True)
sys.stdin.read()"""
        if self.scheme == "ros2s+local":
            self.fs.close()  # else this process is the owner of the pool, and its pins are meant
        with subprocess.Popen([sys.executable, "-c", program, self.uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              cwd=os.path.dirname(__file__)) as other:
            self.assertEqual(other.stdout.readline(), b"2\n")
            other.kill()
        if self.scheme == "ros2s+local":
            self.fs = ros2store.open(self.uri)
        began = time.monotonic()
        while b" pinned=0" not in self.fs.getxattr("", "user.ros2store.cache"):
            self.assertLess(time.monotonic(), began + 60)
            time.sleep(0.1)

    def test_a_descriptor_tells_of_blocks_in_a_queue(self):
        self.remove_all()
        calls = self.calls()
        keys = [b"a", b"b"]
        blocks = calls.blocks(keys, [b"1" * BLOCK, b"2" * BLOCK])
        self.assertEqual(calls.submit(PUT, blocks, 7), 1)
        self.assertEqual(calls.reap(), [(7, 2)])
        got = calls.blocks([*keys, b"c"])
        self.assertEqual(calls.submit(GET, got, 8), 1)
        self.assertEqual(calls.reap(), [(8, 2)])
        self.assertEqual(([each.result for each in got], calls.memory[1].raw), ([BLOCK, BLOCK, -errno.ENOENT], b"2" * BLOCK))
        self.assertEqual(calls.submit(PIN, blocks, 9, 0), 1)
        self.assertEqual(calls.reap(), [(9, -errno.EINVAL)])
        none = (Block * 1)(Block(None, 1, None, 0, 0))
        self.assertEqual(calls.submit(FIND, none, 10), -errno.EINVAL)


    def test_blocks_move_into_registered_memory_with_as_few_copies_as_there_can_be(self):
        self.remove_all()
        calls, keys = self.calls(), [b"r%d" % i for i in range(8)]
        blocks = calls.blocks(keys)
        memory = mmap.mmap(-1, 8 * BLOCK)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for i, each in enumerate(blocks):
            each.data = base + i * BLOCK
        memory[:] = b"".join(block(key.decode()) for key in keys)
        with calls.registered(base, len(memory)):
            self.assertEqual(calls.submit(PUT, blocks, 1), 1)
            self.assertEqual(calls.reap(), [(1, 8)])
            memory[:] = bytes(len(memory))
            before = calls.counters("r0")
            self.assertEqual(calls.submit(GET, blocks, 2), 1)
            self.assertEqual(calls.reap(), [(2, 8)])
            after = calls.counters("r0")
        self.assertEqual([memory[i * BLOCK:(i + 1) * BLOCK] for i in range(8)], [block(key.decode()) for key in keys])
        grown = {name: after[name] - before[name] for name in after if "staged_bytes" in name or "bounced" in name}
        self.assertTrue(grown)
        # A device reads into the memory of this process. Another process puts blocks into shared memory, with heads.
        for name, growth in grown.items():
            copied = len(memory) if "staged_bytes" in name else 0
            self.assertTrue(copied <= growth <= copied + 8 * 16, (name, growth))


class Direct(Embedded):
    scheme, further = "ros2s", "&provider=shm"


class Offload(Embedded):
    scheme = "ros2s+dpu"


if __name__ == "__main__":
    unittest.main()

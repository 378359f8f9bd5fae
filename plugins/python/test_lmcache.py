"""Tests ros2store.lmcache with the calls of LMCache's adapter: submits under its lock from any thread, a thread that polls
the descriptor and drains, and on closing first the end of that thread, then close()."""
import os
import select
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from on_pool import OnPool, on_cache
from ros2store.lmcache import Connector

FILL = b"\xee"
METHODS = ("event_fd", "submit_batch_get", "submit_batch_set", "submit_batch_exists", "drain_completions", "close")


class Adapter:
    """What LMCache's adapter does with a connector."""

    def __init__(self, connector):
        self.connector = connector
        assert all(callable(getattr(connector, name)) for name in (*METHODS, "submit_batch_delete"))
        self.fd = int(connector.event_fd())
        self.lock = threading.Lock()
        self.pending, self.ended, self.unknown = {}, {}, []
        self.has_ended = threading.Condition(self.lock)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.demux, daemon=True)
        self.thread.start()

    def demux(self):
        poller = select.poll()
        poller.register(self.fd, select.POLLIN)
        while not self.stop.is_set():
            if poller.poll(50):
                self.take(self.connector.drain_completions())

    def take(self, completions):
        with self.has_ended:
            for number, ok, error, bools in completions:
                assert type(ok) is bool and type(error) is str and type(bools) is list
                if int(number) in self.pending:
                    self.ended[int(number)] = ok, error, bools
                else:
                    self.unknown.append(number)
            self.has_ended.notify_all()

    def submit(self, what, *arguments):
        with self.lock:
            number = int(getattr(self.connector, f"submit_batch_{what}")(*arguments))
            assert number not in self.pending
            self.pending[number] = what
            return number

    def result(self, number):
        with self.has_ended:
            assert self.has_ended.wait_for(lambda: number in self.ended, 60)
            return self.ended[number]

    def run(self, what, *arguments):
        return self.result(self.submit(what, *arguments))

    def close(self):
        self.stop.set()
        self.thread.join(5)
        self.connector.close()


def key(i, model="meta-llama/Llama-3-8B", salt=""):
    return f"{model}@0000ff01@0@{bytes([i % 256]) * 32!r}{i}" + (f"@{salt}" if salt else "")


def views(count, size=5000, fill=FILL):
    return [memoryview(bytearray(fill * size)) for _ in range(count)]


class Embedded(OnPool):
    count = 0

    def adapter(self, **options):
        adapter = Adapter(Connector(self.uri, **{"directory": self.folder, "deadline": 60.0, **options}))
        self.addCleanup(adapter.close)
        return adapter

    def setUp(self):
        super().setUp()
        Embedded.count += 1
        self.folder = f"l/{Embedded.count}"
        self.lm = self.adapter()

    def test_store_look_up_load_and_delete(self):
        keys = [key(i) for i in range(20)]
        stored = views(20)
        for i, view in enumerate(stored):
            view[:] = bytes([i]) * 5000
        self.assertEqual(self.lm.run("exists", keys), (True, "", [False] * 20))
        self.assertEqual(self.lm.run("set", keys, stored), (True, "", [True] * 20))
        self.assertEqual(self.lm.run("set", keys[:2], stored[1:3]), (True, "", [True] * 2))  # they keep their blocks
        absent = [key(1, salt="other"), key(1, "other")]
        self.assertEqual(self.lm.run("exists", keys + absent), (True, "", [True] * 20 + [False] * 2))
        got = views(22)
        self.assertEqual(self.lm.run("get", keys + absent, got), (True, "", [True] * 20 + [False] * 2))
        self.assertEqual(got, [*stored, *views(2)])
        self.assertEqual(self.lm.run("delete", keys[:3] + absent), (True, "", [True] * 5))
        self.assertEqual(self.lm.run("exists", keys)[2], [False] * 3 + [True] * 17)
        other = self.adapter(namespace="of another cluster")
        self.assertEqual(other.run("exists", keys)[2], [False] * 20)
        self.assertEqual(self.adapter().run("get", keys[3:4], views(1))[2], [True])
        self.assertEqual(self.lm.unknown, [])

    def test_wrong_sizes_are_misses(self):
        self.lm.run("set", [key(1), key(2), key(3)], views(3))
        self.assertEqual(self.lm.run("get", [key(1), key(2), key(3)], [*views(1, 4999), *views(1, 5001), *views(1)]),
                         (True, "", [False, False, True]))

    def test_damaged_blocks_are_misses(self):
        self.lm.run("set", [key(1), key(2), key(3)], views(3))
        for name in self.fs.listdir(self.folder):
            with self.fs.open(f"{self.folder}/{name}", "r+b", 0) as file:
                file.pwrite(b"x", 1000)
        got = views(3, fill=b"-")
        self.assertEqual(self.lm.run("get", [key(1), key(2), key(3)], got), (True, "", [False] * 3))
        self.assertEqual(got, views(3, fill=b"-"))

    def test_calls_that_cannot_begin_are_failures(self):
        for what, arguments in (("set", ([key(1)], [])), ("set", ([key(1)], [None])), ("get", ([key(1)], [b"read-only"])),
                                ("get", ([key(1)], [memoryview(bytearray(10))[::2]])), ("exists", ([None],))):
            with self.subTest(what=what, arguments=arguments):
                ok, error, bools = self.lm.run(what, *arguments)
                self.assertEqual((ok, bools), (False, [False]))
                self.assertNotEqual(error, "")
        self.assertEqual(self.lm.run("set", [], []), (True, "", []))

    def test_sets_into_a_lost_directory_are_failures(self):
        self.fs.rmtree(self.folder)
        ok, error, bools = self.lm.run("set", [key(1)], views(1))
        self.assertEqual((ok, bools), (False, [False]))
        self.assertIn("No such file", error)

    def test_many_threads_submit(self):
        def work(number):
            for turn in range(10):
                keys = [key(1000 * number + 10 * turn + i) for i in range(5)]
                assert self.lm.run("set", keys, views(5, fill=bytes([number])))[0]
                got = views(5)
                assert self.lm.run("get", keys, got) == (True, "", [True] * 5)
                assert got == views(5, fill=bytes([number]))

        with ThreadPoolExecutor(6) as threads:
            list(threads.map(work, range(6)))
        self.assertEqual(self.lm.unknown, [])

    def test_close_in_flight_and_calls_after_it(self):
        memory = views(400, 50_000)
        numbers = [self.lm.submit("set", [key(i) for i in range(400)], memory) for _ in range(5)]
        gets = self.lm.submit("get", [key(1)], memory[:1])
        self.lm.close()
        self.lm.take(self.lm.connector.drain_completions())
        self.assertEqual(set(self.lm.ended), {*numbers, gets})
        for view in memory:
            view.obj.extend(b"")  # BufferError if it were in use
        for what, arguments in (("set", ([key(1)], memory[:1])), ("get", ([key(1)], memory[:1])), ("exists", ([key(1)],)),
                                ("delete", ([key(1)],))):
            number = self.lm.submit(what, *arguments)
            (found, ok, error, bools), = self.lm.connector.drain_completions()
            self.assertEqual((found, ok, bools), (number, False, [False]))
            self.assertIn("closed", error)
        self.lm.connector.close()
        os.fstat(self.lm.fd)

    def test_late_completions_are_failures(self):
        self.lm.run("set", [key(i) for i in range(64)], views(64, 100_000, b"+"))
        late = self.adapter(deadline=1e-5)
        for _ in range(10):
            got = views(64, 100_000)
            _, _, bools = late.run("get", [key(i) for i in range(64)], got)
            seen = [bytes(view) for view in got]
            self.assertEqual(seen, [(b"+" if is_hit else FILL) * 100_000 for is_hit in bools])
            self.lm.run("exists", [key(1)])  # the time of another call
            self.assertEqual(seen, got)


class Direct(Embedded):
    scheme, hangs = "ros2s", "engine"

    def test_a_server_that_hangs_is_a_miss(self):
        self.lm.run("set", [key(1)], views(1))
        adapter = self.adapter(deadline=0.3)
        with self.stopped(self.hangs):
            self.assertEqual(adapter.run("exists", [key(2)]), (True, "", [False]))
            self.assertEqual(adapter.run("get", [key(1)], views(1)), (True, "", [False]))
            ok, error, bools = adapter.run("set", [key(2)], views(1))
            self.assertEqual((ok, bools), (False, [False]))
            self.assertIn("timed out", error)


class Offload(Direct):
    scheme, hangs = "ros2s+dpu", "dpu"


OffloadOnCache = on_cache(Offload, "test_damaged_blocks_are_misses", "test_sets_into_a_lost_directory_are_failures")


if __name__ == "__main__":
    unittest.main()

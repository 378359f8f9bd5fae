"""Tests requests of asyncio's tasks, and ranges of many files at once."""
import asyncio
import contextlib
import errno
import gc
import os
import signal
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from on_pool import OnPool


class Embedded(OnPool):
    def setUp(self):
        super().setUp()
        self.data = bytes(range(256)) * 1000
        self.write("ranges", self.data)

    def test_pread_many(self):
        with self.fs.open("ranges", "rb", 0) as file, self.fs.open("ranges", "r+b") as buffered:
            ranges = [((file, buffered)[i % 2], i * 100, 50) for i in range(1000)]
            self.assertEqual(self.fs.pread_many(ranges), [self.data[i * 100:i * 100 + 50] for i in range(1000)])
            self.assertEqual(self.fs.pread_many([(file, 255_990, 100), (file, 1 << 40, 1), (file, 0, 0)]),
                             [self.data[-10:], b"", b""])
            self.assertEqual(self.fs.pread_many([]), [])
            for error, wrong in ((ValueError, [(file, -1, 1)]), (ValueError, [(file, 0, -1)]), (ValueError, [(file, 0, 1 << 63)]),
                                 (TypeError, [(file, "a", 1)]), (TypeError, [5])):
                with self.subTest(wrong=wrong), self.assertRaises(error):
                    self.fs.pread_many(wrong)
            with self.assertRaisesRegex(MemoryError, f"there is no memory for {1 << 62} bytes"):
                self.fs.pread_many([(file, 0, 1 << 62)])
        with self.assertRaisesRegex(OSError, "the file is closed") as caught:
            self.fs.pread_many([(file, 0, 1)])
        self.assertEqual(caught.exception.errno, errno.EBADF)
        with self.fs.open("ranges", "ab", 0) as file:
            error, = self.fs.pread_many([(file, 0, 1)])
            self.assertIsInstance(error, PermissionError)
            self.assertIn("read 'ranges'", str(error))

    def test_tasks_read_and_write(self):
        async def work():
            async with await self.fs.aopen("tasks", "w+b") as file:
                await asyncio.gather(*(file.awrite(bytes([i]) * 4096, i * 4096) for i in range(64)))
                await file.afsync()
                blocks = await asyncio.gather(*(file.aread(4096, i * 4096) for i in range(64)))
                self.assertEqual(blocks, [bytes([i]) * 4096 for i in range(64)])
                into = bytearray(8192)
                self.assertEqual(await file.areadinto(into, 63 * 4096), 4096)
                self.assertEqual(into, bytes([63]) * 4096 + bytes(4096))
                self.assertEqual((await file.aread(10, 1 << 30), await file.aread(0, 0)), (b"", b""))
                self.assertEqual((await file.awrite(b"", 0), await file.awrite(memoryview(bytearray(4)), 0)), (0, 4))

        asyncio.run(work())
        asyncio.run(work())  # another event loop

    def test_more_requests_than_the_queue_takes(self):
        async def work():
            with self.fs.open("ranges", "rb", 0) as file:
                ranges = [(file, i, 2) for i in range(3000)]
                one, other = await asyncio.gather(self.fs.aread_many(ranges), self.fs.aread_many(ranges))
                self.assertEqual(one, [self.data[i:i + 2] for i in range(3000)])
                self.assertEqual(other, one)
                self.assertEqual(await self.fs.aread_many([]), [])

        asyncio.run(work())

    def test_other_tasks_run_meanwhile(self):
        async def work():
            turns = 0

            async def turn():
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            turning = asyncio.ensure_future(turn())
            async with await self.fs.aopen("large", "w+b") as file:
                await asyncio.gather(*(file.awrite(bytes(1 << 20), i << 20) for i in range(8)))
            turning.cancel()
            self.assertGreater(turns, 3)

        threads = threading.active_count()
        asyncio.run(work())
        self.assertEqual(threading.active_count(), threads)

    def test_errors_are_the_tasks(self):
        async def work():
            with self.fs.open("ranges", "rb", 0) as file:
                with self.assertRaisesRegex(PermissionError, "write 'ranges': it was opened with mode 'rb'"):
                    await file.awrite(b"x", 0)
                with self.assertRaises(BufferError):
                    await file.areadinto(b"read-only", 0)
                for call in (lambda: file.areadinto(5, 0), lambda: file.awrite("text", 0), lambda: file.aread(1, "a")):
                    with self.assertRaises(TypeError):
                        await call()
                with self.assertRaisesRegex(ValueError, "-1 is no number of bytes"):
                    await file.aread(-1, 0)
                with self.assertRaisesRegex(MemoryError, "there is no memory"):
                    await file.aread(1 << 60, 0)
                self.assertEqual(await file.aread(2, 0), b"\0\1")
            for call in (lambda: file.aread(1, 0), lambda: self.fs.aread_many([(file, 0, 1)])):
                with self.assertRaisesRegex(OSError, "the file is closed"):
                    await call()
            with self.fs.open("ranges", "ab", 0) as file:
                error, = await self.fs.aread_many([(file, 0, 1)])
                self.assertIsInstance(error, PermissionError)

        asyncio.run(work())
        with self.assertRaises(RuntimeError):
            self.fs.aread_many([]).send(None)  # no event loop runs

    def test_cancelled_and_abandoned_requests(self):
        async def work():
            file = self.fs.open("ranges", "r+b", 0)
            tasks = [asyncio.ensure_future(file.aread(200_000, 0)) for _ in range(50)]
            await asyncio.sleep(0)
            with self.assertRaisesRegex(OSError, "requests of a queue use the file") as caught:
                file.close()
            self.assertEqual((caught.exception.errno, file.closed), (errno.EBUSY, False))
            for task in tasks[::2]:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            self.assertEqual([len(result) for result in results[1::2]], [200_000] * 25)
            into = bytearray(100_000)
            task = asyncio.ensure_future(file.areadinto(into, 0))
            await asyncio.sleep(0)
            task.cancel()
            del file, into, task
            gc.collect()
            await asyncio.sleep(0.01)

        asyncio.run(work())
        gc.collect()

    def test_the_end_of_async_with_lets_requests_end(self):
        async def work():
            with self.assertRaises(TimeoutError):
                async with await self.fs.aopen("ranges", "r+b") as file:
                    async with asyncio.timeout(0):
                        await asyncio.gather(*(file.aread(200_000, 0) for _ in range(50)))
            self.assertTrue(file.closed)
            async with await self.fs.aopen("ranges") as file, await self.fs.aopen("ranges") as other:
                tasks = [asyncio.ensure_future(each.aread(200_000, 0)) for each in (file, other) for _ in range(50)]
                await asyncio.sleep(0)
                await file.aclose()
                self.assertTrue(file.closed)
                self.assertEqual({len(each) for each in await asyncio.gather(*tasks)}, {200_000})

        asyncio.run(work())

    def test_a_close_of_the_file_system_ends_requests(self):
        async def work():
            fs = type(self.fs)(self.uri)
            file = fs.open("ranges", "rb", 0)
            tasks = [asyncio.ensure_future(file.aread(1000, i)) for i in range(100)]
            await asyncio.sleep(0)
            fs.close()
            self.assertEqual(await asyncio.gather(*tasks), [self.data[i:i + 1000] for i in range(100)])
            file.close()
            with self.assertRaises(OSError):
                await fs.aopen("ranges")
            await asyncio.sleep(0.01)

        asyncio.run(work())

    def test_a_forked_child_closes_files_that_the_parent_reads(self):
        def close_alone(file):
            file.close()

        def close_after_a_call_and_the_file_system(file):
            self.assertEqual(file.pread(10, 0), self.data[:10])
            self.fs.close()
            file.close()

        async def work(in_child):
            with self.fs.open("ranges", "rb", 0) as file:
                tasks = [asyncio.ensure_future(file.aread(100_000, i)) for i in range(50)]
                await asyncio.sleep(0)
                child = os.fork()
                if child == 0:
                    signal.alarm(20)
                    code = 1
                    with contextlib.suppress(Exception):
                        in_child(file)
                        code = 0 if file.closed else 2
                    os._exit(code)
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
                async with asyncio.timeout(20):
                    self.assertEqual(await asyncio.gather(*tasks), [self.data[i:i + 100_000] for i in range(50)])

        for in_child in close_alone, close_after_a_call_and_the_file_system:
            with self.subTest(in_child=in_child.__name__):
                asyncio.run(work(in_child))

    def test_closes_after_the_event_loop_has_closed(self):
        for closing in "file", "file system":
            with self.subTest(closing=closing):
                loop, fs = asyncio.new_event_loop(), type(self.fs)(self.uri)
                file = fs.open("ranges", "rb", 0)
                abandoned = [loop.create_task(file.aread(200_000, 0)) for _ in range(3)]
                for task in abandoned:
                    task._log_destroy_pending = False
                loop.run_until_complete(asyncio.sleep(0))
                loop.close()
                if closing == "file":
                    file.close()
                fs.close()
                file.close()

    def test_a_loop_in_each_thread(self):
        async def work():
            with self.fs.open("ranges", "rb", 0) as file:
                for _ in range(20):
                    got = await asyncio.gather(*(file.aread(10, i) for i in range(50)))
                    if got != [self.data[i:i + 10] for i in range(50)]:
                        wrong.append(got)

        wrong = []
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(lambda _: asyncio.run(work()), range(3)))
        self.assertEqual(wrong, [])


class Direct(Embedded):
    scheme = "ros2s"


class Offload(Embedded):
    scheme = "ros2s+dpu"


if __name__ == "__main__":
    unittest.main()

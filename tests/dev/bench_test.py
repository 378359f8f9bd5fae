#!/usr/bin/env python3
"""usage: bench_test.py SOURCE_DIRECTORY

Tests what ./dev bench and ./dev profile compute from their measurements: rows, ratios, regressions, goals,
which samples are polling."""
import argparse
import contextlib
import dataclasses
import io
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

SOURCES = Path(sys.argv.pop(1)).absolute()
sys.path.insert(0, f"{SOURCES}/tools/dev")
import bench  # noqa: E402
import console  # noqa: E402
import hops  # noqa: E402
import profiled  # noqa: E402
import shown  # noqa: E402
import sides  # noqa: E402
from bench import costs, fairness, files, host_cpu, names, report, rows, samples  # noqa: E402

RAW = sides.Side("raw", [], is_raw=True)
DIRECT = sides.Side("direct, shm", [], daemons=("engine",), through="shm")
OFFLOAD = sides.Side("offload, shm", [], daemons=("dpu", "engine"), through="shm")
READ = sides.row_of("randread-32")


def figures(*rates, cpu_us=None):
    return [sides.Figure(1000, rate, rate * 4096, 10, 20, cpu_us or {"host": 4.0}) for rate in rates]


def in_base(side):
    return dataclasses.replace(side, name=f"base: {side.name}")


def given(command, *words):
    """Returns the options of a command with these words."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


class Arguments(unittest.TestCase):
    WORDS = {"rows": "randread-32", "against": "build", "costs": "costs.json", "turns": "7", "seconds": "7", "mib": "7"}

    def test_option_of_another_kind_is_refused(self):
        for name, kind in bench.KINDS.items():
            for argument in self.WORDS.keys() - kind.arguments:
                with self.subTest(kind=name, argument=argument), \
                        self.assertRaisesRegex(shown.Failed, f"^--{argument} has no effect on the kind {name}: leave it out"):
                    bench.complete(given(bench, name, f"--{argument}", self.WORDS[argument]))
        self.assertEqual(bench.users("rows"), ["quick", "full", "null", "aged"])

    def test_only_a_whole_run_of_one_build_is_recorded(self):
        for words in (("costs",), ("quick", "--rows", "read-1m"), ("quick", "--against", "build/release")):
            with self.subTest(words=words), self.assertRaisesRegex(shown.Failed, "^--record is for all rows of one build"):
                bench.prepare(given(bench, *words, "--record", "--no-build"), Path("no place"))

    def test_numbers_that_measure_nothing_are_refused(self):
        for command, words, name in ((bench, (), "turns"), (bench, (), "mib"), (profiled, ("raw", "read-1m"), "seconds")):
            for value in ("0", "-1", "nan", "1.5", "9" * 20, ""):
                with self.subTest(name=name, value=value), self.assertRaises(SystemExit), \
                        contextlib.redirect_stderr(io.StringIO()) as said:
                    given(command, *words, f"--{name}={value}")
                self.assertIn(f"argument --{name}: {value!r} is not a whole number from 1 to ", said.getvalue())


class Jobs(unittest.TestCase):
    def test_a_write_of_the_raw_disk_is_synced_and_one_of_a_pool_is_durable(self):
        row = sides.row_of("randwrite-32")
        self.assertIn("--fdatasync=32", sides.fio_command(row, RAW, {}))
        self.assertNotIn("--fdatasync=32", sides.fio_command(row, DIRECT, {}))
        self.assertEqual((row.workload, row.bs, row.iodepth, row.wrote), ("randwrite", 4096, 32, True))

    def test_the_first_side_alternates(self):
        order = []
        sides.in_turn(["a", "b"], 2, order.append)
        self.assertEqual(order, ["a", "b", "b", "a"])


class Rows(unittest.TestCase):
    def test_the_schema(self):
        row = rows.row(RAW, READ, figures(100, 300, 200))
        self.assertEqual(tuple(row), rows.FIELDS)
        self.assertEqual((row["mode"], row["provider"], row["workload"], row["bs"], row["iodepth"]),
                         ("raw", None, "randread", 4096, 32))
        self.assertEqual((row["iops"], row["ratio_to_raw"]), (200, None))
        self.assertEqual((row["dpu_cpu_us_per_io"], row["host_poll_us_per_io"]), (None, None))

    def test_polling_time_is_a_separate_column(self):
        row = rows.row(DIRECT, READ, figures(100, cpu_us={"host": 4.0, "engine": 8.0}), figures(200),
                       {"host": 0.25, "engine": 0.5})
        self.assertEqual((row["host_cpu_us_per_io"], row["host_poll_us_per_io"]), (3, 1))
        self.assertEqual((row["engine_cpu_us_per_io"], row["engine_poll_us_per_io"]), (4, 4))

    def test_the_ratio_is_the_median_of_the_turns_ratios(self):
        ours, raw = figures(50, 90, 30), figures(100, 100, 300)
        self.assertEqual(rows.row(DIRECT, READ, ours, raw)["ratio_to_raw"], 0.5)
        self.assertEqual(rows.spread(ours, raw), {"iops": [30, 90], "host_cpu_us_per_io": [4, 4], "ratio_to_raw": [0.1, 0.9]})

    def test_the_report_has_a_line_for_each_row(self):
        told = report.Rows({}, mock.Mock())
        told.add(READ, [RAW, DIRECT], [figures(100, 100), figures(50, 90)], [{}, {"host": 0.5}])
        lines = told.lines()
        self.assertEqual(len(lines), 4)
        self.assertIn("| 0.70 (0.50–0.90) |", lines[3])
        self.assertIn("| 2.0 (+ 2.0) / – / – |", lines[3])

    def test_a_regression_is_below_the_base_in_almost_every_turn(self):
        def regressed(*of_base):
            return rows.comparison({}, figures(*of_base), figures(*(100 for _ in of_base)))["regressed"]

        self.assertTrue(regressed(90, 94, 97))
        self.assertFalse(regressed(96, 97, 98))  # less than 5 %
        self.assertFalse(regressed(60, 70, 101))  # within the spread
        self.assertFalse(regressed(100, 100, 100))
        # One lucky turn of nine hides nothing.
        self.assertTrue(regressed(*[70] * 8, 130))
        self.assertFalse(regressed(*[70] * 7, 130, 100))

    def test_more_turns_decide_what_seems_slower(self):
        def of_base(*ratios):
            return rows.comparison({"row": "a"}, figures(*ratios), figures(*(100 for _ in ratios)))

        once, lucky, same = of_base(60, 70, 80), of_base(60, 70, 130), of_base(90, 100, 110)
        slower, noise = of_base(*[80] * 9), of_base(*[80] * 5, *[110] * 4)
        self.assertEqual([told["regressed"] for told in files.decided([once, lucky, once, same],
                                                                      [slower, slower, noise, slower])],
                         [True, True, False, False])


class Against(unittest.TestCase):
    def prepare(self, ours, base):
        """Prepares to compare a build with another one, whose caches of CMake have these lines."""
        with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch), \
                mock.patch.object(bench.shutil, "disk_usage", return_value=types.SimpleNamespace(free=1 << 40)):
            for built, lines in (("build/release", ours), ("other", base)):
                Path(built, "bin").mkdir(parents=True)
                Path(built, "bin/ros2store").touch()
                Path(built, "CMakeCache.txt").write_text("\n".join(lines), encoding="utf-8")
            bench.prepare(given(bench, "quick", "--against", "other", "--no-build"), Path("build/bench"))

    def test_builds_that_are_compiled_differently_are_refused(self):
        release, unity = "CMAKE_BUILD_TYPE:STRING=Release", "CMAKE_UNITY_BUILD:UNINITIALIZED=ON"
        self.prepare([release, unity], [unity, release.replace("STRING", "UNINITIALIZED")])
        for base, said in (([release, unity.replace("ON", "OFF")], "CMAKE_UNITY_BUILD is ON in {} and OFF in {}"),
                           ([release], "CMAKE_UNITY_BUILD is ON in {} and not set in {}"),
                           (["CMAKE_BUILD_TYPE:STRING=Debug", unity], "CMAKE_BUILD_TYPE is Release in {} and Debug in {}")):
            with self.assertRaises(shown.Failed) as failed:
                self.prepare([release, unity], base)
            self.assertIn(said.format("build/release/CMakeCache.txt", "other/CMakeCache.txt"), str(failed.exception))

    def measure(self, ours, base, **rates):
        """Measures a row of builds with these sides. `rates`: of a side, if not 100. Returns the document, the tally
        and the number of turns each time."""
        document, tally, counts = {}, console.Tally(), []

        def found(turns, _, count=None):
            counts.append(count or 3)
            return [figures(*[rates.get(side.mode, 100) if side in ours else 100] * counts[-1]) for side in turns.sides]

        made = [mock.Mock(**{"sides.return_value": of_build}) for of_build in (ours, base)]
        with mock.patch.object(files.pools, "Pools", side_effect=made), mock.patch.object(files.pools, "fill"), \
                mock.patch.object(sides, "measure", lambda *_: figures(100)[0]), \
                mock.patch.object(files.Turns, "figures", found), contextlib.redirect_stdout(io.StringIO()):
            files.measure(types.SimpleNamespace(kind="quick", rows=READ.key, against=Path("other"), turns=3, mib=1,
                                                seconds=1), Path("."), document, tally)
        return document, tally, counts

    def test_each_side_is_compared_with_that_of_the_base(self):
        document, tally, counts = self.measure([DIRECT, OFFLOAD], [in_base(OFFLOAD), in_base(DIRECT)], direct=80)
        self.assertEqual([(told["side"], told["ratio_to_base"], told["regressed"]) for told in document["against"]],
                         [("direct, shm", 0.8, True), ("offload, shm", 1, False)])
        self.assertEqual((tally.failed, counts), (1, [3, 9]))

    def test_a_side_that_only_one_build_has_is_an_error(self):
        both, one = [DIRECT, OFFLOAD], [OFFLOAD]
        for ours, base, said in ((both, one, "other has no direct, shm"), (one, both, "build/release has no direct, shm")):
            with self.assertRaisesRegex(shown.Failed, said):
                self.measure(ours, list(map(in_base, base)))


STARTER = 5  # the process that started perf, process 6
PERF = """perf-exec     0     0.000000: PERF_RECORD_FORK(7:7):(6:6)
perf-exec     0     0.000000: PERF_RECORD_COMM: perf-exec:7/7
perf     0     0.000000: PERF_RECORD_FORK(6:6):(5:5)
fio 7/7 10.5:
\tffffffff81000010 do_sched_yield ([kernel.kallsyms])
\t    7f00aa __sched_yield (/lib/libc.so.6)

ros2store 0 7 11.0:
\t    7f00bb ros2s::engine::Reader::fetch(unsigned long) (/b/libros2store.so)

ros2store-engin  9 10.75:
\tffffffff81000020 blk_mq_submit_bio ([kernel.kallsyms])
\tffffffff81000010 __x64_sys_io_uring_enter ([kernel.kallsyms])
\t    7f00cc [unknown] (/lib/liburing.so.2)

swapper     0 10.0:
\tffffffff81000030 default_idle ([kernel.kallsyms])
"""


class Samples(unittest.TestCase):
    def setUp(self):
        self.grouped = samples.by_process(samples.parse(PERF, STARTER), {"engine": 9})

    def test_each_sample_is_of_a_process(self):
        self.assertEqual({name: len(found) for name, found in self.grouped.items()}, {"host": 2, "engine": 1})
        self.assertEqual(samples.poll_shares(self.grouped), {"host": 0.5, "engine": 0})

    def test_a_fio_that_others_started_is_not_the_host(self):
        text = PERF + """
fio     7 10.2: PERF_RECORD_FORK(10:10):(7:7)
bash     4 10.3: PERF_RECORD_FORK(8:8):(4:4)
fio    10 10.9:
\t    7f00dd io_uring_enter (/lib/libc.so.6)

fio     8 11.5:
\t    7f00dd io_uring_enter (/lib/libc.so.6)
"""
        kept = samples.during(samples.by_process(samples.parse(text, STARTER), {"engine": 9}), 0.3)
        self.assertEqual({name: [sample.pid for sample in found] for name, found in kept.items()}, {"host": [7, 10], "engine": [9]})

    def test_the_start_is_left_out(self):
        kept = samples.during(self.grouped, 0.4)
        self.assertEqual({name: len(found) for name, found in kept.items()}, {"host": 1, "engine": 1})

    def test_layers(self):
        layers = profiled.Layers(SOURCES / "src")
        self.assertEqual([layers.of(sample) for sample in samples.parse(PERF, STARTER)],
                         ["polling", "engine", "kernel: I/O", "kernel: other"])
        for name, library, layer in (("ros2s::OsReactor::Loop::turn()", "/b/libros2store.so", "runtime"),
                                     ("ros2s::blocking_detail::carry_out()", "/b/libros2store.so", "runtime"),
                                     ("std::vector<ros2s::rpc::Frame>::push_back", "/b/x", "rpc"),
                                     ("crc32_iscsi_by16_10", "/lib/libisal.so.2", "checksums"),
                                     ("rocksdb::DBImpl::Get", "/lib/librocksdb.so.7", "index (RocksDB)"),
                                     ("[unknown]", "[unknown]", "unknown")):
            self.assertEqual(layers.of_function(name, library), layer, name)


class Names(unittest.TestCase):
    PRINTED = "create 10 2.0 5.0 9.0\nstat 40 2.0 1.0 2.0\nopen 20 2.0 1.5 3.0\nrename 10 1.0 4.0 8.0\nunlink 10 1.0 4.0 8.0\n"

    def test_each_operation_beside_the_synced_directory(self):
        raw, ours = names.parse(self.PRINTED), names.parse(self.PRINTED.replace("create 10", "create 5"))
        document = {}
        names.add(report.Rows(document, mock.Mock()), [names.Directories("raw", names.SYNCED, Path()),
                                                       names.Directories("direct", "shm", "uri{}")], 32, [[raw, raw], [ours, raw]])
        row = document["rows"][1]
        self.assertEqual(tuple(row), rows.FIELDS)
        self.assertEqual((row["workload"], row["iops"], row["p99_us"], row["ratio_to_raw"], row["iodepth"]), ("create", 3.75, 9, 0.75, 32))
        self.assertEqual((row["bytes_per_s"], row["host_cpu_us_per_io"]), (None, None))
        self.assertEqual(document["spreads"][1], {"iops": [2.5, 5], "ratio_to_raw": [0.5, 1]})

    def test_an_operation_that_is_missing_is_noticed(self):
        with self.assertRaises(shown.Failed):
            names.parse(self.PRINTED.partition("unlink")[0])


class Costs(unittest.TestCase):
    def test_costs_are_of_one_request_and_without_polling(self):
        counted = {"engine": hops.Series({
            ("ros2store_fabric_message_bytes_sent_total", '{provider="shm"}'): 4_200_000,
            ("ros2store_fabric_put_bytes_total", '{provider="ucx+tcp"}'): 7,
            ("ros2store_device_reads_total", ""): 1000, ("ros2store_device_read_bytes_total", ""): 4_096_000})}
        turns = [dataclasses.replace(figure, cpu_us={"host": spent, "engine": 2 * spent}, counted=counted)
                 for figure, spent in zip(figures(1, 1, 1), (9, 4, 5))]
        one, spread = costs.request(DIRECT, READ, turns, {"host": 0.5})
        self.assertEqual(one, {"host_us": 2.5, "server_us": 10, "network_bytes": 4200, "device_operations": 1, "device_bytes": 4096})
        self.assertEqual(spread, {"host_us": [2, 4.5], "server_us": [8, 18]})

    def test_the_start_of_a_run_is_no_cost_and_a_start_that_hides_the_rest_is_no_row(self):
        self.assertEqual(rows.difference((1, {"host_us": 10}), (41, {"host_us": 130})), {"host_us": 3})
        spent = {("create", True): 50, ("create", False): 40, ("stat", True): 50, ("stat", False): 250}
        client = types.SimpleNamespace(metered=lambda seconds, what: (
            (1 if seconds < 1 else 101), {"host_us": spent[what, seconds < 1]}))
        document = {}
        costs.Found(document).add_names("direct", client, types.SimpleNamespace(turns=2, seconds=1))
        self.assertEqual(document["requests"], {"direct/stat": {"source": "measured", "host_us": 2}})

    COUNTED = "1.50;msec;task-clock;1;100;0.6;CPUs utilized\n3;;context-switches;1;100;;\n" \
              "20;;raw_syscalls:sys_enter;1;100;;\n7;;page-faults;1;100;;\n"

    def test_host_costs_are_per_operation_or_per_gib(self):
        events = host_cpu.parse(self.COUNTED)
        self.assertEqual(events, {"cpu_us": 1500, "context_switches": 3, "system_calls": 20, "page_faults": 7})
        raw, ours = host_cpu.Cost(100, events), host_cpu.Cost(50, {name: 2 * count for name, count in events.items()}, 3)
        large = sides.row_of("read-1m")
        small = host_cpu.told(host_cpu.Host("direct", DIRECT), READ, [ours], [raw])
        whole = host_cpu.told(host_cpu.Host("direct", DIRECT), large, [ours], [raw])
        self.assertEqual((small["per"], small["cpu_us"], small["cpu_ratio_to_raw"], small["daemons_cpu_us"]), ("operation", 3000, 2, 3))
        self.assertEqual((whole["per"], whole["page_faults"], whole["daemons_cpu_us"]), ("GiB", 14340, 3072))
        self.assertIn("| 1 MiB read, depth 8, GiB | direct, shm | 50 MiB/s |", host_cpu.lines([whole])[-1])

    def test_an_event_that_was_not_counted_is_no_figure(self):
        for text in ("", self.COUNTED.replace("20;;raw", "<not counted>;;raw")):
            with self.assertRaises(host_cpu.NotCounted):
                host_cpu.parse(text)


class Fairness(unittest.TestCase):
    def row_of(self, name, rates, p99s=None, made=()):
        case = next(case for case in fairness.CASES if case.name == name)
        return fairness.told(case, [[fairness.Got(rate, 0, 1, p99, 0) for rate, p99 in zip(rates, p99s or rates)]], made)

    def met(self, row):
        return [goal["reached"] for goal in row["goals"]], all(map(fairness.is_met, row["goals"]))

    def test_shares_off_their_goals_fail(self):
        self.assertEqual(self.met(self.row_of("equal weights", (100, 100, 90, 100))), ([True], True))
        self.assertEqual(self.met(self.row_of("equal weights", (100, 100, 60, 100))), ([False], False))
        self.assertEqual(self.met(self.row_of("weights 1:2:4", (101, 200, 399))), ([True] * 3, True))
        row = self.row_of("weights 1:2:4", (120, 200, 380))
        self.assertEqual(self.met(row), ([False, True, False], False))
        self.assertIn("alice of its share 1.200 (goal 1 ± 0.03, missed)", fairness.summary(row))

    def test_a_reader_is_compared_with_itself_at_its_share(self):
        alone = self.row_of("a reader alone", (10,), (50,))
        at_share = self.row_of("a reader beside small reads", (5, 5), (100, 1), [alone])
        self.assertEqual((at_share["goals"], at_share["tenants"][0]["p99_of_alone"]), ([], 2))
        for p99, reached in ((150, True), (151, False)):
            row = self.row_of("a reader beside a flood of 1 MiB writes", (5, 5), (p99, 1), [alone, at_share])
            self.assertEqual(row["tenants"][0]["p99_of_share"], p99 / 100)
            self.assertEqual(self.met(row), ([reached], True))


if __name__ == "__main__":
    unittest.main()

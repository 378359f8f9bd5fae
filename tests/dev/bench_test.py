#!/usr/bin/env python3
"""usage: bench_test.py SOURCE_DIRECTORY

Tests what ./dev bench computes from its measurements: rows, ratios, regressions, how often the disk was idle,
which samples are polling, and the plot."""
import argparse
import contextlib
import dataclasses
import io
import json
import os
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

SOURCES = Path(sys.argv.pop(1)).absolute()
sys.path.insert(0, f"{SOURCES}/tools/dev")
import bench  # noqa: E402
import compare  # noqa: E402
import console  # noqa: E402
import hops  # noqa: E402
import path_report  # noqa: E402
import profiled  # noqa: E402
import shown  # noqa: E402
from bench import ceph_costs, costs, disk, fairness, figures as paper, host_cpu, layers, micro, names, plot, pools, report, request_costs, rows, samples, set_up_rows  # noqa: E402
from bench import turns as bench_turns  # noqa: E402

RAW = compare.Side("raw", [], is_raw=True)
DIRECT = compare.Side("direct, shm", [], daemons=("engine",), through="shm")
OFFLOAD = compare.Side("offload, shm", [], daemons=("dpu", "engine"), through="shm")
READ = next(row for row in compare.ROWS if row.key == "randread-32")


def figures(*rates, cpu_us=None, empty=None):
    return [compare.Figure(1000, rate, rate * 4096, 10, 20, cpu_us or {"host": 4.0}, device_empty_share=empty)
            for rate in rates]


def in_base(side):
    return dataclasses.replace(side, name=f"base: {side.name}")


def given(command, *words):
    """Returns the options of a command with these words."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


class Arguments(unittest.TestCase):
    WORDS = {"rows": "randread-32", "against": "build", "daos": "tank/train", "disks": "/a,/b", "target": "/dev/nvme1n1",
             "costs": "costs.json", "turns": "7", "seconds": "7", "mib": "7"}

    def test_each_argument_is_in_the_table(self):
        known = set(vars(given(bench))) - {"kind", "json", "no_build", "record"}
        self.assertEqual((set(bench.NOT_USED), set(self.WORDS)), (known, known))
        for kind in bench.KINDS.values():
            self.assertLessEqual(set(kind.arguments), known)

    def test_what_a_kind_does_not_use_is_refused(self):
        for name, kind in bench.KINDS.items():
            for argument, word in self.WORDS.items():
                options = given(bench, name, f"--{argument}", word, "--no-build")
                before = getattr(options, argument)
                with self.subTest(kind=name, argument=argument):
                    if argument in kind.arguments:
                        bench.complete(options)
                        self.assertEqual(getattr(options, argument), before)
                    else:
                        with self.assertRaisesRegex(shown.Failed, f"^--{argument} has no effect on the kind {name}: leave it out"):
                            bench.prepare(options, kind, Path("no place"))
        self.assertEqual(bench.users("rows"), ["quick", "full", "null", "aged", "fig3", "fig4", "fig5"])
        self.assertNotIn("memory", bench.users("turns"))

    def test_only_a_whole_run_of_one_build_is_recorded(self):
        for words in (("micro",), ("quick", "--rows", "read-1m"), ("quick", "--against", "build/release")):
            with self.subTest(words=words), self.assertRaisesRegex(shown.Failed, "^--record is for all rows of one build"):
                options = given(bench, *words, "--record", "--no-build")
                bench.prepare(options, bench.KINDS[options.kind], Path("no place"))

    def test_what_is_not_given_is_the_default_of_the_kind(self):
        for kind, turns, seconds, mib in (("full", 5, 4, 1024), ("mount", 3, 0, 0), ("memory", 1, 4, 512), ("fig4", 1, 2, 0)):
            options = given(bench, kind)
            bench.complete(options)
            self.assertEqual((options.turns, options.seconds, options.mib, options.rows), (turns, seconds, mib, None))

    def test_numbers_that_measure_nothing_are_refused(self):
        for command, words, names_of in ((bench, (), ("turns", "seconds", "mib")),
                                         (profiled, ("raw", "read-1m"), ("seconds", "mib"))):
            for name in names_of:
                for value in ("0", "-1", "nan", "inf", "1.5", "1e9", "9" * 20, ""):
                    with self.subTest(command=command, name=name, value=value), self.assertRaises(SystemExit), \
                            contextlib.redirect_stderr(io.StringIO()) as said:
                        given(command, *words, f"--{name}={value}")
                    self.assertIn(f"argument --{name}: {value!r} is not a whole number from 1 to ", said.getvalue())

    def test_the_help_has_the_defaults_of_each_kind(self):
        parser = argparse.ArgumentParser()
        bench.add_arguments(parser)
        told = " ".join(parser.format_help().split())
        for text in ("5 for full, aged, scale, daos; 1 for fig3, fig4, fig5)", "3 for aged; 1 for meta, directory)",
                     "512 for memory, fig5; 128 for scale, daos)", "(for quick, full, directory)", "(docs/costs.json for costs)"):
            self.assertIn(text, told)


class Rows(unittest.TestCase):
    def test_the_schema(self):
        row = rows.row(RAW, READ, figures(100, 300, 200, empty=0.25), None, {})
        self.assertEqual(tuple(row), rows.FIELDS)
        self.assertEqual((row["mode"], row["provider"], row["workload"], row["bs"], row["iodepth"]),
                         ("raw", None, "randread", 4096, 32))
        self.assertEqual((row["iops"], row["device_empty_share"], row["ratio_to_raw"]), (200, 0.25, None))

    def test_what_was_not_measured_is_null(self):
        row = rows.row(DIRECT, READ, figures(100, cpu_us={"host": 4.0, "engine": 8.0}), figures(200), {})
        self.assertEqual((row["host_cpu_us_per_io"], row["host_poll_us_per_io"]), (4, None))
        self.assertEqual((row["dpu_cpu_us_per_io"], row["device_empty_share"]), (None, None))

    def test_polling_is_apart(self):
        row = rows.row(DIRECT, READ, figures(100, cpu_us={"host": 4.0, "engine": 8.0}), figures(200),
                       {"host": 0.25, "engine": 0.5})
        self.assertEqual((row["host_cpu_us_per_io"], row["host_poll_us_per_io"]), (3, 1))
        self.assertEqual((row["engine_cpu_us_per_io"], row["engine_poll_us_per_io"]), (4, 4))

    def test_the_ratio_is_the_median_of_the_turns_ratios(self):
        ours, raw = figures(50, 90, 30), figures(100, 100, 300)
        self.assertEqual(rows.row(DIRECT, READ, ours, raw, {})["ratio_to_raw"], 0.5)
        self.assertEqual(rows.spread(ours, raw), {"iops": [30, 90], "host_cpu_us_per_io": [4, 4], "ratio_to_raw": [0.1, 0.9]})

    def test_the_spread_of_processor_time_is_of_the_measured_processes(self):
        ours = [figures(100, cpu_us={"host": host, "engine": 8.0})[0] for host in (5.0, 3.0, 4.0)]
        self.assertEqual(rows.spread(ours, None), {"iops": [100, 100], "host_cpu_us_per_io": [3, 5],
                                                   "engine_cpu_us_per_io": [8, 8]})

    def test_a_report_without_a_plot_leaves_no_older_one(self):
        with tempfile.TemporaryDirectory() as place:
            file = Path(place, "out.json")
            document = report.head(types.SimpleNamespace(turns=1, seconds=1, mib=1), "micro")
            report.write(file, document, ["| a |"], plot.Plot([("a", [("b", 1, None)])]))
            self.assertTrue(file.with_suffix(".svg").exists())
            report.write(file, document, ["| a |"])
            self.assertFalse(file.with_suffix(".svg").exists())

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
        self.assertEqual([told["regressed"] for told in set_up_rows.decided([once, lucky, once, same],
                                                                            [slower, slower, noise, slower])],
                         [True, True, False, False])


class Against(unittest.TestCase):
    def prepare(self, ours, base):
        """Prepares to compare a build with another one, whose caches of CMake have these lines."""
        room = types.SimpleNamespace(free=1 << 40)
        with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch), \
                mock.patch.object(bench.shutil, "disk_usage", return_value=room):
            for built, lines in (("build/release", ours), ("other", base)):
                Path(built, "bin").mkdir(parents=True)
                Path(built, "bin/ros2store").touch()
                Path(built, "CMakeCache.txt").write_text("\n".join(lines), encoding="utf-8")
            bench.prepare(given(bench, "quick", "--against", "other", "--no-build"), bench.KINDS["quick"], Path("build/bench"))

    def test_a_program_that_was_not_built_is_named(self):
        with self.assertRaisesRegex(shown.Failed, "build/release/no_bench is not there: leave --no-build out"):
            shown.run("build/release/no_bench")

    def test_builds_that_are_compiled_differently_are_refused(self):
        release, unity = "CMAKE_BUILD_TYPE:STRING=Release", "CMAKE_UNITY_BUILD:UNINITIALIZED=ON"
        self.prepare([release, unity], [unity, release.replace("STRING", "UNINITIALIZED")])
        for base, said in (([release, unity.replace("ON", "OFF")], "CMAKE_UNITY_BUILD is ON in {} and OFF in {}"),
                           ([release], "CMAKE_UNITY_BUILD is ON in {} and not set in {}"),
                           (["CMAKE_BUILD_TYPE:STRING=Debug", unity], "CMAKE_BUILD_TYPE is Release in {} and Debug in {}")):
            with self.assertRaises(shown.Failed) as failed:
                self.prepare([release, unity], base)
            self.assertIn(said.format("build/release/CMakeCache.txt", "other/CMakeCache.txt"), str(failed.exception))
            self.assertIn("run `./dev build programs` in both checkouts", str(failed.exception))

    def measure(self, ours, base, **rates):
        """Measures a row of builds with these sides. `rates`: of a side, if not 100. Returns the document, the tally
        and the number of turns each time."""
        document, tally, counts = {}, console.Tally(), []

        def result(work, side, turns):
            rate = rates.get(side.mode, 100) if side in ours else 100
            return bench_turns.Result(work, side, figures(*[rate] * turns), None if side.is_raw else figures(*[100] * turns), {})

        def results(_, works, sides, turns=3):
            counts.append(turns)
            yield [result(works[0], side, turns) for side in sides]

        pools = [mock.Mock(**{"sides.return_value": sides}) for sides in (ours, base)]
        with mock.patch.object(set_up_rows.pools, "Pools", side_effect=pools), \
                mock.patch.object(set_up_rows.pools, "fill"), \
                mock.patch.object(set_up_rows.turns.Turns, "results", results), \
                contextlib.redirect_stdout(io.StringIO()):
            set_up_rows.measure(types.SimpleNamespace(kind="quick", rows=READ.key, against=Path("other"), turns=3, mib=1,
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


class Turns(unittest.TestCase):
    def polling(self, turns, shares):
        """Returns the shares of polling of raw and DIRECT, and the order of the turns in which they were sampled."""
        sampled, shares = [], iter(shares)

        def sample(_, side, __):
            sampled.append(side.name)
            return None, next(shares)

        measured = bench_turns.Turns(Path(), types.SimpleNamespace(turns=turns, seconds=1, mib=1), True, None)
        measured.sample = sample
        with mock.patch.object(compare, "measure", lambda *_: figures(100)[0]), \
                mock.patch.object(compare.console, "command"), \
                mock.patch.object(samples, "poll_shares", lambda grouped: grouped):
            of_row, = measured.results([READ], [RAW, DIRECT])
        return [each.poll_shares for each in of_row], sampled

    def test_polling_is_sampled_in_three_turns_of_five(self):
        shares, sampled = self.polling(5, ({"host": 0.1}, {"host": 0.2, "engine": 0.9}, {"engine": 0.1},
                                           {"host": 0.3}, {"host": 0.2}, {"host": 0.6, "engine": 0.4}))
        self.assertEqual(sampled, ["raw", "direct, shm", "direct, shm", "raw", "raw", "direct, shm"])
        self.assertEqual(shares, [{"host": 0.2}, {"host": 0.4, "engine": 0.4}])

    def test_polling_is_sampled_once_of_three(self):
        self.assertEqual(self.polling(3, ({"host": 0.1}, {"host": 0.2, "engine": 0.9})),
                         ([{"host": 0.1}, {"host": 0.2, "engine": 0.9}], ["raw", "direct, shm"]))


class Disk(unittest.TestCase):
    def test_only_the_time_of_the_requests_counts(self):
        before = [(at / 100, 0) for at in range(100)]
        during = [(1 + at / 100, at % 4) for at in range(100)]
        after = [(2 + at / 100, 0) for at in range(100)]
        self.assertAlmostEqual(disk.empty_share(before + during + after, 1), 0.25, places=1)

    def test_nothing_is_made_up(self):
        self.assertIsNone(disk.empty_share([], 1))
        self.assertIsNone(disk.empty_share([(at / 100, 0) for at in range(100)], 1))
        self.assertIsNone(disk.empty_share([(at / 10, 1) for at in range(10)], 1))


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
        self.assertEqual(self.grouped["engine"][0].kernel[0][0], "blk_mq_submit_bio")

    def test_polling(self):
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
        of = layers.Layers(SOURCES / "src").of
        self.assertEqual([of(sample) for sample in samples.parse(PERF, STARTER)],
                         ["polling", "engine", "kernel: I/O", "kernel: other"])
        for name, library, layer in (("ros2s::OsReactor::Loop::turn()", "/b/libros2store.so", "runtime"),
                                     ("ros2s::UringRing::begin()", "/b/libros2store.so", "runtime"),
                                     ("ros2s::blocking_detail::carry_out()", "/b/libros2store.so", "runtime"),
                                     ("std::vector<ros2s::rpc::Frame>::push_back", "/b/x", "rpc"),
                                     ("crc32_iscsi_by16_10", "/lib/libisal.so.2", "checksums"),
                                     ("rocksdb::DBImpl::Get", "/lib/librocksdb.so.7", "index (RocksDB)"),
                                     ("[unknown]", "[unknown]", "unknown")):
            self.assertEqual(layers.Layers(SOURCES / "src").of_function(name, library), layer, name)

    def test_the_largest_layer_comes_first(self):
        found = layers.by_layer(self.grouped["host"] + self.grouped["host"][:1], layers.Layers(SOURCES / "src"))
        self.assertEqual({layer: len(own) for layer, own in found.items()}, {"polling": 2, "engine": 1})
        self.assertEqual(next(iter(found)), "polling")
        self.assertEqual(layers.functions(found["polling"]), [("do_sched_yield", 2)])


class Names(unittest.TestCase):
    PRINTED = "create 10 2.0 5.0 9.0\nstat 40 2.0 1.0 2.0\nopen 20 2.0 1.5 3.0\nrename 10 1.0 4.0 8.0\nunlink 10 1.0 4.0 8.0\n"

    def test_each_operation_beside_the_synced_directory(self):
        raw, ours = names.parse(self.PRINTED), names.parse(self.PRINTED.replace("create 10", "create 5"))
        side = names.Directories("direct", "shm")
        row, spread = names.row(side, "create", 32, [ours, raw], [raw, raw])
        self.assertEqual(tuple(row), rows.FIELDS)
        self.assertEqual((row["iops"], row["p99_us"], row["ratio_to_raw"], row["iodepth"]), (3.75, 9, 0.75, 32))
        self.assertEqual((row["bytes_per_s"], row["host_cpu_us_per_io"]), (None, None))
        self.assertEqual(spread, {"iops": [2.5, 5], "ratio_to_raw": [0.5, 1]})

    def test_an_operation_that_is_missing_is_noticed(self):
        with self.assertRaises(Exception):
            names.parse(self.PRINTED.partition("unlink")[0])


class Kinds(unittest.TestCase):
    def test_costs_are_of_one_request_and_without_polling(self):
        counted = {"engine": hops.Series({
            ("ros2store_fabric_message_bytes_sent_total", '{provider="shm"}'): 4_200_000,
            ("ros2store_fabric_put_bytes_total", '{provider="ucx+tcp"}'): 7,
            ("ros2store_device_reads_total", ""): 1000, ("ros2store_device_read_bytes_total", ""): 4_096_000})}
        turns = [dataclasses.replace(figure, cpu_us={"host": spent, "engine": 2 * spent}, counted=counted)
                 for figure, spent in zip(figures(1, 1, 1), (9, 4, 5))]
        one, spread = costs.request(bench_turns.Result(READ, DIRECT, turns, [], {"host": 0.5}))
        self.assertEqual(one, {"source": "measured", "host_us": 2.5, "server_us": 10, "network_bytes": 4200,
                               "device_operations": 1, "device_bytes": 4096})
        self.assertEqual(spread, {"host_us": [2, 4.5], "server_us": [8, 18]})

    def test_the_file_of_costs_has_what_was_measured_and_nothing_else(self):
        document = {"date": "d", "commit": "c", "command": "x", "machine": {"description": "m"},
                    "load_before": [1, 0, 0], "load_after": [2, 0, 0], "turns": 3, "seconds": 2, "mib": 256,
                    "polling_apart": True, "requests": {"direct/engine/shm/stat": {"source": "measured"}},
                    "spreads": {"direct/engine/shm/stat": {"host_us": [1, 2]}},
                    "index": {"in_order": 5}, "resident": {"engine": 6}}
        made = costs.file_of(document)
        self.assertEqual((made["version"], made["measured"]["load"]), (1, "1 before, 2 after"))
        self.assertEqual(made["requests"], document["requests"])
        self.assertEqual(made["spreads"], {"direct/engine/shm/stat": {"host_us": "1 to 2"}})
        self.assertEqual(made["memory"], {"index_bytes_per_gib_in_order": 5, "engine_resident_bytes": 6})

    def test_a_benchmark_s_items_count_and_its_aggregates_do_not(self):
        one = {"run_name": "call/32", "run_type": "iteration", "real_time": 3.0, "time_unit": "us"}
        text = json.dumps({"benchmarks": [one, one | {"items_per_second": 1e6},
                                          one | {"run_type": "aggregate", "real_time": 9.0}]})
        self.assertEqual(micro.parse(text), {"call/32": [3000, 1000]})

    COUNTED = "1.50;msec;task-clock;1;100;0.6;CPUs utilized\n3;;context-switches;1;100;;\n" \
              "20;;raw_syscalls:sys_enter;1;100;;\n7;;page-faults;1;100;;\n"

    def test_what_a_host_spends_is_per_operation_or_per_gib(self):
        events = host_cpu.parse(self.COUNTED)
        self.assertEqual(events, {"cpu_us": 1500, "context_switches": 3, "system_calls": 20, "page_faults": 7})
        raw, ours = host_cpu.Cost(100, events), host_cpu.Cost(50, {name: 2 * count for name, count in events.items()})
        large = next(row for row in compare.ROWS if row.key == "read-1m")
        small = host_cpu.told(host_cpu.Host("direct", DIRECT), READ, [ours], [raw])
        whole = host_cpu.told(host_cpu.Host("direct", DIRECT), large, [ours], [raw])
        self.assertEqual((small["per"], small["cpu_us"], small["cpu_ratio_to_raw"]), ("operation", 3000, 2))
        self.assertEqual((whole["per"], whole["page_faults"]), ("GiB", 14340))
        self.assertIn("| 1 MiB read, depth 8, GiB | direct, shm | 50 MiB/s |", host_cpu.lines([whole])[-1])
        served = host_cpu.told(host_cpu.Host("direct, encrypted", DIRECT), large, [host_cpu.Cost(50, events, 3)], [raw])
        self.assertEqual((small["daemons_cpu_us"], served["daemons_cpu_us"]), (0, 3072))

    def test_an_event_that_was_not_counted_is_no_figure(self):
        for text in ("", self.COUNTED.replace("20;;raw", "<not counted>;;raw")):
            with self.assertRaises(host_cpu.NotCounted):
                host_cpu.parse(text)

    def test_the_axes_of_the_paper(self):
        works = paper.works()
        self.assertEqual(len(works), len(paper.WORKLOADS) * len(paper.JOBS))
        self.assertEqual({work.options["numjobs"] for work in works}, {1, 2, 4, 8, 16})
        self.assertTrue(all(work.options["bs"] in rows.SIZES for work in works))

    def test_the_plot_of_the_axes_has_a_group_for_each_number_of_jobs(self):
        made = [rows.row(side, work, figures(rate), None, {}, devices)
                for work, rate in zip(paper.works()[:2], (256, 512)) for side, devices in ((RAW, 1), (RAW, 4))]
        drawn = paper.rates({"rows": made})
        self.assertEqual((drawn.unit, [name for name, _ in drawn.groups]),
                         ("MiB/s", ["1 MiB read, depth 8", "1 MiB read, depth 8, 2 jobs"]))
        self.assertEqual([(name, round(value, 1)) for name, value, _ in drawn.groups[1][1]],
                         [("raw", 2.0), ("raw, 4 disks", 2.0)])


class Pools(unittest.TestCase):
    def test_each_pool_has_a_device_in_each_directory(self):
        with tempfile.TemporaryDirectory() as place, mock.patch.object(shown, "run") as run:
            ours = pools.Pools("this", Path("built"), Path(place), 64, (Path("/a"), Path("/b")))
            for make in (ours.embedded_directory, lambda: ours.with_daemons(("ucx+tcp",))):
                make()
                words = run.call_args.args
                self.assertEqual([words[at + 1] for at, word in enumerate(words) if word == "--device-dir"],
                                 [Path("/a"), Path("/b")])


class Paper(unittest.TestCase):
    """The figures of the paper, without fio and without pools."""

    def setUp(self):
        self.place = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.devices = []  # the directories of each pools.Pools
        self.enterContext(mock.patch.object(bench_turns.Turns, "results", self.results))
        self.enterContext(mock.patch.object(pools, "fill"))
        self.enterContext(mock.patch.object(pools, "Pools", self.made))
        self.enterContext(contextlib.redirect_stdout(io.StringIO()))

    def results(self, works, sides):
        for work in works:
            yield [bench_turns.Result(work, side, figures(100), None if side.is_raw else figures(200), {}) for side in sides]

    def made(self, name, built, place, mib, directories):
        self.assertTrue(all(each.is_dir() for each in directories))
        self.devices.append(directories)
        (place / name).mkdir()
        return types.SimpleNamespace(place=place / name, sides=lambda kind: [DIRECT], down=lambda: None)

    def figure(self, measure, **options):
        document = {}
        measure(types.SimpleNamespace(**{"rows": "randread-4k-2", "turns": 1, "seconds": 1, "mib": 64, "disks": None} | options),
                self.place, document, mock.Mock())
        self.assertEqual(len(document["rows"]), len(document["spreads"]))
        return [(row["mode"], row["devices"]) for row in document["rows"]], document["ends"]

    def disks(self, count):
        disks = [self.place / f"disk{number}" for number in range(count)]
        for each in disks:
            each.mkdir()
        return disks

    def test_one_device_without_further_disks(self):
        end = "one device: name directories on further disks with --disks"
        for measure, modes in ((paper.local, ["raw"]), (paper.set_ups, ["raw", "direct"])):
            found, ends = self.figure(measure)
            self.assertEqual((found, ends[0]), ([(mode, 1) for mode in modes], end))

    def test_pools_have_one_device_on_each_disk(self):
        disks = self.disks(4)
        with mock.patch.object(paper, "share_a_disk", return_value=False):
            found, ends = self.figure(paper.set_ups, disks=disks)
        self.assertEqual(found, [("raw", 1), ("direct", 1), ("raw", 4), ("direct", 4)])
        self.assertEqual([[each.parent for each in own] for own in self.devices], [disks[:1], disks])
        self.assertEqual([list(each.iterdir()) for each in disks], [[]] * 4)
        self.assertEqual([end.partition(":")[0] for end in ends], ["RDMA", "a SmartNIC"])

    def test_directories_of_one_disk(self):
        disks = self.disks(2)
        with self.assertRaisesRegex(shown.Failed, "each directory must be on a disk of its own"):
            self.figure(paper.local, disks=disks)
        ends = self.figure(paper.set_ups, disks=disks)[1]
        self.assertEqual(ends[:2], ["4 devices: --disks names 2", "disks of their own: directories of --disks share one"])

    def test_a_target_is_only_read(self):
        found, ends = self.figure(paper.target, rows=None, target=Path("nvme"))
        self.assertEqual(set(found), {("raw", 1)})
        self.assertIn("writes: the target is only read", ends)

    def test_rows_of_the_target_are_chosen(self):
        with mock.patch.object(os, "sched_getaffinity", return_value={0, 1}):
            found, _ = self.figure(paper.target, rows="randread-4k-2", target=Path("nvme"))
            self.assertEqual(found, [("raw", 1)])
            with self.assertRaisesRegex(shown.Failed, "there is no row randread-4k-4; there are read-1m-1, "):
                self.figure(paper.target, rows="randread-4k-2,randread-4k-4", target=Path("nvme"))

    def test_the_table_tells_the_disks(self):
        row = rows.row(RAW, paper.works()[0], figures(256), None, {}, 4)
        self.assertIn("| raw, 4 disks |", report.rows_as_table([row], [rows.spread(figures(256), None)])[-1])


class RequestCosts(unittest.TestCase):
    OPTIONS = types.SimpleNamespace(turns=2, seconds=1, mib=1)

    def test_the_start_of_a_run_is_no_cost_of_its_requests(self):
        self.assertEqual(request_costs.difference((1, {"host_us": 10}), (41, {"host_us": 130})), {"host_us": 3})
        self.assertEqual(request_costs.of_turns([{"host_us": cost} for cost in (3, 9, 4)]),
                         ({"source": "measured", "host_us": 4}, {"host_us": [3, 9]}))

    def test_names_whose_start_hides_the_rest_are_left_out(self):
        spent = {("create", True): 50, ("create", False): 40, ("stat", True): 50, ("stat", False): 250}
        found = dict(request_costs.of_names(lambda seconds, what: (
            request_costs.counts(f"create {8 if seconds < 1 else 28} 1 1 1\nstat {1 if seconds < 1 else 101} 1 1 1"),
            {"host_us": spent[what, seconds < 1]}), self.OPTIONS))
        self.assertEqual(found, {"stat": [{"host_us": 2}, {"host_us": 2}]})

    def test_a_client_of_ceph_is_metered_twice_in_each_turn(self):
        client = ceph_costs.Client.__new__(ceph_costs.Client)
        spent, made = iter((0, 10, 10, 130, 130, 150, 150, 90)), iter((1, 41, 1, 41))
        client.spent = lambda: {"server_us": next(spent)}
        client.fio = lambda options: next(made)
        self.assertEqual(list(client.of_files(READ, self.OPTIONS)), [{"server_us": 2.75}, {"server_us": 0}])

    def test_making_a_directory_is_no_cost_of_its_names(self):
        events = []
        client = ceph_costs.Client.__new__(ceph_costs.Client)
        client.built = Path()
        client.spent = lambda: events.append("spent") or {"host_us": 0, "device_bytes": 0}
        client.directories = types.SimpleNamespace(new=lambda _: events.append("directory"),
                                                   run=lambda *_, **__: events.append("run") or "create 5 1 1 1\n")
        self.assertEqual(client.of_names(1, "create"), ({"create": 5}, {"host_us": 0}))
        self.assertEqual(events, ["directory", "spent", "run", "spent"])

    def rados_rows(self, programs):
        """Returns the rows of a machine that has only these programs, and why there are no more."""
        requests = {}
        with mock.patch.dict(os.environ, PATH=programs):
            return requests, ceph_costs.measure(None, self.OPTIONS, costs.WORKS, requests, {})

    def test_a_cluster_that_cannot_be_started_is_no_end_of_the_bench(self):
        with tempfile.TemporaryDirectory() as programs:
            requests, said = self.rados_rows(programs)
            self.assertEqual(requests, {})
            self.assertIn("there is no ceph-mon, ", said)
            self.assertIn("install what tools/packages-rados.txt lists", said)
            for name in ("ceph-mon", "ceph-osd", "ceph", "ceph-authtool", "monmaptool", "rados"):
                (Path(programs) / name).write_text("#!/bin/sh\necho it has no room\nexit 1\n", encoding="ascii")
                (Path(programs) / name).chmod(0o755)
            requests, said = self.rados_rows(programs)
            self.assertEqual(requests, {})
            self.assertIn("no Ceph cluster could be started: ceph-authtool ", said)
            self.assertIn("it has no room", said)


class Fairness(unittest.TestCase):
    def row_of(self, name, rates, p99s=None, made=()):
        case = next(case for case in fairness.CASES if case.name == name)
        turn = [fairness.Got(rate, 0, 1, p99, 0) for rate, p99 in zip(rates, p99s or rates)]
        rows_so_far = [*made, fairness.told(case, [turn])]
        fairness.compare_reader(rows_so_far)
        rows_so_far[-1]["goals"] = fairness.goals_of(case, rows_so_far[-1])
        return rows_so_far[-1]

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
            self.assertIn("≤ 1.5 " + ("reached" if reached else "missed"), fairness.lines_of_goals([row])[-1])
        self.assertEqual(len(fairness.lines([alone, at_share, row])), 2 + 1 + 2 + 2)


class Reports(unittest.TestCase):
    def test_jobs_of_one_pool_are_added(self):
        one = path_report.PathReport("way", 1, 4096, 0, 0, {"ros2store_device_read_bytes_total": 4096})
        two = path_report.PathReport("way", 2, 8192, 0, 0, {"ros2store_device_read_bytes_total": 12288})
        self.assertEqual(path_report.together([one, two]), path_report.PathReport(
            "way", 3, 12288, 0, 0, {"ros2store_device_read_bytes_total": 12288}))

    def test_the_table_has_a_line_for_each_row(self):
        ours, raw = figures(50, 90), figures(100, 100)
        made = [rows.row(RAW, READ, raw, None, {}), rows.row(DIRECT, READ, ours, raw, {"host": 0.5})]
        lines = report.rows_as_table(made, [rows.spread(raw, None), rows.spread(ours, raw)])
        self.assertEqual(len(lines), 4)
        self.assertIn("| 0.70 (0.50–0.90) |", lines[3])
        self.assertIn("| 2.0 (+ 2.0) / – / – |", lines[3])

    def test_the_plot_is_xml_and_has_a_bar_for_each_value(self):
        text = plot.svg(plot.Plot([("a < b", [("direct", 0.5, (0.4, 0.6)), ("offload", None, None)]),
                                   ("c", [("offload", 1.5, None)])], "ratio & more"))
        bars = [each for each in ElementTree.fromstring(text).iter() if each.tag.endswith("title")]
        self.assertEqual([each.text for each in bars], ["a < b, direct: 0.5", "c, offload: 1.5"])


if __name__ == "__main__":
    unittest.main()

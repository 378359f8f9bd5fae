"""Runs the modules' own benchmarks of single steps: ring, call, checksum, look-up hit and miss, commit, turn
of the loop."""

import json
import os
import statistics

import build
import shown
from bench import report, rows

# The benchmarks to run, by program.
PROGRAMS = {"runtime_runtime_bench": "task|turn|hop_and_back|ring_operation",
            "admission_admission_bench": ".",
            "rpc_rpc_bench": ".",
            "engine_index_rocksdb_index_bench": "get_hit|get_miss",
            "engine_look_up_bench": ".",
            "engine_engine_bench": "null_"}
UNITS = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9}


def parse(text):
    """Returns nanoseconds for one item: a list of repetitions for each benchmark."""
    found = {}
    for one in json.loads(text)["benchmarks"]:
        if one.get("run_type") == "iteration":
            per_second = one.get("items_per_second")
            took = 1e9 / per_second if per_second else one["real_time"] * UNITS[one["time_unit"]]
            found.setdefault(one["run_name"], []).append(took)
    return found


def measure(options, place, document, tally):
    if not options.no_build and not build.make("release", list(PROGRAMS)):
        raise shown.Failed("the build of the benchmarks failed")
    made = []
    for program, chosen in PROGRAMS.items():
        out = place / f"{program}.json"
        shown.run(build.folder("release") / program, f"--benchmark_filter={chosen}", f"--benchmark_out={out}",
                  "--benchmark_out_format=json", f"--benchmark_repetitions={options.turns}",
                  quiet=True, environment=os.environ | {"TMPDIR": str(place), "ROS2STORE_BENCH_DIR": str(place)})
        found = parse(out.read_text(encoding="utf-8"))
        made += [{"program": program, "name": name, "ns": rows.rounded(statistics.median(took)),
                  "least": rows.rounded(min(took)), "greatest": rows.rounded(max(took))}
                 for name, took in found.items()]
        tally.add(f"{program}: {len(found)} benchmarks", bool(found))
    document["micro"] = made
    return report.table(("program", "benchmark", "ns (spread)"), (
        (one["program"], f"`{one['name']}`", f"{one['ns']:,.0f} ({one['least']:,.0f}–{one['greatest']:,.0f})")
        for one in made)), None

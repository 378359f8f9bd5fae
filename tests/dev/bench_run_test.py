"""Runs ./dev bench for so short a time that its figures mean nothing. Each set-up is measured, every field
has a value, and no files stay.

usage: bench_run_test.py BUILD_DIRECTORY CHECKOUT [NAME…]"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import runner  # noqa: E402

test = runner.Tests()


def bench(top, *options):
    """Runs the bench in a directory that looks like a built checkout."""
    if not (top / "build").exists():
        (top / "build").mkdir()
        os.symlink(BUILD, top / "build" / "release")
    return subprocess.run([sys.executable, "-B", CHECKOUT / "tools" / "dev", "bench", *options, "--no-build"],
                          cwd=top, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=4 * runner.PATIENCE_SECONDS, check=False)


def in_a_place(look):
    top = Path(tempfile.mkdtemp(prefix="bench.", dir=BUILD))
    try:
        look(top)
    finally:
        shutil.rmtree(top)


@test
def every_set_up_is_measured():
    def look(top):
        done = bench(top, "quick", "--seconds", "1", "--turns", "1", "--mib", "64", "--rows", "randread-32",
                     "--json", "build/out/bench.json")
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        out = top / "build" / "out" / "bench.json"
        document = json.loads(out.read_text())
        found = document["rows"]
        assert {row["mode"] for row in found} == {"raw", "embedded", "direct", "offload"}, found
        for row in found:
            assert tuple(row) == rows.FIELDS, row
            assert row["iops"] > 0 and row["p99_us"] >= row["p50_us"] > 0, row
            assert (row["ratio_to_raw"] is None) == (row["mode"] == "raw"), row
            assert (row["engine_cpu_us_per_io"] is None) == (row["mode"] in ("raw", "embedded")), row
            assert (row["dpu_cpu_us_per_io"] is None) == (row["mode"] != "offload"), row
        assert len(document["spreads"]) == len(found) and document["machine"]["cores"] > 0
        assert len(document["load_before"]) == len(document["load_after"]) == 3
        assert "| 4 KiB randread, depth 32 | offload, shm |" in out.with_suffix(".md").read_text()
        assert out.with_suffix(".svg").read_text().startswith("<svg ")
        assert not (top / "build" / "bench").exists()

    in_a_place(look)


@test
def another_build_is_compared():
    def look(top):
        # The build is compared with itself. Three turns are the fewest.
        done = bench(top, "quick", "--seconds", "1", "--turns", "3", "--mib", "64", "--rows", "randread-32",
                     "--against", BUILD, "--json", "build/out/bench.json")
        out = top / "build" / "out" / "bench.json"
        assert out.exists(), done.stdout[-3000:] + done.stderr[-3000:]
        document = json.loads(out.read_text())
        found = document["against"]
        assert [told["side"] for told in found] == ["embedded", "direct, shm", "offload, shm"], found
        for told in found:
            assert set(told) == {"row", "side", "ratio_to_base", "least", "greatest", "regressed"}, told
            assert told["row"] == "randread-32" and isinstance(told["regressed"], bool), told
            assert 0 < told["least"] <= told["ratio_to_base"] <= told["greatest"], told
            assert f"| {told['row']} | {told['side']} | {told['ratio_to_base']:.2f} (" in out.with_suffix(".md").read_text()
        assert [row["mode"] for row in document["rows"]] == ["raw", "embedded", "direct", "offload"], document["rows"]
        # By chance a build can be slower than itself. Nothing else may fail.
        failed = [line for line in done.stdout.splitlines() if line.startswith("FAIL ")]
        slower = [f"FAIL {told['row']}, {told['side']}: " for told in found if told["regressed"]]
        assert len(failed) == len(slower) and all(map(str.startswith, failed, slower)), done.stdout[-3000:]
        assert done.returncode == bool(failed), done.stdout[-3000:] + done.stderr[-3000:]
        assert not (top / "build" / "bench").exists()

    in_a_place(look)


@test
def an_aged_pool_is_measured():
    def look(top):
        done = bench(top, "aged", "--seconds", "1", "--turns", "1", "--mib", "128", "--rows", "randwrite-32",
                     "--json", "build/out/bench.json")
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        document = json.loads((top / "build" / "out" / "bench.json").read_text())
        assert [row["mode"] for row in document["rows"]] == ["raw", "fresh", "aged"], document["rows"]
        assert all(row["iops"] > 0 and tuple(row) == rows.FIELDS for row in document["rows"])

    in_a_place(look)


@test
def the_axes_of_the_paper():
    def look(top):
        disks = [top / "d0", top / "d1"]
        for each in disks:
            each.mkdir()
        set_ups = {"raw", "embedded", "direct", "offload"}
        for kind, more, end, points in (
                ("fig3", (), "one device: name directories", {("raw", 1)}),
                ("fig5", ("--disks", ",".join(map(str, disks))), "4 devices: --disks names 2",
                 {(mode, devices) for mode in set_ups for devices in (1, 2)})):
            done = bench(top, kind, "--seconds", "1", "--mib", "64", "--rows", "randread-4k-2", *more, "--json", f"build/{kind}.json")
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
            assert f"it ends here: {end}" in done.stdout, done.stdout
            document = json.loads((top / "build" / f"{kind}.json").read_text())
            assert {(row["mode"], row["devices"]) for row in document["rows"]} == points, document["rows"]
            for found in document["rows"]:
                assert tuple(found) == rows.FIELDS and found["iops"] > 0 and found["jobs"] == 2, found
            assert (top / "build" / f"{kind}.svg").read_text().startswith("<svg ")
        assert [list(each.iterdir()) for each in disks] == [[], []], "the devices are removed"

    in_a_place(look)


@test
def names_are_counted():
    def look(top):
        program = BUILD / "bin" / "ros2store"
        subprocess.run([program, "up", "--no-daemons", top / "p", "--size", "128M"], check=True,
                       stdout=subprocess.DEVNULL)
        (top / "d").mkdir()
        for threads in (1, 4):
            uri = f"ros2s+local:///pool/main/{threads}?dir={top / 'p'}"
            subprocess.run([program, "mkdir", uri], check=True)
            (top / "d" / str(threads)).mkdir()
            for where, more in ((uri, ()), (top / "d" / str(threads), ("fsync",))):
                said = subprocess.run([BUILD / "bench" / "name_bench", where, str(threads), "0.1", *more],
                                      check=True, text=True, capture_output=True).stdout
                found = names.parse(said)
                assert all(each.per_second > 0 and each.p99_us >= each.p50_us > 0
                           for each in found.values()), said

    in_a_place(look)


@test
def a_directory_behind_a_dpu():
    def look(top):
        done = bench(top, "directory", "--seconds", "1", "--turns", "1", "--json", "build/directory.json")
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        found = json.loads((top / "build" / "directory.json").read_text())["rows"]
        assert {row["workload"] for row in found} == {*names.OPERATIONS, "randread"}, found
        assert {row["mode"] for row in found} == {"raw", "offload"} and len(found) == 2 * 2 * 6, found
        for row in found:
            assert tuple(row) == rows.FIELDS and row["iops"] > 0, row
            assert (row["ratio_to_raw"] is None) == (row["mode"] == "raw"), row

    in_a_place(look)


@test
def small_files():
    def look(top):
        for name in ("raw", "place"):
            (top / name).mkdir()
        found = mounts.turn(mounts.Mounted("raw", None, top / "raw"), mounts.Tree(top / "place"), None)
        assert tuple(found) == mounts.WORKLOADS, found
        assert all(each.per_second > 0 for each in found.values()), found
        assert list((top / "raw").iterdir()) == [], "the turn cleared up"
        assert len(list((top / "place" / "tree").rglob("f*"))) == mounts.FILES

    in_a_place(look)


@test
def a_database_recovers():
    if not postgres.programs():
        print("SKIPPED: postgresql is not installed, or this is not root: nothing was recovered")
        return

    def look(top):
        top.chmod(0o755)
        (top / "raw").mkdir()
        (top / "place").mkdir()
        database = postgres.Crashed(top / "place", scale=1, transactions=5)
        assert 0 < database.recover(top / "raw") < postgres.PATIENCE_SECONDS
        assert list((top / "raw").iterdir()) == [], "the database is removed"
        database.transactions += 1
        try:
            database.recover(top / "raw")
        except shown.Failed as failure:
            assert "20 of 21 transactions are left" in str(failure), failure
        else:
            raise AssertionError("a lost transaction was not noticed")

    in_a_place(look)


@test
def what_io_costs_a_host():
    def look(top):
        done = bench(top, "host-cpu", "--seconds", "1", "--turns", "1", "--mib", "64", "--json", "build/host.json")
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        found = json.loads((top / "build" / "host.json").read_text())["rows"]
        modes = {row["mode"] for row in found}
        set_ups = ("embedded", "direct", "offload")
        assert modes == {"raw", *set_ups, *(f"FUSE, {each}" for each in set_ups),
                         *(f"{each}, encrypted" for each in set_ups)}, modes
        for row in found:
            assert row["cpu_us"] > 0 and row["system_calls"] > 0, row
            assert (row["cpu_ratio_to_raw"] is None) == (row["mode"] == "raw"), row

    in_a_place(look)


@test
def what_tenants_of_one_dpu_get():
    def look(top):
        done = bench(top, "fairness", "--seconds", "1", "--turns", "1", "--json", "build/fairness.json")
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        found = {row["case"]: row for row in json.loads((top / "build" / "fairness.json").read_text())["rows"]}
        assert len(found) == 6 and found["equal weights"]["jain"] > 0.5, found
        flood = found["a reader beside a flood of 1 MiB writes"]
        assert flood["tenants"][0]["p99_of_share"] > 0 and len(flood["goals"]) == 1, flood
        assert all(one["iops"] > 0 and one["p99_us"] > 0 for row in found.values() for one in row["tenants"]), found
        rates = {one["weight"]: one["iops"] for one in found["weights 1:2:4"]["tenants"]}
        assert rates[4] > rates[1], rates

    in_a_place(look)


@test
def a_row_that_is_not_there():
    def look(top):
        done = bench(top, "--rows", "randread-33")
        assert done.returncode == 1 and "there is no row randread-33" in done.stdout, done.stdout

    in_a_place(look)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    BUILD, CHECKOUT = (Path(each).absolute() for each in sys.argv[1:3])
    sys.path.insert(0, str(CHECKOUT / "tools" / "dev"))
    import shown  # noqa: E402
    from bench import mounts, names, postgres, rows  # noqa: E402
    sys.exit(test.run(sys.argv[3:]))

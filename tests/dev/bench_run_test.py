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
SET_UPS = ("embedded", "direct", "offload")


def bench(*options, expected=(0,)):
    """Runs the bench in a directory that looks like a built checkout. Returns its document, its Markdown and its output."""
    top = Path(tempfile.mkdtemp(prefix="bench.", dir=BUILD))
    try:
        top.chmod(0o755)  # for the user of a database
        (top / "build").mkdir()
        os.symlink(BUILD, top / "build" / "release")
        done = subprocess.run([sys.executable, "-B", CHECKOUT / "tools" / "dev", "bench", *options, "--no-build"], cwd=top,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=4 * runner.PATIENCE_SECONDS,
                              check=False)
        assert done.returncode in expected, done.stdout[-3000:] + done.stderr[-3000:]
        assert not (top / "build" / "bench").exists()
        out = top / "build" / "bench.json"
        return (json.loads(out.read_text()), out.with_suffix(".md").read_text(), done.stdout) if out.exists() else ({}, "", done.stdout)
    finally:
        shutil.rmtree(top)


def expect_rows(document, modes, workloads=None):
    found = document["rows"]
    assert {row["mode"] for row in found} == set(modes), found
    assert workloads is None or {row["workload"] for row in found} == set(workloads), found
    for row in found:
        assert tuple(row) == rows.FIELDS and row["iops"] > 0, row
        is_base = row["mode"].startswith("plug-in") or row["mode"] == "raw" and row["provider"] in (None, names.SYNCED)
        assert (row["ratio_to_raw"] is None) == is_base, row
    assert len(document["spreads"]) == len(found) and document["machine"]["cores"] > 0


@test
def every_set_up_is_measured():
    document, told, _ = bench("quick", "--seconds", "1", "--turns", "1", "--mib", "64", "--rows", "randread-32")
    expect_rows(document, ("raw", *SET_UPS))
    for row in document["rows"]:
        assert row["p99_us"] >= row["p50_us"] > 0, row
        assert (row["engine_cpu_us_per_io"] is None) == (row["mode"] in ("raw", "embedded")), row
        assert (row["dpu_cpu_us_per_io"] is None) == (row["mode"] != "offload"), row
    assert len(document["load_before"]) == len(document["load_after"]) == 3
    assert "| 4 KiB randread, depth 32 | offload, shm |" in told, told


@test
def another_build_is_compared():
    # The build is compared with itself. Three turns are the fewest.
    document, _, said = bench("quick", "--seconds", "1", "--turns", "3", "--mib", "64", "--rows", "randread-32",
                              "--against", BUILD, expected=(0, 1))
    expect_rows(document, ("raw", *SET_UPS))
    found = document["against"]
    assert [told["side"] for told in found] == ["embedded", "direct, shm", "offload, shm"], found
    for told in found:
        assert 0 < told["least"] <= told["ratio_to_base"] <= told["greatest"], told
    # By chance a build can be slower than itself. Nothing else may fail.
    failed = [line for line in said.splitlines() if line.startswith("FAIL ")]
    slower = [f"FAIL {told['row']}, {told['side']}: " for told in found if told["regressed"]]
    assert len(failed) == len(slower) and all(map(str.startswith, failed, slower)), said[-3000:]


@test
def an_aged_pool_is_measured():
    document, _, _ = bench("aged", "--seconds", "1", "--turns", "1", "--mib", "128", "--rows", "randwrite-32")
    expect_rows(document, ("raw", "fresh", "aged"))


@test
def names_are_counted():
    document, _, _ = bench("meta", "--seconds", "1", "--turns", "1")
    expect_rows(document, ("raw", *SET_UPS), names.OPERATIONS)
    assert len(document["rows"]) == 5 * 2 * 5, document["rows"]


@test
def small_files():
    document, _, _ = bench("mount", "--turns", "1")
    recovery = {mounts.RECOVERY} if mounts.postgres() else set()
    expect_rows(document, ("raw", *SET_UPS), {"untar", "git clone", "copy", "read", "remove"} | recovery)


def expect_goals(document, kind):
    """Each goal of the kind has a value."""
    run = page.Run(document)
    unmeasured = [goal.what for goal in page.GOALS if goal.kind == kind and goal.cell(run) is None]
    assert unmeasured == [], unmeasured


@test
def python_is_measured():
    if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        print("SKIPPED: python3-torch is not installed")
        return
    document, _, _ = bench("loaders", "--turns", "1", "--mib", "4")
    workloads = {row["workload"] for row in document["rows"]}
    assert {"files, 0 workers, cold", "files, 4 workers, second epoch", "checkpoint, load", "read_many",
            "read_many, beside open and read, cold", "randread 4 to 64 KiB", "first use in the first forked child",
            "first use in a forked child", "import and open", "import and open, cold"} <= workloads, workloads
    for row in document["rows"]:
        assert row["iops"] > 0 and row["host_cpu_us_per_io"] > 0, row
    expect_goals(document, "loaders")


@test
def blocks_are_measured():
    document, _, _ = bench("kv", "--turns", "1", "--seconds", "1", "--mib", "4")
    expect_rows(document, ("raw", "mount", *SET_UPS, "plug-in, direct", "plug-in, offload", "USRBIO, embedded", "USRBIO, offload"))
    assert all(row["iops"] > 0 for row in document["rows"]), document["rows"]
    assert [bool(row["p99_us"]) for row in document["rows"]] == [False] * 20 + [True] * 13, document["rows"]
    expect_goals(document, "kv")


@test
def a_lost_transaction_is_noticed():
    if not mounts.postgres():
        print("SKIPPED: postgresql is not installed, or this is not root: nothing was recovered")
        return
    top = Path(tempfile.mkdtemp(prefix="bench.", dir=BUILD))
    try:
        top.chmod(0o755)
        database = mounts.Crashed(top, scale=1, transactions=5)
        assert 0 < database.recover(top) < mounts.PATIENCE_SECONDS
        database.transactions += 1
        try:
            database.recover(top)
        except shown.Failed as failure:
            assert "20 of 21 transactions are left" in str(failure), failure
        else:
            raise AssertionError("a lost transaction was not noticed")
    finally:
        shutil.rmtree(top)


@test
def host_costs_are_measured():
    document, _, _ = bench("host-cpu", "--seconds", "1", "--turns", "1", "--mib", "64")
    found = document["rows"]
    assert {row["mode"] for row in found} == {"raw", *SET_UPS, *(f"FUSE, {each}" for each in SET_UPS),
                                              *(f"{each}, encrypted" for each in SET_UPS)}, found
    for row in found:
        assert row["cpu_us"] > 0 and row["system_calls"] > 0, row
        assert (row["cpu_ratio_to_raw"] is None) == (row["mode"] == "raw"), row


@test
def shares_of_tenants_are_measured():
    document, _, _ = bench("fairness", "--seconds", "1", "--turns", "1")
    found = {row["case"]: row for row in document["rows"]}
    assert len(found) == 6 and found["equal weights"]["jain"] > 0.5, found
    flood = found["a reader beside a flood of 1 MiB writes"]
    assert flood["tenants"][0]["p99_of_share"] > 0 and len(flood["goals"]) == 1, flood
    assert all(one["iops"] > 0 and one["p99_us"] > 0 for row in found.values() for one in row["tenants"]), found
    rates = {one["weight"]: one["iops"] for one in found["weights 1:2:4"]["tenants"]}
    assert rates[4] > rates[1], rates


@test
def unknown_row_is_refused():
    assert "there is no row randread-33" in bench("--rows", "randread-33", expected=(1,))[2]


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    BUILD, CHECKOUT = (Path(each).absolute() for each in sys.argv[1:3])
    sys.path.insert(0, str(CHECKOUT / "tools" / "dev"))
    import shown  # noqa: E402
    from bench import mounts, names, page, rows  # noqa: E402
    sys.exit(test.run(sys.argv[3:]))

"""Tests that figures belong to the path that they name: a pool whose I/O takes another path gives none.

usage: path_report_test.py BUILD_DIRECTORY CHECKOUT [NAME…]"""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import runner  # noqa: E402

test = runner.Tests()
SHARED = dict(size="8m", time_based=1, runtime=1)


class Pool:
    """Makes a pool below the build directory: on a disk as for figures, not in memory."""

    def __enter__(self):
        self.top = Path(tempfile.mkdtemp(prefix="path-report.", dir=BUILD))
        self.directory = self.top / "pool"
        subprocess.run([BUILD / "bin/ros2store", "up", "--no-daemons", self.directory,
                        "--size", "128M"],
                       check=True, stdout=subprocess.DEVNULL)
        self.side = sides.pool_side("embedded", BUILD,
                                      f"ros2s+local:///pool/main?dir={self.directory}", "f")
        sides.fill(self.side, SHARED["size"])
        return self

    def __exit__(self, *error):
        shutil.rmtree(self.top)

    def settings(self, text):
        (self.directory / "config.yaml").write_text(f"pool: pool\nio: {text}\n")

    def refused(self, row):
        try:
            sides.measure(row, self.side, SHARED)
        except shown.Failed as failure:
            return str(failure)
        raise AssertionError("it was measured")


@test
def every_row_is_measured_where_it_is_direct():
    with Pool() as pool:
        for each in sides.ROWS:
            figure = sides.measure(each, pool.side, SHARED)
            assert figure.iops > 0 and figure.path == "embedded engine, io_uring, O_DIRECT, 1 device"


@test
def an_engine_on_several_cores_is_the_same_path():
    assert re.fullmatch(path_report.ENGINE, "engine, io_uring, O_DIRECT, 2 devices, 4 cores")
    assert not re.fullmatch(path_report.ENGINE, "engine, io_uring, page cache, 1 device, 4 cores")


@test
def threads_and_the_page_cache_give_no_figure():
    with Pool() as pool:
        for settings, says in (("{back_end: threads}", "threads"), ("{page_cache: true}", "page cache")):
            pool.settings(settings)
            for key in ("randread-32", "randwrite-32"):
                said = pool.refused(sides.row_of(key))
                assert "took this path: embedded engine" in said and says in said, said


@test
def io_that_skips_the_devices_is_noticed():
    with Pool() as pool:
        report = shown.run(*sides.fio_command(sides.row_of("randread-1"), pool.side, SHARED), quiet=True)
        reads = path_report.parse(report)[0].reads
        path_report.check(report, reads, wrote=False)
        for text, requests in ((report, reads + 1), ("", reads), (report + report, reads),
                               (report.replace("device_read_bytes_total", "gone"), reads)):
            try:
                path_report.check(text, requests, wrote=False)
            except shown.Failed:
                continue
            raise AssertionError(f"not noticed: {text[:500]}")


@test
def a_row_is_of_the_provider_that_it_names():
    top = Path(tempfile.mkdtemp(prefix="path-report.", dir=BUILD))
    pool = served.Served(BUILD / "bin/ros2store", top / "p", "ucx+tcp")
    try:
        pool.make("256M")
        side = sides.offload(BUILD, pool, "ucx+tcp", "offload")
        sides.fill(side, SHARED["size"])
        figures = [sides.measure(sides.row_of(key), side, SHARED)
                   for key in ("randread-32", "write-1m", "read-1m")]
        for figure in figures:
            assert set(figure.hops.behind) == set(figure.hops.engine) == {"ucx+tcp"}, figure
            whole = figure.hops
            assert min(whole.host, whole.link, whole.behind["ucx+tcp"], whole.engine["ucx+tcp"],
                       whole.devices) >= whole.fio > 0, whole
        for wrong, says in ((dataclasses.replace(side, through="shm"), "the engine's counters"),
                            (dataclasses.replace(side, way=path_report.EMBEDDED), "path")):
            try:
                sides.measure(sides.row_of("randread-32"), wrong, SHARED)
            except shown.Failed as failure:
                assert says in str(failure), failure
                continue
            raise AssertionError("it was measured")
    finally:
        pool.down()
        shutil.rmtree(top)


@test
def each_process_on_the_way_must_have_counted_it():
    right = hops.Hops(1000, 1000, 1000, {"ucx+tcp": 1000}, {"ucx+tcp": 1000, "shm": 9}, 1000)
    hops.check(right, "ucx+tcp", dpu=True)
    for wrong in (dict(host=999), dict(link=0), dict(behind={"shm": 1000}), dict(engine={}),
                  dict(engine={"ucx+tcp": 1000, "shm": 10})):
        try:
            hops.check(dataclasses.replace(right, **wrong), "ucx+tcp", dpu=True)
        except shown.Failed:
            continue
        raise AssertionError(f"not noticed: {wrong}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    BUILD = Path(sys.argv[1]).absolute()
    sys.path.insert(0, str(Path(sys.argv[2]) / "tools" / "dev"))
    import hops  # noqa: E402
    import path_report  # noqa: E402
    import served  # noqa: E402
    import shown  # noqa: E402
    import sides  # noqa: E402
    sys.exit(test.run(sys.argv[3:]))

"""Reads the path report of the fio plug-in: which way the I/O took, and whether each acknowledged request
reached the device files. A run with another path, or with missing requests, is a failure."""

import dataclasses
import re

import shown

ENGINE = r"engine, io_uring, O_DIRECT, \d+ devices?(, \d+ cores)?"
EMBEDDED = f"embedded {ENGINE}"


@dataclasses.dataclass(frozen=True)
class PathReport:
    """The report of one file when it was closed."""
    path: str
    reads: int
    read_bytes: int
    writes: int
    written_bytes: int
    counters: dict  # of every layer below the file system, since the pool was opened


def parse(text):
    """Returns the reports in the output of fio, one for each closed file."""
    found = []
    for part in re.split(r"^.*?: file      ", text, flags=re.MULTILINE)[1:]:
        path = re.search(r"^path +(.+)$", part, re.MULTILINE)
        reads = re.search(r"^reads +(\d+) \((\d+) bytes\)$", part, re.MULTILINE)
        writes = re.search(r"^writes +(\d+) \((\d+) bytes\)$", part, re.MULTILINE)
        if path and reads and writes:
            counters = re.findall(r"^  (ros2store_\w+) +(\d+)  ", part, re.MULTILINE)
            found.append(PathReport(path[1], int(reads[1]), int(reads[2]), int(writes[1]),
                                    int(writes[2]), {name: int(value) for name, value in counters}))
    return found


def check(text, requests, wrote, way=EMBEDDED, engine=None):
    """Checks that `requests` reads or writes of one file took the path `way`, and that all reached the devices. Returns
    their report. Raises Failed. `engine`: the growth of the counters of the engine in another process, as hops.Series."""
    reports = parse(text)
    if len(reports) != 1:
        raise shown.Failed(f"{len(reports)} path reports of one job; fio said: {text[-1500:]}")
    report, = reports
    if not re.fullmatch(way, report.path):
        raise shown.Failed(f"the pool's I/O took this path: {report.path}; figures are of {way}: see "
                           "`ros2store doctor`, and io: in the pool's config.yaml")
    counted, moved = ((report.writes, report.written_bytes) if wrote
                      else (report.reads, report.read_bytes))
    name = f"ros2store_device_{'written' if wrote else 'read'}_bytes_total"
    reached = report.counters.get(name, 0) if engine is None else engine.sum((name,))
    if counted < requests or reached < moved:
        raise shown.Failed(f"{requests} requests were acknowledged and {counted} counted, of {moved} "
                           f"bytes, but {name} is {reached}")
    return report

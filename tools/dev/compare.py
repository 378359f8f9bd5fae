"""The figures: fio on a raw file and fio on a pool, in turn, in one run; ratios of medians.

Raw is fio's io_uring with direct=1 and fixed buffers on a fully written file of the same size in
the same file system. A write to the pool is durable when it completes, so raw writes are shown with
an fdatasync after as many writes as are in flight, and once without any."""

import json
import statistics
import subprocess

import console
import shown

# name, fio options of both, further ones of raw
# The order matters: a pool never overwrites in place, so random writes scatter a file's blocks, and
# what reads it in large pieces afterwards is slower (raw is not).
ROWS = (
    ("1 MiB write, depth 8; raw never synced", dict(rw="write", bs="1m", iodepth=8), {}),
    ("1 MiB read, depth 8", dict(rw="read", bs="1m", iodepth=8), {}),
    ("4 KiB random read, depth 1", dict(rw="randread", bs="4k", iodepth=1), {}),
    ("4 KiB random read, depth 32", dict(rw="randread", bs="4k", iodepth=32), {}),
    ("4 KiB random write, depth 1; raw with fdatasync each",
     dict(rw="randwrite", bs="4k", iodepth=1), dict(fdatasync=1)),
    ("4 KiB random write, depth 32; raw with fdatasync=32",
     dict(rw="randwrite", bs="4k", iodepth=32), dict(fdatasync=32)),
    ("4 KiB random write, depth 32; raw never synced",
     dict(rw="randwrite", bs="4k", iodepth=32), {}),
)


def fio_command(target, options):
    return ["fio", "--name=figure", "--output-format=json", *target,
            *(f"--{key}={value}" for key, value in options.items())]


def figure(target, options):
    """One run of fio: operations and MiB per second."""
    command = fio_command(target, options)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, timeout=300)
    # Warnings may stand before the JSON.
    text = done.stdout[done.stdout.find("{"):]
    if done.returncode != 0 or not text:
        raise shown.Failed(f"{' '.join(command)}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    job = json.loads(text)["jobs"][0]
    if job["error"] != 0:
        raise shown.Failed(f"{' '.join(command)}\nfio reports error {job['error']}")
    side = job["write" if "write" in options["rw"] else "read"]
    return side["iops"], side["bw_bytes"] / 2**20


def table(raw, ours, size, seconds, turns):
    """Yields (name, raw median, our median, ratio, spread of the ratios) for each row."""
    shared = dict(size=size, time_based=1, runtime=seconds, randrepeat=0, norandommap=1)
    for name, options, only_raw in ROWS:
        in_mib = options["bs"] == "1m"
        console.command(fio_command(raw, shared | options | only_raw))
        console.command(fio_command(ours, shared | options))
        pairs = []
        for turn in range(turns):
            # Who goes first alternates too.
            order = [(raw, only_raw), (ours, {})]
            values = [figure(target, shared | options | more)[in_mib]
                      for target, more in (order if turn % 2 == 0 else reversed(order))]
            pairs.append(values if turn % 2 == 0 else values[::-1])
        ratios = [our / plain for plain, our in pairs]
        unit = "MiB/s" if in_mib else "IOPS"
        yield (name, unit, statistics.median(plain for plain, _ in pairs),
               statistics.median(our for _, our in pairs), statistics.median(ratios),
               (min(ratios), max(ratios)))


def show(rows):
    """Prints the table as Markdown, for the README."""
    print("| | raw | embedded | ratio (spread) |\n|---|---|---|---|")
    for name, unit, raw, ours, ratio, (low, high) in rows:
        print(f"| {name} | {raw:,.0f} {unit} | {ours:,.0f} {unit} | {ratio:.2f} ({low:.2f}–{high:.2f}) |",
              flush=True)

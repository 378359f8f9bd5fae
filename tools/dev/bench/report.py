"""Writes the report of a bench: JSON, Markdown and a plot."""

import datetime
import json
import os
import platform
import shlex
import subprocess
import sys

import compare
from bench import plot


def head(options, kind):
    """Returns the lines above the rows: the conditions of the measurement."""
    return {"schema": 1, "bench": kind,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": revision("."), "command": f"./dev {shlex.join(sys.argv[1:])}",
            "machine": {"description": compare.machine(), "cores": len(os.sched_getaffinity(0)),
                        "kernel": platform.release()},
            "load_before": load(), "turns": options.turns, "seconds": options.seconds,
            "mib": options.mib}


def load():
    return [round(each, 2) for each in os.getloadavg()]


def revision(folder):
    done = subprocess.run(["git", "-C", folder, "describe", "--always", "--dirty"], capture_output=True,
                          text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def write(file, document, lines, drawn=None):
    """Writes the report. `lines`: the tables of the Markdown. `drawn`: a plot.Plot. Without one, the plot of an
    earlier report of this name is removed."""
    document["load_after"] = load()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    text = "\n".join([*lines, "", told(document), ""])
    file.with_suffix(".md").write_text(text, encoding="utf-8")
    if drawn is not None:
        file.with_suffix(".svg").write_text(plot.svg(drawn), encoding="utf-8")
    else:
        file.with_suffix(".svg").unlink(missing_ok=True)
    return text


def told(document):
    each = f" of {document['seconds']} s" if document["seconds"] else ""
    files = f"; files of {document['mib']} MiB" if document["mib"] else ""
    before, after = document["load_before"], document["load_after"]
    loads = f"; load {before[0]} before and {after[0]} after" if before and after else ""
    return (f"`{document['command']}`, {document['date']}, revision {document['commit']}; "
            f"{document['machine']['description']}; turns: {document['turns']}{each}{files}{loads}.")


def table(heads, rows):
    return ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|",
            *("| " + " | ".join(row) + " |" for row in rows)]


def number(value, digits=1):
    return "–" if value is None else f"{value:,.{digits}f}"


def rows_as_table(rows, spreads):
    return table(("workload", "mode", "rate", "ratio to raw (spread)", "p50, p99 µs",
                  "CPU µs per I/O (and polling): host / DPU / engine", "disk empty"),
                 (cells(row, spread) for row, spread in zip(rows, spreads)))


def workload(row):
    size = f"{row['bs'] >> 20} MiB" if row["bs"] >= 1 << 20 else f"{row['bs'] >> 10} KiB"
    jobs = f", {row['jobs']} jobs" if row["jobs"] > 1 else ""
    return f"{size} {row['workload']}, depth {row['iodepth']}{jobs}"


def mode(row):
    disks = f", {row['devices']} disks" if row.get("devices", 1) > 1 else ""
    return row["mode"] + (f", {row['provider']}" if row["provider"] else "") + disks


def cells(row, spread):
    rate = f"{number(row['bytes_per_s'] / 2**20, 0)} MiB/s" if row["bs"] >= 1 << 20 else \
        f"{number(row['iops'], 0)} IOPS"
    ratio = number(row["ratio_to_raw"], 2)
    if "ratio_to_raw" in spread:
        least, greatest = spread["ratio_to_raw"]
        ratio += f" ({least:.2f}–{greatest:.2f})"
    cpu = " / ".join(number(row[f"{name}_cpu_us_per_io"]) + (
        f" (+ {number(row[f'{name}_poll_us_per_io'])})" if row[f"{name}_poll_us_per_io"] is not None else "")
        for name in ("host", "dpu", "engine"))
    empty = "–" if row["device_empty_share"] is None else f"{row['device_empty_share']:.0%}"
    return (workload(row), mode(row), rate, ratio, f"{number(row['p50_us'], 0)}, {number(row['p99_us'], 0)}",
            cpu, empty)

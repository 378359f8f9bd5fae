"""Writes the report of a bench: JSON, and Markdown beside it."""

import datetime
import json
import os
import platform
import shlex
import subprocess
import sys

import sides
from bench import rows


def head(options, kind):
    """Returns the lines above the rows: the conditions of the measurement."""
    return {"schema": 1, "bench": kind, "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": revision("."), "command": f"./dev {shlex.join(sys.argv[1:])}",
            "machine": {"description": sides.machine(), "cores": len(os.sched_getaffinity(0)), "kernel": platform.release()},
            "load_before": load(), "turns": options.turns, "seconds": options.seconds, "mib": options.mib}


def load():
    return [round(each, 2) for each in os.getloadavg()]


def revision(folder):
    done = subprocess.run(["git", "-C", folder, "describe", "--always", "--dirty"], capture_output=True,
                          text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def write(file, document, lines):
    """Writes the report. `lines`: the tables of the Markdown."""
    document["load_after"] = load()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    text = "\n".join([*lines, "", told(document), ""])
    file.with_suffix(".md").write_text(text, encoding="utf-8")
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


class Rows:
    """The rows of a report and their spreads, which grow work by work."""

    def __init__(self, document, tally):
        self.rows, self.spreads = document.setdefault("rows", []), document.setdefault("spreads", [])
        self.tally = tally

    def add(self, work, sides_of, own, shares=None):
        """Adds a row for each side. `own`: of each side, its sides.Figure of each turn; ratios are to the first side."""
        made = [rows.row(side, work, figures, None if number == 0 else own[0], shares and shares[number])
                for number, (side, figures) in enumerate(zip(sides_of, own))]
        self.rows += made
        self.spreads += [rows.spread(figures, None if number == 0 else own[0]) for number, figures in enumerate(own)]
        self.tally.add(f"{work.key}: {mode(made[0])} {rate(made[0])}" +
                       "".join(f"; {mode(one)} {one['ratio_to_raw']:.2f}" for one in made[1:]), True)
        return made

    def lines(self):
        return table(("workload", "mode", "rate", "ratio to the first (spread)", "p50, p99 µs",
                      "CPU µs per I/O (and polling): host / DPU / engine"), map(cells, self.rows, self.spreads))


def workload(row):
    size = "" if row["bs"] is None else f"{row['bs'] >> 20} MiB " if row["bs"] >= 1 << 20 else f"{row['bs'] >> 10} KiB "
    return f"{size}{row['workload']}, depth {row['iodepth']}"


def mode(row):
    return row["mode"] + (f", {row['provider']}" if row["provider"] else "")


def rate(row):
    if row["bs"] and row["bs"] >= 1 << 20:
        return f"{number(row['bytes_per_s'] / 2**20, 0)} MiB/s"
    return f"{number(row['iops'], 0 if row['iops'] >= 10 else 2)}/s"


def cells(row, spread):
    ratio = number(row["ratio_to_raw"], 2)
    if "ratio_to_raw" in spread:
        least, greatest = spread["ratio_to_raw"]
        ratio += f" ({least:.2f}–{greatest:.2f})"
    cpu = " / ".join(number(row[f"{name}_cpu_us_per_io"]) + (
        f" (+ {number(row[f'{name}_poll_us_per_io'])})" if row[f"{name}_poll_us_per_io"] is not None else "")
        for name in rows.PROCESSES)
    return (workload(row), mode(row), rate(row), ratio, f"{number(row['p50_us'], 0)}, {number(row['p99_us'], 0)}", cpu)

"""Compares the set-ups: the raw disk, the embedded engine, direct and offload."""

import re
import statistics

import compare
import hops
import path_report

HEADS = {"write-1m": "1 MiB write", "read-1m": "1 MiB read", "randread-1": "4 KiB read, depth 1",
         "randread-32": "4 KiB read, depth 32",
         "randwrite-32": "4 KiB durable write, depth 32; raw with fdatasync=32"}
SHORT_HEADS = {"write-1m": "write MiB/s", "read-1m": "read MiB/s", "randread-1": "4K read, one",
               "randread-32": "4K read, 32", "randwrite-32": "4K write, 32"}
ROWS = tuple(row for row in compare.ROWS if row.key in HEADS)


def direct(built, pool, provider, name):
    address = r"\S+/run/engine\.data" if provider == "shm" else r"127\.0\.0\.1:\d+"
    return compare.served_side(name, built, pool, "ros2s",
                               rf"{re.escape(provider)} to {address}, {path_report.ENGINE}", provider)


def offload(built, pool, provider, name):
    """Returns the side of a pool behind a DPU. `provider`: how the DPU reaches its engine."""
    way = (rf"host link over shm to the DPU at {re.escape(str(pool.directory))}/run/dpu\.data\."
           rf"[0-9a-f]{{16}}, {re.escape(provider)} to its {path_report.ENGINE}")
    return compare.served_side(name, built, pool, "ros2s+dpu", way, provider)


def sides(built, raw, embedded, over_shm, over_tcp, over_ofi=None):
    """Returns all sides. `over_shm`, `over_tcp`, `over_ofi`: pools whose DPU reaches its engine by that
    provider."""
    made = [raw, embedded,
            direct(built, over_shm, "shm", "direct, shm (no NIC)"),
            direct(built, over_tcp, "ucx+tcp", "direct, ucx+tcp"),
            offload(built, over_shm, "shm", "offload, shm (no NIC)"),
            offload(built, over_tcp, "ucx+tcp", "offload, ucx+tcp behind")]
    if over_ofi:
        made += [direct(built, over_ofi, "ofi+tcp;ofi_rxm", "direct, ofi+tcp;ofi_rxm"),
                 offload(built, over_ofi, "ofi+tcp;ofi_rxm", "offload, ofi+tcp;ofi_rxm behind")]
    return made


def short_lines(the_sides, results):
    """Returns a table for a terminal: medians, and their ratios to raw."""
    width = max(len(side.name) for side in the_sides)
    heads = [SHORT_HEADS[row.key] for row, _ in results]
    told = [f"{'':<{width}}" + "".join(f"{head:>15}" for head in heads)]
    for number, side in enumerate(the_sides):
        cells = []
        for row, figures in results:
            rate = compare.median_rate(row, figures[number])
            text = f"{rate:,.0f}" if row.in_mib() else f"{rate / 1000:,.1f} K"
            raw = compare.median_rate(row, figures[0])
            cells.append(text if number == 0 else f"{text} ({rate / raw:.2f})")
        told.append(f"{side.name:<{width}}" + "".join(f"{cell:>15}" for cell in cells))
    return told


def lines(the_sides, results):
    """Returns a Markdown table: each figure with its ratio to raw of the same turns."""
    heads = ["set-up", *(HEADS[row.key] for row, _ in results),
             "CPU µs per 4 KiB read at depth 32: host / DPU / engine"]
    reads = next(figures for row, figures in results if row.key == "randread-32")
    told = as_table(heads)
    for number, side in enumerate(the_sides):
        cells = [side.name]
        for row, figures in results:
            text = compare.rate(row, figures[number])
            if number > 0:
                text += f", {compare.ratio(figures[number], figures[0])}"
            cells.append(text)
        told.append(as_row([*cells, spent(side, reads[number])]))
    return told


def hop_lines(the_sides, results):
    """Returns a Markdown table: the counts of each process on a row's way, over all its turns, in MiB. Each
    turn was checked when it ended."""
    told = as_table(["set-up", "fio moved", "host", "DPU: of its hosts", "DPU: of its engine", "engine",
                     "devices"])
    for number, side in enumerate(the_sides):
        if side.is_raw:
            continue
        all_turns = hops.total([figure.hops for _, figures in results for figure in figures[number]])
        told.append(as_row((side.name, mib(all_turns.fio), mib(all_turns.host), mib(all_turns.link),
                            by_provider(all_turns.behind), by_provider(all_turns.engine),
                            mib(all_turns.devices))))
    return told


def as_row(cells):
    return "| " + " | ".join(cells) + " |"


def as_table(heads):
    return [as_row(heads), "|---" * len(heads) + "|"]


def mib(count):
    return f"{count / 2**20:,.1f}" if count else "–"


def by_provider(counts):
    return ", ".join(f"{mib(count)} by {provider}" for provider, count in sorted(counts.items())) or "–"


def spent(side, figures):
    return " / ".join(f"{statistics.median(figure.cpu_us[name] for figure in figures):.1f}"
                      if name in ("host", *side.daemons) else "–" for name in ("host", "dpu", "engine"))

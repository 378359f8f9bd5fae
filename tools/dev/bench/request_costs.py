"""Computes what one request costs: what a run spent, less what a run with the same start and hardly a request spent."""

import statistics

from bench import names, rows

NAMES = ("create", "stat")
NAME_THREADS = names.THREADS[-1]
AT_ONCE_SECONDS = 0.001


def difference(short, whole):
    """Returns the costs of one request. Of each run: how many requests it made, and what it spent."""
    (few, start), (many, spent) = short, whole
    return {name: (spent[name] - start[name]) / max(1, many - few) for name in spent}


def counts(text):
    """Parses the output of name_bench: how many of each operation were done."""
    return {line.split()[0]: int(line.split()[1]) for line in text.splitlines()}


def of_names(metered, options):
    """Yields create and stat, each with its costs in each turn. Both runs of a stat make the same files before.
    `metered`: from seconds and the operation to how many of each operation were done, and what was spent."""
    for name in NAMES:
        turns = []
        for _ in range(options.turns):
            short, whole = (metered(seconds, name) for seconds in (AT_ONCE_SECONDS, options.seconds))
            turns.append(difference(*((done[name], spent) for done, spent in (short, whole))))
        if all(min(turn.values()) >= 0 for turn in turns):  # otherwise the start hides the rest
            yield name, turns


def of_turns(turns):
    """Returns the entry of a request, and its spreads."""
    return ({"source": "measured"} | {name: rows.rounded(statistics.median(turn[name] for turn in turns)) for name in turns[0]},
            {name: [rows.rounded(edge(turn[name] for turn in turns)) for edge in (min, max)] for name in turns[0]})

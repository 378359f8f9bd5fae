"""Makes the rows of a bench's JSON, and decides when a build is slower than another. It measures nothing."""

import statistics

# null: not measured here. A *_poll_* field is the time in sched_yield without work. The *_cpu_* field for the
# same process then excludes that time.
FIELDS = ("mode", "provider", "workload", "bs", "iodepth", "jobs", "devices", "iops", "bytes_per_s",
          "p50_us", "p99_us", "host_cpu_us_per_io", "host_poll_us_per_io", "dpu_cpu_us_per_io",
          "dpu_poll_us_per_io", "engine_cpu_us_per_io", "engine_poll_us_per_io",
          "ratio_to_raw")
PROCESSES = ("host", "dpu", "engine")
REGRESSION = 0.95  # of the base
# A single turn differs by up to a half between equal builds.
TURNS_PER_LUCKY_TURN = 9


def median(values):
    """Returns the median of the measured values, to four digits. None: there is none."""
    known = [value for value in values if value is not None]
    return rounded(statistics.median(known)) if known else None


def rounded(value):
    return float(f"{value:.4g}")


def edges(values):
    return [rounded(min(values)), rounded(max(values))]


def row(side, work, figures, raw=None, poll_shares=None):
    """Returns a row of the JSON. `figures` and `raw`: one sides.Figure per turn. `poll_shares`: by process."""
    values = dict.fromkeys(FIELDS) | {
        "mode": side.mode, "provider": side.provider, "workload": work.workload, "bs": work.bs,
        "iodepth": work.iodepth, "jobs": 1, "devices": 1, "ratio_to_raw": median(ratios(figures, raw)) if raw else None}
    for name in ("iops", "bytes_per_s", "p50_us", "p99_us"):
        values[name] = median(getattr(figure, name) for figure in figures)
    for name in PROCESSES:
        share = (poll_shares or {}).get(name)
        spent = [figure.cpu_us[name] for figure in figures if name in figure.cpu_us]
        values[f"{name}_cpu_us_per_io"] = median(each * (1 - (share or 0)) for each in spent)
        values[f"{name}_poll_us_per_io"] = None if share is None else median(each * share for each in spent)
    return values


def difference(short, whole):
    """Returns the costs of one request. Of each run: how many requests it made, and what it spent."""
    (few, start), (many, spent_whole) = short, whole
    return {name: (spent_whole[name] - start[name]) / max(1, many - few) for name in spent_whole}


def ratios(figures, base):
    """Returns the ratios of the rates, turn by turn."""
    return [ours.iops / other.iops for ours, other in zip(figures, base)]


def spread(figures, raw=None):
    """Returns the least and the greatest value of the turns. Processor time contains polling, which is not measured
    in these turns."""
    values = {"iops": [figure.iops for figure in figures]}
    for name in PROCESSES:
        values[f"{name}_cpu_us_per_io"] = [figure.cpu_us[name] for figure in figures if name in figure.cpu_us]
    if raw:
        values["ratio_to_raw"] = ratios(figures, raw)
    return {name: edges(each) for name, each in values.items() if each}


def comparison(name, figures, base):
    """Compares the turns of a build with those of the base. It is a regression if the median is more than 5 %
    below the base, and at most one of nine turns reaches the base."""
    of_base = ratios(figures, base)
    middle = statistics.median(of_base)
    lucky = sum(each >= 1 for each in of_base)
    least, greatest = edges(of_base)
    return {**name, "ratio_to_base": rounded(middle), "least": least, "greatest": greatest,
            "regressed": middle < REGRESSION and lucky <= len(of_base) // TURNS_PER_LUCKY_TURN}


def is_below(told):
    """Whether the median of a comparison() is that of a regression, whatever the single turns are."""
    return told["ratio_to_base"] < REGRESSION

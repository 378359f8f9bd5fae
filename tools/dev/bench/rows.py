"""Makes the rows of a bench's JSON, and decides when a build is slower than another. It measures nothing."""

import statistics

# null: not measured here. A *_poll_* field is the time in sched_yield without work. The *_cpu_* field for the
# same process then excludes that time.
FIELDS = ("mode", "provider", "workload", "bs", "iodepth", "jobs", "devices", "iops", "bytes_per_s",
          "p50_us", "p99_us", "host_cpu_us_per_io", "host_poll_us_per_io", "dpu_cpu_us_per_io",
          "dpu_poll_us_per_io", "engine_cpu_us_per_io", "engine_poll_us_per_io",
          "device_empty_share", "ratio_to_raw")
PROCESSES = ("host", "dpu", "engine")
SIZES = {"4k": 4096, "64k": 65536, "1m": 1 << 20}
REGRESSION = 0.95  # of the base
# A single turn differs by up to a half between equal builds.
TURNS_PER_LUCKY_TURN = 9


def median(values):
    """Returns the median of the measured values, or None if there are none."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def rounded(value):
    """Rounds to four digits, the precision of a measurement."""
    return None if value is None else float(f"{value:.4g}")


def row(side, work, figures, raw, poll_shares, devices=1):
    """Returns a row of the JSON. `figures` and `raw`: one compare.Figure per turn. `poll_shares`: by process."""
    values = {"mode": side.mode, "provider": side.through or None, "workload": work.options["rw"],
              "bs": SIZES[work.options["bs"]], "iodepth": work.options["iodepth"],
              "jobs": work.options.get("numjobs", 1), "devices": devices}
    for name in ("iops", "bytes_per_s", "p50_us", "p99_us", "device_empty_share"):
        values[name] = rounded(median(getattr(figure, name) for figure in figures))
    for name in PROCESSES:
        spent = median(figure.cpu_us.get(name) for figure in figures)
        share = poll_shares.get(name)
        known = spent is not None and share is not None
        values[f"{name}_cpu_us_per_io"] = rounded(spent * (1 - share) if known else spent)
        values[f"{name}_poll_us_per_io"] = rounded(spent * share) if known else None
    values["ratio_to_raw"] = rounded(median(ratios(figures, raw))) if raw else None
    return {name: values[name] for name in FIELDS}


def ratios(figures, base):
    """Returns the ratios of the rates, turn by turn."""
    return [ours.bytes_per_s / other.bytes_per_s for ours, other in zip(figures, base)]


def spread(figures, raw):
    """Returns the least and the greatest value of the turns. Processor time contains polling, which is not measured
    in these turns."""
    values = {"iops": [figure.iops for figure in figures]}
    for name in PROCESSES:
        values[f"{name}_cpu_us_per_io"] = [figure.cpu_us[name] for figure in figures if name in figure.cpu_us]
    if raw:
        values["ratio_to_raw"] = ratios(figures, raw)
    return {name: [rounded(min(each)), rounded(max(each))] for name, each in values.items() if each}


def comparison(name, figures, base):
    """Compares the turns of a build with those of the base. It is a regression if the median is more than 5 %
    below the base, and at most one of nine turns reaches the base."""
    of_base = ratios(figures, base)
    middle = statistics.median(of_base)
    lucky = sum(each >= 1 for each in of_base)
    return {**name, "ratio_to_base": rounded(middle), "least": rounded(min(of_base)),
            "greatest": rounded(max(of_base)),
            "regressed": middle < REGRESSION and lucky <= len(of_base) // TURNS_PER_LUCKY_TURN}


def is_below(told):
    """Whether the median of a comparison() is that of a regression, whatever the single turns are."""
    return told["ratio_to_base"] < REGRESSION

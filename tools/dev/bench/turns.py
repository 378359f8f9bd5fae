"""Measures rows and sides in turn: rates, the processor time of each process, how often the disk was idle,
and how much of the processor time was polling."""

import dataclasses
import statistics

import compare
from bench import disk, samples

# One read, to measure the cost of fio and its library before the first request and after the last.
START = compare.Row("start", "one read", dict(rw="read", bs="4k", iodepth=1, number_ios=1))
SAMPLED_SECONDS = 1
REPEATED_FROM = 5  # turns; a bench with fewer should be quick


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of one row and side."""
    row: object
    side: object
    figures: list
    raw: list  # raw's of the same turns; of raw itself: None
    poll_shares: dict  # medians, by process; empty: not measured


class Turns:
    """Measures in turn. `place`: for its own files. `sampled`: perf may be used. `on`: a path on the disk that is
    measured, or its block device; None: there are several."""

    def __init__(self, place, options, sampled, on=""):
        self.place = place
        self.disk = place if on == "" else on
        self.options = options
        self.sampled = sampled
        self.size = f"{options.mib}m"
        self.shared = compare.time_based(self.size, options.seconds)
        self.start_us = {}  # of a side: by process

    def results(self, rows, sides, turns=None):
        """Yields the results of each row: a list with one for each side. `turns`: instead of the options'."""
        for side in sides:
            self.start_us[side.name] = compare.measure(START, side, dict(size=self.size)).cpu_us
        for row, figures in compare.in_turn(rows, sides, turns or self.options.turns, self.shared,
                                              self.measure):
            shares = self.polling(row, sides) if self.sampled else [{} for _ in sides]
            yield [Result(row, side, figures[number], None if number == 0 else figures[0], shares[number])
                   for number, side in enumerate(sides)]

    def measure(self, row, side, shared):
        with disk.Sampler(self.disk) as sampler:
            figure = compare.measure(row, side, shared)
        cpu_us = {name: max(0.0, spent - self.start_us[side.name][name] / figure.operations)
                  for name, spent in figure.cpu_us.items()}
        return dataclasses.replace(figure, cpu_us=cpu_us, device_empty_share=disk.empty_share(
            sampler.samples, self.options.seconds))

    def polling(self, row, sides):
        """Returns the shares of polling of each side, by process, from turns in alternation."""
        shares = [[] for _ in sides]
        for turn in range(3 if self.options.turns >= REPEATED_FROM else 1):
            for number in compare.order(turn, sides):
                shares[number].append(samples.poll_shares(self.sample(row, sides[number], SAMPLED_SECONDS)[1]))
        return [{name: statistics.median(share[name] for share in own if name in share) for name in set().union(*own)}
                for own in shares]

    def sample(self, row, side, seconds):
        """Runs a turn whose rate does not count. Returns its figure, and perf's samples by process."""
        file = self.place / "perf.data"
        figure = compare.measure(row, side, compare.time_based(self.size, seconds), samples.recorded(file))
        pids = {name: pid for name, pid in side.served.pids().items() if name in side.daemons} if side.served else {}
        return figure, samples.during(samples.by_process(samples.read(file), pids), seconds)

"""How often the disk had nothing to do: its count of requests in flight, sampled while fio runs."""

import os
import threading
import time
from pathlib import Path

PAUSE_SECONDS = 0.002
SAMPLES_LEAST = 50  # fewer say nothing


def inflight(place):
    """The count's file of the disk below `place`; None where the kernel names no disk for it."""
    number = os.stat(place).st_dev
    file = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/inflight")
    return file if file.exists() else None


class Sampler:
    """Samples on a thread of its own between `with` and its end."""

    def __init__(self, place):
        self.file = inflight(place)
        self.samples = []  # (seconds, requests)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.sample)

    def __enter__(self):
        if self.file:
            self.thread.start()
        return self

    def __exit__(self, *error):
        self.ended.set()
        if self.file:
            self.thread.join()

    def sample(self):
        with open(self.file, encoding="ascii") as file:
            while not self.ended.wait(PAUSE_SECONDS):
                file.seek(0)
                self.samples.append((time.monotonic(), sum(map(int, file.read().split()))))


def empty_share(samples, seconds):
    """The share of samples without a request in the `seconds` that end with the last request. What is before them is
    the start of fio. None: too few samples, or no request at all."""
    end = max((at for at, requests in samples if requests > 0), default=None)
    if end is None:
        return None
    during = [requests for at, requests in samples if end - seconds < at <= end]
    if len(during) < SAMPLES_LEAST:
        return None
    return sum(requests == 0 for requests in during) / len(during)

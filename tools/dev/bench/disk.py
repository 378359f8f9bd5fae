"""Measures how often the disk was idle: samples its count of requests in flight while fio runs."""

import os
import threading
import time
from pathlib import Path

PAUSE_SECONDS = 0.002
SAMPLES_LEAST = 50  # fewer say nothing


def inflight(place):
    """Returns the file with the count for the disk that holds `place`. None: the kernel names no disk for it."""
    number = os.stat(place).st_dev
    file = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/inflight")
    return file if file.exists() else None


class Sampler:
    """Samples on its own thread until the `with` block ends."""

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
    """Returns the share of samples without a request in the last `seconds` before the last request. Earlier
    samples belong to the start of fio. Returns None if there are too few samples or no requests."""
    end = max((at for at, requests in samples if requests > 0), default=None)
    if end is None:
        return None
    during = [requests for at, requests in samples if end - seconds < at <= end]
    if len(during) < SAMPLES_LEAST:
        return None
    return sum(requests == 0 for requests in during) / len(during)

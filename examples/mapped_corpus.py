"""mapped_corpus.py: a corpus of tokens in one file, which is mapped through a mount. A batch is windows of it.

    ros2store mount URI MOUNT_POINT && python3 mapped_corpus.py MOUNT_POINT
"""
import os
import random
import sys

import numpy

TOKENS, WINDOW, BATCH, BATCHES = 1 << 20, 256, 32, 100


def make(path):
    with open(path + ".new", "wb") as file:
        numpy.arange(TOKENS, dtype="<u4").tofile(file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)


def batches(path, seed):
    tokens = numpy.memmap(path, "<u4", "r")
    draw = random.Random(seed).randrange
    for _ in range(BATCHES):
        begins = [draw(len(tokens) - WINDOW + 1) for _ in range(BATCH)]
        yield numpy.stack([tokens[begin:begin + WINDOW] for begin in begins])


def main(directory):
    path = os.path.join(directory, "corpus.tokens")
    if not os.path.exists(path):
        make(path)
    count = 0
    for batch in batches(path, seed=1):
        assert (numpy.diff(batch) == 1).all()
        count += batch.size
    print(f"{count} tokens in {BATCHES} batches")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: mapped_corpus.py MOUNT_POINT")
    try:
        main(sys.argv[1])
    except OSError as error:
        sys.exit(f"mapped_corpus.py: {error}")

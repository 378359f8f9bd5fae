"""corpus.py: a corpus of tokens in many files. A batch is read by one request into one array.

    PYTHONPATH=build/release/python python3 corpus.py URI
"""
import random
import sys

import numpy

import ros2store

DOCUMENTS, TOKENS, BATCH = 256, 1024, 32


def make(fs):
    fs.mkdir("corpus")
    tokens = numpy.arange(DOCUMENTS * TOKENS, dtype="<u4").reshape(DOCUMENTS, TOKENS)
    errors = fs.write_many([(f"{i:05}.tokens", tokens[i]) for i in range(DOCUMENTS)], "corpus")
    assert not any(errors), errors


def batches(fs, seed):
    entries = sorted(fs.scandir("corpus"))
    random.Random(seed).shuffle(entries)
    batch = numpy.empty((BATCH, TOKENS), "<u4")
    for begin in range(0, len(entries) - BATCH + 1, BATCH):
        names, attributes = zip(*entries[begin:begin + BATCH])
        fs.read_many(names, "corpus", sizes=[each.st_size for each in attributes], into=batch)
        yield batch


def main(uri):
    with ros2store.open(uri) as fs:
        if not fs.exists("corpus"):
            make(fs)
        total = count = 0
        for batch in batches(fs, seed=1):
            total += int(batch.sum(dtype="u8"))
            count += batch.size
        assert total == count * (count - 1) // 2
        print(f"{count} tokens in batches of {BATCH} documents")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: corpus.py URI")
    try:
        main(sys.argv[1])
    except OSError as error:
        sys.exit(f"corpus.py: {error}")

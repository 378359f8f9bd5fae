"""samples.py: what a data loader does: writes many small samples in one call, and reads them in another.

    PYTHONPATH=build/release/python python3 samples.py URI
"""
import sys

import ros2store


def main(uri):
    with ros2store.open(uri) as fs:
        if not fs.exists("samples"):
            fs.mkdir("samples")
        names = [f"{i:05}.bin" for i in range(200)]
        errors = fs.write_many({name: i.to_bytes(4, "little") * 64 for i, name in enumerate(names)}, "samples")
        assert not any(errors), errors
        batch = fs.read_many(names, "samples")
        assert [int.from_bytes(sample[:4], "little") for sample in batch] == list(range(200))
        print(f"{len(batch)} samples, {sum(map(len, batch))} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: samples.py URI")
    try:
        main(sys.argv[1])
    except OSError as error:
        sys.exit(f"samples.py: {error.strerror}")

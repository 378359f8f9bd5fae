"""samples.py: what a data loader does: writes many small samples, and reads them in one call.

    PYTHONPATH=build/release/python python3 samples.py URI
"""
import sys

import ros2store


def main(uri):
    with ros2store.open(uri) as fs:
        if not fs.exists("samples"):
            fs.mkdir("samples")
        names = [f"{i:05}.bin" for i in range(200)]
        for i, name in enumerate(names):
            with fs.open("samples/" + name, "w") as file:
                file.pwrite(i.to_bytes(4, "little") * 64, 0)
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

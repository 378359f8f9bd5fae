"""images.py: trains on the images of a directory. A batch is one request, decoded by a function; the order is another
one in each epoch, and a job that was stopped goes on behind the last batch.

    PYTHONPATH=build/release/python python3 images.py URI [WORKERS]
"""
import os
import sys

import torch

import ros2store
from ros2store.torch import Files, Loader, Stream

SIDE, CLASSES, IMAGES = 16, 4, 200


def decode(path, data):
    """An image and its class, which is the directory."""
    pixels = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    return pixels.reshape(3, SIDE, SIDE).float() / 255, int(path.split("/")[0])


def make(fs):
    for label in range(CLASSES):
        fs.makedirs(f"images/{label}")
        errors = fs.write_many([(f"{i}.raw", os.urandom(3 * SIDE * SIDE)) for i in range(IMAGES // CLASSES)],
                               f"images/{label}")
        assert not any(errors), errors


def main(uri, workers=0):
    with ros2store.open(uri) as fs:
        if not fs.exists("images"):
            make(fs)
        loader = Loader(Stream(Files(fs, "images", decode), batch=16, seed=1), num_workers=int(workers))
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * SIDE * SIDE, CLASSES))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        seen = 0
        for epoch in range(2):
            for images, labels in loader:
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                seen += len(images)
        print(f"{seen} images in {epoch + 1} epochs; the next is {loader.state_dict()['epoch']}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: images.py URI [WORKERS]")
    try:
        main(*sys.argv[1:])
    except OSError as error:
        sys.exit(f"images.py: {error}")

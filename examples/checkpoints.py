"""checkpoints.py: saves the state of a training while it goes on, and continues with the last checkpoint that is whole.

    PYTHONPATH=build/release/python python3 checkpoints.py URI
"""
import sys

import torch

import ros2store
from ros2store.checkpoint import Checkpoints


def train(fs, steps):
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.Adam(model.parameters())
    checkpoints = Checkpoints(fs, "checkpoints", keep=2)
    first = 0
    if checkpoints.latest() is not None:
        state = checkpoints.load()
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    for step in range(first, first + steps):
        loss = model(torch.ones(64)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            # Returns when the tensors are copied. An error of the save before is raised here.
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            checkpoints.save_async(step, state)
    checkpoints.wait()
    return first, checkpoints.list()


def main(uri):
    with ros2store.open(uri) as fs:
        for _ in range(2):
            first, names = train(fs, 10)
            print(f"trained from step {first}; checkpoints {', '.join(names)}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: checkpoints.py URI")
    try:
        main(sys.argv[1])
    except OSError as error:
        sys.exit(f"checkpoints.py: {error}")

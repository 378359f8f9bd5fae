"""Tests that children end in each manner in which Python starts and ends them, and that none loses a write.
ROS2STORE_TEST_TURNS: how many children there are of each; those that start an interpreter are so many in all."""
import os
import pathlib
import subprocess
import sys
import unittest

import forking
from on_pool import OnPool

CHILDREN = int(os.environ.get("ROS2STORE_TEST_TURNS", 8))
IN_ALL = "spawn", "forkserver"
STATES = "open", "closed"
SCHEMES = 3


class Embedded(OnPool):
    def test_children_end_and_lose_no_write(self):
        for manner in forking.MANNERS:
            children = -(-CHILDREN // (SCHEMES * len(STATES))) if manner in IN_ALL else CHILDREN
            for state in STATES:
                with self.subTest(manner=manner, state=state):
                    done = subprocess.run([sys.executable, pathlib.Path(forking.__file__), self.uri, manner, state, str(children)],
                                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
                    self.assertEqual((done.stdout, done.stderr), ("right\n", ""))


class Direct(Embedded):
    scheme, further = "ros2s", "&provider=shm"


class Offload(Embedded):
    scheme = "ros2s+dpu"


if __name__ == "__main__":
    unittest.main()

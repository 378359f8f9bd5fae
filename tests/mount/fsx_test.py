#!/usr/bin/env python3
"""usage: fsx_test.py BUILD_DIRECTORY [SECONDS [SEED]]

Changes a file in turn through mounts of two DPU daemons and one mount of the engine, for SECONDS (default
20). Meanwhile the engine, with four reactors and two devices, and the DPU daemons are killed and started
again. The range of each operation is read through another mount. After every 100 operations and at the end
the whole file is read through all. The seed selects the operations; the times of the kills vary. The last
line is "N passed, N failed". Exit status 77 where this machine cannot mount.
"""
import os
import random
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import mounted_pool  # noqa: E402
import runner  # noqa: E402
from modelled_file import ModelledFile  # noqa: E402
from shared_pool import SharedPool  # noqa: E402

test = runner.Tests()
seconds, seed = 20.0, random.SystemRandom().randrange(1 << 32)


class Killer(threading.Thread):
    """Kills a daemon, starts it again, pauses, and repeats."""

    def __init__(self, pool):
        super().__init__()
        self.pool, self.kills, self.ends, self.failure = pool, 0, threading.Event(), None

    def run(self):
        try:
            while not self.ends.wait(random.random()):
                self.pool.kill(self.kills)
                self.kills += 1
        except Exception as error:  # noqa: BLE001: any failure is a finding
            self.failure = repr(error)


@test
def mounts_of_two_dpus_agree_with_a_model_under_kills():
    print(f"seed {seed}", flush=True)
    with SharedPool() as pool:
        pool.start()
        file = ModelledFile([pool.mounts[0], pool.mounts[2], pool.mounts[4]], "f", seed)
        killer = Killer(pool)
        killer.start()
        try:
            end = time.monotonic() + seconds
            while time.monotonic() < end or killer.kills < 3:
                file.change()
                if file.turn % 100 == 0:
                    file.compare_all()
        finally:
            killer.ends.set()
            killer.join()
        assert killer.failure is None, killer.failure
        file.compare_all()
        file.unlink()
        for _ in range(50):
            file.change()
        file.compare_all()
        file.close()
        print(f"{file.turn} operations, {killer.kills} kills", flush=True)


def main():
    global seconds, seed
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if len(sys.argv) > 2:
        seconds = float(sys.argv[2])
    if len(sys.argv) > 3:
        seed = int(sys.argv[3])
    return test.run([]) if mounted_pool.use(sys.argv[1]) else 77


if __name__ == "__main__":
    sys.exit(main())

"""The kill test as a test: one pool, a few kills of each, with the demo's own code.

usage: kill_test.py BIN_DIRECTORY DEV_DIRECTORY"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BIN = Path(sys.argv[1])
sys.path.insert(0, sys.argv[2])
import kill  # noqa: E402  (tools/dev/kill.py)

ROUNDS = 3
CONTROL_ROUNDS = 10  # at most: it ends with the first that loses something
LEAST = 500


def main():
    scratch = Path(tempfile.mkdtemp(prefix="ros2store-kill-"))
    pool = scratch / "pool"
    try:
        subprocess.run([BIN / "ros2store", "up", "--no-daemons", pool, "--size", "512M"], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        uri = f"ros2s+local:///pool/main/{{}}?dir={pool}"
        for name in ("killed", "control"):
            subprocess.run([BIN / "ros2store", "mkdir", uri.format(name)], check=True,
                           stdin=subprocess.DEVNULL)
        intact = [kept for _, kept in
                  kill.rounds(BIN / "kill_writer", uri.format("killed"), ROUNDS, LEAST)]
        caught = any(not kept for _, kept in
                     kill.rounds(BIN / "kill_writer_control", uri.format("control"), CONTROL_ROUNDS, LEAST))
    finally:
        shutil.rmtree(scratch)
    print(f"intact after each kill: {intact}; control caught: {caught}")
    return 0 if all(intact) and caught else 1


sys.exit(main())

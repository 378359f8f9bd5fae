"""Starts the Ceph cluster of a bench: one monitor and one OSD (bluestore) on loopback, which are removed afterwards.
Needs what tools/packages-rados.txt lists."""

import contextlib
import subprocess
import sys
from pathlib import Path

import shown

METADATA, DATA = "main", "data"  # pools that tests/rados/cluster.py makes


@contextlib.contextmanager
def running():
    """A cluster that ends with the block. Raises Failed if it cannot be started."""
    sys.path.insert(0, str(Path(__file__).absolute().parents[3] / "tests/rados"))
    import cluster  # pylint: disable=import-outside-toplevel
    missing = cluster.missing()
    if missing:
        raise shown.Failed(f"there is no {', '.join(missing)} here: install what tools/packages-rados.txt lists")
    with contextlib.ExitStack() as stack:
        try:
            started = stack.enter_context(cluster.running("bluestore"))
        except (SystemExit, subprocess.TimeoutExpired) as failure:
            raise shown.Failed(f"no Ceph cluster could be started: {failure}") from failure
        yield started

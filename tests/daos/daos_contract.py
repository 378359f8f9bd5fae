#!/usr/bin/env python3
"""usage: daos_contract.py BUILD_DIRECTORY ours|daos|LIBRARY PROGRAM ARGUMENT…

Runs a program with a pool of DAOS for it. ours: the library of plugins/daos, on an embedded pool. daos: DAOS's own
libraries (`libdfs.so`, as the loader finds it) and the pool whose label is in ROS2STORE_TEST_DAOS_POOL, if an agent
answers; otherwise says so and exits with 77. LIBRARY: as ours, with another `libdfs.so`.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOCKET = "daos_agent.sock"
SKIPPED = 77


def run(program, **settings):
    return subprocess.run(program, env={**os.environ, **settings}, timeout=880, check=False).returncode


def on_ours(build, program, library):
    with tempfile.TemporaryDirectory(prefix="ros2store-daos.") as top:
        directory = f"{top}/pool"
        done = subprocess.run([build / "bin/ros2store", "up", "--no-daemons", directory, "--size", "1GiB"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        return run(program, ROS2STORE_TEST_LIBDFS=str(library),
                   ROS2STORE_TEST_DAOS_POOL="tank", ROS2STORE_DAOS=f"ros2s+local:///pool?dir={directory}")


def answers():
    """Tells whether a DAOS can be used here, and prints what is missing."""
    agent = Path(os.environ.get("DAOS_AGENT_DRPC_DIR", "/var/run/daos_agent")) / SOCKET
    if os.environ.get("ROS2STORE_TEST_DAOS_POOL") and agent.exists():
        return True
    print(f"skipped: no DAOS here ({agent} and a pool's label in ROS2STORE_TEST_DAOS_POOL are needed; docs/daos.md)")
    return False


def on_daos(program):
    if not answers():
        return SKIPPED
    return run(program, ROS2STORE_TEST_LIBDFS="libdfs.so", ROS2STORE_TEST_REAL_DAOS="yes")


def main():
    build, which, *program = sys.argv[1:]
    if which == "daos":
        return on_daos(program)
    return on_ours(Path(build), program, Path(build) / "lib/ros2store/daos/libdfs.so" if which == "ours" else which)


if __name__ == "__main__":
    sys.exit(main())

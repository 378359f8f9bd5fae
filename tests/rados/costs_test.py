"""Runs the part of `./dev bench costs` that measures a Ceph cluster, for so short a time that its figures mean nothing, and
plans with what it found. Exits with 77 if Ceph's daemons are not installed.

usage: costs_test.py BUILD_DIRECTORY DEV_DIRECTORY"""

import json
import shutil
import subprocess
import sys
import tempfile
import types
from pathlib import Path

BUILD = Path(sys.argv[1]).resolve()
sys.path.insert(0, sys.argv[2])
import cluster  # noqa: E402
from bench import ceph, costs, pools  # noqa: E402  (tools/dev)

OPTIONS = types.SimpleNamespace(turns=1, seconds=1, mib=32)
FILES = ("host_us", "server_us", "network_bytes", "device_operations", "device_bytes")


def measured(place):
    ours = pools.Pools("this", BUILD, place, OPTIONS.mib)
    found = costs.Found({})
    try:
        missing = ceph.costs(ours, OPTIONS, costs.WORKS, found)
    finally:
        ours.down()
    assert missing == "", missing
    return found.requests


def check(requests):
    for mode in ("direct", "offload"):
        for work in costs.WORKS.values():
            one = requests[f"{mode}/rados/tcp/{work}"]
            assert all(one[name] >= 0 for name in FILES) and one["source"] == "measured", one
            assert one["server_us"] > 0 and one["network_bytes"] > 0 and ("dpu_us" in one) == (mode == "offload"), one
    for name, one in requests.items():  # a busy machine can hide a create or a stat
        assert name.endswith("stat") or name.endswith("create") or name.rsplit("/", 1)[1] in costs.WORKS.values(), name
        assert ("device_bytes" in one) == (name.rsplit("/", 1)[1] in costs.WORKS.values()), one


def plan(place, requests):
    file = place / "costs.json"
    file.write_text(json.dumps({"version": costs.VERSION, "requests": requests}), encoding="utf-8")
    done = subprocess.run([BUILD / "bin/ros2store", "--json", "plan", "--gpus", "8", "--rate", "100", "--sample", "150kB",
                           "--backend", "rados", "--costs", file], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          timeout=60, check=True)
    assert json.loads(done.stdout)["osds"] > 0, done.stdout


def main():
    if cluster.missing():
        print(f"skipped: no {', '.join(cluster.missing())}; install what tools/packages-rados.txt lists")
        return 77
    place = Path(tempfile.mkdtemp(prefix="costs.", dir=BUILD))
    try:
        requests = measured(place)
        print(json.dumps(requests, indent=1))
        check(requests)
        plan(place, requests)
    finally:
        shutil.rmtree(place)
    return 0


sys.exit(main())

"""Measures what one request costs with a Ceph cluster behind a DPU: one monitor and one OSD (bluestore) on loopback,
which are started for it and removed afterwards. No process polls, so nothing has to be told apart. Needs what
tools/packages-rados.txt lists."""

import json
import os
import resource
import shutil
import socket
import statistics
import sys
from pathlib import Path

import compare
import served
import shown
from bench import rows

PROVIDER = "tcp"  # between the DPU and the OSDs
POOL = "ceph"  # of the DPU; tests/rados/cluster.py makes the cluster's pools `main` and `data`
START = dict(rw="read", bs="4k", iodepth=1, number_ios=1)
SECTOR_BYTES = 512  # of /sys/dev/block/*/stat, whatever the disk has


def cluster_module():
    """Returns tests/rados/cluster.py, or None if there are no programs of Ceph."""
    sys.path.insert(0, str(Path("tests/rados").absolute()))
    import cluster  # pylint: disable=import-outside-toplevel
    return cluster if all(shutil.which(name) for name in cluster.NEEDED) else None


class Behind:
    """A DPU with a pool in the cluster. Its engine is not used."""

    def __init__(self, ours, cluster, mib):
        self.cluster = cluster
        self.pool = ours.with_daemons(("shm",))
        self.pool.down()
        settings = self.pool.directory / "dpu.yaml"
        text = settings.read_text(encoding="utf-8")
        text = text.replace('pools: "pool"\n', "pools:\n  pool: engine\n  " + POOL + ": {rados: {conf: " + str(cluster.conf) +
                            ", metadata: main, data: data}}\n")
        settings.write_text(f'{text}\naccess: {{"CN=client": {{write: {POOL}/*}}}}\nservice: {{poll: 0s}}\n',
                            encoding="utf-8")
        self.pool.up()
        uri = f"ros2s+dpu:///{POOL}/main?dir={self.pool.directory}"
        shown.run(ours.program, "container", "create",
                  f"ros2s+local:///{POOL}/main?rados={cluster.conf}&metadata=main&data=data", quiet=True)
        self.side = compare.pool_side("ceph", ours.built, uri, "figures")
        self.size = f"{mib}m"
        compare.fill(self.side, self.size)
        self.dpu = self.pool.pids()["dpu"]
        self.osd = cluster.daemons["osd", "0"].pid

    def spent(self):
        """Returns what has been used until now, by the names of costs. The disk is the cluster's, and nobody else
        should use it."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        counters = perf_dump(self.cluster.folder / "osd.0.asok")
        operations, transferred = of_disk(self.cluster.folder)
        return {"host_us": 1e6 * (children.ru_utime + children.ru_stime),
                "dpu_us": 1e6 * served.cpu_seconds(self.dpu), "server_us": 1e6 * served.cpu_seconds(self.osd),
                "network_bytes": sum(worker["msgr_recv_bytes"] + worker["msgr_send_bytes"]
                                     for name, worker in counters.items() if name.startswith("AsyncMessenger::Worker")),
                "device_operations": operations, "device_bytes": transferred}

    def run(self, options):
        """Runs fio once. Returns how many requests it made, and what was spent."""
        before = self.spent()
        text = shown.run("fio", "--name=figure", "--output-format=json", *self.side.target, "--thread",
                         *(f"--{key}={value}" for key, value in options.items()), quiet=True,
                         environment=os.environ | {"ROS2STORE_POLL": "0"})
        after = self.spent()
        job = json.loads(text[text.find("{"):])["jobs"][0]
        moved = job["write" if "write" in options["rw"] else "read"]
        return moved["total_ios"], {name: after[name] - before[name] for name in before}

    def request(self, row, options):
        """Returns the costs of one request, and the least and greatest processor times of the turns."""
        turns = []
        for _ in range(options.turns):
            few, start = self.run(dict(size=self.size) | START)
            many, whole = self.run(compare.time_based(self.size, options.seconds) | row.options)
            turns.append({name: max(0, whole[name] - start[name]) / max(1, many - few) for name in whole})
        made = {name: rows.rounded(statistics.median(turn[name] for turn in turns)) for name in turns[0]}
        return ({"source": "measured"} | made,
                {name: [rows.rounded(edge(turn[name] for turn in turns)) for edge in (min, max)]
                 for name in ("host_us", "dpu_us", "server_us")})


def perf_dump(path):
    """Returns the counters of a daemon of Ceph, from its admin socket: a length of four bytes, and JSON."""
    with socket.socket(socket.AF_UNIX) as admin, admin.makefile("rb") as answer:
        admin.connect(str(path))
        admin.sendall(b'{"prefix": "perf dump"}\0')
        return json.loads(answer.read(int.from_bytes(answer.read(4), "big")))


def of_disk(folder):
    """Returns the operations of the disk that holds a folder, and their bytes, since the machine was started."""
    number = os.stat(folder).st_dev
    fields = [int(word) for word in
              Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat").read_text(encoding="ascii").split()]
    return fields[0] + fields[4], SECTOR_BYTES * (fields[2] + fields[6])


def measure(ours, options, works, requests, spreads):
    """Adds the costs of these rows, by their works. Returns why there are none, or an empty text."""
    ceph = cluster_module()
    if ceph is None:
        return "no programs of Ceph are here: install what tools/packages-rados.txt lists"
    with ceph.running("bluestore") as cluster:
        behind = Behind(ours, cluster, options.mib)
        for row in compare.ROWS:
            if row.key in works:
                name = f"offload/rados/{PROVIDER}/{works[row.key]}"
                requests[name], spreads[name] = behind.request(row, options)
    return ""

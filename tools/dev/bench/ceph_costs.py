"""Measures what one request costs with a Ceph cluster (bench/ceph.py) behind a DPU, and behind a host that uses librados
itself. No process polls, so nothing has to be told apart."""

import json
import os
import resource
import socket
import subprocess
from pathlib import Path

import compare
import served
import shown
from bench import ceph, names, request_costs

PROVIDER = "tcp"  # between the client and the OSD
POOL = "ceph"  # the name of the pool at the DPU
QUIET = "ROS2STORE_POLL"  # a host with 0 does not poll
START = dict(rw="read", bs="4k", iodepth=1, number_ios=1)
OF_NAMES = ("host_us", "dpu_us", "server_us", "network_bytes")
COMPLETED = (0, 4)  # reads and writes in /sys/dev/block/*/stat


class Client:
    """A client of the cluster. `uri_of`: of a path in its container. `dpu`: the process of its DPU; None: it has none."""

    def __init__(self, cluster, built, uri_of, dpu=None):
        self.cluster, self.built, self.dpu = cluster, built, dpu
        self.mode = "offload" if dpu else "direct"
        self.osd = cluster.daemons["osd", "0"].pid
        self.side = compare.pool_side(self.mode, built, uri_of(""), "figures")
        self.directories = names.Directories(self.mode, PROVIDER, uri_of)

    def spent(self):
        """Returns what has been used until now, by the names of costs. Operations are those of the disk, also of others."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        counters = perf_dump(self.cluster.folder / "osd.0.asok")
        return {"host_us": 1e6 * (children.ru_utime + children.ru_stime),
                **({"dpu_us": 1e6 * served.cpu_seconds(self.dpu)} if self.dpu else {}),
                "server_us": 1e6 * served.cpu_seconds(self.osd),
                "network_bytes": sum(worker["msgr_recv_bytes"] + worker["msgr_send_bytes"]
                                     for name, worker in counters.items() if name.startswith("AsyncMessenger::Worker")),
                "device_operations": disk_operations(self.cluster.folder), "device_bytes": device_bytes(self.osd)}

    def metered(self, run):
        """Returns the result of `run`, and what was spent."""
        before = self.spent()
        done = run()
        after = self.spent()
        return done, {name: after[name] - before[name] for name in before}

    def fio(self, options):
        """Runs fio once. Returns how many requests it made."""
        text = shown.run("fio", "--name=figure", "--output-format=json", *self.side.target, "--thread",
                         *(f"--{key}={value}" for key, value in options.items()), quiet=True,
                         environment=os.environ | {QUIET: "0"})
        job = json.loads(text[text.find("{"):])["jobs"][0]
        return job["write" if "write" in options["rw"] else "read"]["total_ios"]

    def of_files(self, row, options):
        """Returns the costs of a request in each turn."""
        size = f"{options.mib}m"
        for _ in range(options.turns):
            turn = request_costs.difference(
                self.metered(lambda: self.fio(dict(size=size) | START)),
                self.metered(lambda: self.fio(compare.time_based(size, options.seconds) | row.options)))
            yield {name: max(0, cost) for name, cost in turn.items()}

    def of_names(self, seconds, what):
        where = self.directories.new(self.built)
        text, spent = self.metered(lambda: self.directories.run(
            self.built, request_costs.NAME_THREADS, seconds, what, prefix=("env", f"{QUIET}=0"), where=where))
        return request_costs.counts(text), {name: spent[name] for name in OF_NAMES if name in spent}


def clients(ours, cluster):
    """Makes a container in the cluster. Returns its clients, and the pool directory of the DPU."""
    of_cluster = f"rados={cluster.conf}&metadata={ceph.METADATA}&data={ceph.DATA}"

    def direct(path):
        return f"ros2s+local:///{POOL}/main{'/' if path else ''}{path}?{of_cluster}"

    shown.run(ours.program, "container", "create", direct(""), quiet=True)
    pool = ours.with_daemons(("shm",), POOL)
    pool.serve(POOL, f"{{rados: {{conf: {cluster.conf}, metadata: {ceph.METADATA}, data: {ceph.DATA}}}}}",
               f'access: {{"CN=client": {{write: {POOL}/*}}}}\nservice: {{poll: 0s}}\n')
    return (Client(cluster, ours.built, direct),
            Client(cluster, ours.built, lambda path: f"ros2s+dpu:///{POOL}/main{'/' if path else ''}{path}?dir={pool.directory}",
                   pool.pids()["dpu"])), pool


def perf_dump(path):
    """Returns the counters of a daemon of Ceph, from its admin socket: a length of four bytes, and JSON."""
    with socket.socket(socket.AF_UNIX) as admin, admin.makefile("rb") as answer:
        admin.connect(str(path))
        admin.sendall(b'{"prefix": "perf dump"}\0')
        return json.loads(answer.read(int.from_bytes(answer.read(4), "big")))


def disk_operations(folder):
    """Returns the operations of the disk that holds a folder, since the machine was started."""
    number = os.stat(folder).st_dev
    fields = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat").read_text(encoding="ascii").split()
    return sum(int(fields[at]) for at in COMPLETED)


def device_bytes(pid):
    """Returns the bytes that a process has read from disks and written to them."""
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines())
    return int(fields["read_bytes"]) + int(fields["write_bytes"])


def measure(ours, options, works, requests, spreads):
    """Adds the costs of these rows, by their works, and of names. Returns why some are missing, or an empty text."""
    def put(client, work, turns):
        name = f"{client.mode}/rados/{PROVIDER}/{work}"
        requests[name], spreads[name] = request_costs.of_turns(turns)

    try:
        with ceph.running() as cluster:
            both, pool = clients(ours, cluster)
            compare.fill(both[0].side, f"{options.mib}m")
            for client in both:
                for row in compare.ROWS:
                    if row.key in works:
                        put(client, works[row.key], list(client.of_files(row, options)))
                for name, turns in request_costs.of_names(client.of_names, options):
                    put(client, name, turns)
            pool.down()
    except (shown.Failed, OSError, subprocess.SubprocessError) as failure:
        return str(failure)
    return ""

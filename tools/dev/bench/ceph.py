"""Measures a Ceph cluster of one monitor and one OSD (bluestore) on loopback, which is started for the bench and removed
afterwards. `scale` compares DFS on RadosStore with fio's own rados engine. `costs` finds what one request costs, behind a
DPU and behind a host that uses librados itself; there no process polls, so nothing has to be told apart.
Needs what tools/packages-rados.txt lists."""

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import build
import served
import shown
import sides
from bench import files, names, pools, report, rows

METADATA, DATA = "main", "data"  # pools that tests/rados/cluster.py makes
PROVIDER = "tcp"  # between the client and the OSD
POOL = "ceph"  # the name of the pool at the DPU
QUIET = {"ROS2STORE_POLL": "0"}  # a host does not poll
OF_NAMES = ("host_us", "dpu_us", "server_us", "network_bytes")
COMPLETED = (0, 4)  # reads and writes in /sys/dev/block/*/stat
SCALE_ROWS = ("write-1m", "read-1m", "randread-1", "randread-32", "randwrite-1", "randwrite-32")


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


def direct(ours, cluster, name="direct"):
    """Makes a container in the cluster. Returns its side, without a DPU."""
    uri = f"ros2s+local:///{POOL}/main?rados={cluster.conf}&metadata={METADATA}&data={DATA}"
    shown.run(ours.program, "container", "create", uri, quiet=True)
    return threaded(name, ours.built, uri)


def threaded(name, built, uri):
    side = sides.pool_side(name, built, uri, "figures")
    return dataclasses.replace(side, target=[*side.target, "--thread"])


def scale(options, place, document, tally):
    ours = pools.Pools("this", build.folder("release").absolute(), place, options.mib)
    size, shared = f"{options.mib}m", sides.time_based(f"{options.mib}m", options.seconds)
    told = report.Rows(document, tally)
    with running() as cluster:
        os.environ["CEPH_CONF"] = str(cluster.conf)
        rados = sides.Side("rados", ["--ioengine=rados", "--clientname=admin", f"--pool={DATA}", f"--conf={cluster.conf}",
                                     "--filename=figures"])
        both = [rados, direct(ours, cluster, "dfs")]
        for side in both:
            sides.fill(side, size)
        for row in map(sides.row_of, SCALE_ROWS):
            made = told.add(row, both, sides.in_turn(both, options.turns, lambda side, row=row: fio(row, side, shared)))
            for one, side in zip(made, both):
                one["mode"] = side.name
        directories = names.Directories("dfs", None, names.container(both[1]))
        for threads in names.THREADS:
            names.add(told, [directories], threads, [[names.parse(directories.run(ours.built, threads, options.seconds))
                                                      for _ in range(options.turns)]])
    return told.lines()


def fio(row, side, shared, environment=None):
    """Runs fio once, without the checks of a path with daemons of ours."""
    text = shown.run(*sides.fio_command(row, side, shared, False), quiet=True, environment=os.environ | (environment or {}))
    return sides.figure_of(text, row)


class Client:
    """A client of the cluster. `dpu`: the process of its DPU; None: it has none."""

    def __init__(self, cluster, built, side, dpu=None):
        self.cluster, self.side, self.dpu = cluster, side, dpu
        self.osd = cluster.daemons["osd", "0"].pid
        self.mode = "offload" if dpu else "direct"
        self.names = names.Metered(built, side, lambda: {
            name: spent for name, spent in self.spent().items() if name in OF_NAMES}, ("env", "ROS2STORE_POLL=0"))

    def spent(self):
        """Returns what has been used until now, by the names of costs. Operations are those of the disk, also of others."""
        counters = perf_dump(self.cluster.folder / "osd.0.asok")
        return {"host_us": 1e6 * sides.spent_seconds(),
                **({"dpu_us": 1e6 * served.cpu_seconds(self.dpu)} if self.dpu else {}),
                "server_us": 1e6 * served.cpu_seconds(self.osd),
                "network_bytes": sum(worker["msgr_recv_bytes"] + worker["msgr_send_bytes"]
                                     for name, worker in counters.items() if name.startswith("AsyncMessenger::Worker")),
                "device_operations": disk_operations(self.cluster.folder), "device_bytes": device_bytes(self.osd)}

    def metered(self, row, shared):
        """Returns how many requests a run of fio made, and what was spent."""
        before = self.spent()
        done = fio(row, self.side, shared, QUIET).operations
        after = self.spent()
        return done, {name: after[name] - before[name] for name in before}

    def of_files(self, row, options):
        """Returns the costs of a request in a turn."""
        turn = rows.difference(self.metered(files.START, dict(size=f"{options.mib}m")),
                               self.metered(row, sides.time_based(f"{options.mib}m", options.seconds)))
        return {name: max(0, cost) for name, cost in turn.items()}


def clients(ours, cluster):
    """Returns the client without a DPU and the one behind a DPU, and the pool of that DPU."""
    pool = ours.with_daemons(("shm",), POOL)
    direct_side = direct(ours, cluster)
    pool.serve(POOL, f"{{rados: {{conf: {cluster.conf}, metadata: {METADATA}, data: {DATA}}}}}",
               f'access: {{"CN=client": {{write: {POOL}/*}}}}\nservice: {{poll: 0s}}\n')
    behind = threaded("offload", ours.built, f"ros2s+dpu:///{POOL}/main?dir={pool.directory}")
    return (Client(cluster, ours.built, direct_side), Client(cluster, ours.built, behind, pool.pids()["dpu"])), pool


def costs(ours, options, works, found):
    """Adds the costs of these rows, by their works, and of names. Returns why some are missing, or an empty text."""
    try:
        with running() as cluster:
            both, pool = clients(ours, cluster)
            sides.fill(both[0].side, f"{options.mib}m")
            for client in both:
                prefix = f"{client.mode}/rados/{PROVIDER}"
                for key, work in works.items():
                    found.add(f"{prefix}/{work}", [client.of_files(sides.row_of(key), options) for _ in range(options.turns)])
                found.add_names(prefix, client.names, options)
            pool.down()
    except (shown.Failed, OSError, subprocess.SubprocessError) as failure:
        return str(failure)
    return ""


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

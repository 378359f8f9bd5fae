#!/usr/bin/env python3
"""Starts a Ceph cluster of one monitor and some OSDs on loopback, in a new directory, runs a program with the path of its
configuration in ROS2STORE_TEST_CEPH_CONF, and stops what it started.

usage: cluster.py [--store memstore|bluestore] [--osds N] [--fault FAULT]… PROGRAM ARGUMENT…

The faults come one after another, with four seconds between them, while the program runs:
  osd      an OSD is killed (SIGKILL), and started again a second later
  lost     an OSD is killed for good; its disk is gone
  monitor  the monitor is killed, and started again a second later
With more than one OSD each object has two copies. Exits with 77 if the daemons are not installed."""

import contextlib
import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

NEEDED = ("ceph-mon", "ceph-osd", "ceph", "ceph-authtool", "monmaptool", "rados")
POOLS = ("main", "data", "strangers")
# memstore counts its bytes without a lock and loses some. An empty store that counts less than nothing calls
# itself full, and refuses writes.
BALLAST_BYTES = 64 << 20
BETWEEN_FAULTS_SECONDS = 4
FAULT_LIMIT_SECONDS = 120
PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
LIBC = ctypes.CDLL(None)  # loaded here, because a forked child should not load it


def end_with_parent():
    """Makes this process end with the thread that made it, also if that is killed. Kept over exec."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


CONF = """[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{port}/0
mon initial members = a
public network = 127.0.0.0/8
cluster network = 127.0.0.0/8
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
keyring = {folder}/keyring
run dir = {folder}
pid file = {folder}/$name.pid
admin socket = {folder}/$name.asok
log file = {folder}/$name.log
crash dir = {folder}
log to stderr = false
mon cluster log file = {folder}/cluster.log
osd pool default size = {size}
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
mon allow pool size one = true
mon mgr mkfs grace = 31536000
mon warn on pool no redundancy = false
osd crush chooseleaf type = 0
mon data avail crit = 1
mon osd min down reporters = 1
mon osd full ratio = .99
mon osd nearfull ratio = .98
mon osd backfillfull ratio = .985
paxos propose interval = 0.05
paxos min wait = 0.01
[mon]
mon data = {folder}/mon.$id
mon memory autotune = false
rocksdb cache size = 16777216
[osd]
osd data = {folder}/osd.$id
osd objectstore = {store}
osd heartbeat grace = 4
osd memory target = 939524096
osd memory target autotune = false
bluestore cache autotune = false
bluestore cache size = 67108864
bluestore block create = true
bluestore block size = 4294967296
bluestore block db create = false
bluestore block wal create = false
memstore device bytes = 4294967296
[client]
admin socket =
log file =
"""


def free_port():
    """Returns a port that the kernel gives to nobody by itself, so that it stays free while a monitor is down."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    while True:
        port = random.randrange(first // 2, first)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def run(*command, **options):
    """Runs a command to its end; its output only if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
                          **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout}")
    return done.stdout


class Cluster:
    """A cluster, and its daemons as children of this process."""

    def __init__(self, folder):
        self.folder, self.conf = folder, folder / "ceph.conf"
        self.daemons = {}

    def begin(self, store, osds):
        folder = self.folder
        port = free_port()  # for the monitor
        fsid = uuid.uuid4()
        self.conf.write_text(CONF.format(fsid=fsid, port=port, folder=folder, store=store, size=min(osds, 2)))
        keyring = str(folder / "keyring")
        run("ceph-authtool", "-C", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        run("ceph-authtool", keyring, "--gen-key", "-n", "client.admin", "--cap", "mon", "allow *", "--cap", "osd", "allow *")
        run("monmaptool", "--create", "--fsid", str(fsid), "--addv", "a", f"[v2:127.0.0.1:{port}]", str(folder / "monmap"))
        run("ceph-mon", "-c", str(self.conf), "--mkfs", "-i", "a", "--monmap", str(folder / "monmap"), "--keyring", keyring)
        self.start("mon", "a")
        for number in range(osds):
            self.make_osd(str(number))
        for pool in POOLS:
            self.ceph("osd", "pool", "create", pool, "8")
        run("rados", "-c", str(self.conf), "-p", "strangers", "put", "theirs", "-",
            input="x" * (BALLAST_BYTES if store == "memstore" else 1))

    def make_osd(self, name):
        key = run("ceph-authtool", "--gen-print-key").strip()
        number = str(uuid.uuid4())
        self.ceph("osd", "new", number, "-i", "-", input=f'{{"cephx_secret": "{key}"}}')
        with (self.folder / "keyring").open("a") as out:
            out.write(f"[osd.{name}]\n\tkey = {key}\n")
        (self.folder / f"osd.{name}").mkdir()
        run("ceph-osd", "-c", str(self.conf), "-i", name, "--mkfs", "--monmap", str(self.folder / "monmap"), "--key", key,
            "--osd-uuid", number)
        self.start("osd", name)

    def ceph(self, *arguments, **options):
        return run("ceph", "-c", str(self.conf), "--connect-timeout", "20", *arguments, **options)

    def start(self, kind, name):
        self.daemons[kind, name] = subprocess.Popen([f"ceph-{kind}", "-f", "-c", str(self.conf), "-i", name],
                                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                                      preexec_fn=end_with_parent)  # pylint: disable=subprocess-popen-preexec-fn

    def kill(self, kind, name):
        self.daemons[kind, name].send_signal(signal.SIGKILL)
        self.daemons[kind, name].wait()

    def inflict(self, fault):
        print(f"fault: {fault}", flush=True)
        kind, name = ("mon", "a") if fault == "monitor" else ("osd", "0")
        self.kill(kind, name)
        if fault == "lost":
            shutil.rmtree(self.folder / f"osd.{name}")
            return
        time.sleep(1)
        self.start(kind, name)

    def stop(self):
        for (kind, name), daemon in reversed(self.daemons.items()):
            if daemon.poll() not in (None, -signal.SIGKILL):
                print(f"ceph-{kind} {name} had ended with status {daemon.returncode}:")
                self.show_log(kind, name)
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


    def show_log(self, kind, name):
        log = self.folder / f"{kind}.{name}.log"
        print(f"the end of {log.name}:", *log.read_text(errors="replace").splitlines()[-20:], sep="\n  ", flush=True)

    def show(self):
        print(f"the cluster: {self.ceph('health', 'detail')}", flush=True)
        for kind, name in self.daemons:
            self.show_log(kind, name)


def missing():
    """Returns which programs are not installed."""
    return [name for name in NEEDED if shutil.which(name) is None]


@contextlib.contextmanager
def running(store="memstore", osds=1):
    """A cluster that ends with the block. Ends the program with 77 if the daemons are not installed."""
    if missing():
        print(f"skipped: no {', '.join(missing())}; install what tools/packages-rados.txt lists")
        sys.exit(77)
    # Paths of its sockets are limited to 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="ros2s-rados-"))
    cluster = Cluster(folder)
    began = time.monotonic()
    try:
        cluster.begin(store, osds)
        print(f"a cluster on {store} runs after {time.monotonic() - began:.1f} s", flush=True)
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    arguments = sys.argv[1:]
    store, osds, faults = "memstore", 1, []
    while arguments and arguments[0].startswith("--"):
        option = arguments.pop(0)
        if option == "--store":
            store = arguments.pop(0)
        elif option == "--osds":
            osds = int(arguments.pop(0))
        elif option == "--fault":
            faults.append(arguments.pop(0))
    with running(store, osds) as cluster:
        if faults:
            # A busy cluster needs some time to notice that a daemon is gone.
            with cluster.conf.open("a") as out:
                out.write(f"rados osd op timeout = {FAULT_LIMIT_SECONDS}\n")
        environment = dict(os.environ, ROS2STORE_TEST_CEPH_CONF=str(cluster.conf))
        with subprocess.Popen(arguments, env=environment) as program:
            while program.poll() is None:
                time.sleep(BETWEEN_FAULTS_SECONDS if faults else 0.2)
                if faults and program.poll() is None:
                    cluster.inflict(faults.pop(0))
            if faults:
                print(f"the program ended before the faults {faults}")
                return 1
        if program.returncode != 0:
            cluster.show()
        return program.returncode


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Starts a Ceph cluster of one monitor and one OSD on loopback, in a new directory, runs a program with the path of its
configuration in ROS2STORE_TEST_CEPH_CONF, and stops what it started.

usage: cluster.py [--store memstore|bluestore] [--kill] PROGRAM ARGUMENT…

--kill: kills the OSD (SIGKILL) twice while the program runs, and starts it again. Exits with 77 if the daemons are not
installed."""

import os
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
KILLS = 2

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
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
mon allow pool size one = true
mon mgr mkfs grace = 31536000
mon warn on pool no redundancy = false
osd crush chooseleaf type = 0
mon data avail crit = 1
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


def run(*command, **options):
    """Runs a command to its end; its output only if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
                          **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout}")
    return done.stdout


class Cluster:
    """A cluster, and its daemons as children of this process."""

    def __init__(self, folder, store):
        self.folder, self.conf = folder, folder / "ceph.conf"
        self.daemons = {}
        with socket.socket() as probe:  # the monitor takes the port that was free just now
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        fsid = uuid.uuid4()
        self.conf.write_text(CONF.format(fsid=fsid, port=port, folder=folder, store=store))
        keyring = str(folder / "keyring")
        run("ceph-authtool", "-C", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        run("ceph-authtool", keyring, "--gen-key", "-n", "client.admin", "--cap", "mon", "allow *", "--cap", "osd", "allow *")
        run("monmaptool", "--create", "--fsid", str(fsid), "--addv", "a", f"[v2:127.0.0.1:{port}]", str(folder / "monmap"))
        run("ceph-mon", "-c", str(self.conf), "--mkfs", "-i", "a", "--monmap", str(folder / "monmap"), "--keyring", keyring)
        self.start("mon", "a")
        key = run("ceph-authtool", "--gen-print-key").strip()
        number = str(uuid.uuid4())
        self.ceph("osd", "new", number, "-i", "-", input=f'{{"cephx_secret": "{key}"}}')
        with (folder / "keyring").open("a") as out:
            out.write(f"[osd.0]\n\tkey = {key}\n")
        (folder / "osd.0").mkdir()
        run("ceph-osd", "-c", str(self.conf), "-i", "0", "--mkfs", "--monmap", str(folder / "monmap"), "--key", key,
            "--osd-uuid", number)
        self.start("osd", "0")
        for pool in POOLS:
            self.ceph("osd", "pool", "create", pool, "8")
        run("rados", "-c", str(self.conf), "-p", "strangers", "put", "theirs", "-", input="x")

    def ceph(self, *arguments, **options):
        return run("ceph", "-c", str(self.conf), "--connect-timeout", "20", *arguments, **options)

    def start(self, kind, name):
        self.daemons[kind] = subprocess.Popen([f"ceph-{kind}", "-f", "-c", str(self.conf), "-i", name],
                                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill_osd(self):
        """Kills the OSD and starts it again a second later."""
        self.daemons["osd"].send_signal(signal.SIGKILL)
        self.daemons["osd"].wait()
        time.sleep(1)
        self.start("osd", "0")

    def stop(self):
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def main():
    arguments = sys.argv[1:]
    store, kills = "memstore", 0
    while arguments and arguments[0].startswith("--"):
        option = arguments.pop(0)
        if option == "--store":
            store = arguments.pop(0)
        elif option == "--kill":
            kills = KILLS
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        print(f"skipped: no {', '.join(missing)}; install what tools/packages-rados.txt lists")
        return 77
    # Paths of its sockets are limited to 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="ros2s-rados-"))
    cluster = None
    began = time.monotonic()
    try:
        cluster = Cluster(folder, store)
        print(f"a cluster on {store} runs after {time.monotonic() - began:.1f} s", flush=True)
        environment = dict(os.environ, ROS2STORE_TEST_CEPH_CONF=str(cluster.conf))
        with subprocess.Popen(arguments, env=environment) as program:
            done = 0
            while program.poll() is None:
                time.sleep(4 if done < kills else 0.2)
                if done < kills and program.poll() is None:
                    cluster.kill_osd()
                    done += 1
            if done < kills:
                print(f"the program ended before the OSD was killed {kills} times")
                return 1
        return program.returncode
    finally:
        if cluster is not None:
            cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

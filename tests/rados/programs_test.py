"""Tests the programs on a pool in a Ceph cluster, which the test starts: the command line, the mount, fio, and what
they say if the cluster, the key ring or the pool cannot be used. Exits with 77 if Ceph's daemons are not installed.

usage: programs_test.py BUILD_DIRECTORY [unittest options]"""

import hashlib
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop(1)).resolve()
BIN = BUILD / "bin"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))
sys.argv.insert(1, str(BIN))
import cluster as ceph  # noqa: E402
from program import PROGRAM, Refusal, answer, run  # noqa: E402

LIMIT_SECONDS = 3  # rados_osd_op_timeout of the test's configuration
# A longer wait would mean that this did not limit it. The machine may be busy.
PATIENCE_SECONDS = 60


# Names one by one and in batches, bytes in the omap and in the data pool, and whether open files see each
# other's changes.
PYTHON = """
import sys, ros2store
with ros2store.open(sys.argv[1]) as fs:
    fs.mkdir("many")
    contents = {str(i): (str(i) * (100 * i)).encode() for i in range(40)}
    for name, data in contents.items():
        with fs.open("many/" + name, "w") as file:
            assert file.pwrite(data, 0) == len(data)
    fs.rename("many", "moved")
    names = sorted(contents)
    assert sorted(fs.listdir("moved")) == names
    assert fs.read_many(names, "moved") == [contents[name] for name in names]
    with fs.open("large", "w+") as file, fs.open("large") as other:
        data = bytes(range(256)) * 8192
        assert file.pwrite(data, 0) == len(data)
        assert file.pwrite(b"x" * 5000, 12345) == 5000
        data = data[:12345] + b"x" * 5000 + data[17345:]
        assert other.pread(len(data), 0) == data
        file.truncate(13000)
        assert other.pread(len(data), 0) == data[:13000] and "RADOS" in file.path_report()
    assert fs.stat("large").st_size == 13000 and not fs.exists("many")
    fs.unlink("large")
print("done")
"""


class OnCluster(Refusal):
    """One cluster for all classes: three OSDs, so that there can be a pool of erasure codes."""

    cluster = None

    def conf(self, name, *lines, without=()):
        """A copy of the configuration with other lines."""
        path = self.cluster.folder / f"{name}.conf"
        text = [line for line in self.cluster.conf.read_text().splitlines() if not line.startswith(tuple(without) or "\0")]
        path.write_text("\n".join([text[0], *lines, *text[1:], ""]))
        return path

    def uri(self, container="c", path="", pool="main", conf=None, **parameters):
        conf = conf or self.conf("limited", f"rados_osd_op_timeout = {LIMIT_SECONDS}")
        more = "".join(f"&{key}={value}" for key, value in parameters.items())
        return f"ros2s+local:///{pool}/{container}{path and '/' + path}?rados={conf}{more}"

    def container(self, label, **parameters):
        """Makes a container that goes with the test."""
        uri = self.uri(label, **parameters)
        run("container", "create", uri)
        self.addCleanup(run, "container", "destroy", "--yes", uri)
        return lambda path="": self.uri(label, path, **parameters)

    def until(self, command, is_right):
        """Repeats a command until its result is right. Returns the result."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not is_right(done := command()):
            self.assertLess(time.monotonic(), end, done.stdout + done.stderr)
            time.sleep(0.5)
        return done

    def objects(self, pool):
        done = subprocess.run(["rados", "-c", self.cluster.conf, "-p", pool, "ls", "--all"], capture_output=True, text=True,
                              check=True, timeout=60)
        return sorted(done.stdout.split("\n"))


class Commands(OnCluster):
    def test_containers(self):
        uri = self.uri("life")
        made = answer("container", "create", uri)
        self.assertEqual((made["container"], made["uri"]), ("life", uri))
        self.refused("container", "create", uri, says="the name is in use")
        listed = answer("container", "list", self.uri("any"))["containers"]
        self.assertEqual([each["uri"] for each in listed], [uri])
        self.assertEqual(answer("container", "query", uri)["id"], made["id"])
        self.refused("container", "query", self.uri("absent"), says=["has no container 'absent'", "it may use: life"])
        self.refused("container", "create", self.uri("capped"), "--space", "1G", says=["caps", "ceph osd pool set-quota"])
        self.refused("container", "set", uri, "--files", "3", says="need a ros2store-engine")
        run("container", "destroy", "--yes", uri)
        self.assertEqual(answer("container", "list", uri)["containers"], [])

    def test_files(self):
        at = self.container("files")
        bytes_ = os.urandom((5 << 20) + 123)  # over two segments
        file = self.scratch / "file"
        file.write_bytes(bytes_)
        run("mkdir", "-p", at("a/b"))
        run("cp", file, at("a/b/file"))
        self.assertEqual(run("ls", at("a/b")).stdout, "file\n")
        self.assertEqual(answer("stat", at("a/b/file"))["files"][0]["bytes"], len(bytes_))
        run("mv", at("a/b/file"), at("moved"))
        run("cp", at("moved"), self.scratch / "back")
        self.assertEqual((self.scratch / "back").read_bytes(), bytes_)
        why = answer("why", "--write", at("moved"))
        self.assertIn("pool 'main' of the RADOS cluster of ", why["io_path"])
        self.assertIn("removed by another client", why["weaker"])
        self.assertGreater(len(why["read"]["steps"]), 1)
        run("rm", at("moved"))
        self.assertEqual(answer("container", "check", "--free", at())["objects"], 0)
        run("doctor", at())

    def test_data_in_a_pool_of_erasure_codes(self):
        at = self.container("coded", metadata="fast", data="coded")
        file = self.scratch / "file"
        file.write_bytes(os.urandom(3 << 20))
        run("cp", file, at("file"))
        self.assertEqual(hashlib.sha256(subprocess.check_output([PROGRAM, "cat", at("file")], timeout=60)).digest(),
                         hashlib.sha256(file.read_bytes()).digest())
        self.assertGreater(len(self.objects("coded")), 1)
        self.refused("ls", self.uri("coded", metadata="fast"),
                     says=["is in pool 'coded', and 'fast' was named", "data=coded"])

    def test_programs_of_daos(self):
        """The programs of tests/daos, with the library of plugins/daos."""
        self.cluster.ceph("osd", "pool", "create", "daos", "8")
        self.container("main", pool="daos")
        base = self.uri("", pool="daos").replace("daos/?", "daos?")
        programs = BUILD / "tests/daos"
        commands = [[programs / f"daos_{name}", "tank", "main", *more] for name, *more in (
            ("dfs_calls",), ("rank_calls", "1"), ("object_calls",), ("container_calls",), ("path_calls", "+local"))]
        if (programs / "libfio_dfs.so").exists():
            commands.append(["fio", f"--ioengine=external:{programs / 'libfio_dfs.so'}", "--pool=tank", "--cont=main", "--name=f",
                             "--size=8M", "--bs=4k", "--iodepth=16", "--rw=randwrite", "--verify=crc32c", "--verify_fatal=1",
                             "--verify_state_save=0"])
        for command in commands:
            done = subprocess.run(command, env=os.environ | {"ROS2STORE_DAOS": base}, capture_output=True, text=True, timeout=200,
                                  cwd=self.scratch, check=False)
            self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")

    def test_a_mount(self):
        at = self.container("mounted")
        point = self.scratch / "point"
        point.mkdir()
        run("mount", at(), point)
        try:
            (point / "directory").mkdir()
            (point / "directory/file").write_bytes(b"words" * 10000)
            os.rename(point / "directory/file", point / "file")
            os.link(point / "file", point / "other")
            os.symlink("file", point / "link")
            self.assertEqual((point / "link").read_bytes(), b"words" * 10000)
            self.assertIn("pool 'main' of the RADOS cluster", run("why", point / "file").stdout)
            # Another client, at the same time.
            self.assertEqual(run("cat", at("other")).stdout, "words" * 10000)
            run("rm", at("other"))
            self.assertEqual(sorted(os.listdir(point)), ["directory", "file", "link"])
        finally:
            subprocess.run(["fusermount3", "-u", point], check=True, timeout=60)

    def test_pool_snapshot_changes_nothing(self):
        at = self.container("snapped", pool="snapped")
        file = self.scratch / "file"
        file.write_bytes(os.urandom(100000))
        for name in ("removed", "replaced"):
            run("cp", file, at(name))
        self.cluster.ceph("osd", "pool", "mksnap", "snapped", "before")
        try:
            before = self.objects("snapped")
            run("rm", at("removed"))
            file.write_bytes(os.urandom(100000))
            run("cp", file, at("replaced"))
            self.assertEqual(run("ls", at()).stdout, "replaced\n")
            self.assertEqual(subprocess.check_output([PROGRAM, "cat", at("replaced")], timeout=60), file.read_bytes())
            # Ceph still lists the objects that it keeps for the snapshot.
            self.assertLessEqual(set(before), set(self.objects("snapped")))
            self.assertEqual(answer("container", "check", "--free", at())["objects"], 0)
        finally:
            self.cluster.ceph("osd", "pool", "rmsnap", "snapped", "before")

    def test_python(self):
        module = BUILD / "python"
        if not any(module.glob("ros2store*.so")):
            self.skipTest("this build has no Python module")
        at = self.container("python")
        done = subprocess.run(["/usr/bin/python3", "-B", "-c", PYTHON, at()], capture_output=True, text=True, timeout=300,
                              check=False, env=dict(os.environ, PYTHONPATH=str(module)))
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
        self.assertEqual(run("cat", at("moved/17")).stdout, "17" * 1700)  # as another process sees it

    def test_fio_with_verification(self):
        plugin = BUILD / "plugins/fio/libros2store-fio.so"
        if not plugin.exists():
            self.skipTest("this build has no fio plug-in")
        at = self.container("fio")
        done = subprocess.run(["fio", f"--ioengine=external:{plugin}", f"--uri={at()}", "--name=mixed", "--size=8M",
                               "--rw=randrw", "--bs=4k,16k", "--iodepth=8", "--verify=crc32c", "--verify_state_save=0",
                               "--verify_fatal=1", "--do_verify=1"], capture_output=True, text=True, timeout=300,
                              cwd=self.scratch, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("err= 0", done.stdout)


class BadInput(OnCluster):
    """One line says what is wrong, within the configured time, and nothing was written."""

    def refused_unchanged(self, *arguments, says, pools=("main",)):
        before = [self.objects(pool) for pool in pools]
        began = time.monotonic()
        line = self.refused(*arguments, says=says)
        self.assertLess(time.monotonic() - began, PATIENCE_SECONDS)
        self.assertEqual([self.objects(pool) for pool in pools], before)
        return line

    def test_missing_cluster_is_reported(self):
        nobody = self.conf("nobody", "mon host = v2:127.0.0.1:1/0", f"rados_osd_op_timeout = {LIMIT_SECONDS}",
                           without=["mon host", "mon initial"])
        for command in (["ls"], ["container", "create"], ["container", "list"]):
            self.refused_unchanged(*command, self.uri(conf=nobody), says=f"does not answer within {LIMIT_SECONDS} s")

    def test_no_configuration(self):
        self.refused_unchanged("ls", self.uri(conf="/nonexistent/ceph.conf"),
                               says="cannot read the Ceph configuration /nonexistent/ceph.conf")

    def test_wrong_key_ring_is_refused(self):
        keyring = self.cluster.folder / "wrong.keyring"
        keyring.write_text("[client.admin]\n\tkey = AQAAAAAAAAAAABAAe1vTSbQ3sgR2OzKXB8bWXQ==\n")
        wrong = self.conf("wrong", f"keyring = {keyring}", f"rados_osd_op_timeout = {LIMIT_SECONDS}", without=["keyring"])
        self.refused_unchanged("container", "create", self.uri(conf=wrong), says="refuses client.admin")
        self.refused_unchanged("container", "create", self.uri(user="client.nobody"), says="refuses client.nobody")

    def test_user_without_rights_is_refused(self):
        keyring = self.cluster.folder / "weak.keyring"
        if not keyring.exists():
            self.cluster.ceph("auth", "get-or-create", "client.weak", "mon", "allow r", "osd", "allow r pool=empty", "-o",
                              str(keyring))
        weak = self.conf("weak", f"keyring = {keyring}", f"rados_osd_op_timeout = {LIMIT_SECONDS}", without=["keyring"])
        self.refused_unchanged("container", "create", self.uri(conf=weak, user="client.weak", pool="empty"),
                               says=["pool 'empty'", "permission denied"], pools=["empty"])

    def test_pools(self):
        self.refused_unchanged("container", "create", self.uri(pool="absent"), says=["has no pool 'absent'", "osd pool create"])
        self.refused_unchanged("container", "create", self.uri(pool="strangers"),
                               says=["are not ros2store's (one is 'theirs')"], pools=["strangers"])
        self.refused_unchanged("container", "create", self.uri(pool="codedonly"),
                               says=["cannot store metadata", "Name a replicated pool"], pools=["codedonly"])
        for command in (["ls"], ["container", "list"], ["container", "query"]):
            self.refused_unchanged(*command, self.uri(pool="empty"), says=["is empty", "ros2store container create"],
                                   pools=["empty"])

    def test_a_full_cluster(self):
        at = self.container("full")
        file = self.scratch / "file"
        file.write_bytes(b"x" * 100000)
        run("cp", file, at("there"))
        run("mkdir", "-p", at("tree/branch"), at("to"))
        for name in ("tree/leaf", "tree/branch/leaf", "gone", "moved"):
            run("cp", file, at(name))
        self.cluster.ceph("tell", "osd.*", "injectfull", "full")
        try:
            # The OSDs tell the monitor, and it tells the clients.
            done = self.until(lambda: run("cp", file, at("more"), expect=None), lambda done: done.returncode != 0)
            self.assertRegex(done.stderr, "^ros2store: .*/more.*: the pool is full; .*\n$")
            self.assertIn("ceph osd pool set-quota", done.stderr)
            self.assertNotIn("pool grow", done.stderr)
            # Each is a new process, which has no record of a transaction in the pool.
            run("rm", at("gone"))
            run("rm", "-r", at("tree"))
            run("mv", at("moved"), at("to/moved"))
            left = set(run("ls", at()).stdout.split())
            self.assertLessEqual({"there", "to/"}, left)
            self.assertFalse(left & {"gone", "tree/", "moved"})
            self.assertEqual(run("ls", at("to")).stdout, "moved\n")
            self.refused("cp", file, at("again"), says="the pool is full")
            self.assertEqual(run("cat", at("there")).stdout, "x" * 100000)
        finally:
            self.cluster.ceph("tell", "osd.*", "injectfull", "none")
        self.until(lambda: run("cp", file, at("more"), expect=None), lambda done: done.returncode == 0)

    def test_silent_cluster_is_reported(self):
        at = self.container("stopped")
        run("mkdir", at("directory"))
        daemons = list(self.cluster.daemons.values())
        for each in daemons:
            each.send_signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            self.refused("mkdir", at("other"), says=f"does not answer within {LIMIT_SECONDS} s")
            self.assertLess(time.monotonic() - began, PATIENCE_SECONDS)
        finally:
            for each in daemons:
                each.send_signal(signal.SIGCONT)
        # The monitor has lost its lease meanwhile.
        self.until(lambda: run("mkdir", "-p", at("other"), expect=None), lambda done: done.returncode == 0)
        self.assertEqual(run("ls", at()).stdout, "directory/\nother/\n")

    def test_missing_librados_is_reported(self):
        library = subprocess.run(["sh", "-c", "ldconfig -p | sed -n 's/.*librados.so.2 .*=> //p' | head -n 1"],
                                 capture_output=True, text=True, check=True).stdout.strip()
        hide = f"mount --bind /dev/null $(realpath {library}) && exec \"$0\" \"$@\""
        command = ["unshare", "--mount", "sh", "-c", hide]
        if not library or subprocess.run([*command, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no mount name space can be made here")
        done = subprocess.run([*command, PROGRAM, "ls", self.uri()], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^ros2store: RADOS needs librados.so.2, .*apt-get install librados2\n$")


if __name__ == "__main__":
    # The program's name and the options of unittest.
    with ceph.running("memstore", 3) as OnCluster.cluster:
        for pool in ("fast", "empty", "snapped"):
            OnCluster.cluster.ceph("osd", "pool", "create", pool, "8")
        OnCluster.cluster.ceph("osd", "erasure-code-profile", "set", "two", "k=2", "m=1", "crush-failure-domain=osd")
        for pool in ("coded", "codedonly"):
            OnCluster.cluster.ceph("osd", "pool", "create", pool, "8", "8", "erasure", "two")
        unittest.main(verbosity=2)

"""The command line as a person uses it: the real program on real directories.

usage: cli_test.py PROGRAM [unittest options]"""

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else None
SIZE = "256M"
UP = ("up", "--no-daemons")


def run(*arguments, expect=0, stdin=subprocess.DEVNULL, **more):
    done = subprocess.run([PROGRAM, *map(str, arguments)], stdin=stdin, capture_output=True,
                          text=True, errors="surrogateescape", timeout=120, check=False, **more)
    if expect is not None and done.returncode != expect:
        raise AssertionError(f"{arguments}: status {done.returncode}, expected {expect}\n"
                             f"{done.stdout}{done.stderr}")
    return done


def answer(*arguments):
    return json.loads(run("--json", *arguments).stdout)


class Refusal(unittest.TestCase):
    """Each refusal: one line on standard error, the status, nothing on standard output."""

    def refused(self, *arguments, says, status=1, **more):
        done = run(*arguments, expect=status, **more)
        self.assertEqual(done.stdout, "")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("ros2store: "), lines[0])
        for each in [says] if isinstance(says, str) else says:
            self.assertIn(each, lines[0])

    def setUp(self):
        self.scratch = Path(tempfile.mkdtemp(prefix="ros2store-cli-"))
        self.addCleanup(shutil.rmtree, self.scratch)


class WithPool(Refusal):
    """One pool for the class; each test has a directory of its own in it."""

    @classmethod
    def setUpClass(cls):
        cls.base = Path(tempfile.mkdtemp(prefix="ros2store-cli-"))
        cls.pool = cls.base / "pool"
        cls.up = answer(*UP, cls.pool, "--size", SIZE)

    @classmethod
    def tearDownClass(cls):
        run("pool", "destroy", "--yes", cls.pool)
        shutil.rmtree(cls.base)

    def setUp(self):
        super().setUp()
        self.name = self.id().rsplit(".", 1)[-1]
        run("mkdir", self.uri(self.name))

    def uri(self, path, container="main"):
        return f"ros2s+local:///pool/{container}/{path}?dir={self.pool}"

    def mine(self, path=""):
        return self.uri(f"{self.name}/{path}" if path else self.name)


class Arguments(Refusal):
    def test_unknown_command(self):
        self.refused("frobnicate", says=["no command 'frobnicate'", "--help"], status=2)

    def test_missing_argument(self):
        self.refused("up", says=["required", "ros2store up --help"], status=2)

    def test_unknown_option(self):
        self.refused("ls", "--colour", "/", says="--colour", status=2)

    def test_help_and_version(self):
        self.assertIn("nothing to do with the Robot", run("--help").stdout)
        self.assertRegex(run("--version").stdout, r"^ros2store \d+\.\d+\.\d+\n$")

    def test_help_says_how_many_places(self):
        for command, places in (("cp", "two or more"), ("mv", "two or more"), ("ls", "one or more")):
            said = run(command, "--help").stdout
            self.assertIn(f"ros2store {command} [OPTIONS] place...\n", said)
            self.assertIn(f"({places}", said)

    def test_errors_are_json_with_json(self):
        done = run("--json", "status", self.scratch, expect=1)
        self.assertIn("no pool in", json.loads(done.stderr)["error"])


class BadPlaces(Refusal):
    def test_bad_uris(self):
        for uri in ("ros2s:/x", "ros2s+local:///pool", "ros2s+local:///pool/main/%zz?dir=/x",
                    "ros2s+local:///pool/main?color=red", "http://pool/main"):
            with self.subTest(uri=uri):
                self.refused("ls", uri, says=["URI", "ros2s+local:///"])

    def test_a_path_that_is_not_to_be_had(self):
        for asked in ("provider=ucx+tcp", "socket=/run/x.sock"):
            with self.subTest(asked=asked):
                self.refused("ls", f"ros2s+local:///pool/main?dir={self.scratch}&{asked}",
                             says=[f"'{asked.split('=')[0]}' asks for one", "leave it out"])

    def test_places_that_are_none(self):
        for command in ("ls", "stat", "cat"):
            self.refused(command, "", says="a place is empty")
        self.refused("rm", "-r", "", says="a place is empty")
        self.refused("ls", "ros2s+local:///pool/main?dir=/etc/passwd",
                     says="/etc/passwd is no directory")

    def test_uris_of_networks_that_name_no_server(self):
        self.refused("ls", "ros2s+dpu:///pool/main", says="names no server")

    def test_missing_pool(self):
        self.refused("ls", f"ros2s+local:///pool/main?dir={self.scratch}/none",
                     says=["none", "ros2store up"])
        self.refused("status", self.scratch, says="no pool in")
        self.refused("down", self.scratch, says="no pool in")

    def test_bad_sizes(self):
        self.refused(*UP, self.scratch / "p", "--size", "4 parsecs", says=["no size", "4G"])
        self.refused(*UP, self.scratch / "p", "--size", "1M", says="64")
        self.assertFalse((self.scratch / "p" / "config.yaml").exists())

    def test_bad_names_and_counts(self):
        self.refused(*UP, self.scratch / "p", "--pool", "a b", says="a b")
        self.refused(*UP, self.scratch / "p", "--devices", "17", says="16")

    def test_more_than_the_disk_has(self):
        self.refused(*UP, self.scratch / "p", "--size", "900T", says="free")
        self.assertFalse((self.scratch / "p").exists() and any((self.scratch / "p").iterdir()))

    def test_directory_with_other_files(self):
        (self.scratch / "p").mkdir()
        (self.scratch / "p" / "thesis.txt").write_text("years of work")
        self.refused(*UP, self.scratch / "p", "--size", SIZE, says=str(self.scratch / "p"))
        self.assertEqual((self.scratch / "p" / "thesis.txt").read_text(), "years of work")


class PoolLife(Refusal):
    def test_up_status_list_destroy(self):
        pool = self.scratch / "p"
        up = answer(*UP, pool, "--size", SIZE, "--devices", "2", "--pool", "fast",
                    "--container", "data")
        self.assertEqual(up["uri"], f"ros2s+local:///fast/data?dir={pool}")
        self.assertEqual(len(up["devices"]), 2)
        self.assertEqual(up["bytes"], 256 << 20)
        for device in up["devices"]:
            # Written fully once; a file in many pieces has blocks that say where they lie.
            allocated = os.stat(device).st_blocks * 512
            self.assertGreaterEqual(allocated, 128 << 20)
            self.assertLess(allocated, 129 << 20)
        status = answer("status", pool)
        self.assertEqual(status["containers"], ["data"])
        self.assertEqual((status["targets"], status["read_only"]), (16, False))
        self.assertIsNone(status["read_only_reason"])
        self.assertIsNone(status["owner"])
        self.assertEqual(status["daemons"], [])  # it never had any
        self.assertGreater(status["free_bytes"], 100 << 20)
        again = answer("status", up["uri"])
        # To look inside, status opens the pool; the index then has another file of a few bytes.
        self.assertEqual(again | {"index_bytes": 0}, status | {"index_bytes": 0})
        self.assertEqual([p["pool"] for p in answer("pool", "list", self.scratch)["pools"]], ["fast"])
        self.refused("pool", "destroy", pool, says="--yes")
        run("down", pool)
        run("pool", "destroy", "--yes", pool)
        self.assertFalse(pool.exists())

    @unittest.skipUnless(os.geteuid() == 0, "only root mounts")
    def test_no_room_for_the_index_beside_devices_elsewhere(self):
        small, disk = self.scratch / "small", self.scratch / "disk"
        small.mkdir()
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16M", "none", small],
                          stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("cannot mount here")
        try:
            self.refused(*UP, small / "p", "--size", "64M", "--device-dir", disk,
                         says=[f"{small}/p needs 64", "free space", "too little"])
            self.assertEqual(os.listdir(small) + os.listdir(disk), [])
        finally:
            subprocess.run(["umount", small], check=True)

    def test_status_says_what_the_index_takes(self):
        pool = self.scratch / "p"
        run(*UP, pool, "--size", "64M")
        before = answer("status", pool)
        (self.scratch / "many").mkdir()
        for i in range(3000):
            (self.scratch / "many" / f"a-name-to-remember-{i}").touch()
        run("cp", "-r", self.scratch / "many", f"ros2s+local:///pool/main/many?dir={pool}")
        for command in (("status",), ("pool", "query")):
            after = answer(*command, pool)
            # Empty files take nothing of the space for data, and much of the index.
            self.assertEqual(after["free_bytes"], before["free_bytes"])
            self.assertGreater(after["index_bytes"], before["index_bytes"] + (100 << 10))
            on_disk = sum(file.stat().st_blocks * 512 for file in (pool / "index").iterdir())
            self.assertEqual(after["index_bytes"], on_disk)
            self.assertRegex(run(*command, pool).stdout, r"index +[0-9.]+ [KM]iB on disk")

    def test_nobody_else_reads_the_index(self):
        pool = self.scratch / "p"
        run(*UP, pool, "--size", "64M")
        self.assertEqual(stat.S_IMODE((pool / "index").stat().st_mode), 0o700)
        os.chmod(pool / "index", 0o755)
        run("ls", f"ros2s+local:///pool/main?dir={pool}")
        self.assertEqual(stat.S_IMODE((pool / "index").stat().st_mode), 0o700)

    def test_up_says_what_comes_next(self):
        said = run(*UP, self.scratch / "p", "--size", SIZE).stdout
        for word in ("ros2s+local:///pool/main?dir=", "ros2store mount", "ros2store cp -r"):
            self.assertIn(word, said)

    def test_grow(self):
        pool, source = self.scratch / "p", self.scratch / "source"
        run(*UP, pool, "--size", "64M")
        source.write_bytes(os.urandom(40 << 20))
        uri = f"ros2s+local:///pool/main/%s?dir={pool}"
        run("cp", source, uri % "one")
        self.refused("cp", source, uri % "two", says=["the pool is full", "pool grow"])
        for arguments, says in ((["--size", "1M"], "64MiB at least"), ([], "--size"),
                                (["--size", "900T"], "too little")):
            self.refused("pool", "grow", pool, *arguments, says=says,
                         status=1 if arguments else 2)
        (self.scratch / "disk").mkdir()
        grown = answer("pool", "grow", pool, "--size", "128M", "--device-dir", self.scratch / "disk")
        self.assertEqual((grown["added_bytes"], grown["bytes"]), (128 << 20, 192 << 20))
        self.assertEqual(grown["devices"], [f"{pool}/device-0", f"{pool}/device-1"])
        self.assertIn("grown by 64 MiB: 256 MiB on 3 devices",
                      run("pool", "grow", uri % "", "--size", "64M").stdout)
        status = answer("status", pool)
        self.assertEqual(len(status["devices"]), 3)
        self.assertGreater(status["total_bytes"], 200 << 20)
        run("cp", source, uri % "two")
        run("cp", source, uri % "three")
        for name in ("one", "two", "three"):
            run("cp", uri % name, self.scratch / name)
            self.assertEqual(digest(self.scratch / name), digest(source))
        run("pool", "destroy", "--yes", pool)
        self.assertEqual(os.listdir(self.scratch / "disk"), [])

    def test_a_missing_device_and_a_dangling_link(self):
        pool = self.scratch / "p"
        run(*UP, pool, "--size", SIZE, "--devices", "3")
        os.rename(pool / "device-1", self.scratch / "away")
        self.refused("status", pool, says=["has 3 devices; missing: device-1 (", f"{pool}/device-0",
                                           f"{pool}/device-2", "Mount the disk"])
        os.symlink(self.scratch / "gone", pool / "device-1")
        self.refused("status", pool, says=[f"{pool}/device-1 is a link to {self.scratch}/gone",
                                           "mount the disk", "ln -sfn"])
        os.unlink(pool / "device-1")
        os.symlink(self.scratch / "away", pool / "device-1")
        run("status", pool)

    def test_what_is_left_of_a_pool_is_listed_and_removed(self):
        disk = self.scratch / "disk"
        disk.mkdir()
        lost, half, own = self.scratch / "lost", self.scratch / "half", self.scratch / "own"
        run(*UP, lost, "--size", "64M")
        os.unlink(lost / "device-0")
        run(*UP, self.scratch / "link", "--size", "128M", "--devices", "2", "--device-dir", disk)
        target = os.readlink(self.scratch / "link" / "device-1")
        os.unlink(target)
        run(*UP, half, "--size", "64M")
        os.unlink(half / "config.yaml")  # as a removal that was killed leaves it
        (half / "half-made").write_text("\n")
        (own / "index").mkdir(parents=True)
        for name in ("config.yaml", "index/page"):
            (own / name).write_text("somebody's: own\n")
        listed = {Path(p["directory"]).name: (p["pool"], p["state"], p["missing"])
                  for p in answer("pool", "list", self.scratch)["pools"]}
        self.assertEqual(listed, {
            "lost": ("pool", "damaged", ["device-0"]),
            "link": ("pool", "damaged", [f"device-1 (a link to {target})"]),
            "half": (None, "half-made", [])})
        said = run("pool", "list", self.scratch).stdout
        for each in ("damaged: missing device-0\n", "half-made: its making or removal was"):
            self.assertIn(each, said)
        self.refused("pool", "destroy", lost, says=["--yes", "missing of it: device-0"])
        self.refused("pool", "destroy", half, says=["--yes", "half-made"])
        self.assertIn("missing of it: device-0;", run("pool", "destroy", "--yes", lost).stdout)
        self.assertEqual(answer("pool", "destroy", "--yes", self.scratch / "link")["missing"],
                         [f"device-1 (a link to {target})"])
        run("pool", "destroy", "--yes", half)
        self.refused("pool", "destroy", "--yes", own, says="config.yaml")
        self.assertTrue((own / "index" / "page").exists())
        self.assertEqual(sorted(os.listdir(self.scratch)), ["disk", "own"])
        self.assertEqual(os.listdir(disk), [])

    def test_second_up(self):
        run(*UP, self.scratch / "p", "--size", SIZE)
        before = (self.scratch / "p" / "config.yaml").read_bytes()
        self.refused(*UP, self.scratch / "p", "--size", SIZE, says=str(self.scratch / "p"))
        self.assertEqual((self.scratch / "p" / "config.yaml").read_bytes(), before)
        run("ls", f"ros2s+local:///pool/main?dir={self.scratch}/p")

    def test_a_pool_inside_a_pool(self):
        outer = self.scratch / "p"
        run(*UP, outer, "--size", "64M")
        before = sorted(os.listdir(outer))
        (self.scratch / "link").symlink_to(outer)
        for make in (UP, ("up",), ("pool", "create")):
            for inner in (outer / "inside", outer / "index" / "deep" / "er",
                          self.scratch / "link" / "inside"):
                with self.subTest(make=make, inner=inner):
                    self.refused(*make, inner, "--size", "64M",
                                 says=[f"{inner} is inside", "'pool'", str(outer), "outside it"])
        self.assertEqual(sorted(os.listdir(outer)), before)
        run(*UP, self.scratch / "p2", "--size", "64M")

    @unittest.skipUnless(os.geteuid() == 0, "only root mounts")
    def test_a_pool_in_memory(self):
        memory = self.scratch / "memory"
        memory.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256M", "none", memory],
                          stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("cannot mount here")
        try:
            says = "is in memory (tmpfs): nothing in it survives a restart"
            said = run(*UP, memory / "p", "--size", "64M").stderr
            self.assertEqual(said, f"ros2store: warning: {memory}/p {says}\n")
            run("pool", "destroy", "--yes", memory / "p")
            said = run("--json", *UP, self.scratch / "p", "--size", "64M", "--device-dir", memory)
            self.assertEqual(json.loads(said.stdout)["directory"], str(self.scratch / "p"))
            self.assertIn(f"device-0 {says}", json.loads(said.stderr.splitlines()[-1])["warning"])
            run("pool", "destroy", "--yes", self.scratch / "p")
        finally:
            subprocess.run(["umount", memory], check=True)

    def test_interrupted_up_leaves_nothing(self):
        # Large enough not to be done at once, and no more than there is.
        size = min(8 << 10, (shutil.disk_usage(self.scratch).free >> 20) // 2)
        with subprocess.Popen([PROGRAM, *UP, self.scratch / "p", "--size", f"{size}M"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            while not (self.scratch / "p" / "device-0").exists() and process.poll() is None:
                time.sleep(0.001)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, said)
        self.assertFalse((self.scratch / "p" / "device-0").exists())
        run(*UP, self.scratch / "p", "--size", SIZE)

    def test_unknown_config_key(self):
        run(*UP, self.scratch / "p", "--size", SIZE)
        config = self.scratch / "p" / "config.yaml"
        config.write_text(config.read_text() + "\nmemmory: 1G\n")
        self.refused("ls", f"ros2s+local:///pool/main?dir={self.scratch}/p",
                     says=["config.yaml", "memmory"])

    def test_containers(self):
        pool = self.scratch / "p"
        run("pool", "create", pool, "--size", SIZE)
        uri = f"ros2s+local:///pool/one?dir={pool}"
        self.refused("ls", uri, says="one")
        made = answer("container", "create", uri, "--chunk", "64K")
        self.assertEqual(made["chunk_bytes"], 65536)
        self.refused("container", "create", uri, says="one")
        for chunk in ("5000", "0", "1", "6K"):
            self.refused("container", "create", f"ros2s+local:///pool/two?dir={pool}", "--chunk",
                         chunk, says=["a chunk of", "multiple of 4096"])
        self.assertEqual([c["container"] for c in answer("container", "list", pool)["containers"]],
                         ["one"])
        self.assertEqual(answer("container", "query", uri)["id"], made["id"])
        run("mkdir", f"ros2s+local:///pool/one/d?dir={pool}")
        self.refused("container", "destroy", uri, says="--yes")
        # What names more than the container is not taken for the container.
        beyond = f"ros2s+local:///pool/one/d?dir={pool}"
        for command in (("destroy", "--yes"), ("query",), ("create",)):
            self.refused("container", *command, beyond, says=["names 'd' in a container", uri])
        run("ls", beyond)
        # Nor is another pool.
        other = f"ros2s+local:///other/one?dir={pool}"
        for command in (("pool", "query"), ("pool", "grow", "--size", "64M"), ("status",), ("down",),
                        ("container", "list")):
            self.refused(*command, other, says=["is named 'pool', not 'other'", uri])
        self.refused("status", beyond, says="names 'd' in a container")
        self.refused("pool", "destroy", "--yes", other, says="is named 'pool', not 'other'")
        self.refused("up", uri, says="is a URI")
        run("container", "destroy", "--yes", uri)
        self.assertEqual(answer("container", "list", pool)["containers"], [])


class PoolInUse(WithPool):
    def test_owner_is_named(self):
        run("cp", "/bin/true", self.mine("big"))
        with subprocess.Popen([PROGRAM, "cat"] + [self.mine("big")] * 400, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as owner:
            try:
                owner.stdout.read(1)  # it has opened the pool, and now waits for room in the pipe
                self.refused("ls", self.mine(), says=[str(owner.pid), "ros2store"])
                self.refused("down", self.pool, says=[str(owner.pid), "kill"])
                self.assertEqual(answer("status", self.pool)["owner"]["pid"], owner.pid)
            finally:
                owner.kill()
        run("ls", self.mine())


    def test_commands_at_once_take_turns(self):
        run("mkdir", self.mine("d"))
        listings = [subprocess.Popen([PROGRAM, "ls", self.mine()], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    for _ in range(4)]
        said = [listing.communicate(timeout=120) for listing in listings]
        self.assertEqual(said, [("d/\n", "")] * 4)


class Files(WithPool):
    def test_cp_cat_stat_rm(self):
        source = self.scratch / "poem"
        source.write_bytes(b"so much depends\nupon\n")
        os.chmod(source, 0o640)
        os.utime(source, ns=(1_000_000_000, 1_500_000_000_123_456_789))
        run("cp", source, self.mine("poem"))
        self.assertEqual(run("cat", self.mine("poem")).stdout, "so much depends\nupon\n")
        found = answer("stat", self.mine("poem"))["files"][0]
        self.assertEqual((found["bytes"], found["mode"], found["modified_ns"]),
                         (21, "0640", 1_500_000_000_123_456_789))
        run("rm", self.mine("poem"))
        self.refused("cat", self.mine("poem"), says="not found")
        self.refused("rm", self.mine("poem"), says="not found")
        run("rm", "-f", self.mine("poem"))

    def test_ls(self):
        for name in ("b", "a", ".hidden"):
            run("mkdir", self.mine(name))
        self.assertEqual(run("ls", self.mine()).stdout, "a/\nb/\n")
        self.assertEqual(run("ls", "-a", self.mine()).stdout, ".hidden/\na/\nb/\n")
        self.assertRegex(run("ls", "-l", self.mine()).stdout.splitlines()[0],
                         r"^drwxr-xr-x .* \d{4}-\d\d-\d\d \d\d:\d\d a$")
        self.assertEqual({e["path"].rsplit("/", 1)[-1] for e in answer("ls", self.mine())["entries"]},
                         {"a", "b"})
        run("mkdir", self.mine("a/below"))
        self.assertEqual(run("ls", "-R", self.mine()).stdout,
                         f"{self.mine()}:\na/\nb/\n\n{self.mine('a')}:\nbelow/\n\n"
                         f"{self.mine('a/below')}:\n\n{self.mine('b')}:\n")
        root = run("ls", "-R", self.uri("")).stdout
        self.assertIn(f"{self.uri('').replace('/?', '?')}:\n", root)
        self.assertIn(f"\n{self.mine('a')}:\nbelow/\n", root)
        (self.scratch / "in" / "side").mkdir(parents=True)
        self.assertEqual(run("ls", "-R", self.scratch).stdout,
                         f"{self.scratch}:\nin/\n\n{self.scratch}/in:\nside/\n\n"
                         f"{self.scratch}/in/side:\n")

    def test_mkdir(self):
        self.refused("mkdir", self.mine("x/y/z"), says=["not found", "mkdir -p"])
        run("mkdir", "-p", self.mine("x/y/z"))
        run("mkdir", "-p", self.mine("x/y/z"))
        self.refused("mkdir", self.mine("x"), says="exists")

    def test_mv(self):
        run("mkdir", self.mine("from"), self.mine("to"))
        run("cp", "/bin/true", self.mine("from/f"))
        run("mv", self.mine("from/f"), self.mine("from/g"))
        run("mv", self.mine("from/g"), self.mine("to"))
        self.assertEqual(run("ls", self.mine("to")).stdout, "g\n")
        self.refused("mv", self.mine("from"), self.mine("from/inside"), says="itself")
        self.refused("mv", self.mine("to/g"), self.scratch / "g", says="cp -r")

    def test_rm_goes_on_behind_what_is_missing(self):
        for name in ("b", "d"):
            run("cp", "/bin/true", self.mine(name))
        done = run("rm", *(self.mine(name) for name in "abcd"), expect=1)
        said = done.stderr.splitlines()
        self.assertEqual(len(said), 2, done.stderr)
        for name, line in zip("ac", said):
            self.assertIn(self.mine(name), line)
            self.assertIn("not found", line)
        self.assertEqual((done.stdout, run("ls", self.mine()).stdout), ("", ""))

    def test_rm_of_trees(self):
        run("mkdir", "-p", self.mine("t/u/v"))
        run("cp", "/bin/true", self.mine("t/u/f"))
        self.refused("rm", self.mine("t"), says="rm -r")
        self.assertEqual(answer("rm", "-r", self.mine("t"))["removed"], 4)
        self.assertEqual(run("ls", self.mine()).stdout, "")

    def test_errors_of_cp(self):
        self.refused("cp", self.scratch / "none", self.mine(), says="not found")
        self.refused("cp", "/usr/include", self.mine(), says="cp -r")
        self.refused("cp", "/bin/true", self.mine("no/such/dir"), says="not found")
        run("cp", "/bin/true", self.mine("f"))
        self.refused("cp", "/bin/true", "/bin/false", self.mine("f"), says="no directory")
        self.refused("cp", self.mine("f"), self.mine("f"), says="same file")
        run("mkdir", self.mine("d"))
        self.refused("cp", "-r", self.mine("d"), self.mine("d/e"), says="into itself")

    def test_full_outside_the_pool(self):
        run("cp", "/bin/true", self.mine("f"))
        with open("/dev/full", "w", encoding="utf-8") as full:
            for command in (["cat", self.mine("f")], ["--json", "status", self.pool], ["--help"]):
                with self.subTest(command=command[0]):
                    done = subprocess.run([PROGRAM, *map(str, command)], stdout=full,
                                          stderr=subprocess.PIPE, text=True, check=False)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                    self.assertIn("standard output", done.stderr)
                    self.assertNotIn("the pool is full", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root mounts")
    def test_full_local_file_system(self):
        small = self.scratch / "small"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", small],
                          stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("cannot mount here")
        try:
            run("cp", "/bin/bash", self.mine("f"))
            (small / "f").write_text("good")
            self.refused("cp", self.mine("f"), small / "f", says=[str(small), "no space", "machine"])
            self.assertEqual(os.listdir(small), ["f"])
            self.assertEqual((small / "f").read_text(), "good")
        finally:
            subprocess.run(["umount", small], check=True)

    @unittest.skipUnless(os.access("/dev/fuse", os.R_OK | os.W_OK) and os.geteuid() == 0
                         and (Path(PROGRAM or "").parent / "ros2store-fuse").exists(),
                         "cannot mount here")
    def test_one_file_by_two_ways(self):
        pool, mounted = self.scratch / "p", self.scratch / "mnt"
        mounted.mkdir()
        run(*UP, pool, "--size", SIZE)
        uri = f"ros2s+local:///pool/main/%s?dir={pool}"
        run("mount", uri % "", mounted)
        try:
            (mounted / "d" / "e").mkdir(parents=True)
            (mounted / "f").write_text("words")
            for one, other in ((mounted / "f", uri % "f"), (uri % "f", mounted / "f"),
                               (mounted / "f", uri % "")):
                self.refused("cp", one, other, says="same file")
            self.assertEqual((mounted / "f").read_text(), "words")
            self.refused("cp", "-r", mounted / "d", uri % "d/e", says="into itself")
            self.refused("cp", "-r", uri % "d", mounted / "d" / "new", says="into itself")
            run("cp", mounted / "f", uri % "g")
            self.assertEqual((mounted / "g").read_text(), "words")
        finally:
            run("down", pool)

    def test_interrupted_copy_leaves_nothing(self):
        source, target = self.scratch / "large", self.scratch / "out"
        with open(source, "wb") as file:
            for _ in range(150):
                file.write(os.urandom(1 << 20))
        run("cp", source, self.mine("large"))
        target.mkdir()
        with subprocess.Popen([PROGRAM, "cp", self.mine("large"), target], stdin=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            while not os.listdir(target) and process.poll() is None:
                time.sleep(0.001)
            process.send_signal(signal.SIGINT)
            status = process.wait(timeout=60)
        run("rm", self.mine("large"))
        if status == 130:
            self.assertEqual(os.listdir(target), [])
        else:  # it was faster
            self.assertEqual((status, os.listdir(target)), (0, ["large"]))

    def test_interrupted_copy_says_what_is_left(self):
        run("mkdir", self.mine("tree"))
        for count in (500, 2000, 8000):  # a machine that is too fast gets more to do
            source, target = self.scratch / f"many{count}", self.scratch / f"out{count}"
            source.mkdir()
            for i in range(count):
                (source / str(i)).write_bytes(b"x" * 20000)
            run("cp", "-r", f"{source}/.", self.mine("tree"))
            with subprocess.Popen([PROGRAM, "cp", "-r", self.mine("tree"), target],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) as process:
                while process.poll() is None and not whole_files(target):
                    time.sleep(0.001)
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=120)
            if process.returncode == 0:
                continue
            self.assertEqual(process.returncode, 130, said)
            there = whole_files(target)
            self.assertEqual(len(os.listdir(target)), len(there), "half a file was left")
            sizes = {(target / name).stat().st_size for name in there}
            self.assertEqual(sizes, {20000})
            files = "1 file" if len(there) == 1 else f"{len(there)} files"
            are = "is" if len(there) == 1 else "are"
            self.assertEqual(said, f"ros2store: interrupted: {files} in {target} {are} "
                                   "whole, nothing is left of those under way; to begin again, "
                                   f"first: ros2store rm -r {target}\n")
            run("rm", "-r", target)
            run("cp", "-r", self.mine("tree"), target)
            self.assertEqual(len(whole_files(target)), count)
            return
        self.fail("each copy was done before it could be interrupted")

    def test_large_and_sparse_files(self):
        source = self.scratch / "large"
        block = os.urandom(1 << 20)
        with open(source, "wb") as file:
            for piece in (0, 1, 2, 9, 17):
                file.seek(piece << 20)
                file.write(block)
            file.truncate((20 << 20) + 123)
        run("cp", source, self.mine("large"))
        found = answer("stat", self.mine("large"))["files"][0]
        self.assertEqual(found["bytes"], (20 << 20) + 123)
        self.assertLess(found["bytes_used"], 6 << 20, "holes stay holes")
        run("cp", self.mine("large"), self.scratch / "back")
        self.assertEqual(digest(self.scratch / "back"), digest(source))

    def test_why(self):
        run("cp", "/usr/include/stdio.h", self.mine("f"))
        said = run("why", self.mine("f")).stdout
        self.assertIn("io_uring", said)
        why = answer("why", "--write", self.mine("f"))
        self.assertIn("O_DIRECT", why["io_path"])
        for request in ("read", "write"):
            self.assertGreater(len(why[request]["steps"]), 2)
        self.assertIsNone(why["fuse_us"])
        steps = [step["step"] for step in why["write"]["steps"]]
        self.assertEqual(steps[-3:], ["device.write", "journal.write", "device.flush"])
        with open("/usr/include/stdio.h", encoding="utf-8") as file:
            self.assertEqual(run("cat", self.mine("f")).stdout, file.read(), "why wrote what it read")
        self.refused("why", self.mine(), says="no regular file")


class CorruptBytes(Refusal):
    """What is corrupt is withheld, and the message names the file, the place in it, and a remedy."""

    def test_a_rotten_block(self):
        pool, source = self.scratch / "p", self.scratch / "source"
        run(*UP, pool, "--size", "64M")
        block = os.urandom(4096)
        source.write_bytes(os.urandom((1 << 20) + 8192) + block + os.urandom(5000))
        uri = f"ros2s+local:///pool/main/d/f?dir={pool}"
        run("mkdir", uri.replace("/d/f", "/d"))
        run("cp", source, uri)
        with open(pool / "device-0", "r+b") as device:
            at = device.read().index(block)
            device.seek(at + 99)
            device.write(bytes([block[99] ^ 1]))
        for command in (["cat", uri], ["cp", uri, self.scratch / "out"],
                        ["why", "--offset", str((1 << 20) + 8192), uri]):
            with self.subTest(command=command[0]):
                done = run(*command, expect=1)
                said = [line for line in done.stderr.splitlines() if line.startswith("ros2store: ")]
                self.assertIn("d/f", said[0])
                self.assertIn(f"in the 4 KiB at byte {(1 << 20) + 8192};", said[0])
                self.assertIn("restore this file from a copy", said[0])
                # The log says which place of which device that is.
                self.assertIn(f"{pool}/device-0: the 4 KiB at byte {at} are not what", done.stderr)
        self.assertFalse((self.scratch / "out").exists())


class Settings(Refusal):
    def test_the_back_end_of_the_pool(self):
        pool = self.scratch / "p"
        run(*UP, pool, "--size", "64M")
        file = f"ros2s+local:///pool/main/f?dir={pool}"
        run("cp", "/bin/true", file)
        with open(pool / "config.yaml", "a", encoding="utf-8") as config:
            config.write("\nio:\n  back_end: threads\n")
        self.assertIn("threads", answer("why", file)["io_path"])


class Trees(WithPool):
    def make(self):
        tree = self.scratch / "tree"
        (tree / "deep" / "er").mkdir(parents=True)
        (tree / "empty").mkdir()
        (tree / "a").write_bytes(os.urandom(100_000))
        (tree / "deep" / "er" / "b").write_text("b")
        os.link(tree / "a", tree / "deep" / "a-too")
        os.symlink("../a", tree / "deep" / "link")
        os.symlink("/nowhere", tree / "dangling")
        os.mkfifo(tree / "fifo", 0o600)
        (tree / os.fsdecode(b"odd \xff name")).write_text("odd")
        (tree / "ünï").write_text("")
        os.chmod(tree / "deep" / "er", 0o500)
        os.chmod(tree / "a", 0o4755)
        if os.geteuid() == 0:
            os.lchown(tree / "deep" / "er" / "b", 1234, 4321)
        try:
            os.setxattr(tree / "a", "user.colour", b"green\0ish")
        except OSError:
            pass  # this file system has none
        for path in sorted(tree.rglob("*"), reverse=True):
            os.utime(path, ns=(10**18, 10**18 + len(str(path))), follow_symlinks=False)
        self.addCleanup(os.chmod, tree / "deep" / "er", 0o700)
        return tree

    def test_there_and_back(self):
        tree = self.make()
        counts = answer("cp", "-r", tree, self.mine("copy"))
        self.assertEqual((counts["files"], counts["hard_links"], counts["symbolic_links"],
                          counts["others"], counts["directories"]), (4, 1, 2, 1, 4))
        run("cp", "-r", self.mine("copy"), self.scratch / "back")
        self.addCleanup(os.chmod, self.scratch / "back" / "deep" / "er", 0o700)
        self.assertEqual(describe(self.scratch / "back"), describe(tree))

    def test_into_a_directory_and_merging(self):
        tree = self.make()
        run("cp", "-r", tree, self.mine())
        self.assertIn("a\n", run("ls", self.mine("tree")).stdout)
        (tree / "a").write_text("second edition")
        run("cp", "-r", tree, self.mine())
        self.assertEqual(run("cat", self.mine("tree/a")).stdout, "second edition")
        self.assertEqual(run("cat", self.mine("tree/deep/a-too")).stdout, "second edition")

    def test_one_failure_does_not_end_a_copy(self):
        tree = self.make()
        run("mkdir", "-p", self.mine("tree/a"))
        done = run("cp", "-r", tree, self.mine(), expect=1)
        said = done.stderr.splitlines()
        self.assertIn(f"{tree}/a: a directory has its name", done.stderr)
        self.assertIn("named above", said[-1])
        self.assertEqual(run("cat", self.mine("tree/deep/er/b")).stdout, "b")

    def test_a_real_tree(self):
        run("cp", "-r", "/usr/include/linux", self.mine("linux"))
        run("cp", "-r", self.mine("linux"), self.scratch / "linux")
        self.assertEqual(describe(self.scratch / "linux"), describe(Path("/usr/include/linux")))


class FullPool(Refusal):
    def test_full_pool(self):
        pool = self.scratch / "p"
        run(*UP, pool, "--size", "64M")
        uri = f"ros2s+local:///pool/main/f?dir={pool}"
        source = self.scratch / "big"
        source.write_bytes(os.urandom(1 << 20) * 100)
        self.refused("cp", source, uri, says=["the pool is full", "rm"])
        # Nothing looks like a whole file, and there is room again.
        self.assertEqual(run("ls", "-a", f"ros2s+local:///pool/main?dir={pool}").stdout, "")
        small = self.scratch / "small"
        small.write_bytes(b"x" * 1_000_000)
        run("cp", small, uri)
        self.assertEqual(len(run("cat", uri).stdout), 1_000_000)


def whole_files(directory):
    if not directory.exists():
        return []
    return [name for name in os.listdir(directory) if not name.startswith(".ros2store-")]


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def describe(tree):
    """Everything about a tree that a copy keeps."""
    names = {}
    inodes = {}
    for path in sorted(tree.rglob("*"), key=os.fsencode):
        status = os.lstat(path)
        value = [oct(status.st_mode), status.st_uid, status.st_gid, status.st_mtime_ns]
        if stat.S_ISREG(status.st_mode):
            value += [digest(path), inodes.setdefault(status.st_ino, os.fsencode(path.relative_to(tree)))]
            value += [(name, os.getxattr(path, name)) for name in os.listxattr(path)
                      if name.startswith("user.")]
        elif stat.S_ISLNK(status.st_mode):
            value.append(os.readlink(path))
        names[os.fsencode(path.relative_to(tree))] = value
    return names


class Certificates(Refusal):
    def test_an_authority_and_what_it_signs(self):
        certs = self.scratch / "certs"
        said = run("certs", "init", certs, "--name", "engine-1.example.org").stdout
        for each in ("server.crt", "client.key", "ca.crt", "engine-1.example.org", "stays here"):
            self.assertIn(each, said)
        self.assertEqual({path.name for path in certs.iterdir()},
                         {"ca.crt", "ca.key", "server.crt", "server.key", "client.crt",
                          "client.key"})
        for key in certs.glob("*.key"):
            self.assertEqual(stat.S_IMODE(key.stat().st_mode), 0o600)
        for name in ("server", "client"):
            subprocess.run(["openssl", "verify", "-x509_strict", "-CAfile", certs / "ca.crt",
                            certs / f"{name}.crt"], check=True, capture_output=True)

        issued = answer("certs", "issue", certs, "dpu-1", "--server", "--name", "dpu-1",
                        "--days", "30")
        self.assertEqual(issued["certificate"], str(certs / "dpu-1.crt"))
        shown = answer("certs", "show", certs / "dpu-1.crt")
        self.assertEqual(shown["subject"], "CN=dpu-1")
        self.assertEqual(shown["names"], ["dpu-1"])
        self.assertEqual(shown["state"], "valid")
        key = (certs / "dpu-1.key").read_bytes()
        self.refused("certs", "issue", certs, "dpu-1", "--server", "--name", "dpu-1",
                     says="--replace")
        self.assertEqual((certs / "dpu-1.key").read_bytes(), key)
        run("certs", "issue", certs, "dpu-1", "--server", "--name", "dpu-1", "--replace")
        self.assertNotEqual((certs / "dpu-1.key").read_bytes(), key)

    def test_refusals(self):
        certs = self.scratch / "certs"
        run("certs", "init", certs)
        self.refused("certs", "init", certs, says=["not empty", "certs issue"])
        self.refused("certs", "issue", certs, "../up", says="cannot be a certificate's name")
        self.refused("certs", "issue", certs, "s", "--server", says="names and addresses")
        self.refused("certs", "issue", self.scratch / "none", "s", says="certs init")
        self.refused("certs", "show", certs / "client.key", says="holds no certificate")
        self.refused("certs", "init", says="directory is required", status=2)


class Doctor(Refusal):
    def test_findings(self):
        findings = {f["what"]: f for f in json.loads(subprocess.run(
            [PROGRAM, "--json", "doctor", str(self.scratch)], capture_output=True, text=True,
            check=False).stdout)["findings"]}
        self.assertEqual(findings["O_DIRECT"]["grade"], "ok")
        self.assertIn("io_uring", findings["io_uring"]["found"])
        self.assertRegex(run("doctor", self.scratch, expect=None).stdout.splitlines()[-1],
                         "^nothing is missing" if all(f["grade"] not in ("missing", "wrong")
                                                      for f in findings.values()) else "")
        for finding in findings.values():
            self.assertEqual(finding["grade"] == "ok", finding["remedy"] == "", finding)

    def ask(self, *arguments):
        """What it says with --json; the machine may lack other things."""
        done = run("--json", "doctor", self.scratch, *arguments, expect=None)
        said = json.loads(done.stdout)
        self.assertEqual(done.returncode, 1 if said["missing"] + said["wrong"] else 0, said)
        return said

    def test_providers_and_their_library(self):
        findings = {f["what"]: f for f in self.ask()["findings"]}
        self.assertRegex(findings["UCX"]["found"], r"^1\.\d+\.\d+ of /.*libucp")
        self.assertRegex(findings["libfabric"]["found"], r"^1\.\d+ of /.*libfabric")
        self.assertIn("lo", findings["ofi+tcp;ofi_rxm"]["found"])
        self.assertEqual(findings["shm"]["grade"], "ok")
        self.assertIn("lo", findings["ucx+tcp"]["found"])
        if findings["ucx+rc"]["grade"] == "absent":
            self.assertIn("RDMA adapter", findings["ucx+rc"]["remedy"])

    def test_certificates(self):
        certs = self.scratch / "certs"
        run("certs", "init", certs)
        before = self.ask("--certs", certs)
        self.assertEqual(before["wrong"], 0)
        found = [f["found"] for f in before["findings"] if f["what"] == "certificate"]
        self.assertEqual(len(found), 2)
        self.assertIn(f"{certs}/server.crt", found[1])
        (certs / "server.key").chmod(0o644)
        self.assertEqual(self.ask("--certs", certs)["wrong"], 1)
        done = run("doctor", self.scratch, "--certs", certs, expect=1)
        self.assertIn(f"chmod 600 {certs}/server.key", done.stdout)
        self.assertIn("missing or wrong", done.stderr)
        said = self.ask("--certs", self.scratch / "none")
        self.assertEqual(said["missing"], before["missing"] + 1)
        self.assertIn("ros2store certs init", said["findings"][-1]["remedy"])

    def test_missing_directory(self):
        done = run("doctor", self.scratch / "none", expect=1)
        self.assertIn(f"mkdir -p {self.scratch}/none", done.stdout)


if __name__ == "__main__":
    unittest.main()

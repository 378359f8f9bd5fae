"""Tests the commands that make, grow, show and remove pools and containers.

usage: pools_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import json
import os
import shutil
import signal
import stat
import subprocess
import time
import unittest
from pathlib import Path

from program import PROGRAM, SIZE, UP, Refusal, WithPool, answer, digest, run


class PoolLife(Refusal):
    def test_up_status_list_destroy(self):
        pool = self.scratch / "p"
        up = answer(*UP, pool, "--size", SIZE, "--devices", "2", "--pool", "fast",
                    "--container", "data")
        self.assertEqual(up["uri"], f"ros2s+local:///fast/data?dir={pool}")
        self.assertEqual(len(up["devices"]), 2)
        self.assertEqual(up["bytes"], 256 << 20)
        for device in up["devices"]:
            # The device file is written completely at creation. A fragmented file also has blocks for its
            # extent list.
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
        # `status` opens the pool, which adds a file of a few bytes to the index.
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
                         says=[f"{small}/p needs 64", "free space", "more, choose another directory"])
            self.assertEqual(os.listdir(small) + os.listdir(disk), [])
        finally:
            subprocess.run(["umount", small], check=True)

    def test_status_shows_the_size_of_the_index(self):
        pool = self.scratch / "p"
        run(*UP, pool, "--size", "64M")
        before = answer("status", pool)
        (self.scratch / "many").mkdir()
        for i in range(3000):
            (self.scratch / "many" / f"a-name-to-remember-{i}").touch()
        run("cp", "-r", self.scratch / "many", f"ros2s+local:///pool/main/many?dir={pool}")
        for command in (("status",), ("pool", "query")):
            after = answer(*command, pool)
            # Empty files use no data space, but much of the index.
            self.assertEqual(after["free_bytes"], before["free_bytes"])
            self.assertGreater(after["index_bytes"], before["index_bytes"] + (100 << 10))
            on_disk = sum(file.stat().st_blocks * 512 for file in (pool / "index").iterdir())
            self.assertEqual(after["index_bytes"], on_disk)
            self.assertRegex(run(*command, pool).stdout, r"index +[0-9.]+ [KM]iB on disk")

    def test_index_is_made_private(self):
        pool = self.scratch / "p"
        run(*UP, pool, "--size", "64M")
        self.assertEqual(stat.S_IMODE((pool / "index").stat().st_mode), 0o700)
        os.chmod(pool / "index", 0o755)
        run("ls", f"ros2s+local:///pool/main?dir={pool}")
        self.assertEqual(stat.S_IMODE((pool / "index").stat().st_mode), 0o700)

    def test_devices_are_made_in_given_directories(self):
        pool, places = self.scratch / "p", [self.scratch / "d0", self.scratch / "d1"]
        for place in places:
            place.mkdir()
        there = [word for place in places for word in ("--device-dir", place)]
        self.refused(*UP, pool, "--size", SIZE, "--devices", "1", *there, says="2 locations for 1 device")
        self.assertEqual(len(answer(*UP, pool, "--size", SIZE, *there)["devices"]), 2)
        self.assertEqual([len(os.listdir(place)) for place in places], [1, 1])

    def test_relative_device_directory_is_accepted(self):
        pool, disk = self.scratch / "in" / "p", self.scratch / "disk"
        pool.parent.mkdir()
        disk.mkdir()
        place = ("--size", "64M", "--device-dir", "disk")
        run(*UP, pool, *place, cwd=self.scratch)
        run("pool", "grow", pool, *place, cwd=self.scratch)
        self.assertEqual(len(answer("status", pool)["devices"]), 2)
        self.assertEqual(len(os.listdir(disk)), 2)
        run("pool", "destroy", "--yes", pool)
        self.assertEqual(os.listdir(disk), [])

    def test_pools_of_one_name_share_a_disk(self):
        one, two, disk = self.scratch / "one", self.scratch / "two", self.scratch / "disk"
        disk.mkdir()
        for pool in (one, two):
            run(*UP, pool, "--size", "64M", "--device-dir", disk)
        run("pool", "destroy", "--yes", one)
        run("ls", f"ros2s+local:///pool/main?dir={two}")
        run("pool", "destroy", "--yes", two)
        self.assertEqual(os.listdir(disk), [])

    def test_up_proposes_the_next_commands(self):
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
                                (["--size", "900T"], "of free space and has ")):
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

    def test_missing_device_and_dangling_link_are_reported(self):
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

    def test_remains_of_a_pool_are_listed_and_removed(self):
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

    def test_second_up_without_daemons_is_refused(self):
        run(*UP, self.scratch / "p", "--size", SIZE)
        before = (self.scratch / "p" / "config.yaml").read_bytes()
        self.refused(*UP, self.scratch / "p", "--size", SIZE, says=str(self.scratch / "p"))
        self.assertEqual((self.scratch / "p" / "config.yaml").read_bytes(), before)
        run("ls", f"ros2s+local:///pool/main?dir={self.scratch}/p")

    def test_pool_inside_a_pool_is_refused(self):
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
    def test_pool_in_memory_gives_a_warning(self):
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
        # Large enough to take some time, but not larger than the free space.
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

    def test_unknown_setting_is_refused(self):
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
        # A URI with a path below the container is not taken for the container.
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

    def test_concurrent_commands_all_succeed(self):
        run("mkdir", self.mine("d"))
        listings = [subprocess.Popen([PROGRAM, "ls", self.mine()], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    for _ in range(4)]
        said = [listing.communicate(timeout=120) for listing in listings]
        self.assertEqual(said, [("d/\n", "")] * 4)


@unittest.skipUnless(os.access("/dev/fuse", os.W_OK), "it mounts, which needs /dev/fuse")
class MountThatEnds(Refusal):
    """`down` while the process of a mount, which is not in the kernel's table any more, still ends."""

    def down(self, removed, **more):
        pool, mount_point = self.scratch / "pool", self.scratch / "mount"
        run(*UP, pool, "--size", "64M", **more)
        run("mount", f"ros2s+local:///pool/main?dir={pool}", mount_point, **more)
        owner = answer("status", pool, **more)["owner"]["pid"]
        os.kill(owner, signal.SIGSTOP)
        try:
            subprocess.run(["fusermount3", "-u", mount_point], check=True)
            if removed:
                mount_point.rmdir()
            program = more.pop("program", PROGRAM)
            down = subprocess.Popen([program, "--json", "down", pool], text=True, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, **more)
            with self.assertRaises(subprocess.TimeoutExpired):
                down.communicate(timeout=1)
        finally:
            os.kill(owner, signal.SIGCONT)
        said = down.communicate(timeout=60)[0]
        self.assertEqual(down.returncode, 0, said)
        self.assertEqual(json.loads(said.splitlines()[-1])["all_unmounted"], [])

    def setUp(self):
        super().setUp()
        (self.scratch / "mount").mkdir()

    def test_down_waits_for_an_ending_mount(self):
        self.down(False)

    def test_down_waits_although_the_mount_point_is_removed(self):
        self.down(True)

    @unittest.skipUnless(os.geteuid() == 0, "becomes another user")
    def test_down_of_an_ordinary_user_waits(self):
        if os.stat("/dev/fuse").st_mode & 0o006 != 0o006:
            self.skipTest("other users may not open /dev/fuse")
        # The checkout may be in a directory that only its user can enter.
        for program in (PROGRAM, PROGRAM.with_name("ros2store-fuse")):
            shutil.copy(program, self.scratch)
        for path in (self.scratch, self.scratch / "mount"):
            os.chown(path, 65534, 65534)
        self.down(False, program=self.scratch / "ros2store", cwd=self.scratch, user=65534, group=65534, extra_groups=[])


class Settings(Refusal):
    def test_the_back_end_of_the_pool(self):
        pool = self.scratch / "p"
        run(*UP, pool, "--size", "64M")
        file = f"ros2s+local:///pool/main/f?dir={pool}"
        run("cp", "/bin/true", file)
        with open(pool / "config.yaml", "a", encoding="utf-8") as config:
            config.write("\nio:\n  back_end: threads\n")
        self.assertIn("threads", answer("why", file)["io_path"])


if __name__ == "__main__":
    unittest.main()

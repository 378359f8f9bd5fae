"""Tests the commands on files and trees: they copy exactly, and leave nothing incomplete if they fail.

usage: files_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import json
import os
import pty
import signal
import stat
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from program import BIN, PROGRAM, SIZE, UP, Refusal, WithPool, answer, digest, run


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

    def test_control_characters_of_names_are_escaped(self):
        name, shown = "\x1b]0;x\a\n", "\\x1b]0;x\\x07\\x0a"
        (self.scratch / name).write_text("x")
        run("cp", self.scratch / name, self.mine())
        self.assertEqual(run("ls", self.mine()).stdout, f"{name}\n")
        leader, terminal = pty.openpty()
        self.addCleanup(os.close, leader)
        self.addCleanup(os.close, terminal)
        subprocess.run([PROGRAM, "ls", self.mine()], stdin=subprocess.DEVNULL, stdout=terminal, check=True)
        self.assertEqual(os.read(leader, 4096).decode(), f"{shown}\r\n")
        self.refused("cat", self.scratch / f"{name}none", says=f"{shown}none")

    def test_mkdir(self):
        self.refused("mkdir", self.mine("x/y/z"), says=["not found", "mkdir -p"])
        run("mkdir", "-p", self.mine("x/y/z"))
        run("mkdir", "-p", self.mine("x/y/z"))
        self.refused("mkdir", self.mine("x"), says="exists")
        # Only entries that it created count.
        self.assertEqual(answer("mkdir", "-p", self.mine("x/y/z"), self.mine("x/a/b"))["made"], 2)

    def test_mv(self):
        run("mkdir", self.mine("from"), self.mine("to"))
        run("cp", "/bin/true", self.mine("from/f"))
        run("mv", self.mine("from/f"), self.mine("from/g"))
        run("mv", self.mine("from/g"), self.mine("to"))
        self.assertEqual(run("ls", self.mine("to")).stdout, "g\n")
        self.refused("mv", self.mine("from"), self.mine("from/inside"), says="itself")
        self.refused("mv", self.mine("to/g"), self.scratch / "g", says="cp -r")

    def two_of_one_name(self, make):
        """Makes one/x and other/x with these words in them."""
        for name in ("one", "other"):
            source = self.scratch / name / "x"
            source.parent.mkdir()
            source.write_text(name)
            make(name, source)

    def test_mv_of_two_sources_of_one_name_is_refused(self):
        run("mkdir", self.mine("one"), self.mine("other"), self.mine("to"))
        self.two_of_one_name(lambda name, source: run("cp", source, self.mine(f"{name}/x")))
        self.refused("mv", self.mine("one/x"), self.mine("other/x"), self.mine("to"),
                     says=[self.mine("other/x"), "'x'", "just", "another name"])
        self.assertEqual(run("cat", self.mine("to/x"), self.mine("other/x")).stdout, "oneother")
        # The existing file is replaced.
        run("mv", self.mine("other/x"), self.mine("to"))
        self.assertEqual(run("cat", self.mine("to/x")).stdout, "other")

    def test_cp_of_two_sources_of_one_name_is_refused(self):
        self.two_of_one_name(lambda name, source: None)
        one, other = self.scratch / "one", self.scratch / "other"
        self.refused("cp", one / "x", other / "x", self.mine(), says=[f"{other}/x", "another name"])
        self.assertEqual(run("cat", self.mine("x")).stdout, "one")
        # Contents are merged.
        run("cp", "-r", f"{one}/.", f"{other}/.", self.mine())
        self.assertEqual(run("cat", self.mine("x")).stdout, "other")

    def test_cp_continues_after_a_failure(self):
        tree = self.scratch / "tree"
        (tree / "f").mkdir(parents=True)
        last = self.scratch / "last"
        last.write_text("words")
        run("mkdir", self.mine("tree"))
        run("cp", last, self.mine("tree/f"))
        done = run("--json", "cp", "-r", self.scratch / "none", tree, last, self.mine(), expect=1)
        self.assertEqual(json.loads(done.stdout)["files"], 1)
        self.assertIn(f"{self.scratch}/none: not found", done.stderr)
        self.assertIn(f"in copying {tree}, named above; the rest of it was copied", done.stderr.splitlines()[-1])
        self.assertEqual(run("cat", self.mine("last")).stdout, "words")

    def test_a_slash_behind_a_directory(self):
        tree = self.scratch / "tree"
        tree.mkdir()
        (tree / "f").write_text("words")
        (self.scratch / "link").symlink_to(tree)  # with an absolute path
        for source in ("tree/", "tree//", "link/"):
            run("cp", "-r", f"{self.scratch}/{source}", self.mine())
        self.assertEqual(run("ls", self.mine()).stdout, "link/\ntree/\n")
        self.assertEqual(run("cat", self.mine("tree/f"), self.mine("link/f")).stdout, "wordswords")
        run("cp", "-r", f"{tree}/.", self.mine())
        self.assertEqual(run("ls", self.mine()).stdout, "f\nlink/\ntree/\n")
        self.assertEqual(run("ls", f"{tree}/").stdout, "f\n")
        self.refused("mkdir", f"{tree}/", says="exists")
        run("rm", "-r", f"{tree}/")
        self.assertFalse(tree.exists())

    def test_cp_onto_a_special_file_is_refused(self):
        run("cp", "/bin/true", self.mine("f"))
        pipe = self.scratch / "pipe"
        os.mkfifo(pipe)
        self.refused("cp", self.mine("f"), pipe, says=[str(pipe), "not a regular file", "ros2store cat"])
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))

    def test_rm_continues_after_a_missing_name(self):
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

    def test_invalid_copies_are_refused(self):
        self.refused("cp", self.scratch / "none", self.mine(), says="not found")
        self.refused("cp", "/usr/include", self.mine(), says="cp -r")
        self.refused("cp", "/bin/true", self.mine("no/such/dir"), says="not found")
        run("cp", "/bin/true", self.mine("f"))
        self.refused("cp", "/bin/true", "/bin/false", self.mine("f"), says="not a directory")
        self.refused("cp", self.mine("f"), self.mine("f"), says="same file")
        run("mkdir", self.mine("d"))
        self.refused("cp", "-r", self.mine("d"), self.mine("d/e"), says="into itself")

    def test_full_standard_output_is_reported(self):
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
    def test_copy_to_a_full_local_file_system_leaves_nothing(self):
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
                         and (BIN / "ros2store-fuse").exists(),
                         "cannot mount here")
    def test_cp_onto_the_same_file_through_a_mount_is_refused(self):
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
                process.send_signal(signal.SIGHUP)  # its terminal is closed
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
                                   "complete; incomplete copies were removed; to begin again, "
                                   f"first: ros2store rm -r {target}\n")
            run("rm", "-r", target)
            run("cp", "-r", self.mine("tree"), target)
            self.assertEqual(len(whole_files(target)), count)
            return
        self.fail("each copy was done before it could be interrupted")

    def test_holes_of_any_size_are_not_read(self):
        with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="ros2store-") as file:
            file.truncate(1 << 40)
            os.pwrite(file.fileno(), b"in the middle", 1 << 39)
            run("cp", file.name, self.mine("huge"), timeout=60)
            run("cp", self.mine("huge"), self.mine("again"), timeout=60)
            run("cp", self.mine("again"), self.scratch / "back", timeout=60)
        for name in ("huge", "again"):
            found = answer("stat", self.mine(name))["files"][0]
            self.assertEqual(found["bytes"], 1 << 40)
            self.assertLess(found["bytes_used"], 64 << 10)
        back = self.scratch / "back"
        self.assertEqual(back.stat().st_size, 1 << 40)
        self.assertLess(back.stat().st_blocks * 512, 64 << 10)
        with open(back, "rb") as file:
            self.assertEqual(os.pread(file.fileno(), 13, 1 << 39), b"in the middle")
            self.assertEqual(os.lseek(file.fileno(), 0, os.SEEK_DATA), 1 << 39)

    def test_blocks_of_zeros_stay_holes(self):
        source = self.scratch / "blocks"
        with open(source, "wb") as file:
            for block in range(0, 512, 8):
                os.pwrite(file.fileno(), os.urandom(4096), block * 4096)
            file.truncate(2 << 20)
        run("cp", source, self.mine("blocks"))
        run("cp", self.mine("blocks"), self.scratch / "blocks.back")
        self.assertEqual(digest(self.scratch / "blocks.back"), digest(source))
        self.assertEqual(answer("stat", self.mine("blocks"))["files"][0]["bytes_used"], 64 * 4096)
        self.assertLessEqual((self.scratch / "blocks.back").stat().st_blocks * 512, 65 * 4096)

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
        self.refused("why", self.mine(), says="not a regular file")


class CorruptBytes(Refusal):
    """Corrupt data is not returned. The message names the file, the offset, and a remedy."""

    def test_corrupt_block_is_refused(self):
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
                self.assertIn("restore the file from a copy", said[0])
                # The log names the device and the block.
                self.assertIn(f"{pool}/device-0: the 4 KiB at byte {at} are not what", done.stderr)
        self.assertFalse((self.scratch / "out").exists())


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

    def test_tree_survives_copying_in_and_out(self):
        tree = self.make()
        counts = answer("cp", "-r", tree, self.mine("copy"))
        self.assertEqual((counts["files"], counts["hard_links"], counts["symbolic_links"],
                          counts["others"], counts["directories"]), (4, 1, 2, 1, 4))
        run("cp", "-rp", self.mine("copy"), self.scratch / "back")
        self.addCleanup(os.chmod, self.scratch / "back" / "deep" / "er", 0o700)
        self.assertEqual(describe(self.scratch / "back"), describe(tree))

    def test_local_copy_without_p_drops_set_id_bits(self):
        tree = self.scratch / "tree"
        (tree / "d").mkdir(parents=True)
        (tree / "program").write_text("x")
        if os.geteuid() == 0:
            os.chown(tree / "program", 1234, 4321)
        os.chmod(tree / "program", 0o6755)
        os.chmod(tree / "d", 0o3777)
        run("cp", "-r", tree, self.mine("tree"))
        self.assertEqual(answer("stat", self.mine("tree/program"))["files"][0]["mode"], "6755")
        for options, modes, owner in (
                ("-r", (0o755, 0o1777), (os.geteuid(), os.getegid())),
                ("-rp", (0o6755, 0o3777), ((tree / "program").stat().st_uid, (tree / "program").stat().st_gid))):
            with self.subTest(options=options):
                back = self.scratch / options
                run("cp", options, self.mine("tree"), back)
                status = (back / "program").stat()
                self.assertEqual((stat.S_IMODE(status.st_mode), stat.S_IMODE((back / "d").stat().st_mode)), modes)
                self.assertEqual((status.st_uid, status.st_gid), owner)

    def test_a_copy_follows_no_link_in_its_target(self):
        tree, outside = self.scratch / "tree", self.scratch / "outside"
        target = self.scratch / "target" / self.name
        for directory in (tree / "d", outside, target):
            directory.mkdir(parents=True)
        (tree / "d" / "f").write_text("in a directory")
        (tree / "g").write_text("in the root")
        (target / "d").symlink_to(outside)
        (target / "g").symlink_to(outside / "g")
        run("cp", "-r", f"{tree}/.", self.mine())
        said = run("cp", "-r", self.mine(), target.parent, expect=1).stderr
        self.assertIn("is not a directory", said)
        self.assertIn("is not a regular file", said)
        self.assertEqual(os.listdir(outside), [])

    def test_copied_tree_merges_into_a_directory(self):
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

    def test_real_tree_survives_copying(self):
        run("cp", "-r", "/usr/include/linux", self.mine("linux"))
        run("cp", "-r", self.mine("linux"), self.scratch / "linux")
        self.assertEqual(describe(self.scratch / "linux"), describe(Path("/usr/include/linux")))


class FullPool(Refusal):
    def test_copy_to_a_full_pool_leaves_nothing(self):
        pool = self.scratch / "p"
        run(*UP, pool, "--size", "64M")
        uri = f"ros2s+local:///pool/main/f?dir={pool}"
        source = self.scratch / "big"
        source.write_bytes(os.urandom(1 << 20) * 100)
        self.refused("cp", source, uri, says=["the pool is full", "rm"])
        # No incomplete file has a final name, and the space is free again.
        self.assertEqual(run("ls", "-a", f"ros2s+local:///pool/main?dir={pool}").stdout, "")
        small = self.scratch / "small"
        small.write_bytes(b"x" * 1_000_000)
        run("cp", small, uri)
        self.assertEqual(len(run("cat", uri).stdout), 1_000_000)


def whole_files(directory):
    if not directory.exists():
        return []
    return [name for name in os.listdir(directory) if not name.startswith(".ros2store-")]


def describe(tree):
    """Returns everything about a tree that a copy keeps."""
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


if __name__ == "__main__":
    unittest.main()

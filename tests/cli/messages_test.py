"""Tests what the commands refuse: the same as the Unix commands of that name, in one line that says what to
do.

usage: messages_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import json
import os
import resource
import socket
import unittest

from program import BIN, UP, Refusal, WithPool, answer, run


class Targets(WithPool):
    """Tests targets of cp, mv and mkdir that are missing or of the wrong type."""

    def setUp(self):
        super().setUp()
        self.tree = self.scratch / "tree"
        (self.tree / "sub").mkdir(parents=True)
        self.file = self.tree / "file"
        self.file.write_text("words\n")
        run("cp", self.file, self.mine("f"))

    def listed(self):
        return run("ls", self.mine()).stdout

    def test_copy_of_a_tree_onto_a_file_is_refused(self):
        self.refused("cp", "-r", self.tree, self.mine("f"),
                     says=["f?", "is not a directory", "name a directory, or a new name"])
        self.assertEqual(run("cat", self.mine("f")).stdout, "words\n")

    def test_a_file_inside_a_tree_where_a_directory_is_to_go(self):
        run("mkdir", self.mine("to"))
        run("cp", self.file, self.mine("to/sub"))
        done = run("cp", "-r", f"{self.tree}/.", self.mine("to"), expect=1)
        self.assertRegex(done.stderr.splitlines()[0], "tree/./sub: .* exists and is not a directory; it was not changed")
        self.assertEqual(run("ls", self.mine("to")).stdout, "file\nsub\n")

    def test_slash_after_a_missing_name_is_refused(self):
        for command in (["cp", self.file], ["mv", self.mine("f")]):
            self.refused(*command, self.mine("missing/"),
                         says=["there is no directory", "missing/?", "make it first: ros2store mkdir -p",
                               self.mine("missing")])
        self.refused("cp", self.mine("f"), f"{self.scratch}/missing/",
                     says=["there is no directory", f"make it first: mkdir -p {self.scratch}/missing"])
        self.assertEqual((self.listed(), os.path.exists(self.scratch / "missing")), ("f\n", False))
        # The path of a new directory may end with a slash.
        run("cp", "-r", self.tree, self.mine("new/"))
        run("mv", self.mine("new/"), self.mine("newer/"))
        run("mkdir", self.mine("newest/"))
        self.assertEqual(self.listed(), "f\nnewer/\nnewest/\n")

    def test_slash_after_a_file_is_refused(self):
        for command in (["cp", self.mine("f/"), self.scratch], ["cp", self.file, self.mine("f/")],
                        ["cp", f"{self.file}/", self.mine("g")], ["mv", self.mine("f/"), self.mine("g")],
                        ["cat", self.mine("f/")], ["stat", self.mine("f/")], ["ls", self.mine("f/")],
                        ["rm", "-rf", self.mine("f/")]):
            with self.subTest(command=command):
                self.refused(*command, says=["is not a directory", "'/' at its end"])
        self.assertEqual(self.listed(), "f\n")

    def test_a_slash_behind_a_link(self):
        os.symlink("tree", self.scratch / "link")
        run("cp", "-r", f"{self.scratch}/link/", self.mine("copy"))
        self.assertEqual(run("ls", self.mine("copy")).stdout, "file\nsub/\n")
        run("cp", self.scratch / "link", self.mine())  # the link itself
        run("mkdir", self.mine("tree"))
        self.refused("rm", "-r", self.mine("link/"), says="is not a directory")
        self.assertIn("directory", run("stat", self.mine("link/")).stdout)

    def test_a_directory_that_is_missing(self):
        for command in (["cp", self.file], ["cp", "-r", self.tree], ["mv", self.mine("f")], ["mkdir"]):
            with self.subTest(command=command):
                self.refused(*command, self.mine("a/b/c"),
                             says=["not found", "a/b/c?", "is missing; make it first: ros2store mkdir -p '"
                                   + self.mine("a/b") + "'"])
        self.refused("cp", self.mine("f"), self.scratch / "a" / "b",
                     says=f"make it first: mkdir -p {self.scratch}/a")
        self.assertEqual(self.listed(), "f\n")

    def test_a_file_where_a_directory_is_asked_for(self):
        for command in (["cp", self.file], ["mv", self.mine("f")], ["mkdir"]):
            self.refused(*command, self.mine("f/below"), says=["cannot be in " + self.mine("f"),
                                                               "not a directory"])
        self.refused("mkdir", "-p", self.mine("f/below"), says=[self.mine("f"), "is not a directory"])
        run("mkdir", self.mine("d"))
        self.refused("mv", self.mine("d"), self.mine("f"), says=["f?", "is not a directory", "a new name"])

    def test_missing_name_is_reported(self):
        for command in ("cat", "ls", "stat"):
            self.refused(command, self.mine("d/none"),
                         says=["d/none?", "not found", f"ros2store ls '{self.mine('d')}'"])

    def test_malformed_offset_is_refused(self):
        for offset in ("-1", "abc", "99999999999999999999", str((1 << 63) - 1), "1.5"):
            self.refused("why", "--offset", offset, self.mine("f"), status=2,
                         says=["--offset", f"'{offset}'", "for example 4096 or 1M"])
        self.assertIn("nothing to read at 4096", run("why", "--offset", "4K", self.mine("f")).stdout)


class Words(Refusal):
    """Tests commands, options and values that do not exist."""

    def test_commands_and_options(self):
        for arguments, says in (([], "a command is missing"), (["pool"], "missing after 'pool'"),
                                (["pool", "frob"], "no command 'frob' after 'pool'"),
                                (["--frob"], "no option '--frob'"),
                                (["container", "--frob"], "no option '--frob' after 'container'")):
            self.refused(*arguments, status=2, says=[says, "--help`"])

    def test_counts(self):
        for option, value in (("--devices", "-1"), ("--devices", "many")):
            self.refused("up", self.scratch / "p", option, value, status=2,
                         says=f"{option} takes a whole number, not '{value}'")
        self.refused("certs", "init", self.scratch / "c", "--days", "-3", status=2,
                     says="--days takes a whole number, not '-3'")

    def test_sizes(self):
        for size, says in (("-1", "is not a size"), ("1.5G", "a whole number"), ("8P", "K, M, G or T"),
                           ("99999999T", "more than any disk"), ("1" * 30, "more than any disk"),
                           ("0", "too little")):
            self.refused(*UP, self.scratch / "p", f"--size={size}", says=says)
        self.assertEqual(os.listdir(self.scratch), [])

    def test_impossible_directories_are_refused(self):
        self.refused(*UP, "/proc/x", says=["/proc/x", "choose a directory on a disk"])
        self.refused(*UP, "/dev/null/x", says=["/dev/null/x", "choose another directory"])
        self.refused(*UP, "/dev/null", says=["/dev/null", "choose another directory"])
        self.refused(*UP, self.scratch / "p", "--device-dir=/dev/null",
                     says=["/dev/null is not a directory or a device", "/dev/ng0n1"])

    def test_queries_of_uris(self):
        for query in ("?", "?dir=/x&", "?&dir=/x"):
            self.refused("ls", f"ros2s+local:///pool/main{query}",
                         says=["no parameter follows", "leave it out"])

    def test_missing_certificates(self):
        for scheme in ("ros2s", "ros2s+dpu"):
            self.refused("ls", f"{scheme}://localhost:1/pool/main",
                         env=os.environ | {"ROS2STORE_CERTS": str(self.scratch)},
                         says=[f"cannot read {self.scratch}/ca.crt", "ros2store certs init", "copy them",
                               "ROS2STORE_CERTS"])

    def test_a_mount_with_its_arguments_swapped(self):
        uri = f"ros2s+local:///pool/main?dir={self.scratch}"
        self.refused("mount", self.scratch, uri,
                     says=["the URI comes first, then the directory:",
                           f"ros2store mount '{uri}' {self.scratch}"])


@unittest.skipUnless(os.access("/dev/fuse", os.R_OK | os.W_OK) and os.geteuid() == 0
                     and (BIN / "ros2store-fuse").exists(),
                     "cannot mount here")
class Mount(WithPool):
    """Tests that a mount answers with --json, too."""

    def test_mount_in_json(self):
        uri = self.uri("").replace("/?", "?")
        said = answer("mount", uri, self.scratch)
        try:
            self.assertEqual((said["mount_point"], said["uri"]), (str(self.scratch), uri))
            program = os.readlink(f"/proc/{said['pid']}/exe")
            self.assertEqual(program.rsplit("/", 1)[-1], "ros2store-fuse")
            self.assertEqual(os.listdir(self.scratch), [self.name])
            again = run("--json", "mount", uri, self.scratch, expect=1)
            self.assertIn("is a mount point already", json.loads(again.stderr)["error"])
        finally:
            run("down", self.pool)
        refused = run("--json", "mount", uri, self.scratch, "--", "-f", expect=1)
        self.assertIn("leave one of them out", json.loads(refused.stderr)["error"])


class Places(Refusal):
    """A wrong place is named, and not a daemon that does not run there."""

    def test_directories_without_a_pool(self):
        missing, empty, file = (self.scratch / name for name in ("missing", "empty", "file"))
        empty.mkdir()
        file.touch()
        (self.scratch / "loop").symlink_to("loop")
        for place, says in ((missing, ["cannot open the pool directory", "No such file"]),
                            (missing / "below", ["cannot open the pool directory", "No such file"]),
                            (empty, f"there is no pool in {empty}"),
                            (file / "below", "ot a directory"), (self.scratch / "loop", "symbolic links")):
            for scheme in ("ros2s+local", "ros2s", "ros2s+dpu"):
                uri = f"{scheme}:///pool/main?dir={place}"
                for command in (["ls", uri], ["mount", uri, empty]):
                    with self.subTest(command=command):
                        line = run(*command, expect=1).stderr
                        for each in [says] if isinstance(says, str) else says:
                            self.assertIn(each, line)
                        self.assertNotIn("is running", line)

    def test_unusable_socket_is_reported(self):
        (self.scratch / "file").touch()
        (self.scratch / "loop").symlink_to("loop")
        long = self.scratch / ("x" * 120)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.scratch / "s"))
            os.rename(self.scratch / "s", long)
        for path, says in ((self.scratch / "missing", ["No such file", "check the path"]),
                           (self.scratch / "file/below", "Not a directory"),
                           (self.scratch / "loop", "Too many levels"), (long, "bytes, and at most 107 can be used")):
            for scheme in ("ros2s", "ros2s+dpu"):
                line = self.refused("ls", f"{scheme}:///pool/main?socket={path}", says=says)
                self.assertNotIn("does not run", line)
                self.assertIn(str(path), line)

    def test_too_few_descriptors_are_reported(self):
        pool = self.scratch / "pool"
        self.addCleanup(run, "down", pool, expect=None)
        run("up", pool, "--size", "64M")
        for most in range(4, 24):
            done = run("ls", f"ros2s+dpu:///pool/main?dir={pool}", expect=None,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)))
            if done.returncode != 0:
                self.assertRegex(done.stderr, "open files|may open no more files", most)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()

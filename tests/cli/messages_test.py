"""What a command refuses, it refuses as its namesake does, in one line that says what to do.

usage: messages_test.py PROGRAM [unittest options]"""

import os
import unittest

import cli_test
from cli_test import run


class WhatStandsThere(cli_test.WithPool):
    """Targets of cp, mv and mkdir that are not what they should be, or not there."""

    def setUp(self):
        super().setUp()
        self.tree = self.scratch / "tree"
        (self.tree / "sub").mkdir(parents=True)
        self.file = self.tree / "file"
        self.file.write_text("words\n")
        run("cp", self.file, self.mine("f"))

    def listed(self):
        return run("ls", self.mine()).stdout

    def test_a_tree_onto_a_file(self):
        self.refused("cp", "-r", self.tree, self.mine("f"),
                     says=["f?", "is no directory", "name a directory, or a new name"])
        self.assertEqual(run("cat", self.mine("f")).stdout, "words\n")

    def test_a_file_inside_a_tree_where_a_directory_is_to_go(self):
        run("mkdir", self.mine("to"))
        run("cp", self.file, self.mine("to/sub"))
        done = run("cp", "-r", f"{self.tree}/.", self.mine("to"), expect=1)
        self.assertRegex(done.stderr.splitlines()[0], "tree/./sub: .* no directory, and stays; move it away")
        self.assertEqual(run("ls", self.mine("to")).stdout, "file\nsub\n")

    def test_a_slash_behind_what_is_not_there(self):
        for command in (["cp", self.file], ["mv", self.mine("f")]):
            self.refused(*command, self.mine("missing/"),
                         says=["there is no directory", "missing/?", "make it first: ros2store mkdir -p",
                               self.mine("missing")])
        self.refused("cp", self.mine("f"), f"{self.scratch}/missing/",
                     says=["there is no directory", f"make it first: mkdir -p {self.scratch}/missing"])
        self.assertEqual((self.listed(), os.path.exists(self.scratch / "missing")), ("f\n", False))
        # What will be a directory may have one.
        run("cp", "-r", self.tree, self.mine("new/"))
        run("mv", self.mine("new/"), self.mine("newer/"))
        run("mkdir", self.mine("newest/"))
        self.assertEqual(self.listed(), "f\nnewer/\nnewest/\n")

    def test_a_slash_behind_a_file(self):
        for command in (["cp", self.mine("f/"), self.scratch], ["cp", self.file, self.mine("f/")],
                        ["cp", f"{self.file}/", self.mine("g")], ["mv", self.mine("f/"), self.mine("g")],
                        ["cat", self.mine("f/")], ["stat", self.mine("f/")], ["ls", self.mine("f/")],
                        ["rm", "-rf", self.mine("f/")]):
            with self.subTest(command=command):
                self.refused(*command, says=["is no directory", "'/' at its end"])
        self.assertEqual(self.listed(), "f\n")

    def test_a_slash_behind_a_link(self):
        os.symlink("tree", self.scratch / "link")
        run("cp", "-r", f"{self.scratch}/link/", self.mine("copy"))
        self.assertEqual(run("ls", self.mine("copy")).stdout, "file\nsub/\n")
        run("cp", self.scratch / "link", self.mine())  # the link itself
        run("mkdir", self.mine("tree"))
        self.refused("rm", "-r", self.mine("link/"), says="is no directory")
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
                                                               "no directory"])
        self.refused("mkdir", "-p", self.mine("f/below"), says=[self.mine("f"), "is no directory"])
        run("mkdir", self.mine("d"))
        self.refused("mv", self.mine("d"), self.mine("f"), says=["f?", "is no directory", "a new name"])

    def test_what_is_not_there(self):
        for command in ("cat", "ls", "stat"):
            self.refused(command, self.mine("d/none"),
                         says=["d/none?", "not found", f"ros2store ls '{self.mine('d')}'"])


if __name__ == "__main__":
    unittest.main()

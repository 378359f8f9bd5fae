"""Opens the pools that earlier builds made: checks each, compares its content, changes it, and checks it again.

usage: corpus_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from library import Container

PROGRAMS = Path(sys.argv.pop(1))
HERE = Path(__file__).parent


def run(*words, expect=0):
    done = subprocess.run([PROGRAMS / "ros2store", *map(str, words)], capture_output=True, text=True, check=False,
                          errors="surrogateescape", timeout=120)
    assert done.returncode == expect, f"{words}: status {done.returncode}: {done.stdout}{done.stderr}"
    return done


class Corpus(unittest.TestCase):
    def setUp(self):
        self.scratch = Path(tempfile.mkdtemp(prefix="ros2store-corpus-"))
        self.addCleanup(shutil.rmtree, self.scratch)
        os.environ["ROS2STORE_KEYS"] = str(self.scratch / "keys")

    def uri(self, label, path=""):
        return f"ros2s+local:///pool/{label}/{path}?dir={self.scratch / 'pool'}"

    def check(self):
        done = json.loads(run("--json", "pool", "check", "--data", self.scratch / "pool").stdout)
        self.assertEqual((done["problems"], done["not_judged"]), ([], []))
        return {each["container"]: each for each in done["containers"]}

    def compare(self, container, listed):
        for path, each in listed["content"].items():
            with self.subTest(path):
                if each["type"] == "file":
                    content = container.read(path, each["bytes"])
                    self.assertEqual((len(content), hashlib.sha256(content).hexdigest()),
                                     (each["bytes"], each["sha256"]))
                elif each["type"] == "link":
                    self.assertEqual(container.readlink(path), each["target"])
        for path, named in listed["attributes"].items():
            for name, value in named.items():
                self.assertEqual(container.getxattr(path, name).hex(), value, (path, name))

    def open_pool(self, archive):
        listed = json.loads(archive.with_name(archive.name.replace(".tar.xz", ".json")).read_text())
        subprocess.run(["tar", "--extract", "--file", archive, "--directory", self.scratch, "--no-same-owner"],
                       check=True)
        before = self.check()
        for label, each in listed["containers"].items():
            kinds = [entry["type"] for entry in each["content"].values()]
            files = before[label]["files"]
            self.assertEqual(files["names"], len(kinds))
            self.assertEqual(files["directories"], kinds.count("directory") + 1)
            self.assertEqual(files["without_name"], listed["orphans"].get(label, 0))
        for label, each in listed["containers"].items():
            container = Container(PROGRAMS, self.uri(label))
            self.compare(container, each)
            container.write("made by a later build", b"x" * 10000)
            container.close()
        after = self.check()
        for label in listed["containers"]:
            self.assertEqual(after[label]["files"]["names"], before[label]["files"]["names"] + 1)
            self.assertEqual(after[label]["files"]["without_name"], 0)


for each in sorted(HERE.glob("*.tar.xz")):
    setattr(Corpus, f"test_pool_{each.name.removesuffix('.tar.xz').replace('.', '_').replace('-', '_')}",
            lambda self, archive=each: self.open_pool(archive))

if __name__ == "__main__":
    unittest.main()

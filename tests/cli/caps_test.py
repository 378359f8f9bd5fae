"""Tests caps of containers: what they refuse, what still works, and which commands show them.

usage: caps_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import unittest

from program import WithPool, answer, run


class Caps(WithPool):
    def test_write_beyond_the_cap_is_refused(self):
        full = f"ros2s+local:///pool/full?dir={self.pool}"
        made = answer("container", "create", full, "--space", "1MiB", "--files", "20")
        self.assertEqual((made["cap_bytes"], made["cap_values"]), (1 << 20, 40))
        large, small = self.scratch / "large", self.scratch / "small"
        large.write_bytes(b"l" * (2 << 20))
        small.write_bytes(b"s" * 5000)
        self.refused("cp", large, self.uri("large", "full"),
                     says=["has used all the space it may", "container query", "raise the cap"])
        run("cp", small, self.uri("small", "full"))
        before = answer("container", "query", full)
        self.assertEqual(before["cap_bytes"], 1 << 20)
        self.assertGreater(before["used_bytes"], 8192)
        self.assertLess(before["used_bytes"], 1 << 20)
        self.assertRegex(run("container", "query", full).stdout, r"used +[0-9.]+ KiB of 1 MiB, \d+ files of 20")
        self.assertIn(" of 1 MiB", run("container", "list", self.pool).stdout)
        # The change takes effect at once. Other containers are not affected.
        run("container", "set", full, "--space", "4MiB", "--files", "0")
        run("cp", large, self.uri("large", "full"))
        run("cp", large, self.mine("large"))
        # A cap below the present use keeps the data, and allows removals.
        run("container", "set", full, "--space", "4096")
        self.refused("cp", small, self.uri("another", "full"), says="has used all the space it may")
        run("rm", self.uri("large", "full"), self.uri("small", "full"))
        self.assertLess(answer("container", "query", full)["used_bytes"], 4096)
        self.refused("container", "set", full, says="nothing to change")
        self.refused("container", "set", full, "--space", "lots", says="--space: 'lots' is not a size")
        run("container", "destroy", "--yes", full)

    def test_files_are_counted(self):
        few = f"ros2s+local:///pool/few?dir={self.pool}"
        run("container", "create", few, "--files", "10")
        (self.scratch / "many").mkdir()
        for i in range(20):
            (self.scratch / "many" / str(i)).touch()
        self.refused("cp", "-r", self.scratch / "many", self.uri("many", "few"), says="has used all the space it may")
        query = answer("container", "query", few)
        self.assertLessEqual(query["used_values"], 20)
        self.assertGreater(query["used_values"], 10)
        run("rm", "-r", self.uri("many", "few"))
        run("container", "destroy", "--yes", few)


if __name__ == "__main__":
    unittest.main()

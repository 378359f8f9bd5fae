#!/usr/bin/env python3
"""usage: bans_test.py SOURCE_DIRECTORY

That the lint's rule on READMEs of modules finds what it is for."""
import sys
import unittest

sys.path.insert(0, f"{sys.argv.pop(1)}/tools/dev")
import bans  # noqa: E402

MODULES = ["ros2_module(base", "  HEADERS bytes.h)", "ros2_module(api/c PUBLIC api)", "# ros2_module(no)"]


class ModulesWithoutReadme(unittest.TestCase):
    def complaints(self, **readmes):
        texts = {"CMakeLists.txt": MODULES, "tests/layers/CMakeLists.txt": ["ros2_module(low)"]}
        texts |= {f"src/ros2s/{name.replace('_', '/')}/README.md": lines for name, lines in readmes.items()}
        return bans.modules_without_readme(texts)

    def test_each_module_has_one(self):
        self.assertEqual(self.complaints(base=["# base: values"], api_c=["# api/c", "", "text"]), [])

    def test_a_missing_one(self):
        found = self.complaints(base=["# base: values"])
        self.assertEqual(len(found), 1, found)
        self.assertIn("src/ros2s/api/c/README.md", found[0])

    def test_one_that_was_laid_out_as_code(self):
        for first in (["#base : values"], [], ["", "# base"], ["## base"]):
            with self.subTest(first=first):
                found = self.complaints(base=first, api_c=["# api/c"])
                self.assertEqual(len(found), 1, found)
                self.assertIn("src/ros2s/base/README.md", found[0])


if __name__ == "__main__":
    unittest.main()

"""Tests that the generated pages are those that the programs and the results file give (`./dev docs`).

usage: docs_test.py BUILD CHECKOUT"""

import json
import os
import sys
import unittest
from pathlib import Path

CHECKOUT = Path(sys.argv.pop(2))
BUILD = Path(sys.argv.pop(1))
sys.path.insert(0, str(CHECKOUT / "tools/dev"))

import docs  # noqa: E402
from bench import page  # noqa: E402


class Pages(unittest.TestCase):
    def setUp(self):
        os.chdir(CHECKOUT)

    def test_each_is_up_to_date(self):
        for file, text in docs.pages(BUILD):
            with self.subTest(file=file):
                self.assertEqual(file.read_text(encoding="utf-8"), text, "write it anew: ./dev docs")

    def test_settings_that_both_daemons_have_are_shown_once(self):
        shown = docs.settings(BUILD)
        self.assertEqual(shown.count("- `trace_every`: "), 1)
        self.assertIn("\n- As an engine's: `poll`, `drain`, ", shown)

    def test_each_setting_of_a_file_is_an_entry(self):
        self.assertEqual(list(map(str, docs.told('# What.\n# part: of it.\n# access:\n#   "CN=a": {part: b}'))),
                         ["\n### `access`", "What.", "- `part`: of it.", '\n      "CN=a": {part: b}'])
        self.assertEqual(list(map(str, docs.told("# What.\n# io:\n  # How.\n  # Number.\n#   poll: 5\n  # Which. Text.\n#   end: \"\""))),
                         ["\n### `io`", "What.", "- `poll`: How. Number.", "- `end`: Which."])


class Figures(unittest.TestCase):
    ROW = {"mode": "embedded", "provider": None, "workload": "randread", "bs": 4096, "iodepth": 1, "ratio_to_raw": 0.9}

    def goals(self, row):
        return "\n".join(page.goals({"quick": page.Run({"rows": [row]})}))

    def test_a_goal_is_compared_with_the_newest_value(self):
        self.assertIn("0 of 1 goals", self.goals(self.ROW))
        self.assertIn("| **0.90** (≥ 0.97) |", "\n".join(page.ratio_table(page.Run({"rows": [self.ROW]}), goals=page.RATIO_GOALS)))
        self.assertIn("1 of 1 goals", self.goals(self.ROW | {"ratio_to_raw": 0.97}))

    def test_a_goal_without_a_value_is_left_out(self):
        self.assertIn("0 of 0 goals", self.goals(self.ROW | {"ratio_to_raw": None}))

    def test_a_recorded_run_replaces_the_last_one_of_its_kind(self):
        results = json.loads((CHECKOUT / page.RESULTS).read_text(encoding="utf-8"))
        results["runs"]["quick"]["rows"][0]["bytes_per_s"] = 12345 << 20
        self.assertIn("| raw | 12,345 MiB/s |", page.text(results))


if __name__ == "__main__":
    unittest.main()

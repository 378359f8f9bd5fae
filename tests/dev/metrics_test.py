"""Every metric that docs/grafana.json and docs/monitoring.md name is one that a daemon has, and the dashboard
has the form that Grafana loads.

usage: metrics_test.py CHECKOUT"""

import json
import re
import sys
import unittest
from pathlib import Path

CHECKOUT = Path(sys.argv.pop(1))
DASHBOARD = json.loads((CHECKOUT / "docs/grafana.json").read_text(encoding="utf-8"))
NAME = re.compile(r"\bros2store_[a-z_]+")
PANELS = {"timeseries", "stat", "gauge", "table", "bargauge", "barchart", "heatmap"}  # of Grafana itself, with queries


def metrics():
    """Those that the sources list, and the series of those that are histograms."""
    found = set()
    for folder in ("src", "apps"):
        for source in (CHECKOUT / folder).rglob("*.[ch]*"):
            # Only `ros2store top` and tests read these.
            if source.suffix in (".h", ".cc") and not (source.stem.endswith("_test")
                                                       or "cli" in source.parts):
                found |= set(re.findall(r'"(ros2store_[a-z_]+)"', source.read_text(encoding="utf-8")))
    return found | {f"{name}_{part}" for name in found if name.endswith("_seconds")
                    for part in ("bucket", "sum", "count")}


class Metrics(unittest.TestCase):
    def test_the_dashboards_exist(self):
        named = set()
        for panel in DASHBOARD["panels"]:
            for target in panel["targets"]:
                here = NAME.findall(target["expr"])
                self.assertTrue(here, panel["title"])
                named |= set(here)
        for variable in DASHBOARD["templating"]["list"]:
            named |= set(NAME.findall(variable.get("definition", "")))
        self.assertEqual(named - metrics(), set())

    def test_those_of_top_exist(self):
        source = (CHECKOUT / "apps/cli/top/rates.cc").read_text(encoding="utf-8")
        named = set(re.findall(r'"(ros2store_[a-z_]+)"', source))
        self.assertGreater(len(named), 8)
        self.assertEqual(named - metrics(), set())

    def test_those_of_the_documentation_exist(self):
        named = set(NAME.findall((CHECKOUT / "docs/monitoring.md").read_text(encoding="utf-8")))
        self.assertEqual(named - metrics(), set())


class Dashboard(unittest.TestCase):
    def test_its_form(self):
        self.assertGreaterEqual(DASHBOARD["schemaVersion"], 30)
        panels = DASHBOARD["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = set()
        for panel in panels:
            place = panel["gridPos"]
            cells = {(place["x"] + x, place["y"] + y)
                     for x in range(place["w"]) for y in range(place["h"])}
            self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells
        variables = {each["name"] for each in DASHBOARD["templating"]["list"]} | {"__rate_interval"}
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels)))
        self.assertEqual(used - variables, set())

    # Fields that Grafana reads on import (Grafana's model of a dashboard). A panel with a type that is not
    # installed, with a missing data source or with a query without a name shows nothing.
    def test_a_grafana_can_load_it(self):
        self.assertTrue(DASHBOARD["title"])
        self.assertRegex(DASHBOARD["uid"], r"^[\w-]{1,40}$")
        self.assertNotIn("id", DASHBOARD)  # the number in one Grafana; an import gives it
        self.assertEqual(set(DASHBOARD["time"]), {"from", "to"})
        self.assertIsInstance(DASHBOARD["annotations"]["list"], list)
        for panel in DASHBOARD["panels"]:
            with self.subTest(panel=panel["title"]):
                self.assertIsInstance(panel["id"], int)
                self.assertIn(panel["type"], PANELS)
                self.assertEqual(set(panel["gridPos"]), set("xywh"))
                self.assertTrue(all(isinstance(each, int) and each >= 0 for each in panel["gridPos"].values()))
                self.assertGreater(min(panel["gridPos"]["w"], panel["gridPos"]["h"]), 0)
                self.assertIsInstance(panel["fieldConfig"]["defaults"], dict)
                self.assertIsInstance(panel["fieldConfig"]["overrides"], list)
                self.assertTrue(panel["targets"])
                self.assertEqual(len({target["refId"] for target in panel["targets"]}), len(panel["targets"]))
                self.assert_source(panel)
                for target in panel["targets"]:
                    self.assertTrue(target["expr"].strip())
                    self.assert_source(target)

    def test_its_variables(self):
        variables = DASHBOARD["templating"]["list"]
        self.assertEqual(len({each["name"] for each in variables}), len(variables))
        sources = [each for each in variables if each["type"] == "datasource"]
        self.assertEqual([(each["name"], each["query"]) for each in sources], [("source", "prometheus")])
        for each in variables:
            self.assertIn(each["type"], ("datasource", "query"))
            if each["type"] == "query":
                self.assert_source(each)
                self.assertEqual(each["query"]["query"], each["definition"])
                self.assertTrue(each["query"]["refId"])

    def assert_source(self, user):
        """It asks the data source that the viewer chooses."""
        self.assertEqual(user["datasource"], {"type": "prometheus", "uid": "${source}"})

    def test_brackets_close(self):
        for panel in DASHBOARD["panels"]:
            for target in panel["targets"]:
                for pair in ("()", "{}", "[]"):
                    self.assertEqual(*(target["expr"].count(each) for each in pair), target["expr"])


if __name__ == "__main__":
    unittest.main()

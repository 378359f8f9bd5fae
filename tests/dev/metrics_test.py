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
SOURCE = {"type": "prometheus", "uid": "${source}"}  # the one that the viewer chooses
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
    def test_metrics_of_the_dashboards_exist(self):
        named = set()
        for panel in DASHBOARD["panels"]:
            for target in panel["targets"]:
                here = NAME.findall(target["expr"])
                self.assertTrue(here, panel["title"])
                named |= set(here)
        for variable in DASHBOARD["templating"]["list"]:
            named |= set(NAME.findall(variable.get("definition", "")))
        self.assertEqual(named - metrics(), set())

    def test_metrics_of_top_exist(self):
        source = (CHECKOUT / "apps/cli/top/rates.cc").read_text(encoding="utf-8")
        named = set(re.findall(r'"(ros2store_[a-z_]+)"', source))
        self.assertGreater(len(named), 8)
        self.assertEqual(named - metrics(), set())

    def test_metrics_of_the_documentation_exist(self):
        named = set(NAME.findall((CHECKOUT / "docs/monitoring.md").read_text(encoding="utf-8")))
        self.assertEqual(named - metrics(), set())


class Dashboard(unittest.TestCase):
    def test_dashboard_is_well_formed(self):
        panels = DASHBOARD["panels"]
        self.assertGreaterEqual(DASHBOARD["schemaVersion"], 30)
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        variables = {each["name"] for each in DASHBOARD["templating"]["list"]} | {"__rate_interval"}
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels)))
        self.assertEqual(used - variables, set())

    # A panel with a type that is not installed, with a missing data source or with a query without a name shows nothing.
    def test_a_grafana_can_load_it(self):
        for panel in DASHBOARD["panels"]:
            with self.subTest(panel=panel["title"]):
                self.assertIn(panel["type"], PANELS)
                self.assertTrue(panel["targets"])
                self.assertEqual(len({target["refId"] for target in panel["targets"]}), len(panel["targets"]))
                for user in (panel, *panel["targets"]):
                    self.assertEqual(user["datasource"], SOURCE)
        for each in DASHBOARD["templating"]["list"]:
            if each["type"] == "query":
                self.assertEqual((each["datasource"], each["query"]["query"]), (SOURCE, each["definition"]))

    def test_brackets_close(self):
        for panel in DASHBOARD["panels"]:
            for target in panel["targets"]:
                for pair in ("()", "{}", "[]"):
                    self.assertEqual(*(target["expr"].count(each) for each in pair), target["expr"])


if __name__ == "__main__":
    unittest.main()

"""Tests the access rights in the package: each daemon has its own user and certificates that the other cannot
read. The metrics are not public.

usage: units_test.py SOURCES DIRECTORY-OF-THE-PROGRAMS"""

import re
import subprocess
import sys
import unittest
from pathlib import Path

SOURCES, PROGRAMS = (Path(sys.argv.pop(1)) for _ in range(2))


def unit(daemon):
    text = (SOURCES / f"apps/{daemon}/ros2store-{daemon}.service").read_text(encoding="utf-8")
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))


def settings(daemon):
    """Returns all settings, including the defaults, which are in comments: (group, name) to value."""
    said = subprocess.run([PROGRAMS / f"ros2store-{daemon}", "--print-config"], check=True, text=True,
                          capture_output=True).stdout
    values, group = {}, ""
    for line in said.splitlines():
        if header := re.fullmatch(r"(?:# )?(\w+):", line):
            group = header[1]
        elif setting := re.fullmatch(r'#?\s+(\w+): "(.*)"', line):
            values[group, setting[1]] = setting[2]
    return values


class Packaged(unittest.TestCase):
    def test_each_daemon_has_its_own_user_and_directories(self):
        engine, dpu = unit("engine"), unit("dpu")
        users = (SOURCES / "src/service/daemon/ros2store.sysusers").read_text(encoding="utf-8")
        for own in (engine, dpu):
            self.assertRegex(users, rf"(?m)^u {own['User']} ")
        for setting in ("User", "Group", "RuntimeDirectory"):
            self.assertNotEqual(engine[setting], dpu[setting])
        # The groups of one daemon give no access to pools or keys of the other.
        self.assertEqual((engine["StateDirectoryMode"], dpu["StateDirectoryMode"]), ("0700", "0700"))
        sockets = {daemon: settings(daemon)["data", "listen"] for daemon in ("engine", "dpu")}
        for daemon, own in (("engine", engine), ("dpu", dpu)):
            self.assertTrue(sockets[daemon].startswith(f"shm /run/{own['RuntimeDirectory']}/"))

    def test_units_refuse_no_call_that_their_daemon_makes(self):
        # systemd refuses every openat2(2), because its flags are in memory.
        self.assertNotIn("RestrictSUIDSGID", unit("dpu"))
        for daemon in ("engine", "dpu"):
            self.assertRegex(unit(daemon)["SystemCallFilter"], "^@system-service ")

    def test_a_slow_start_is_no_failure(self):
        self.assertEqual(unit("engine")["TimeoutStartSec"], "infinity")
        self.assertEqual(unit("dpu")["StartLimitIntervalSec"], "0")
        self.assertIn("ros2store-engine.service", unit("dpu")["After"])

    def test_no_certificate_is_for_both_sides(self):
        places = [settings("engine")["control", "certificates"],
                  settings("dpu")["engine", "certificates"],
                  settings("dpu")["control", "certificates"]]
        self.assertEqual(len(set(places)), 3)
        package = (SOURCES / "tools/dev/package.py").read_text(encoding="utf-8")
        for place in places:
            self.assertIn(f'"{place.removeprefix("/etc/ros2store/")}"', package)

    def test_metrics_are_for_nobody_by_default(self):
        for daemon in ("engine", "dpu"):
            self.assertEqual(settings(daemon)["metrics", "listen"], "")


if __name__ == "__main__":
    unittest.main()

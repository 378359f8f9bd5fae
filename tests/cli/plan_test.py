"""Tests `ros2store plan`: the examples of docs/planning.md, its answer for programs, and what it refuses.

usage: plan_test.py DIRECTORY-OF-THE-PROGRAMS SOURCES [unittest options]"""

import json
import shlex
import sys
import unittest
from pathlib import Path

from program import Refusal, answer, run

SOURCES = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else Path()
COSTS = SOURCES / "docs" / "costs.json"
DEMAND = ("--gpus", "1024", "--rate", "2000", "--sample", "150kB")


def examples(page):
    """Yields the commands of a page that begin with `$ ros2store plan`, and the lines below each."""
    command, below = None, []
    for line in [*page.splitlines(), ""]:
        if command and not line.startswith("    "):
            yield command, below
            command, below = None, []
        if line.startswith("    $ ros2store plan"):
            command = shlex.split(line)[2:]
        elif command:
            below.append(line[4:])


class Examples(unittest.TestCase):
    def test_the_page_shows_what_is_printed(self):
        found = list(examples((SOURCES / "docs" / "planning.md").read_text(encoding="utf-8")))
        self.assertGreaterEqual(len(found), 2)
        for command, shown in found:
            said = run(*command, cwd=SOURCES).stdout
            lines = [line if not line.startswith("costs: ") else "costs: …" for line in said.splitlines()]
            self.assertEqual(lines, shown, "docs/planning.md should show:\n" + "\n".join(
                f"    {line}".rstrip() for line in lines))
            self.assertLessEqual(len(lines), 40)


class Answer(unittest.TestCase):
    def test_json_has_the_same_plan(self):
        made = answer("plan", *DEMAND)
        self.assertEqual((made["bytes_per_s"], made["hosts"], made["backend"]), (1024 * 2000 * 150e3, 128, "engine"))
        self.assertEqual(len(made["resources"]), 9)
        shares = [each["share"] for each in made["resources"]]
        self.assertEqual(shares, sorted(shares, reverse=True))
        self.assertLessEqual(shares[0], 0.8)
        self.assertEqual(made["full_first"], f"{made['resources'][0]['machine']}: {made['resources'][0]['resource']}")
        self.assertEqual(made["costs_commit"], json.loads(COSTS.read_text())["measured"]["commit"])

    def test_each_provider_of_the_file_has_a_plan(self):
        keys = json.loads(COSTS.read_text())["requests"]
        providers = {key.split("/")[2] for key in keys if key.startswith("offload/engine/")}
        self.assertIn("ucx+tcp", providers)
        for provider in providers:
            self.assertEqual(answer("plan", *DEMAND, "--provider", provider)["provider"], provider)


class Files(Refusal):
    def test_a_hardware_file_changes_the_plan(self):
        file = self.scratch / "hardware.yaml"
        file.write_text("host: {gpus: 4}\nserver:\n  network_gbits: 200\n")
        made = answer("plan", *DEMAND, "--hardware", file)
        self.assertEqual((made["hosts"], made["servers"]), (256, 2 * answer("plan", *DEMAND)["servers"]))

    def test_published_costs_of_another_back_end(self):
        costs = json.loads(COSTS.read_text())
        for work in ("read-4096", "read-1048576"):
            own = costs["requests"][f"offload/engine/ucx+tcp/{work}"]
            costs["requests"][f"offload/rados/ucx+tcp/{work}"] = own | {"source": "a test", "server_us": 1000}
        file = self.scratch / "costs.json"
        file.write_text(json.dumps(costs))
        made = answer("plan", *DEMAND, "--backend", "rados", "--costs", file)
        self.assertEqual(made["backend"], "rados")
        self.assertNotIn("engines", made)
        cores = next(each for each in made["resources"] if each["machine"] == "server" and each["resource"] == "cores")
        self.assertAlmostEqual(cores["asked"], 1024 * 2000 * 1000 / 1e6)
        said = run("plan", *DEMAND, "--backend", "rados", "--costs", file).stdout
        self.assertIn("source of these costs: a test", said)


class Refused(Refusal):
    def test_numbers(self):
        for option, values in (("--gpus", ("0", "-1", "1.5", "x", "1e3", "99999999999999999999")),
                               ("--rate", ("0", "-1", "nan", "inf", "1e400", "x", "2e9")),
                               ("--sample", ("0", "-1", "x", "1.5M", "99999999999999999999T"))):
            for value in values:
                words = list(DEMAND)
                words[words.index(option) + 1] = value
                with self.subTest(option=option, value=value):
                    self.refused("plan", *(f"{name}={text}" for name, text in zip(words[::2], words[1::2])),
                                 says=[f"{option} takes ", f"not '{value}'"])
        self.refused("plan", "--gpus", "10000000", "--rate", "1e9", "--sample", "1024TiB", says="check the units")

    def test_options(self):
        self.refused("plan", "--gpus", "8", "--rate", "1", says="--sample is required", status=2)
        self.refused("plan", *DEMAND, "--backend", "ceph", says="--backend takes engine, rados or daos, not 'ceph'")

    def test_costs_that_nobody_measured(self):
        for backend in ("rados", "daos"):
            self.refused("plan", *DEMAND, "--backend", backend,
                         says=[f"no cost of read-4096 with {backend} behind the DPU", "add what you measured"])
        self.refused("plan", *DEMAND, "--provider", "ucx+rc", says=["over ucx+rc", "there are costs of"])

    def test_files(self):
        missing = self.scratch / "missing"
        for option in ("--hardware", "--costs"):
            self.refused("plan", *DEMAND, option, missing, says=[f"{missing}: not found", "leave the option out"])
            self.refused("plan", *DEMAND, option, self.scratch, says=f"{self.scratch}: ")
        file = self.scratch / "file"
        for text, says in (("dpu:\n  core: 3\n", f"{file}:2: there is no setting \"core\" in \"dpu\"; did you mean"),
                           ("dpu:\n  cores: 0\n", f"{file}:2: dpu.cores: "),
                           ("server: [1]\n", f"{file}:1: ")):
            file.write_text(text)
            self.refused("plan", *DEMAND, "--hardware", file, says=says)
        file.write_text('{"version": 9}')
        self.refused("plan", *DEMAND, "--costs", file, says=f"{file}:1: version: ")
        file.write_bytes(b"\0" * 3_000_000)
        self.refused("plan", *DEMAND, "--costs", file, says=f"{file}: ")


if __name__ == "__main__":
    unittest.main()

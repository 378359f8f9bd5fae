"""Tests `ros2store plan`: the example of docs/planning.md, its answer for programs, and what it refuses.

usage: plan_test.py DIRECTORY-OF-THE-PROGRAMS SOURCES [unittest options]"""

import json
import shlex
import sys
import unittest
from pathlib import Path

from program import Refusal, answer, run

SOURCES = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else Path()
COSTS = SOURCES / "tests" / "cli" / "costs.json"  # as ./dev bench costs once wrote it, for fixed figures
DEMAND = ("--gpus", "1024", "--rate", "2000", "--sample", "150kB")


def planned(*options, costs=COSTS):
    return answer("plan", *DEMAND, "--costs", costs, *options)


class Example(unittest.TestCase):
    def test_the_example_is_what_is_printed(self):
        command, *shown = (SOURCES / "tests/cli/plan_example.txt").read_text(encoding="utf-8").splitlines()
        said = run(*shlex.split(command)[2:], cwd=SOURCES).stdout
        lines = [line if not line.startswith("costs: ") else "costs: …" for line in said.splitlines()]
        self.assertEqual(lines, shown, "tests/cli/plan_example.txt should have:\n" + "\n".join(lines))


class Answer(unittest.TestCase):
    def test_json_has_the_same_plan(self):
        made = planned()
        self.assertEqual((made["bytes_per_s"], made["hosts"], made["backend"]), (1024 * 2000 * 150e3, 128, "engine"))
        self.assertEqual(len(made["resources"]), 9)
        shares = [each["share"] for each in made["resources"]]
        self.assertEqual(shares, sorted(shares, reverse=True))
        self.assertLessEqual(shares[0], 0.8)
        self.assertEqual(made["full_first"], f"{made['resources'][0]['machine']}: {made['resources'][0]['resource']}")

    def test_the_costs_of_the_build_are_those_of_the_documents(self):
        costs = json.loads((SOURCES / "docs" / "costs.json").read_text(encoding="utf-8"))
        self.assertEqual(answer("plan", *DEMAND)["costs_commit"], costs["measured"]["commit"])
        for provider in {key.split("/")[2] for key in costs["requests"] if key.startswith("offload/engine/")}:
            self.assertEqual(answer("plan", *DEMAND, "--provider", provider)["provider"], provider)


class Files(Refusal):
    def changed_costs(self, change):
        """Returns a file of costs, changed by a function of the parsed one."""
        costs = json.loads(COSTS.read_text(encoding="utf-8"))
        change(costs)
        file = self.scratch / "costs.json"
        file.write_text(json.dumps(costs), encoding="utf-8")
        return file

    def test_a_hardware_file_changes_the_plan(self):
        file = self.scratch / "hardware.yaml"
        file.write_text("host: {gpus: 4}\nserver:\n  network_gbits: 200\n")
        made = planned("--hardware", file)
        self.assertEqual((made["hosts"], made["servers"]), (256, 2 * planned()["servers"]))

    def test_rados(self):
        made = planned("--backend", "rados")
        self.assertEqual((made["backend"], made["provider"], made["copies"]), ("rados", "tcp", 3))
        self.assertEqual((made["osds"], made["devices"]), (16 * made["servers"], 16 * made["servers"]))
        self.assertAlmostEqual(made["usable_bytes"] / (made["devices"] * 15.36e12 / 3), 1)
        self.assertNotIn("engines", made)
        self.assertNotIn("osds", planned())
        said = run("plan", *DEMAND, "--backend", "rados", "--costs", COSTS).stdout
        self.assertIn("of data with its copies: 3\n", said)
        self.assertIn("source of these costs: measured\n", said)
        hardware = self.scratch / "hardware.yaml"
        hardware.write_text("rados: {copies: 2}\nserver: {devices: 8}\n")
        halved = planned("--backend", "rados", "--hardware", hardware)
        self.assertAlmostEqual(halved["usable_bytes"] / (halved["servers"] * 8 * 15.36e12 / 2), 1)
        one = answer("plan", "--gpus", "8", "--rate", "1", "--sample", "4096", "--backend", "rados", "--costs", COSTS)
        self.assertEqual(one["servers"], 3, "a server for each copy")

    def test_published_costs_of_another_back_end(self):
        def publish(costs):
            for work in ("read-4096", "read-1048576"):
                costs["requests"][f"offload/daos/tcp/{work}"] = costs["requests"][f"offload/engine/ucx+tcp/{work}"] | {
                    "source": "a test", "server_us": 1000}

        file = self.changed_costs(publish)
        made = planned("--backend", "daos", costs=file)
        self.assertEqual(made["backend"], "daos")
        self.assertNotIn("engines", made)
        cores = next(each for each in made["resources"] if each["machine"] == "server" and each["resource"] == "cores")
        self.assertAlmostEqual(cores["asked"], 1024 * 2000 * 1000 / 1e6)
        said = run("plan", *DEMAND, "--backend", "daos", "--costs", file).stdout
        self.assertIn("source of these costs: a test (not measured by ./dev bench costs)", said)

    def test_costs_of_a_busy_machine_have_a_warning(self):
        def measured(machine, load):
            def change(costs):
                costs["measured"] |= {"machine": machine, "load": load}
            return self.changed_costs(change)

        busy = measured("2 cores of a processor", "17.79 before, 25.65 after")
        lines = run("plan", *DEMAND, "--costs", busy).stderr.splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(f"warning: other programs used the machine that measured {busy} (load 17.79 before, 25.65 after; "
                      "2 cores of a processor), so this plan may ask for more than is needed", lines[0])
        self.assertIs(planned(costs=busy)["costs_under_load"], True)
        quiet = measured("2 cores of a processor", "0.31 before, 6.2 after")
        self.assertEqual(run("plan", *DEMAND, "--costs", quiet).stderr, "")
        self.assertIs(planned(costs=quiet)["costs_under_load"], False)


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
                                 says=[f"{option} takes ", f"the given value is '{value}'"])
        self.refused("plan", "--gpus", "10000000", "--rate", "1e9", "--sample", "1024TiB", says="check the units")

    def test_options(self):
        self.refused("plan", "--gpus", "8", "--rate", "1", says="--sample is required", status=2)
        self.refused("plan", *DEMAND, "--backend", "ceph", says="--backend takes engine, rados or daos, not 'ceph'")

    def test_costs_that_nobody_measured(self):
        empty = self.scratch / "empty.json"
        empty.write_text('{"version": 1}')
        for backend, remedy in (("engine", "write the file with ./dev bench costs"),
                                ("rados", "./dev bench costs --costs FILE where Ceph's packages are"),
                                ("daos", "name it by --costs")):
            self.refused("plan", *DEMAND, "--backend", backend, "--costs", empty,
                         says=[f"{empty} has no cost of read-4096 with {backend} behind the DPU over ", remedy])
        self.refused("plan", *DEMAND, "--backend", "daos", says="nothing here measures DAOS")
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

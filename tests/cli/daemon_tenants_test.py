"""Tests certificates, tenants and what they may do at daemons that `ros2store up` started.

usage: daemon_tenants_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import os
import time
import unittest
from pathlib import Path

from daemons import SIZE, WithDirectory, answer, run, wait_until


class Tenants(WithDirectory):
    def test_certificates_that_soon_end_are_renewed(self):
        self.up("--size", SIZE)
        certs = self.pool / "certs/storage"
        run("certs", "issue", certs, "client", "--replace", "--days", "1")
        before = (certs / "server.crt").read_bytes()
        self.assertIn(f"{certs}/client.crt: renewed", run("up", self.pool).stdout)
        left = answer("certs", "show", certs / "client.crt")["expires"]
        self.assertNotEqual(left[:10], time.strftime("%Y-%m-%d", time.gmtime(time.time() + 86400)))
        self.assertEqual((certs / "server.crt").read_bytes(), before)
        self.assertEqual(answer("status", self.pool)["containers"], ["main"])

    def test_engine_keeps_tenants(self):
        self.up("--size", SIZE)
        files = f"ros2s+dpu:///pool/main?socket={self.pool}/run/dpu.control"
        environment = self.client("hosts", "alice")

        def sees(expected):
            """Waits until the DPU has the change, which takes a second at most."""
            until = time.monotonic() + 10
            while run("ls", files, env=environment, expect=None).returncode != (0 if expected else 1):
                self.assertLess(time.monotonic(), until)
                time.sleep(0.05)

        self.assertEqual([each["name"] for each in answer("tenant", "list", self.pool)["tenants"]], ["client"])
        sees(False)
        run("tenant", "create", self.pool, "alice", "--subject", "CN=alice", "--write", "main, alice-*",
            "--weight", "4")
        sees(True)
        self.assertEqual(answer("tenant", "list", self.pool)["tenants"][:1], [
            {"name": "alice", "state": "active", "generation": 1, "owns_as": "alice",
             "settings": {"subjects": "CN=alice", "weight": "4", "write": "main, alice-*"}}])
        run("tenant", "set", self.pool, "alice", "--weight", "", "--until", "2020-01-01")
        sees(False)
        engine = f"ros2s:///pool/main?dir={self.pool}"
        shown = answer("tenant", "show", engine, "alice")
        self.assertEqual((shown["state"], shown["generation"]), ("expired", 2))
        self.assertNotIn("weight", shown["settings"])
        run("tenant", "set", self.pool, "alice", "--until", "", "--sessions", "8", "--handles", "1000",
            "--requests-in-flight", "16", "--bytes-in-flight", "64MiB")
        sees(True)
        self.assertRegex(run("tenant", "show", self.pool, "alice").stdout, "  bytes_in_flight +64MiB\n")
        run("tenant", "set", self.pool, "alice", "--sessions", "none", "--bytes-in-flight", "none")
        settings = answer("tenant", "show", self.pool, "alice")["settings"]
        self.assertEqual([each for each in settings if each not in ("subjects", "write")],
                         ["handles", "requests_in_flight"])
        run("tenant", "revoke", self.pool, "alice")
        sees(False)
        self.assertRegex(run("tenant", "list", self.pool).stdout, "alice +revoked +CN=alice")

        self.assertEqual(shown["capabilities"], [])
        one = "1b4e28ba-2fa1-4d2b-883f-0016d3cca427"
        said = run("tenant", "revoke", self.pool, "alice", "--capability", one).stdout
        self.assertIn(f"capability {one} of the tenant alice: revoked; no session uses it now", said)
        self.assertRegex((self.pool / "tenants.yaml").read_text(), f'revoked_capabilities: "{one} [0-9]+"')
        self.refused("tenant", "revoke", self.pool, "alice", "--capability", "7",
                     says=["'7' is not the id of a capability", "tenant show"])
        self.refused("tenant", "revoke", self.pool, "eve", "--capability", one, says="no tenant 'eve'")
        keys = self.pool / "capability.keys"
        before = keys.read_text().splitlines()
        run("tenant", "rotate-key", self.pool)
        self.assertEqual(len(keys.read_text().splitlines()), len(before) + 1)
        self.assertEqual(keys.stat().st_mode & 0o777, 0o600)

        self.refused("tenant", "create", self.pool, "alice", "--subject", "CN=a",
                     says=["there is a tenant 'alice', which is revoked", "tenant set"])
        self.refused("tenant", "create", self.pool, "bob", "--subject", "CN=alice",
                     says=["'CN=alice' is a subject of the tenant 'alice'"])
        self.refused("tenant", "create", self.pool, "bob", says="--subject is required", status=2)
        self.refused("tenant", "create", self.pool, "bob", "--subject", "",
                     says=["'subjects' names no certificate", "certs show"])
        self.refused("tenant", "set", self.pool, "alice", "--weight", "x", says=["weight", "1 to 1000"])
        self.refused("tenant", "show", self.pool, "eve", says="no tenant 'eve'")

        # A new tenant can have the name of a removed one. It gets nothing of it.
        run("tenant", "create", self.pool, "carol", "--subject", "CN=carol", "--create", "c-*")
        self.refused("tenant", "remove", self.pool, "carol", says=["'carol' is not revoked", "tenant revoke"])
        run("tenant", "revoke", self.pool, "carol")
        said = run("tenant", "remove", self.pool, "carol").stdout
        self.assertRegex(said, "tenant carol of the pool 'pool': removed, generation 2\n.*`access:`.* belong to nobody")
        self.refused("tenant", "remove", self.pool, "carol", says="no tenant 'carol'")
        self.assertNotIn("carol", run("tenant", "list", self.pool).stdout)
        again = answer("tenant", "create", self.pool, "carol", "--subject", "CN=carol", "--create", "c-*")
        self.assertEqual((again["generation"], again["owns_as"]), (3, "carol#3"))
        self.assertRegex(run("tenant", "show", self.pool, "carol").stdout, "  owns as +carol#3\n")
        self.refused("tenant", "list", files, says=["does not name an engine", "ros2s://HOST:PORT/POOL"])
        # A file with one invalid setting is refused as a whole. The error names the line, the tenant and the setting.
        run("down", self.pool)
        self.refused("tenant", "list", self.pool, says=["no engine of", "ros2store up"])
        kept = self.pool / "tenants.yaml"
        kept.write_text(kept.read_text().replace('"main, alice-*"', '"/etc"'))
        line = 1 + kept.read_text().splitlines().index('    write: "/etc"')
        done = run("up", self.pool, expect=1)
        self.assertIn(f"tenants.yaml:{line}: 'alice': write: '/etc' is not the name of a container", done.stderr)
        kept.write_text(kept.read_text().replace('"/etc"', '"main"'))
        self.up()
        self.assertEqual(answer("tenant", "show", self.pool, "alice")["state"], "revoked")

    def test_clients_of_servers_have_containers_of_their_own(self):
        self.up("--size", SIZE)
        bob = self.client("storage", "bob")
        run("down", self.pool)
        settings = self.pool / "engine.yaml"
        text = settings.read_text()
        settings.write_text(text.replace('\naccess:\n', '\naccess:\n  "CN=bob": {create: "pool/bob-*"}\n'))
        self.assertNotEqual(settings.read_text(), text)
        self.up()
        alice, eve = self.client("hosts", "alice"), self.client("hosts", "eve")
        rights = ("--write", "alice-*", "--root-squash", "no")
        run("tenant", "create", self.pool, "alice", "--subject", "CN=alice", *rights, "--create", "alice-*",
            "--destroy", "alice-*")
        run("tenant", "create", self.pool, "eve", "--subject", "CN=eve", *rights)
        dpu = f"ros2s+dpu:///pool{{}}?socket={self.pool}/run/dpu.control"
        engine = f"ros2s:///pool{{}}?socket={self.pool}/run/engine.control"
        wait_until(lambda: run("container", "list", dpu.format(""), env=eve, expect=None).returncode == 0,
                   "the DPU knows the tenants")

        for uri, label, environment, encryption, refusal in (
                (dpu, "alice-1", alice, "unknown", "the tenant 'alice' has no right to create the container 'other'"),
                (engine, "bob-1", bob, "none", "may not create the container pool/other")):
            with self.subTest(uri=uri):
                one = uri.format(f"/{label}")
                made = answer("container", "create", one, "--space", "8MiB", env=environment)
                self.assertEqual((made["container"], made["uri"], made["encryption"]), (label, one, encryption))
                for place in (uri.format(""), one):
                    listed = answer("container", "list", place, env=environment)["containers"]
                    self.assertEqual([(each["uri"], each["id"], each["encryption"]) for each in listed],
                                     [(one, made["id"], encryption)])
                told = answer("container", "query", one, env=environment)
                self.assertEqual((told["id"], told["cap_bytes"]), (made["id"], 8 << 20))
                run("cp", __file__, uri.format(f"/{label}/file"), env=environment)
                self.assertEqual(run("cat", uri.format(f"/{label}/file"), env=environment).stdout,
                                 Path(__file__).read_text())
                self.refused("container", "create", one, env=environment, says=label)
                self.refused("container", "create", uri.format("/other"), env=environment, says=refusal)
                self.refused("container", "set", one, "--space", "9MiB", env=environment,
                             says="may not set owner and caps of containers")
                self.refused("container", "query", uri.format("/main"), env=environment, says="pool/main")
                run("container", "destroy", "--yes", one, env=environment)
                self.assertEqual(answer("container", "list", uri.format(""), env=environment)["containers"], [])

        # eve may write to containers of others.
        self.refused("container", "create", dpu.format("/alice-2"), env=eve,
                     says="refused: the tenant 'eve' has no right to create the container 'alice-2'")
        self.wait_for_line("dpu", "audit: CN=eve (unix:) was refused a capability of the pool 'pool'")
        for command in (("create", "--encryption", "aes-256-gcm"), ("rekey",)):
            self.refused("container", *command, "--key", "acme", dpu.format("/alice-2"), env=alice,
                         says=["is behind a DPU", "ros2s://engine:7400/pool/main", "encryption: new_containers"])
        self.refused("container", "list", dpu.format(""), env={**alice, "ROS2STORE_CERTS": str(self.scratch / "none")},
                     says="or name the directory that has them in ROS2STORE_CERTS")
        run("down", self.pool)
        self.refused("container", "list", f"ros2s+dpu:///pool?dir={self.pool}", says=f"ros2store up {self.pool}")

    def test_clock_set_back_revives_no_capability(self):
        """As if the clock were before the time up to which revocations were dropped. A command that the refusal names
        helps, if the clock is right now."""
        uris = self.up("--size", SIZE)["uris"]
        run("ls", uris["offload"])
        tenants = self.pool / "tenants.yaml"
        until = int(time.time()) + 3600
        for of_all in (False, True):
            run("down", self.pool)
            text = tenants.read_text()
            # Format 3 had one time for all tenants.
            later = text.replace("format: 1", f"format: 3\nclock_min: {until * 10**9}" if of_all else "format: 4")
            if not of_all:
                later = later.replace("    generation: 1\n", f"    generation: 1\n    clock_min: {until}\n")
            self.assertNotEqual(later, text)
            tenants.write_text(later)
            self.up()
            self.refused("ls", uris["offload"] + "&timeout=5", says="run `ros2store tenant set` for the tenant")
            self.wait_for_line("engine", "by the engine's clock, capabilities of its tenant are valid that were revoked")
            run("ls", uris["direct"])  # needs no capability
            run("tenant", "set", self.pool, "client")
            self.assertNotIn("clock_min", tenants.read_text())
            wait_until(lambda: run("ls", uris["offload"], expect=None).returncode == 0, "the tenant's rights")

    def test_the_dpu_has_no_rights_of_its_own(self):
        self.up("--size", SIZE)
        certs = self.pool / "certs"
        subjects = {each: answer("certs", "show", certs / each)["subject"]
                    for each in ("storage/server.crt", "dpu/client.crt", "storage/client.crt", "hosts/client.crt")}
        self.assertEqual(list(subjects.values()), ["CN=server", "CN=dpu", "CN=client", "CN=client"])
        self.assertEqual(len({(certs / each).read_bytes() for each in subjects}), 4)
        self.assertEqual(os.readlink(certs / "dpu/ca.crl"), "../storage/ca.crl")
        for each in ("ca.crl", "client.crt"):  # of a directory without them, or one that somebody removed
            (certs / "dpu" / each).unlink()
        run("down", self.pool)
        self.up()
        for each, target in (("ca.crl", "ca.crl"), ("client.crt", "dpu.crt")):
            self.assertEqual(os.readlink(certs / "dpu" / each), f"../storage/{target}")
        # An attacker who takes over the DPU has its certificate, which gives no access.
        engine = f"ros2s:///pool/main?socket={self.pool}/run/engine.control"
        dpu = {**os.environ, "ROS2STORE_CERTS": str(certs / "dpu")}
        for command in (("ls", engine), ("container", "list", engine), ("container", "create", engine.replace("main", "own"))):
            self.refused(*command, env=dpu, says="CN=dpu")
        self.refused("tenant", "create", engine, "eve", "--subject", "CN=dpu", "--write", "*", env=dpu,
                     says="CN=dpu")
        # The caps of a tenant apply to its hosts.
        run("tenant", "set", self.pool, "client", "--space", "1MiB")
        large = self.scratch / "large"
        large.write_bytes(b"l" * (2 << 20))
        uris = [f"{scheme}:///pool/capped{{}}?dir={self.pool}" for scheme in ("ros2s+dpu", "ros2s")]
        run("container", "create", uris[0].format(""))
        self.assertEqual(answer("container", "query", uris[1].format(""))["owner"], "client")
        run("container", "create", f"ros2s:///pool/direct?dir={self.pool}")
        self.assertEqual(answer("container", "query", f"ros2s:///pool/direct?dir={self.pool}")["owner"], "client")
        for uri in uris:
            self.refused("cp", large, uri.format("/file"), says="has used all the space it may")
        run("tenant", "set", self.pool, "client", "--space", "")
        run("cp", large, uris[0].format("/file"))
        # So does a revocation, also without the DPU.
        run("tenant", "revoke", self.pool, "client")
        for uri in uris:
            self.assertEqual(run("ls", uri.format(""), expect=None).returncode, 1)
        run("tenant", "set", self.pool, "client", "--space", "")
        for uri in uris:
            self.assertEqual(run("ls", uri.format("")).stdout, "file\n")

    def test_directory_of_an_earlier_build_is_served(self):
        """Its DPU has the user's certificate and rights, as its settings say, until they are made anew."""
        uri = self.up("--size", SIZE)["uris"]["offload"]
        run("down", self.pool)
        for each in ("certs/dpu/ca.crt", "certs/dpu/ca.crl", "certs/dpu/client.crt", "certs/dpu/client.key", "certs/storage/dpu.crt",
                     "certs/storage/dpu.key", "tenants.yaml"):
            (self.pool / each).unlink()
        engine, dpu = self.pool / "engine.yaml", self.pool / "dpu.yaml"
        engine.write_text(engine.read_text().replace('  delegates: "CN=dpu"\n', ""))
        text = dpu.read_text().replace('  access: "delegated"\n', "").replace("certs/dpu", "certs/storage")
        dpu.write_text(text + 'access: {"CN=client": {write: "pool/*", create: "pool/*"}}\n')
        before = engine.read_text(), dpu.read_text()
        self.up()
        self.assertEqual((engine.read_text(), dpu.read_text()), before)
        self.assertFalse((self.pool / "certs/storage/dpu.crt").exists())
        self.assertEqual(answer("tenant", "list", self.pool), {"tenants": []})
        run("cp", __file__, uri.replace("?", "/one?"))
        self.wait_for_line("engine", "opened by CN=client for store of pool pool")

        run("tenant", "create", self.pool, "alice", "--subject", "CN=alice", "--read", "main")
        run("down", self.pool)
        engine.unlink()
        dpu.unlink()
        self.up()
        self.assertEqual(run("ls", uri).stdout, "one\n")
        self.wait_for_line("engine", "opened by CN=dpu for store of pool pool")
        self.assertEqual([each["name"] for each in answer("tenant", "list", self.pool)["tenants"]], ["alice", "client"])

    def test_another_tenant_named_client_is_refused(self):
        self.up("--size", SIZE)
        run("tenant", "set", self.pool, "client", "--subject", "CN=somebody")
        run("down", self.pool)
        (self.pool / "engine.yaml").unlink()
        self.refused("up", self.pool, says=[
            "has a tenant 'client' without the subject CN=client", "add the subject to a tenant there"])
        self.assertFalse((self.pool / "engine.yaml").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""Tests the command line: arguments, files, certificates, `doctor` without servers.

usage: cli_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import json
import shutil
import stat
import subprocess
import unittest

from program import PROGRAM, SIZE, UP, Refusal, answer, run


class Arguments(Refusal):
    def test_unknown_command_is_refused(self):
        self.refused("frobnicate", says=["no command 'frobnicate'", "--help"], status=2)

    def test_missing_argument_is_refused(self):
        self.refused("up", says=["required", "ros2store up --help"], status=2)

    def test_unknown_option_is_refused(self):
        self.refused("ls", "--colour", "/", says="--colour", status=2)

    def test_help_and_version_are_printed(self):
        self.assertIn("nothing to do with the Robot", run("--help").stdout)
        self.assertRegex(run("--version").stdout, r"^ros2store \d+\.\d+\.\d+\n$")

    def test_help_shows_how_many_arguments(self):
        for command, places in (("cp", "two or more"), ("mv", "two or more"), ("ls", "one or more")):
            said = run(command, "--help").stdout
            self.assertIn(f"ros2store {command} [OPTIONS] place...\n", said)
            self.assertIn(f"({places}", said)

    def test_errors_are_json_with_json(self):
        done = run("--json", "status", self.scratch, expect=1)
        self.assertIn("no pool in", json.loads(done.stderr)["error"])


class BadPlaces(Refusal):
    def test_malformed_uris_are_refused(self):
        for uri in ("ros2s:/x", "ros2s+local:///pool", "ros2s+local:///pool/main/%zz?dir=/x",
                    "ros2s+local:///pool/main?color=red", "http://pool/main"):
            with self.subTest(uri=uri):
                self.refused("ls", uri, says=["URI", "ros2s+local:///"])

    def test_local_uri_with_a_network_option_is_refused(self):
        for asked in ("provider=ucx+tcp", "socket=/run/x.sock"):
            with self.subTest(asked=asked):
                self.refused("ls", f"ros2s+local:///pool/main?dir={self.scratch}&{asked}",
                             says=[f"'{asked.split('=')[0]}' selects one", "leave it out"])

    def test_empty_locations_are_refused(self):
        for command in ("ls", "stat", "cat"):
            self.refused(command, "", says="an argument is empty")
        self.refused("rm", "-r", "", says="an argument is empty")
        self.refused("ls", "ros2s+local:///pool/main?dir=/etc/passwd",
                     says="/etc/passwd is not a directory")

    def test_network_uri_without_a_server_is_refused(self):
        self.refused("ls", "ros2s+dpu:///pool/main", says="names no server")

    def test_missing_pool_is_reported(self):
        self.refused("ls", f"ros2s+local:///pool/main?dir={self.scratch}/none",
                     says=["none", "ros2store up"])
        self.refused("status", self.scratch, says="no pool in")
        self.refused("down", self.scratch, says="no pool in")

    def test_malformed_sizes_are_refused(self):
        self.refused(*UP, self.scratch / "p", "--size", "4 parsecs", says=["not a size", "4G"])
        self.refused(*UP, self.scratch / "p", "--size", "1M", says="64")
        self.assertFalse((self.scratch / "p" / "config.yaml").exists())

    def test_bad_names_and_counts(self):
        self.refused(*UP, self.scratch / "p", "--pool", "a b", says="a b")
        self.refused(*UP, self.scratch / "p", "--devices", "17", says="16")

    def test_pool_larger_than_the_disk_is_refused(self):
        self.refused(*UP, self.scratch / "p", "--size", "900T", says="free")
        self.assertFalse((self.scratch / "p").exists() and any((self.scratch / "p").iterdir()))

    def test_directory_with_other_files_is_refused(self):
        (self.scratch / "p").mkdir()
        (self.scratch / "p" / "thesis.txt").write_text("years of work")
        self.refused(*UP, self.scratch / "p", "--size", SIZE, says=str(self.scratch / "p"))
        self.assertEqual((self.scratch / "p" / "thesis.txt").read_text(), "years of work")


class Certificates(Refusal):
    def test_authority_signs_certificates(self):
        certs = self.scratch / "certs"
        said = run("certs", "init", certs, "--name", "engine-1.example.org").stdout
        for each in ("server.crt", "client.key", "ca.crt", "engine-1.example.org", "stays here"):
            self.assertIn(each, said)
        self.assertEqual({path.name for path in certs.iterdir()},
                         {"ca.crt", "ca.key", "server.crt", "server.key", "client.crt",
                          "client.key"})
        for key in certs.glob("*.key"):
            self.assertEqual(stat.S_IMODE(key.stat().st_mode), 0o600)
        for name in ("server", "client"):
            subprocess.run(["openssl", "verify", "-x509_strict", "-CAfile", certs / "ca.crt",
                            certs / f"{name}.crt"], check=True, capture_output=True)

        issued = answer("certs", "issue", certs, "dpu-1", "--server", "--name", "dpu-1",
                        "--days", "30")
        self.assertEqual(issued["certificate"], str(certs / "dpu-1.crt"))
        shown = answer("certs", "show", certs / "dpu-1.crt")
        self.assertEqual(shown["subject"], "CN=dpu-1")
        self.assertEqual(shown["names"], ["dpu-1"])
        self.assertEqual(shown["state"], "valid")
        key = (certs / "dpu-1.key").read_bytes()
        self.refused("certs", "issue", certs, "dpu-1", "--server", "--name", "dpu-1",
                     says="--replace")
        self.assertEqual((certs / "dpu-1.key").read_bytes(), key)
        run("certs", "issue", certs, "dpu-1", "--server", "--name", "dpu-1", "--replace")
        self.assertNotEqual((certs / "dpu-1.key").read_bytes(), key)

    def test_invalid_certificate_commands_are_refused(self):
        certs = self.scratch / "certs"
        run("certs", "init", certs)
        self.refused("certs", "init", certs, says=["not empty", "certs issue"])
        self.refused("certs", "issue", certs, "../up", says="cannot be a certificate's name")
        self.refused("certs", "issue", certs, "s", "--server", says="names and addresses")
        self.refused("certs", "issue", self.scratch / "none", "s", says="certs init")
        self.refused("certs", "show", certs / "client.key", says="has no certificate")
        self.refused("certs", "init", says="directory is required", status=2)

    def test_revoked_certificate_is_refused(self):
        certs, others = self.scratch / "certs", self.scratch / "others"
        run("certs", "init", certs)
        run("certs", "init", others)
        run("certs", "issue", certs, "alice")
        stolen = self.scratch / "stolen.crt"
        shutil.copy(certs / "alice.crt", stolen)
        run("certs", "issue", certs, "alice", "--replace")

        def verify(certificate):
            """Asks the openssl program, which knows nothing of ours."""
            return subprocess.run(["openssl", "verify", "-crl_check", "-CAfile", certs / "ca.crt", "-CRLfile",
                                   certs / "ca.crl", certificate], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)

        revoked = answer("certs", "revoke", certs, stolen)
        self.assertEqual((revoked["subject"], revoked["list"]), ("CN=alice", str(certs / "ca.crl")))
        self.assertEqual(revoked["serial"], answer("certs", "show", stolen)["serial"])
        self.assertEqual(stat.S_IMODE((certs / "ca.crl").stat().st_mode), 0o644)
        self.assertIn("certificate revoked", verify(stolen).stdout)
        for name in ("alice", "client"):
            self.assertEqual(verify(certs / f"{name}.crt").returncode, 0, name)
            self.assertEqual(answer("certs", "show", certs / f"{name}.crt")["state"], "valid")

        said = run("certs", "revoke", certs, "client").stdout
        for each in ("CN=client", f"copy {certs}/ca.crl beside ca.crt", f"certs issue {certs} client --replace"):
            self.assertIn(each, said)
        for certificate in (stolen, certs / "client.crt"):
            self.assertIn("certificate revoked", verify(certificate).stdout)
        self.assertEqual(answer("certs", "show", certs / "client.crt")["state"], "revoked")
        self.assertEqual(verify(certs / "alice.crt").returncode, 0)
        listed = subprocess.run(["openssl", "crl", "-in", certs / "ca.crl", "-noout", "-crlnumber", "-text"],
                                capture_output=True, text=True, check=True).stdout
        self.assertRegex(listed, r"(?i)crlnumber=0x0?2\b")
        self.assertIn("Version 2", listed)
        self.assertIn("clients of the control plane do not read", run("certs", "revoke", certs, "server").stdout)

        before = (certs / "ca.crl").read_bytes()
        self.refused("certs", "revoke", certs, "client", says=["was revoked before", "ca.crl has it"])
        self.refused("certs", "revoke", certs, "nobody", says=["cannot read", "the path of a certificate file"])
        self.refused("certs", "revoke", certs, others / "client.crt", says="was not issued by the authority")
        self.refused("certs", "revoke", certs, "ca", says="the authority's own certificate")
        self.refused("certs", "revoke", self.scratch / "none", "client", says="certs init")
        self.assertEqual((certs / "ca.crl").read_bytes(), before)
        (certs / "ca.crl").write_bytes(before[:-40])
        self.refused("certs", "revoke", certs, "alice", says=["not a PEM file of lists", "copy it again"])


class Doctor(Refusal):
    def test_findings(self):
        findings = {f["what"]: f for f in json.loads(subprocess.run(
            [PROGRAM, "--json", "doctor", str(self.scratch)], capture_output=True, text=True,
            check=False).stdout)["findings"]}
        self.assertEqual(findings["O_DIRECT"]["grade"], "ok")
        self.assertIn("io_uring", findings["io_uring"]["found"])
        self.assertRegex(run("doctor", self.scratch, expect=None).stdout.splitlines()[-1],
                         "^nothing is missing" if all(f["grade"] not in ("missing", "wrong")
                                                      for f in findings.values()) else "")
        for finding in findings.values():
            self.assertEqual(finding["grade"] == "ok", finding["remedy"] == "", finding)

    def ask(self, *arguments):
        """Returns what `doctor` says with --json. The machine may lack other things."""
        done = run("--json", "doctor", self.scratch, *arguments, expect=None)
        said = json.loads(done.stdout)
        self.assertEqual(done.returncode, 1 if said["missing"] + said["wrong"] else 0, said)
        return said

    def test_providers_and_libraries_are_reported(self):
        findings = {f["what"]: f for f in self.ask()["findings"]}
        self.assertRegex(findings["UCX"]["found"], r"^1\.\d+\.\d+ of /.*libucp")
        self.assertRegex(findings["libfabric"]["found"], r"^1\.\d+ of /.*libfabric")
        self.assertIn("lo", findings["ofi+tcp;ofi_rxm"]["found"])
        self.assertEqual(findings["shm"]["grade"], "ok")
        self.assertIn("lo", findings["ucx+tcp"]["found"])
        if findings["ucx+rc"]["grade"] == "absent":
            self.assertIn("RDMA adapter", findings["ucx+rc"]["remedy"])

    def test_certificates(self):
        certs = self.scratch / "certs"
        run("certs", "init", certs)
        before = self.ask("--certs", certs)
        self.assertEqual(before["wrong"], 0)
        found = [f["found"] for f in before["findings"] if f["what"] == "certificate"]
        self.assertEqual(len(found), 2)
        self.assertIn(f"{certs}/server.crt", found[1])
        (certs / "server.key").chmod(0o644)
        self.assertEqual(self.ask("--certs", certs)["wrong"], 1)
        done = run("doctor", self.scratch, "--certs", certs, expect=1)
        self.assertIn(f"chmod 600 {certs}/server.key", done.stdout)
        self.assertIn("missing or wrong", done.stderr)
        said = self.ask("--certs", self.scratch / "none")
        self.assertEqual(said["missing"], before["missing"] + 1)
        self.assertIn("ros2store certs init", said["findings"][-1]["remedy"])

    def test_missing_directory_is_reported_with_its_remedy(self):
        done = run("doctor", self.scratch / "none", expect=1)
        self.assertIn(f"mkdir -p {self.scratch}/none", done.stdout)


if __name__ == "__main__":
    unittest.main()

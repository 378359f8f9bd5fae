"""Tests encrypted containers as a person uses them: in this process, with an engine, through a DPU.

usage: encryption_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import os
import subprocess
import unittest
from pathlib import Path

from program import UP, Refusal, answer, digest, run

MARK = b"planted plaintext, 32 bytes long"


def holds_mark(directory):
    """Whether a file of the directory has any 16 bytes of the mark: a piece of it, too, would be a leak."""
    pieces = [MARK[at:at + 16] for at in range(len(MARK) - 15)]
    for path in Path(directory).rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if any(piece in content for piece in pieces):
                return True
    return False


class Encryption(Refusal):
    def setUp(self):
        super().setUp()
        self.pool = self.scratch / "pool"
        self.keys = self.scratch / "keys"
        self.keys.mkdir()
        self.key("acme")
        self.with_keys = os.environ | {"ROS2STORE_KEYS": str(self.keys)}
        self.without = {name: value for name, value in os.environ.items() if name != "ROS2STORE_KEYS"}
        run(*UP, self.pool, "--size", "128M")

    def key(self, name):
        path = self.keys / f"{name}.key"
        path.write_text(os.urandom(32).hex() + "\n")
        path.chmod(0o600)
        return path

    def uri(self, container, path="", scheme="ros2s+local"):
        return f"{scheme}:///pool/{container}{path}?dir={self.pool}"

    def encrypt(self, container="secret"):
        run("container", "create", self.uri(container), "--encryption", "aes-256-gcm", "--key", "acme",
            env=self.with_keys)

    def tree(self):
        """Files of all kinds of sizes, each full of the mark."""
        tree = self.scratch / "tree"
        for name, size in (("tiny", 40), ("block", 4096), ("odd", 10_001), ("large", 3_000_000)):
            path = tree / name / name
            path.parent.mkdir(parents=True)
            path.write_bytes((MARK * (size // len(MARK) + 1))[:size])
        return tree

    def test_nothing_in_the_pool_has_what_was_written(self):
        self.encrypt()
        tree = self.tree()
        run("cp", "-r", tree, self.uri("secret", "/tree"), env=self.with_keys)
        self.assertFalse(holds_mark(self.pool))
        run("cp", "-r", self.uri("secret", "/tree"), self.scratch / "back", env=self.with_keys)
        for path in tree.rglob("*"):
            if path.is_file():
                self.assertEqual(digest(self.scratch / "back" / path.relative_to(tree)), digest(path))
        # The search finds what is not encrypted.
        run("cp", tree / "odd/odd", self.uri("main", "/odd"), env=self.with_keys)
        self.assertTrue(holds_mark(self.pool))

    def test_without_the_key_there_is_one_sentence(self):
        self.encrypt()
        run("cp", self.tree() / "odd/odd", self.uri("secret", "/odd"), env=self.with_keys)
        self.refused("cat", self.uri("secret", "/odd"), says=["encrypted", "ROS2STORE_KEYS"], env=self.without)
        kept = (self.keys / "acme.key").read_text()
        (self.keys / "acme.key").unlink()
        self.refused("cat", self.uri("secret", "/odd"), says=["its key cannot be had", "acme.key"],
                     env=self.with_keys)
        self.key("acme")
        self.refused("cat", self.uri("secret", "/odd"), says="is not the key", env=self.with_keys)
        (self.keys / "acme.key").write_text(kept)
        (self.keys / "acme.key").chmod(0o644)
        self.refused("cat", self.uri("secret", "/odd"), says="chmod 600", env=self.with_keys)

    def test_another_key_and_no_new_data(self):
        self.encrypt()
        odd = self.tree() / "odd/odd"
        run("cp", odd, self.uri("secret", "/odd"), env=self.with_keys)
        self.key("next")
        told = answer("container", "rekey", self.uri("secret"), "--key", "next", env=self.with_keys)
        self.assertEqual((told["key_before"], told["key"]), ("acme", "next"))
        (self.keys / "acme.key").unlink()
        self.assertEqual(run("cat", self.uri("secret", "/odd"), env=self.with_keys).stdout.encode(),
                         odd.read_bytes())
        self.refused("container", "rekey", self.uri("main"), "--key", "next", says="is not encrypted",
                     env=self.with_keys)

    def test_a_plain_container_is_not_taken_for_an_encrypted_one(self):
        wish = ("container", "create", self.uri("main"), "--encryption", "aes-256-gcm", "--key", "acme")
        self.refused(*wish, says=["the name is in use", "'main' is not encrypted", "container destroy"],
                     env=self.with_keys)
        self.encrypt()
        said = self.refused("container", "create", self.uri("secret"), *wish[3:], says="the name is in use",
                            env=self.with_keys)
        self.assertNotIn("is not encrypted", said)

    def test_it_is_told_which_containers_are_encrypted(self):
        self.encrypt()
        # Also without the keys. An interrupted creation leaves a container like `main`.
        listed = answer("container", "list", self.pool, env=self.without)["containers"]
        self.assertEqual({each["container"]: each["encryption"] for each in listed},
                         {"main": "none", "secret": "aes-256-gcm"})
        text = run("container", "list", self.pool, env=self.without).stdout
        self.assertRegex(text, r"(?m)^main .* plain .*\n^secret .* aes-256-gcm ")
        for label, encryption in (("main", "none"), ("secret", "aes-256-gcm")):
            self.assertEqual(answer("container", "query", self.uri(label))["encryption"], encryption)
            self.assertRegex(run("container", "query", self.uri(label)).stdout, f"encryption +{encryption}\n")
        self.assertEqual(answer("container", "set", self.uri("secret"), "--space", "1GiB")["encryption"], "aes-256-gcm")

    def test_the_key_may_be_in_a_token(self):
        (self.scratch / "tokens").mkdir()
        (self.scratch / "softhsm2.conf").write_text(f"directories.tokendir = {self.scratch}/tokens\n")
        pin = self.scratch / "pin"
        pin.write_text("24680\n")
        pin.chmod(0o600)
        token = os.environ | {"SOFTHSM2_CONF": str(self.scratch / "softhsm2.conf"),
                              "ROS2STORE_KEYS": f"pkcs11:token=hsm?pin-source={pin}"}
        tool = ["pkcs11-tool", "--module", "/usr/lib/softhsm/libsofthsm2.so", "--login", "--pin", "24680",
                "--token-label", "hsm"]
        subprocess.run(["softhsm2-util", "--init-token", "--free", "--label", "hsm", "--so-pin", "13579246", "--pin",
                        "24680"], env=token, check=True, capture_output=True)
        create = ("container", "create", self.uri("secret"), "--encryption", "aes-256-gcm", "--key", "acme")
        self.refused(*create, says=["the AES key 'acme'", "is not there"], env=token)
        subprocess.run([*tool, "--keygen", "--key-type", "AES:32", "--usage-wrap", "--label", "acme"], env=token,
                       check=True, capture_output=True)
        run(*create, env=token)
        odd = self.tree() / "odd/odd"
        run("cp", odd, self.uri("secret", "/odd"), env=token)
        self.assertEqual(run("cat", self.uri("secret", "/odd"), env=token).stdout.encode(), odd.read_bytes())
        self.assertFalse(holds_mark(self.pool))
        # A key of the same name in a file is another key.
        self.refused("cat", self.uri("secret", "/odd"), says="is not the key", env=self.with_keys)
        subprocess.run([*tool, "--delete-object", "--type", "secrkey", "--label", "acme"], env=token, check=True,
                       capture_output=True)
        self.refused("cat", self.uri("secret", "/odd"), says=["its key cannot be had", "is not there"], env=token)

    def test_bad_wishes_make_nothing(self):
        create = ("container", "create", self.uri("other"))
        self.refused(*create, "--encryption", "rot13", "--key", "acme", says="rot13", env=self.with_keys)
        self.refused(*create, "--encryption", "aes-256-gcm", says="--key", env=self.with_keys)
        self.refused(*create, "--key", "acme", says="--encryption", env=self.with_keys)
        self.refused(*create, "--encryption", "aes-256-gcm", "--key", "none", says="none.key",
                     env=self.with_keys)
        self.refused(*create, "--encryption", "aes-256-gcm", "--key", "acme", says="ROS2STORE_KEYS",
                     env=self.without)
        self.refused(*create, "--encryption", "aes-256-gcm", "--key", "acme", "--chunk", "64M",
                     says="chunks", env=self.with_keys)
        listed = answer("container", "list", self.pool)["containers"]
        self.assertEqual([each["container"] for each in listed], ["main"])

    def test_a_dpu_has_the_keys_and_its_hosts_have_not(self):
        self.encrypt()
        odd = self.tree() / "odd/odd"
        run("cp", odd, self.uri("secret", "/odd"), env=self.with_keys)
        run("up", self.pool, timeout=300)
        self.addCleanup(run, "down", self.pool, timeout=300)
        offload = self.uri("secret", "/odd", "ros2s+dpu")
        self.refused("cat", offload, says="encrypted", env=self.without)
        run("down", self.pool, timeout=300)
        settings = self.pool / "dpu.yaml"
        settings.write_text(f"{settings.read_text()}\nencryption: {{keys: {self.keys}}}\n")
        run("up", self.pool, timeout=300)
        self.assertEqual(run("cat", offload, env=self.without).stdout.encode(), odd.read_bytes())
        run("cp", odd, self.uri("secret", "/again", "ros2s+dpu"), env=self.without)
        self.assertEqual(run("cat", self.uri("secret", "/again", "ros2s+dpu"), env=self.without).stdout.encode(),
                         odd.read_bytes())
        # A running engine stores the wrapped keys of a new container; it gets no key of this machine.
        self.encrypt("more")
        run("cp", odd, self.uri("more", "/odd", "ros2s+dpu"), env=self.without)
        self.key("next")
        self.assertEqual(answer("container", "rekey", self.uri("more"), "--key", "next",
                                env=self.with_keys)["key_before"], "acme")
        self.assertEqual(run("cat", self.uri("more", "/odd", "ros2s"), env=self.with_keys).stdout.encode(),
                         odd.read_bytes())
        # A direct client needs a key of its own.
        direct = self.uri("secret", "/again", "ros2s")
        self.refused("cat", direct, says=["encrypted", "ROS2STORE_KEYS"], env=self.without)
        self.assertEqual(run("cat", direct, env=self.with_keys).stdout.encode(), odd.read_bytes())
        run("down", self.pool, timeout=300)
        self.assertFalse(holds_mark(self.pool))


if __name__ == "__main__":
    unittest.main()

"""Tests encrypted containers as a person uses them: in this process, with an engine, through a DPU.

usage: encryption_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import os
import subprocess
import unittest
from pathlib import Path

from program import UP, Refusal, answer, digest, run

MARK = b"planted plaintext, 32 bytes long"


PIECES = [MARK[at:at + 16] for at in range(len(MARK) - 15)]


def full(size):
    return (MARK * (size // len(MARK) + 1))[:size]


def data_of(path):
    """Yields what is in a file, without its holes."""
    with open(path, "rb") as file:
        end = at = 0
        while True:
            try:
                at = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:  # there is no more
                return
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            file.seek(at)
            yield file.read(end - at)


def with_mark(paths):
    """Returns the files that have any 16 bytes of the mark: a piece of it, too, would be a leak."""
    return [path for path in paths if any(piece in data for data in data_of(path) for piece in PIECES)]


def holds_mark(directory):
    return bool(with_mark(path for path in Path(directory).rglob("*") if path.is_file() and not path.is_symlink()))


def link_between(pids):
    """Returns the memory that two processes share, as files. Root may read it."""
    mapped = [{}, {}]
    for pid, segments in zip(pids, mapped):
        for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
            addresses, _, _, _, inode, *name = line.split(maxsplit=5)
            if name and name[0].startswith("/memfd:"):
                segments[inode] = f"/proc/{pid}/map_files/{addresses}"
    return [mapped[0][inode] for inode in mapped[0].keys() & mapped[1].keys()]


def write_forms(top):
    """Files of each form that programs give them, full of the mark."""
    top.mkdir()
    for size in (1, 40, 4095, 4096, 4097, 10_001, 3_000_000):
        (top / f"of-{size}").write_bytes(full(size))
    for size in (100, 5000, 70_001, 3):
        with open(top / "appended", "ab") as file:
            file.write(full(size))
    (top / "overwritten").write_bytes(full(300_000))
    with open(top / "overwritten", "r+b", buffering=0) as file:
        for at, size in ((4097, 10_001), (131_071, 2), (250_001, 4096), (299_999, 5000)):
            file.seek(at)
            file.write(full(size))
    with open(top / "sparse", "wb", buffering=0) as file:
        for at in (13, (1 << 20) - 5, (3 << 20) + 4097):
            file.seek(at)
            file.write(full(5000))
        file.truncate(8 << 20)
    for size in (100_001, 4096, 7):
        path = top / f"truncated-{size}"
        path.write_bytes(full(200_000))
        os.truncate(path, size)
        os.truncate(path, size + 50_000)
    for name in ("old", "new"):
        (top / name).write_bytes(full(50_000))
    (top / "new").rename(top / "old")
    (top / "removed").write_bytes(full(100_000))
    (top / "removed").unlink()
    for directory in range(8):
        for number in range(8):
            path = top / f"d{directory}/e" / f"f{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(full(1 + 997 * number))


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
            path.write_bytes(full(size))
        return tree

    def forms_in(self, container, scheme):
        """Copies a tree of all forms into the container, and makes the same one there through a mount."""
        forms, mounted = self.scratch / "forms", self.scratch / f"mounted-{scheme}"
        if not forms.exists():
            write_forms(forms)
        mounted.mkdir()
        top = f"/{scheme}"
        run("mkdir", self.uri(container, top, scheme), env=self.with_keys)
        run("cp", "-r", forms, self.uri(container, f"{top}/copied", scheme), env=self.with_keys)
        run("mount", self.uri(container, "", scheme), mounted, env=self.with_keys)
        try:
            write_forms(mounted / scheme / "written")
            self.same(forms, mounted / scheme / "copied")
        finally:
            subprocess.run(["fusermount3", "-u", mounted], check=True)

    def same(self, one, other):
        files = [path.relative_to(one) for path in one.rglob("*") if path.is_file()]
        self.assertEqual({path.relative_to(other) for path in other.rglob("*") if path.is_file()}, set(files))
        for path in files:
            self.assertEqual(digest(other / path), digest(one / path), path)

    def test_pool_has_no_plain_bytes(self):
        self.encrypt()
        tree = self.tree()
        run("cp", "-r", tree, self.uri("secret", "/tree"), env=self.with_keys)
        self.assertFalse(holds_mark(self.pool))
        run("cp", "-r", self.uri("secret", "/tree"), self.scratch / "back", env=self.with_keys)
        for path in tree.rglob("*"):
            if path.is_file():
                self.assertEqual(digest(self.scratch / "back" / path.relative_to(tree)), digest(path))
        # The search finds unencrypted text, so it works.
        run("cp", tree / "odd/odd", self.uri("main", "/odd"), env=self.with_keys)
        self.assertTrue(holds_mark(self.pool))

    @unittest.skipUnless(os.access("/dev/fuse", os.W_OK), "it mounts, which needs /dev/fuse")
    def test_pool_has_no_plain_bytes_of_any_file_layout(self):
        self.encrypt()
        self.forms_in("secret", "ros2s+local")
        run("down", self.pool)
        self.assertFalse(holds_mark(self.pool))
        run("cp", "-r", self.uri("secret", "/ros2s+local/written"), self.scratch / "back", env=self.with_keys)
        self.same(self.scratch / "forms", self.scratch / "back")

    @unittest.skipUnless(os.access("/dev/fuse", os.W_OK) and os.geteuid() == 0,
                         "it mounts and reads daemons' memory, which needs /dev/fuse and root")
    def test_engine_link_has_no_plain_bytes(self):
        self.encrypt()
        run("up", self.pool, timeout=300)
        self.addCleanup(run, "down", self.pool, timeout=300)
        run("down", self.pool, timeout=300)
        settings = self.pool / "dpu.yaml"
        settings.write_text(f"{settings.read_text()}\nencryption: {{keys: {self.keys}}}\n")
        run("up", self.pool, timeout=300)
        pids = [each["pid"] for each in answer("status", self.pool)["daemons"]]
        self.forms_in("secret", "ros2s+dpu")
        self.assertEqual(with_mark(link_between(pids)), [])
        self.assertFalse(holds_mark(self.pool))
        run("cp", "-r", self.uri("secret", "/ros2s+dpu/written", "ros2s+dpu"), self.scratch / "back")
        self.same(self.scratch / "forms", self.scratch / "back")
        self.assertEqual(with_mark(link_between(pids)), [])
        # The search finds unencrypted text, so it works.
        run("cp", self.scratch / "forms/of-10001", self.uri("main", "/plain", "ros2s+dpu"))
        self.assertNotEqual(with_mark(link_between(pids)), [])
        run("down", self.pool, timeout=300)
        self.assertTrue(holds_mark(self.pool))

    def test_missing_key_is_reported_in_one_sentence(self):
        self.encrypt()
        run("cp", self.tree() / "odd/odd", self.uri("secret", "/odd"), env=self.with_keys)
        self.refused("cat", self.uri("secret", "/odd"), says=["encrypted", "ROS2STORE_KEYS"], env=self.without)
        kept = (self.keys / "acme.key").read_text()
        (self.keys / "acme.key").unlink()
        self.refused("cat", self.uri("secret", "/odd"), says=["its key is not available", "acme.key"],
                     env=self.with_keys)
        self.key("acme")
        self.refused("cat", self.uri("secret", "/odd"), says="is not the key", env=self.with_keys)
        (self.keys / "acme.key").write_text(kept)
        (self.keys / "acme.key").chmod(0o644)
        self.refused("cat", self.uri("secret", "/odd"), says="chmod 600", env=self.with_keys)

    def test_rekeyed_container_needs_only_the_new_key(self):
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

    def test_create_encrypted_over_a_plain_container_is_refused(self):
        create = ("container", "create", self.uri("main"), "--encryption", "aes-256-gcm", "--key", "acme")
        self.refused(*create, says=["the name is in use", "'main' is not encrypted", "container destroy"],
                     env=self.with_keys)
        self.encrypt()
        said = self.refused("container", "create", self.uri("secret"), *create[3:], says="the name is in use",
                            env=self.with_keys)
        self.assertNotIn("is not encrypted", said)

    def test_listing_shows_which_containers_are_encrypted(self):
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

    def test_key_in_a_token_works(self):
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
        self.refused(*create, says=["the AES key 'acme'", "is missing"], env=token)
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
        self.refused("cat", self.uri("secret", "/odd"), says=["its key is not available", "is missing"], env=token)

    def test_invalid_options_create_nothing(self):
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

    def test_hosts_of_a_dpu_need_no_key(self):
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

"""Tests that programs act only upon files that nobody else could have changed, and that files of the wrong kind
are refused at once.

usage: trust_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import os
import shutil
import subprocess
import time
import unittest
from pathlib import Path

from daemons import SIZE, WithDirectory, run
from program import BIN

SOMEBODY = 65534
AT_ONCE_SECONDS = 20  # nothing that blocks ends so soon on its own


class WithPoolThatWasUp(WithDirectory):
    def setUp(self):
        super().setUp()
        os.chmod(self.scratch, 0o755)
        self.up("--size", SIZE)
        run("down", self.pool)

    def uris(self):
        return [f"{scheme}:///pool/main?dir={self.pool}" for scheme in ("ros2s+local", "ros2s", "ros2s+dpu")]

    def refused_at_once(self, *arguments, says):
        """`mount` has its line from ros2store-fuse."""
        begin = time.monotonic()
        line = run(*arguments, expect=1).stderr
        self.assertLess(time.monotonic() - begin, AT_ONCE_SECONDS, arguments)
        self.assertEqual(line.count("\n"), 1, line)
        for each in [says] if isinstance(says, str) else says:
            self.assertIn(each, line)

    def daemon(self, name):
        """Returns what a daemon says that must not start."""
        done = subprocess.run([BIN / f"ros2store-{name}", "--config", self.pool / f"{name}.yaml"], check=False,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=AT_ONCE_SECONDS)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr


class WrongKind(WithPoolThatWasUp):
    """A named pipe would make its reader wait, and a device may act on being opened."""

    KINDS = {"a named pipe": os.mkfifo, "a directory": os.mkdir,
             "a device": lambda path: os.symlink("/dev/zero", path)}

    def test_files_of_up(self):
        for name in ("config.yaml", "engine.yaml", "dpu.yaml", "tenants.yaml", "capability.keys", "owner",
                     "run/turn", "run/engine.pid", "run/dpu.pid", "run/engine.metrics", "run/dpu.metrics",
                     "certs/storage/ca.crt", "certs/storage/server.crt", "certs/storage/server.key",
                     "certs/storage/dpu.crt", "certs/storage/dpu.key", "certs/storage/client.key",
                     "certs/hosts/ca.crt", "certs/hosts/server.key"):
            path = self.pool / name
            for kind, make in self.KINDS.items():
                path.rename(self.scratch / "kept")
                make(path)
                with self.subTest(file=name, kind=kind):
                    # The DPU reads its key by a link.
                    shown = self.pool / name.replace("storage/dpu.key", "dpu/client.key")
                    said = f"{path} is a symbolic link" if kind == "a device" and name in (
                        "owner", "run/turn") else f"{shown} is not a regular file, but"
                    self.refused_at_once("up", self.pool, says=said)
                os.rmdir(path) if kind == "a directory" else os.unlink(path)
                (self.scratch / "kept").rename(path)
            run("down", self.pool)
        self.up()

    def test_each_reader(self):
        config = self.pool / "config.yaml"
        config.rename(self.scratch / "kept")
        os.mkfifo(config)
        says = f"{config} is not a regular file, but a named pipe"
        for command in (["up", self.pool], ["status", self.pool], ["down", self.pool],
                        ["pool", "grow", self.pool, "--size", SIZE],
                        ["why", self.uris()[0]], ["ls", self.uris()[0]],
                        ["mount", self.uris()[0], self.mount_point()], ["tenant", "list", self.pool]):
            with self.subTest(command=command):
                self.refused_at_once(*command, says=says)
        self.assertIn("a named pipe", self.daemon("engine"))
        config.unlink()
        (self.scratch / "kept").rename(config)
        for name in ("engine", "dpu"):
            settings = self.pool / f"{name}.yaml"
            settings.unlink()
            os.mkfifo(settings)
            self.assertIn(f"{settings} is not a regular file, but a named pipe", self.daemon(name))

    def test_sockets_and_certificates_of_a_client(self):
        certificates = self.scratch / "certs"
        shutil.copytree(self.pool / "certs/hosts", certificates)
        env = os.environ | {"ROS2STORE_CERTS": str(certificates)}
        pipe = self.scratch / "pipe"
        os.mkfifo(pipe)
        for scheme in ("ros2s", "ros2s+dpu"):
            self.refused("ls", f"{scheme}:///pool/main?socket={pipe}", env=env,
                         says=f"{pipe} is not a server's socket, but a named pipe")
        for name in ("engine", "dpu"):
            socket = self.pool / f"run/{name}.control"
            os.mkfifo(socket)
            uri = self.uris()[1 if name == "engine" else 2]
            for command in (["ls", uri], ["mount", uri, self.mount_point()], ["why", uri]):
                self.refused_at_once(*command, says=f"{socket} is not a server's socket, but a named pipe")
            self.refused_at_once("up", self.pool, says=[str(socket)])
            run("down", self.pool)  # removes it
        for name in ("ca.crt", "client.crt", "client.key"):
            (certificates / name).unlink()
            os.mkfifo(certificates / name)
            self.refused("ls", "ros2s+dpu://127.0.0.1:1/pool/main", env=env,
                         says=f"{certificates / name} is not a regular file, but a named pipe")
            (certificates / name).unlink()
            shutil.copy(self.pool / "certs/hosts" / name, certificates)

    def mount_point(self):
        path = self.scratch / "m"
        path.mkdir(exist_ok=True)
        return path


@unittest.skipUnless(os.geteuid() == 0, "gives files to another user")
class OthersFiles(WithPoolThatWasUp):
    """Whoever can exchange the settings has the daemons serve any directory, with their user's rights."""

    def commands(self):
        (self.scratch / "m").mkdir(exist_ok=True)
        uris = self.uris()
        return [["up", self.pool], ["up", "--no-daemons", self.pool], ["status", self.pool], ["down", self.pool],
                ["down", "--kill", self.pool], ["top", self.pool], ["pool", "grow", self.pool, "--size", SIZE],
                ["tenant", "list", self.pool], *(["ls", uri] for uri in uris), *(["why", uri] for uri in uris),
                *(["mount", uri, self.scratch / "m"] for uri in uris),
                ["container", "list", uris[2].replace("/main", "")]]

    def test_directories_of_the_path(self):
        (self.scratch / "link").symlink_to(self.pool)
        for place, mode, owner, says in (
                (self.pool, 0o755, SOMEBODY, "belongs to another user (uid 65534)"),
                (self.pool, 0o777, 0, "may be changed by other users"),
                (self.pool, 0o775, 0, "may be changed by other users"),
                (self.scratch, 0o755, SOMEBODY, f"{self.scratch}, on its path, belongs to another user"),
                (self.scratch, 0o777, 0, f"{self.scratch}, on its path, may be changed by other users"),
                (self.scratch, 0o1777, SOMEBODY, f"{self.scratch}, on its path, belongs to another user")):
            os.chmod(place, mode)
            os.chown(place, owner, owner)
            for command in self.commands():
                with self.subTest(place=place, mode=oct(mode), owner=owner, command=command):
                    self.refused_at_once(*command, says=["cannot be trusted", says])
            for name in ("engine", "dpu"):
                self.assertIn(says, self.daemon(name))
            os.chmod(place, 0o755)
            os.chown(place, 0, 0)
        os.chmod(self.scratch, 0o1777)
        self.up()

    def test_a_directory_where_nothing_is_yet(self):
        os.chown(self.scratch, SOMEBODY, SOMEBODY)
        new = self.scratch / "new"
        for command in (["up", new], ["up", "--no-daemons", new], ["pool", "create", new], ["certs", "init", new]):
            self.refused(*command, says=["cannot be trusted", str(self.scratch), "belongs to another user"])
        self.assertFalse(new.exists())
        os.chown(self.scratch, 0, 0)
        theirs = self.scratch / "theirs"
        theirs.mkdir()
        os.chown(theirs, SOMEBODY, SOMEBODY)
        self.refused("up", "--no-daemons", new, "--size", SIZE, "--device-dir", theirs,
                     says=["cannot be trusted", str(theirs)])

    def test_files(self):
        for name in ("config.yaml", "engine.yaml", "dpu.yaml", "tenants.yaml", "capability.keys", "owner", "device-0",
                     "index", "run", "run/turn", "run/engine.pid", "run/dpu.pid", "run/engine.metrics",
                     "certs", "certs/storage", "certs/storage/ca.crt", "certs/storage/server.key",
                     "certs/storage/client.key", "certs/dpu", "certs/dpu/client.key", "certs/hosts/ca.crt",
                     "certs/hosts/server.crt"):
            path = self.pool / name
            before = path.lstat()
            with self.subTest(file=name):
                os.chown(path, SOMEBODY, -1, follow_symlinks=False)
                self.refused("up", self.pool, says=[str(path), "belongs to another user (uid 65534)"])
                os.chown(path, 0, -1, follow_symlinks=False)
                if not path.is_symlink():
                    os.chmod(path, 0o777 if path.is_dir() else 0o666)
                    if name not in ("owner", "index"):  # earlier versions may have left these open
                        self.refused("up", self.pool, says=[str(path), "may be changed by other users"])
                    os.chmod(path, before.st_mode & 0o7777)
            run("down", self.pool)
        self.up()

    def test_links(self):
        """A link of another user in a sticky directory could lead to settings of his."""
        os.chmod(self.scratch, 0o1777)
        self.up()
        link = self.scratch / "link"
        link.symlink_to(self.pool)
        for uri in self.uris():
            run("ls", uri.replace(str(self.pool), str(link)))
        os.chown(link, SOMEBODY, SOMEBODY, follow_symlinks=False)
        for uri in self.uris():
            self.refused("ls", uri.replace(str(self.pool), str(link)), says=[str(link), "belongs to another user"])

    def test_a_certificate_of_another_user(self):
        certificates = self.scratch / "certs"
        shutil.copytree(self.pool / "certs/hosts", certificates)
        os.chown(certificates / "ca.crt", SOMEBODY, -1)
        self.refused("ls", "ros2s+dpu://127.0.0.1:1/pool/main",
                     env=os.environ | {"ROS2STORE_CERTS": str(certificates)},
                     says=[f"{certificates}/ca.crt cannot be trusted", "belongs to another user"])


@unittest.skipUnless(os.geteuid() == 0, "becomes another user")
class AnotherUser(WithPoolThatWasUp):
    """What a user may not see is not said to be missing, and not to be cured by `up`."""

    FALSE = ("ros2store up", "start what", "does not run", "makes one", "there is no", "no pool")

    def setUp(self):
        super().setUp()
        # The checkout may be in a directory that only its user can enter, such as root's home.
        for name in ("ros2store", "ros2store-fuse", "ros2store-engine", "ros2store-dpu"):
            shutil.copy(BIN / name, self.scratch)
        (self.scratch / "m").mkdir()
        os.chown(self.scratch / "m", SOMEBODY, SOMEBODY)

    def refused_to_somebody(self, *arguments, says=("Permission denied",)):
        done = run(*arguments, expect=1, program=self.scratch / "ros2store", cwd=self.scratch, user=SOMEBODY,
                   group=SOMEBODY, extra_groups=[])
        for each in says:
            self.assertIn(each, done.stderr)
        for each in self.FALSE:
            self.assertNotIn(each, done.stderr)

    def commands(self):
        local, direct, dpu = self.uris()
        mine = self.scratch / "m"
        return [["ls", local], ["ls", direct], ["ls", dpu], ["mount", local, mine], ["mount", direct, mine],
                ["mount", dpu, mine], ["why", direct], ["why", dpu], ["status", self.pool], ["top", self.pool],
                ["down", self.pool], ["up", self.pool], ["tenant", "list", self.pool],
                ["pool", "grow", self.pool, "--size", SIZE], ["pool", "destroy", "--yes", self.pool],
                ["container", "list", dpu.replace("/main", "")]]

    def test_a_pool_that_is_served(self):
        self.up()
        for command in self.commands():
            with self.subTest(command=command):
                self.refused_to_somebody(*command)
        self.refused_to_somebody("certs", "issue", self.pool / "certs/hosts", "eve")

    def test_a_directory_that_is_closed_to_others(self):
        self.up()
        os.chmod(self.pool, 0o700)
        for command in self.commands():
            with self.subTest(command=command):
                self.refused_to_somebody(*command)


if __name__ == "__main__":
    unittest.main()

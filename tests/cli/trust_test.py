"""Tests that programs act only upon files that nobody else could have changed, and that files of the wrong kind
are refused at once.

usage: trust_test.py DIRECTORY-OF-THE-PROGRAMS [unittest options]"""

import ctypes.util
import os
import shutil
import signal
import socket
import subprocess
import time
import unittest
from pathlib import Path

from daemons import SIZE, WithDirectory, processes_of, run, wait_until
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
        return line

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

    def test_each_command_refuses_a_named_pipe(self):
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

    def test_client_refuses_special_files_as_sockets_and_certificates(self):
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

    @unittest.skipUnless(ctypes.util.find_library("rados"), "needs librados")
    def test_special_files_of_ceph_are_refused(self):
        """librados itself reads them."""
        pipe = self.scratch / "pipe"
        os.mkfifo(pipe)
        self.refused_at_once("ls", f"ros2s+local:///pool/c?rados={pipe}",
                             says=f"{pipe} is not a regular file, but a named pipe")
        for setting in ("keyring", "keyfile"):
            for path, kind in ((pipe, "a named pipe"), ("/dev/zero", "a device"), (self.scratch, "a directory")):
                conf = self.scratch / "ceph.conf"
                conf.write_text(f"[global]\nmon host = 127.0.0.1:1\n{setting} = {path}\n")
                self.refused_at_once("ls", f"ros2s+local:///pool/c?rados={conf}",
                                     says=f"{path} is not a regular file, but {kind}")

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

    def test_path_that_others_may_change_is_refused(self):
        (self.scratch / "link").symlink_to(self.pool)
        for place, mode, owner, says in (
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

    def test_only_the_directory_belongs_to_another_user(self):
        """Commands that use the pool act as that user, who may not read the files."""
        os.chown(self.pool, SOMEBODY, SOMEBODY)
        for command in self.commands():
            with self.subTest(command=command):
                says = ["cannot be trusted", "belongs to another user (uid 65534)"] if command[0] == "up" else [
                    f"acts as uid 65534, to whom {self.pool} belongs"]
                self.refused_at_once(*command, says=says)
        for name in ("engine", "dpu"):
            self.assertIn("belongs to another user (uid 65534)", self.daemon(name))

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

    def test_files_of_another_user_are_refused(self):
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

    def test_link_of_another_user_is_refused(self):
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

    def test_certificate_of_another_user_is_refused(self):
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

    def test_served_pool_refuses_another_user(self):
        self.up()
        for command in self.commands():
            with self.subTest(command=command):
                self.refused_to_somebody(*command)
        self.refused_to_somebody("certs", "issue", self.pool / "certs/hosts", "eve")

    def test_closed_directory_refuses_another_user(self):
        self.up()
        os.chmod(self.pool, 0o700)
        for command in self.commands():
            with self.subTest(command=command):
                self.refused_to_somebody(*command)


@unittest.skipUnless(os.geteuid() == 0, "is root who uses another user's pool")
class RootOnAPoolOfAnotherUser(WithDirectory):
    """Root acts as the user to whom the pool belongs, so that the user's files decide nothing with root's rights."""

    def setUp(self):
        super().setUp()
        os.chmod(self.scratch, 0o755)
        for name in ("ros2store", "ros2store-fuse", "ros2store-engine", "ros2store-dpu"):
            shutil.copy(BIN / name, self.scratch)
        self.theirs = self.scratch / "theirs"
        self.theirs.mkdir()
        os.chown(self.theirs, SOMEBODY, SOMEBODY)
        self.pool = self.theirs / "p"
        self.mount_point = self.scratch / "m"
        self.mount_point.mkdir()
        self.secret = self.scratch / "secret"
        self.secret.write_text("pool: SHADOW\nSHADOW\n")
        self.secret.chmod(0o600)
        self.as_somebody("up", "--size", SIZE, self.pool)
        self.local, self.direct, self.dpu = [f"{scheme}:///pool/main?dir={self.pool}"
                                             for scheme in ("ros2s+local", "ros2s", "ros2s+dpu")]

    def as_somebody(self, *arguments):
        return run(*arguments, program=self.scratch / "ros2store", cwd=self.scratch, user=SOMEBODY, group=SOMEBODY,
                   extra_groups=[])

    def mounted(self):
        return [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
                if line.split()[1] == str(self.mount_point)]

    def fuse_processes(self):
        """Returns them by user."""
        return {os.stat(f"/proc/{pid}").st_uid: pid for pid, name in processes_of(self.scratch).items()
                if name == "ros2store-fuse"}

    def assert_all_files_are_theirs(self):
        for path in self.pool.rglob("*"):
            self.assertEqual(path.lstat().st_uid, SOMEBODY, path)

    def test_mount_point_that_others_may_exchange_is_refused(self):
        place = self.theirs / "m"
        place.mkdir()
        said = run("mount", self.direct, place, expect=1).stderr
        self.assertIn(f"{self.theirs}, on its path, belongs to another user (uid {SOMEBODY})", said)
        self.assertNotIn(f" {place} ", Path("/proc/self/mounts").read_text(encoding="utf-8"))

    def test_commands_of_root_act_as_the_owner(self):
        source = self.scratch / "file"
        source.write_text("bytes")
        os.chown(source, SOMEBODY, SOMEBODY)  # in a container a copy keeps its owner
        for uri in (self.direct, self.dpu):
            run("cp", source, uri.replace("?", "/file?"))
            self.assertIn("file", run("ls", uri).stdout)
            self.assertEqual(run("cat", uri.replace("?", "/file?")).stdout, "bytes")
            run("why", uri.replace("?", "/file?"))
        self.assertEqual(len(self.daemons()), 2)
        run("top", "--once", "--interval", "0.1", self.pool)
        run("tenant", "list", self.pool)
        run("container", "list", self.dpu.replace("/main", ""))
        # The source is root's alone.
        self.refused("cp", self.secret, self.dpu.replace("?", "/s?"),
                     says=["permission denied", f"acts as uid 65534, to whom {self.pool} belongs"])
        run("down", self.pool)
        self.assertEqual(run("cat", self.local.replace("?", "/file?")).stdout, "bytes")
        run("container", "create", self.local.replace("main", "more"))
        self.assert_all_files_are_theirs()
        own = self.scratch / "own"
        run("up", "--no-daemons", "--size", SIZE, own)
        self.refused("cp", "-r", self.local, f"ros2s+local:///pool/main?dir={own}",
                     says=["cannot be trusted", "belongs to another user (uid 65534)"])

    def test_up_is_refused(self):
        for command in (["up", self.pool], ["up", "--no-daemons", self.theirs / "new"],
                        ["pool", "create", self.theirs / "new"], ["certs", "init", self.theirs / "new"]):
            self.refused(*command, says=["cannot be trusted", "belongs to another user (uid 65534)"])

    def test_mounts(self):
        for uri in (self.dpu, self.direct, self.local):
            if uri == self.local:
                run("down", self.pool)
            with self.subTest(uri=uri):
                run("mount", uri, self.mount_point)
                (self.mount_point / "file").write_text("bytes")
                self.assertEqual((self.mount_point / "file").read_text(), "bytes")
                options = self.mounted()[0][3].split(",")
                self.assertTrue({"nosuid", "nodev", "default_permissions"} <= set(options), options)
                device = os.stat(self.mount_point).st_dev
                ahead = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
                self.assertEqual(ahead.read_text().strip(), "1024")
                processes = self.fuse_processes()
                self.assertEqual(set(processes), {0, SOMEBODY})
                (self.mount_point / "file").unlink()
                # By a signal, by umount, by kill -9.
                if uri == self.dpu:
                    os.kill(processes[SOMEBODY], signal.SIGTERM)
                elif uri == self.direct:
                    subprocess.run(["umount", self.mount_point], check=True)
                else:
                    os.kill(processes[SOMEBODY], signal.SIGKILL)
                wait_until(lambda: not self.mounted() and not self.fuse_processes(), "the mount's end")
        # A busy mount is ended, too.
        run("mount", self.local, self.mount_point)
        descriptor = os.open(self.mount_point / "open", os.O_CREAT | os.O_WRONLY)
        os.kill(self.fuse_processes()[SOMEBODY], signal.SIGTERM)
        wait_until(lambda: not self.mounted() and not self.fuse_processes(), "the mount's end")
        self.assertRaises(OSError, os.close, descriptor)
        self.assert_all_files_are_theirs()

    def test_a_mount_that_fails_leaves_nothing(self):
        run("down", self.pool)
        line = run("mount", self.dpu, self.mount_point, expect=1).stderr
        self.assertIn("is running", line)
        self.assertIn("acts as uid 65534", line)
        wait_until(lambda: not self.mounted() and not self.fuse_processes(), "the mount's end")

    def test_files_that_the_user_exchanged(self):
        """Root's file is not read, nobody is connected to as root, and nothing blocks."""
        socket_of_root = self.scratch / "socket"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(listener.close)
        listener.bind(str(socket_of_root))
        socket_of_root.chmod(0o600)
        listener.listen()
        listener.setblocking(False)
        for name, uri in (("certs/hosts/client.key", self.dpu), ("certs/hosts/ca.crt", self.dpu),
                          ("certs/storage/client.crt", self.direct), ("run/dpu.control", self.dpu),
                          ("config.yaml", self.local), ("owner", self.local), ("run/engine.pid", None),
                          ("run/engine.metrics", None)):
            path = self.pool / name
            commands = [["status", self.pool], ["top", "--once", self.pool]] if uri is None else [
                ["ls", uri], ["mount", uri, self.mount_point], ["status", self.pool], ["down", self.pool]]
            kept = self.theirs / "kept"
            path.rename(kept)
            for exchanged in ("link", "pipe"):
                if exchanged == "link":
                    path.symlink_to(socket_of_root if name.startswith("run/dpu.c") else self.secret)
                else:
                    os.mkfifo(path)
                os.chown(path, SOMEBODY, SOMEBODY, follow_symlinks=False)
                for command in commands:
                    if command[0] == "down" and not name.startswith(("config", "owner")):
                        continue
                    with self.subTest(file=name, exchanged=exchanged, command=command):
                        begin = time.monotonic()
                        done = run(*command, expect=None)
                        self.assertLess(time.monotonic() - begin, AT_ONCE_SECONDS)
                        self.assertNotIn("SHADOW", done.stdout + done.stderr)
                        if command[0] in ("ls", "mount"):
                            self.assertEqual(done.returncode, 1, done.stderr)
                path.unlink()
            kept.rename(path)
        self.assertRaises(BlockingIOError, listener.accept)


if __name__ == "__main__":
    unittest.main()

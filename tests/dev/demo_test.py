"""Kills ./dev demo half-way. No process and no mount stays, and the next demo works.

usage: demo_test.py BUILD_DIRECTORY CHECKOUT [NAME…]      Exit status 77 where this machine cannot mount."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import runner  # noqa: E402
from runner import wait_until  # noqa: E402

test = runner.Tests()


class Checkout:
    """Makes a directory that looks like a built checkout to the demo, and a tree for it to copy."""

    def __init__(self):
        self.top = Path(tempfile.mkdtemp(prefix="ros2store-demo."))
        self.tree = self.top / "tree"
        (self.tree / "sub").mkdir(parents=True)
        for i in range(1500):  # long enough mounted to be seen
            (self.tree / "sub" / f"{i}").write_bytes(os.urandom(5000))
        os.link(self.tree / "sub" / "1", self.tree / "hard")
        os.symlink("sub/2", self.tree / "soft")
        (self.top / "build").mkdir()
        os.symlink(BUILD, self.top / "build" / "release")
        self.mark = f"demo-test-{secrets.token_hex(8)}"
        self.said = self.top / "said"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        for mount_point in self.mounts():
            subprocess.run(["umount", "-l", mount_point], check=False)
        shutil.rmtree(self.top)

    def start(self, *options):
        command = [sys.executable, "-B", CHECKOUT / "tools" / "dev", "demo", "--tiny",
                   "--tree", self.tree, *options]
        with open(self.said, "wb") as out:
            return subprocess.Popen(command, cwd=self.top, stdin=subprocess.DEVNULL, stdout=out,
                                    stderr=subprocess.STDOUT, start_new_session=True,
                                    env=os.environ | {"DEMO_TEST": self.mark})

    def output(self):
        """Returns the notes and the output of the demo."""
        notes = self.top / "build" / "demo.log"
        noted = notes.read_text(errors="replace") if notes.exists() else ""
        return noted + self.said.read_text(errors="replace")

    def processes(self):
        wanted, found = f"DEMO_TEST={self.mark}".encode(), []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and \
                        wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def mounts(self):
        table = Path("/proc/self/mounts").read_text(errors="replace")
        return [line.split(" ")[1] for line in table.splitlines() if str(self.top) in line]

    def run_until(self, ready, what, *options):
        """Starts a demo. Returns it when it has reached the step."""
        demo = self.start(*options)
        wait_until(lambda: ready() or demo.poll() is not None, what)
        assert demo.poll() is None, f"the demo ended before {what}: {self.output()[-3000:]}"
        return demo

    def expect_nothing_left(self):
        wait_until(lambda: not self.processes(), f"the end of {self.processes()}")
        assert self.mounts() == [], self.mounts()
        assert not (self.top / "build" / "demo").exists()


def mounted(checkout):
    return lambda: len(checkout.mounts()) > 0


def runs(checkout, command):
    return lambda: f"{command} " in checkout.output()


@test
def killed_while_fio_and_the_writer_run():
    with Checkout() as checkout:
        for command in ("--name=verify", "kill_writer write"):
            demo = checkout.run_until(runs(checkout, command), command)
            demo.send_signal(signal.SIGKILL)
            demo.wait(runner.PATIENCE_SECONDS)
            checkout.expect_nothing_left()


@test
def interrupted_demo_leaves_nothing():
    with Checkout() as checkout:
        demo = checkout.run_until(mounted(checkout), "the mount")
        os.killpg(demo.pid, signal.SIGINT)  # as Ctrl-C on a terminal
        assert demo.wait(runner.PATIENCE_SECONDS) == 130, checkout.output()[-3000:]
        checkout.expect_nothing_left()
        demo = checkout.run_until(runs(checkout, "kill_writer write"), "the writer")
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(runner.PATIENCE_SECONDS) == 143, checkout.output()[-3000:]
        checkout.expect_nothing_left()


@test
def next_demo_works_and_is_kept():
    with Checkout() as checkout:
        demo = checkout.run_until(mounted(checkout), "the mount")
        demo.send_signal(signal.SIGKILL)
        assert demo.wait(runner.PATIENCE_SECONDS) == -signal.SIGKILL
        # Starts at once, while the guard still clears what the killed demo left.
        demo = checkout.start("--keep")
        assert demo.wait(600) == 0, checkout.output()[-3000:]
        said = checkout.output()
        assert said.splitlines()[-1].endswith(" passed, 0 failed"), said[-3000:]
        kept = checkout.top / "build" / "demo-kept"
        assert checkout.mounts() == [str(kept / "mnt")], checkout.mounts()
        printed = checkout.said.read_text().replace(str(checkout.top), ".")
        short = printed[:printed.index("The pool is mounted")].splitlines()
        assert len(short) <= 60, printed
        assert all(len(line) <= 100 for line in short if "NOT RUN" not in line), printed
        told = [line.strip() for line in said[said.index("The pool is mounted"):].splitlines()]
        commands = [line for line in told if "/ros2store " in line or line.startswith("ls ")]
        assert len(commands) == 5, told
        for command in commands:
            subprocess.run(["bash", "-c", command], check=True, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, timeout=runner.PATIENCE_SECONDS)
        assert commands[-1].split(" ")[1] == "down", commands
        checkout.expect_nothing_left()
        assert not kept.exists()


@test
def one_at_a_time_and_not_over_what_was_kept():
    with Checkout() as checkout:
        (checkout.top / "build" / "demo-kept").mkdir()
        demo = checkout.start("--keep")
        assert demo.wait(runner.PATIENCE_SECONDS) == 1
        assert " down " in checkout.output() and "rm -rf" in checkout.output(), checkout.output()


@test
def too_little_disk_is_reported():
    runner.need_root()  # for a mount namespace
    with Checkout() as checkout:
        script = ("mount -t tmpfs -o size=8m none build && ln -s \"$1\" build/release && shift && "
                  "exec \"$@\"")
        done = subprocess.run(["unshare", "-m", "bash", "-c", script, "bash", BUILD, sys.executable,
                               "-B", CHECKOUT / "tools" / "dev", "demo", "--tiny", "--tree",
                               checkout.tree], cwd=checkout.top, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=runner.PATIENCE_SECONDS)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "too little disk" in done.stdout and "free some" in done.stdout, done.stdout
        assert done.stdout.splitlines()[-1] == "demo: 0 passed, 1 failed", done.stdout


def main():
    global BUILD, CHECKOUT
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    BUILD, CHECKOUT = (Path(each).absolute() for each in sys.argv[1:3])
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("SKIPPED: /dev/fuse cannot be opened: NO DEMO WAS RUN")
        return 77
    return test.run(sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())

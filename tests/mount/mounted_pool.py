"""Makes pools with mounts, for the tests that mount. Program paths are known after use()."""
import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

from runner import enter_mount_namespace, wait_until

CLI = FUSE = STEPPED_CLOCK = None
LOCAL, DIRECT, OFFLOAD = SCHEMES = "ros2s+local", "ros2s", "ros2s+dpu"
SERVED = DIRECT, OFFLOAD  # through daemons: others may have it mounted, too


def kernel_is(*version):
    return tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= version


def pattern(size, seed=1):
    block = (f"{seed:08d} " * 8000).encode()
    return (block * (size // len(block) + 1))[:size]


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Pool:
    """Makes a fresh pool, with daemons if the scheme needs them, and a mount point. At the end all are
    stopped, unmounted and removed."""

    def __init__(self, size="256MiB", owner=None, scheme=LOCAL, devices=1):
        self.top = tempfile.mkdtemp(prefix="ros2store-mount.")
        self.directory, self.mount_point = f"{self.top}/pool", f"{self.top}/mnt"
        self.second_mount_point = f"{self.top}/second"
        os.mkdir(self.mount_point)
        if owner is not None:
            for path in (self.top, self.mount_point):
                os.chown(path, owner, owner)
        self.owner = owner
        # The checkout may be in a directory that only its user can enter, such as root's home.
        daemons = [] if scheme == LOCAL else [f"{os.path.dirname(CLI)}/ros2store-{name}"
                                              for name in ("engine", "dpu")]
        self.programs = {} if owner is None else {
            program: shutil.copy(program, self.top) for program in (CLI, FUSE, *daemons)}
        for copy in self.programs.values():
            os.chmod(copy, 0o755)
        self.is_served = scheme != LOCAL
        self.uri = f"{scheme}:///pool/main?dir={self.directory}"
        alone = () if self.is_served else ("--no-daemons",)
        self.run(CLI, "up", *alone, self.directory, "--size", size,
                 "--devices", str(devices))

    def become_owner(self):
        if self.owner is not None:
            os.setgroups([])
            os.setgid(self.owner)
            os.setuid(self.owner)

    def run(self, *words, expect=0):
        done = subprocess.run([self.programs.get(words[0], words[0]), *words[1:]], cwd=self.top,
                              capture_output=True, text=True, timeout=120,
                              preexec_fn=self.become_owner)
        assert done.returncode == expect, \
            f"{' '.join(words)}: status {done.returncode}: {done.stdout}{done.stderr}"
        return done

    def serve(self, directory):
        """A directory of this machine through the DPU daemon, too; its URI."""
        self.run(CLI, "down", self.directory)
        with open(f"{self.directory}/dpu.yaml", "a") as settings:
            settings.write(f"\ndirectories: {{served/files: {directory}}}\n"
                           'access: {"CN=client": {write: served/*}}\n')
        self.run(CLI, "up", self.directory)
        return f"{OFFLOAD}:///served/files?dir={self.directory}"

    def defer(self):
        """Changes of the container are durable at fsync."""
        self.run(CLI, "container", "set", f"{DIRECT if self.is_served else LOCAL}:{self.uri.partition(':')[2]}",
                 "--durability", "fsync")

    def mount(self, *options):
        done = self.run(FUSE, *options, self.uri, self.mount_point)
        assert done.stderr == "" and done.stdout == "", done.stderr + done.stdout
        assert self.is_mounted()
        return self.pid()

    def mount_second(self, scheme=None):
        """Mounts the same container again, perhaps through the other daemon. Returns the mount point."""
        os.mkdir(self.second_mount_point)
        uri = self.uri if scheme is None else f"{scheme}:{self.uri.partition(':')[2]}"
        self.run(FUSE, uri, self.second_mount_point)
        return self.second_mount_point

    def pid(self):
        """Returns the process that has the pool mounted."""
        if self.is_served:
            return process_with(self.uri, self.mount_point, program=self.programs.get(FUSE, FUSE))
        with open(f"{self.directory}/owner") as file:
            return int(file.readline().split()[1])

    def is_mounted(self):
        with open("/proc/self/mountinfo") as table:
            return any(line.split()[4] == self.mount_point for line in table)

    def unmount(self, pid):
        self.run("fusermount3", "-u", self.mount_point)
        self.wait_for_end(pid)

    def wait_for_end(self, pid):
        wait_until(lambda: not is_running(pid), f"process {pid} to end")
        assert not self.is_mounted()

    def path(self, name):
        return os.path.join(self.mount_point, name)

    def check(self):
        """Checks what is left of the pool. 2: a process that a test has left still has it open."""
        done = subprocess.run([self.programs.get(CLI, CLI), "pool", "check", self.directory], cwd=self.top,
                              capture_output=True, text=True, timeout=120, preexec_fn=self.become_owner)
        assert done.returncode in (0, 2), f"pool check: status {done.returncode}: {done.stdout}{done.stderr}"

    def __enter__(self):
        return self

    def daemon(self, program):
        status = json.loads(self.run(CLI, "--json", "status", self.directory).stdout)
        return next(each["pid"] for each in status["daemons"] if each["program"] == program)

    def __exit__(self, *error):
        if os.path.exists(self.second_mount_point):
            subprocess.run(["umount", "-l", self.second_mount_point], capture_output=True,
                           check=False)
        if self.is_mounted():
            subprocess.run(["umount", "-l", self.mount_point], check=False)
        if self.is_served:
            subprocess.run([CLI, "down", "--kill", self.directory], capture_output=True, check=False)
        try:
            if error[0] is None:
                self.check()
        finally:
            subprocess.run(["rm", "-rf", self.top], check=False)


@contextlib.contextmanager
def two_mounts(*arguments, **options):
    """A Pool with two mounts: it, and the second mount point."""
    with Pool(*arguments, **options) as pool:
        pool.mount()
        yield pool, pool.mount_second()


def process_with(*words, program=None):
    """Returns the mount's process with these words in its command line."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                line = file.read().split(b"\0")
        except OSError:
            continue  # it has ended
        if line[0] == os.fsencode(program or FUSE) and {*map(os.fsencode, words)} <= {*line}:
            found.append(int(name))
    assert len(found) == 1, f"{words}: {found}"
    return found[0]


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def enter_own_namespace():
    """Enters a mount namespace: mounts that a failing test leaves behind end with it. The device file is as
    Debian has it."""
    if os.geteuid() != 0:
        return
    enter_mount_namespace()
    if os.stat("/dev/fuse").st_mode & 0o666 != 0o666:
        node = os.path.join(tempfile.mkdtemp(prefix="ros2store-dev."), "fuse")
        os.mknod(node, 0o666 | stat.S_IFCHR, os.stat("/dev/fuse").st_rdev)
        os.chmod(node, 0o666)
        subprocess.run(["mount", "--bind", node, "/dev/fuse"], check=True)
        os.unlink(node)
        os.rmdir(os.path.dirname(node))


def use(build):
    """Uses the programs of a build directory. Returns False if this machine cannot mount."""
    global CLI, FUSE, STEPPED_CLOCK
    CLI, FUSE = (f"{os.path.abspath(build)}/bin/{name}" for name in ("ros2store", "ros2store-fuse"))
    STEPPED_CLOCK = f"{os.path.abspath(build)}/tests/mount/libstepped_clock.so"
    if not os.path.exists("/dev/fuse") or not stat.S_ISCHR(os.stat("/dev/fuse").st_mode):
        print("SKIPPED: there is no /dev/fuse on this machine: NOTHING WAS MOUNTED OR TESTED")
        return False
    enter_own_namespace()
    return True


def main(tests, usage):
    """Runs the tests that the command line names, with the programs of its build directory. Ends the program."""
    if len(sys.argv) < 2:
        sys.exit(usage)
    sys.exit(tests.run(sys.argv[2:]) if use(sys.argv[1]) else 77)

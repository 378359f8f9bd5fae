"""./dev demo: from nothing to a mounted, measured and repeatedly killed pool.

Everything lies in build/demo and is removed again, also on Ctrl-C; what a demo that was killed left
behind is cleared by the next. With --keep the pool stays, mounted, in build/demo-kept."""

import hashlib
import os
import shutil
import stat
import subprocess
from pathlib import Path

import build
import compare
import console
import kill
import shown

BIN = Path("build/release/bin")
STORE = BIN / "ros2store"
MIB_NEEDED = 6500


def add_arguments(parser):
    parser.add_argument("--keep", action="store_true", help="leave the pool, mounted")
    parser.add_argument("--short", action="store_true", help="fewer and shorter measurements")
    parser.add_argument("--tree", default="/usr/include", help="what is copied in (/usr/include)")


def run(options):
    tally = DemoTally()
    place = Path("build/demo-kept" if options.keep else "build/demo").absolute()
    demo = Demo(place, options, tally)
    if options.keep and place.exists():
        tally.add(f"stopped: {place} is what an earlier --keep left. Use it, or end it first:\n  "
                  f"{STORE} down {demo.pool}; rm -rf {place}", False)
        return tally.close()
    try:
        demo.prepare()
        demo.run()
    except shown.Failed as failure:
        tally.add(f"stopped: {failure}", False)
    finally:
        kept = options.keep and tally.failed == 0 and tally.passed > 0
        if not kept:
            clear(place)
    if kept:
        demo.tell()
    return tally.close()


class DemoTally(console.Tally):
    def line(self):
        return f"demo: {self.passed} passed, {self.failed} failed"


def clear(place):
    """Unmounts and removes what a demo made, however far it came."""
    mount_point = place / "mnt"
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
        # The kernel writes a space as \040.
        names = [line.split(" ")[1].replace("\\040", " ") for line in mounts]
    if str(mount_point) in names:
        for command in (["umount", mount_point], ["fusermount3", "-u", mount_point],
                        ["umount", "-l", mount_point]):
            if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0:
                break
    if os.path.ismount(mount_point):
        raise shown.Failed(f"{mount_point} is still mounted; end it with: umount -l {mount_point}")
    if place.exists():
        shutil.rmtree(place)


class Demo:
    def __init__(self, place, options, tally):
        self.place = place
        self.options = options
        self.tally = tally
        self.pool = place / "pool"
        self.mount_point = place / "mnt"
        self.tree = Path(options.tree)
        self.uri = f"ros2s+local:///pool/main?dir={self.pool}"

    def uri_of(self, path):
        return f"ros2s+local:///pool/main/{path}?dir={self.pool}"

    # ---- the way through

    def prepare(self):
        free = shutil.disk_usage("build").free >> 20
        size = subprocess.run(["du", "-sm", self.tree], capture_output=True, text=True, check=False)
        megabytes = int(size.stdout.split()[0]) if size.returncode == 0 else 0
        minutes = 3 if self.options.short else 8
        print(f"This takes about {minutes} minutes after the build and {MIB_NEEDED} MiB of disk in "
              f"{self.place} ({free} MiB are free); {self.tree} is {megabytes} MiB.")
        if free < MIB_NEEDED:
            raise shown.Failed(f"too little disk: {free} MiB are free where {MIB_NEEDED} are needed; "
                               "free some, or move the checkout")
        if megabytes == 0 or megabytes > 1500:
            raise shown.Failed(f"{self.tree} is missing or over 1500 MiB; choose another with --tree")
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            raise shown.Failed("/dev/fuse cannot be opened; run: modprobe fuse (in a container: docker "
                               "run --device /dev/fuse --cap-add SYS_ADMIN …)")
        if not build.make("release"):
            raise shown.Failed("the build failed")
        clear(self.place)
        self.place.mkdir(parents=True)
        self.mount_point.mkdir()

    def run(self):
        for title, step in (
                ("a pool", self.up),
                (f"copy {self.tree} in", self.copy_in),
                ("compare through the mount", self.compare_through_mount),
                ("copy out and compare", self.copy_out),
                ("fio with verification", self.fio_verify),
                ("kill it", self.kill_test),
                ("a control that acknowledges too early is caught", self.kill_control),
                ("figures", self.figures)):
            console.step(title)
            step()
        if self.options.keep:
            console.step("mount it again, to keep")
            self.mount()

    def tell(self):
        print(f"\nThe pool is mounted at {self.mount_point}. Try:\n"
              f"  ls -l {self.mount_point}/tree\n"
              f"  {STORE} status {self.pool}\n"
              f"  {STORE} ls -l '{self.uri}'\n"
              f"and end it with:\n"
              f"  {STORE} down {self.pool} && rm -rf {self.place}")

    # ---- its steps

    def up(self):
        shown.run(STORE, "up", self.pool, "--size", "4G")
        self.tally.add("up", True)
        refused = subprocess.run([STORE, "up", self.pool], stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True, check=False)
        console.command([STORE, "up", self.pool])
        print(f"  {refused.stderr.strip()}")
        self.tally.add("a second up is refused", refused.returncode != 0)

    def copy_in(self):
        shown.run(STORE, "cp", "-r", self.tree, self.uri_of("tree"))
        self.tally.add("cp -r in", True)

    def mount(self):
        shown.run(STORE, "mount", self.uri, self.mount_point)

    def down(self):
        shown.run(STORE, "down", self.pool)

    def compare_through_mount(self):
        self.mount()
        # What `cp` put there is seen through the mount, and the CLI works beside it.
        shown.run(STORE, "ls", self.uri)
        sums = "find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum"
        there = shown.shell(f"cd {self.mount_point}/tree && {sums}", timeout=1200)
        here = shown.shell(f"cd {self.tree} && {sums}", timeout=1200)
        print(f"  {there.strip()}\n  {here.strip()}")
        self.tally.add("sha256 of every file through the mount", there == here)
        differences = different(self.tree, self.mount_point / "tree")
        print("\n".join(differences[:10]), end="\n" if differences else "")
        self.tally.add("names, types, modes, owners, times and links through the mount",
                       not differences)
        self.down()

    def copy_out(self):
        out = self.place / "out"
        shown.run(STORE, "cp", "-r", self.uri_of("tree"), out)
        differences = different(self.tree, out) + different_content(self.tree, out)
        print("\n".join(differences[:10]), end="\n" if differences else "")
        self.tally.add("sha256 of every file, and its attributes, through cp out", not differences)
        shutil.rmtree(out)

    def fio_verify(self):
        ours = compare.pool_side("embedded", build.folder("release"), self.uri, "fio-verify")
        out = shown.run("fio", "--name=verify", *ours.target, "--rw=randwrite", "--bs=4k",
                        "--iodepth=32", "--size=128m", "--verify=crc32c", "--do_verify=1",
                        "--verify_fatal=1", "--verify_state_save=0", quiet=True)
        print("\n".join("  " + line.strip() for line in out.splitlines()
                        if line.strip().startswith(("read:", "write:", "verify:"))))
        self.tally.add("fio --verify=crc32c", True)

    def kill_test(self):
        shown.run(STORE, "mkdir", self.uri_of("killed"), self.uri_of("control"))
        for acknowledged, intact in kill.rounds(BIN / "kill_writer", self.uri_of("killed"), 5, 1000):
            self.tally.add(f"killed with writes in flight after {acknowledged} acknowledged "
                           "operations: nothing lost", intact)

    def kill_control(self):
        caught = 0
        for _, intact in kill.rounds(BIN / "kill_writer_control", self.uri_of("control"), 5, 1000):
            caught += not intact
            if caught:
                break
        self.tally.add("the control lost acknowledged writes, and the verifier noticed", caught > 0)

    def figures(self):
        size, seconds, turns = ("512m", 1, 1) if self.options.short else ("1g", 4, 5)
        raw = compare.raw_side(self.place / "raw")
        ours = compare.pool_side("embedded", build.folder("release"), self.uri, "figures")
        compare.fill(raw, size)
        compare.fill(ours, size)
        results = list(compare.table(compare.ROWS, [raw, ours], size, seconds, turns))
        print(f"\n{compare.machine()}; {turns} turn{'s' if turns > 1 else ''} of {seconds} s "
              "each way")
        compare.show(results)
        self.tally.add("figures", True)


def entries(root):
    """Every name below a directory with what `lstat` says of it, and link targets."""
    root = os.fsencode(root)
    found = {}
    inodes = {}
    for directory, names, files in os.walk(root):
        names.sort()  # the order of the walk too: a hard link's first name is the same on both sides
        for name in names + sorted(files):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            kind = stat.S_IFMT(status.st_mode)
            relative = os.path.relpath(path, root)
            value = {"mode": oct(status.st_mode), "owner": (status.st_uid, status.st_gid),
                     "modified": status.st_mtime_ns}
            if kind == stat.S_IFREG:
                value["size"] = status.st_size
                if status.st_nlink > 1:
                    value["first name"] = inodes.setdefault(status.st_ino, relative)
            elif kind == stat.S_IFLNK:
                value["target"] = os.readlink(path)
            found[relative] = value
    return found


def different(one, other):
    """Lines that say how two trees differ, contents apart."""
    left, right = entries(one), entries(other)
    lines = [f"  only in one: {name!r}" for name in sorted(left.keys() ^ right.keys())]
    for name in left.keys() & right.keys():
        lines += [f"  {name!r}: {key} is {left[name].get(key)} and {right[name].get(key)}"
                  for key in left[name] if left[name].get(key) != right[name].get(key)]
    return lines


def different_content(one, other):
    lines = []
    for directory, _, files in os.walk(one):
        for name in files:
            path = Path(directory) / name
            if path.is_symlink() or not path.is_file():
                continue
            copy = Path(other) / path.relative_to(one)
            if sha256(path) != sha256(copy):
                lines.append(f"  {copy}: other bytes")
    return lines


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()

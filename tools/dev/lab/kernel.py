"""Prepares the guest's kernel, which is Debian's package, unpacked and not installed, and the initramfs that
boots the machine's own root file system. Keeps both in build/lab."""

import contextlib
import fcntl
import functools
import lzma
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import console

HOME = Path("build/lab").absolute()
USUAL = "linux-image-amd64"  # Debian 12's own
# Modules that the initramfs needs for the root: a virtiofs of the host, and an overlay in memory.
TO_THE_ROOT = ("virtio_pci", "virtio_console", "virtiofs", "overlay")


class Unavailable(Exception):
    """This machine lacks what the lab needs."""


class Failure(Exception):
    """The machine has what the lab needs, but a step failed."""


@dataclass
class Kernel:
    image: Path      # an ELF file where it can be had, which QEMU starts quicker than a bzImage
    initramfs: Path
    modules: Path    # the folder of its version


@functools.cache
def prepare(wanted=USUAL):
    """Downloads and unpacks the kernel that the package `wanted` depends on, if it is not here yet."""
    with alone():
        package = here(wanted)
        home, release = HOME / package, package.removeprefix("linux-image-")
        kernel = Kernel(home / "vmlinux", home / "initramfs", home / "root/lib/modules" / release)
        make_initramfs(home / "root", kernel, home / "files")
    return kernel


@contextlib.contextmanager
def alone():
    """Excludes other processes that prepare a kernel here."""
    HOME.mkdir(parents=True, exist_ok=True)
    with open(HOME / "kernels.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def here(wanted):
    """Returns the package of the unpacked kernel: apt's newest, or the last one if apt has none."""
    last = HOME / f"{wanted}.last"
    try:
        package = newest_package(wanted)
        if not (HOME / package / "vmlinux").exists():
            package = fetch(package, wanted)
    except Unavailable as why:
        if not last.exists():
            raise
        print(f"dev: the guest's kernel is the one that is here: {why}", flush=True)
        return last.read_text(encoding="ascii")
    last.write_text(package, encoding="ascii")
    return package


def fetch(package, wanted):
    """Downloads a kernel. Returns its package, which may be newer than `package`: apt's lists may be out of
    date."""
    console.step(f"the guest's kernel: {package}")
    try:
        unpack(package)
    except Unavailable:
        run("apt-get", "update", failure=Unavailable)
        package = newest_package(wanted)
        unpack(package)
    return package


def newest_package(wanted):
    package = kernel_behind(wanted)
    if package is None:
        run("apt-get", "update", failure=Unavailable)
        package = kernel_behind(wanted)
    if package is None:
        raise Unavailable(f"apt knows no package {wanted}: it is in Debian 12 or its security updates, whose "
                          "lines sources.list needs")
    return package


def kernel_behind(wanted):
    said = subprocess.run(["apt-cache", "depends", wanted], capture_output=True, text=True, check=False)
    for line in said.stdout.splitlines():
        if line.strip().startswith("Depends: linux-image-"):
            return line.split()[-1]
    return None


def unpack(package):
    home, release = HOME / package, package.removeprefix("linux-image-")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    run("apt-get", "download", package, cwd=home, failure=Unavailable)
    archive = next(home.glob("*.deb"))
    run("dpkg-deb", "-x", archive, home / "root")
    archive.unlink()
    run("depmod", "-b", home / "root", release)
    # Written last: if it exists, everything else does.
    new = home / "vmlinux.new"
    new.write_bytes(elf_of((home / "root/boot" / f"vmlinuz-{release}").read_bytes()))
    new.rename(home / "vmlinux")


def elf_of(image):
    """Returns the ELF kernel of a bzImage if it is an xz stream in it; else the image."""
    at = image.find(b"\xfd7zXZ\0")
    return image if at < 0 else lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(image[at:])


def make_initramfs(root, kernel, files):
    shutil.rmtree(files, ignore_errors=True)
    for name in ("bin", "modules", "proc", "sys", "dev", "host", "memory", "root"):
        (files / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", files / "bin")
    shutil.copy(Path(__file__).parent / "guest/init", files / "init")
    (files / "init").chmod(0o755)
    order = []
    for name in TO_THE_ROOT:
        said = run("modprobe", "-d", root, "-S", kernel.modules.name, "--show-depends", name)
        order += [line.split()[1] for line in said.splitlines() if line.startswith("insmod ")]
    order = list(dict.fromkeys(order))
    for path in map(Path, order):
        data = path.read_bytes()
        (files / "modules" / path.name).write_bytes(lzma.decompress(data) if path.suffix == ".xz" else data)
    (files / "modules/order").write_text("".join(f"{Path(path).name}\n" for path in order),
                                         encoding="ascii")
    names = "".join(f"{path.relative_to(files)}\n" for path in sorted(files.rglob("*")))
    new = kernel.initramfs.with_suffix(".new")
    with open(new, "wb") as out:
        done = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet", "-R", "0:0"], cwd=files, check=False,
                              input=names.encode(), stdout=out)
    if done.returncode != 0:
        raise Failure(f"cpio failed: {done.returncode}")
    new.rename(kernel.initramfs)


def run(*words, cwd=None, failure=Failure):
    done = subprocess.run(list(map(str, words)), cwd=cwd, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise failure(f"{words[0]} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout

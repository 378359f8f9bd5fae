"""The wheel of the Python package: for programs in a virtual environment, without the Debian package.

It is made of the Debian package's tree. Beside the module lie libros2store, the libraries that this loads, and those
that they need, except what each Debian 12 and Ubuntu 22.04 machine with Python has."""

import base64
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

import package

PACKAGES = Path("usr/lib/python3/dist-packages")
# Not in the wheel. Python itself uses OpenSSL and zlib: a process should have one of each.
BASE = ("libc6", "libgcc-s1", "libssl3", "libstdc++6", "zlib1g")
EXAMPLE = Path("examples/samples.py").absolute()
# What the example's process must have used.
ORIGIN = """
import importlib.metadata, re, sys
sys.argv = ["samples.py", *sys.argv[2:]]
exec(compile(open({example!r}).read(), "samples.py", "exec"))
used = set(re.findall(r"/\\S*libros2store\\S*", open("/proc/self/maps").read()))
print(importlib.metadata.version("ros2store"), all(path.startswith(sys.prefix) for path in used), len(used))
"""


def make(debian, tree, out):
    """Returns the path of the wheel, or nothing if the tree has no Python package."""
    if not (tree / PACKAGES).exists():
        return None
    staged = out / "wheel"
    shutil.copytree(tree / PACKAGES, staged)
    folder, (information,) = staged / "ros2store", staged.glob("*.dist-info")
    (folder / "lib/ros2store").mkdir(parents=True)
    shutil.copy2((tree / "usr/lib/libros2store.so.0").resolve(), folder / "lib/libros2store.so.0")
    for path in (tree / "usr/lib/ros2store").glob("libros2store-*-*.so"):
        shutil.copy2(path, folder / "lib/ros2store")
    module, = folder.glob("_ros2store*.so")
    subprocess.run(["patchelf", "--set-rpath", "$ORIGIN/lib:$ORIGIN/lib/ros2store", module], check=True)
    bundled = add_needed(debian, folder)
    (information / "LICENSE").write_text(package.licences(debian, bundled), encoding="utf-8")
    version = information.name.removeprefix("ros2store-").removesuffix(".dist-info")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}[debian.architecture]
    tag = f"cp311-cp311-linux_{machine}"  # for Python 3.11, as the module is
    (information / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: ros2store ({version})\nRoot-Is-Purelib: false\n"
                                       f"Tag: {tag}\n", encoding="utf-8")
    return archive(staged, information, out / f"ros2store-{version}-{tag}.whl")


def add_needed(debian, folder):
    """Adds the libraries that those in the wheel need. Returns their packages by library."""
    bundled = {}
    binaries = package.elf_files(folder)
    for path in binaries:
        for name in package.needed_by(path):
            if any(folder.rglob(name)):
                continue
            owner = debian.owner_of(debian.libraries[name])
            if owner not in BASE:
                bundled[name] = owner
                binaries.append(package.copy_library(debian.libraries[name], folder / "lib/ros2store" / name))
    return bundled


def archive(staged, information, wheel):
    """Packs the files, each with the hash by which an installation is checked, always with the same bytes."""
    record = information / "RECORD"
    rows = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(each for each in staged.rglob("*") if each.is_file() and each != record):
            name, data = path.relative_to(staged).as_posix(), path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}\n")
            add(packed, name, data, os.access(path, os.X_OK))
        name = record.relative_to(staged).as_posix()
        add(packed, name, "".join([*rows, f"{name},,\n"]).encode(), False)
    return wheel


def add(packed, name, data, is_program):
    entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    entry.external_attr = (0o755 if is_program else 0o644) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    packed.writestr(entry, data)


def complaints(wheel, programs):
    """Installs the wheel in an empty virtual environment, and runs an example there, with an embedded pool and with
    daemons. Returns what is wrong."""
    with tempfile.TemporaryDirectory(prefix="ros2store-wheel-") as scratch:
        def run(*words):
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd=scratch,
                                  env={"PATH": "/usr/bin:/bin", "HOME": scratch, "LC_ALL": "C.UTF-8"})
            if done.returncode != 0:
                wrong.append(f"{' '.join(map(str, words[:4]))}: {(done.stdout + done.stderr)[-2000:]}")
            return done.stdout

        wrong = []
        python, pool = f"{scratch}/venv/bin/python", f"{scratch}/pool"
        ros2store = programs.absolute() / "ros2store"
        run("/usr/bin/python3", "-m", "venv", f"{scratch}/venv")
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", wheel.absolute())
        version = wheel.name.split("-")[1]
        run(ros2store, "up", pool, "--size", "128MiB")
        said = run(python, "-c", ORIGIN.format(example=str(EXAMPLE)), "", f"ros2s+dpu:///pool/main?dir={pool}")
        run(ros2store, "down", pool)
        said += run(python, "-c", ORIGIN.format(example=str(EXAMPLE)), "", f"ros2s+local:///pool/main?dir={pool}")
        right = f"200 samples, 51200 bytes\n{version} True 2\n"
        if said != 2 * right:
            wrong.append(f"the example says {said!r}, and not twice {right!r}")
        return wrong

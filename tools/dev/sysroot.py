"""Makes the arm64 sysroot of a cross-build from Debian 12's packages, extracted and never installed, in
build/sysroot-arm64."""

import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import console

ROOT = Path("build/sysroot-arm64")
DATABASE = ROOT / "var/lib/dpkg"
RELEASE = "bookworm"
PACKAGES = Path("tools/packages.txt")
BASE = ("libc6-dev", "libstdc++-12-dev")
# The Python module is for the host, generators of code run on the machine that builds, and Intel's
# library is for its processors.
NOT_FOR_ARM64 = ("python3-dev", "pybind11-dev", "protobuf-compiler", "protobuf-compiler-grpc", "libipsec-mb-dev")
GENERATORS = ("protoc", "grpc_cpp_plugin", "grpc_csharp_plugin", "grpc_node_plugin",
              "grpc_objective_c_plugin", "grpc_php_plugin", "grpc_python_plugin",
              "grpc_ruby_plugin")


def prepare():
    """Makes the sysroot if it is missing or made of other packages. Returns whether it exists."""
    packages = wanted()
    made_of = hashlib.sha256(repr((packages, Path(__file__).read_bytes())).encode()).hexdigest()
    stamp = ROOT / ".made-of"
    if stamp.exists() and stamp.read_text(encoding="ascii") == made_of:
        return True
    console.step(f"arm64 sysroot: {len(packages)} packages and what they need")
    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.parent.mkdir(exist_ok=True)
    log = ROOT.with_suffix(".log")
    with open(log, "wb") as said:
        done = subprocess.run(
            ["mmdebstrap", "--architectures=arm64", "--variant=extract", "--mode=root",
             "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", "--skip=cleanup/apt",
             f"--include={','.join(packages)}", RELEASE, ROOT, *sources()],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False)
    if done.returncode != 0:
        print(log.read_text(errors="replace")[-2000:])
        print(f"dev: mmdebstrap made no arm64 sysroot; the whole log is in {log}")
        return False
    note_packages()
    for part in ("dev", "usr/share/man", "usr/share/locale", "var/cache", "var/lib/apt"):
        shutil.rmtree(ROOT / part, ignore_errors=True)
    links_inside()
    cmake_inside()
    for name in GENERATORS:  # gRPC's CMake files require that they exist
        if Path("/usr/bin", name).exists():
            (ROOT / "usr/bin" / name).unlink(missing_ok=True)
            (ROOT / "usr/bin" / name).symlink_to(f"/usr/bin/{name}")
    stamp.write_text(made_of, encoding="ascii")
    return True


def wanted():
    """Returns the libraries of tools/packages.txt."""
    section = re.search(r"^# Libraries\n((?:[^#\n].*\n)*)", PACKAGES.read_text(encoding="utf-8"),
                        re.MULTILINE)[1]
    return [*BASE, *(name for name in section.split() if name not in NOT_FOR_ARM64)]


def sources():
    """Returns the machine's own lists of Debian packages."""
    folder = Path("/etc/apt")
    lists = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("debian*"))]
    return [path for path in lists if path.is_file()]


def note_packages():
    """Fills the shared libraries' part of the sysroot's dpkg database: the package of each file, and the
    versions that its symbols need. `./dev package --arch arm64` reads it."""
    info, stanzas = DATABASE / "info", []
    for deb in sorted((ROOT / "var/cache/apt/archives").glob("*.deb")):
        control = output_of("dpkg-deb", "-f", deb).decode()
        name = re.search(r"^Package: (\S+)$", control, re.MULTILINE)[1]
        if name.endswith("-dev"):
            continue
        if re.search(r"^Multi-Arch: same$", control, re.MULTILINE):
            name += ":arm64"
        stanzas.append(f"Status: install ok installed\n{control}\n")
        with tarfile.open(fileobj=io.BytesIO(output_of("dpkg-deb", "--ctrl-tarfile", deb))) as parts:
            for part in ("shlibs", "symbols"):
                if f"./{part}" in parts.getnames():
                    (info / f"{name}.{part}").write_bytes(parts.extractfile(f"./{part}").read())
        with tarfile.open(fileobj=io.BytesIO(output_of("dpkg-deb", "--fsys-tarfile", deb))) as files:
            # /lib is /usr/lib here.
            (info / f"{name}.list").write_text("".join(
                re.sub("^/lib/", "/usr/lib/", each.lstrip(".")) + "\n"
                for each in files.getnames() if ".so" in each), encoding="utf-8")
    (DATABASE / "status").write_text("".join(stanzas), encoding="utf-8")


def output_of(*words):
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout


def links_inside():
    """Makes absolute links lead into the sysroot."""
    for folder, folders, files in os.walk(ROOT):
        for path in (Path(folder, name) for name in (*folders, *files)):
            if not path.is_symlink() or not os.readlink(path).startswith("/"):
                continue
            target = ROOT / os.readlink(path)[1:]
            if target.exists():
                path.unlink()
                path.symlink_to(os.path.relpath(target, path.parent))


def cmake_inside():
    """Corrects CMake files of packages that name /usr instead of what find_package found."""
    library = ROOT / "usr/lib/aarch64-linux-gnu/cmake"
    for path in (*library.rglob("*.cmake"), *(ROOT / "usr/share/cmake").rglob("*.cmake")):
        text = path.read_text(encoding="utf-8")
        inside = re.sub(r'([";])/usr/lib/aarch64-linux-gnu/lib',
                        r"\1${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/lib", text)
        inside = re.sub(r'^set\((_IMPORT_PREFIX|prefix) "/usr"\)', r'set(\1 "${CMAKE_SYSROOT}/usr")',
                        inside, flags=re.MULTILINE)
        if inside != text:
            path.write_text(inside, encoding="utf-8")

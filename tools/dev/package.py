"""./dev package: the Debian package, the wheel, and what they must run on.

One package holds everything that a machine needs. It runs on Debian 12 and on Ubuntu 22.04 (which
BlueField's system is): libraries that Ubuntu has under another name lie in it, in a folder of their
own, and nothing in it may ask for more of the C and C++ libraries than Ubuntu's. That for arm64 is
made of a cross-build and its sysroot. docs/packaging.md says what lies where."""

import gzip
import os
import re
import shutil
import subprocess
from pathlib import Path

import build
import console
import system
import trial
import wheel
from system import output_of

MAINTAINER = "The ros2store authors <ros2store@localhost>"
PRIVATE = Path("usr/lib/ros2store")  # bundled libraries, found by the RUNPATH of their users
# Libraries that our programs load at run time.
LOADED = ["libucp.so.0", "libfabric.so.1", "libpmem.so.1"]
# Libraries that UCX loads at run time, from its own directory.
UCX_MODULES = "ucx"
SETTINGS = Path("etc/ros2store")
# Certificates: each side has its own, and no key of an authority.
CERTIFICATES = ("engine", "dpu/storage", "dpu/hosts")
POOL = "/var/lib/ros2store/pool"
# With systemd: adds users and units. Starts nothing, because there is no pool yet. After an upgrade, running
# daemons are restarted: they later load libraries, which must be of their own version.
POSTINST = """#!/bin/sh
set -e
if [ "$1" = configure ]; then
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers ros2store.conf
        chown ros2store-engine: /var/lib/ros2store /etc/ros2store/engine
        chown ros2store-dpu: /etc/ros2store/dpu/storage /etc/ros2store/dpu/hosts
    fi
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
        if [ -n "$2" ]; then systemctl try-restart ros2store-engine ros2store-dpu; fi
    fi
fi
"""
PRERM = """#!/bin/sh
set -e
rm -rf /usr/lib/python3/dist-packages/ros2store/__pycache__ /usr/lib/ros2store/usrbio/hf3fs_fuse/__pycache__
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now ros2store-dpu ros2store-engine
fi
"""
# The newest symbol versions of Ubuntu 22.04's libc6 2.35, libstdc++6 12, rdma-core 39, libssl3 3.0.2 and
# libsystemd0 249.
NEWEST = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "IBVERBS": (1, 13), "IBVERBS_PRIVATE": (34,),
          "RDMACM": (1, 3), "OPENSSL": (3, 0, 2), "LIBSYSTEMD": (249,)}
# The packages that this package may depend on, with their versions in Ubuntu 22.04. Libraries of other
# packages are bundled, because Ubuntu has other versions than Debian 12's binaries need.
UBUNTU = {"libc6": "2.35", "libgcc-s1": "12", "libstdc++6": "12", "libfuse3-3": "3.10.5",
          "libisal2": "2.30.0", "libpmem1": "1.11.1", "libssl3": "3.0.2", "libp11-kit0": "0.24.0", "libyaml-cpp0.7": "0.7.0",
          "libgflags2.2": "2.2.2", "zlib1g": "1:1.2.11", "libbz2-1.0": "1.0.8",
          "liblz4-1": "1.9.3", "libsystemd0": "249.11", "libibverbs1": "39.0",
          "librdmacm1": "39.0", "libnuma1": "2.0.14", "libnl-3-200": "3.5.0",
          "libnl-route-3-200": "3.5.0"}


def add_arguments(parser):
    parser.add_argument("--try", action="store_true", dest="tried",
                        help="install it in a fresh Debian 12 chroot and start its programs (root)")
    parser.add_argument("--arch", choices=("arm64",), help="package a cross-build for this architecture")


def run(options):
    tally = console.Tally()
    made = make(tally, system.of(options.arch))
    if made and options.tried:
        trial.install_and_start(made, tally, options.arch)
    return tally.close()


def make(tally, debian=None):
    """Builds and checks the package. Returns its path, or nothing if something is wrong."""
    debian = debian or system.of(None)
    if not tally.add(f"{debian.preset} build", build.make(debian.preset, debian.targets)):
        return None
    console.step("package")
    out = Path("build/package" if debian.preset == "release" else f"build/package-{debian.preset}")
    tree = out / "tree"
    shutil.rmtree(out, ignore_errors=True)
    install(debian, tree)
    services(debian, tree)
    bundled = bundle(debian, tree)
    documents(debian, tree, bundled)
    made_wheel = wheel.make(debian, tree, out)
    binaries = elf_files(tree)
    depends = dependencies(debian, tree, binaries, bundled)
    sound = report(tally, "no symbol is newer than Ubuntu 22.04's", too_new(binaries))
    sound &= report(tally, "each library is bundled, or a package that Ubuntu 22.04 has",
                    not_in_ubuntu(depends))
    if made_wheel:
        sound &= report(tally, "no library of the wheel is newer than Ubuntu 22.04's", too_new(elf_files(out / "wheel")))
        sound &= report(tally, "the wheel runs an example in an empty environment",
                        wheel.complaints(made_wheel, build.folder(debian.preset) / "bin"))
    if not sound:
        return None
    made = archive(debian, tree, depends)
    print(f"{made}: {made.stat().st_size >> 10} KiB; depends on {depends}\n"
          f"    install it:  apt-get install ./{made}")
    if made_wheel:
        print(f"{made_wheel}: {made_wheel.stat().st_size >> 10} KiB\n    install it:  pip install ./{made_wheel}")
    return made


def report(tally, name, complaints):
    if not tally.add(name, not complaints):
        print("\n".join(f"    {each}" for each in complaints))
    return not complaints


def install(debian, tree):
    with open(build.log_of(debian.preset), "a", encoding="utf-8") as log:
        subprocess.run(["cmake", "--install", build.folder(debian.preset), "--strip", "--prefix",
                        tree.absolute() / "usr"], check=True, stdout=log)


def bundle(debian, tree):
    """Adds the libraries that the binaries need and Ubuntu lacks, and their own. Returns the packages by
    library."""
    folder = tree / PRIVATE
    folder.mkdir(parents=True, exist_ok=True)
    bundled = {}
    needed = LOADED + [name for path in elf_files(tree) for name in needed_by(path)]
    while needed:
        name = needed.pop()
        if name in bundled or any(tree.rglob(name)):
            continue
        library = debian.libraries[name]
        owner = debian.owner_of(library)
        if owner in UBUNTU:
            continue
        bundled[name] = owner
        added = [copy_library(library, folder / name)]
        if name.startswith("libucs."):
            added += ucx_modules(library.parent / UCX_MODULES, folder / UCX_MODULES)
        needed += [each for path in added for each in needed_by(path)]
    return bundled


def services(debian, tree):
    """Adds the daemons' units, their user, and their settings: all defaults, and the pools to serve."""
    units, users = tree / "usr/lib/systemd/system", tree / "usr/lib/sysusers.d"
    for folder in (units, users, tree / SETTINGS, (tree / POOL[1:]).parent, tree / "DEBIAN"):
        folder.mkdir(parents=True)
    for name in CERTIFICATES:
        (tree / SETTINGS / name).mkdir(parents=True)
    shutil.copy("src/service/daemon/ros2store.sysusers", users / "ros2store.conf")
    for daemon, text in (("engine", f"pools: {POOL}\n"),
                         ("dpu", "pools: pool\nengine: {access: delegated}\n")):
        shutil.copy(f"apps/{daemon}/ros2store-{daemon}.service", units)
        program = build.folder(debian.preset) / f"bin/ros2store-{daemon}"
        settings = tree / SETTINGS / f"{daemon}.yaml"
        settings.write_text(text, encoding="utf-8")
        settings.write_text(output_of(*debian.runner, program, "--config", settings, "--print-config"),
                            encoding="utf-8")
    # mount(8) runs it for `mount -t ros2store` and fstab.
    helpers = tree / "usr/sbin"
    helpers.mkdir(exist_ok=True)
    (helpers / "mount.ros2store").symlink_to("../bin/ros2store-fuse")
    (tree / "DEBIAN/conffiles").write_text(f"/{SETTINGS}/dpu.yaml\n/{SETTINGS}/engine.yaml\n",
                                           encoding="utf-8")
    for name, script in (("postinst", POSTINST), ("prerm", PRERM)):
        (tree / "DEBIAN" / name).write_text(script, encoding="utf-8")
        (tree / "DEBIAN" / name).chmod(0o755)


def needed_by(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", path))


def copy_library(source, copy):
    shutil.copy2(source.resolve(), copy)
    # The libraries may depend on each other.
    below = "" if copy.parent.name != UCX_MODULES else "/.."
    output_of("patchelf", "--set-rpath", f"$ORIGIN{below}", copy)
    return copy


def ucx_modules(source, folder):
    folder.mkdir()
    return [copy_library(path, folder / path.name) for path in sorted(source.glob("*.so.0"))]


def documents(debian, tree, bundled):
    """Adds the licences of everything in the package, and the list of changes."""
    folder = tree / "usr/share/doc/ros2store"
    folder.mkdir(parents=True)
    (folder / "copyright").write_text(licences(debian, bundled), encoding="utf-8")
    with open(folder / "changelog.gz", "wb") as file, \
            gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(Path("CHANGELOG.md").read_bytes())
    shutil.copy("README.md", folder)


def licences(debian, bundled):
    texts = ["ros2store:\n\n" + Path("LICENSE").read_text(encoding="utf-8")]
    for owner in sorted(set(bundled.values())):
        names = ", ".join(name for name in sorted(bundled) if bundled[name] == owner)
        texts.append(f"{names}, as {owner} of Debian 12:\n\n{debian.licence_of(owner)}")
    return ("\n" + "=" * 80 + "\n").join(texts)


def elf_files(tree):
    return [path for path in sorted(tree.rglob("*"))
            if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF"]


def too_new(binaries):
    complaints = []
    for path in binaries:
        symbols = output_of("objdump", "-T", path)
        for library, text in sorted(set(re.findall(rf"\b({'|'.join(NEWEST)})_([\d.]+)", symbols))):
            if tuple(map(int, text.split("."))) > NEWEST[library]:
                complaints.append(f"{path.name} needs {library}_{text}")
    return complaints


def dependencies(debian, tree, binaries, bundled):
    """Returns the field of the package's dependencies: those of our binaries, with the versions that dpkg
    finds, and those of the bundled libraries."""
    out = tree.parent
    control = out / "debian/control"
    control.parent.mkdir(parents=True)
    control.write_text("Source: ros2store\n\nPackage: ros2store\nArchitecture: any\n",
                       encoding="utf-8")
    own = [path for path in binaries
           if path.name not in bundled and UCX_MODULES not in path.parts]
    said = debian.shlibdeps(out, "-O", "--ignore-missing-info", "--warnings=0",
                            f"-l{(tree / PRIVATE).absolute()}",
                            f"-l{(tree / 'usr/lib').absolute()}",
                            *[f"-e{path.absolute()}" for path in own])
    fields = {each.split()[0]: each
              for each in said.strip().removeprefix("shlibs:Depends=").split(", ")}
    for name in LOADED + [each for path in binaries for each in needed_by(path)]:
        if name not in bundled and not any(tree.rglob(name)):
            fields.setdefault(debian.owners[name], debian.owners[name])
    return ", ".join(text for name, text in sorted(fields.items())
                     if name not in bundled.values())


def not_in_ubuntu(depends):
    complaints = []
    for each in depends.split(", "):
        name, version = re.fullmatch(r"(\S+)(?: \(>= (\S+)\))?", each).groups()
        if name not in UBUNTU:
            complaints.append(f"{name}: no package of Ubuntu 22.04 is known under this name; bundle "
                              "the library, or add the package to UBUNTU in tools/dev/package.py")
        elif version and subprocess.run(["dpkg", "--compare-versions", UBUNTU[name], "ge", version],
                                        check=False).returncode != 0:
            complaints.append(f"{name} >= {version}, and Ubuntu 22.04 has {UBUNTU[name]}")
    return complaints


def archive(debian, tree, depends):
    text = Path("CMakeLists.txt").read_text(encoding="utf-8")
    version = re.search(r"project\(ros2store VERSION ([\d.]+)", text)[1]
    size = sum(path.lstat().st_size for path in tree.rglob("*") if path.is_file()) >> 10
    (tree / "DEBIAN/control").write_text(f"""Package: ros2store
Version: {version}
Architecture: {debian.architecture}
Maintainer: {MAINTAINER}
Installed-Size: {size}
Section: admin
Priority: optional
Depends: {depends}
Recommends: fuse3
Suggests: fio, librados2, python3, python3-fsspec, python3-torch, systemd
Description: POSIX files on objects on a disk
 An object storage system for GPU training and inference, and POSIX files on it:
 programs, a library with a C interface, a FUSE mount, and a plug-in for fio.
""", encoding="utf-8")
    made = tree.parent / f"ros2store_{version}_{debian.architecture}.deb"
    # Files of the build may be private to the user who built.
    for path in tree.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    for name in CERTIFICATES:
        (tree / SETTINGS / name).chmod(0o700)
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", "-Zxz", tree, made], check=True,
                   stdout=subprocess.DEVNULL)
    return made

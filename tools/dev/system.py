"""The Debian system that a package is made from: this machine, or the sysroot of another architecture. Both
find the package of a library, and run dpkg-shlibdeps."""

import os
import re
import shutil
import subprocess
from functools import cached_property
from pathlib import Path

import sysroot


def output_of(*words, **more):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, **more)
    if done.returncode != 0:
        raise SystemExit(f"dev: {words[0]} failed:\n{done.stderr}")
    return done.stdout


class ThisMachine:
    """Uses the packages that are installed here."""
    preset = "release"
    targets = ("programs",)  # to build
    runner = ()  # the words before a program of the build, to run it here

    @cached_property
    def architecture(self):
        return output_of("dpkg", "--print-architecture").strip()

    @cached_property
    def libraries(self):
        """Returns paths by the names that programs ask for."""
        return {name: Path(path) for name, path in re.findall(
            r"^\s*(\S+) \(.*=> (/\S+)$", output_of("ldconfig", "-p"), re.MULTILINE)}

    @cached_property
    def owners(self):
        """Returns the package of each shared library."""
        folder = output_of("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
        return self.owned(f"*/{folder}/*.so*")

    def owned(self, pattern, *options):
        listed = output_of("dpkg-query", *options, "-S", pattern)
        return {Path(path).name: package for package, path in
                re.findall(r"^([^:,\s]+)(?::\w+)?: (\S+)$", listed, re.MULTILINE)}

    def owner_of(self, library):
        """Returns the package of a library. It also finds the package of a name that update-alternatives
        manages, which belongs to none."""
        known = self.owners.get(library.name)
        return known or output_of("dpkg", "-S", library.resolve()).partition(":")[0]

    def licence_of(self, package):
        return Path(f"/usr/share/doc/{package}/copyright").read_text(encoding="utf-8")

    def shlibdeps(self, folder, *words):
        """Runs dpkg-shlibdeps in a folder."""
        return output_of("dpkg-shlibdeps", *words, cwd=folder)


class Sysroot(ThisMachine):
    """Uses the packages in the sysroot of a cross-build for arm64."""
    preset = "arm64"
    targets = ("ros2store", "ros2store-cli", "ros2store-dpu", "ros2store-engine", "ros2store-fio",
               "ros2store-fuse", "ros2store-daos", "hf3fs_api_shared")
    architecture = "arm64"
    folder = sysroot.ROOT / "usr/lib/aarch64-linux-gnu"
    runner = ("qemu-aarch64-static", "-L", sysroot.ROOT)

    @cached_property
    def libraries(self):
        return {path.name: path.absolute() for path in self.folder.glob("*.so*")}

    @cached_property
    def owners(self):
        return self.owned("*.so*", f"--admindir={sysroot.DATABASE}")

    def owner_of(self, library):
        return self.owners[library.name]

    def licence_of(self, package):
        return (sysroot.ROOT / f"usr/share/doc/{package}/copyright").read_text(encoding="utf-8")

    def shlibdeps(self, folder, *words):
        # It has no option for a root, so the lists of files need the full paths.
        database = folder / "dpkg"
        shutil.copytree(sysroot.DATABASE, database)
        for path in (database / "info").glob("*.list"):
            path.write_text(re.sub("^/", f"{sysroot.ROOT.absolute()}/",
                                   path.read_text(encoding="utf-8"), flags=re.MULTILINE),
                            encoding="utf-8")
        return output_of("dpkg-shlibdeps", f"--admindir={database.absolute()}",
                         f"-l{self.folder.absolute()}", *words, cwd=folder,
                         env=os.environ | {"DEB_HOST_ARCH": self.architecture})


def of(architecture):
    """Returns the system for an architecture; None is this machine."""
    return Sysroot() if architecture else ThisMachine()

"""Runs the arm64 part of ./dev check, for the cores of a BlueField. It cross-builds programs and runs them
under qemu-user."""

import shutil
import subprocess
from pathlib import Path

import build
import console
import package
import sysroot
import system
import test

# The part of `./dev check` takes minutes. `./dev build --arch arm64` also builds the rest.
MODULES = ("base", "runtime", "device_sim", "device_uring", "object", "client", "engine_format", "engine_extent", "fs",
           "fabric_shm", "rpc", "session", "hostlink")
# The ciphers of arm64, and layers that are the same on every machine: ./dev nightly runs them, too.
IN_NIGHTLY = ("api_queue", "cipher", "remote")
# Whole engines under crashes, in a simulation.
SIMULATION = ("crash_suite", ("crashes_quickly_1", "crashes_quickly_3", "crashes_memory_quickly",
                              "crashes_remote_quickly"))
DPU_TEST = Path("tests/arm64/dpu_test.py")
NEEDED = ("mmdebstrap", "qemu-aarch64-static")
# qemu-user lacks io_uring, so the fallback to threads is tested. It also lacks openat2 and the flags of huge pages, and
# its name is the program's. The sysroot has no module of PKCS #11.
NOT_UNDER_QEMU = "Uring|io_uring|LocalDirectory|FileDeviceTest.AccessPathIsReported|NamesItsOwner|AsksForHugePages|^Pkcs11KeysTest[.]"
# The contract of a remote store, 1,300 tests, is repeated for each provider and number of cores: twice is enough here.
REPETITIONS = "Remote.*Over(UcxTcp|OfiTcp|Tls)|Remote.*OnTwoCores|RemoteInBulk|SlowRemote"


def selection(tally, more=()):
    console.step("arm64")
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        print(f"not run: arm64: {missing[0]} is missing: apt-get install the packages of "
              "tools/packages-arm64.txt", flush=True)
        return
    if not sysroot.prepare():
        print("not run: arm64: no sysroot could be made", flush=True)
        return
    crashes, runs = SIMULATION
    modules = (*MODULES, *more)
    tests = [f"{module}_test" for module in modules] + [crashes, "kill_writer"]
    debian = system.of("arm64")
    if tally.add("arm64 build", build.make("arm64", [*debian.targets, *tests])):
        package.make(tally, debian)
        test.ctest("arm64", tally, label="|".join(modules), without=f"{NOT_UNDER_QEMU}|{REPETITIONS}")
        test.ctest("arm64", tally, names=runs)
        if tally.add("release build of the other side", build.make("release", ["programs", "kill_writer"])):
            dpu(tally)


def dpu(tally):
    """Runs an arm64 DPU daemon between an amd64 host and an amd64 engine, and opens a pool of the other
    architecture."""
    log = build.folder("arm64") / "dpu_test.log"
    with open(log, "wb") as said:
        done = subprocess.run(
            ["python3", "-B", DPU_TEST.absolute(), build.folder("release").absolute(),
             build.folder("arm64").absolute(), sysroot.ROOT.absolute()],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False)
    if not tally.add("an arm64 DPU daemon between amd64 processes, and pools of both", done.returncode == 0):
        print(log.read_text(errors="replace")[-4000:])

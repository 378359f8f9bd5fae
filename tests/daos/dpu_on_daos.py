#!/usr/bin/env python3
"""usage: dpu_on_daos.py BUILD_DIRECTORY ours|daos [NAME…]

A pool of DAOS behind a DPU, as hosts use it: a tree of files goes in and comes out again the same, through the command
line and through a mount; fio verifies what it wrote; the DPU is killed. The last line is "N passed, N failed".

ours: the library of plugins/daos, on an embedded pool. daos: DAOS's own libraries (`libdfs.so`, as the loader finds it)
and the pool whose label is in ROS2STORE_TEST_DAOS_POOL. A container for the test is made with the command `daos`.
Without an agent that answers it says so and exits with 77. ROS2STORE_TEST_TREE: the tree (/usr/include/linux).
"""
import contextlib
import os
import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT / "tests"), str(CHECKOUT / "tools/dev")]
import daos_contract  # noqa: E402
import runner  # noqa: E402
import served  # noqa: E402
import shown  # noqa: E402
import trees  # noqa: E402

test = runner.Tests()
POOL, LABEL = "tank", f"ros2store-dpu-test-{os.getpid()}"
TREE = Path(os.environ.get("ROS2STORE_TEST_TREE", "/usr/include/linux"))
VERIFIED = ("--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--randrepeat=1")


@contextlib.contextmanager
def ours(top):
    """The settings of an embedded pool that serves as DAOS."""
    shown.run(STORE, "up", "--no-daemons", top / "tank", "--size", "2GiB", quiet=True)
    base = f"ros2s+local:///pool?dir={top / 'tank'}"
    shown.run(STORE, "container", "create", base.replace("pool?", f"pool/{LABEL}?"), quiet=True)
    os.environ |= {"LD_LIBRARY_PATH": str(BUILD / "lib/ros2store/daos"), "ROS2STORE_DAOS": base}
    yield "anything"


@contextlib.contextmanager
def daos(_):
    pool = os.environ["ROS2STORE_TEST_DAOS_POOL"]
    shown.run("daos", "container", "create", "--type", "POSIX", pool, LABEL, quiet=True)
    try:
        yield pool
    finally:
        shown.run("daos", "container", "destroy", "--force", pool, LABEL, quiet=True)


class Dpu(served.Served):
    """A DPU beside an engine, which serves a container of DAOS, too."""

    def uri_of(self, path=""):
        return f"ros2s+dpu:///{POOL}/{LABEL}{'/' if path else ''}{path}?dir={self.directory}"

    def fio(self, *options):
        plugin = BUILD / "plugins/fio/libros2store-fio.so"
        return shown.run("fio", f"--ioengine=external:{plugin}", f"--uri={self.uri_of()}", "--thread", *VERIFIED, *options,
                         quiet=True)

    def restart(self):
        self.kill("dpu")
        self.up()

    @contextlib.contextmanager
    def mounted(self):
        place = self.directory.parent / "mount"
        place.mkdir(exist_ok=True)
        shown.run(STORE, "mount", self.uri_of(), place, quiet=True)
        try:
            yield place
        finally:
            shown.run("fusermount3", "-u", place, quiet=True)


def start(top, label):
    dpu = Dpu(STORE, top / "pool", "shm")
    dpu.make("256MiB")
    dpu.serve(POOL, f"{{daos: {{pool: {label}}}}}",
              f'access: {{"CN=client": {{write: {POOL}/*, may: "devices, set_ids, privileged_attributes"}}}}\n')
    return dpu


def same(left, right):
    differences = trees.different(left, right)
    if IS_DAOS:
        # DAOS can lose a directory's time that is set directly after a change in it (docs/daos.md).
        directories = {f"  {os.path.relpath(each, os.fsencode(left))!r}: modified "
                       for each, _, _ in os.walk(os.fsencode(left))}
        lost = [line for line in differences if line.startswith(tuple(directories))]
        assert len(lost) <= 1 + len(directories) // 5, lost
        differences = [line for line in differences if line not in lost]
    assert not differences, "\n".join(differences[:20])


@test
def copied_tree_is_unchanged():
    shown.run(STORE, "cp", "-r", TREE, DPU.uri_of("tree"), quiet=True, timeout=900)
    if os.access("/dev/fuse", os.R_OK | os.W_OK):
        with DPU.mounted() as place:
            same(TREE, place / "tree")
    shown.run(STORE, "cp", "-r", DPU.uri_of("tree"), TOP / "out", quiet=True, timeout=900)
    same(TREE, TOP / "out")


@test
def fio_finds_what_it_wrote():
    for bs, depth, size in (("4k", 32, "32m"), ("1m", 4, "64m"), ("17k", 8, "17m")):
        DPU.fio(f"--name=f{bs}", "--rw=randwrite", f"--bs={bs}", f"--iodepth={depth}", f"--size={size}")
    DPU.fio("--name=several", "--rw=randwrite", "--bs=16k", "--iodepth=8", "--size=4m", "--numjobs=4")


@test
def fio_notices_other_bytes():
    job = ("--name=other", "--filename=other", "--size=1m", "--bs=4k", "--iodepth=8", "--verify=pattern")
    DPU.fio(*job, "--rw=write", "--verify_pattern=0x11")
    try:
        DPU.fio(*job, "--rw=read", "--verify_pattern=0x12")
    except shown.Failed as failure:
        assert "verify failed" in str(failure) or "bad pattern" in str(failure), failure
    else:
        raise AssertionError("not noticed")


@test
def acknowledged_data_survives_a_killed_dpu():
    job = ("--name=kept", "--filename=kept", "--rw=randwrite", "--bs=4k", "--iodepth=32", "--size=16m")
    DPU.fio(*job, "--do_verify=0")
    DPU.restart()
    DPU.fio(*job, "--verify_only")
    shown.run(STORE, "cp", "-r", DPU.uri_of("tree"), TOP / "again", quiet=True, timeout=900)
    same(TREE, TOP / "again")


@test
def a_new_container_is_listed_at_once():
    """Containers are made with DAOS's tools while the DPU runs."""
    label = f"{LABEL}-new"
    if IS_DAOS:
        pool = os.environ["ROS2STORE_TEST_DAOS_POOL"]
        shown.run("daos", "container", "create", "--type", "POSIX", pool, label, quiet=True)
    else:
        DPU.down()  # the embedded pool has one owner
        shown.run(STORE, "container", "create", os.environ["ROS2STORE_DAOS"].replace("pool?", f"pool/{label}?"), quiet=True)
        DPU.up()
    try:
        listed = shown.run(STORE, "container", "list", f"ros2s+dpu:///{POOL}?dir={DPU.directory}", quiet=True)
        assert label in listed, listed
    finally:
        if IS_DAOS:
            shown.run("daos", "container", "destroy", "--force", pool, label, quiet=True)
    if IS_DAOS:
        listed = shown.run(STORE, "container", "list", f"ros2s+dpu:///{POOL}?dir={DPU.directory}", quiet=True)
        assert label not in listed and LABEL in listed, listed


def main():
    global BUILD, STORE, TOP, DPU, IS_DAOS
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    BUILD = Path(sys.argv[1]).absolute()
    STORE = BUILD / "bin/ros2store"
    IS_DAOS = sys.argv[2] == "daos"
    if IS_DAOS and not daos_contract.answers():
        return daos_contract.SKIPPED
    with tempfile.TemporaryDirectory(prefix="ros2store-daos.") as top, \
            (daos if IS_DAOS else ours)(Path(top)) as label:
        TOP = Path(top)
        DPU = start(TOP, label)
        try:
            return test.run(sys.argv[3:])
        finally:
            DPU.down()


if __name__ == "__main__":
    sys.exit(main())

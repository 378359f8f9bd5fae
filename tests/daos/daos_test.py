#!/usr/bin/env python3
"""usage: daos_test.py BUILD_DIRECTORY DIRECTORY_OF_PROGRAMS FIO_ENGINE|none [NAME…]

Programs of DAOS on pools of ROS2: fio's own engine `dfs`, built unmodified, and programs in C. The pools are
embedded, behind an engine and behind a DPU daemon. The last line is "N passed, N failed".

IOR_FOR_DAOS: a directory with `ior` and `mdtest`, built with their DFS back end and an MPI. Without it their
tests say that they did not run.
"""
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import runner  # noqa: E402

test = runner.Tests()
LOCAL, DIRECT, OFFLOAD = "ros2s+local", "ros2s", "ros2s+dpu"
WAYS = (LOCAL, DIRECT, OFFLOAD)


class Pool:
    def __init__(self, way=LOCAL, size="256MiB"):
        self.top = tempfile.mkdtemp(prefix="ros2store-daos.")
        self.directory = f"{self.top}/pool"
        self.is_served = way != LOCAL
        self.base = f"{way}:///pool?dir={self.directory}"
        daemons = () if self.is_served else ("--no-daemons",)
        done = subprocess.run([CLI, "up", *daemons, self.directory, "--size", size],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def run(self, *command, base=None, fails=False):
        """Runs a program that finds the pool by its label. Returns its output."""
        environment = {**os.environ, "ROS2STORE_DAOS": self.base if base is None else base}
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=self.top,
                              env=environment)
        said = done.stdout + done.stderr
        assert (done.returncode != 0) == fails, f"status {done.returncode}: {said[-3000:]}"
        return said

    def fio(self, *options, fails=False, base=None, labels=("tank", "main")):
        if FIO_ENGINE == "none":
            raise runner.NotHere("fio's engine is not built")
        said = self.run("fio", f"--ioengine=external:{FIO_ENGINE}", f"--pool={labels[0]}",
                        f"--cont={labels[1]}", "--output-format=json", "--verify_state_save=0",
                        *options, fails=fails, base=base)
        if fails:
            return said
        report = json.loads(said[said.find("{\n"):said.rfind("}") + 1])
        assert all(job["error"] == 0 for job in report["jobs"]), said
        return report

    def files(self):
        return self.run(CLI, "ls", self.base.replace("pool?", "pool/main?")).split()

    def engine_counts(self, name):
        """Returns the sum of a metric of the engine."""
        daemons = json.loads(self.run(CLI, "--json", "status", self.directory))["daemons"]
        engine = next(each for each in daemons if each["program"] == "ros2store-engine")
        address = next(each for each in engine["addresses"] if each.startswith("metrics ")).partition(" ")[2]
        password = Path(self.directory, "run/engine.metrics").read_text(encoding="ascii").strip()
        request = urllib.request.Request(f"http://{address}/metrics", headers={
            "Authorization": "Basic " + base64.b64encode(f"x:{password}".encode()).decode()})
        text = urllib.request.urlopen(request, timeout=60).read().decode()
        found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
        assert found, text
        return sum(map(float, found))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.is_served:
            subprocess.run([CLI, "down", "--kill", self.directory], capture_output=True, check=False)
        subprocess.run(["rm", "-rf", self.top], check=False)


def program(name):
    return f"{PROGRAMS}/daos_{name}"


def total(report, direction):
    return sum(job[direction]["total_ios"] for job in report["jobs"])


VERIFIED = ("--verify=crc32c", "--verify_fatal=1")


@test.each(*WAYS)
def the_engine_of_fio(way):
    with Pool(way) as pool:
        job = ("--name=f", "--filename=f", "--size=16M", "--bs=4k", "--iodepth=16", *VERIFIED)
        report = pool.fio(*job, "--rw=randwrite")
        assert total(report, "write") == total(report, "read") == 4096
        # Read by another process, and by the ros2store program.
        assert total(pool.fio(*job, "--rw=randread"), "read") == 4096
        assert pool.files() == ["f"]
        pool.fio("--thread", "--name=own", "--numjobs=3", "--size=4M", "--bs=16k", "--iodepth=8",
                 "--rw=randwrite", *VERIFIED)
        pool.fio("--name=large", "--size=32M", "--bs=4M", "--iodepth=4", "--rw=write",
                 "--object_class=SX", "--chunk_size=4194304", *VERIFIED)


@test
def the_engine_of_fio_notices_other_bytes():
    with Pool() as pool:
        job = ("--name=f", "--size=1M", "--bs=4k", "--iodepth=8", "--verify=pattern")
        pool.fio(*job, "--rw=write", "--verify_pattern=0x11")
        said = pool.fio(*job, "--rw=read", "--verify_pattern=0x12", fails=True)
        assert "verify" in said or "bad pattern" in said, said


@test.each(*WAYS)
def calls_of_dfs(way):
    with Pool(way) as pool:
        said = pool.run(program("dfs_calls"), "tank", "main")
        assert said.count("a/b") == 1, said  # each sentence is said once
        assert sorted(pool.files()) == ["shared", "t0", "t1", "t2", "t3"]


# DAOS has no call that makes a change durable later.
@test.each(DIRECT, OFFLOAD)
def changes_are_durable_in_a_container_that_defers_them(way):
    with Pool(way) as pool:
        pool.run(CLI, "container", "set", f"ros2s:///pool/main?dir={pool.directory}", "--durability", "fsync")
        pool.run(program("dfs_calls"), "tank", "main")
        assert pool.engine_counts("ros2store_engine_deferred_groups_total") == 0


@test.each(*WAYS)
def a_write_for_which_there_is_no_space_fails(way):
    with Pool(way, size="64MiB") as pool:
        pool.run(program("dfs_calls"), "tank", "main", "full")
        assert pool.files() == []


def check_calls_below_files(name, way):
    with Pool(way) as pool:
        said = pool.run(program(name), "tank", "main")
        # A DPU serves files only, and the library says so.
        assert ("not supported" in said) == (way == OFFLOAD), said
        assert pool.files() == []
        if way != OFFLOAD:
            pool.run(CLI, "container", "check", pool.base.replace("pool?", "pool/main?"))


@test.each(*WAYS)
def calls_on_objects(way):
    check_calls_below_files("object_calls", way)


@test.each(*WAYS)
def calls_on_containers(way):
    check_calls_below_files("container_calls", way)


@test
def calls_of_hash_tables():
    subprocess.run([program("hash_calls")], check=True, timeout=200)


@test.each(*WAYS)
def calls_by_path(way):
    with Pool(way) as pool:
        pool.run(program("path_calls"), "tank", "main", way.removeprefix("ros2s"))
        assert pool.files() == []


@test.each(*WAYS)
def calls_of_tools(way):
    with Pool(way) as pool:
        pool.run(program("tool_calls"), "tank", "main", way.removeprefix("ros2s"))
        assert pool.files() == []


def ranks_of(way):
    return 1 if way == LOCAL else 4  # an embedded pool has one owner


@test.each(*WAYS)
def ranks_of_a_benchmark(way):
    with Pool(way) as pool:
        pool.run(program("rank_calls"), "tank", "main", str(ranks_of(way)))
        assert pool.files() == []


@test.each(*WAYS)
def ior_and_mdtest(way):
    if "IOR_FOR_DAOS" not in os.environ:
        raise runner.NotHere("IOR_FOR_DAOS names no directory with ior and mdtest")
    with Pool(way) as pool:
        def run(name, *options):
            start = ("mpirun", "-n", str(ranks_of(way))) if ranks_of(way) > 1 else ()
            return pool.run(*start, f"{os.environ['IOR_FOR_DAOS']}/{name}", "-a", "DFS", "--dfs.pool", "tank",
                            "--dfs.cont", "main", *options)
        for kind in ((), ("-F",), ("-C",)):  # one file, a file per rank, ranks read what others wrote
            said = run("ior", "-t", "64k", "-b", "4m", "-o", "/f", "-w", "-r", "-W", "-R", *kind)
            assert "WARNING" not in said and "ERROR" not in said, said
            assert re.search("^write .*^read ", said, re.MULTILINE | re.DOTALL), said
        said = run("mdtest", "-n", "100", "-d", "/m", "-w", "4096", "-e", "4096")
        assert "File creation" in said and "ERROR" not in said, said
        assert pool.files() == []


@test
def labels_are_found():
    with Pool() as pool:
        job = ("--name=f", "--size=64k", "--rw=write")
        settings = f"{pool.top}/daos.yaml"
        with open(settings, "w", encoding="utf-8") as file:
            file.write(f'default: "ros2s+local://?dir={pool.directory}"\n'
                       f'pools: {{tank: "{pool.base}"}}\n')
        pool.fio(*job, base=settings)
        # The default inserts the label itself.
        pool.fio(*job, base=settings, labels=("pool", "main"))
        pool.fio(*job, base=f"ros2s+local://?dir={pool.directory}", labels=("pool", "main"))
        before = pool.files()
        for base, labels, expected in (
                (settings, ("other", "main"), "pool 'other'"),
                (settings, ("tank", "other"), "container 'other'"),
                (pool.base, ("no:label", "main"), "no pool can have this label"),
                ("/nowhere/daos.yaml", ("tank", "main"), "cannot read /nowhere/daos.yaml"),
                ("ros2s+local:///pool/main?dir=x", ("tank", "main"), "is not a base URI"),
                ("ros2s+local:///pool?dir=/nowhere", ("tank", "main"), "/nowhere"),
                ("nonsense://", ("tank", "main"), "nonsense")):
            said = pool.fio(*job, base=base, labels=labels, fails=True)
            lines = [line for line in said.splitlines() if line.startswith("libros2store-daos: ")]
            assert len(lines) == 1 and expected in lines[0], said
        with open(settings, "w", encoding="utf-8") as file:
            file.write("pool: {tank: x}\n")
        assert "pools" in pool.fio(*job, base=settings, fails=True)
        assert pool.files() == before


HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]


def symbols(file, which):
    """Of a compiled file: --defined-only or --undefined-only."""
    listed = subprocess.run(["nm", "-D", which, file], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in listed.splitlines() if line.split()[-2] != "A"}
    return {name for name in names if not name.startswith(("__asan", "__odr"))}


def exported_symbols():
    return symbols(f"{BUILD}/lib/libros2store-daos.so", "--defined-only")


def called_symbols():
    """The list: what the library has, and what it lacks. Each symbol with its programs."""
    present, absent = {}, {}
    for line in (HERE / "called_functions.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        name, *programs = line.split()
        assert programs and set(programs) <= {"fio", "ior", "mpiio", "hdf5", "daos", "dpu"}, line
        (absent if name.startswith("-") else present)[name.removeprefix("-")] = set(programs)
    return present, absent


def check_called_by(name, called):
    """`called`: what a program calls, and names of other libraries."""
    present, absent = called_symbols()
    listed = {symbol for symbol, programs in (present | absent).items() if name in programs}
    called = {symbol for symbol in called
              if re.match("(d|daos|dfs|duns|dc|tse|DB|obj_class|pl_map)_", symbol)}
    assert called == listed, sorted(called ^ listed)


@test
def the_library_has_what_programs_call():
    present, absent = called_symbols()
    exported = exported_symbols()
    assert present.keys() == exported, sorted(present.keys() ^ exported)
    assert not absent.keys() & exported, sorted(absent.keys() & exported)


@test
def the_list_has_what_the_dpu_calls():
    headers = "".join(file.read_text(encoding="utf-8") for file in (SOURCE / "plugins/daos/include").glob("*.h"))
    renamed = dict(re.findall(r"#define (daos_\w+) (daos_\w+)\n", headers))
    loaded = (SOURCE / "src/files/daos/libdfs.h").read_text(encoding="utf-8")
    check_called_by("dpu", {renamed.get(name, name) for name in re.findall(r"\bF\((\w+)\)", loaded)})


@test
def the_list_has_what_fio_calls():
    if FIO_ENGINE == "none":
        raise runner.NotHere("fio's engine is not built")
    check_called_by("fio", symbols(FIO_ENGINE, "--undefined-only"))


@test
def the_list_has_what_ior_calls():
    if "IOR_FOR_DAOS" not in os.environ:
        raise runner.NotHere("IOR_FOR_DAOS names no directory with ior and mdtest")
    for name in ("ior", "mdtest"):
        check_called_by("ior", symbols(f"{os.environ['IOR_FOR_DAOS']}/{name}", "--undefined-only"))


@test
def the_library_has_what_its_headers_declare():
    text = "".join(file.read_text(encoding="utf-8")
                   for file in (SOURCE / "plugins/daos/include").glob("**/*.h"))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    renamed = dict(re.findall(r"#define (daos_\w+) (daos_\w+)\n", text))
    text = re.sub(r"static inline .*?\n?}\n", "", text, flags=re.DOTALL)
    declared = {renamed.get(name, name)
                for name in re.findall(r"^(?:\w[\w* ]*[* ])((?:d|DP|obj|pl)\w*_\w+)\(", text, flags=re.MULTILINE)}
    variables = " ".join(re.findall(r"^extern (?!\"C\")([^(;]*(?:\(\*\w+)?)", text, flags=re.MULTILINE))
    declared |= set(re.findall(r"\b(d_\w+|DB_\w+|daos_\w+_logfac\w*)", variables)) - {"d_log_xstate", "d_fault_attr_t"}
    assert declared == exported_symbols(), sorted(declared ^ exported_symbols())


def main():
    global BUILD, CLI, PROGRAMS, FIO_ENGINE
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    BUILD = os.path.abspath(sys.argv[1])
    CLI = f"{BUILD}/bin/ros2store"
    PROGRAMS, FIO_ENGINE = os.path.abspath(sys.argv[2]), sys.argv[3]
    return test.run(sys.argv[4:])


if __name__ == "__main__":
    sys.exit(main())

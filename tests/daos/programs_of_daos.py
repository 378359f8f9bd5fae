#!/usr/bin/env python3
"""usage: programs_of_daos.py BUILD_DIRECTORY [NAME…]

DAOS's own programs, unmodified, on an embedded pool.

DAOS_SOURCES: the sources of DAOS 2.6, and DAOS_INCLUDE: directories, with ':' between them, that have the
daos_version.h of these sources and Argobots' abt.h. Their test program
dfs_test is compiled with DAOS's headers (gcc, libcmocka-dev, libjson-c-dev, uuid-dev, libisal-dev)
and linked with our library. Of each part it is known which tests fail, and why: docs/daos.md.
DAOS_CLI: DAOS's program `daos`, compiled. Skipped (77) without both.
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import daos_test  # noqa: E402
import runner  # noqa: E402

test = runner.Tests()
HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES, INCLUDE, CLI = (os.environ.get(name) for name in ("DAOS_SOURCES", "DAOS_INCLUDE", "DAOS_CLI"))
COMMON = ("src/tests/suite/daos_test_common.c", "src/common/tests_lib.c", "src/common/tests_dmg_helpers.c",
          "src/utils/wrap/mpi/dpar_stub.c")
DFS_TEST = tuple(f"src/tests/suite/{name}.c" for name in ("dfs_unit_test", "dfs_par_test", "dfs_test", "dfs_sys_unit_test"))
PYDAOS = "src/client/pydaos/pydaos_shim.c"


class Programs:
    """A pool, and a directory for compiled programs."""

    def __enter__(self):
        self.pool = daos_test.Pool(size="1GiB").__enter__()
        self.libraries = f"{daos_test.BUILD}/lib/ros2store/daos"
        return self

    def __exit__(self, *error):
        self.pool.__exit__(*error)

    def compile(self, name, sources, *options):
        includes = [f"-I{SOURCES}/{path}" for path in ("src/include", "src/gurt", "src/mgmt", "src/client/dfs",
                                                       "src/tests/suite", "src/tests", "src/utils")]
        version = re.search(r"(\d+\.\d+\.\d+)", open(f"{SOURCES}/VERSION", encoding="utf-8").read())[1]
        done = subprocess.run(
            ["gcc", "-w", "-O1", "-std=gnu99", "-D_GNU_SOURCE", "-DDAOS_BUILD_RELEASE", "-DCMOCKA_FILTER_SUPPORTED=0",
             f'-DDAOS_VERSION="{version}"', '-DAPI_VERSION="2.7.0"', '-DCART_VERSION="4.9.0"', *(f"-I{path}" for path in INCLUDE.split(":")),
             *includes, *(f"{SOURCES}/{path}" for path in sources), "-o", f"{self.pool.top}/{name}",
             f"-L{self.libraries}", "-ldfs", "-lduns", "-ldaos", "-lgurt", "-ldaos_common", "-luuid", *options],
            capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr[-3000:]
        return f"{self.pool.top}/{name}"

    def run(self, *command, may_fail=False, **environment):
        full = {**os.environ, "ROS2STORE_DAOS": self.pool.base, "LD_LIBRARY_PATH": self.libraries,
                "PATH": f"{HERE}:{os.environ['PATH']}", **environment}
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=900,
                              cwd=self.pool.top, env=full)
        said = done.stdout + done.stderr
        assert may_fail or done.returncode == 0, f"status {done.returncode}: {said[-3000:]}"
        return said


def need(*variables):
    for name in variables:
        if not os.environ.get(name):
            raise runner.NotHere(f"{name} is not set")


def check_part(option, passed, failed):
    """`passed` tests pass in each run of the part; `failed` are numbers of those that fail."""
    need("DAOS_SOURCES", "DAOS_INCLUDE")
    with Programs() as programs:
        program = programs.compile("dfs_test", (*DFS_TEST, *COMMON), "-lcmocka", "-ljson-c", "-lisal", "-lpthread", "-lm")
        said = programs.run(program, option, may_fail=True)
        # A group's tests end with a count.
        for group in re.split(r"\[==========\] \d+ test\(s\) run\.", said)[:-1]:
            wrong = {int(number) for number in re.findall(r"^\[  FAILED  \] \w+TEST(\d+):", group, re.MULTILINE)}
            assert wrong == failed, (wrong, said[-3000:])
            assert len(re.findall(r"^\[ +OK \]", group, re.MULTILINE)) == passed, said[-3000:]
        assert said.count(" run.") == (1 if option == "-s" else 2), said[-3000:]


@test
def dfs_test_units():
    check_part("-u", 21, {16, 20, 23, 24, 25, 26})


@test
def dfs_test_sys():
    check_part("-s", 12, set())


@test
def dfs_test_parallel():
    check_part("-p", 5, {4})


@test
def the_python_module():
    need("DAOS_SOURCES", "DAOS_INCLUDE", "DAOS_CLI")
    with Programs() as programs:
        package = f"{programs.pool.top}/pydaos"
        os.mkdir(package)
        for name in ("__init__.py", "pydaos_core.py"):
            with open(f"{SOURCES}/src/client/pydaos/{name}", encoding="utf-8") as source, \
                    open(f"{package}/{name}", "w", encoding="utf-8") as copy:
                copy.write(source.read())
        flags = subprocess.run(["python3-config", "--includes"], capture_output=True, text=True, check=True).stdout
        programs.compile("pydaos/pydaos_shim.so", (PYDAOS,), "-shared", "-fPIC", *flags.split())
        programs.run(CLI, "container", "create", "tank", "py", "--type", "PYTHON")
        said = programs.run("python3", "-c", """
import pydaos
container = pydaos.DCont("tank", "py")
stadiums = container.dict("stadiums", {"Barcelona": "Camp Nou"})
many = {f"key{i}": f"value{i}" * 50 for i in range(500)}
stadiums.bput(many)
assert stadiums["Barcelona"] == b"Camp Nou" and len(stadiums) == 501
found = stadiums.bget(dict.fromkeys(many))
assert all(found[key] == value.encode() for key, value in many.items())
del stadiums["key7"]
assert "key7" not in stadiums and "key8" in stadiums
assert len(container.get("stadiums").dump()) == 500
try:
    container.get("nothing")
    assert False
except pydaos.DObjNotFound:
    print("done")
""", PYTHONPATH=programs.pool.top)
        assert "done" in said, said
        programs.run(CLI, "container", "clone", "--src", "daos://tank/py", "--dst", "daos://tank/copy")
        said = programs.run("python3", "-c", """
import pydaos
copied = pydaos.DCont("tank", "copy").get("stadiums")
assert len(copied) == 500 and copied["key8"] == b"value8" * 50
print("done")
""", PYTHONPATH=programs.pool.top)
        assert "done" in said, said


@test
def the_command_line():
    need("DAOS_CLI")
    with Programs() as programs, tempfile.TemporaryDirectory() as files:
        def daos(*words, **more):
            return programs.run(CLI, *words, **more)

        os.makedirs(f"{files}/from/sub")
        with open(f"{files}/from/sub/data", "wb") as file:
            file.write(os.urandom(3_000_000))
        assert "ntarget=1" in daos("pool", "query", "tank")
        said = daos("container", "create", "tank", "one", "--type", "POSIX")
        uuid = re.search(r"Container UUID : (\S+)", said)[1]
        assert "Container Label             : one" in daos("container", "query", "tank", uuid)
        assert re.search(r"Layout Type.*POSIX", daos("container", "get-prop", "tank", "one"))
        assert "A::OWNER@:rwdtTaAo" in daos("container", "get-acl", "tank", "one")
        daos("container", "set-attr", "tank", "one", "colour:green")
        assert "green" in daos("container", "get-attr", "tank", "one", "colour")
        daos("filesystem", "copy", "--src", f"{files}/from", "--dst", "daos://tank/one/")
        daos("filesystem", "copy", "--src", "daos://tank/one/", "--dst", f"{files}/to")
        subprocess.run(["diff", "-r", f"{files}/from", f"{files}/to/from"], check=True)
        # A copy object by object would lose files.
        said = daos("container", "clone", "--src", "daos://tank/one", "--dst", "daos://tank/two", may_fail=True)
        assert "DER_NOTSUPPORTED" in said and "Copy them as files" in said, said
        daos("container", "create", "tank", "objects", "--type", "PYTHON")
        assert "inconsistent: 0" in daos("container", "check", "tank", "objects")
        assert "no snapshots" in daos("container", "list-snap", "tank", "one")
        said = daos("container", "create-snap", "tank", "one", may_fail=True)
        assert "DER_NOTSUPPORTED" in said, said
        daos("container", "destroy", "tank", "objects")
        assert " objects" not in daos("container", "list", "tank")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    daos_test.BUILD = os.path.abspath(sys.argv[1])
    daos_test.CLI = f"{daos_test.BUILD}/bin/ros2store"
    if not SOURCES and not CLI:
        print("not run: neither DAOS_SOURCES nor DAOS_CLI is set")
        return 77
    return test.run(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())

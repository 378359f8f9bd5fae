#!/usr/bin/env python3
"""usage: hdf5_test.py BUILD_DIRECTORY [NAME…]

HDF5 and MPI-IO on mounts: h5py, pandas, and programs of Open MPI and of MPICH with 2 and 4 ranks on one and on two
mounts. What Debian's packages do not have here is not run. The last line is "N passed, N failed". Exit status 77 where this machine
cannot mount.
"""
import itertools
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [TESTS + "/mount", TESTS]
import mounted_pool  # noqa: E402
import runner  # noqa: E402
from mounted_pool import DIRECT, LOCAL, OFFLOAD, Pool, two_mounts  # noqa: E402
from runner import NotHere  # noqa: E402

test = runner.Tests()
MPIS = "openmpi", "mpich"
RANKS = 2, 4
PATIENCE_SECONDS = 300


def need(module, package):
    """A Python with a module, in another process: a lock belongs to a process."""
    if subprocess.run(["/usr/bin/python3", "-c", f"import {module}"], capture_output=True, check=False).returncode != 0:
        raise NotHere(f"{module} is not installed ({package})")


def python(program, *arguments, **more):
    return subprocess.Popen(["/usr/bin/python3", "-c", program, *arguments], text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


def succeeds(process):
    said = process.communicate(timeout=PATIENCE_SECONDS)[0]
    assert process.returncode == 0, said
    return said


WRITE = """
import h5py, numpy, sys
with h5py.File(sys.argv[1], "w") as file:
    file["numbers"] = numpy.arange(100_000).reshape(100, 1000)
    packed = file.create_dataset("packed", (1000, 100), "f4", chunks=(10, 100), compression="gzip")
    packed[:] = numpy.arange(100_000).reshape(1000, 100)
    packed.attrs["unit"] = "m"
    print("open", flush=True)
    sys.stdin.readline()
"""
READ = """
import h5py, sys
with h5py.File(sys.argv[1], "r") as file:
    print(file["numbers"][:].sum(), file["packed"][999, 99], file["packed"].attrs["unit"])
"""
CHANGE = """
import h5py, sys
with h5py.File(sys.argv[1], "r+") as file:
    file["numbers"][0, 0] = 5
"""


def lock_and_read(writer, reader):
    """The file is locked while it is open for writing; then the other one reads and changes it."""
    holding = python(WRITE, writer)
    assert holding.stdout.readline() == "open\n"
    refused = python(CHANGE, reader)
    said = refused.communicate(timeout=PATIENCE_SECONDS)[0]
    assert refused.returncode != 0 and "unable to lock file" in said, said
    holding.stdin.write("\n")
    succeeds(holding)
    assert succeeds(python(READ, reader)) == "4999950000 99999.0 m\n"
    succeeds(python(CHANGE, reader))
    assert succeeds(python(READ, writer)) == "4999950005 99999.0 m\n"


@test.each(LOCAL, DIRECT, OFFLOAD)
def h5py_on_a_mount(scheme):
    need("h5py", "python3-h5py")
    with Pool(scheme=scheme) as pool:
        pool.mount()
        lock_and_read(pool.path("a.h5"), pool.path("a.h5"))


@test.each(DIRECT, OFFLOAD)
def h5py_on_two_mounts(scheme):
    need("h5py", "python3-h5py")
    with two_mounts(scheme=scheme) as (pool, second):
        lock_and_read(pool.path("a.h5"), f"{second}/a.h5")


SWMR_WRITER = """
import h5py, sys
with h5py.File(sys.argv[1], "w", libver="latest") as file:
    growing = file.create_dataset("growing", (0,), "i8", maxshape=(None,), chunks=(64,))
    file.swmr_mode = True
    for line in sys.stdin:
        count = int(line)
        begin = growing.shape[0]
        growing.resize((begin + count,))
        growing[begin:] = range(begin, begin + count)
        growing.flush()
        print(begin + count, flush=True)
"""
SWMR_READER = """
import h5py, sys, time
with h5py.File(sys.argv[1], "r", libver="latest", swmr=True) as file:
    growing = file["growing"]
    print("open", flush=True)
    for line in sys.stdin:
        end = time.monotonic() + 60
        while growing.shape[0] < int(line) and time.monotonic() < end:
            time.sleep(0.01)
            growing.refresh()
        assert growing[:].tolist() == list(range(growing.shape[0])), growing[:].tolist()
        print(growing.shape[0], flush=True)
"""


def grow(writer_path, reader_path):
    writer = python(SWMR_WRITER, writer_path)

    def ask(process, what):
        process.stdin.write(f"{what}\n")
        process.stdin.flush()
        return process.stdout.readline()

    assert ask(writer, 10) == "10\n", writer.communicate()
    reader = python(SWMR_READER, reader_path)
    assert reader.stdout.readline() == "open\n", reader.communicate()
    total = 10
    for count in 1, 100, 1000, 7:
        total += count
        assert ask(writer, count) == f"{total}\n", writer.communicate()
        assert ask(reader, total) == f"{total}\n", reader.communicate()
    succeeds(reader)
    succeeds(writer)


@test.each(LOCAL, DIRECT, OFFLOAD)
def swmr_on_a_mount(scheme):
    need("h5py", "python3-h5py")
    with Pool(scheme=scheme) as pool:
        pool.mount()
        grow(pool.path("a.h5"), pool.path("a.h5"))


@test.each(DIRECT, OFFLOAD)
def swmr_on_two_mounts(scheme):
    need("h5py", "python3-h5py")
    with two_mounts(scheme=scheme) as (pool, second):
        grow(pool.path("a.h5"), f"{second}/a.h5")


@test.each(DIRECT, OFFLOAD)
def durability_fsync(scheme):
    need("h5py", "python3-h5py")
    with Pool(scheme=scheme) as pool:
        pool.defer()
        pool.mount()
        second = pool.mount_second()
        lock_and_read(pool.path("a.h5"), f"{second}/a.h5")
        grow(pool.path("b.h5"), f"{second}/b.h5")


PANDAS = """
import pandas, sys
frame = pandas.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
frame.to_hdf(sys.argv[1], "fixed")
for _ in range(2):
    frame.to_hdf(sys.argv[1], "table", format="table", append=True)
pandas.testing.assert_frame_equal(pandas.read_hdf(sys.argv[1], "fixed"), frame)
assert len(pandas.read_hdf(sys.argv[1], "table", where="index == 1")) == 2
"""


@test
def pandas_on_a_mount():
    need("tables, pandas", "python3-tables, python3-pandas")
    with Pool(scheme=OFFLOAD) as pool:
        pool.mount()
        succeeds(python(PANDAS, pool.path("a.h5")))


# ---- MPI

BUILT = {}


def program(mpi, name, compiler):
    """The path of a program, built with the compiler of that MPI."""
    if shutil.which(compiler) is None or shutil.which(f"mpirun.{mpi}") is None:
        raise NotHere(f"{compiler} or mpirun.{mpi} is missing: see tools/packages-hpc.txt")
    if (mpi, name) not in BUILT:
        folder = tempfile.mkdtemp(prefix="ros2store-hdf5.")
        out = f"{folder}/{name}"
        done = subprocess.run([compiler, "-O1", "-o", out, f"{HERE}/{name}.c"], capture_output=True, text=True, cwd=folder,
                              check=False)
        assert done.returncode == 0, done.stderr
        BUILT[mpi, name] = out
    return BUILT[mpi, name]


def run_ranks(mpi, ranks, *words):
    options = {"openmpi": ("--allow-run-as-root", "--oversubscribe"), "mpich": ()}[mpi]
    done = subprocess.run([f"mpirun.{mpi}", *options, "-n", str(ranks), *words], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
                          env={**os.environ, "OMPI_MCA_btl_base_warn_component_unused": "0"})
    assert done.returncode == 0, f"{' '.join(words)}: {done.returncode}: {done.stdout}{done.stderr}"


def on_mounts(mpi, name, compiler, cases):
    built = program(mpi, name, compiler)
    with two_mounts(scheme=OFFLOAD) as (pool, second):
        for case, ranks in itertools.product(cases, RANKS):
            file = f"{case}.{ranks}"
            for where, paths in (("one mount", [pool.path(file)]),
                                 ("two mounts", [pool.path(f"{file}.shared"), f"{second}/{file}.shared"])):
                try:
                    run_ranks(mpi, ranks, built, case, *(paths[rank % len(paths)] for rank in range(ranks)))
                except Exception as error:
                    raise AssertionError(f"{case} of {ranks} ranks on {where}") from error


@test.each(*MPIS)
def mpi_io(mpi):
    on_mounts(mpi, "mpi_files", f"mpicc.{mpi}", ("independent", "collective", "atomic", "shared"))


@test.each(*MPIS)
def parallel_hdf5(mpi):
    on_mounts(mpi, "hdf5_ranks", f"h5pcc.{mpi}", ("independent", "collective"))


if __name__ == "__main__":
    try:
        mounted_pool.main(test, __doc__)
    finally:
        for path in BUILT.values():
            shutil.rmtree(os.path.dirname(path))

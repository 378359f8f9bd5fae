#!/usr/bin/env python3
"""usage: fio_test.py BUILD_DIRECTORY [NAME…]

Tests the fio plug-in on real pools, embedded, behind an engine and behind a DPU daemon, with fio's own
verification, and its messages when it cannot work. The last line is "N passed, N failed".
"""
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import runner  # noqa: E402

test = runner.Tests()
LOCAL, OFFLOAD = "ros2s+local", "ros2s+dpu"
WAYS = (LOCAL, "ros2s provider=shm", "ros2s provider=ucx+tcp", OFFLOAD)


class Pool:
    """Makes a pool. `way`: the scheme of its URI, and a parameter."""

    def __init__(self, size="512MiB", way=LOCAL):
        self.top = tempfile.mkdtemp(prefix="ros2store-fio.")
        self.directory = f"{self.top}/pool"
        scheme, _, parameter = way.partition(" ")
        self.uri = f"{scheme}:///pool/main?dir={self.directory}" + (parameter and f"&{parameter}")
        self.is_served = way != LOCAL
        daemons = () if self.is_served else ("--no-daemons",)
        if "ucx" in parameter:
            daemons = ("--provider", "shm, ucx+tcp", "--trusted-network")
        done = subprocess.run([CLI, "up", *daemons, self.directory, "--size", size],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        self.said = done.stdout

    def command(self, *options, uri=None):
        uri = self.uri if uri is None else uri
        return ["fio", f"--ioengine=external:{PLUGIN}", f"--uri={uri}", "--output-format=json",
                "--verify_state_save=0", *options]

    def fio(self, *options, fails=False, uri=None):
        """Runs fio. Returns its report and its whole output."""
        for _ in range(5):
            done = subprocess.run(self.command(*options, uri=uri), capture_output=True, text=True,
                                  timeout=300, cwd=self.top)
            said = done.stdout + done.stderr
            # fio's own limit: a job that a busy machine has not started within 5 s.
            if "job startup hung" not in said:
                break
        assert (done.returncode != 0) == fails, \
            f"{' '.join(options)}: status {done.returncode}: {done.stderr}{done.stdout[-3000:]}\n{self.logs()}"
        start = done.stdout.find("{\n")
        report = json.loads(done.stdout[start:done.stdout.rfind("}") + 1]) if start >= 0 else None
        if not fails:
            assert all(job["error"] == 0 for job in report["jobs"]), said
        return report, said

    def logs(self):
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-1500:]}"
                         for log in Path(self.directory).glob("run/*.log"))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.is_served:
            subprocess.run([CLI, "down", "--kill", self.directory], capture_output=True, check=False)
        subprocess.run(["rm", "-rf", self.top], check=False)


WRITE = ("--rw=randwrite", "--verify=crc32c", "--verify_fatal=1")
READ_BACK = ("--rw=randread", "--verify=crc32c", "--verify_fatal=1")


def total(report, direction, key="total_ios"):
    return sum(job[direction][key] for job in report["jobs"])


@test.each(*WAYS)
def verified_at_depths_1_and_32(way):
    with Pool(way=way) as pool:
        for depth in (1, 32):
            # Running them one after the other is slow on a busy machine.
            size, count = ("2M", 512) if depth == 1 else ("16M", 4096)
            files = (f"--name=f{depth}", "--filename=f", f"--size={size}", "--bs=4k",
                     f"--iodepth={depth}")
            report, _ = pool.fio(*files, *WRITE)
            assert total(report, "write") == total(report, "read") == count
            report, _ = pool.fio(*files, *READ_BACK)  # by another process
            assert total(report, "read") == count


@test
def grown_pool_is_used():
    with Pool("128MiB") as pool:
        files = ("--name=f", "--filename=f", "--size=160M", "--bs=64k", "--iodepth=16")
        grown = subprocess.run([CLI, "pool", "grow", pool.directory, "--size", "256MiB"],
                               capture_output=True, text=True)
        assert grown.returncode == 0, grown.stderr
        report, _ = pool.fio(*files, *WRITE)
        assert total(report, "write") == total(report, "read") == 2560


@test
def corrupt_bytes_are_named_by_file():
    with Pool("128MiB") as pool:
        block = os.urandom(4096)
        with open(f"{pool.top}/f", "wb") as file:
            file.write(os.urandom(65536) + block + os.urandom(65536 - 4096))
        subprocess.run([CLI, "cp", f"{pool.top}/f", pool.uri.replace("main", "main/f")], check=True)
        with open(f"{pool.directory}/device-0", "r+b") as device:
            at = device.read().index(block)
            device.seek(at + 7)
            device.write(bytes([block[7] ^ 16]))
        job = ("--name=f", "--filename=f", "--size=128k", "--bs=4k", "--rw=read")
        _, said = pool.fio(*job, fails=True)
        assert "read 'f': corrupt: " in said and "in the 4 KiB at byte 65536" in said, said
        assert f"{pool.directory}/device-0: the 4 KiB at byte {at}" in said, said
        assert "restore the file" in said, said


@test.each(LOCAL, OFFLOAD)
def corrupt_bytes_fail_verification(way):
    with Pool(way=way) as pool:
        job = ("--name=f", "--size=1M", "--bs=4k", "--iodepth=8")
        pool.fio(*job, "--rw=write", "--verify=pattern", "--verify_pattern=0x11")
        pool.fio(*job, "--rw=read", "--verify=pattern", "--verify_pattern=0x11")
        _, said = pool.fio(*job, "--rw=read", "--verify=pattern", "--verify_pattern=0x12",
                           fails=True)
        assert "bad pattern" in said or "verify" in said, said


@test.each(*WAYS)
def sizes_that_are_not_multiples_of_a_block(way):
    with Pool(way=way) as pool:
        job = ("--name=f", "--size=24M", "--bsrange=512-1500k", "--bs_unaligned=1", "--iodepth=16")
        pool.fio(*job, "--rw=write", "--verify=crc32c", "--verify_fatal=1")
        pool.fio("--name=g", "--size=64M", "--bs=4M", "--iodepth=4", *WRITE)
        pool.fio("--name=h", "--size=4M", "--bs=4k", "--iodepth=8", "--registered=0", *WRITE)


@test.each(LOCAL, OFFLOAD)
def batches(way):
    with Pool(way=way) as pool:
        pool.fio("--name=f", "--size=16M", "--bs=4k", "--iodepth=32", "--iodepth_batch=16",
                 "--iodepth_batch_complete_min=4", "--iodepth_batch_complete_max=32",
                 "--iodepth_low=8", *WRITE)


@test.each(LOCAL, OFFLOAD)
def trim_reads_as_zeros(way):
    with Pool(way=way) as pool:
        job = ("--name=f", "--filename=f", "--size=8M", "--bs=64k", "--iodepth=8")
        pool.fio(*job, "--rw=write", "--verify=pattern", "--verify_pattern=0xaa")
        for kind in ("randtrim", "trim"):
            pool.fio(*job, "--rw=write")
            report, _ = pool.fio(*job, f"--rw={kind}")
            assert total(report, "trim") == 128
            pool.fio(*job, "--rw=read", "--verify=pattern", "--verify_pattern=0x00")
        report, _ = pool.fio(*job, "--rw=trimwrite")
        assert total(report, "trim") > 0 and total(report, "write") > 0


@test.each(LOCAL, OFFLOAD)
def threads_share_the_pool(way):
    with Pool(way=way) as pool:
        report, _ = pool.fio("--thread", "--name=own", "--numjobs=4", "--size=8M", "--bs=4k",
                             "--iodepth=8", *WRITE)
        assert len(report["jobs"]) == 4
        pool.fio("--thread", "--name=same", "--filename=same", "--numjobs=4", "--size=4M",
                 "--offset_increment=4M", "--bs=4k", "--iodepth=8", *WRITE)


@test.each(LOCAL, OFFLOAD)
def several_files_in_one_job(way):
    with Pool(way=way) as pool:
        job = ("--name=many", "--nrfiles=2", "--size=16M", "--bs=4k", "--iodepth=16")
        pool.fio(*job, *WRITE)
        pool.fio(*job, *READ_BACK)
        pool.fio("--name=more", "--nrfiles=16", "--openfiles=3", "--filesize=256k", "--bs=4k",
                 "--iodepth=4", *WRITE)


@test
def successive_processes_and_threads_share_a_local_pool():
    with Pool() as pool:
        pool.fio("--name=a", "--size=1M", *WRITE, "--name=b", "--stonewall", "--size=1M", *WRITE)
        # A process that follows threads is forked from an owner of the pool.
        pool.fio("--name=t", "--thread", "--size=1M", *WRITE, "--name=p", "--stonewall",
                 "--thread=0", "--size=1M", *WRITE)
        pool.fio("--create_serialize=0", "--name=own", "--size=1M", *WRITE)


@test.each(*WAYS)
def concurrent_processes_work(way):
    with Pool(way=way) as pool:
        report, _ = pool.fio("--name=own", "--numjobs=3", "--size=4M", "--bs=16k", "--iodepth=8",
                             *WRITE)
        assert len(report["jobs"]) == 3 and total(report, "read") == 3 * 256, report
        pool.fio("--name=same", "--filename=same", "--numjobs=2", "--size=4M",
                 "--offset_increment=4M", "--bs=4k", "--iodepth=8", *WRITE)


@test.each(LOCAL, OFFLOAD)
def syncs_layout_and_unlink(way):
    with Pool(way=way) as pool:
        pool.fio("--name=s", "--size=1M", "--bs=4k", "--iodepth=4", "--fsync=4", *WRITE)
        pool.fio("--name=d", "--size=1M", "--bs=4k", "--iodepth=4", "--fdatasync=4", *WRITE)
        _, said = pool.fio("--name=laid", "--filename=dir-less", "--size=4M", "--rw=read",
                           "--bs=128k", "--unlink=1")
        job = ("--name=again", "--filename=dir-less", "--rw=read", "--bs=4k")
        _, said = pool.fio(*job, fails=True)
        assert "you need to specify size" in said, said
        pool.fio("--name=grow", "--filename=grow", "--size=1M", "--rw=read")
        report, _ = pool.fio("--name=grow", "--filename=grow", "--size=3M", "--rw=read",
                             "--bs=128k")
        assert total(report, "read", "io_bytes") == 3 << 20


@test
def refusals_say_what_is_wrong():
    with Pool("128MiB") as pool:
        job = ("--name=f", "--size=1M", "--rw=write")
        for uri, expected in (
                ("nonsense", "ros2s+local"),
                ("ros2s+local:///pool", "container"),
                ("ros2s+local:///pool/main?dir=/nowhere", "/nowhere"),
                (f"ros2s+local:///pool/other?dir={pool.directory}", "main"),
                (f"ros2s+local:///other/main?dir={pool.directory}", "pool")):
            _, said = pool.fio(*job, uri=uri, fails=True)
            assert "ros2s: " in said and expected in said, said
        done = subprocess.run(["fio", f"--ioengine=external:{PLUGIN}", *job], capture_output=True,
                              text=True, cwd=pool.top)
        assert done.returncode != 0 and "needs uri=" in done.stdout + done.stderr
        pool.fio(*job)


@test
def a_file_larger_than_the_pool_leaves_nothing():
    with Pool("64MiB") as pool:
        read = ("--filename=f", "--bs=1M", "--rw=read")
        pattern = ("--verify=pattern", "--verify_pattern=0x5a")
        empty = free_bytes(pool)
        _, said = pool.fio("--name=new", "--size=1G", *read, fails=True)
        assert "cannot lay out f: No space left on device; what was written" in said, said
        assert "smaller --size" in said and "ros2store pool grow" in said, said
        assert free_bytes(pool) == empty
        pool.fio("--name=fits", "--size=4M", "--filename=f", "--bs=1M", "--rw=write", *pattern)
        _, said = pool.fio("--name=longer", "--size=1G", *read, fails=True)
        assert "smaller --size" in said, said
        stat = subprocess.run([CLI, "--json", "stat", pool.uri.replace("main", "main/f")],
                              capture_output=True, text=True, check=True)
        assert json.loads(stat.stdout)["files"][0]["bytes"] == 4 << 20, stat.stdout
        assert free_bytes(pool) > empty - (8 << 20)
        pool.fio("--name=fits", "--size=4M", *read, *pattern)


@test
def proposed_job_fits_the_pool():
    for size, file in (("64MiB", 16 << 20), ("256MiB", 64 << 20)):
        with Pool(size) as pool:
            line = next(line for line in pool.said.splitlines() if "--ioengine=external" in line)
            command = shlex.split(line)
            done = subprocess.run([*command, "--output-format=json"], capture_output=True,
                                  text=True, cwd=pool.top)
            assert done.returncode == 0, done.stdout + done.stderr
            assert f'"io_bytes" : {file}' in done.stdout, done.stdout
            assert free_bytes(pool) > file


def free_bytes(pool):
    done = subprocess.run([CLI, "--json", "status", pool.directory], capture_output=True,
                          text=True, check=True)
    return json.loads(done.stdout)["free_bytes"]


@test
def a_pool_in_use_is_used_through_its_owner():
    with Pool() as pool:
        # It runs until the other one has ended, for as long as that one takes to start.
        job = ("--name=f", "--filename=f", "--size=1M", "--rw=write", "--time_based",
               "--runtime=1000", "--thread")
        holder = subprocess.Popen(pool.command(*job), stdout=subprocess.PIPE, text=True,
                                  cwd=pool.top)
        try:
            # Short-lived children do fio's set-up. The job runs when fio itself is the owner.
            runner.wait_until(lambda: owner_of(pool) == holder.pid or holder.poll() is not None,
                              "fio to own the pool")
            assert holder.poll() is None, holder.stdout.read()
            pool.fio("--name=g", "--size=1M", "--rw=write")
        finally:
            holder.send_signal(signal.SIGINT)
            said, _ = holder.communicate(timeout=runner.PATIENCE_SECONDS)
        report = json.loads(said[said.find("{\n"):said.rfind("}") + 1])
        assert [job["error"] for job in report["jobs"]] == [0], said
        pool.fio("--name=g", "--size=1M", "--rw=write")


def owner_of(pool):
    try:
        with open(f"{pool.directory}/owner") as file:
            first = file.readline().split()
        return int(first[1]) if len(first) == 2 else 0
    except FileNotFoundError:
        return 0


@test
def options_are_documented():
    done = subprocess.run(["fio", f"--enghelp={PLUGIN}"], capture_output=True, text=True)
    for option in ("uri", "registered", "path_report"):
        assert option in done.stdout, done.stdout + done.stderr
    with Pool() as pool:
        _, said = pool.fio("--name=f", "--size=1M", "--rw=write", "--path_report=1")
        assert "f.0.0" in said and "write" in said, said


def main():
    global CLI, PLUGIN
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = os.path.abspath(sys.argv[1])
    CLI, PLUGIN = f"{build}/bin/ros2store", f"{build}/plugins/fio/libros2store-fio.so"
    return test.run(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())

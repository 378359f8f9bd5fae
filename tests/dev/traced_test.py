"""Tests that the trace of a host finds what a host of a DPU must not do.

usage: traced_test.py BUILD_DIRECTORY CHECKOUT [NAME…]      Exit status 77 where nothing can be traced."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import runner  # noqa: E402

test = runner.Tests()
JOB = ("--name=traced", "--thread", "--rw=write", "--bs=64k", "--iodepth=4", "--size=24m",
       "--verify=crc32c", "--verify_state_save=0")


def faults_of(lines, payload=1 << 20):
    """Returns the faults, except that the trace shows no DPU."""
    trace = traced.Trace("\n".join(lines))
    return list(traced.faults(trace, payload, "/p", {"127.0.0.1:7401"}))[1:]


@test
def each_way_of_moving_is_counted():
    for line, moved in (
            ('7 read(3</x>, "..."..., 4096) = 100', 100),
            ('7 <... recvmsg resumed>{msg_name=NULL, msg_iov=[{iov_base="..."}]}, 0) = 200', 200),
            ('7 sendmmsg(4<UDP:[1->2]>, [{msg_hdr={msg_namelen=0}, msg_len=30}, '
             '{msg_hdr={msg_namelen=0}, msg_len=12}], 2, 0) = 2', 42),
            ('7 recvmmsg(4<UDP:[1]>, 0x7f, 2, 0, NULL) = -1 EAGAIN (Resource unavailable)', 0),
            ('7 writev(1</x>, [{iov_base="a", iov_len=1}], 1) = 1', 1),
            ('7 read(3</x>, "", 5) = -1 EAGAIN (Resource temporarily unavailable)', 0),
            ('7 openat(AT_FDCWD</>, "/x", O_RDONLY) = 5</x>', 0)):
        assert traced.Trace(line).moved == moved, line
    assert faults_of(['7 read(3</x>, "..."..., 99999) = 10486'])[0].startswith("system calls moved")
    assert faults_of(['7 read(3</x>, "..."..., 99999) = 10485']) == []


@test
def forbidden_files_and_peers_are_found():
    for line, fault in (
            ('7 openat(AT_FDCWD</>, "/p/device-0", O_RDWR) = 5</p/device-0>', "/p/device-0"),
            ('7 openat(9</p>, "device-0", O_RDWR) = 5</p/device-0>', "/p/device-0"),
            ('7 openat(AT_FDCWD</>, "/p/owner", O_RDWR) = -1 EACCES (Permission denied)', "/p/owner"),
            ('7 recvmsg(3<UNIX-STREAM:[1->2]>, {msg_control=[{cmsg_type=SCM_RIGHTS, '
             'cmsg_data=[8</p/device-1>]}]}, 0) = 1', "/p/device-1"),
            ('7 connect(3<UNIX-STREAM:[1]>, {sa_family=AF_UNIX, sun_path="/p/run/engine.data"}, 110) '
             '= 0', "/p/run/engine.data"),
            ('7 connect(3<TCP:[1]>, {sa_family=AF_INET, sin_port=htons(7401), '
             'sin_addr=inet_addr("127.0.0.1")}, 16 <unfinished ...>', "the engine at 127.0.0.1"),
            ('7 connect(3<TCPv6:[1]>, {sa_family=AF_INET6, sin6_port=htons(80), sin6_flowinfo=htonl(0), '
             'inet_pton(AF_INET6, "::1", &sin6_addr), sin6_scope_id=0}, 28) = 0', "::1 port 80"),
            ('7 io_uring_setup(8, {flags=0}) = 4', "io_uring_setup")):
        found = faults_of([line])
        assert len(found) == 1 and fault in found[0], (line, found)
    for line in (
            '7 openat(AT_FDCWD</>, "/p/certs/hosts/ca.crt", O_RDONLY) = 5</p/certs/hosts/ca.crt>',
            '7 write(1</dev/null>, "/p/device-0", 11) = 11',
            '7 connect(3<UNIX-STREAM:[1]>, {sa_family=AF_UNIX, sun_path="/p/run/dpu.data"}, 110) = 0'):
        assert traced.faults(traced.Trace(line), 1 << 20, "/p", set()), line
        assert faults_of([line]) == [], line


@test
def a_host_of_a_dpu_and_trusted_hosts():
    top = Path(tempfile.mkdtemp(prefix="traced.", dir=BUILD))
    pool = served.Served(BUILD / "bin/ros2store", top / "p", "shm, ucx+tcp")
    try:
        pool.make("256M")
        engine = {address.split(" ")[1] for address in pool.daemons()["engine"]["addresses"]}
        for scheme, further, expected in (
                ("ros2s+dpu", "", []),
                ("ros2s", "&provider=shm", [f"it opened {top}/p/run/engine.data"]),
                ("ros2s", "&provider=ucx+tcp", ["system calls moved", "it spoke to the engine at "])):
            side = sides.pool_side("host", BUILD, pool.uri(scheme, further=further), "traced")
            try:
                trace, read, wrote = traced.run(["fio", *JOB, *side.target], top / "trace")
            except shown.Failed as failed:
                logs = [log.read_text(encoding="utf-8")[-1500:] for log in pool.directory.glob("run/*.log")]
                raise shown.Failed("\n".join([str(failed), scheme + further, *logs])) from failed
            assert read == wrote == 24 << 20, (read, wrote)
            found = list(traced.faults(trace, read + wrote, pool.directory, engine))
            for each in expected:
                assert any(fault.startswith(each) for fault in found), (scheme, each, found)
            assert bool(found) == bool(expected), (scheme, further, found)
    finally:
        pool.down()
        shutil.rmtree(top)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    BUILD = Path(sys.argv[1]).absolute()
    sys.path.insert(0, str(Path(sys.argv[2]) / "tools" / "dev"))
    import served  # noqa: E402
    import shown  # noqa: E402
    import sides  # noqa: E402
    import traced  # noqa: E402
    try:
        traced.probe()
    except traced.NotRun as reason:
        print(f"SKIPPED: {reason}: NOTHING WAS TRACED")
        sys.exit(77)
    sys.exit(test.run(sys.argv[3:]))

"""Checks that in offload over shm no payload passes the host's kernel. It traces a host's fio, counts the
bytes that its system calls move, and checks what it opens and connects to."""

import json
import re
import subprocess

import shown

# Their return value is the number of moved bytes, except for calls that move several messages at once.
MOVING = ("read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2",
          "pwritev2", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "splice",
          "tee", "vmsplice", "sendfile", "copy_file_range", "process_vm_readv", "process_vm_writev")
RINGS = ("io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup", "io_submit")
OPENING = ("open", "openat", "openat2", "creat", "open_by_handle_at", "connect", "bind")
CALL = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)(.*)$")
RESULT = re.compile(r"\) += (-?\d+)(?:<(.*)>)?(?: .*)?$")
INET = re.compile(r'sa_family=AF_INET6?, sin6?_port=htons\((\d+)\).*?'
                  r'(?:inet_addr\(|inet_pton\(AF_INET6, )"([^"]*)"')
# A path as an argument, a socket's address, or what a descriptor stands for.
PATH = re.compile(r'"((?:[^"\\]|\\.)*)"|<(?:UNIX[^>]*"([^"]*)"[^>]*|(/[^>]*))>')


class NotRun(Exception):
    """This machine cannot trace. The message says why."""


class Trace:
    """Parses the output of strace with -yy and -v."""

    def __init__(self, text):
        self.moved = 0
        self.calls = 0
        self.rings = []
        self.paths = set()  # opened, connected to, or passed on
        self.inet = set()  # (address, port)
        for line in text.splitlines():
            found = CALL.match(line)
            if found:
                self.take(found[1], found[2])

    def take(self, name, rest):
        result = RESULT.search(rest)
        self.calls += 1 if result else 0
        returned = int(result[1]) if result else 0
        if name in ("sendmmsg", "recvmmsg"):
            self.moved += sum(map(int, re.findall(r"msg_len=(\d+)", rest))) if returned > 0 else 0
        elif name in MOVING and returned > 0:
            self.moved += returned
        if name in RINGS:
            self.rings.append(name)
        self.inet |= {(address, int(port)) for port, address in INET.findall(rest)}
        # Payload is quoted, too.
        if name in OPENING:
            self.paths |= {"".join(groups) for groups in PATH.findall(rest)}
        else:
            self.paths |= {"".join(groups[1:]) for groups in PATH.findall(rest)}


def probe():
    """Raises NotRun if strace cannot trace here."""
    try:
        done = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except FileNotFoundError as missing:
        raise NotRun("there is no strace here: apt-get install strace") from missing
    if done.returncode != 0:
        raise NotRun(f"this machine lets no program be traced ({done.stderr.strip()[:200]})")


def run(command, log):
    """Runs fio under strace. Returns its trace and the bytes that its jobs read and wrote. Raises Failed."""
    said = shown.run("strace", "-f", "-qq", "-yy", "-v", "-s", "256", "-o", log, "-e",
                     "trace=" + ",".join(MOVING + RINGS + OPENING), *command,
                     "--output-format=json", quiet=True)
    with open(log, encoding="utf-8", errors="replace") as text:
        trace = Trace(text.read())
    jobs = json.loads(said[said.index("{\n"):said.rindex("}") + 1])["jobs"]
    return trace, sum(job["read"]["io_bytes"] for job in jobs), sum(
        job["write"]["io_bytes"] for job in jobs)


def faults(trace, payload, directory, engine_addresses):
    """Yields a sentence for each thing that a host should not do. `engine_addresses`: "HOST:PORT" of the
    engine's TCP."""
    if trace.calls == 0 or not any(path.startswith(f"{directory}/run/dpu.") for path in trace.paths):
        yield "the trace does not even show how it reached its DPU"
    if trace.moved * 100 >= payload:
        yield f"system calls moved {trace.moved} bytes of {payload}"
    if trace.rings:
        yield f"it used {trace.rings[0]}"
    own = (f"{directory}/certs/hosts/", f"{directory}/run/dpu.")
    for path in sorted(trace.paths):
        # It walks from directory to directory.
        is_own = path.startswith(own) or any(each.startswith(f"{path}/") for each in own)
        if path.startswith(f"{directory}/") and not is_own:
            yield f"it opened {path}"
    for address, port in sorted(trace.inet):
        whose = "the engine at " if f"{address}:{port}" in engine_addresses else ""
        yield f"it spoke to {whose}{address} port {port}, though its DPU is behind a Unix socket"

"""Promise P9: in offload over shm no payload passes the host's kernel. A host's fio is traced: what
its system calls move is counted, and what it opens is looked at."""

import re

import shown

MOVING = ("read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2",
          "pwritev2", "sendto", "recvfrom", "sendmsg", "recvmsg", "splice", "tee", "vmsplice",
          "sendfile", "copy_file_range", "process_vm_readv", "process_vm_writev")
RINGS = ("io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup", "io_submit")
OPENING = ("openat", "open", "connect")
CALL = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)(.*?)(?:\) += (-?\d+).*)?$")


class Trace:
    def __init__(self, text):
        self.moved = 0
        self.calls = 0
        self.rings = []
        self.opened = []
        for line in text.splitlines():
            found = CALL.match(line)
            if not found:
                continue
            name, arguments, result = found[1], found[2], int(found[3] or 0)
            self.calls += 1
            if name in MOVING and result > 0:
                self.moved += result
            if name in RINGS:
                self.rings.append(name)
            if name in OPENING:
                self.opened += re.findall(r'"([^"]*)"', arguments)


def run(command, log):
    """Runs the command under strace; returns its trace. Errors: Failed."""
    shown.run("strace", "-f", "-qq", "-s", "256", "-o", log,
              "-e", "trace=" + ",".join(MOVING + RINGS + OPENING), *command, quiet=True)
    with open(log, encoding="utf-8", errors="replace") as text:
        return Trace(text.read())


def faults(trace, payload, directory):
    """Sentences on what a host should not do."""
    if trace.moved * 100 >= payload:
        yield f"system calls moved {trace.moved} bytes of {payload}"
    if trace.rings:
        yield f"it used {trace.rings[0]}"
    for path in trace.opened:
        storage = path.startswith(f"{directory}/") and not path.startswith(
            (f"{directory}/certs/hosts/", f"{directory}/run/dpu."))
        if storage:
            yield f"it opened {path}"

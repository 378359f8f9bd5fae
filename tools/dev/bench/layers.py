"""Finds the layer of a sample: the module of the innermost function, or the system call."""

import re
from collections import Counter
from pathlib import Path

CODE = Path("src")
# Layers by the innermost function's name, if it says more than its library.
WORK = (("polling", r"sched_yield"), ("checksums", r"crc32"), ("copies", r"mem(cpy|move|set)"),
        ("allocation", r"malloc|calloc|realloc|^_int_free|cfree|^free$|operator new|operator delete"),
        ("clock", r"clock_gettime|vdso"))
LIBRARIES = (("fio", r"/fio$"), ("fio plug-in", r"libros2store-fio"), ("index (RocksDB)", r"librocksdb"),
             ("UCX", r"libuc[pst]|/ucx/"), ("libfabric", r"libfabric"), ("io_uring library", r"liburing"),
             ("bench program", r"/name_bench$"), ("C library", r"/libc\.so|/libc-|ld-linux|libpthread|libstdc\+\+"))
# Layers by kernel function: the first one that matches.
KERNEL = (("kernel: sleep and wake", r"^(schedule|futex_|ep_poll|do_sys_poll|__x64_sys_p?poll|eventfd_|try_to_wake_up)"),
          ("kernel: I/O", r"io_uring|^io_|blk_|bio_|ext4_|xfs_|nvme_|virtio|virtblk"),
          ("kernel: network", r"^(tcp_|inet_|unix_|sock_|__sys_(send|recv))"),
          ("kernel: memory", r"page_fault|^do_(mmap|munmap|madvise)|^handle_mm"),
          ("kernel: interrupts", r"sysvec_|irq_exit|softirq|common_interrupt"))


def modules_of_names(code=CODE):
    """Returns the module of each name, or inner namespace, in the namespace ros2s itself. base and runtime declare
    these."""
    found = {}
    for module in ("base", "runtime"):
        for source in sorted(code.glob(f"*/{module}/*.h")) + sorted(code.glob(f"*/{module}/*.cc")):
            text = source.read_text(encoding="utf-8")
            for name in re.findall(r"\b(?:class|struct|namespace)\s+(?:\[\[\w+\]\]\s+)?(?:ros2s::)?(\w+)|\b([a-z]\w+)\(", text):
                found.setdefault(name[0] or name[1], module)
    return found


def first_of(table, text):
    return next((name for name, pattern in table if re.search(pattern, text)), None)


class Layers:
    def __init__(self, code=CODE):
        self.modules = {path.name for path in [*code.iterdir(), *code.glob("*/*")] if path.is_dir()}
        self.names = modules_of_names(code)

    def of(self, sample):
        if sample.user and first_of(WORK, sample.user[0][0]) == "polling":
            return "polling"
        if sample.kernel:
            return self.of_kernel(sample.kernel)
        return self.of_function(*sample.user[0]) if sample.user else "unknown"

    @staticmethod
    def of_kernel(frames):
        for name, _ in frames:
            layer = first_of(KERNEL, name)
            if layer:
                return layer
        return "kernel: other"

    def of_function(self, name, library):
        layer = first_of(WORK, name)
        if layer:
            return layer
        # Our own name decides, also in a template of the standard library.
        for found in re.findall(r"\bros2s::(\w+)", name):
            if found in self.modules:
                return found
            if found in self.names:
                return self.names[found]
            if found[0].islower():  # a program's own
                return found
        return first_of(LIBRARIES, library) or ("other of ours" if "ros2s" in library else "unknown")


def by_layer(samples, layers):
    """Returns lists of samples by layer, the longest first."""
    found = {}
    for sample in samples:
        found.setdefault(layers.of(sample), []).append(sample)
    return dict(sorted(found.items(), key=lambda each: -len(each[1])))


def functions(samples):
    """Counts the samples of each function. In the kernel this is the innermost kernel function."""
    return Counter((sample.kernel or sample.user or (("unknown", ""),))[0][0] for sample in samples).most_common()

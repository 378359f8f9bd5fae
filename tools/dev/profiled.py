"""./dev profile MODE WORKLOAD: shows the processor time of an operation, by process and layer, as perf
samples it.

It runs fio once (name_bench for operations on names) and ignores its start. Each sample counts as the time between two
samples. A layer is the module of the innermost function, or the system call."""

import re
from collections import Counter
from pathlib import Path

import bench
import build
import console
import guard
import shown
import sides
from bench import files, names, pools, report, rows, samples

WORKLOADS = (*(row.key for row in sides.ROWS), *names.OPERATIONS)
FUNCTIONS = 4  # shown for each layer
LEAST = 0.005  # a layer with a smaller share is not shown
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


def add_arguments(parser):
    parser.add_argument("mode", choices=("raw", "embedded", "direct", "offload"))
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--seconds", type=bench.whole_number(bench.SECONDS_MOST), default=5, help="duration of the operation (5)")
    parser.add_argument("--mib", type=bench.whole_number(bench.MIB_MOST), default=512, help="size of the file (512)")
    parser.add_argument("--provider", choices=("shm", pools.TCP), default="shm", help="between the client of the engine and the engine (shm)")
    parser.add_argument("--memory", action="store_true", help="put the pool in /dev/shm, to leave out the disk")
    parser.add_argument("--no-build", action="store_true", help="measure the present build/release")


def run(options):
    tally = console.Tally("profile")
    place = Path("/dev/shm/ros2store-profile" if options.memory else "build/bench").absolute()
    guard.alone("bench", place, tally, lambda: tally.add("sampled", profile(options, place)) and None)
    return tally.close()


def profile(options, place):
    samples.probe()
    if not options.no_build and not build.make("release", ["programs"]):
        raise shown.Failed("the build failed")
    guard.clear(place)
    place.mkdir(parents=True)
    console.keep_notes("build/profile.log")
    ours = pools.Pools("this", build.folder("release"), place, options.mib)
    side = side_of(options, place, ours)
    operations, grouped = (of_names if options.workload in names.OPERATIONS else of_fio)(options, place, side)
    ours.down()
    print(f"\n{side.name}, {options.workload}: {operations:,} operations; {sides.machine()}; "
          f"revision {report.revision('.')}; load {report.load()[0]}")
    layers = Layers()
    for process in rows.PROCESSES:
        if process in grouped:
            print("\n" + "\n".join(lines(process, operations, grouped[process], layers)), flush=True)
    return bool(grouped)


def side_of(options, place, ours):
    if options.mode == "raw":
        return sides.raw_side((place / "raw").absolute())
    if options.mode == "embedded":
        side = ours.embedded()
    else:
        pool = ours.with_daemons((options.provider,))
        side = (ours.direct if options.mode == "direct" else ours.offload)(pool, options.provider)
    return pools.in_memory(side) if options.memory else side


def of_fio(options, place, side):
    size = f"{options.mib}m"
    sides.fill(side, size)
    figure, grouped = files.sample(place, sides.row_of(options.workload), side, size, options.seconds)
    return figure.operations, grouped


def of_names(options, place, side):
    where = place / "names" if side.is_raw else names.container(side)
    pids = side.served.pids() if side.served else {}
    return names.Directories(side.mode, None, where, synced=side.is_raw).sampled(
        build.folder("release").absolute(), place / "perf.data", pids, options.workload, options.seconds)


def modules_of_names(code):
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
        self.modules = {path.name: path.name for path in code.glob("*/*") if path.is_dir()}
        self.names = modules_of_names(code) | self.modules

    def of(self, sample):
        if samples.yields(sample):
            return "polling"
        if sample.kernel:
            return next(filter(None, (first_of(KERNEL, name) for name, _ in sample.kernel)), "kernel: other")
        return self.of_function(*sample.user[0]) if sample.user else "unknown"

    def of_function(self, name, library):
        layer = first_of(WORK, name)
        if layer:
            return layer
        # Our own name decides, also in a template of the standard library.
        for found in re.findall(r"\bros2s::(\w+)", name):
            if found in self.names or found[0].islower():  # a program's own
                return self.names.get(found, found)
        return first_of(LIBRARIES, library) or ("other of ours" if "ros2s" in library else "unknown")


def by_layer(found, layers):
    """Returns lists of samples by layer, the longest first."""
    grouped = {}
    for sample in found:
        grouped.setdefault(layers.of(sample), []).append(sample)
    return dict(sorted(grouped.items(), key=lambda each: -len(each[1])))


def functions(found):
    """Counts the samples of each function. In the kernel this is the innermost kernel function."""
    return Counter((sample.kernel or sample.user or (("unknown", ""),))[0][0] for sample in found).most_common()


def lines(process, operations, found, layers):
    """Returns a table of one process."""
    def cost(count):
        return f"{1e6 * count / samples.HERTZ / operations:.2f}"

    told = report.table((f"{process}: layer", "µs per operation", "share", "most of it in (µs)"), (
        (layer, cost(len(own)), f"{len(own) / len(found):.0%}",
         ", ".join(f"`{short(name)}` {cost(count)}" for name, count in functions(own)[:FUNCTIONS]
                   if count >= LEAST * len(found)))
        for layer, own in by_layer(found, layers).items() if len(own) >= LEAST * len(found)))
    return [*told, "", f"{process}: {cost(len(found))} µs per operation, {len(found)} samples"]


def short(name):
    """Returns the name without arguments and templates."""
    kept = ""
    depth = 0
    for letter in name:
        depth += letter in "<("
        kept += letter if depth == 0 else ""
        depth -= letter in ">)"
    return kept.strip()[-60:] or name[:60]

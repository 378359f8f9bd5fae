"""Measures fio over 3FS's USRBIO on a mount (tests/usrbio/fio_engine.c, which makes the calls of 3FS's engine), in turn
with fio and our own plug-in: on the mount of an embedded pool, beside a direct client, because the engine is in another
process for both; and behind a DPU, where the mount is one process more."""

import dataclasses
import subprocess

import shown
import sides

ROWS = sides.jobs("usrbio")


@dataclasses.dataclass(frozen=True)
class Side:
    mode: str
    provider: str
    target: list

    def run(self, row, shared):
        command = sides.fio_command(row, self.as_fio(), shared, reports=False)
        done = shown.fio(lambda: subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                                                timeout=300))
        if done.returncode != 0:
            raise shown.Failed(f"{' '.join(map(str, command))}\n{shown.ends_of(done.stdout + done.stderr)}")
        return sides.figure_of(done.stdout, row)

    def as_fio(self):
        return sides.Side(self.mode, [*self.target, "--thread"])


def measure(options, ours, pool, folder, told):
    size = f"{options.mib}m"
    embedded, offload = ours.embedded("usrbio").uri, pool.uri("ros2s+dpu")
    beside = of_plugin("direct", "shm", ours, pool.uri("ros2s")), of_plugin("offload", "shm", ours, offload)
    for side in (of_plugin("embedded", None, ours, embedded), beside[0]):  # both of `beside` use one file
        sides.fill(side.as_fio(), size)
    over = of_usrbio("embedded", None, ours, folder), of_usrbio("offload", "shm", ours, folder)
    for uri, *both in zip((embedded, offload), beside, over):
        shown.run(ours.program, "mount", uri, folder, quiet=True)
        for row in ROWS:
            told.add(row, both, sides.in_turn(both, options.turns, lambda side, row=row: side.run(
                row, sides.time_based(size, options.seconds))))
        shown.run("fusermount3", "-u", folder, quiet=True)


def of_plugin(mode, provider, ours, uri):
    return Side(f"plug-in, {mode}", provider, sides.pool_side(mode, ours.built, uri, "usrbio").target)


def of_usrbio(mode, provider, ours, folder):
    engine = ours.built / "tests/usrbio/libusrbio-fio.so"
    return Side(f"USRBIO, {mode}", provider, [f"--ioengine=external:{engine}", f"--mountpoint={folder}", f"--filename={folder}/usrbio"])

"""Tests a loss of power that loses data. A pool on an emulated NVMe namespace runs under load while its
writes and flushes are recorded. A seed selects points of the record. For each point the disks are made as a
loss of power could have left them, with random parts of what no flush covered. Each pool is opened on this
machine, read for everything that was acknowledged by then, written to, and read again. Two controls must lose
something: a build that skips its flushes, and one whose flushes do not wait for the writes before them."""

import os
import pickle
import random
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from lab import recorder, vm

BIN = Path("build/release/bin").absolute()
HOME = Path("build/lab")
POOL_BYTES, PLACE_BYTES = 96 << 20, 128 << 20
# The programs that write under load, and the fault of each control.
WRITERS = {"kill_writer": "", "kill_writer_no_flush": "skips its flushes",
           "kill_writer_early_flush": "flushes too early"}
# The number of points of a real load, and of the controls. Controls end with the first loss. An early flush
# causes a loss only at points shortly after it.
POINTS = 60
SECONDS_A_POINT = 5  # on a slow machine
ACKNOWLEDGEMENT = 24
LEAST = 200
# The files of this many points with a loss are kept.
KEPT_LOSSES = 3
# Exit statuses of OPEN_AND_VERIFY.
KEPT, LOST, NO_MOUNT, NOT_WRITABLE = 0, 65, 64, 66


class Unavailable(Exception):
    """This machine cannot read the guest's file system, or there is no record."""


def run(guest, script, log, seconds, tally, folder, count=POINTS):
    """Adds the suite's results for a loss of power at `count` points. Raises vm.Failure, also if it takes
    longer than `seconds`. More points than usual get more time."""
    give_up = time.monotonic() + seconds + SECONDS_A_POINT * max(0, count - POINTS)
    passed = True
    for writer, mistake in WRITERS.items():
        with tempfile.TemporaryDirectory(prefix="power-", dir=folder) as scratch:
            scratch = Path(scratch)
            command = scratch / "command"
            command.write_text(f"writer={writer}\nsource {script}\n", encoding="ascii")
            record, status = recorded(guest, command, log.with_stem(f"{log.stem}_{writer}"),
                                      max(1, int(min(seconds, give_up - time.monotonic()))), scratch)
            losses = Losses(record, scratch, give_up)
            passed = tally.add(f"power: the guest's load, {writer}", status == 0) \
                and worth_it(record, tally, mistake) \
                and (check_caught(losses, mistake, tally, count) if mistake else
                     check_all_kept(losses, tally, count)) and passed
    return passed


def replay(path, tally, folder, count):
    """Tries the points again on the record that a failed run has left."""
    try:
        record = pickle.loads(path.read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError) as why:
        raise Unavailable(f"{path} is no record: {why}") from why
    with tempfile.TemporaryDirectory(prefix="power-", dir=folder) as scratch:
        check_all_kept(Losses(record, Path(scratch), float("inf")), tally, count)


def worth_it(record, tally, mistake):
    count = sum(len(data) for _, data in record.acknowledged) // ACKNOWLEDGEMENT
    flushes = sum(disk == 0 for _, disk in record.flushes)
    begun = record.acknowledged[0][0] if count else 0
    index = sum(write.disk == 1 and write.began > begun for write in record.writes)
    print(f"{len(record.writes)} writes, {flushes} flushes, {count} acknowledgements", flush=True)
    return tally.add(f"power: a sufficient load ({count} acknowledged, {flushes} flushes, {index} writes of the index)",
                     count >= LEAST and index > 0 and
                     (flushes >= LEAST / 10 or mistake == WRITERS["kill_writer_no_flush"]))


def recorded(guest, command, log, seconds, scratch):
    """Returns the record of a load, and the guest's exit status."""
    ended = threading.Event()
    result = {}
    thread = threading.Thread(target=lambda: result.update(
        record=recorder.record(scratch, (POOL_BYTES, PLACE_BYTES), ended)))
    thread.start()
    vm.wait_until((scratch / "acknowledged").exists)
    try:
        status = vm.run(guest, command, log, seconds, more=recorded_namespaces(scratch))
    finally:
        ended.set()
        thread.join()
    if "record" not in result:
        raise vm.Failure("the recording of the disks stopped: see above")
    return result["record"], status


def recorded_namespaces(scratch):
    words = ["-device", "nvme,id=recorded,serial=lab3"]
    for number in range(2):
        words += ["-blockdev", f"driver=nbd,node-name=disk{number},server.type=unix,"
                               f"server.path={scratch}/disk-{number}",
                  "-device", f"nvme-ns,drive=disk{number},bus=recorded,nsid={number + 1}"]
    return words + ["-chardev", f"socket,id=acknowledged,path={scratch}/acknowledged", "-device",
                    "virtserialport,chardev=acknowledged,name=lab.acknowledged"]


def check_caught(losses, mistake, tally, count):
    seed = drawn_seed()
    caught = any(losses.at(position, seed) == LOST for position in points(losses.record, seed, count))
    return tally.add(f"power: a build that {mistake} is caught (seed {seed})", caught)


def check_all_kept(losses, tally, count):
    seed = drawn_seed()
    chosen = points(losses.record, seed, count)
    lost = []
    for position in chosen:
        status = losses.at(position, seed)
        if status == KEPT:
            continue
        if not lost:
            (HOME / "power.record").write_bytes(pickle.dumps(losses.record))
            print(f"again: ROS2STORE_SEED={seed} ./dev lab power --points {len(chosen)} "
                  f"--record {HOME}/power.record", flush=True)
        lost.append(position)
        losses.report(position, status, len(lost) <= KEPT_LOSSES)
    return tally.add(f"power: nothing acknowledged is lost at {len(chosen)} points (seed {seed})"
                     + (f"; lost at {lost}" if lost else ""), not lost)


def drawn_seed():
    return random.SystemRandom().getrandbits(32) if "ROS2STORE_SEED" not in os.environ \
        else int(os.environ["ROS2STORE_SEED"])


def points(record, seed, count):
    """Returns the points to try: half of them anywhere in the load, half close to flushes, where losses are
    likely. Returns every point if `count` is that large."""
    chosen = random.Random(seed)
    first, last = record.acknowledged[0][0], record.position
    if count >= last - first:
        return range(first, last)
    flushes = [position for position, disk in record.flushes if disk == 0 and position > first]
    near = count // 2 if flushes else 0
    anywhere = [chosen.randrange(first, last) for _ in range(count - near)]
    return sorted(anywhere + [max(first, chosen.choice(flushes) - chosen.randrange(-1, 3))
                              for _ in range(near)])


class Losses:
    """Opens a recorded pool on this machine as losses of power left it."""

    def __init__(self, record, scratch, give_up):
        self.record, self.scratch, self.give_up = record, scratch, give_up

    def at(self, position, seed):
        """Verifies the pool after a loss of power at `position`. Returns the exit status of the verification."""
        if time.monotonic() > self.give_up:
            raise vm.Failure("it took too long: some points were not tried")
        chosen = random.Random(seed * 1000003 + position)
        unit = chosen.choice((512, 4096))
        pool = recorder.after_power_loss(self.record, 0, POOL_BYTES, position, chosen, unit)
        place = recorder.after_power_loss(self.record, 1, PLACE_BYTES, position, chosen, 4096)
        (self.scratch / "pool.img").write_bytes(pool)
        (self.scratch / "place.img").write_bytes(place)
        promised = b"".join(data for at, data in self.record.acknowledged if at <= position)
        (self.scratch / "promised").write_bytes(promised[:len(promised) // ACKNOWLEDGEMENT * ACKNOWLEDGEMENT])
        with open(self.scratch / "said", "wb") as said:
            done = subprocess.run(["timeout", "-k", "10", "300", "unshare", "-m", "bash", "-c",
                                   OPEN_AND_VERIFY, "verify", self.scratch, BIN],
                                  stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False)
        if done.returncode in (1, NO_MOUNT):  # 1: unshare failed
            raise Unavailable(self.said() or "mount failed")
        return done.returncode

    def said(self):
        return (self.scratch / "said").read_text(errors="replace").strip()

    def report(self, position, status, keep):
        """Prints the result of a point. With `keep`, the files of the pool stay in build/lab."""
        print(f"point {position}: status {status}", *self.said().splitlines()[:8], sep="\n    ", flush=True)
        if keep:
            shutil.copytree(self.scratch, HOME / f"lost-{position}", dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("disk-*", "acknowledged"))


OPEN_AND_VERIFY = rf"""
mkdir -p "$1/place"
mount -o loop "$1/place.img" "$1/place" || exit {NO_MOUNT}
ln -sfn "$1/pool.img" "$1/place/pool/device-0"
uri() {{ echo "ros2s+local:///pool/main/$1?dir=$place"; }}
place=$1/place/pool
kept() {{
    "$2/kill_writer" verify "$(uri killed)" <"$1/promised"
    status=$?
    [ $status != 1 ] || status={LOST}
    return $status
}}
written() {{
    "$2/ros2store" cp "$1/promised" "$(uri later)" && "$2/ros2store" cat "$(uri later)" | cmp "$1/promised" || return {NOT_WRITABLE}
}}
kept "$@" && written "$@" && kept "$@"
status=$?
umount "$1/place"
exit $status
"""

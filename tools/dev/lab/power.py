"""Loss of power that loses something: a pool on an emulated NVMe namespace whose writes and flushes are
recorded under load. Then, for points of the record drawn from a seed, the disks as a loss of power could
have left them there, with random parts of what no flush covered; each is opened on this machine and
asked for everything that had been acknowledged by then. Two controls must lose something: the same record
with the pool's flushes left out, and a build whose flushes do not wait for the writes before them."""

import os
import random
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import console

from lab import recorder, vm

BIN = Path("build/release/bin").absolute()
POOL_BYTES, PLACE_BYTES = 96 << 20, 128 << 20
# Of a real load and of the controls', which end with the first loss: what an early flush misses is lost
# only at points just behind it.
POINTS = 60
ACKNOWLEDGEMENT = 24
LEAST = 200
# What OPEN_AND_VERIFY ends with.
KEPT, LOST, NO_MOUNT = 0, 65, 64


class Unavailable(Exception):
    """This machine cannot look into the guest's file system."""


def run(guest, script, log, seconds, tally, folder, count=POINTS):
    """The suite's rows, of a loss of power at `count` points. Raises vm.Failure."""
    passed = True
    for writer, check in (("kill_writer", check_all_kept), ("kill_writer_early_flush", check_caught)):
        with tempfile.TemporaryDirectory(prefix="power-", dir=folder) as scratch:
            scratch = Path(scratch)
            command = scratch / "command"
            command.write_text(f"writer={writer}\nsource {script}\n", encoding="ascii")
            record, status = recorded(guest, command, log.with_stem(f"{log.stem}_{writer}"), seconds, scratch)
            passed = tally.add(f"power: the guest's load, {writer}", status == 0) \
                and worth_it(record, tally) and check(record, scratch, tally, count) and passed
    return passed


def worth_it(record, tally):
    count = sum(len(data) for _, data in record.acknowledged) // ACKNOWLEDGEMENT
    print(f"{len(record.writes)} writes, {len(record.flushes)} flushes, {count} acknowledgements", flush=True)
    return tally.add(f"power: a load worth it ({count} acknowledged)",
                     count >= LEAST and len(record.flushes) > 0)


def recorded(guest, command, log, seconds, scratch):
    """The record of a load, and the guest's exit status."""
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
    return result["record"], status


def recorded_namespaces(scratch):
    words = ["-device", "nvme,id=recorded,serial=lab3"]
    for number in range(2):
        words += ["-blockdev", f"driver=nbd,node-name=disk{number},server.type=unix,"
                               f"server.path={scratch}/disk-{number}",
                  "-device", f"nvme-ns,drive=disk{number},bus=recorded,nsid={number + 1}"]
    return words + ["-chardev", f"socket,id=acknowledged,path={scratch}/acknowledged", "-device",
                    "virtserialport,chardev=acknowledged,name=lab.acknowledged"]


def check_caught(record, scratch, tally, count):
    seed = drawn_seed()
    caught = any(after_loss(record, at, seed, scratch) == LOST for at in points(record, seed, count))
    return tally.add(f"power: a build that flushes too early is caught (seed {seed}, ROS2STORE_SEED)", caught)


def drawn_seed():
    return random.SystemRandom().getrandbits(32) if "ROS2STORE_SEED" not in os.environ \
        else int(os.environ["ROS2STORE_SEED"])


def check_all_kept(record, scratch, tally, count):
    seed = drawn_seed()
    chosen = points(record, seed, count)
    lost = [at for at in chosen if not is_kept(record, at, seed, scratch)]
    kept = tally.add(f"power: nothing acknowledged is lost at {len(chosen)} points (seed {seed}, ROS2STORE_SEED)"
                     + (f"; lost at {lost}" if lost else ""), not lost)
    begun = record.acknowledged[0][0]
    caught = any(after_loss(record, at, seed, scratch, flushed=begun) == LOST for at in chosen)
    return tally.add("power: without its flushes it is caught", caught) and kept


def points(record, seed, count):
    """Half of them anywhere in the load, half just around flushes, where what counts happens; every one
    where there are no more."""
    chosen = random.Random(seed)
    first, last = record.acknowledged[0][0], record.position
    if count >= last - first:
        return range(first, last)
    flushes = [position for position, disk in record.flushes if disk == 0 and position > first]
    anywhere = [chosen.randrange(first, last) for _ in range(count // 2)]
    return sorted(anywhere + [max(first, chosen.choice(flushes) - chosen.randrange(-1, 3))
                              for _ in range(count - count // 2)])


def is_kept(record, position, seed, scratch):
    """Whether a pool that lost power there has everything that was acknowledged. Where not, what is
    left of it stays in build/lab."""
    status = after_loss(record, position, seed, scratch)
    if status != KEPT:
        print(f"point {position}: status {status}", *(scratch / "said").read_text().splitlines()[:8],
              sep="\n    ", flush=True)
        shutil.copytree(scratch, f"build/lab/lost-{position}", dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("disk-*", "acknowledged"))
    return status == KEPT


def after_loss(record, position, seed, scratch, flushed=None):
    """What the verification of a pool that lost power there ends with."""
    chosen = random.Random(seed * 1000003 + position)
    unit = chosen.choice((512, 4096))
    pool = recorder.after_power_loss(record, 0, POOL_BYTES, position, chosen, unit, flushed)
    place = recorder.after_power_loss(record, 1, PLACE_BYTES, position, chosen, 4096)
    (scratch / "pool.img").write_bytes(pool)
    (scratch / "place.img").write_bytes(place)
    promised = b"".join(data for at, data in record.acknowledged if at <= position)
    (scratch / "promised").write_bytes(promised[:len(promised) // ACKNOWLEDGEMENT * ACKNOWLEDGEMENT])
    with open(scratch / "said", "wb") as said:
        done = subprocess.run(["timeout", "-k", "10", "300", "unshare", "-m", "bash", "-c", OPEN_AND_VERIFY,
                               "verify", scratch, BIN],
                              stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False)
    if done.returncode in (1, NO_MOUNT):  # 1: unshare's own
        raise Unavailable((scratch / "said").read_text(errors="replace").strip() or "mount failed")
    return done.returncode


OPEN_AND_VERIFY = rf"""
mkdir -p "$1/place"
mount -o loop "$1/place.img" "$1/place" || exit {NO_MOUNT}
ln -sfn "$1/pool.img" "$1/place/pool/device-0"
"$2/kill_writer" verify "ros2s+local:///pool/main/killed?dir=$1/place/pool" <"$1/promised"
status=$?
umount "$1/place"
[ $status != 1 ] || status={LOST}
exit $status
"""

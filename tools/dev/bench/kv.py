"""Measures a cache of blocks as inference servers use it: ros2store.cache in the set-ups, and vLLM's file tier on a mount,
beside that tier on ext4, all in turn; and USRBIO. The blocks of ext4 are not durable. ros2store.cache uses containers of
blocks, if the build makes such."""

import build
import shown
import sides
from bench import loaders, pools, report, usrbio

PROGRAM = sides.JOBS / "kv.py"
ROOM = 4  # blocks that were removed become free later


def measure(options, place, document, tally):
    built = build.folder("release").absolute()
    ours = pools.Pools("this", built, place, ROOM * options.mib)
    pool = ours.with_daemons(("shm",))
    raw, folder = place / "raw", place / "mnt"
    for each in (raw, folder):
        each.mkdir()
    uris = with_blocks(ours, [ours.embedded().uri, pool.uri("ros2s"), pool.uri("ros2s+dpu")], options.mib)
    uses = (loaders.Place("raw", None, str(raw)), loaders.Place("mount", "shm", str(folder), pool),
            loaders.Place("embedded", None, uris[0]), loaders.Place("direct", "shm", uris[1], pool),
            loaders.Place("offload", "shm", uris[2], pool))
    uses = [loaders.dataclasses.replace(each, program=PROGRAM) for each in uses]
    told = report.Rows(document, tally)
    for words, works in (
            (("blocks", options.mib), (sides.Row("put", workload="put", bs=256 << 10, iodepth=16),
                                       sides.Row("get", workload="get", bs=256 << 10, iodepth=16))),
            (("gets", options.seconds), (sides.Row("gets", workload="get, 16 in a call", bs=256 << 10, iodepth=16),)),
            (("look", options.seconds), (sides.Row("exists", workload="exists, 1,024 keys at a time"),
                         sides.Row("prompt", workload="look-up of a prompt of 3,600 keys")))):
        turns = sides.in_turn(uses, options.turns,
                              lambda side, words=words: loaders.on_mount(side, built, pool, folder, *words))
        for work in works:
            told.add(work, uses, [[turn[work.key] for turn in own] for own in turns])
    usrbio.measure(options, ours, pool, folder, told)
    ours.down()
    return told.lines()


def with_blocks(ours, uris, mib):
    """The URIs of containers of blocks, which hold all that is put. Those of files, if there are no others."""
    if "--cache" not in shown.run(ours.program, "container", "create", "--help", quiet=True):
        return uris
    made = [uri.replace("/pool/main", "/pool/blocks") for uri in uris]
    for uri in made[:2]:  # offload uses the container of direct
        shown.run(ours.program, "container", "create", "--cache", "--size", f"{2 * mib + 128}MiB", uri, quiet=True)
    return made

"""Makes a small pool for the corpus: an archive, and beside it a list of what the pool has.

usage: make_pool.py DIRECTORY-OF-THE-PROGRAMS NAME     writes NAME.tar.xz and NAME.json beside this file"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from library import Container

HERE = Path(__file__).parent
BLOCK = 4096


def text(name, size):
    """Content that differs from block to block, and compresses well."""
    lines = "".join(f"{name} {number:08d}\n" for number in range(size // 12 + 1))
    return lines.encode()[:size]


def fill(container):
    """Returns the content by path: bytes of a file, the target of a link, None of a directory."""
    content = {}

    def write(path, data, offset=0):
        container.write(path, data, offset)
        content[path] = bytes(offset) + data

    for path in ("d", "d/e", "d/e/f", "many", "renamed-later"):
        container.mkdir(path)
        content[path] = None
    write("empty", b"")
    write("small", text("small", 100))
    write("d/blocks", text("blocks", 5 * BLOCK + 17))
    write("d/e/chunks", text("chunks", (1 << 20) + 3 * BLOCK))
    write("d/hole", text("hole", 3 * BLOCK), 40 * BLOCK)
    write("d/punched", text("punched", 8 * BLOCK))
    container.punch_hole("d/punched", 2 * BLOCK, 3 * BLOCK)
    content["d/punched"] = (content["d/punched"][:2 * BLOCK] + bytes(3 * BLOCK) + content["d/punched"][5 * BLOCK:])
    for number in range(12):
        write(f"many/file {number:02d}", text(f"{number}", number * 50))
    container.link("d/blocks", "d/e/f/hard")
    content["d/e/f/hard"] = content["d/blocks"]
    container.symlink("../small", "d/soft")
    content["d/soft"] = "../small"
    write("d/e/name ä%\n", b"its name has other characters")
    write("gone", text("gone", 3 * BLOCK))
    container.unlink("gone")
    del content["gone"]
    container.rename("renamed-later", "renamed")
    content["renamed"] = content.pop("renamed-later")
    return content


def attributes(container):
    values = {"small": {"user.origin": b"corpus", "user.long": bytes(range(256)) * 2}, "d": {"user.of": b"a directory"}}
    for path, named in values.items():
        for name, value in named.items():
            container.setxattr(path, name, value)
    return {path: {name: value.hex() for name, value in named.items()} for path, named in values.items()}


def die_with_a_tail(programs, uri):
    """Ends as by kill -9, with changes that only the journal has: a new file, a removed one, and one that was
    removed while it was open."""
    container = Container(programs, uri)
    container.write("tail", text("tail", 2 * BLOCK))
    container.write("small", b"SMALL")
    container.unlink("many/file 07")
    file = container.open("many/file 08", os.O_RDWR)
    container.unlink("many/file 08")
    container.pwrite(file, text("open", BLOCK))
    os.kill(os.getpid(), signal.SIGKILL)


def empty_unused_blocks(device):
    """`up` fills a device with one MiB of random bytes again and again. Blocks that still have them were never used."""
    mib = 1 << 20
    with open(device, "r+b") as file:
        file.seek(-8 * mib, os.SEEK_END)
        unused = file.read(mib)
        for start in range(0, file.seek(0, os.SEEK_END), BLOCK):
            file.seek(start)
            if file.read(BLOCK) == unused[start % mib:start % mib + BLOCK]:
                file.seek(start)
                file.write(bytes(BLOCK))


def description(content):
    listed = {}
    for path, each in sorted(content.items()):
        if each is None:
            listed[path] = {"type": "directory"}
        elif isinstance(each, str):
            listed[path] = {"type": "link", "target": each}
        else:
            listed[path] = {"type": "file", "bytes": len(each), "sha256": hashlib.sha256(each).hexdigest()}
    return listed


def make(programs, name):
    scratch = Path(tempfile.mkdtemp(prefix="ros2store-corpus-"))
    pool = scratch / "pool"
    keys = scratch / "keys"
    keys.mkdir(mode=0o700)
    os.environ["ROS2STORE_KEYS"] = str(keys)
    (keys / "one.key").write_text("00112233445566778899aabbccddeeff" * 2 + "\n")
    (keys / "one.key").chmod(0o600)

    def run(*words):
        return subprocess.run([programs / "ros2store", *words], check=True, capture_output=True, text=True).stdout

    def uri(container):
        return f"ros2s+local:///pool/{container}?dir={pool}"
    try:
        run("up", "--no-daemons", pool, "--size", "64M")
        run("container", "create", uri("sealed"), "--encryption", "aes-256-gcm", "--key", "one")
        run("container", "create", uri("capped"), "--space", "8M", "--files", "100", "--chunk", "64K")
        run("container", "create", uri("destroyed"))
        containers = {}
        for label in ("main", "sealed", "capped", "destroyed"):
            container = Container(programs, uri(label))
            if label in ("main", "capped"):
                content = fill(container)
                containers[label] = {"attributes": attributes(container)}
            else:
                content = {"secret": text("secret", 3 * BLOCK + 5)}
                container.write("secret", content["secret"])
                containers[label] = {"attributes": {}}
            containers[label]["content"] = content
            container.close()
        run("container", "destroy", "--yes", uri("destroyed"))
        del containers["destroyed"]
        subprocess.run([sys.executable, "-B", __file__, programs, "--die", uri("main")], check=False)
        main = containers["main"]["content"]
        main["tail"] = text("tail", 2 * BLOCK)
        main["small"] = b"SMALL" + main["small"][5:]
        del main["many/file 07"], main["many/file 08"]
        build = {"version": run("--version").strip(),
                 "commit": subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, check=False, capture_output=True,
                                          text=True).stdout.strip()}
        for each in containers.values():
            each["content"] = description(each["content"])
        listed = {"made_by": build, "pool": "pool", "containers": containers, "orphans": {"main": 2}}
        empty_unused_blocks(pool / "device-0")
        # Holes instead of zeros: the device file is mostly empty.
        subprocess.run(["tar", "--create", "--xz", "--sparse", "--hole-detection=raw", "--owner=0", "--group=0",
                        "--numeric-owner", "--sort=name", "--file", HERE / f"{name}.tar.xz", "pool", "keys"],
                       cwd=scratch, check=True)
        (HERE / f"{name}.json").write_text(json.dumps(listed, indent=1, sort_keys=True) + "\n")
    finally:
        shutil.rmtree(scratch)


if sys.argv[2] == "--die":
    die_with_a_tail(Path(sys.argv[1]), sys.argv[3])
make(Path(sys.argv[1]), sys.argv[2])

"""Makes the pools of a build that a bench measures, and their sides (compare.Side)."""

import dataclasses
import os

import compare
import console
import served
import set_ups
import shown

TCP = "ucx+tcp"


def mib_of(mib):
    """Returns the size of a pool for files of this size. Overwritten blocks become free only after the next
    groups, and metadata needs space, too."""
    return max(1024, 2 * mib)


class WithDirectory(served.Served):
    """A pool whose DPU also serves a directory of the machine."""

    def uri_of(self, path=""):
        below = f"/{path}" if path else ""
        return f"ros2s+dpu:///served/files{below}?dir={self.directory}"


class Pools:
    """The pools of a build below `place`: one for the embedded engine, and pools with daemons. `name` is the
    build's. `directories`: each holds one device of each pool; none: a pool has one device, in its own
    directory."""

    def __init__(self, name, built, place, mib, directories=()):
        self.name = name
        self.built = built
        self.place = place / name
        self.place.mkdir()
        self.size = f"{mib_of(mib)}M"
        self.devices = [word for each in directories for word in ("--device-dir", each)]
        self.program = (built / "bin/ros2store").absolute()
        self.running = []

    def embedded_directory(self, name="embedded", size=None):
        directory = (self.place / name).absolute()
        shown.run(self.program, "up", "--no-daemons", directory, "--size", size or self.size, *self.devices,
                  quiet=True)
        return directory

    def embedded(self, name="embedded", size=None):
        uri = f"ros2s+local:///pool/main?dir={self.embedded_directory(name, size)}"
        return self.named(compare.pool_side(name, self.built, uri, "figures"))

    def with_daemons(self, providers, name=None):
        """Makes a pool whose engine listens with each of these providers. Its DPU uses the first. `name`: of its
        directory. Raises Failed."""
        directory = (self.place / (name or "-".join(each.partition(";")[0] for each in providers))).absolute()
        pool = served.Served(self.program, directory, ", ".join(providers))
        self.running.append(pool)
        pool.make(self.size, *self.devices)
        return pool

    def with_directory(self, directory):
        """Makes a pool whose DPU also serves a directory of the machine. Raises Failed."""
        pool = self.with_daemons(("shm",))
        pool.down()
        settings = pool.directory / "dpu.yaml"
        with settings.open("a", encoding="utf-8") as text:
            text.write(f"\ndirectories: {{served/files: {directory}}}\n"
                       'access: {"CN=client": {write: served/*}}\n')
        pool.up()
        return WithDirectory(pool.store, pool.directory, pool.provider)

    def direct(self, pool, provider):
        return self.named(set_ups.direct(self.built, pool, provider, f"direct, {provider}"))

    def offload(self, pool, provider):
        return self.named(set_ups.offload(self.built, pool, provider, f"offload, {provider}"))

    def named(self, side):
        return side if self.name == "this" else dataclasses.replace(side, name=f"{self.name}: {side.name}")

    def sides(self, kind):
        """Returns the sides of a kind: `shm`; `quick`, with UCX if its library loads; `full`, with more
        providers."""
        made = [self.embedded()]
        if kind == "shm":
            pool = self.with_daemons(("shm",))
            return [*made, self.direct(pool, "shm"), self.offload(pool, "shm")]
        try:
            over_shm = self.with_daemons(("shm", TCP))
        except shown.Failed as failure:
            console.note(f"without {TCP}: {failure}")
            self.running.pop()
            over_shm = None
        by_shm = over_shm or self.with_daemons(("shm",))
        made += [self.direct(by_shm, "shm"), self.offload(by_shm, "shm")]
        if over_shm:
            made.insert(2, self.direct(over_shm, TCP))
        if kind == "full":
            for provider in (TCP, "ofi+tcp;ofi_rxm") if over_shm else ():
                pool = self.with_daemons((provider,))
                made += [self.offload(pool, provider)]
                made += [self.direct(pool, provider)] if provider != TCP else []
        return made

    def encrypted(self, sides):
        """Returns these sides again, in an encrypted container of the same pools. From now on this process, fio
        and the DPUs have its key."""
        keys = (self.place / "keys").absolute()
        keys.mkdir()
        key = keys / "bench.key"
        key.touch(0o600)
        key.write_text("7" * 64, encoding="ascii")
        os.environ["ROS2STORE_KEYS"] = str(keys)
        for pool in self.running:
            pool.down()
            settings = pool.directory / "dpu.yaml"
            settings.write_text(f"{settings.read_text(encoding='utf-8')}\nencryption: {{keys: {keys}}}\n",
                                encoding="utf-8")
            pool.up()
        made = set()
        for side in sides:
            pool = side.served.directory if side.served else side.name
            if pool not in made and "dpu" not in side.daemons:
                made.add(pool)
                shown.run(self.program, "container", "create", encrypted_uri(uri_of(side)), "--encryption",
                          "aes-256-gcm", "--key", "bench", quiet=True)
        return [dataclasses.replace(side, name=f"{side.name}, encrypted",
                                    target=[encrypted_uri(option) for option in side.target]) for side in sides]

    def down(self):
        for pool in self.running:
            pool.down()


def in_memory(side):
    """Returns the side with its pool in tmpfs. Only the medium differs from a pool on a disk."""
    return dataclasses.replace(side, way=side.way.replace("O_DIRECT", r"memory \(tmpfs: lost at reboot\)"))


def encrypted_uri(uri):
    return uri.replace("/pool/main", "/pool/secret")


def uri_of(side):
    return next(option.partition("=")[2] for option in side.target if option.startswith("--uri="))


def fill(sides, size):
    """Writes the file of each pool once: direct and offload use the same file."""
    filled = set()
    for side in sides:
        pool = side.served.directory if side.served else side.name
        if pool not in filled:
            compare.fill(side, size)
            filled.add(pool)

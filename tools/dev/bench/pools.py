"""Makes the pools of a build that a bench measures, and their sides (sides.Side)."""

import dataclasses
import os

import console
import served
import shown
import sides

TCP = "ucx+tcp"


def mib_of(mib):
    """Returns the size of a pool for files of this size. Overwritten blocks become free only after the next
    groups, and metadata needs space, too."""
    return max(1024, 2 * mib)


class Pools:
    """The pools of a build below `place`: one for the embedded engine, and pools with daemons. `name` is the build's."""

    def __init__(self, name, built, place, mib):
        self.name = name
        self.built = built
        self.place = place / name
        self.place.mkdir()
        self.size = f"{mib_of(mib)}M"
        self.program = (built / "bin/ros2store").absolute()
        self.running = []

    def embedded(self, name="embedded", size=None):
        directory = (self.place / name).absolute()
        shown.run(self.program, "up", "--no-daemons", directory, "--size", size or self.size, quiet=True)
        return self.named(sides.pool_side(name, self.built, f"ros2s+local:///pool/main?dir={directory}", "figures"))

    def with_daemons(self, providers, name=None):
        """Makes a pool whose engine listens with each of these providers. Its DPU uses the first. `name`: of its
        directory. Raises Failed."""
        directory = (self.place / (name or "-".join(each.partition(";")[0] for each in providers))).absolute()
        pool = served.Served(self.program, directory, ", ".join(providers))
        self.running.append(pool)
        pool.make(self.size)
        return pool

    def direct(self, pool, provider):
        return self.named(sides.direct(self.built, pool, provider, f"direct, {provider}"))

    def offload(self, pool, provider):
        return self.named(sides.offload(self.built, pool, provider, f"offload, {provider}"))

    def named(self, side):
        return side if self.name == "this" else dataclasses.replace(side, name=f"{self.name}: {side.name}")

    def sides(self, kind):
        """Returns the sides of a kind: `shm`; `full`, with more providers; others: with UCX if its library loads."""
        made = [self.embedded()]
        over_shm = self.over_tcp_too() if kind != "shm" else None
        by_shm = over_shm or self.with_daemons(("shm",))
        made += [self.direct(by_shm, "shm"), self.offload(by_shm, "shm")]
        if over_shm:
            made.insert(2, self.direct(over_shm, TCP))
        for provider in (TCP, "ofi+tcp;ofi_rxm") if over_shm and kind == "full" else ():
            pool = self.with_daemons((provider,))
            made += [self.offload(pool, provider)] + ([self.direct(pool, provider)] if provider != TCP else [])
        return made

    def over_tcp_too(self):
        try:
            return self.with_daemons(("shm", TCP))
        except shown.Failed as failure:
            console.note(f"without {TCP}: {failure}")
            self.running.pop()
            return None

    def encrypted(self, all_sides):
        """Returns these sides again, in an encrypted container of the same pools. From now on this process, fio
        and the DPUs have its key."""
        keys = (self.place / "keys").absolute()
        keys.mkdir()
        key = keys / "bench.key"
        key.touch(0o600)
        key.write_text("7" * 64, encoding="ascii")
        os.environ["ROS2STORE_KEYS"] = str(keys)
        for pool in self.running:
            pool.add_settings(f"encryption: {{keys: {keys}}}")
        made = set()
        for side in all_sides:
            if pool_of(side) not in made and "dpu" not in side.daemons:
                made.add(pool_of(side))
                shown.run(self.program, "container", "create", encrypted_uri(side.uri), "--encryption",
                          "aes-256-gcm", "--key", "bench", quiet=True)
        return [dataclasses.replace(side, name=f"{side.name}, encrypted",
                                    target=[encrypted_uri(option) for option in side.target]) for side in all_sides]

    def down(self):
        for pool in self.running:
            pool.down()


def in_memory(side):
    """Returns the side with its pool in tmpfs. Only the medium differs from a pool on a disk."""
    return dataclasses.replace(side, way=side.way.replace("O_DIRECT", r"memory \(tmpfs: lost at reboot\)"))


def encrypted_uri(uri):
    return uri.replace("/pool/main", "/pool/secret")


def pool_of(side):
    return side.served.directory if side.served else side.name


def fill(all_sides, size):
    """Writes the file of each pool once: direct and offload use the same file."""
    for side in {pool_of(side): side for side in reversed(all_sides)}.values():
        sides.fill(side, size)

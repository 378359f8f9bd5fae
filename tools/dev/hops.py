"""Finds which way the payload of a run of fio went, by the counters of each process: the host's are in its
path report, the DPU daemon and the engine export theirs for Prometheus."""

import dataclasses
import re

import shown

CHANNEL = tuple(f"ros2store_channel_{way}_bytes_total" for way in ("inline", "window", "staged"))
LINK = ("ros2store_link_read_bytes_total", "ros2store_link_written_bytes_total")
SERVER = ("ros2store_server_in_bytes_total", "ros2store_server_out_bytes_total")
FABRIC = tuple(f"ros2store_fabric_{what}_bytes{way}_total" for what, way in (
    ("message", "_sent"), ("message", "_received"), ("put", ""), ("get", "")))
DEVICES = ("ros2store_device_read_bytes_total", "ros2store_device_written_bytes_total")


class Series:
    """The exported metrics of a daemon: a value for each name and set of labels."""

    def __init__(self, values):
        self.values = values

    @staticmethod
    def parse(text):
        return Series({(name, labels or ""): float(value) for name, labels, value in re.findall(
            r"^(ros2store_\w+)(\{[^}]*\})? (\S+)$", text, re.MULTILINE)})

    def since(self, before):
        return Series({key: value - before.values.get(key, 0) for key, value in self.values.items()})

    def sum(self, names):
        return int(sum(value for (name, _), value in self.values.items() if name in names))

    def by_provider(self, names):
        """Returns the sums for each provider that counted anything."""
        sums = {}
        for (name, labels), value in self.values.items():
            provider = re.search(r'provider="([^"]*)"', labels)
            if provider and name in names and value > 0:
                sums[provider[1]] = sums.get(provider[1], 0) + int(value)
        return sums


@dataclasses.dataclass(frozen=True)
class Hops:
    """Bytes of payload at each hop. Dictionaries are by provider."""
    fio: int  # what it read and wrote
    host: int = 0  # that its library sent or received
    link: int = 0  # between host and DPU, by the DPU
    behind: dict = dataclasses.field(default_factory=dict)  # between DPU and engine, by the DPU
    engine: dict = dataclasses.field(default_factory=dict)  # that the engine received or sent
    devices: int = 0


def seen(report, growth):
    """Returns the hops of a run. `growth`: the Series of each daemon, by name, since the run began."""
    def own(names):
        return sum(report.counters.get(name, 0) for name in names)

    engine, dpu = (growth.get(name, Series({})) for name in ("engine", "dpu"))
    return Hops(report.read_bytes + report.written_bytes, own(CHANNEL), dpu.sum(LINK),
                dpu.by_provider(CHANNEL), engine.by_provider(SERVER),
                engine.sum(DEVICES) if "engine" in growth else own(DEVICES))


def check(hops, through, dpu):
    """Raises Failed unless all payload went to the engine by the provider `through`. `dpu`: through a DPU."""
    wanted = [("the host's own counters", {through: hops.host}),
              ("the engine's counters", hops.engine)]
    if dpu:
        wanted += [("the DPU's counters of its hosts", {through: hops.link}),
                   ("the DPU's counters of its engine", hops.behind)]
    for whose, carried in wanted:
        others = {name: count for name, count in carried.items() if name != through}
        if carried.get(through, 0) < hops.fio or sum(others.values()) * 100 >= hops.fio:
            raise shown.Failed(f"fio moved {hops.fio} bytes, but by {whose} {through} carried "
                               f"{carried.get(through, 0)}, and others: {others}")

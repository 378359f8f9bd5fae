"""Runs fio or another program once: its rate, its latencies, and the processor time that it took."""

import dataclasses
import json
import resource
import subprocess

import console
import shown


@dataclasses.dataclass(frozen=True)
class Timed:
    """The result of one turn. `iops`: operations per second."""
    iops: float
    p50_us: float
    p99_us: float
    host_cpu_us: float = None
    operations: int = None


def spent_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command, seconds=300, **more):
    """Returns the output of a program. Raises Failed with it."""
    console.command(shown.words(command))
    done = subprocess.run(shown.words(command), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=seconds, **more)
    if done.returncode != 0:
        raise shown.Failed(f"{' '.join(shown.words(command))}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


def fio(target, options, environment):
    """Runs fio with one job. Raises Failed."""
    before = spent_seconds()
    text = run(["fio", "--name=figure", "--output-format=json", "--lat_percentiles=1", *target,
                *(f"--{key}={value}" for key, value in options.items())], env=environment)
    job = json.loads(text[text.find("{"):])["jobs"][0]
    moved = job["write" if "write" in options["rw"] else "read"]
    latency = moved["lat_ns"].get("percentile", {})
    operations = max(1, moved["total_ios"])
    return Timed(moved["iops"], latency.get("50.000000", 0) / 1000, latency.get("99.000000", 0) / 1000,
                 1e6 * (spent_seconds() - before) / operations, operations)

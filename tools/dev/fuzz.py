"""./dev fuzz: runs the libFuzzer programs under ASan and UBSan, for a bounded time each."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import build
import console

TARGET = "fuzzers"  # builds all of them


def add_arguments(parser):
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of fuzzer names")
    parser.add_argument("--seconds", type=int, default=60, help="duration of each fuzzer (60)")


def run(options):
    tally = console.Tally()
    if not build.make("asan", [TARGET]):
        tally.add("asan build", False)
        return tally.close()
    fuzz_all(tally, options.seconds, options.names)
    return tally.close()


def fuzzers(names=()):
    found = sorted(path for path in build.folder("asan").rglob("*_fuzz")
                   if path.is_file() and os.access(path, os.X_OK))
    return [path for path in found if not names or any(name in path.name for name in names)]


def fuzz_all(tally, seconds, names=(), jobs=None):
    programs = fuzzers(names)
    console.step(f"{len(programs)} fuzzers, {seconds} s each")
    with ThreadPoolExecutor(jobs or build.jobs()) as pool:
        for program, done in zip(programs, pool.map(lambda each: fuzz(each, seconds), programs)):
            units = [line.split(":")[-1].strip() for line in done.stdout.splitlines()
                     if line.startswith("stat::number_of_executed_units")]
            tally.add(f"{program.name}: {units[0] if units else 'no'} inputs",
                      done.returncode == 0)
            if done.returncode != 0:
                print(done.stdout[-8000:])


def fuzz(program, seconds):
    # Inputs that reach new code are collected here. The next run starts with them.
    corpus = Path("build/corpus") / program.name
    corpus.mkdir(parents=True, exist_ok=True)
    for seeds in Path("src").rglob(f"{program.name}_seeds.txt"):
        for number, line in enumerate(seeds.read_text().splitlines()[1:-1]):
            (corpus / f"seed{number}").write_bytes(bytes.fromhex(line))
    command = [program, f"-max_total_time={seconds}", "-rss_limit_mb=2048", "-timeout=10",
               "-print_final_stats=1", f"-artifact_prefix={corpus}/", corpus]
    return subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)

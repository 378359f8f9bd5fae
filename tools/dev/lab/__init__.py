"""./dev lab: the project on real interfaces that most machines lack: verbs, NVMe queues, persistent
memory, in a small virtual machine that runs the checkout's own build."""

import tempfile
import time
from pathlib import Path

import build
import console

from lab import kernel, power, vm

SUITES = Path(__file__).parent.absolute() / "suites"
LOGS = Path("build/lab/logs")
# Of ./dev check: minutes, not more.
SELECTION = ("hardware", "net", "nvme", "pmem", "rdma_pool")


def add_arguments(parser):
    parser.add_argument("names", nargs="*", metavar="NAME", default=["all"],
                        help=f"suites, or all (default): {', '.join(known())}")
    parser.add_argument("--seconds", type=int, default=900, help="at most, for each guest (900)")
    parser.add_argument("--run", metavar="COMMAND", dest="in_guest",
                        help="no suite: run this Bash command in a guest, in the checkout's folder")


def known():
    return sorted(path.stem for path in SUITES.glob("*.sh"))


def run(options):
    if options.in_guest:
        return run_command(options.in_guest, options.seconds)
    unknown = set(options.names) - {"all", *known()}
    if unknown:
        print(f"dev: there is no lab suite '{min(unknown)}'; there are: {', '.join(known())}")
        return 2
    tally = console.Tally("lab")
    run_suites(known() if "all" in options.names else options.names, options.seconds, tally)
    return tally.close()


def run_command(command, seconds):
    with tempfile.NamedTemporaryFile("w", dir=folder(), suffix=".sh") as file:
        file.write(command)
        file.flush()
        return vm.run(kernel.prepare(), file.name, LOGS / "run.log", seconds, echo=True)


def folder():
    LOGS.mkdir(parents=True, exist_ok=True)
    return LOGS.parent.absolute()


def selection(tally, give_up):
    """The suites of ./dev check; not run, with the reason, where no guest boots, and where one would
    begin after `give_up` (of time.monotonic())."""
    console.step("lab")
    try:
        folder()
        vm.look()
        with tempfile.NamedTemporaryFile("w", dir=folder(), suffix=".sh") as file:
            file.write("true\n")
            file.flush()
            vm.run(kernel.prepare(), file.name, LOGS / "boot.log", seconds=300)
    except (kernel.Unavailable, vm.Failure) as why:
        print(f"not run: {', '.join(SELECTION)}: {why}", flush=True)
        return
    run_suites(SELECTION, 600, tally, give_up)


def run_suites(names, seconds, tally, give_up=float("inf")):
    if not tally.add("release build", build.make("release")):
        return
    folder()
    try:
        vm.look()
        guest = kernel.prepare()
    except kernel.Unavailable as why:
        tally.add(f"the guest: {why}", False)
        return
    for name in names:
        started = time.monotonic()
        if started > give_up:
            print(f"not run: {name}: it is late", flush=True)
            continue
        console.step(f"{name}: a guest boots")
        log = LOGS / f"{name}.log"
        try:
            if name == "power":
                ended = "" if power.run(guest, SUITES / "power.sh", log, seconds, tally, folder()) \
                    else "see above"
            else:
                status = vm.run(guest, SUITES / f"{name}.sh", log, seconds)
                ended = "" if status == 0 else f"ended with {status}"
        except (vm.Failure, power.Unavailable) as why:
            ended = str(why)
        if not tally.add(f"{name} ({time.monotonic() - started:.0f} s)", not ended):
            show(log, ended)


def show(log, ended):
    said = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    print("\n".join(f"    {line}" for line in [*said[-40:], ended]))
    print(f"    the whole of it: {log}")

"""./dev lab: runs the project on real interfaces that most machines lack (verbs, NVMe queues, persistent
memory), in a small virtual machine that runs the checkout's own build."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import build
import console

from lab import kernel, power, vm

SUITES = Path(__file__).parent.absolute() / "suites"
LOGS = Path("build/lab/logs")
# Build targets that the suites use.
TARGETS = ("programs", "device_nvme_test", "device_pmem_test", "fabric_ucx_test", "fabric_ofi_test", "attack_test")
# The suites of ./dev check: these in one guest, and one more that depends on the commit.
ALWAYS = ("net", "nvme", "rdma_host")
# The kernels of suites that need a newer one.
KERNELS = dict.fromkeys(("nvme_newer", "nvme_polled"), "linux-image-6.12-amd64")
SUITE_SECONDS = 1200  # at most
BOOT_SECONDS = 300    # at most, on a busy machine
# Exit statuses of ./dev lab: this machine cannot have a guest, or the guest failed.
NO_GUEST, GUEST_FAILED = 125, 124


def add_arguments(parser):
    parser.add_argument("names", nargs="*", metavar="NAME", default=["all"],
                        help=f"suites, or all (default): {', '.join(known())}")
    parser.add_argument("--seconds", type=int,
                        help=f"time limit of each suite ({SUITE_SECONDS}) or of a command (900)")
    parser.add_argument("--points", type=positive, default=power.POINTS,
                        help=f"suite power: number of points at which power is lost ({power.POINTS}; a number "
                             "above all points: every one)")
    parser.add_argument("--record", type=Path, metavar="FILE",
                        help="suite power: use the record that a failed run left, without a guest")
    parser.add_argument("--run", metavar="COMMAND", dest="in_guest",
                        help="run this Bash command in a guest, in the checkout's folder, instead of a suite")


def positive(text):
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def known():
    return sorted(path.stem for path in SUITES.glob("*.sh"))


def run(options):
    if options.in_guest:
        return run_command(options.in_guest, options.seconds or 900)
    unknown = set(options.names) - {"all", *known()}
    if unknown:
        print(f"dev: there is no lab suite '{min(unknown)}'; there are: {', '.join(known())}; "
              "all stands alone")
        return 2
    if options.record is not None and options.names != ["power"]:
        print("dev: --record is for the suite power only: ./dev lab power --record FILE")
        return 2
    tally = console.Tally("lab")
    if not is_ready(tally):
        return tally.close()
    if options.record is not None:
        try:
            power.replay(options.record, tally, folder(), options.points)
        except power.Unavailable as why:
            tally.add(str(why), False)
    else:
        run_suites(known() if "all" in options.names else options.names,
                   options.seconds or SUITE_SECONDS, tally, options.points)
    return tally.close()


def run_command(command, seconds):
    try:
        vm.look()
        if not build.make("release", TARGETS):
            return 1
        guest = kernel.prepare()
        with tempfile.NamedTemporaryFile("w", dir=folder(), suffix=".sh") as file:
            file.write(command)
            file.flush()
            return vm.run(guest, file.name, LOGS / "run.log", seconds, echo=True)
    except (kernel.Unavailable, vm.Failure) as why:
        print(f"dev: {why}", file=sys.stderr)
        return NO_GUEST if isinstance(why, kernel.Unavailable) else GUEST_FAILED


def folder():
    LOGS.mkdir(parents=True, exist_ok=True)
    return LOGS.parent.absolute()


def selected():
    in_turn = [name for name in known() if name not in ALWAYS]
    return [*ALWAYS, in_turn[commit() % len(in_turn)]]


def commit():
    """Returns the commit of the checkout as a number; 0 if there is none."""
    if shutil.which("git") is None:
        return 0
    said = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return int(said.stdout or "0", 16)


def selection(tally):
    """Runs the suites of ./dev check. If this machine cannot have a guest, prints the reason instead."""
    names = selected()
    try:
        vm.look()
        kernel.prepare()
    except kernel.Unavailable as why:
        print(f"not run: {', '.join(names)}: {why}", flush=True)
        return
    if is_ready(tally):
        run_suites(names, SUITE_SECONDS, tally)


def is_ready(tally):
    if not tally.add("release build", build.make("release", TARGETS)):
        return False
    folder()
    try:
        vm.look()
    except kernel.Unavailable as why:
        return tally.add(f"the guest: {why}", False)
    return True


def run_suites(names, seconds, tally, points=power.POINTS):
    """Runs suites, each for at most this time. Those that need the same kernel share a guest, in which each begins
    as after a boot. If the guest ends in the middle of one, another guest runs the rest."""
    by_kernel = {}
    for name in dict.fromkeys(names):
        if name == "power":
            run_power(seconds, tally, points)
        else:
            by_kernel.setdefault(KERNELS.get(name, kernel.USUAL), []).append(name)
    for wanted, left in by_kernel.items():
        while left:
            ended = boot(wanted, left, seconds)
            for name, (took, why) in ended.items():
                if not tally.add(f"{name} ({took} s)", not why):
                    show(LOGS / f"{name}.log", why)
                left.remove(name)


def boot(wanted, names, seconds):
    """Runs suites in one guest. Returns the seconds and the failure ("": none) of each that ended, and of one
    that did not."""
    console.step(f"a guest boots: {', '.join(names)}")
    log, began, why = LOGS / "guest.log", time.monotonic(), ""
    log.unlink(missing_ok=True)
    try:
        with tempfile.NamedTemporaryFile("w", dir=folder(), suffix=".sh") as script:
            script.write("source tools/dev/lab/guest/suite\n" +
                         "".join(f"suite {name} {seconds}\n" for name in names))
            script.flush()
            vm.run(kernel.prepare(wanted), script.name, log, BOOT_SECONDS + seconds * len(names))
    except (vm.Failure, kernel.Unavailable) as failure:
        why = str(failure)
    return outcomes(log, names, why or "the guest ended too early", int(time.monotonic() - began))


def outcomes(log, names, why, seconds):
    """Reads the log of a guest, and writes one for each of its suites."""
    said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    ended = {}
    for name in names:
        found = re.search(rf"^lab: {name} begins\n(.*?)(?:^lab: {name} ended with (\d+) after (\d+) s$|\Z)", said,
                          re.MULTILINE | re.DOTALL)
        (LOGS / f"{name}.log").write_text(found[1] if found else said, encoding="utf-8")
        if not found or found[2] is None:
            ended[name] = seconds, why
            break
        ended[name] = int(found[3]), "" if found[2] == "0" else f"ended with {found[2]}"
    return ended


def run_power(seconds, tally, points):
    started = time.monotonic()
    console.step("power: guests boot")
    log = LOGS / "power.log"
    try:
        ended = "" if power.run(kernel.prepare(), SUITES / "power.sh", log, seconds, tally, folder(),
                                points) else "see above"
    except (vm.Failure, kernel.Unavailable, power.Unavailable) as why:
        ended = str(why)
    if not tally.add(f"power ({time.monotonic() - started:.0f} s)", not ended):
        show(log, ended)


def show(log, ended):
    """Prints the output of a suite's guest. The suite power has logs of its own."""
    logs = [log] if log.exists() else sorted(log.parent.glob(f"{log.stem}_*.log"))
    for each in logs:
        said = each.read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(f"    {line}" for line in said[-40:]))
        print(f"    the whole of it: {each}")
    print(f"    {ended}")

"""./dev lab: runs the project on real interfaces that most machines lack (verbs, NVMe queues, persistent
memory), in a small virtual machine that runs the checkout's own build."""

import os
import shlex
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
# The suites of ./dev check, within these minutes: one that changes with the commit, and ALWAYS. The numbers
# are about the seconds that each takes, with its boot.
IN_TURN = {"pmem": 180, "rdma_pool": 110, "rdma_pool_ofi": 125, "nvmeof": 120, "link_down": 170,
           "rdma_link_down": 150, "nvme_polled": 135, "nvme_newer": 125, "nvme_not_polled": 115}
ALWAYS = {"net": 50, "nvme": 90, "rdma_host": 125, "rdma_keys": 125, "power": 150, "nvme_errors": 165}
SELECTION_MINUTES = 15
# The kernels of suites that need a newer one.
KERNELS = dict.fromkeys(("nvme_newer", "nvme_polled"), "linux-image-6.12-amd64")
# Exit statuses of ./dev lab: this machine cannot have a guest, or the guest failed.
NO_GUEST, GUEST_FAILED = 125, 124


def add_arguments(parser):
    parser.add_argument("names", nargs="*", metavar="NAME", default=["all"],
                        help=f"suites, or all (default): {', '.join(known())}; or shell, which you type in")
    parser.add_argument("--seconds", type=int, help="at most, for each suite (1200; a command: 900; a shell: 86400)")
    parser.add_argument("--points", type=positive, default=power.POINTS,
                        help=f"of power: at how many points it is lost ({power.POINTS}; as many as "
                             "there are: every one)")
    parser.add_argument("--record", type=Path, metavar="FILE",
                        help="of power: no guest, but the record that a run with a loss has left")
    parser.add_argument("--run", metavar="COMMAND", dest="in_guest",
                        help="no suite: run this Bash command in a guest, in the checkout's folder")


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
    if options.names == ["shell"]:
        return run_shell(options.seconds or 86400)
    unknown = set(options.names) - {"all", *known()}
    if unknown:
        print(f"dev: there is no lab suite '{min(unknown)}'; there are: {', '.join(known())}; "
              "shell and all stand alone")
        return 2
    if options.record is not None and options.names != ["power"]:
        print("dev: --record is of the suite power: ./dev lab power --record FILE")
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
        for name in known() if "all" in options.names else options.names:
            run_suite(name, options.seconds or 1200, tally, options.points)
    return tally.close()


def run_command(command, seconds, typed=False):
    try:
        vm.look()
        if not build.make("release"):
            return 1
        guest = kernel.prepare()
        if typed:
            console.step("a guest boots")
        with tempfile.NamedTemporaryFile("w", dir=folder(), suffix=".sh") as file:
            file.write(command)
            file.flush()
            return vm.run(guest, file.name, LOGS / "run.log", seconds, echo=True, typed=typed)
    except (kernel.Unavailable, vm.Failure) as why:
        print(f"dev: {why}", file=sys.stderr)
        return NO_GUEST if isinstance(why, kernel.Unavailable) else GUEST_FAILED


def run_shell(seconds):
    """Opens a shell on the guest's own terminal, as large as ours."""
    columns, rows = shutil.get_terminal_size()
    return run_command(f"export TERM={shlex.quote(os.environ.get('TERM', 'dumb'))}\n"
                       f"size='rows {rows} cols {columns}'\n"
                       'exec script -qefc "stty $size; exec bash --rcfile tools/dev/lab/guest/shell -i" '
                       "/dev/null <&1\n", seconds, typed=True)


def folder():
    LOGS.mkdir(parents=True, exist_ok=True)
    return LOGS.parent.absolute()


def selected():
    turn = list(IN_TURN)[commit() % len(IN_TURN)]
    return {turn: IN_TURN[turn], **ALWAYS}


def commit():
    """Returns the commit of the checkout as a number; 0 if there is none."""
    if shutil.which("git") is None:
        return 0
    said = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return int(said.stdout or "0", 16)


def selection(tally, give_up):
    """Runs the suites of ./dev check. If this machine cannot have a guest, prints the reason instead. Begins
    a suite only if it is expected to end before `give_up` (of time.monotonic()) and within the selection's
    time."""
    suites = selected()
    console.step("lab")
    give_up = min(give_up, time.monotonic() + SELECTION_MINUTES * 60)
    for _ in range(2):  # a busy machine may take too long for the first
        shell = subprocess.run([sys.executable, "-B", "tools/dev", "lab", "shell", "--seconds", "300"],
                               input="exit 7\n", capture_output=True, text=True, check=False)
        if shell.returncode != GUEST_FAILED:
            break
    if shell.returncode == NO_GUEST:
        print(f"not run: {', '.join(suites)}: {shell.stderr.strip()}", flush=True)
        return
    if not tally.add("a shell in a guest", shell.returncode == 7):
        print(shell.stdout, shell.stderr)
        return
    if not is_ready(tally):
        return
    usual = took = 0
    for name, seconds in suites.items():
        begun = time.monotonic()
        # From this machine's speed so far. A suite may take several times as long before it fails.
        expected = seconds * took / usual if usual else seconds
        if give_up - begun < expected:
            print(f"not run: {name}: it is late", flush=True)
            continue
        run_suite(name, int(max(400, 4 * expected)), tally)
        usual += seconds
        took += time.monotonic() - begun


def is_ready(tally):
    if not tally.add("release build", build.make("release")):
        return False
    folder()
    try:
        vm.look()
    except kernel.Unavailable as why:
        return tally.add(f"the guest: {why}", False)
    return True


def run_suite(name, seconds, tally, points=power.POINTS):
    started = time.monotonic()
    console.step(f"{name}: a guest boots")
    log = LOGS / f"{name}.log"
    try:
        guest = kernel.prepare(KERNELS.get(name, kernel.USUAL))
        if name == "power":
            ended = "" if power.run(guest, SUITES / "power.sh", log, seconds, tally, folder(),
                                    points) else "see above"
        else:
            status = vm.run(guest, SUITES / f"{name}.sh", log, seconds)
            ended = "" if status == 0 else f"ended with {status}"
    except (vm.Failure, kernel.Unavailable, power.Unavailable) as why:
        ended = str(why)
    if not tally.add(f"{name} ({time.monotonic() - started:.0f} s)", not ended):
        show(log, ended)


def show(log, ended):
    """Prints the output of a suite's guest. The suite power has logs of its own."""
    logs = [log] if log.exists() else sorted(log.parent.glob(f"{log.stem}_*.log"))
    for each in logs:
        said = each.read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(f"    {line}" for line in said[-40:]))
        print(f"    the whole of it: {each}")
    print(f"    {ended}")

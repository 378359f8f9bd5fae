"""PostgreSQL on a mount: a new database, and how long a copy of a database that crashed takes to recover."""

import os
import shutil
import signal
import time
from pathlib import Path

import shown
import sides
from bench.workloads import Workload

USER, CLIENTS, PATIENCE_SECONDS = "postgres", 4, 120


def programs():
    """Returns the programs of the newest PostgreSQL. None: there is none, or this process may not become its user."""
    found = [each.parent for each in Path("/usr/lib/postgresql").glob("*/bin/pgbench")]
    return max(found, key=lambda each: int(each.parent.name)) if found and os.geteuid() == 0 else None


class Crashed:
    """A database below `place` whose server was killed before a checkpoint."""

    def __init__(self, place, scale=5, transactions=500):
        self.programs, self.transactions = programs(), CLIENTS * transactions
        self.folder, self.sockets = place / "crashed", place / "sockets"
        for each in (self.folder, self.sockets):
            each.mkdir(mode=0o700)
            shutil.chown(each, USER, USER)
        self.make(self.folder)
        with open(self.folder / "postgresql.conf", "a", encoding="ascii") as file:
            file.write(f"listen_addresses = ''\nunix_socket_directories = '{self.sockets}'\n"
                       "checkpoint_timeout = 1h\nmax_wal_size = 4GB\n")
        self.start(self.folder)
        self.client("pgbench", "--initialize", "--quiet", "--scale", scale)
        self.client("pgbench", "--no-vacuum", "--client", CLIENTS, "--transactions", transactions)
        self.kill()

    def workloads(self):
        return {"initdb": Workload(self.make_below, 1), "PostgreSQL's recovery": Workload(self.recover)}

    def make(self, folder):
        self.program("initdb", "-D", folder, "-A", "trust", "--no-sync", "--no-instructions")

    def make_below(self, top):
        folder = top / "new"
        folder.mkdir(mode=0o700)
        shutil.chown(folder, USER, USER)
        self.make(folder)

    def program(self, name, *arguments):
        # The environment stays, with the mark by which guard.py finds what it must end.
        return shown.run("setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "env", "-C", "/",
                         self.programs / name, *arguments, quiet=True)

    def client(self, name, *arguments):
        return self.program(name, "--host", self.sockets, *arguments, "postgres")

    def start(self, folder):
        self.program("pg_ctl", "-D", folder, "-w", "-t", PATIENCE_SECONDS, "-l", folder / "log", "start")

    def kill(self):
        """Returns when the last process has ended: until then no other server starts."""
        first = int((self.folder / "postmaster.pid").read_text(encoding="ascii").split()[0])
        others = Path(f"/proc/{first}/task/{first}/children").read_text(encoding="ascii").split()
        os.kill(first, signal.SIGKILL)
        end = time.monotonic() + PATIENCE_SECONDS
        while any(Path("/proc", pid).exists() for pid in others):
            if time.monotonic() > end:
                raise shown.Failed(f"PostgreSQL's processes {others} do not end")
            time.sleep(0.1)

    def recover(self, top):
        """Returns how often per second a copy in `top` could start. It must have each transaction."""
        folder = top / "database"
        shown.run("cp", "-a", self.folder, folder)
        shown.run("sync", "-f", top)
        began = time.monotonic()
        self.start(folder)
        took = time.monotonic() - began
        kept = self.client("psql", "--no-align", "--tuples-only", "--command", "select count(*) from pgbench_history")
        self.program("pg_ctl", "-D", folder, "-w", "-t", PATIENCE_SECONDS, "-m", "immediate", "stop")
        shutil.rmtree(folder)
        if int(kept) != self.transactions:
            raise shown.Failed(f"after recovery in {top} {kept.strip()} of {self.transactions} transactions are left")
        return sides.Figure(1, 1 / took)

"""How long PostgreSQL takes to recover on a mount: one database crashes in the file system of the checkout, and copies
of it are started elsewhere, so that all replay the same log. Runs where Debian's postgresql is installed."""

import os
import pwd
import shutil
import signal
import time
from pathlib import Path

import shown

USER = "postgres"
CLIENTS = 4
PATIENCE_SECONDS = 120
SETTINGS = """listen_addresses = ''
unix_socket_directories = '{sockets}'
checkpoint_timeout = 1h
max_wal_size = 4GB
"""


def programs():
    """Returns the directory of the newest installed PostgreSQL. None: there is none, or this process may not become
    its user."""
    found = [each for each in Path("/usr/lib/postgresql").glob("*/bin")
             if (each / "initdb").exists() and (each / "pgbench").exists()]
    users = {each.pw_name for each in pwd.getpwall()}
    if os.geteuid() != 0 or USER not in users:
        return None
    return max(found, key=lambda each: int(each.parent.name), default=None)


class Crashed:
    """A database below `place` whose server was killed before a checkpoint."""

    def __init__(self, place, scale=5, transactions=500):
        self.programs = programs()
        self.folder, self.sockets = place / "crashed", place / "sockets"
        self.transactions = CLIENTS * transactions
        for each in (self.folder, self.sockets):
            each.mkdir()
            shutil.chown(each, USER, USER)
        self.folder.chmod(0o700)
        self.program("initdb", "-D", self.folder, "-A", "trust", "--no-sync", "--no-instructions")
        with open(self.folder / "postgresql.conf", "a", encoding="ascii") as file:
            file.write(SETTINGS.format(sockets=self.sockets))
        self.start(self.folder)
        self.client("pgbench", "--initialize", "--quiet", "--scale", scale)
        self.client("pgbench", "--no-vacuum", "--client", CLIENTS, "--transactions", transactions)
        self.kill()

    def program(self, name, *arguments):
        # The environment stays, with the mark by which guard.py finds what it must end.
        return shown.run("setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "env", "-C", "/",
                         self.programs / name, *arguments, quiet=True)

    def client(self, name, *arguments):
        return self.program(name, "--host", self.sockets, *arguments, "postgres")

    def start(self, folder):
        self.program("pg_ctl", "-D", folder, "-w", "-t", PATIENCE_SECONDS, "-l", folder / "log", "start")

    def kill(self):
        """Its processes use the shared memory, without which no other server starts, until the last one has seen that
        the first is gone."""
        first = int((self.folder / "postmaster.pid").read_text(encoding="ascii").split()[0])
        others = Path(f"/proc/{first}/task/{first}/children").read_text(encoding="ascii").split()
        os.kill(first, signal.SIGKILL)
        end = time.monotonic() + PATIENCE_SECONDS
        while any(Path("/proc", pid).exists() for pid in others):
            if time.monotonic() > end:
                raise shown.Failed(f"PostgreSQL's processes {others} do not end")
            time.sleep(0.1)

    def recover(self, top):
        """Returns how many seconds a copy in `top` takes to start. It must have each transaction."""
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
        return took

#!/usr/bin/env python3
"""usage: programs_of_daos.py BUILD_DIRECTORY [NAME…]

DAOS's own programs, unmodified, on an embedded pool.

DAOS_CLI: DAOS's program `daos`, compiled. DAOS_CMD_HDLRS: its library libdaos_cmd_hdlrs.so. Skipped (77) without
them.
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import daos_test  # noqa: E402
import runner  # noqa: E402

test = runner.Tests()
CLI, HANDLERS = (os.environ.get(name) for name in ("DAOS_CLI", "DAOS_CMD_HDLRS"))


class Programs:
    """A pool, and a directory for compiled programs."""

    def __enter__(self):
        self.pool = daos_test.Pool(size="1GiB").__enter__()
        self.libraries = f"{daos_test.BUILD}/lib/ros2store/daos"
        return self

    def __exit__(self, *error):
        self.pool.__exit__(*error)

    def run(self, *command, may_fail=False):
        full = {**os.environ, "ROS2STORE_DAOS": self.pool.base,
                "LD_LIBRARY_PATH": f"{self.libraries}:{os.path.dirname(HANDLERS)}"}
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=900,
                              cwd=self.pool.top, env=full)
        said = done.stdout + done.stderr
        assert may_fail or done.returncode == 0, f"status {done.returncode}: {said[-3000:]}"
        return said


@test
def the_list_has_what_the_program_calls():
    daos_test.check_called_by("daos", {symbol for file in (CLI, HANDLERS)
                                       for symbol in daos_test.symbols(file, "--undefined-only")})


@test
def the_command_line():
    with Programs() as programs, tempfile.TemporaryDirectory() as files:
        def daos(*words, **more):
            return programs.run(CLI, *words, **more)

        os.makedirs(f"{files}/from/sub")
        with open(f"{files}/from/sub/data", "wb") as file:
            file.write(os.urandom(3_000_000))
        assert "ntarget=1" in daos("pool", "query", "tank")
        said = daos("container", "create", "tank", "one", "--type", "POSIX")
        uuid = re.search(r"Container UUID : (\S+)", said)[1]
        assert "Container Label             : one" in daos("container", "query", "tank", uuid)
        assert re.search(r"Layout Type.*POSIX", daos("container", "get-prop", "tank", "one"))
        assert "A::OWNER@:rwdtTaAo" in daos("container", "get-acl", "tank", "one")
        daos("container", "set-attr", "tank", "one", "colour:green")
        assert "green" in daos("container", "get-attr", "tank", "one", "colour")
        daos("filesystem", "copy", "--src", f"{files}/from", "--dst", "daos://tank/one/")
        daos("filesystem", "copy", "--src", "daos://tank/one/", "--dst", f"{files}/to")
        subprocess.run(["diff", "-r", f"{files}/from", f"{files}/to/from"], check=True)
        # A copy object by object would lose files.
        said = daos("container", "clone", "--src", "daos://tank/one", "--dst", "daos://tank/two", may_fail=True)
        assert "DER_NOTSUPPORTED" in said and "Copy them as files" in said, said
        daos("container", "create", "tank", "objects", "--type", "PYTHON")
        assert "inconsistent: 0" in daos("container", "check", "tank", "objects")
        assert "no snapshots" in daos("container", "list-snap", "tank", "one")
        said = daos("container", "create-snap", "tank", "one", may_fail=True)
        assert "DER_NOTSUPPORTED" in said, said
        assert "Successfully copied" in daos("container", "clone", "--src", "daos://tank/objects", "--dst",
                                             "daos://tank/clone")
        # Rights that nobody would enforce are refused, and no container is made without them.
        with open(f"{files}/rights", "w", encoding="utf-8") as file:
            file.write("A::OWNER@:r\n")
        said = daos("container", "create", "tank", "guarded", "--acl-file", f"{files}/rights", may_fail=True)
        assert "DER_NOTSUPPORTED" in said and "guarded" not in daos("container", "list", "tank"), said
        daos("container", "destroy", "tank", "objects")
        assert " objects" not in daos("container", "list", "tank")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    daos_test.BUILD = os.path.abspath(sys.argv[1])
    daos_test.CLI = f"{daos_test.BUILD}/bin/ros2store"
    if not CLI or not HANDLERS:
        print("not run: DAOS_CLI and DAOS_CMD_HDLRS are not set")
        return 77
    return test.run(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())

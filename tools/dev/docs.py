"""./dev docs: writes the pages that programs and results give: docs/settings.md and docs/figures.md."""

import json
import subprocess
import tempfile
from pathlib import Path

import build
import console
from bench import page

SETTINGS = Path("docs/settings.md")
INTRODUCTION = """# Settings
`./dev docs` writes this page from the programs; do not edit it. The [administrator's guide](control.md) explains the
settings. A setting that is a comment has its default. An unknown setting is refused, with its line and the nearest name.

- A daemon reads its file at start (`--config FILE`). `ros2store-engine --print-config` prints the file below, and so does
  `ros2store-dpu --print-config`.
- A pool's file is `DIR/config.yaml`. It is read when the pool is opened.
- Tenants are not in these files. `ros2store tenant` changes them while the daemons run ([guide](control.md#tenants)).

## Environment variables
| variable | of | meaning |
|---|---|---|
| `ROS2STORE_CERTS` | programs, library | the directory with `ca.crt`, `client.crt` and `client.key` |
| `ROS2STORE_KEYS` | programs, library | the keys of encrypted containers: a directory, or a token's URI |
| `ROS2STORE_LOG` | library | level of its log: `debug`, `info`, `warning` (default), `error`, `off` |
| `ROS2STORE_POLL` | programs, library | how long a thread without work polls before it sleeps; 0: never |
| `ROS2STORE_UCX_DEVICE` | programs, library | the network device of the ucx and ofi providers: `eth0`, `mlx5_0:1` |
| `ROS2STORE_DAOS` | programs of DAOS | where pools are ([daos.md](daos.md#labels)) |
"""


def add_arguments(parser):
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is not up to date")
    parser.add_argument("--no-build", action="store_true", help="ask the present build/release")


def run(options):
    tally = console.Tally()
    if not options.no_build and not tally.add("release build", build.make("release", ["programs"])):
        return tally.close()
    for file, text in pages(build.folder("release")):
        if not options.check:
            file.write_text(text, encoding="utf-8")
        tally.add(str(file), file.read_text(encoding="utf-8") == text)
    return tally.close()


def pages(built):
    """Returns the generated pages and what they should contain."""
    return ((SETTINGS, settings(built)), (page.PAGE, page.text(json.loads(page.RESULTS.read_text(encoding="utf-8")))))


def settings(built):
    engine, dpu = (said(built / "bin" / program, "--print-config") for program in ("ros2store-engine", "ros2store-dpu"))
    own, same = [], []
    for group in dpu.split("\n\n"):
        (same if group in engine.split("\n\n") else own).append(group)
    names = ", ".join(f"`{name_of(group)}`" for group in same)
    return "\n".join((INTRODUCTION, "## An engine", *block(engine), "", "## A DPU",
                      f"The settings {names} are the same as an engine's.", "", *block("\n\n".join(own)), "",
                      "## A pool", *block(pool_settings(built)), ""))


def name_of(group):
    """Returns the key of a group of settings, which is the first line that is one."""
    return next(line.removeprefix("# ").removesuffix(":") for line in group.split("\n")
                if line.endswith(":") and " " not in line.removeprefix("# "))


def pool_settings(built):
    with tempfile.TemporaryDirectory(prefix="ros2store-docs.") as scratch:
        pool = Path(scratch) / "pool"
        said(built / "bin/ros2store", "pool", "create", pool, "--size", "256MiB")
        return (pool / "config.yaml").read_text(encoding="utf-8")


def said(*command):
    return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout


def block(text):
    return [f"    {line}".rstrip() for line in text.rstrip("\n").split("\n")]

"""./dev docs: writes the pages that programs and results give: docs/settings.md and docs/figures.md."""

import dataclasses
import json
import re
import subprocess
import tempfile
import textwrap
from pathlib import Path

import build
import console
import prose
from bench import page

SETTINGS = Path("docs/settings.md")
INTRODUCTION = """# Settings
`./dev docs` writes this page from the programs; do not edit it. The [administrator's guide](control.md) explains the
settings. An unknown setting is refused, with its line and the nearest name.

- A daemon reads its file at start (`--config FILE`). `--print-config` prints all settings as a file.
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
    engine, dpu, pool = (told(printed.partition("\n")[2]) for printed in (
        said(built / "bin/ros2store-engine", "--print-config"), said(built / "bin/ros2store-dpu", "--print-config"),
        pool_settings(built)))
    return "\n".join((INTRODUCTION, "## An engine", *map(str, engine), "", "## A DPU", *map(str, without(dpu, engine)), "",
                      "## A pool", *map(str, pool), ""))


# The line of a group, that of a setting with its default, and that of a part of a setting.
NAMED = re.compile(r"^# (\w+):$", re.MULTILINE)
SETTING = re.compile(r'(?:#? *)(\w+): ("[^"]*"|\S+)')
PART = re.compile(r"([\w.]+): (.+)")


@dataclasses.dataclass(frozen=True)
class Entry:
    """A paragraph; or, with a name, a setting. A heading, if it has no text."""
    name: str
    text: str

    def __str__(self):
        if not self.text:
            return f"\n### `{self.name}`"
        text = f"- `{self.name}`: {self.text}" if self.name else self.text
        return "\n".join(textwrap.wrap(text, prose.LINE_MAX - 1, subsequent_indent="  " if text.startswith("- ") else "",
                                       break_on_hyphens=False))


@dataclasses.dataclass(frozen=True)
class Example:
    """Lines of a file."""
    text: str
    name = ""

    def __str__(self):
        return "\n" + self.text


def told(printed):
    """Returns the entries of settings that are printed as groups of comments, with the settings below."""
    found = []
    for group in printed.split("\n\n"):
        before, name, below = NAMED.split(group, maxsplit=1) if NAMED.search(group) else (group, "", "")
        is_example = below and not re.search(r"^  # ", below, re.MULTILINE)
        found += [Entry(name, "")] if name else []
        found += entries(before, is_group=bool(name), has_parts=is_example)
        if is_example:
            found.append(Example(re.sub(r"^#", "   ", below.strip("\n"), flags=re.MULTILINE)))
        else:
            found += entries(below, is_group=False, has_parts=False)
    return found


def entries(text, is_group, has_parts):
    """Yields the settings whose help is above them, or a paragraph and the parts whose help is behind them."""
    name, words = "", []
    for line in text.split("\n"):
        setting = not is_group and SETTING.fullmatch(line)
        part = has_parts and PART.fullmatch(line.removeprefix("# "))
        if setting:
            yield Entry(setting[1], re.sub(r' (Text\.|True or false\.|Default: ""\.)', "", " ".join(words)))
            words = []
        elif part:
            yield Entry(name, " ".join(words))
            name, words = part[1], [part[2]]
        elif line.strip(" #"):
            words.append(line.strip().removeprefix("#").strip())
    if words:
        yield Entry(name, " ".join(words))


def without(own, others):
    """Returns the entries. Settings that the others have, too, are one line for each group."""
    left, same = [], []
    for entry in [*own, Entry("", "")]:
        if entry.text and entry in others:
            same += [f"`{entry.name}`"] if entry.name else []
            continue
        if same and (not entry.text or isinstance(entry, Example)):
            left.append(Entry("", f"- As an engine's: {', '.join(same)}."))
            same = []
        left.append(entry)
    return left[:-1]


def pool_settings(built):
    with tempfile.TemporaryDirectory(prefix="ros2store-docs.") as scratch:
        pool = Path(scratch) / "pool"
        said(built / "bin/ros2store", "pool", "create", pool, "--size", "256MiB")
        return (pool / "config.yaml").read_text(encoding="utf-8")


def said(*command):
    return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout

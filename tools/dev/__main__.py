"""The part of ./dev that runs once the packages are there: one module per subcommand."""

import argparse
import signal
import sys

import bench
import build
import check
import demo
import docs
import fuzz
import lab
import lint
import nightly
import package
import profiled
import sim
import test


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in (("build", build), ("test", test), ("check", check), ("demo", demo),
                         ("bench", bench), ("profile", profiled), ("fuzz", fuzz), ("lint", lint), ("sim", sim),
                         ("docs", docs), ("package", package), ("lab", lab), ("nightly", nightly)):
        command = commands.add_parser(name)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    commands.add_parser("fmt").set_defaults(run=lint.reformat)
    return parser.parse_args(arguments)


def main():
    # A subcommand that is terminated unwinds as on Ctrl-C, so that what it started is cleaned up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        options = parse(sys.argv[1:])
        return options.run(options)
    except KeyboardInterrupt:
        print("\ndev: interrupted", file=sys.stderr)
        return 130


sys.exit(main())

"""Tests that every test named by docs/security.md as a proof exists.

usage: security_test.py CHECKOUT"""
import re
import sys
from pathlib import Path

CHECKOUT = Path(sys.argv[1])
CASE = re.compile(r"^\s*(?:CO_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)", re.MULTILINE)


def main():
    named = set(re.findall(r"`(\w+)\.(\w+)`", (CHECKOUT / "docs/security.md").read_text(encoding="utf-8")))
    found = set()
    for folder in ("src", "tests", "apps"):
        for source in (CHECKOUT / folder).rglob("*_test.cc"):
            found |= set(CASE.findall(source.read_text(encoding="utf-8")))
    missing = sorted(".".join(each) for each in named - found)
    print(f"{len(named)} tests are named" if not missing else f"there is no {', '.join(missing)}")
    return 1 if missing or not named else 0


sys.exit(main())

#!/bin/sh
# stale_table_test.sh CRASH_RULES TABLE: a table of another engine's schedules is refused, in a
# sentence that names the command that writes it anew.
set -eu
copy=$(mktemp)
trap 'rm -f "$copy"' EXIT
sed 's/^\(Fingerprint of its schedules: \).*/\1none/' "$2" > "$copy"
if cmp -s "$2" "$copy"; then echo "$2 has no fingerprint"; exit 1; fi
if said=$("$1" --check "$copy"); then echo "$said"; echo "a stale table passed"; exit 1; fi
echo "$said" | grep "FAILED $copy: .*write it anew: ./dev sim --table"

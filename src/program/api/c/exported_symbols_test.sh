#!/bin/sh
# usage: exported_symbols_test.sh LIBRARY HEADER [PREFIX]: the library exports what the header declares and
# nothing else.
set -eu
library=$1 header=$2 prefix=${3:-ros2s}
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
declared=$(grep -oE "\\b${prefix}_[a-z_0-9]+\\(" "$header" | tr -d '(' |
    sort -u)
status=0
for name in $exported; do
    echo "$declared" | grep -qx "$name" || { echo "exported but not declared: $name"; status=1; }
done
for name in $declared; do
    echo "$exported" | grep -qx "$name" || { echo "declared but not exported: $name"; status=1; }
done
[ -n "$exported" ] || { echo "nothing is exported"; status=1; }
exit $status

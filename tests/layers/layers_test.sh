#!/usr/bin/env bash
# A layer violation does not compile: builds tests/layers with ros2_module() and looks at what fails.
# usage: layers_test.sh SOURCE_DIRECTORY C++_COMPILER
set -euo pipefail
source=$1
compiler=$2
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cmake -G Ninja -S "$source" -B "$build" -DCMAKE_CXX_COMPILER="$compiler" -DBUILD_TESTING=OFF >"$build/configure.log" ||
    { cat "$build/configure.log"; exit 1; }

ninja -C "$build" allowed || { echo "what should compile does not"; exit 1; }
"$build/allowed"

failures=0
for program in transitive hidden upward; do
    if ninja -C "$build" "$program" >"$build/$program.log" 2>&1; then
        echo "$program: the violation compiled"
        failures=1
    elif ! grep -q "fatal error: 'ros2s/.*' file not found" "$build/$program.log"; then
        echo "$program: failed for another reason than a missing header:"
        cat "$build/$program.log"
        failures=1
    else
        echo "$program: refused, as it should be"
    fi
done
exit $failures

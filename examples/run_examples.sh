#!/bin/sh
# usage: run_examples.sh BUILD_DIRECTORY: runs every example on a new pool and checks its output.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$build/tests/api/pool_helper" make "$work/pool"
uri="ros2s+local:///pool/main?dir=$work/pool"

expect() { # expect WORDS COMMAND...: the command succeeds and its output contains the words
    words=$1
    shift
    output=$("$@") || { echo "failed: $*"; exit 1; }
    case $output in
    *"$words"*) ;;
    *) echo "'$*' does not say '$words': $output"; exit 1 ;;
    esac
}
expect "hello, objects" "$build/examples/hello" "$uri"
if [ -d "$build/python" ]; then
    expect "200 samples, 51200 bytes" env PYTHONPATH="$build/python" PYTHONDONTWRITEBYTECODE=1 \
        "${PYTHON:-/usr/bin/python3}" "$here/samples.py" "$uri"
    expect "00199.bin  256" "$build/examples/tree" "$uri"
fi
expect "hello.txt  15" "$build/examples/tree" "$uri"
"$build/tests/api/pool_helper" fill "$uri" blocks 4194304
expect "1000 reads" "$build/examples/queue" "$uri" blocks
echo "all examples ran"

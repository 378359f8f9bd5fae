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
python() { # python FILE...: runs an example with the module of the build
    PYTHONPATH="$build/python" PYTHONDONTWRITEBYTECODE=1 "${PYTHON:-/usr/bin/python3}" "$@"
}
if [ -d "$build/python" ]; then
    expect "200 samples, 51200 bytes" python "$here/samples.py" "$uri"
    expect "00199.bin  256" "$build/examples/tree" "$uri"
    expect "262144 tokens" python "$here/corpus.py" "$uri"
    if python -c "import torch" 2>/dev/null; then
        expect "400 images in 2 epochs; the next is 2" python "$here/images.py" "$uri"
        expect "trained from step 10; checkpoints 14, 19" python "$here/checkpoints.py" "$uri"
    else
        echo "images.py and checkpoints.py are not run: torch is not installed (python3-torch)"
    fi
fi
expect "hello.txt  15" "$build/examples/tree" "$uri"
"$build/tests/api/pool_helper" fill "$uri" blocks 4194304
expect "1000 reads" "$build/examples/queue" "$uri" blocks
echo "all examples ran"

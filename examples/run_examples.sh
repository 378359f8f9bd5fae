#!/bin/sh
# usage: run_examples.sh BUILD_DIRECTORY: runs every example on a new pool, those in Python also behind a DPU, and checks
# its output.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap '"$build/bin/ros2store" down "$work/dpu" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
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
    dpu="ros2s+dpu:///pool/main?dir=$work/dpu"
    "$build/bin/ros2store" up "$work/dpu" --size 256MiB >/dev/null
    for at in "$uri" "$dpu"; do
        expect "200 samples, 51200 bytes" python "$here/samples.py" "$at"
        expect "00199.bin  256" "$build/examples/tree" "$at"
        expect "262144 tokens" python "$here/corpus.py" "$at"
        if python -c "import torch" 2>/dev/null; then
            expect "400 images in 2 epochs; the next is 2" python "$here/images.py" "$at" 2
            expect "trained from step 10; checkpoints 14, 19" python "$here/checkpoints.py" "$at"
        else
            echo "images.py and checkpoints.py are not run: torch is not installed (python3-torch)"
        fi
    done
    "$build/bin/ros2store" container create --cache --size 64MiB "ros2s:///pool/kv?dir=$work/dpu" >/dev/null
    expect "3 blocks were put, and 3 were got" "$build/examples/blocks" "ros2s+dpu:///pool/kv?dir=$work/dpu"
    if [ -w /dev/fuse ] && command -v fusermount3 >/dev/null; then
        mkdir "$work/mnt"
        "$build/bin/ros2store" mount "$dpu" "$work/mnt" >/dev/null
        expect "819200 tokens" python "$here/mapped_corpus.py" "$work/mnt"
    else
        echo "mapped_corpus.py is not run: there is no FUSE"
    fi
fi
expect "hello.txt  15" "$build/examples/tree" "$uri"
"$build/tests/api/pool_helper" fill "$uri" blocks 4194304
expect "1000 reads" "$build/examples/queue" "$uri" blocks
echo "all examples ran"

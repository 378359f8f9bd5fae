#!/bin/sh
# usage: through_mount_test.sh BUILD_DIRECTORY: while ros2store-fuse owns a pool, libros2store works
# through its mount point and says so. Exits with 77 where there is no FUSE.
set -eu
build=$1
[ -w /dev/fuse ] && command -v fusermount3 >/dev/null || { echo "no FUSE here"; exit 77; }
work=$(mktemp -d)
trap 'fusermount3 -u -q "$work/mnt" 2>/dev/null || true; rm -rf "$work"' EXIT
helper=$build/tests/api/pool_helper
"$helper" make "$work/pool"
mkdir "$work/mnt"
uri="ros2s+local:///pool/main?dir=$work/pool"
"$build/bin/ros2store-fuse" "$uri" "$work/mnt"

"$helper" fill "$uri" from-library 100000
[ "$(stat -c %s "$work/mnt/from-library")" = 100000 ] || { echo "not seen in the mount"; exit 1; }
echo hello >"$work/mnt/from-mount"
"$build/examples/tree" "$uri" | grep -qx 'from-mount  6' || { echo "not seen by the library"; exit 1; }
"$helper" report "$uri" from-mount | grep -q "through the mount at $work/mnt (FUSE) of process" ||
    { echo "the path report does not tell of the mount"; exit 1; }
# Another container is not the mounted one: the error names the owner.
if "$helper" report "ros2s+local:///pool/other?dir=$work/pool" x 2>"$work/error"; then exit 1; fi
grep -q "mounted at $work/mnt: use the files there, or unmount it first: ros2store down" \
    "$work/error" || { cat "$work/error"; exit 1; }
fusermount3 -u "$work/mnt"
for _ in $(seq 1200); do # the owner writes out and goes
    "$helper" report "$uri" from-mount >"$work/report" 2>&1 && break
    sleep 0.1
done
grep -q "embedded engine" "$work/report" || { cat "$work/report"; exit 1; }
echo "the library works through the mount"

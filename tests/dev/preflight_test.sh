#!/usr/bin/env bash
# ./dev on machines that it should refuse: one clear line with the remedy, and a non-zero status.
# usage: preflight_test.sh CHECKOUT      (root, for mounts in a namespace of its own)
set -euo pipefail
checkout=$1
((EUID == 0)) || { echo "needs root for mount namespaces"; exit 77; }
unshare -m true 2>/dev/null || { echo "no mount namespaces here"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"

# copy DIRECTORY: ./dev as far as the preflight needs it.
copy() {
    mkdir -p "$1/tools"
    cp "$checkout/dev" "$1/"
    cp "$checkout/tools/preflight.sh" "$checkout/tools/packages.txt" "$1/tools/"
}

failures=0
# refuses NAME PATTERN COMMAND…: it fails, and says so.
refuses() {
    local name=$1 pattern=$2 said
    shift 2
    if said=$("$@" 2>&1 </dev/null); then
        echo "$name: was not refused"
        failures=1
    elif ! grep -qE "$pattern" <<<"$said"; then
        printf '%s: expected "%s", but it said:\n%s\n' "$name" "$pattern" "$said"
        failures=1
    else
        printf '%s: %s\n' "$name" "$(head -c 200 <<<"$said" | tr '\n' ' ')"
    fi
}

copy "$scratch/plain"
refuses "unknown subcommand" "no subcommand 'biuld'" "$scratch/plain/dev" biuld

copy "$scratch/unprivileged"
echo no-package-has-this-name >>"$scratch/unprivileged/tools/packages.txt"
refuses "not root" "sudo apt-get update && sudo apt-get install .*no-package-has-this-name" \
    setpriv --reuid=65534 --regid=65534 --clear-groups "$scratch/unprivileged/dev" build

printf 'ID=plan9\nVERSION_ID=4\nPRETTY_NAME="Plan 9 Fourth Edition"\n' >"$scratch/os-release"
refuses "wrong distribution" "Debian 12; this is Plan 9 Fourth Edition.*docker run" \
    unshare -m bash -c "mount --bind '$scratch/os-release' /etc/os-release && '$scratch/plain/dev' build"

mkdir "$scratch/small"
export -f copy
export checkout
refuses "too little disk" "needs [0-9]+ MiB of disk.* are free" \
    unshare -m bash -c "mount -t tmpfs -o size=8m small '$scratch/small' && copy '$scratch/small' && '$scratch/small/dev' build"

mkdir "$scratch/helpful"
copy "$scratch/helpful"
echo no-package-has-this-name >>"$scratch/helpful/tools/packages.txt"
cp -r "$checkout/tools/dev" "$scratch/helpful/tools/"
"$scratch/helpful/dev" nightly --help | grep -q "usage: ./dev nightly" || {
    echo "help: it wanted packages, or printed no usage"
    failures=1
}
exit $failures

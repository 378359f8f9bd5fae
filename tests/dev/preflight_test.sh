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

# Its packages do not exist, so this shows that it checks the disk first.
mkdir "$scratch/tiny"
refuses "too little disk for the demo" "demo needs 11000 MiB of disk.* are free" \
    unshare -m bash -c "mount -t tmpfs -o size=8m small '$scratch/tiny' && copy '$scratch/tiny' &&
        echo no-package-has-this-name >>'$scratch/tiny/tools/packages.txt' && '$scratch/tiny/dev' demo"

# An apt-get with much output. It installs nothing, and fails if $scratch/fails exists.
mkdir "$scratch/bin"
cat >"$scratch/bin/apt-get" <<END
#!/bin/sh
echo "asked for: \$*"
seq -f 'Get:%g' 400
test \$1 = update || test ! -e '$scratch/fails'
END
chmod 755 "$scratch/bin/apt-get"

touch "$scratch/fails"
copy "$scratch/apt"
echo no-package-has-this-name >>"$scratch/apt/tools/packages.txt"
refuses "apt-get fails" "the end of .*/apt/build/apt.log" env PATH="$scratch/bin:$PATH" "$scratch/apt/dev" build
lines=$(env PATH="$scratch/bin:$PATH" "$scratch/apt/dev" build 2>&1 </dev/null | wc -l) || true
((lines < 20)) || {
    echo "apt-get fails: $lines lines"
    failures=1
}
rm "$scratch/fails"

# The packages of check: it has no tools/dev here, so that it ends behind them.
for options in "" "--brief" "--brief --minutes 5"; do
    rm -rf "$scratch/check"
    copy "$scratch/check"
    for list in rados lab arm64; do
        echo "no-$list-package" >"$scratch/check/tools/packages-$list.txt"
    done
    # shellcheck disable=SC2086
    env PATH="$scratch/bin:$PATH" "$scratch/check/dev" check $options >/dev/null 2>&1 </dev/null || true
    found=$(grep -oE 'no-(rados|lab|arm64)-package' "$scratch/check/build/apt.log" | sort | tr '\n' ' ' || true)
    expected="no-arm64-package no-lab-package no-rados-package "
    [[ $options != *--brief* ]] || expected="no-rados-package "
    [[ $found == "$expected" ]] || {
        echo "check $options: it asked for '$found' instead of '$expected'"
        failures=1
    }
done

mkdir "$scratch/helpful"
copy "$scratch/helpful"
echo no-package-has-this-name >>"$scratch/helpful/tools/packages.txt"
cp -r "$checkout/tools/dev" "$scratch/helpful/tools/"
"$scratch/helpful/dev" nightly --help | grep -q "usage: ./dev nightly" || {
    echo "help: it wanted packages, or printed no usage"
    failures=1
}
exit $failures

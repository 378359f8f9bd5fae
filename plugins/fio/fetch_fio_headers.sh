#!/usr/bin/env bash
# usage: fetch_fio_headers.sh DIRECTORY
#
# Puts the headers of the installed fio into DIRECTORY/source: fio installs none, and a plug-in must
# have the same structs as the program. Also the source of its engine for DAOS, which Debian does
# not build: tests/daos builds it. They come from Debian's source package of
# the same version, by a temporary list of source packages made from the machine's own lists; no
# setting of the machine changes, and root is not needed. Ends at once when they are there.
set -euo pipefail

die() {
    printf 'fio headers: %s\n' "$*" >&2
    exit 1
}

[ $# -eq 1 ] || die "usage: fetch_fio_headers.sh DIRECTORY"
version=$(dpkg-query -W -f '${Version}' fio 2>/dev/null) ||
    die "fio is not installed: apt-get install fio, or configure with -DROS2S_FIO=OFF"
mkdir -p "$1"
cd "$1"
[ "$(cat version 2>/dev/null)" = "$version" ] && [ -f source/engines/dfs.c ] && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/parts" "$work/lists/partial" "$work/cache/archives/partial"
for list in /etc/apt/sources.list.d/*.sources; do
    [ -f "$list" ] || continue
    sed -E 's/^Types:.*$/Types: deb-src/' "$list" >"$work/parts/$(basename "$list")"
done
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$list" ] || continue
    sed -nE 's/^deb(-src)?[[:space:]]/deb-src /p' "$list" >"$work/parts/$(basename "$list" .list).list"
done
options=(-q -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$work/parts"
    -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
# A foreign list without sources is not an error.
apt-get "${options[@]}" update >"$work/log" 2>&1 || true
(cd "$work" && apt-get "${options[@]}" source --download-only "fio=$version") >>"$work/log" 2>&1 || {
    tail -5 "$work/log" >&2
    die "apt-get could not fetch the source package fio=$version. Check the network and" \
        "/etc/apt, or configure with -DROS2S_FIO=OFF to build without the fio plug-in"
}
rm -rf source
mkdir source
archive=$(find "$work" -name 'fio_*.orig.tar.*' ! -name '*.asc')
tar -xf "$archive" -C source --strip-components=1 --wildcards '*.h' '*/engines/dfs.c' '*/COPYING'

# The results of fio's configure on Debian 12 that its headers use. They decide the layout of
# structs, so they are not guessed per machine. (The options that only add members at the
# end of a struct that fio itself allocates are left out: they need more headers.)
cat >source/config-host.h <<'EOF'
#define CONFIG_HAVE_BOOL 1
#define CONFIG_HAVE_KERNEL_RWF_T 1
#define CONFIG_HAVE_GETTID 1
#define CONFIG_STATIC_ASSERT 1
#define CONFIG_3ARG_AFFINITY 1
#define CONFIG_PTHREAD_GETAFFINITY 1
#define CONFIG_CLOCK_GETTIME 1
#define CONFIG_SOCKLEN_T 1
#define CONFIG_STRSEP 1
#define CONFIG_GETOPT_LONG_ONLY 1
#define CONFIG_SYNC_FILE_RANGE 1
#define CONFIG_PWRITEV2 1
#define CONFIG_LINUX_FALLOCATE 1
#define CONFIG_POSIX_FALLOCATE 1
#define CONFIG_LITTLE_ENDIAN 1
#define BITS_PER_LONG (__SIZEOF_LONG__ * 8)
EOF
printf '%s' "$version" >version
printf 'fio headers: %s in %s/source\n' "$version" "$PWD"

# Sourced by ./dev: is this machine one on which the project builds? Installs the packages that are
# missing when it may, and says exactly what to type when it may not.

die() {
    printf 'dev: %s\n' "$*" >&2
    exit 1
}

preflight_distribution() {
    [[ $(uname -s) == Linux ]] || die "ROS2 runs on Linux; this is $(uname -s). Use a Debian 12 machine or container."
    local id="" version="" name="an unknown system"
    if [[ -r /etc/os-release ]]; then
        # shellcheck disable=SC1091
        read -r id version name < <(. /etc/os-release && echo "${ID:-} ${VERSION_ID:--} ${PRETTY_NAME:-}")
    fi
    [[ $id == debian && $version == 12 ]] ||
        die "ROS2 is built and tested on Debian 12; this is ${name}." \
            "Run ./dev on a Debian 12 machine, or in a container: docker run --rm -it --privileged -v \"\$PWD:\$PWD\" -w \"\$PWD\" debian:12 ./dev $*"
}

# preflight_packages LIST: the packages that the file names.
preflight_packages() {
    local wanted installed missing=()
    wanted=$(grep -vE '^[[:space:]]*(#|$)' "$1")
    installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' 2>/dev/null | awk '$2 == "installed" { print $1 }')
    mapfile -t missing < <(comm -23 <(sort -u <<<"$wanted") <(sort -u <<<"$installed"))
    ((${#missing[@]})) || return 0
    if ((EUID != 0)); then
        die "these Debian packages are missing, and installing them needs root. Run:" \
            $'\n'"  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
    fi
    local log=build/apt.log
    mkdir -p build
    printf 'dev: installing %d Debian packages of %s (%s has what apt-get says)\n' "${#missing[@]}" "$1" "$log"
    export DEBIAN_FRONTEND=noninteractive
    # A third-party list that cannot be reached is no reason to stop: apt-get install decides.
    apt-get update -q </dev/null >>"$log" 2>&1 ||
        printf 'dev: apt-get update reported errors; trying to install nevertheless\n' >&2
    apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null >>"$log" 2>&1 || {
        tail -n 10 "$log" >&2
        die "apt-get could not install these packages; the lines above are the end of $PWD/$log." \
            "Check the network and the apt sources, then run:" \
            $'\n'"  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    }
}

# preflight_disk MIB WHY: room in the file system of `build`, or of the checkout.
preflight_disk() {
    local free at=.
    [[ ! -d build ]] || at=build
    free=$(df -Pm "$at" | awk 'NR == 2 { print $4 }')
    ((free >= $1)) ||
        die "$2 needs $1 MiB of disk in $PWD, and $free MiB are free. Free some space, or move the checkout to a larger file system."
}

# preflight_demo DEMO OPTIONS: what tools/dev/demo.py needs, checked before packages are installed for it.
preflight_demo() {
    preflight_distribution "$@"
    [[ " $* " == *" --tiny "* ]] || preflight_disk 11000 "./dev demo"
    [[ -r /dev/fuse && -w /dev/fuse ]] ||
        die "./dev demo mounts a pool, and /dev/fuse cannot be opened. Run: modprobe fuse" \
            "(in a container: docker run --device /dev/fuse --cap-add SYS_ADMIN …)"
}

preflight() {
    preflight_distribution "$@"
    preflight_packages tools/packages.txt
}

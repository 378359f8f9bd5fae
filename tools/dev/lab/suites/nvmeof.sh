# Tests NVMe over Fabrics. The kernel's own target exports a namespace over TCP and over RDMA (Soft-RoCE). The
# guest connects to itself. fio and a pool use the new namespace. Speed is not measured.
source tools/dev/lab/guest/hardware
soft_roce
ip addr add 10.77.0.1/24 dev rdma0
modules nvme nvmet nvmet-tcp nvmet-rdma nvme-fabrics nvme-tcp nvme-rdma
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
PATH=$PWD/build/release/bin:$PATH
target=/sys/kernel/config/nvmet
host=nqn.2014-08.org.nvmexpress:uuid:7d6e0f0a-3f0e-4d55-9d6b-6f1d0a6c0001

# exported NAME BLOCK-DEVICE TRANSPORT ADDRESS PORT
exported() {
    local subsystem=$target/subsystems/$1 port=$target/ports/$5
    mkdir "$subsystem" && echo 1 >"$subsystem/attr_allow_any_host" &&
        mkdir "$subsystem/namespaces/1" && echo -n "$2" >"$subsystem/namespaces/1/device_path" &&
        echo 1 >"$subsystem/namespaces/1/enable" && mkdir "$port" &&
        echo ipv4 >"$port/addr_adrfam" && echo "$3" >"$port/addr_trtype" &&
        echo "$4" >"$port/addr_traddr" && echo "$5" >"$port/addr_trsvcid" &&
        ln -s "$subsystem" "$port/subsystems/$1"
}

connected() {
    nvme connect -t "$1" -a "$2" -s "$3" -n "$4" --hostnqn=$host --hostid="${host##*:}" --reconnect-delay=1 && wait_for imported "$4" &&
        imported "$4"
}

# imported NAME: prints the namespace of the connected subsystem: "nvme5n1".
imported() {
    local each
    for each in /sys/class/block/nvme*; do
        if [ "$(cat "$each/device/subsysnqn" 2>/dev/null)" = "$1" ] && [ -c "/dev/ng${each##*/nvme}" ]; then
            echo "${each##*/}"
            return
        fi
    done
    return 1
}

# verified NAME FILE OPTION…
verified() {
    fio --name="$1" --filename="$2" --rw=randwrite --bs=16k --size=4M --iodepth=8 --verify=crc32c \
        --do_verify=1 "${@:3}"
}

# pool_on NAME NAMESPACE: makes a pool on it, by passthrough.
pool_on() {
    local query="?dir=/run/$1"
    local uri="ros2s+local:///pool/main/tree$query"
    blkdiscard -z "/dev/$2" &&
        ros2store up --no-daemons "/run/$1" --device-dir "/dev/ng${2#nvme}" &&
        ros2store cp -r /usr/include/fmt "$uri" && ros2store cp -r "$uri" "/run/$1-back" &&
        diff -r /usr/include/fmt "/run/$1-back" && ros2store why "${uri%"$query"}/core.h$query" | tee /dev/stderr |
        grep -q "NVMe passthrough"
}

# state_is NAME STATE: of the path to the subsystem.
state_is() {
    local each
    for each in /sys/class/nvme/nvme*; do
        [ "$(cat "$each/subsysnqn")" = "$1" ] && [ "$(cat "$each/state")" = "$2" ] && return
    done
    return 1
}

# without_a_path NAME PORT POOL: the target takes the export back and gives it again, while nothing is in flight.
without_a_path() {
    local export=$target/ports/$2/subsystems/$1 at='ros2s:///pool/main' in="?dir=/run/$3" copying
    ros2store up "/run/$3" || return
    rm "$export" && wait_for state_is "$1" connecting || return
    ros2store cp -r /usr/include/fmt "$at/meanwhile$in" &
    copying=$!
    sleep 5
    kill -0 "$copying" && state_is "$1" connecting && ln -s "$target/subsystems/$1" "$export" && wait "$copying" &&
        ros2store cp -r "$at/meanwhile$in" "/run/$3-meanwhile" && diff -r /usr/include/fmt "/run/$3-meanwhile"
}

# engine_under_fio POOL
engine_under_fio() {
    verified engine fio --thread --ioengine=external:build/release/plugins/fio/libros2store-fio.so \
        --uri="ros2s:///pool/main?dir=/run/$1" && ros2store down "/run/$1" && return
    cat "/run/$1/run/engine.log"
    return 1
}

# through TRANSPORT ADDRESS PORT BLOCK-DEVICE
through() {
    local name=lab-$1 namespace
    check "$1: the kernel's target exports $4" exported "$name" "/dev/$4" "$1" "$2" "$3"
    check "$1: connected" connected "$1" "$2" "$3" "$name"
    namespace=$(imported "$name")
    check "$1: fio on the block device, verified" verified block "/dev/$namespace" --ioengine=libaio --direct=1
    check "$1: fio by passthrough, verified" verified passthrough "/dev/ng${namespace#nvme}" --ioengine=io_uring_cmd \
        --cmd_type=nvme
    check "$1: a pool on it: a tree, there and back" pool_on "pool-$1" "$namespace"
    check "$1: without a path for a moment, an engine's clients wait" without_a_path "$name" "$3" "pool-$1"
    check "$1: fio on the engine, verified" engine_under_fio "pool-$1"
    check "$1: disconnected" nvme disconnect -n "$name"
}

wait_for namespace_of lab1 2
through tcp 127.0.0.1 4420 "$(namespace_of lab1 1)"
before=$(rdma_packets)
through rdma 10.77.0.1 4421 "$(namespace_of lab1 2)"
check "and that went over the adapter" test "$(rdma_packets)" -gt $((before + 1000))

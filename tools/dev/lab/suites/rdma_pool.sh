# A pool over verbs: the DPU daemon reaches the engine by ucx+rc, and so do clients without a DPU; a tree
# and fio through both, verified, and the adapter's own counters say that it went that way.
source tools/dev/lab/guest/hardware
soft_roce
nvme_file_system
PATH=$PWD/build/release/bin:$PATH
export ROS2STORE_UCX_DEVICE="lo, rxe0:1"
pool=/mnt/nvme/pool
direct="ros2s:///pool/main DIR&provider=ucx+rc"
offload="ros2s+dpu:///pool/main DIR"

# at URI PATH: the URI of a path below.
at() {
    echo "${1/ DIR/$2?dir=$pool}"
}

tcp="ros2s:///pool/main DIR&provider=ucx+tcp"

# The daemons' files of settings, as a person would edit them. The engine listens on TCP, too.
settings_for_verbs() {
    local device='s/^#? +ucx_device:.*/  ucx_device: lo, rxe0:1/'
    sed -i -E "s/ucx\+tcp 127.0.0.1:0/&, ucx+rc 127.0.0.1:0/; $device" $pool/engine.yaml
    sed -i -E "s/^  providers:.*/  providers: ucx+rc/; $device" $pool/dpu.yaml
}

there_and_back() {
    ros2store cp -r /usr/include/fmt "$(at "$1" "/$2")" &&
        ros2store cp -r "$(at "$1" "/$2")" "/run/$2" &&
        diff -r /usr/include/fmt "/run/$2"
}

verified() {
    fio --name="$2" --thread --ioengine=external:build/release/plugins/fio/libros2store-fio.so \
        --uri="$(at "$1" "")" --filename="$2" --rw=randrw --bs=16k --size=4M --iodepth=8 \
        --verify=crc32c --do_verify=1
}

# over_adapter BYTES COMMAND…: the command succeeds, and the adapter moved so much meanwhile.
over_adapter() {
    local before payload=$1
    before=$(rdma_packets)
    shift
    "$@" || return
    local packets=$(($(rdma_packets) - before))
    echo "$packets packets"
    ((packets * 4096 > payload))
}

check "a pool on a file system on NVMe" ros2store up $pool --size 256MiB
check "its daemons stop" ros2store down $pool
check "settings for the adapter" settings_for_verbs
check "its daemons start over ucx+rc" ros2store up $pool
check "the engine listens there" grep -q "data plane: ucx+rc at" $pool/run/engine.log
check "and on TCP" grep -q "data plane: ucx+tcp at" $pool/run/engine.log
check "direct: a tree" there_and_back "$direct" direct
check "direct: fio, over the adapter" over_adapter 8388608 verified "$direct" fio-direct
check "offload: a tree" there_and_back "$offload" offload
check "offload: fio, over the adapter" over_adapter 8388608 verified "$offload" fio-offload
check "direct over TCP beside it: a tree" there_and_back "$tcp" tcp
check "why shows TCP" grep -q "ucx+tcp to" <(ros2store why "$(at "$tcp" /fio-direct)")
check "why shows it" ros2store why "$(at "$direct" /fio-direct)"

check "its daemons stop" ros2store down $pool

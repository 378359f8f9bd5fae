# A host works through its DPU, and has no way past it into the storage network.
source tools/dev/lab/guest/network
direct="ros2s://10.77.2.2:7400/pool/main?provider=ucx+tcp"

refused() {
    ! "$@"
}

# unreachable COMMAND…: checks that it fails because there is no route to the server.
unreachable() {
    refused "$@" && grep -qi "unreachable" /run/said
}

check "the host works through the DPU: a tree" there_and_back
# Bytes on the link between DPU and storage, both ways.
crossed() {
    in_namespace dpu cat /sys/class/net/to-storage/statistics/{tx,rx}_bytes | awk '{sum += $1} END {printf "%d", sum}'
}
before=$(crossed)
check "and fio, verified" in_namespace host fio --name=net --thread \
    --ioengine=external:build/release/plugins/fio/libros2store-fio.so --uri="$(offload pool/main)" --filename=net --rw=randrw --bs=16k --size=2M \
    --iodepth=8 --verify=crc32c --do_verify=1
check "whose bytes crossed the cable to storage" test "$(crossed)" -gt $((before + (2 << 20)))
check "the DPU reaches the engine" in_namespace dpu env ROS2STORE_CERTS=$place/storage \
    ROS2STORE_UCX_DEVICE=to-storage ros2store ls "$direct"
check "the host has no route to it" unreachable in_namespace host ip route get 10.77.2.2
check "so it does not reach it, even with the storage network's certificates" unreachable \
    in_namespace host env ROS2STORE_CERTS=$place/storage ROS2STORE_UCX_DEVICE=to-dpu \
    ros2store ls "$direct"
# A host is root on itself, and may make the DPU its router.
reaches_engine() {
    in_namespace "$1" timeout 5 bash -c 'echo >/dev/tcp/10.77.2.2/7400'
}
check "the DPU reaches the engine's port" reaches_engine dpu
forwards() {
    in_namespace dpu bash -c "echo $1 >/proc/sys/net/ipv4/ip_forward"
}
check "a host that takes the DPU for its router" ip -n host route add 10.77.2.0/24 via 10.77.1.2
check "whose packets the storage server would answer" ip -n storage route add 10.77.1.0/24 via 10.77.2.1
check "does not reach it: the DPU passes nothing on" refused reaches_engine host
check "would it pass packets on, the host would" eval 'forwards 1 && reaches_engine host && forwards 0'

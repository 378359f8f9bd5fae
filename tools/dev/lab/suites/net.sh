# Puts host, DPU and storage server into their own network namespaces. The host has a link to the DPU. It has
# no link and no route to the storage network. It uses the pool through the DPU.
source tools/dev/lab/guest/hardware
modules veth
nvme_file_system
PATH=$PWD/build/release/bin:$PATH
place=/mnt/nvme/net
mkdir -p $place

# link A ADDRESS B ADDRESS: a cable between two namespaces; each end is named after the other.
link() {
    ip link add "to-$3" netns "$1" type veth peer name "to-$1" netns "$3"
    ip -n "$1" addr add "$2/24" dev "to-$3"
    ip -n "$3" addr add "$4/24" dev "to-$1"
    ip -n "$1" link set "to-$3" up
    ip -n "$3" link set "to-$1" up
}

in_namespace() {
    ip netns exec "$@"
}

# started NAMESPACE PROGRAM: starts it with its settings file, and waits until it is ready.
started() {
    in_namespace "$1" "$2" --config "$place/$2.yaml" >"$place/$2.log" 2>&1 &
    wait_for grep -q "info: ready" "$place/$2.log"
    cat "$place/$2.log"
    grep -q "info: ready" "$place/$2.log"
}

# offload PATH: its URI for a host. Shared memory stands for PCIe.
offload() {
    echo "ros2s+dpu://10.77.1.2:7500/$1?provider=shm"
}

there_and_back() {
    in_namespace host ros2store cp -r /usr/include/fmt "$(offload pool/main/tree)" &&
        in_namespace host ros2store cp -r "$(offload pool/main/tree)" $place/back &&
        diff -r /usr/include/fmt $place/back
}

refused() {
    ! "$@"
}

# unreachable COMMAND…: checks that it fails because there is no route to the server.
unreachable() {
    refused "$@" && grep -qi "unreachable" /run/said
}

for each in host dpu storage; do
    ip netns add $each
    ip -n $each link set lo up
done
link host 10.77.1.1 dpu 10.77.1.2
link dpu 10.77.2.1 storage 10.77.2.2
check "an authority for storage" ros2store certs init $place/storage --name 10.77.2.2
check "and one for hosts" ros2store certs init $place/hosts --name 10.77.1.2
check "a pool" ros2store up --no-daemons $place/pool --size 128MiB
cat >$place/ros2store-engine.yaml <<EOF
pools: $place/pool
access: {"CN=client": {write: pool/*}}
control: {listen: "10.77.2.2:7400", certificates: $place/storage}
data: {listen: "ucx+tcp 10.77.2.2:7401", trusted_network: yes, ucx_device: to-dpu}
EOF
cat >$place/ros2store-dpu.yaml <<EOF
pools: pool
access: {"CN=client": {write: "pool/*, own/*"}}
engine: {control: "10.77.2.2:7400", providers: ucx+tcp, trusted_network: yes, ucx_device: to-storage, certificates: $place/storage}
control: {listen: "10.77.1.2:7500", certificates: $place/hosts}
data: {listen: "shm $place/dpu.sock"}
directories:
  own/main: $place/own
EOF
mkdir -p $place/own
direct="ros2s://10.77.2.2:7400/pool/main?provider=ucx+tcp"
check "the engine, on the storage network" started storage ros2store-engine
check "the DPU daemon, between both" started dpu ros2store-dpu
export ROS2STORE_CERTS=$place/hosts
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

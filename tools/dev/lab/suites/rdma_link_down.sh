# Takes down the port of an RDMA adapter in mid-transfer, under clients of an engine over ofi+verbs. Soft-RoCE
# itself does not recover from that until the device is made again: rping fails, too, without our programs.
source tools/dev/lab/guest/hardware
soft_roce_with_address
provider=ofi+verbs
source tools/dev/lab/guest/verbs_pool
source tools/dev/lab/guest/writer
direct="ros2s:///pool/main DIR&provider=$provider" tcp="ros2s:///pool/main DIR&provider=ucx+tcp"

# Meanwhile a client of the same engine over loopback is served.
writer_loses_the_port() {
    start_writer "$(at "$direct" /cut)" && ip link set rdma0 down || return
    sleep 15
    ! ended "$writer" && there_and_back "$tcp" during-the-cut || return
    for _ in 1 2 3; do wait_for ended "$writer" && break; done
    cat /run/writer.log
    ended "$writer" && grep -qi "not connected\|timed out\|connection to the peer is lost" /run/writer.log
}
new_adapter() {
    rdma link delete rxe0 && ip link set rdma0 up && rdma link add rxe0 type rxe netdev rdma0
}

check "a pool on a file system on NVMe" up_over_tcp
check "its daemons stop" ros2store down $pool
check "settings for the adapter" settings_for_verbs
check "its daemons start over $provider" ros2store up $pool
check "the port goes down: the writer waits, and ends with an error; who does not need it is served" \
    writer_loses_the_port
check "everything acknowledged is there, over TCP" nothing_lost "$(at "$tcp" /cut)"
check "the daemons stop" ros2store down $pool
check "a new adapter" new_adapter
check "they start" ros2store up $pool
check "a tree over it" there_and_back "$direct" afterwards
check "its daemons stop" ros2store down $pool

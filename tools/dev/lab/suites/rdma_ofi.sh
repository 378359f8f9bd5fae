# The fabric over verbs by libfabric: its whole contract on ofi+verbs, on a RoCE adapter in software.
source tools/dev/lab/guest/hardware
soft_roce_with_address
export ROS2STORE_TEST_OFI="ofi+verbs rxe0"
before=$(rdma_packets)
for where in OnOneCore InTwoProcesses; do
    check "the fabric's contract over ofi+verbs: $where" build/release/fabric_ofi_test --gtest_filter="Ofi$where.*"
done
check "and it went over the adapter" test "$(rdma_packets)" -gt $((before + 100000))

# Runs the whole contract of the fabric on ucx+rc, on a RoCE adapter in software.
source tools/dev/lab/guest/hardware
soft_roce
export ROS2STORE_TEST_UCX="ucx+rc rxe0:1"
before=$(rdma_packets)
for where in OnOneCore OnTwoCores InTwoProcesses; do
    check "the fabric's contract over ucx+rc: $where" tests_pass build/release/fabric_ucx_test "Ucx$where.*"
done
check "and it went over the adapter" test "$(rdma_packets)" -gt $((before + 100000))

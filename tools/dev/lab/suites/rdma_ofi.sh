# The fabric over verbs by libfabric: its whole contract on ofi+verbs, on a RoCE adapter in software.
source tools/dev/lab/guest/hardware
soft_roce_with_address
export ROS2STORE_TEST_OFI="ofi+verbs rxe0"

# A process that has loaded libfabric's verbs cannot hand them on to a child: each case is a program.
in_two_processes() {
    local cases each
    cases=$(build/release/fabric_ofi_test --gtest_list_tests --gtest_filter="OfiInTwoProcesses.*" | sed 1d)
    (($(wc -l <<<"$cases") > 30)) || return
    for each in $cases; do
        tests_pass build/release/fabric_ofi_test "OfiInTwoProcesses.$each" || return
    done
}

before=$(rdma_packets)
check "the fabric's contract over ofi+verbs: on one core" \
    tests_pass build/release/fabric_ofi_test "OfiOnOneCore.*"
check "the fabric's contract over ofi+verbs: in two processes" in_two_processes
check "keys and frames of hostile peers" tests_pass build/release/fabric_ofi_test "OfiMessageAttack.*"
check "and it went over the adapter" test "$(rdma_packets)" -gt $((before + 100000))

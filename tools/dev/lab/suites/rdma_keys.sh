# Uses wrong memory keys over ofi+verbs: with a test peer at the fabric's endpoints, and with hosts at a running
# DPU daemon. The adapter refuses them, and only the attacker loses its connection.
source tools/dev/lab/guest/hardware
soft_roce_with_address
nvme_file_system
export TMPDIR=/mnt/nvme ROS2STORE_TEST_VERBS=rxe0 ROS2STORE_TEST_OFI="ofi+verbs rxe0"

before=$(rdma_packets)
check "keys and frames of hostile peers" tests_pass build/release/fabric_ofi_test "OfiMessageAttack.*"
check "false keys of hosts that were let in" \
    tests_pass build/release/tests/daemons/attack_test 'Of/AdapterClientAttack.*'
check "and it went over the adapter" test "$(rdma_packets)" -gt $((before + 1000))

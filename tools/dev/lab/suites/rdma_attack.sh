# Attacks a running DPU daemon over ofi+verbs: half-open connections, foreign protocols, bad certificates and
# tickets, clients that die or stop in the middle of requests (false keys: rdma_keys). Another host works over
# the same adapter meanwhile, and every byte of it is checked.
source tools/dev/lab/guest/hardware
soft_roce_with_address
nvme_file_system
export TMPDIR=/mnt/nvme ROS2STORE_TEST_VERBS=rxe0

before=$(rdma_packets)
check "peers without a ticket at its listeners" tests_pass build/release/tests/daemons/attack_test 'Of/DaemonAttack.*/dpu_verbs'
check "hosts that die, or stop" tests_pass build/release/tests/daemons/attack_test 'Of/HostileClients.*/dpu_verbs'
check "and it went over the adapter" test "$(rdma_packets)" -gt $((before + 10000))

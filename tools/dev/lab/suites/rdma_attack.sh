# Hosts that mean harm, at a running DPU daemon over ofi+verbs: half-open connections, foreign protocols, bad
# certificates and tickets, death and silence in the middle of requests (false keys: rdma_keys). A bystander over
# the same adapter works meanwhile, and every byte of it is looked at.
source tools/dev/lab/guest/hardware
soft_roce_with_address
nvme_file_system
export TMPDIR=/mnt/nvme ROS2STORE_TEST_VERBS=rxe0

before=$(rdma_packets)
check "strangers at its doors" tests_pass build/release/tests/daemons/attack_test 'Of/Attacked.*/dpu_verbs'
check "hosts that die, or stop" tests_pass build/release/tests/daemons/attack_test 'Of/HostileClients.*/dpu_verbs'
check "and it went over the adapter" test "$(rdma_packets)" -gt $((before + 10000))

# Tests the host link over verbs: hosts reach their DPU by ofi+verbs, and its adapter reads and writes their
# memory. Both are processes of this guest over one adapter with one address: Soft-RoCE does not leave the guest.
source tools/dev/lab/guest/hardware
soft_roce_with_address
provider=ofi+verbs
source tools/dev/lab/guest/verbs_pool
source tools/dev/lab/guest/writer
host="ros2s+dpu:///pool/main DIR&provider=$provider"

# Restarts the daemon under a writer. The writer waits for the new daemon and continues.
another_dpu() {
    local at_death
    start_writer "$(at "$host" /killed)" && kill -9 "$(pgrep ros2store-dpu)" && ros2store up $pool || return
    at_death=$(acknowledgements)
    wait_for acknowledged $((at_death + 100)) && kill_the_writer && nothing_lost "$(at "$host" /killed)"
}

check "a pool on a file system on NVMe" ros2store up $pool --size 256MiB
check "its daemons stop" ros2store down $pool
check "settings for hosts" settings_for_hosts
check "its daemons start" ros2store up $pool
check "the DPU listens there" grep -q "data plane: $provider at" $pool/run/dpu.log
check "a tree" there_and_back "$host" tree
check "fio" verified "$host" fio
check "the DPU's adapter moves payload by itself" one_sided dpu.log 1048576 verified "$host" fio-one-sided
check "and refuses no key of the host's" no_tenant_refused
check "why shows it" grep -q "offload over $provider" <(ros2store why "$(at "$host" /fio)")
check "the DPU is killed under load, another one comes: the writer goes on, and nothing is lost" another_dpu
check "a tree through that one" there_and_back "$host" again
check "its daemons stop" ros2store down $pool

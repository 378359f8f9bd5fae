# The host link over verbs: hosts reach their DPU by ofi+verbs, and its adapter reads and writes their memory.
# Both are processes of this guest over one adapter, with one address: Soft-RoCE does not leave it.
source tools/dev/lab/guest/hardware
soft_roce_with_address
provider=ofi+verbs
source tools/dev/lab/guest/verbs_pool
source tools/dev/lab/guest/cut_link
host="ros2s+dpu:///pool/main DIR&provider=$provider"

# Under a writer, who waits for the next one and goes on.
another_dpu() {
    ros2store mkdir "$(at "$host" /killed)" || return
    : >/run/acknowledged
    kill_writer write "$(at "$host" /killed)" 512 8 1 >/run/acknowledged &
    local writer=$! at_death
    wait_for grown 2400 && kill -9 "$(pgrep ros2store-dpu)" || return
    ros2store up $pool || return
    at_death=$(stat -c %s /run/acknowledged)
    wait_for grown $((at_death + 2400)) && kill -9 $writer || return
    wait $writer
    truncate -s $(($(stat -c %s /run/acknowledged) / 24 * 24)) /run/acknowledged
    kill_writer verify "$(at "$host" /killed)" </run/acknowledged
}

check "a pool on a file system on NVMe" ros2store up $pool --size 256MiB
check "its daemons stop" ros2store down $pool
check "settings for hosts" settings_for_hosts
check "its daemons start" ros2store up $pool
check "the DPU listens there" grep -q "data plane: $provider at" $pool/run/dpu.log
check "a tree" there_and_back "$host" tree
check "fio" verified "$host" fio
check "the DPU's adapter moves payload by itself" one_sided dpu.log 1048576 verified "$host" fio-one-sided
check "no key was refused by it" nothing_refused dpu.log
check "why shows it" grep -q "offload over $provider" <(ros2store why "$(at "$host" /fio)")
check "the DPU is killed under load, another one comes: the writer goes on, and nothing is lost" another_dpu
check "a tree through that one" there_and_back "$host" again
check "its daemons stop" ros2store down $pool

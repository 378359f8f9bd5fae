# Tests a pool directly on an NVMe namespace: io_uring sends commands to /dev/ng0n1, past the block layer.
source tools/dev/lab/guest/hardware
nvme_device
wait_for namespace_of lab1 2
small=/dev/$(namespace_of lab1 1)
large=/dev/$(namespace_of lab1 2)
PATH=$PWD/build/release/bin:$PATH
pool=/run/pool
source tools/dev/lab/guest/pool_load

# Counts commands as the driver sends them: the block layer does not count them.
trace=/sys/kernel/tracing
mount -t tracefs tracefs $trace

# The file of a pool is written once when it is made, to allocate its blocks. A namespace does not need that.
made_with_few_writes() {
    local bytes
    echo 1 >$trace/events/nvme/nvme_setup_cmd/enable
    ros2store up --no-daemons $pool --device-dir "$nvme_passthrough" || return
    echo 0 >$trace/events/nvme/nvme_setup_cmd/enable
    bytes=$(sed -nE 's/.*cmd=\(nvme_cmd_write slba=[0-9]+, len=([0-9]+),.*/\1/p' $trace/trace |
        awk '{sum += ($1 + 1) * 512} END {printf "%d", sum}')
    grep -m 2 nvme_cmd_write $trace/trace
    echo >$trace/trace
    echo "$bytes bytes were written"
    ((bytes > 4096 && bytes < 64 << 20))
}

discarded() {
    mkdir /run/large
    for i in $(seq 16); do head -c 1M /dev/urandom >/run/large/$i; done
    ros2store cp -r /run/large "$(at large)" && echo 1 >$trace/events/nvme/nvme_setup_cmd/enable &&
        ros2store rm -r "$(at large)"
    echo 0 >$trace/events/nvme/nvme_setup_cmd/enable
    grep -m 3 nvme_cmd_dsm $trace/trace
}

check "the device's contract, 512 B blocks" nvme_contract 1
check "the device's contract, 4 KiB blocks" nvme_contract 2
# A copy of a pool's namespace on another one of the same size is refused.
copy_is_refused() {
    local pool=/run/original
    umount /run/mnt && blkdiscard -z "$small" || return
    ros2store up --no-daemons $pool --device-dir "/dev/ng${small#/dev/nvme}" &&
        dd if="$small" of="$large" bs=1M oflag=direct status=none || return
    ln -sfn "/dev/ng${large#/dev/nvme}" $pool/device-0
    refused_with "it is a copy" ros2store ls "ros2s+local:///pool/main?dir=$pool" || return
    ln -sfn "/dev/ng${small#/dev/nvme}" $pool/device-0
    ros2store ls "ros2s+local:///pool/main?dir=$pool"
}

# Old data of dd in the block device's page cache does not overwrite the pool later. While a process has the
# device open, closing it flushes nothing.
late_pages_are_early() {
    local kept tree='ros2s+local:///pool/main/tree?dir=/run/late'
    rm -rf /run/original && blkdiscard -z "$small" && exec {kept}<"$small" || return
    dd if=/dev/zero of="$small" bs=1M count=8 conv=notrunc status=none || return
    ros2store up --no-daemons /run/late --device-dir "/dev/ng${small#/dev/nvme}" && ros2store cp -r /usr/include/fmt "$tree"
    exec {kept}<&-
    sync
    ros2store cp -r "$tree" /run/early && diff -r /usr/include/fmt /run/early
}

check "a pool on the namespace, without writing all of it" made_with_few_writes
check "status and query look at it" eval 'ros2store status $pool && ros2store pool query $pool'
check "a tree" there_and_back
check "fio, verified" verified
check "why shows NVMe passthrough" eval 'ros2store why "$(at fio)" | tee /dev/stderr | grep "NVMe passthrough"'
check "removed files are discarded: the driver sends the commands" discarded
check "and the tree is whole" eval 'ros2store cp -r "$(at tree)" /run/whole && diff -r /usr/include/fmt /run/whole'
check "killed under load, it has all that was acknowledged" killed
check "a second pool there is refused" refused_with "is not empty" \
    ros2store up --no-daemons /run/second --device-dir "$nvme_passthrough"
mkdir -p /run/mnt
check "and so is one on what is mounted" eval \
    'mkfs.ext4 -q "$small" && mount "$small" /run/mnt &&
     refused_with "in use" ros2store up --no-daemons /run/second --device-dir "/dev/ng${small#/dev/nvme}"'
check "a copy of a pool on a namespace of the same size is refused" copy_is_refused
check "what others left in its page cache does not come over a pool" late_pages_are_early
check "its daemons serve it" ros2store up $pool
check "the tree, through DPU and engine" eval \
    'ros2store cp -r "ros2s+dpu:///pool/main/tree?dir=$pool" /run/served && diff -r /usr/include/fmt /run/served'
check "nothing mounts it meanwhile" refused_with "already mounted|busy" mount "$nvme" /run/mnt
check "they stop" ros2store down $pool

# A pool straight on an NVMe namespace: commands from io_uring to /dev/ng0n1, past the block layer.
source tools/dev/lab/guest/hardware
nvme_device
wait_for namespace_of lab1 2
small=/dev/$(namespace_of lab1 1)
large=/dev/$(namespace_of lab1 2)
PATH=$PWD/build/release/bin:$PATH
pool=/run/pool
uri="ros2s+local:///pool/main/%s?dir=$pool"

contract() {
    ROS2STORE_TEST_NVME=$1 build/release/device_nvme_test --gtest_filter='Nvme*Namespace*'
}

# at PATH: the URI of a path in the pool.
at() {
    printf "$uri" "$1"
}

there_and_back() {
    ros2store cp -r /usr/include/fmt "$(at tree)" &&
        ros2store cp -r "$(at tree)" /run/back &&
        diff -r /usr/include/fmt /run/back
}

verified() {
    fio --name=pool --thread --ioengine=external:build/release/plugins/fio/libros2store-fio.so \
        --uri="$(at "")" --filename=fio --rw=randrw --bs=16k --size=4M --iodepth=8 --verify=crc32c \
        --do_verify=1
}

# refused_with WORDS COMMAND…: it fails, and says so.
refused_with() {
    local words=$1
    shift
    ! "$@" >/run/refusal 2>&1 || return
    cat /run/refusal
    grep -q "$words" /run/refusal
}

# Writes until it is killed; then the pool is asked for everything that was acknowledged.
killed() {
    ros2store mkdir "$(at killed)"
    kill_writer write "$(at killed)" 512 8 1 >/run/acknowledged &
    local writer=$!
    while kill -0 $writer && (($(stat -c %s /run/acknowledged) < 4800)); do sleep 0.2; done
    kill -9 $writer
    wait $writer
    truncate -s $(($(stat -c %s /run/acknowledged) / 24 * 24)) /run/acknowledged
    kill_writer verify "$(at killed)" </run/acknowledged
}

check "the device's contract, 512 B blocks" contract "/dev/ng${small#/dev/nvme}"
check "the device's contract, 4 KiB blocks" contract "/dev/ng${large#/dev/nvme}"
check "a pool on the namespace" ros2store up --no-daemons $pool --device-dir "$nvme_passthrough"
check "it says what carries it" eval 'ros2store status $pool && ros2store pool query $pool'
check "a tree" there_and_back
check "fio, verified" verified
check "why shows NVMe passthrough" eval 'ros2store why "$(at fio)" | tee /dev/stderr | grep "NVMe passthrough"'
check "killed under load, it has all that was acknowledged" killed
check "a second pool there is refused" refused_with "holds something" \
    ros2store up --no-daemons /run/second --device-dir "$nvme_passthrough"
mkdir -p /run/mnt
check "and so is one on what is mounted" eval \
    'mkfs.ext4 -q "$small" && mount "$small" /run/mnt &&
     refused_with "in use" ros2store up --no-daemons /run/second --device-dir "/dev/ng${small#/dev/nvme}"'
check "its daemons serve it" ros2store up $pool
check "nothing mounts it meanwhile" refused_with "already mounted\|busy" mount "$nvme" /run/mnt
check "they stop" ros2store down $pool

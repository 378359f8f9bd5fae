# The same namespace where the driver has poll queues: completions raise no interrupt, and the core that waits asks.
source tools/dev/lab/guest/hardware
modprobe nvme poll_queues=2
nvme_device
wait_for namespace_of lab1 2
PATH=$PWD/build/release/bin:$PATH
pool=/run/pool
source tools/dev/lab/guest/pool_load

contract() {
    ROS2STORE_TEST_NVME=/dev/ng$(namespace_of lab1 "$1" | sed s/^nvme//) \
        tests_pass build/release/device_nvme_test 'Nvme*Namespace*'
}

check "the driver polls" grep -qx 1 "/sys/block/${nvme#/dev/}/queue/io_poll"
check "the device's contract, 512 B blocks" contract 1
check "the device's contract, 4 KiB blocks" contract 2
check "a pool on the namespace" ros2store up --no-daemons $pool --device-dir "$nvme_passthrough"
check "a tree" there_and_back
check "fio, verified" verified
check "why says that it is polled" grep -q "NVMe passthrough.*polled" <(ros2store why "$(at fio)")
check "killed under load, it has all that was acknowledged" killed

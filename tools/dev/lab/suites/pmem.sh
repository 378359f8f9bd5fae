# A pool whose journal and small writes lie in persistent memory, by libpmem, and the rest on a disk.
source tools/dev/lab/guest/hardware
persistent_memory
nvme_file_system
PATH=$PWD/build/release/bin:$PATH
pool=/mnt/nvme/pool
source tools/dev/lab/guest/pool_load

contract() {
    ROS2STORE_TEST_PMEM=$1 build/release/device_pmem_test
}

# The NVDIMM without a file system.
devdax() {
    umount /mnt/pmem && ndctl create-namespace -f -e namespace0.0 -m devdax -a 4096
}

check "the device's contract, a file on DAX" contract /mnt/pmem
mkdir -p /mnt/nvme/data
check "a pool, its first device there" ros2store up --no-daemons $pool --size 512MiB --devices 2 \
    --device-dir /mnt/pmem --device-dir /mnt/nvme/data
check "a tree" there_and_back
check "fio, verified" verified
check "why shows libpmem" eval 'ros2store why "$(at fio)" | tee /dev/stderr | grep "libpmem, persistent memory"'
check "killed under load, it has all that was acknowledged" killed
check "the NVDIMM as devdax" devdax
check "the device's contract, devdax" contract /dev/dax0.0

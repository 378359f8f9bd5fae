# Checks the guest's interfaces that the other suites need, each with its own tools.
source tools/dev/lab/guest/hardware
check "a kernel with io_uring" grep -q " io_uring_setup\| __x64_sys_io_uring_setup" /proc/kallsyms
soft_roce
check "a verbs device" ibv_devinfo -d rxe0
nvme_device
check "an NVMe namespace" nvme id-ns "$nvme"
check "and its passthrough" test -c "$nvme_passthrough"
check "fio by NVMe passthrough, verified" fio --name=ng --filename="$nvme_passthrough" --ioengine=io_uring_cmd \
    --cmd_type=nvme --rw=randwrite --bs=4k --size=2M --iodepth=8 --verify=crc32c
persistent_memory
check "a file system on persistent memory" findmnt -n -O dax=always /mnt/pmem

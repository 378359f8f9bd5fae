# Tests a pool with its journal and small writes in persistent memory, by libpmem, and the rest on a disk.
source tools/dev/lab/guest/hardware
persistent_memory
nvme_file_system
PATH=$PWD/build/release/bin:$PATH
pool=/mnt/nvme/pool
source tools/dev/lab/guest/pool_load

contract() {
    ROS2STORE_TEST_PMEM=$1 tests_pass build/release/device_pmem_test 'Pmem.*'
}

# The NVDIMM without a file system.
devdax() {
    ! mountpoint -q /mnt/pmem || umount /mnt/pmem
    ndctl create-namespace -f -e namespace0.0 -m devdax -a 4096
}

# Acknowledged writes are only in the journal, because the pool is not closed. Then one bit of a record is
# changed, with later records behind it.
damaged_record() {
    start_writer "$(at later)" && kill_the_writer || return
    python3 - "$(readlink -f $pool/device-0)" <<'EOF'
import struct, sys
with open(sys.argv[1], "r+b") as file:
    image, found, at = file.read(64 << 20), [], -1
    while (at := image.find(b"RS2SJNL1", at + 1)) >= 0:
        found.append((struct.unpack_from("<Q", image, at + 64)[0], at))
    sequence, at = max(found)
    sequence, at = next(each for each in found if each[0] == sequence - 3)
    file.seek(at + 120)
    file.write(bytes([image[at + 120] ^ 1]))
    print(f"a bit of group {sequence}'s record, at {at}")
EOF
}

# Tells the kernel that the memory with a file's first bytes has lost its contents.
bad_memory() {
    local device block sector
    device=$(readlink -f $pool/device-0)
    block=$(python3 -c 'import sys
image, file = (open(name, "rb").read() for name in sys.argv[1:])
print(image.index(file[:512]) // 4096)' "$device" "$1")
    # EXTENT: FIRST.. LAST: PHYSICAL.. …, in blocks
    sector=$(filefrag -b4096 -v "$device" | tr : ' ' | tr -s . ' ' |
        awk -v block="$block" '$1 ~ /^[0-9]+$/ && block >= $2 && block <= $3 { print ($4 + block - $2) * 8 }')
    echo "block $block of $device, at sector $sector"
    echo "$sector" 8 >/sys/block/pmem0/badblocks || return
    cat /sys/block/pmem0/badblocks
}

# lost_bytes_are_an_error FILE: checks that it cannot be read, and that all others can.
lost_bytes_are_an_error() {
    local file name
    mkdir /run/rest
    for file in /usr/include/fmt/*; do
        name=${file##*/}
        ros2store cp "$(at "tree/$name")" "/run/rest/$name" 2>/run/refusal
        case $?,$name in
            "1,$1") grep -i "input/output error" /run/refusal || return ;;
            "0,$1") echo "$1 was read all the same" && return 1 ;;
            0,*) cmp "$file" "/run/rest/$name" || return ;;
            *) cat /run/refusal && return 1 ;;
        esac
    done
}

check "the device's contract, a file on DAX" contract /mnt/pmem
mkdir -p /mnt/nvme/data
check "a pool, its first device there" ros2store up --no-daemons $pool --size 512MiB \
    --device-dir /mnt/pmem --device-dir /mnt/nvme/data
check "a tree" there_and_back
check "fio, verified" verified
check "why shows libpmem" eval 'ros2store why "$(at fio)" | tee /dev/stderr | grep "libpmem, persistent memory"'
check "killed under load, it has all that was acknowledged" killed
check "a bit of a journal record turns" damaged_record
check "opening says which, and what to do" eval 'ros2store ls "$(at "")" && ros2store pool query $pool | tee /dev/stderr |
    grep "device-0: the journal record of group .* is damaged.*Copy out what you need"'
check "what was before it is whole" eval 'ros2store cp -r "$(at tree)" /run/before && diff -r /usr/include/fmt /run/before'
check "and nothing is written any more" refused_with read-only ros2store mkdir "$(at new)"

pool=/mnt/nvme/second
source tools/dev/lab/guest/pool_load
mkdir -p /mnt/pmem/second /mnt/nvme/data/second
check "another pool there" ros2store up --no-daemons $pool --size 256MiB \
    --device-dir /mnt/pmem/second --device-dir /mnt/nvme/data/second
check "a tree" ros2store cp -r /usr/include/fmt "$(at tree)"
check "memory below its data is lost" bad_memory /usr/include/fmt/args.h
check "what lay there is an error, not the end of the process" lost_bytes_are_an_error args.h
check "why shows that writes avoid it" eval \
    'ros2store why "$(at tree/core.h)" | tee /dev/stderr | grep "persistent memory with bad blocks"'
check "the NVDIMM as devdax" devdax
check "the device's contract, devdax" contract /dev/dax0.0
# Programs cannot flush that one by themselves.
check "devdax on virtio-pmem is refused" eval \
    'modules virtio_pmem && ndctl create-namespace -f -e namespace1.0 -m devdax &&
     refused_with "/dev/dax1.0 is not a directory or a device.*virtio-pmem" ros2store up --no-daemons /run/flushed --device-dir /dev/dax1.0'

# The journal in memory without a file system, the rest on a namespace without one.
wait_for namespace_of lab1 2
namespace=/dev/ng$(namespace_of lab1 2 | sed s/^nvme//)
pool=/mnt/nvme/third
source tools/dev/lab/guest/pool_load
# As it says.
clear_memory() {
    ndctl create-namespace -f -e namespace0.0 -m raw && blkdiscard -z /dev/pmem0 && devdax
}
check "a pool there is refused, for the memory holds something" refused_with "/dev/dax0.0 is not empty.*blkdiscard" \
    ros2store up --no-daemons $pool --device-dir /dev/dax0.0 --device-dir "$namespace"
check "it is cleared" clear_memory
check "a pool, its first device devdax, its second a raw namespace" \
    ros2store up --no-daemons $pool --device-dir /dev/dax0.0 --device-dir "$namespace"
check "a tree" there_and_back
check "fio, verified" verified
check "why shows memory, and two devices" grep -q "libpmem, persistent memory, 2 devices" <(ros2store why "$(at fio)")
check "killed under load, it has all that was acknowledged" killed

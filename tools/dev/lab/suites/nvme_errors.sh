# Tests NVMe namespaces that fail under a pool: a sector that cannot be read, one that cannot be written, a
# controller that is unplugged under load, one that is reset. The error is clear, no data is wrong, and the pool
# reports its state.
source tools/dev/lab/guest/hardware
source tools/dev/lab/guest/writer
modules nvme mq-deadline
wait_for namespace_of lab0 1
wait_for namespace_of lab1 2
wait_for namespace_of lab2 1
unplugged=$(namespace_of lab0 1)
failing=$(namespace_of lab2 1)
reset=$(namespace_of lab1 1)
PATH=$PWD/build/release/bin:$PATH

# at POOL PATH: prints the URI of a path in the pool.
at() {
    echo "ros2s+local:///pool/main/$2?dir=/run/$1"
}

right_up_to_it() {
    ! ros2store cat "$(at failing large)" >/run/front || return
    ls -l /run/front
    [ -s /run/front ] && cmp -n "$(stat -c %s /run/front)" /run/front /run/large
}

unplug_under_load() {
    start_writer "$(at unplugged load)" && echo 1 >"/sys/class/nvme/${unplugged%n*}/device/remove" || return
    wait_for ended "$writer"  # by itself: its next write fails
    cat /run/writer.log
    ended "$writer" || { kill -9 "$writer" && return 1; }
    ! wait "$writer" && grep -q "read-only\|Input/output\|No such device\|I/O error" /run/writer.log
}

plug_in_again() {
    echo 1 >/sys/bus/pci/rescan
    wait_for namespace_of lab0 1
    ln -sfn "/dev/ng$(namespace_of lab0 1 | sed 's/nvme//')" /run/unplugged/device-0
}

# workers_of PROCESS: counts its kernel workers, a line for each thread that they work for.
workers_of() {
    cat "/proc/$1/task/"*/comm 2>/dev/null | grep '^iou-wrk-' | sort | uniq -c
}

# A change of the scheduler freezes the queue for a moment. Commands that arrive then go to a kernel worker.
# Each thread may have one.
frozen_under_load() {
    local scheduler workers=
    start_writer "$(at reset frozen)" || return
    for _ in $(seq 25); do
        for scheduler in mq-deadline none; do
            echo "$scheduler" >"/sys/block/$reset/queue/scheduler" || return
        done
        workers+=$(workers_of "$writer")$'\n'
    done
    kill_the_writer || { cat /run/writer.log && return 1; }
    sort -u <<<"$workers"
    grep -q iou-wrk <<<"$workers" && awk '$1 > 1 { exit 1 }' <<<"$workers" && nothing_lost "$(at reset frozen)"
}

# A controller that cannot access memory (the third bit of its command register) stops at its next
# command, and the reset cancels all commands in flight. The contents of its cache may be lost: that
# is an error, and no flush is sent again.
reset_under_load() {
    local controller=/sys/class/nvme/${reset%n*}
    start_writer "$(at reset load)" || return
    printf '\x02\x04' | dd of="$controller/device/config" bs=1 seek=4 conv=notrunc status=none || return
    sleep 1
    echo 1 >"$controller/reset_controller" || return
    wait_for ended "$writer"  # by itself
    cat /run/writer.log
    ended "$writer" || { kill -9 "$writer" && return 1; }
    ! wait "$writer" && grep "the controller was reset" /run/writer.log
}

# The tree in the engine's pool can be read, except data on the second disk.
served() {
    local file whole=0 lost=0
    for file in /usr/include/fmt/*; do
        if ros2store cp "$served/tree/${file##*/}$where" /run/one 2>/run/refusal; then
            cmp "$file" /run/one || return
            whole=$((whole + 1))
        else
            cat /run/refusal
            grep -q "/device-1\|Input/output\|No such device" /run/refusal || return
            lost=$((lost + 1))
        fi
    done
    echo "$whole whole, $lost lost"
    ((whole > 0 && lost > 0))
}

# Two disks under one engine.
two_disks() {
    local first second
    first=/dev/ng$(namespace_of lab1 2 | sed s/^nvme//)
    second=$(namespace_of lab0 1)
    blkdiscard -z "/dev/$second"
    ros2store up --device-dir "$first" --device-dir "/dev/ng${second#nvme}" /run/two
}
unplug_one() {
    echo 1 >"/sys/class/nvme/$(namespace_of lab0 1 | sed 's/n1$//')/device/remove"
}
# If a process has the device open while it is removed and returns, the driver gives its two devices
# different numbers.
kept_by_another_name() {
    local controller character block
    echo 1 >/sys/bus/pci/rescan
    wait_for grep -l '^lab0 *$' /sys/class/nvme/nvme*/serial || return
    controller=$(dirname "$(grep -l '^lab0 *$' /sys/class/nvme/nvme*/serial)")
    wait_for eval "ls $controller/ng*/dev $controller/nvme[0-9]*n[0-9]*/dev" || return
    character=$(cd "$controller" && echo ng*)
    block=$(cd "$controller" && echo nvme[0-9]*n[0-9]*)
    echo "$character, $block"
    [ "${character#ng}" != "${block#nvme}" ] && mkfs.ext4 -q -F "/dev/$block" && mkdir -p /run/mnt && mount "/dev/$block" /run/mnt &&
        refused_with "in use" ros2store up --no-daemons /run/second --device-dir "/dev/$character" && umount /run/mnt
}

served=ros2s:///pool/main
where="?dir=/run/two"

check "a pool on a disk with bad sectors" ros2store up --no-daemons /run/failing --device-dir "/dev/ng${failing#nvme}"
check "random bytes, more than half of the disk" \
    dd if=/dev/urandom of=/run/large bs=1M count=150 status=none
check "a tree" ros2store cp -r /usr/include/fmt "$(at failing tree)"
check "and they fit around the sector that cannot be read" ros2store cp /run/large "$(at failing large)"
check "a read that meets it fails, and says so" refused_with "Input/output error" \
    ros2store cp "$(at failing large)" /run/back
check "with the namespace, the place and its status" grep -q "/device-0: the device reports an error for a read of .* NVMe status 0x" /run/refusal
check "what lies before it is read, and right" right_up_to_it
check "a write that meets the other one fails, and says so" refused_with "read-only.*reports an error" \
    ros2store cp /run/large "$(at failing more)"
check "the pool opens again" ros2store pool query /run/failing
check "the tree is whole" eval 'ros2store cp -r "$(at failing tree)" /run/tree && diff -r /usr/include/fmt /run/tree'

check "a pool on a disk that is unplugged" ros2store up --no-daemons /run/unplugged --device-dir "/dev/ng${unplugged#nvme}"
check "unplugged under load, the writer fails" unplug_under_load
check "the pool is refused without its disk" refused_with "ng.*cannot be opened|no such" ros2store ls "$(at unplugged load)"
check "plugged in again, it has what was acknowledged" eval 'plug_in_again && nothing_lost "$(at unplugged load)"'
check "that pool ends" ros2store pool destroy --yes /run/unplugged
check "a pool on a disk whose controller is reset" ros2store up --no-daemons /run/reset --device-dir "/dev/ng${reset#nvme}"
check "its queue is frozen under load: the writer goes on, with one worker per thread" frozen_under_load
check "reset under load, the writer fails, and says why" reset_under_load
check "opened again, it has what was acknowledged" nothing_lost "$(at reset load)"
check "an engine's pool on two disks" two_disks
check "a tree" ros2store cp -r /usr/include/fmt "$served/tree$where"
check "one disk is unplugged" unplug_one
check "what lies on the other one is served, what lay there is an error" served
check "and nothing is written any more" refused_with "read-only|/device-1|No such device" ros2store cp /usr/include/fmt/core.h "$served/new$where"
check "the engine says which disk" grep "device-1" /run/two/run/engine.log
check "plugged in again it has other names, and is refused while it is mounted" kept_by_another_name
check "its daemons stop" ros2store down /run/two

# NVMe namespaces that fail under a pool: a sector that cannot be read, one that cannot be written, and a
# controller that is unplugged in mid-load. A clear error, no wrong data, and the pool says what it is.
source tools/dev/lab/guest/hardware
modules nvme
namespace_of lab0 1 >/run/said && unplugged=$(</run/said)
namespace_of lab2 1 >/run/said && failing=$(</run/said)
PATH=$PWD/build/release/bin:$PATH

# at POOL PATH: the URI of a path in it.
at() {
    echo "ros2s+local:///pool/main/$2?dir=/run/$1"
}

# Writes until it fails, and says why.
fails_with() {
    local words=$1
    shift
    ! "$@" >/run/refusal 2>&1 || return
    cat /run/refusal
    grep -qE "$words" /run/refusal
}

# Everything that was acknowledged before the failure is there, with its own bytes, or is an error.
intact() {
    truncate -s $(($(stat -c %s /run/acknowledged) / 24 * 24)) /run/acknowledged
    kill_writer verify "$1" </run/acknowledged
}

unplug_under_load() {
    kill_writer write "$(at unplugged load)" 512 8 1 >/run/acknowledged 2>/run/writer.log &
    local writer=$!
    while kill -0 $writer && (($(stat -c %s /run/acknowledged) < 4800)); do sleep 0.2; done
    echo 1 >"/sys/class/nvme/${unplugged%n*}/device/remove"
    # It ends by itself: its next write fails.
    for _ in $(seq 300); do
        kill -0 $writer 2>/dev/null || break
        sleep 0.2
    done
    cat /run/writer.log
    ! wait $writer && grep -q "read-only\|Input/output\|No such device\|I/O error" /run/writer.log
}

plug_in_again() {
    echo 1 >/sys/bus/pci/rescan
    wait_for namespace_of lab0 1
    ln -sfn "/dev/ng$(namespace_of lab0 1 | sed 's/nvme//')" /run/unplugged/device-0
}

check "a pool on a disk with bad sectors" ros2store up --no-daemons /run/failing --device-dir "/dev/ng${failing#nvme}"
check "random bytes, more than half of the disk" \
    dd if=/dev/urandom of=/run/large bs=1M count=150 status=none
check "a tree" ros2store cp -r /usr/include/fmt "$(at failing tree)"
check "and they fit around the sector that cannot be read" ros2store cp /run/large "$(at failing large)"
check "a read that meets it fails, and says so" fails_with "Input/output error" \
    ros2store cp "$(at failing large)" /run/back
check "with the namespace, the place and its status" grep -q "/device-0: a read of .* NVMe status 0x" /run/refusal
check "a write that meets the other one fails, and says so" fails_with "read-only.*failed" \
    ros2store cp /run/large "$(at failing more)"
check "the pool opens again" ros2store pool query /run/failing
check "the tree is whole" eval 'ros2store cp -r "$(at failing tree)" /run/tree && diff -r /usr/include/fmt /run/tree'

check "a pool on a disk that is unplugged" ros2store up --no-daemons /run/unplugged --device-dir "/dev/ng${unplugged#nvme}"
check "a folder" ros2store mkdir "$(at unplugged load)"
check "unplugged under load, the writer fails" unplug_under_load
check "the pool is refused without its disk" fails_with "ng.*cannot be opened|no such" ros2store ls "$(at unplugged load)"
check "plugged in again, it has what was acknowledged" eval 'plug_in_again && intact "$(at unplugged load)"'

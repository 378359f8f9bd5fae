# Runs the guest's half of the power-loss suite (tools/dev/lab/power.py): a pool on a recorded namespace, and
# its directory on another. The program $writer writes under load. Its acknowledgements go to the host.
source tools/dev/lab/guest/hardware
source tools/dev/lab/guest/writer
modules nvme ext4
wait_for namespace_of lab3 2
pool=$(namespace_of lab3 1) place=$(namespace_of lab3 2)
PATH=$PWD/build/release/bin:$PATH
uri="ros2s+local:///pool/main/killed?dir=/run/place/pool"
for port in /sys/class/virtio-ports/*; do
    [ "$(<"$port/name")" = lab.acknowledged ] && acknowledged=/dev/${port##*/}
done
mkdir -p /run/place
check "a file system for the pool's directory" mkfs.ext4 -q "/dev/$place"
check "it is mounted" mount "/dev/$place" /run/place
check "a pool on the recorded namespace" ros2store up --no-daemons /run/place/pool --device-dir "/dev/ng${pool#nvme}"
check "a directory in it" ros2store mkdir "$uri"
sync
# Each writer is killed under load. The next one recovers the pool, which is recorded, too. The last but one
# closes the pool, so that a checkpoint is recorded.
for life in 1 2 3; do
    : >/run/acknowledged
    $writer write "$uri" 256 8 $((life * 1000000)) 2>/run/writer.log | tee "$acknowledged" >/run/acknowledged &
    for _ in 1 2 3; do wait_for acknowledged 500 && break; done
    check "the writer has done a lot" acknowledged 500
    check "and is still at it" kill -9 "$(pgrep -f "^$writer write")"
    wait
    ((life != 2)) || check "the pool is opened and closed" ros2store ls "$uri"
done

# Tests a namespace with poll queues on Linux 6.12: completions raise no interrupt, and the waiting core polls.
source tools/dev/lab/guest/hardware
source tools/dev/lab/guest/polled_nvme
pool_carried_by "NVMe passthrough .io_uring, polled\)"
check "memory that fio registered is so for passthrough, too" registered
check "its completions raise no interrupts" interrupts -lt 50
check "whoever may open the namespace's devices has a pool there" nobodys_pool

# Checks that polling is off on Debian 12's Linux 6.1, which oopses if a process is killed while it polls.
source tools/dev/lab/guest/hardware
source tools/dev/lab/guest/polled_nvme
pool_carried_by "NVMe passthrough .io_uring, not polled before Linux 6.4\)"
check "its completions raise interrupts" interrupts -gt 200
check "who may open the namespace's devices is told what else it takes" refused_with "CAP_SYS_ADMIN" nobodys_pool

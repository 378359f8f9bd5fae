# Runs the suite `nvme` on Linux 6.12, where fio's registered memory is also registered for passthrough.
source tools/dev/lab/suites/nvme.sh
check "memory that fio registered is so for passthrough, too" registered

# The same on Linux 6.12, where memory that fio registered is so for passthrough, too.
source tools/dev/lab/suites/nvme.sh
check "memory that fio registered is so for passthrough, too" registered

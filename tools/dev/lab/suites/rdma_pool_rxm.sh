# Tests a pool over ofi+verbs;ofi_rxm, whose connections belong to libfabric and serve many sessions.
source tools/dev/lab/guest/hardware
soft_roce_with_address
provider="ofi+verbs;ofi_rxm"
source tools/dev/lab/guest/verbs_pool

pool_over_verbs
check "its daemons stop" ros2store down $pool

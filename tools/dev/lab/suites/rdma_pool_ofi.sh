# Tests a pool over ofi+verbs, by libfabric: the engine's adapter reads and writes its clients' memory.
source tools/dev/lab/guest/hardware
soft_roce_with_address
provider=ofi+verbs
source tools/dev/lab/guest/verbs_pool

pool_over_verbs
check "the engine's adapter moves payload by itself" \
    one_sided engine.log 4194304 verified "ros2s:///pool/main DIR&provider=$provider" fio-one-sided
check "its daemons stop" ros2store down $pool

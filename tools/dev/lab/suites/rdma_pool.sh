# Tests a pool over verbs by UCX: the DPU daemon reaches the engine by ucx+rc, and so do clients without a DPU. A
# tree and fio go through both and are verified. The adapter's own counters confirm the path.
source tools/dev/lab/guest/hardware
soft_roce
provider=ucx+rc
source tools/dev/lab/guest/verbs_pool

pool_over_verbs
check "its daemons stop" ros2store down $pool
sed -i 's/ucx+rc/ucx+dc_x/' $pool/engine.yaml
check "an engine on ucx+dc_x is refused: the adapter has no dynamic connections" \
    refused_with "ucx.dc_x needs a ConnectX adapter.*rxe0" ros2store up $pool

# Runs the whole contract of the fabric on ofi+verbs, by libfabric, on a RoCE adapter in software.
source tools/dev/lab/guest/hardware
source tools/dev/lab/guest/ofi_contract
soft_roce_with_address
contract_over ofi+verbs

# Runs the contract on ofi+verbs;ofi_rxm, whose connections belong to libfabric and serve many sessions.
source tools/dev/lab/guest/hardware
source tools/dev/lab/guest/ofi_contract
soft_roce_with_address
contract_over "ofi+verbs;ofi_rxm"

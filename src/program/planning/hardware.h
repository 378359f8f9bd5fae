// Hardware: the machines that a plan counts, with the figures of real ones as defaults. A YAML file
// changes them (config tables). docs/planning.md has the source of each default.
//
// Invariants: after parse_hardware() every value is positive and within its range, so that the
// arithmetic of a plan divides by no zero.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "ros2s/base/result.h"
#include "ros2s/config/config.h"

namespace ros2s::planning {

struct Hardware {
    // A host: the machine of the GPUs.
    uint32_t host_gpus = 8;
    uint32_t host_cores = 112;
    uint32_t host_link_gbits = 504;  // to each of its DPUs
    // A DPU.
    uint32_t dpu_cores = 16;
    uint32_t dpu_core_percent = 100;  // of a core of the machine that measured the costs
    uint32_t dpu_network_gbits = 400;
    uint64_t dpu_memory_bandwidth = 89'600'000'000;
    uint32_t dpu_memory_passes = 4;
    // A storage server.
    uint32_t server_cores = 64;
    uint32_t server_network_gbits = 400;
    uint32_t server_devices = 16;
    uint64_t device_bandwidth = 6'500'000'000;
    uint64_t device_operations = 900'000;
    uint64_t device_capacity = 15'360'000'000'000;
    // A Ceph cluster in place of engines.
    uint32_t rados_copies = 3;
    uint64_t rados_osd_memory = uint64_t{4} << 30;
    // The part of each resource that the plan uses.
    uint32_t utilisation_percent = 80;
};

[[nodiscard]] config::Table describe(Hardware& hardware);
// `where` names the file in messages, which have line and key. Errors: invalid, too_large.
[[nodiscard]] Result<Hardware> parse_hardware(std::string_view yaml, std::string_view where,
                                              Report& report);

}  // namespace ros2s::planning

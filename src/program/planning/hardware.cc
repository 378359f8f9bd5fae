#include "ros2s/planning/hardware.h"

namespace ros2s::planning {
namespace {

constexpr uint64_t megabyte = 1'000'000;
constexpr uint64_t terabyte = megabyte * 1'000'000;

}  // namespace

config::Table describe(Hardware& hardware) {
    Hardware& h = hardware;
    return {
        {"host",
         "A machine with GPUs.",
         {config::count("gpus", h.host_gpus, 1, 1024, "GPUs of a host."),
          config::count("cores", h.host_cores, 1, 4096, "Processor cores of a host."),
          config::count("link_gbits", h.host_link_gbits, 1, 100'000,
                        "Speed of the link between a host and each of its DPUs, in Gbit/s.")}},
        {"dpu",
         "A DPU.",
         {config::count("cores", h.dpu_cores, 1, 4096, "Processor cores of a DPU."),
          config::count("core_percent", h.dpu_core_percent, 1, 1000,
                        "Speed of such a core, in percent of a core of the machine that measured "
                        "the costs."),
          config::count("network_gbits", h.dpu_network_gbits, 1, 100'000,
                        "Speed of its network port, in Gbit/s."),
          config::size("memory_bandwidth", h.dpu_memory_bandwidth, megabyte, 100 * terabyte,
                       "Bytes per second that its memory moves."),
          config::count("memory_passes", h.dpu_memory_passes, 1, 64,
                        "How often a byte of payload crosses its memory.")}},
        {"server",
         "A storage server.",
         {config::count("cores", h.server_cores, 1, 4096, "Processor cores of a server."),
          config::count("network_gbits", h.server_network_gbits, 1, 100'000,
                        "Speed of its network ports together, in Gbit/s."),
          config::count("devices", h.server_devices, 1, 1024, "NVMe devices of a server."),
          config::size("device_bandwidth", h.device_bandwidth, megabyte, 100 * terabyte,
                       "Bytes per second that a device reads."),
          config::count("device_operations", h.device_operations, 1, 1'000'000'000,
                        "4 KiB reads per second of a device."),
          config::size("device_capacity", h.device_capacity, megabyte, 1'000'000 * terabyte,
                       "Bytes of a device.")}},
        {"rados",
         "A Ceph cluster in place of engines.",
         {config::count("copies", h.rados_copies, 1, 16,
                        "Copies of each object, on as many servers: the size of the RADOS pools."),
          config::size("osd_memory", h.rados_osd_memory, megabyte, terabyte,
                       "Memory of an OSD: osd_memory_target.")}},
        {"plan",
         "How the plan uses the machines.",
         {config::count("utilisation_percent", h.utilisation_percent, 1, 100,
                        "How far a resource is filled. Above 80, requests wait long for their turn "
                        "and a plan is not trustworthy.")}},
    };
}

Result<Hardware> parse_hardware(std::string_view yaml, std::string_view where, Report& report) {
    Hardware hardware;
    ROS2S_TRY(config::parse(yaml, where, describe(hardware), report));
    return hardware;
}

}  // namespace ros2s::planning

// Namespace: an NVMe namespace, opened by its character device (/dev/ngXnY) and locked, and its
// controller's description. Opening queries the controller by ioctl, which blocks for moments.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "cache_watch.h"
#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/device/identity.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::device {

// The relevant answers of "Identify Namespace" and "Identify Controller".
struct NamespaceFormat {
    uint64_t size = 0;  // bytes, a multiple of block_bytes
    uint32_t lba_bytes = 0;
    bool has_volatile_cache = false;
    bool can_deallocate = false;
    // The namespace's part of an identity, or the controller's serial with its number.
    DeviceIdentity identity;
    std::string model;
};
// From the two answers of 4096 bytes each. Errors: unsupported (an LBA size other than 512 to 4096,
// metadata beside the blocks), corrupt (an invalid answer); the report names it.
[[nodiscard]] Result<NamespaceFormat> read_identify(const std::string& path, uint32_t number,
                                                    ConstBytes of_namespace,
                                                    ConstBytes of_controller, Report& report);

// Polling for completions, without interrupts: in use, or why not.
enum class Polling : uint8_t {
    no_queues,       // an administrator gave the driver none (nvme.poll_queues)
    kernel_too_old,  // for them: before Linux 6.4
    polled,
};

struct Namespace {
    std::string path;
    int fd = -1;     // of the character device, which is locked
    int claim = -1;  // of the block device, open exclusively; -1: the kernel hides it
    uint32_t number = 0;
    NamespaceFormat format;
    uint32_t transfer_bytes_max = 0;
    Polling polling = Polling::no_queues;
    bool takes_registered = false;  // memory of commands, from Linux 6.12 on
    bool has_paths = false;         // several controllers may lead to it; at times none does
    std::shared_ptr<CacheWatch> cache = std::make_shared<CacheWatch>();

    // Errors: not_found, denied, busy (the report names the owner), invalid (no such namespace),
    // unsupported (a kernel that loses commands), those of read_identify(), io.
    [[nodiscard]] static Task<Result<Namespace>> open(Reactor& reactor, std::string path,
                                                      Report& report);
    void close() noexcept;
};

// "ng0n1" if `path` is, or links to, an NVMe namespace's character device.
[[nodiscard]] std::optional<std::string> namespace_name(const std::string& path);

}  // namespace ros2s::device

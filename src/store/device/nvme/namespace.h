// Namespace: an NVMe namespace, opened by its character device (/dev/ngXnY) and locked, and its
// controller's description. Opening queries the controller by ioctl, which blocks for moments.
#pragma once
#include <atomic>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/device/identity.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::device {

// KernelVersion: this machine's Linux version, and the abilities of its NVMe passthrough.
//
// Distributions call their kernels 6.1.0 or 6.5.0, whatever they contain: Debian names the upstream
// release in uname's version, Ubuntu in /proc/version_signature.
struct KernelVersion {
    int major = 0;
    int minor = 0;
    int patch = 0;

    // This machine's.
    [[nodiscard]] static KernelVersion running();
    // From `release` and `version` of uname(2), and the content of /proc/version_signature, if any.
    // 0.0.0: none of them has a version.
    [[nodiscard]] static KernelVersion read(const std::string& release, const std::string& version,
                                            const std::string& signature);
    auto operator<=>(const KernelVersion&) const = default;
    [[nodiscard]] std::string to_string() const;

    // Returns true if the driver reports a command that it dropped, for example because the
    // controller goes away ("nvme: fix error-handling for io_uring nvme-passthrough"). Older
    // kernels report status 0: done.
    [[nodiscard]] bool reports_dropped_commands() const noexcept;
    // Older kernels, if they are to poll for passthrough, look for a killed process's commands in
    // memory that they have freed. The kernel oopses, and the namespace's pool cannot be opened
    // before a restart of the machine.
    [[nodiscard]] bool polls_by_request() const noexcept;
    // Older kernels refuse a command on a part of registered memory.
    [[nodiscard]] bool takes_parts_of_registered() const noexcept;
};

// CacheWatch: whether a reset of the controller may have lost data that a later flush claims to
// cover: writes that were complete and not flushed when a command met the reset. The flush after
// the reset succeeds, but proves nothing about them.
//
// One for all handles of a namespace; used on any core.
class CacheWatch {
  public:
    // For a write that is being sent.
    [[nodiscard]] uint32_t resets() const noexcept { return resets_; }
    // A write is complete. If any core met a reset since it was sent, it may have completed before
    // the reset.
    void wrote(uint32_t resets_when_sent) noexcept {
        unflushed_ = true;
        if (resets_ != resets_when_sent) lost_ = true;
    }
    // A flush is being sent. It covers the complete writes.
    void flushing() noexcept {
        ++flushes_;
        unflushed_ = false;
    }
    // A flush has ended, successfully or not. False: neither it nor any later one proves anything.
    [[nodiscard]] bool flushed() noexcept {
        --flushes_;
        return !lost_;
    }
    // A command met a reset.
    void met_reset() noexcept {
        ++resets_;
        if (unflushed_ || flushes_ > 0) lost_ = true;
    }

  private:
    std::atomic<bool> unflushed_ = false;
    std::atomic<uint32_t> flushes_ = 0, resets_ = 0;
    std::atomic<bool> lost_ = false;
};

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

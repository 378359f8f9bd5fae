// KernelCaches: what the kernel may keep of a file system that others change, too. It keeps names
// and attributes under leases (fs/leases.h), for a second at most: then it asks again, and is
// answered without a request to a server. So nothing old is shown longer, even if this process is
// stopped. When a lease is lost, the kernel is told before the server is answered.
//
// A reply may be on its way to the kernel's caches when a lease is lost. The kernel compares the
// numbers of its requests and of these notifications, so that such a reply is not kept. It has no
// number for an inode that it does not know yet: such nodes are named once more a little later.
//
// Names need Linux 6.16. The notification of older kernels that a name is gone waits for requests
// in its directory, which may wait for the very change that needs the answer.
//
// Used on the server's core.
#pragma once
#include <span>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::fuse {

// In seconds.
struct CacheTimes {
    double name = 0, attributes = 0;
};

class KernelCaches final : public fs::LeaseObserver {
  public:
    // A year. The kernel drops entries under memory pressure, or after a change through this mount.
    static constexpr CacheTimes always{365.0 * 24 * 3600, 365.0 * 24 * 3600};

    KernelCaches(fs::FileSystem& file_system, Reactor& reactor)
        : reactor_(reactor), leases_(file_system.leases()) {}
    ~KernelCaches() override { stop(); }
    KernelCaches(const KernelCaches&) = delete;
    KernelCaches& operator=(const KernelCaches&) = delete;

    // The kernel has introduced itself. Without this nothing is kept.
    void start(int descriptor, unsigned protocol_minor);
    void stop();
    [[nodiscard]] bool is_used() const { return is_started_; }
    // For a reply about the node, and its name in the directory, that came with these leases.
    [[nodiscard]] CacheTimes times(fs::NodeId directory, fs::NodeId node,
                                   std::span<const Leased> leases);

    Task<> lost(std::span<const fs::NodeId> nodes) override;
    Task<> lost_all() override;

  private:
    // False: the kernel does not know the node.
    [[nodiscard]] bool drop_attributes(fs::NodeId node) const noexcept;
    void drop_names() const noexcept;

    Reactor& reactor_;
    fs::LeaseSet* const leases_;
    int descriptor_ = -1;
    bool is_started_ = false;
    bool keeps_names_ = false;
    Time replied_{};  // when the kernel last got something to keep
};

}  // namespace ros2s::fuse

// KernelCaches: what the kernel may keep of a file system that others change, too. It keeps
// attributes under leases (fs/leases.h) for a second at most, names for 0.4 s, and names of
// directories for 5 ms. Then it asks again, and is answered without a request to a server. So
// nothing old is shown longer, even if this process is stopped. When a lease is lost, the server is
// answered after the kernel has dropped the attributes and the names, or their time is over.
//
// Pages of files stay as long as the lease is held. They have no time limit, but the kernel asks
// for the attributes before it reads them, and drops them if the file has changed. A mapping asks
// for nothing: if this process is stopped, a mapping shows old bytes until it runs again.
//
// A reply may be on its way to the kernel's caches when a lease is lost. Most such replies are not
// kept, because the kernel compares the numbers of its requests and of these notifications. Not so
// for inodes that it does not know yet. If it got something to keep lately, it is told once more a
// little later. Attributes that were set have no number, and are not to be kept.
//
// Names of files, and absent names, are dropped one by one (leased_names.h; Linux 6.2, earlier
// kernels keep none). That waits for changes of the directory by this mount, which may wait for the
// very change that needs the answer; then the names' time ends the wait. A name that the kernel got
// just now is removed, because its reply may be on its way; others expire, and keep their inodes.
// Names of directories are not dropped, since removal detaches what is mounted on them. So does a
// new epoch (Linux 6.16), and overlays fail with ESTALE.
//
// Used on the server's core.
#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>

#include "leased_names.h"
#include "page_reads.h"
#include "ros2s/base/check.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/sync.h"

struct fuse_session;

namespace ros2s::fuse {

// In seconds.
struct CacheTimes {
    double name = 0, attributes = 0;
};

class KernelCaches final : public fs::LeaseObserver {
  public:
    // A year. The kernel drops entries under memory pressure, or after a change through this mount.
    static constexpr CacheTimes always{365.0 * 24 * 3600, 365.0 * 24 * 3600};

    KernelCaches(fs::FileSystem& file_system, Reactor& reactor, BlockingPool& blocking,
                 PageReads& pages, size_t& kernel_drops)
        : reactor_(reactor),
          blocking_(blocking),
          pages_(pages),
          kernel_drops_(kernel_drops),
          leases_(file_system.leases()),
          drop_turns_(reactor, drops_at_once),
          name_turns_(reactor, 1),
          drops_(reactor, drops_max),
          idle_(reactor) {}
    ~KernelCaches() override { ROS2S_CHECK(!is_started_ && running_ == 0); }
    KernelCaches& operator=(KernelCaches&&) = delete;

    // Without this nothing is kept. `drops_names`: the kernel can make a name expire.
    void start(fuse_session* session, bool drops_names);
    // Returns when no call of the leases' owner runs here.
    Task<> stop();
    [[nodiscard]] bool is_used() const { return is_started_; }
    // For a reply about a node, and its name in the directory, that came with these leases.
    struct Reply {
        fs::NodeId directory{}, node{};
        std::string_view name{};    // of the node, or an absent one, in the directory; empty: none
        bool is_directory = false;  // the node
        Duration unchanged{};       // the directory, as far as its modification time tells
    };
    [[nodiscard]] CacheTimes times(Reply reply, std::span<const Leased> leases);

    // Around a change of names in the directory by this mount.
    void change_begins(fs::NodeId directory) {
        if (is_started_) names_.change_begins(reactor_.now(), directory);
    }
    void change_ends(fs::NodeId directory) {
        if (is_started_) names_.change_ends(reactor_.now(), directory);
    }
    void name_moves(LeasedNames::Entry from, LeasedNames::Entry to, bool is_exchange) {
        if (is_started_) names_.move(reactor_.now(), from, to, is_exchange);
    }

    // ---- pages
    // The lease of the file that is held; 0: none.
    [[nodiscard]] uint64_t lease_of(fs::NodeId node) const {
        return is_started_ ? leases_->number_of(node) : 0;
    }
    // From the beginning to the end of each read into the page cache. `is_unleased`: its pages are
    // dropped. Until they are gone, the kernel keeps no attributes of the file: it asks for them
    // before each read.
    void begin_read(fs::NodeId node, bool is_unleased) {
        ++reads_;
        if (is_unleased) ++old_pages_[node.value].unleased;
    }
    void end_read(fs::NodeId node, bool is_unleased) {
        --reads_;
        if (is_unleased) forget_old_pages(node, &OldPages::unleased);
    }
    Task<> drop_unleased(fs::NodeId node, uint64_t offset, uint64_t bytes);
    // Before the kernel gets attributes, with which it reads pages: waits until those that may be
    // old are gone, but not for long. It may be a read here that keeps them.
    Task<> attributes_asked(fs::NodeId node);

    // This mount has changed attributes in a way that the kernel does not notice.
    void attributes_changed(fs::NodeId node) const noexcept {
        if (is_started_) drop_attributes(node);
    }

    Task<> lost(std::span<const Leased> leases) override;
    Task<> lost_all() override;

  private:
    // A read that a drop waits for may need a thread, too.
    static constexpr size_t drops_at_once = 2;
    static constexpr size_t drops_max = 1024;
    [[nodiscard]] Duration name_time(const Reply& reply, Time now, Duration rest);
    void drop_attributes(fs::NodeId node) const noexcept;
    Task<> drop_attributes(std::span<const Leased> leases);
    // Pages in the kernel that may be old.
    struct OldPages {
        size_t leased = 0;    // drops of pages whose lease is lost
        size_t unleased = 0;  // reads without a lease, and drops of their pages
    };
    void forget_old_pages(fs::NodeId node, size_t OldPages::* which);
    Task<> old_pages_gone(fs::NodeId node, bool leased_only, Time late);
    Task<> drop_pages(std::vector<PageReads::Read> pages);
    Task<> drop_files(std::vector<fs::NodeId> nodes);
    Task<> drop_names(std::span<const Leased> leases);
    struct NameDrop;
    Task<> run(std::shared_ptr<NameDrop> drop);

    Reactor& reactor_;
    BlockingPool& blocking_;
    PageReads& pages_;
    size_t& kernel_drops_;
    fs::LeaseSet* const leases_;
    fuse_session* session_ = nullptr;
    bool is_started_ = false, drops_names_ = false;
    Time replied_{};            // when the kernel last got something to keep
    Time kept_until_{};         // when it has nothing any more, apart from pages
    Time directories_until_{};  // when it has no names of directories any more
    LeasedNames names_;
    size_t running_ = 0, reads_ = 0;
    std::unordered_map<uint64_t, OldPages> old_pages_;  // by node
    Semaphore drop_turns_, name_turns_;
    Nursery drops_;
    Event idle_;
};

}  // namespace ros2s::fuse

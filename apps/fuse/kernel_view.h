// KernelView: what the kernel may have of borrowed files in its caches: pages, attributes, and a
// size. A write past the kernel is done when the kernel has dropped what it made old. A read past
// the kernel begins when the stores of programs to mappings of the file are written back.
//
// A notification to the kernel costs more than a small write. So requests of the kernel note what
// it gets, and nothing is sent for a file of which it has nothing.
//
// Used on the server's core.
#pragma once
#include <cstddef>
#include <map>
#include <optional>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::fuse {

class Server;

class KernelView {
  public:
    explicit KernelView(Server& server);

    // One more handle of the file is borrowed, or one less.
    void borrowed(fs::NodeId node);
    void returned(fs::NodeId node);

    // ---- requests of the kernel, for any file
    // From the arrival of a request that puts pages of the file into its cache, and again just
    // before the reply.
    void gets_pages(fs::NodeId node) noexcept {
        if (Node* const known = find(node)) known->may_have_pages = true;
    }
    void gets_attributes(fs::NodeId node) noexcept {
        if (Node* const known = find(node)) known->may_have_attributes = true;
    }
    void sets_size(fs::NodeId node) noexcept {
        if (Node* const known = find(node)) known->size_least = 0;
    }
    // Around a change of attributes, to the end of its reply, which sets the kernel's size. It may
    // be older than a write that is done meanwhile.
    void setting_begins(fs::NodeId node) { ++setting_[node]; }
    void setting_ends(fs::NodeId node);

    // ---- of a borrowed file
    // Returns when no page has a store that is not written back.
    Task<> before(fs::NodeId node);
    // After a write up to `end`, whose last byte this is.
    Task<> after_write(fs::NodeId node, uint64_t end, std::byte last);

    // What the kernel still has ends with the mount.
    void begin_ending() noexcept { is_ending_ = true; }

  private:
    struct Node {
        size_t handles = 0;
        size_t drops = 0;  // in progress
        bool may_have_pages = true, may_have_attributes = true;
        uint64_t size_least = 0;  // the kernel takes the file for at least as long
    };
    struct Byte {
        uint64_t offset = 0;
        std::byte value{};
    };
    [[nodiscard]] Node* find(fs::NodeId node) noexcept {
        if (nodes_.empty()) return nullptr;
        const auto found = nodes_.find(node);
        return found == nodes_.end() ? nullptr : &found->second;
    }
    Task<> until_dropped(fs::NodeId node);
    Task<> until_set(fs::NodeId node);
    Task<> drop(fs::NodeId node, std::optional<Byte> stored);

    Server& server_;
    std::map<fs::NodeId, Node> nodes_;
    std::map<fs::NodeId, size_t> setting_;
    Event dropped_;
    // A read that it waits for may need a helper thread, too.
    Semaphore turn_;
    bool is_ending_ = false;
};

}  // namespace ros2s::fuse

// LocalNodes: the nodes that a LocalFs has handed out. A node is known by its inode, by a
// fingerprint of the kernel's file handle, which tells a file from a later one with the same inode
// number, and by where it was found last: a name in another node. While it is used, and for a while
// after, it has an O_PATH descriptor; of those that are not used a bounded number is kept, and the
// one used longest ago is closed first. The directory opens what it needs again by its names.
//
// Invariant: a node lives while it has references (lookups not yet forgotten), uses (calls and
// handles) or nodes that were found in it. Ids are counted up and never reused. All but the root's
// begin anywhere, so that an earlier process's mean nothing here.
#pragma once
#include <sys/stat.h>

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "descriptor.h"
#include "ros2s/base/check.h"
#include "ros2s/fs/file_system.h"

namespace ros2s::foreign {

// What was found under a name.
struct Found {
    Descriptor path;  // O_PATH
    struct stat status{};
    uint64_t fingerprint = 0;  // of its file handle; 0: the file system has none
};

struct LocalNode {
    fs::NodeId id{};
    mode_t type = 0;
    std::pair<dev_t, ino_t> inode;
    uint64_t fingerprint = 0;
    Descriptor path{};  // O_PATH, or none
    // Where it was found last. None: the root, and what cannot be found again.
    LocalNode* parent = nullptr;
    std::string name{};
    uint64_t references = 0;
    uint64_t uses = 0;
    uint64_t children = 0;                   // whose parent it is
    std::list<LocalNode*>::iterator idle{};  // where uses == 0 and there is a descriptor

    [[nodiscard]] bool is_open() const { return path.get() >= 0; }
    [[nodiscard]] bool is(const Found& found) const {
        return inode == std::pair{found.status.st_dev, found.status.st_ino} &&
               fingerprint == found.fingerprint;
    }
};

class LocalNodes {
  public:
    LocalNodes(uint64_t random, size_t descriptors_max)
        : first_(fs::root_node.value + 1 + (random >> 16)), descriptors_max_(descriptors_max) {}
    LocalNodes(const LocalNodes&) = delete;
    LocalNodes& operator=(const LocalNodes&) = delete;

    // The root, for ever used.
    void add_root(Found found) { ++add(std::move(found), nullptr, {}).references; }
    // The node of what was found under `name` in `parent`, with one more reference. It may lose its
    // descriptor at once: who goes on uses it.
    LocalNode& add(Found found, LocalNode* parent, const std::string& name);
    // What was moved, or found again by somebody, is under this name now.
    void found_at(LocalNode& node, LocalNode* parent, const std::string& name);
    [[nodiscard]] LocalNode* find(fs::NodeId id) const {
        const auto found = nodes_.find(id.value);
        return found == nodes_.end() ? nullptr : found->second.get();
    }
    // Null: it was not handed out.
    [[nodiscard]] LocalNode* find(dev_t device, ino_t inode) const {
        const auto found = ids_.find({device, inode});
        return found == ids_.end() ? nullptr : find(fs::NodeId{found->second});
    }
    // What readdir shows for an entry: its node's id where it has one, else a number that is no
    // node.
    [[nodiscard]] fs::NodeId shown(dev_t device, ino_t inode) const {
        const LocalNode* node = find(device, inode);
        return {node == nullptr ? uint64_t{1} << 63 | inode : node->id.value};
    }
    void forget(fs::NodeId id, uint64_t count) {
        LocalNode* node = find(id);
        if (node == nullptr || id == fs::root_node) return;
        node->references -= std::min(node->references, count);
        drop_if_unused(*node);
    }
    void begin_use(LocalNode& node) {
        if (node.uses++ == 0 && node.is_open()) idle_.erase(node.idle);
    }
    void end_use(LocalNode& node) {
        ROS2S_CHECK(node.uses > 0);
        if (--node.uses > 0) return;
        if (node.is_open()) {
            node.idle = idle_.insert(idle_.end(), &node);
            close_idle();
        }
        drop_if_unused(node);
    }
    // The node is used.
    void opened_again(LocalNode& node, Descriptor path) {
        if (!node.is_open()) node.path = std::move(path);
    }

  private:
    void close_idle();
    void drop_if_unused(LocalNode& node);

    const uint64_t first_;
    const size_t descriptors_max_;
    uint64_t next_ = fs::root_node.value;  // the root is added first
    std::map<std::pair<dev_t, ino_t>, uint64_t> ids_;
    std::unordered_map<uint64_t, std::unique_ptr<LocalNode>> nodes_;  // never iterated
    std::list<LocalNode*> idle_;  // open and not used; the one used longest ago is the first
};

// A call that uses a node; empty where there is no such node.
class [[nodiscard]] NodeUse {
  public:
    NodeUse(LocalNodes& nodes, fs::NodeId id) : nodes_(&nodes), node_(nodes.find(id)) {
        if (node_ != nullptr) nodes_->begin_use(*node_);
    }
    NodeUse(NodeUse&& other) noexcept
        : nodes_(other.nodes_), node_(std::exchange(other.node_, nullptr)) {}
    NodeUse(const NodeUse&) = delete;
    NodeUse& operator=(const NodeUse&) = delete;
    NodeUse& operator=(NodeUse&&) = delete;
    ~NodeUse() {
        if (node_ != nullptr) nodes_->end_use(*node_);
    }
    explicit operator bool() const { return node_ != nullptr; }
    // Of a node that is open.
    [[nodiscard]] int fd() const { return node_->path.get(); }
    LocalNode* operator->() const { return node_; }
    LocalNode& operator*() const { return *node_; }

  private:
    LocalNodes* nodes_;
    LocalNode* node_;
};

}  // namespace ros2s::foreign

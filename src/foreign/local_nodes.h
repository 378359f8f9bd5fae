// LocalNodes: the nodes that a LocalFs has handed out, each held by an O_PATH descriptor, so that
// the kernel does not give its inode number to another file meanwhile.
//
// Invariant: a node lives while it has references (lookups not yet forgotten) or uses (calls and
// handles). Ids are counted up and never reused. All but the root's begin anywhere, so that an
// earlier process's mean nothing here.
#pragma once
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

#include "descriptor.h"
#include "ros2s/base/check.h"
#include "ros2s/fs/file_system.h"

namespace ros2s::foreign {

struct LocalNode {
    fs::NodeId id{};
    Descriptor path;  // O_PATH
    mode_t type = 0;
    std::pair<dev_t, ino_t> inode;
    uint64_t references = 0;
    uint64_t uses = 0;
};

class LocalNodes {
  public:
    explicit LocalNodes(uint64_t random) : first_(fs::root_node.value + 1 + (random >> 16)) {}
    // The node of what `path` names, with one more reference.
    LocalNode& add(Descriptor path, const struct stat& status) {
        const std::pair inode{status.st_dev, status.st_ino};
        uint64_t& id = ids_[inode];
        if (id == 0) {
            id = next_;
            next_ = std::max(next_ + 1, first_);
            nodes_[id] = std::make_unique<LocalNode>(LocalNode{.id = {id},
                                                               .path = std::move(path),
                                                               .type = status.st_mode & S_IFMT,
                                                               .inode = inode});
        }
        LocalNode& node = *nodes_[id];
        ++node.references;
        return node;
    }
    [[nodiscard]] LocalNode* find(fs::NodeId id) const {
        const auto found = nodes_.find(id.value);
        return found == nodes_.end() ? nullptr : found->second.get();
    }
    // What readdir shows for an entry: its node's id where it has one, else a number that is no
    // node.
    [[nodiscard]] fs::NodeId shown(dev_t device, ino_t inode) const {
        const auto found = ids_.find({device, inode});
        return {found == ids_.end() ? uint64_t{1} << 63 | inode : found->second};
    }
    void forget(fs::NodeId id, uint64_t count) {
        LocalNode* node = find(id);
        if (node == nullptr || id == fs::root_node) return;
        node->references -= std::min(node->references, count);
        drop_if_unused(*node);
    }
    void end_use(LocalNode& node) {
        ROS2S_CHECK(node.uses > 0);
        --node.uses;
        drop_if_unused(node);
    }

  private:
    void drop_if_unused(LocalNode& node) {
        if (node.references > 0 || node.uses > 0) return;
        ids_.erase(node.inode);
        nodes_.erase(node.id.value);
    }
    const uint64_t first_;
    uint64_t next_ = fs::root_node.value;  // the root is added first
    std::map<std::pair<dev_t, ino_t>, uint64_t> ids_;
    std::unordered_map<uint64_t, std::unique_ptr<LocalNode>> nodes_;  // never iterated
};

// A call that uses a node; empty where there is no such node.
class [[nodiscard]] NodeUse {
  public:
    NodeUse(LocalNodes& nodes, fs::NodeId id) : nodes_(nodes), node_(nodes.find(id)) {
        if (node_ != nullptr) ++node_->uses;
    }
    NodeUse(const NodeUse&) = delete;
    NodeUse& operator=(const NodeUse&) = delete;
    ~NodeUse() {
        if (node_ != nullptr) nodes_.end_use(*node_);
    }
    explicit operator bool() const { return node_ != nullptr; }
    [[nodiscard]] int fd() const { return node_->path.get(); }
    LocalNode* operator->() const { return node_; }
    LocalNode& operator*() const { return *node_; }

  private:
    LocalNodes& nodes_;
    LocalNode* node_;
};

}  // namespace ros2s::foreign

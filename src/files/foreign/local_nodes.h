// LocalNodes: the nodes that a LocalDirectory has returned. A node is identified by its inode and
// by a fingerprint of the kernel's file handle, which distinguishes a file from a later one with
// the same inode number. It also records where it was last found: a name in another node. While it
// is used, and for a while after, it has an O_PATH descriptor. Of unused nodes a limited number
// keeps one; the least recently used is closed first. The directory opens nodes again by their
// names.
//
// Invariant: a node exists while it has references (lookups not yet forgotten), uses (calls and
// handles) or nodes that were found in it. A client can make a chain of directories of any length,
// whose nodes all become unused with the last one, so they are dropped in slices. Ids increase and
// are never reused. Except for the root's, they start at a random value, so ids of an earlier
// process are not valid here.
#pragma once
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "descriptor.h"
#include "ros2s/base/check.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/fs/node_use.h"

namespace ros2s::foreign {

// The result of opening a name.
struct FoundNode {
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
    // The directory in which it was last found. Null: the root, and nodes that cannot be found
    // again.
    LocalNode* parent = nullptr;
    std::string name{};
    uint64_t references = 0;
    uint64_t uses = 0;
    uint64_t children = 0;                   // number of nodes whose parent it is
    std::list<LocalNode*>::iterator idle{};  // valid if uses == 0 and there is a descriptor

    // If it is open.
    [[nodiscard]] int fd() const { return path.get(); }
    [[nodiscard]] bool is_open() const { return path.get() >= 0; }
    [[nodiscard]] bool is_unused() const { return references == 0 && uses == 0 && children == 0; }
    [[nodiscard]] bool is(const FoundNode& found) const {
        return inode == std::pair{found.status.st_dev, found.status.st_ino} &&
               fingerprint == found.fingerprint;
    }
};

class LocalNodes {
  public:
    static constexpr size_t slice_of_nodes = 64;

    struct Bounds {
        size_t descriptors_max;  // of nodes that are not in use
        size_t nodes_max;
    };
    // `close` closes the descriptor of a node that is not in use any more. `drop_later` is called
    // when there is something for drop_some().
    LocalNodes(uint64_t random, Bounds bounds, std::function<void(Descriptor)> close,
               std::function<void()> drop_later)
        : first_(fs::root_node.value + 1 + (random >> 16)),
          bounds_(bounds),
          close_(std::move(close)),
          drop_later_(std::move(drop_later)) {}
    LocalNodes& operator=(LocalNodes&&) = delete;

    [[nodiscard]] size_t count() const { return nodes_.size(); }
    // Checks that there is room for another node. Errors: busy (detail: the limit).
    [[nodiscard]] Result<> check_room() const {
        return count() < bounds_.nodes_max ? Result<>() : fail(Code::busy, bounds_.nodes_max);
    }
    // Checks that the file has a node, or may get one. Errors: busy.
    [[nodiscard]] Result<> check_room(const FoundNode& found) const {
        const LocalNode* node = find(found.status.st_dev, found.status.st_ino);
        return node != nullptr && node->is(found) ? Result<>() : check_room();
    }
    // The root, which is always in use.
    void add_root(FoundNode found) { ++add_in_use(std::move(found), nullptr, {}).references; }
    // The node for `name` in `parent`, with one more reference; without a parent, it has no name.
    // It may lose its descriptor at once, unless the caller begins to use it. Call check_room()
    // first.
    LocalNode& add(FoundNode found, LocalNode* parent, const std::string& name) {
        LocalNode& node = add_in_use(std::move(found), parent, name);
        end_use(node);
        return node;
    }
    // Records a new name of the node, after a move or after it was found again.
    void found_at(LocalNode& node, LocalNode* parent, const std::string& name);
    [[nodiscard]] LocalNode* find(fs::NodeId id) const {
        const auto found = nodes_.find(id.value);
        return found == nodes_.end() ? nullptr : found->second.get();
    }
    // Null if it was not returned before.
    [[nodiscard]] LocalNode* find(dev_t device, ino_t inode) const {
        const auto found = ids_.find({device, inode});
        return found == ids_.end() ? nullptr : find(fs::NodeId{found->second});
    }
    // The number that readdir shows for an entry: the id of its node if there is one, otherwise a
    // number that is not a node.
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
    // Sets the descriptor of a node in use.
    void opened_again(LocalNode& node, Descriptor path) {
        if (!node.is_open()) node.path = std::move(path);
    }

    // Drops a slice of the nodes that are not used any more. False: there are no others.
    bool drop_some();

  private:
    LocalNode& add_in_use(FoundNode found, LocalNode* parent, const std::string& name);
    void close_idle();
    // The node, and a slice of those above it.
    void drop_if_unused(LocalNode& node) { (void)drop_unused(node, 1 + slice_of_nodes); }
    // The node and those above it, as far as they are unused. Returns how many were dropped.
    // drop_some() drops the rest.
    size_t drop_unused(LocalNode& node, size_t most);

    const uint64_t first_;
    const Bounds bounds_;
    const std::function<void(Descriptor)> close_;
    const std::function<void()> drop_later_;
    uint64_t next_ = fs::root_node.value;  // the root is added first
    std::map<std::pair<dev_t, ino_t>, uint64_t> ids_;
    std::unordered_map<uint64_t, std::unique_ptr<LocalNode>> nodes_;  // never iterated
    std::list<LocalNode*> idle_;      // open and unused; the least recently used is first
    std::vector<fs::NodeId> unused_;  // for drop_some(), unless they are used again
};

using NodeUse = fs::NodeUse<LocalNodes, LocalNode>;

}  // namespace ros2s::foreign

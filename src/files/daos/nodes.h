// Nodes: what a DaosFileSystem has returned to its callers. A node is identified by DAOS's id of
// its object, which has 128 bits and is never used again in its container. Here it has an id of 64
// bits, which increases and is never reused. Except for the root's, ids start at a random value, so
// an id of an earlier process is not valid here.
//
// DAOS keeps the attributes of an object in the entry of its directory. An open object of libdfs
// therefore depends on the name under which it was found. After a move it is opened again.
//
// Invariant: a node exists while it has references (look-ups not yet forgotten), open files, or
// nodes that were found in it. Used on one core.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "libdfs.h"
#include "ros2s/base/check.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/fs/node_use.h"

namespace ros2s::daos {

// An open object of libdfs. Calls that use it keep a copy of the pointer to it.
class Object {
  public:
    Object(const Libdfs& libdfs, dfs_obj_t* object) : libdfs_(libdfs), object_(object) {}
    Object& operator=(Object&&) = delete;
    // Has no request to a server.
    ~Object() { (void)libdfs_.dfs_release(object_); }
    [[nodiscard]] dfs_obj_t* get() const { return object_; }

  private:
    const Libdfs& libdfs_;
    dfs_obj_t* object_;
};
using ObjectRef = std::shared_ptr<const Object>;

using ObjectId = std::pair<uint64_t, uint64_t>;  // high and low word

// The result of looking a name up.
struct FoundNode {
    ObjectRef object;
    ObjectId id;
    struct stat status{};
};

struct Node {
    fs::NodeId id{};
    ObjectId object_id{};
    mode_t mode = 0;  // of the last look-up or change
    gid_t gid = 0;
    ObjectRef object{};
    Node* parent = nullptr;  // where it was found; null: the root, and what was removed
    std::string name{};
    uint64_t references = 0;
    uint64_t opens = 0;
    uint64_t children = 0;
    // Changes of its content or attributes: in progress, and done.
    uint64_t changing = 0, changes = 0;
    bool is_removed = false;
};

// The changes of a node at one time. Empty: there was no node.
struct ChangeMark {
    fs::NodeId node{};
    uint64_t changes = 0;
    bool is_quiet = true;
    static ChangeMark of(const Node* node) {
        if (node == nullptr) return {};
        return {.node = node->id, .changes = node->changes, .is_quiet = node->changing == 0};
    }
    // True if nothing has changed since, and no change is in progress.
    friend bool operator==(const ChangeMark& before, const ChangeMark& now) {
        return before.node == now.node && before.changes == now.changes && before.is_quiet &&
               now.is_quiet;
    }
};

class Nodes {
  public:
    explicit Nodes(uint64_t random) : first_(fs::root_node.value + 1 + (random >> 16)) {}
    Nodes& operator=(Nodes&&) = delete;

    // The node for `name` in `parent`, with one more reference. Null parent: the root.
    Node& add(FoundNode found, Node* parent, const std::string& name);
    // Records the name under which it was found, which may be new.
    void found_at(Node& node, FoundNode found, Node* parent, const std::string& name);
    void removed(Node& node);
    // Null: it never was, or is forgotten.
    [[nodiscard]] Node* find_any(fs::NodeId id) const {
        const auto found = nodes_.find(id.value);
        return found == nodes_.end() ? nullptr : found->second.get();
    }
    // Null also: it was removed.
    [[nodiscard]] Node* find(fs::NodeId id) const {
        Node* const node = find_any(id);
        return node == nullptr || node->is_removed ? nullptr : node;
    }
    [[nodiscard]] Node* find(const ObjectId& id) const {
        const auto found = ids_.find(id);
        return found == ids_.end() ? nullptr : find(fs::NodeId{found->second});
    }
    // Null: it was not looked up.
    [[nodiscard]] Node* find(const Node& parent, const std::string& name) const {
        const auto found = names_.find({parent.id.value, name});
        return found == names_.end() ? nullptr : find(fs::NodeId{found->second});
    }
    void forget(fs::NodeId id, uint64_t count);
    void begin_use(Node& node) { ++node.opens; }
    void end_use(Node& node) {
        ROS2S_CHECK(node.opens > 0);
        --node.opens;
        drop_if_unused(node);
    }
    void begin_change(fs::NodeId id) {
        if (Node* const node = find_any(id)) ++node->changing;
    }
    void end_change(fs::NodeId id) {
        if (Node* const node = find_any(id)) {
            --node->changing;
            ++node->changes;
        }
    }
    // Releases all objects.
    void clear() {
        names_.clear();
        ids_.clear();
        nodes_.clear();
    }

  private:
    void place(Node& node, Node* parent, const std::string& name);
    void drop_if_unused(Node& node);

    const uint64_t first_;
    uint64_t next_ = fs::root_node.value;  // the root is added first
    std::unordered_map<uint64_t, std::unique_ptr<Node>> nodes_;
    std::map<ObjectId, uint64_t> ids_;
    std::map<std::pair<uint64_t, std::string>, uint64_t> names_;
};

// A change of a node's content or attributes, from before the request until after the reply.
class Change {
  public:
    Change(Nodes& nodes, fs::NodeId id) : nodes_(nodes), id_(id) { nodes_.begin_change(id_); }
    Change& operator=(Change&&) = delete;
    ~Change() { nodes_.end_change(id_); }

  private:
    Nodes& nodes_;
    const fs::NodeId id_;
};

using NodeUse = fs::NodeUse<Nodes, Node>;

}  // namespace ros2s::daos

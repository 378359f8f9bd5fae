#include "nodes.h"

#include <algorithm>

namespace ros2s::daos {

Node& Nodes::add(FoundNode found, Node* parent, const std::string& name) {
    Node* node = find(found.id);
    if (node == nullptr) {
        const uint64_t id = next_;
        next_ = std::max(next_ + 1, first_);
        auto& made = nodes_[id] = std::make_unique<Node>();
        node = made.get();
        node->id = {id};
        node->object_id = found.id;
        ids_[found.id] = id;
    }
    ++node->references;
    found_at(*node, std::move(found), parent, name);
    return *node;
}

void Nodes::found_at(Node& node, FoundNode found, Node* parent, const std::string& name) {
    node.mode = found.status.st_mode;
    node.gid = found.status.st_gid;
    if (node.object != nullptr && node.parent == parent && node.name == name) return;
    node.object = std::move(found.object);
    place(node, parent, name);
}

void Nodes::removed(Node& node) {
    place(node, nullptr, {});
    node.is_removed = true;
    ids_.erase(node.object_id);
    drop_if_unused(node);
}

void Nodes::place(Node& node, Node* parent, const std::string& name) {
    // Other programs change names, so two recorded names may contradict each other.
    for (const Node* above = parent; above != nullptr; above = above->parent) {
        if (above == &node) parent = nullptr;
        if (parent == nullptr) break;
    }
    Node* const before = std::exchange(node.parent, parent);
    if (before != nullptr) {
        const auto named = names_.find({before->id.value, node.name});
        if (named != names_.end() && named->second == node.id.value) names_.erase(named);
    }
    node.name = parent == nullptr ? std::string() : name;
    if (parent != nullptr) {
        ++parent->children;
        names_[{parent->id.value, name}] = node.id.value;
    }
    if (before == nullptr) return;
    --before->children;
    drop_if_unused(*before);
}

void Nodes::forget(fs::NodeId id, uint64_t count) {
    const auto found = nodes_.find(id.value);
    if (found == nodes_.end() || id == fs::root_node) return;
    Node& node = *found->second;
    node.references -= std::min(node.references, count);
    drop_if_unused(node);
}

void Nodes::drop_if_unused(Node& node) {
    Node* each = &node;
    while (each->references == 0 && each->opens == 0 && each->children == 0) {
        Node* const parent = each->parent;
        if (parent != nullptr) {
            const auto named = names_.find({parent->id.value, each->name});
            if (named != names_.end() && named->second == each->id.value) names_.erase(named);
        }
        const auto id = ids_.find(each->object_id);
        if (id != ids_.end() && id->second == each->id.value) ids_.erase(id);
        nodes_.erase(each->id.value);
        if (parent == nullptr) return;
        --parent->children;
        each = parent;
    }
}

}  // namespace ros2s::daos

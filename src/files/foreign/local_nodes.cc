#include "local_nodes.h"

namespace ros2s::foreign {

LocalNode& LocalNodes::add_in_use(FoundNode found, LocalNode* parent, const std::string& name) {
    const std::pair inode{found.status.st_dev, found.status.st_ino};
    LocalNode* node = find(inode.first, inode.second);
    // This file has the number of a removed one.
    if (node != nullptr && !node->is(found)) node = nullptr;
    if (node == nullptr) {
        const uint64_t id = next_;
        next_ = std::max(next_ + 1, first_);
        ids_[inode] = id;
        auto& made = nodes_[id] = std::make_unique<LocalNode>();
        node = made.get();
        node->id = {id};
        node->type = found.status.st_mode & S_IFMT;
        node->inode = inode;
        node->fingerprint = found.fingerprint;
    }
    ++node->references;
    begin_use(*node);
    opened_again(*node, std::move(found.path));
    found_at(*node, parent, name);
    return *node;
}

void LocalNodes::found_at(LocalNode& node, LocalNode* parent, const std::string& name) {
    // Other programs change names, so two of them may contradict each other.
    for (const LocalNode* above = parent; above != nullptr; above = above->parent) {
        if (above == &node) parent = nullptr;
        if (parent == nullptr) break;
    }
    LocalNode* const before = std::exchange(node.parent, parent);
    node.name = parent == nullptr ? std::string() : name;
    if (parent != nullptr) ++parent->children;
    if (before == nullptr) return;
    --before->children;
    drop_if_unused(*before);
}

void LocalNodes::close_idle() {
    while (idle_.size() > bounds_.descriptors_max) {
        close_(std::exchange(idle_.front()->path, Descriptor()));
        idle_.pop_front();
    }
}

size_t LocalNodes::drop_unused(LocalNode& node, size_t most) {
    LocalNode* each = &node;
    size_t dropped = 0;
    while (each->is_unused()) {
        if (dropped == most) {
            unused_.push_back(each->id);
            drop_later_();
            break;
        }
        ++dropped;
        LocalNode* const parent = each->parent;
        if (each->is_open()) {
            idle_.erase(each->idle);
            close_(std::move(each->path));
        }
        const auto id = ids_.find(each->inode);
        if (id != ids_.end() && id->second == each->id.value) ids_.erase(id);
        nodes_.erase(each->id.value);
        if (parent == nullptr) break;
        --parent->children;
        each = parent;
    }
    return dropped;
}

bool LocalNodes::drop_some() {
    for (size_t left = slice_of_nodes; left > 0 && !unused_.empty();) {
        LocalNode* const node = find(unused_.back());
        unused_.pop_back();
        left -= std::max<size_t>(node == nullptr ? 0 : drop_unused(*node, left), 1);
    }
    return !unused_.empty();
}

}  // namespace ros2s::foreign

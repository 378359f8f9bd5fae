// NodeUse: a use of a node by a call. The node exists until it ends. Empty if there is no such
// node.
#pragma once
#include <utility>

namespace ros2s::fs {

template <class Nodes, class Node>
class [[nodiscard]] NodeUse {
  public:
    NodeUse(Nodes& nodes, Node* node) : nodes_(&nodes), node_(node) {
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
    Node* operator->() const { return node_; }
    Node& operator*() const { return *node_; }

  private:
    Nodes* nodes_;
    Node* node_;
};

}  // namespace ros2s::fs

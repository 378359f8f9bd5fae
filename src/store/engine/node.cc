#include "node.h"

#include <cstring>
#include <new>

namespace ros2s::engine {

std::unique_ptr<Node, Node::Delete> Node::make(std::string_view key, uint32_t core) {
    auto* const memory = static_cast<char*>(::operator new(sizeof(Node) + key.size()));
    char* const copy = memory + sizeof(Node);
    std::memcpy(copy, key.data(), key.size());
    return std::unique_ptr<Node, Delete>(new (memory) Node{.key{copy, key.size()}, .core = core});
}

void Node::Delete::operator()(Node* node) const noexcept {
    node->~Node();
    ::operator delete(node);
}

std::string encode(const Node& node) {
    if (const EntryValue* entry = node.entry()) return encode(*entry);
    return encode(*node.summary());
}

}  // namespace ros2s::engine

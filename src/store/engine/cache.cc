#include "cache.h"

#include <cstring>
#include <new>
#include <utility>

#include "ros2s/base/check.h"

namespace ros2s::engine {

namespace {
// Nodes that one call of shrink() looks at, at least and for each new node. A node is looked at
// twice before it is evicted.
constexpr size_t looks_least = 256;
constexpr size_t looks_per_node = 4;
}  // namespace

NodeCache::NodeCache(uint32_t core, uint64_t hash_key)
    : core_(core), table_(hash_key), order_(std::make_unique<Order>()) {}
NodeCache::~NodeCache() {
    while (oldest_ != nullptr) destroy(*oldest_);
}

Node& NodeCache::insert(std::string_view key) {
    Node& node = *Node::make(key, core_).release();
    table_.add(node);
    order_->insert(&node);
    link(node);
    ++inserted_;
    charge(node);
    return node;
}

void NodeCache::erase(Node& node) {
    ROS2S_CHECK(!node.dirty && !node.writing && node.pins == 0);
    destroy(node);
}

void NodeCache::destroy(Node& node) {
    table_.remove(node);
    order_->erase(&node);
    unlink(node);
    bytes_ -= node.charged_bytes;
    if (node.dirty || node.writing) dirty_bytes_ -= node.charged_bytes;
    Node::Delete()(&node);
}

void NodeCache::link(Node& node) {
    node.older = newest_;
    node.newer = nullptr;
    (newest_ != nullptr ? newest_->newer : oldest_) = &node;
    newest_ = &node;
}
void NodeCache::unlink(Node& node) {
    (node.older != nullptr ? node.older->newer : oldest_) = node.newer;
    (node.newer != nullptr ? node.newer->older : newest_) = node.older;
}

size_t NodeCache::size_of(const Node& node) {
    // The set's node, the table's places and the allocators' own overhead are about 130 bytes.
    size_t bytes = sizeof(Node) + node.key.size() + 130;
    if (const EntryValue* entry = node.entry()) {
        bytes += entry->single.capacity() + entry->map.memory_bytes();
    }
    if (const SummaryValue* summary = node.summary()) bytes += summary->highest.capacity();
    return bytes;
}

void NodeCache::charge(Node& node) {
    const size_t now = size_of(node);
    bytes_ += now - node.charged_bytes;
    if (node.dirty || node.writing) dirty_bytes_ += now - node.charged_bytes;
    node.charged_bytes = static_cast<uint32_t>(now);
}

void NodeCache::modify(Node& node) {
    if (node.in_cut) {
        node.in_cut = false;
        sink_(node);
    }
    if (node.dirty) return;
    if (!node.writing) dirty_bytes_ += node.charged_bytes;
    node.dirty = true;
    dirty_.push_back(&node);
}

void NodeCache::begin_cut(Sink sink) {
    ROS2S_CHECK(cut_.empty());
    sink_ = std::move(sink);
    cut_.swap(dirty_);
    cut_taken_ = 0;
    for (Node* node : cut_) {
        node->dirty = false;
        node->in_cut = node->writing = true;
    }
}

bool NodeCache::take(size_t count) {
    for (; cut_taken_ < cut_.size() && count > 0; ++cut_taken_, --count) {
        Node& node = *cut_[cut_taken_];
        if (!node.in_cut) continue;
        node.in_cut = false;
        sink_(node);
    }
    return cut_taken_ < cut_.size();
}

void NodeCache::end_cut() {
    for (Node* node : cut_) {
        node->writing = false;
        if (!node->dirty) dirty_bytes_ -= node->charged_bytes;
    }
    cut_.clear();
    sink_ = nullptr;
}

void NodeCache::shrink(size_t bytes) {
    shrink(bytes, looks_least + looks_per_node * std::exchange(inserted_, 0));
}
void NodeCache::shrink_fully(size_t bytes) { shrink(bytes, 2 * count()); }

void NodeCache::shrink(size_t bytes, size_t looks) {
    for (size_t looked = 0; bytes_ > bytes && looked < looks; ++looked) {
        Node* const node = oldest_;
        if (node == nullptr) return;
        const bool keep = node->pins > 0 || node->loading || node->dirty || node->writing;
        if (!keep && !node->used_lately) {
            destroy(*node);
            continue;
        }
        node->used_lately = false;
        unlink(*node);
        link(*node);
    }
}

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

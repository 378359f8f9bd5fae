// Heap: finds the element with the least key; among equal keys, the one that was added first.
// Elements contain their nodes, so adding and removing allocate nothing. An element is removed
// before it is destroyed.
//
// A pairing heap (Fredman, Sedgewick, Sleator and Tarjan 1986): adding takes constant time, and
// removing any element logarithmic time, amortized.
#pragma once
#include <cstdint>
#include <utility>

#include "ros2s/base/check.h"

namespace ros2s::admission {

template <class T>
class Heap {
  public:
    struct Node {
        T* element = nullptr;  // null: it is in no heap
        uint64_t key = 0, order = 0;
        // `previous` of the first child is its parent.
        Node *child = nullptr, *next = nullptr, *previous = nullptr;
    };
    Heap& operator=(Heap&&) = delete;
    ~Heap() { ROS2S_CHECK(empty()); }

    [[nodiscard]] bool empty() const noexcept { return top_ == nullptr; }
    [[nodiscard]] T& front() const noexcept { return *top_->element; }
    [[nodiscard]] uint64_t front_key() const noexcept { return top_->key; }
    [[nodiscard]] static bool has(const Node& node) noexcept { return node.element != nullptr; }
    void insert(T& element, Node& node, uint64_t key) noexcept {
        node = {.element = &element, .key = key, .order = ++added_};
        top_ = top_ != nullptr ? meld(top_, &node) : &node;
    }
    void erase(Node& node) noexcept {
        Node* const below = merge(node.child);
        if (&node == top_) {
            top_ = below;
        } else {
            Node& previous = *node.previous;
            (previous.child == &node ? previous.child : previous.next) = node.next;
            if (node.next != nullptr) node.next->previous = &previous;
            if (below != nullptr) top_ = meld(top_, below);
        }
        node = {};
    }

  private:
    [[nodiscard]] static bool is_before(const Node& a, const Node& b) noexcept {
        return a.key != b.key ? a.key < b.key : a.order < b.order;
    }
    // Of two nodes without siblings. Returns the first.
    static Node* meld(Node* a, Node* b) noexcept {
        if (is_before(*b, *a)) std::swap(a, b);
        b->previous = a;
        b->next = a->child;
        if (b->next != nullptr) b->next->previous = b;
        a->child = b;
        return a;
    }
    // Of siblings. Melding them in pairs first keeps the heap flat.
    static Node* merge(Node* node) noexcept {
        const auto take = [&node] {
            Node* const taken = node;
            if (taken != nullptr) {
                node = taken->next;
                taken->next = taken->previous = nullptr;
            }
            return taken;
        };
        Node* pairs = nullptr;
        while (Node* pair = take()) {
            if (Node* const other = take()) pair = meld(pair, other);
            pair->next = pairs;
            pairs = pair;
        }
        node = pairs;
        Node* top = take();
        while (Node* const other = take()) top = meld(top, other);
        return top;
    }
    Node* top_ = nullptr;
    uint64_t added_ = 0;
};

}  // namespace ros2s::admission

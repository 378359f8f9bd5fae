// KeyTable: finds nodes by their keys. Open addressing: a look-up reads hashes in one or two
// lines of the processor's cache, and then the node.
//
// Used on the core of its nodes, and does not own them.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "hash.h"
#include "node.h"

namespace ros2s::engine {

class KeyTable {
  public:
    // `hash_key`: see hash.h.
    explicit KeyTable(uint64_t hash_key) : hash_key_(hash_key), places_(least_places) {}

    // Null: there is none.
    [[nodiscard]] Node* find(std::string_view key) const {
        const uint64_t hash = hash_text(key, hash_key_);
        for (size_t at = place(hash); places_[at].node != nullptr; at = place(at + 1)) {
            if (places_[at].hash == hash && places_[at].node->key == key) return places_[at].node;
        }
        return nullptr;
    }
    // No node here has its key.
    void add(Node& node) {
        if (count_ >= places_.size() / 2) grow();
        put({hash_text(node.key, hash_key_), &node});
        ++count_;
    }
    // The node is here.
    void remove(const Node& node) {
        size_t hole = place(hash_text(node.key, hash_key_));
        while (places_[hole].node != &node) hole = place(hole + 1);
        // A look-up ends at a free place. So a later node that was not placed behind the hole moves
        // into it.
        for (size_t at = place(hole + 1); places_[at].node != nullptr; at = place(at + 1)) {
            const size_t from_its_place = place(at - place(places_[at].hash));
            if (from_its_place < place(at - hole)) continue;
            places_[hole] = places_[at];
            hole = at;
        }
        places_[hole] = {};
        --count_;
    }
    [[nodiscard]] size_t count() const { return count_; }

  private:
    struct HashedNode {
        uint64_t hash = 0;
        Node* node = nullptr;  // null: free
    };
    static constexpr size_t least_places = 1024;

    [[nodiscard]] size_t place(size_t hash) const { return hash & (places_.size() - 1); }
    void put(const HashedNode& one) {
        size_t at = place(one.hash);
        while (places_[at].node != nullptr) at = place(at + 1);
        places_[at] = one;
    }
    void grow() {
        std::vector<HashedNode> old(places_.size() * 2);
        old.swap(places_);
        for (const HashedNode& one : old) {
            if (one.node != nullptr) put(one);
        }
    }

    const uint64_t hash_key_;
    std::vector<HashedNode> places_;
    size_t count_ = 0;
};

}  // namespace ros2s::engine

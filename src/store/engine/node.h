// Node: the value of one index key in memory: an array's head or segment, a single value, a
// summary, or the fact that the key is absent.
//
// Used on the core that it belongs to.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "ros2s/engine/format/values.h"

namespace ros2s::engine {

struct Node {
    struct Delete {
        void operator()(Node* node) const noexcept;
    };
    [[nodiscard]] static std::unique_ptr<Node, Delete> make(std::string_view key, uint32_t core);

    // In the same piece of memory, behind the node.
    const std::string_view key;
    const uint32_t core;
    uint32_t pins = 0;
    bool loading = false;
    bool held = false;  // applied but not yet published: must not be read (publisher.h)
    bool used_lately = true;
    bool dirty = false;    // differs from the index (and from the checkpoint being written)
    bool in_cut = false;   // in the cut, not yet serialised
    bool writing = false;  // part of the checkpoint being written
    std::variant<std::monostate, EntryValue, SummaryValue> value;  // monostate: absent
    uint32_t charged_bytes = 0;
    Node* older = nullptr;  // the clock's list
    Node* newer = nullptr;

    [[nodiscard]] bool is_absent() const { return std::holds_alternative<std::monostate>(value); }
    [[nodiscard]] const EntryValue* entry() const { return std::get_if<EntryValue>(&value); }
    [[nodiscard]] EntryValue* entry() { return std::get_if<EntryValue>(&value); }
    [[nodiscard]] const SummaryValue* summary() const { return std::get_if<SummaryValue>(&value); }
    [[nodiscard]] SummaryValue* summary() { return std::get_if<SummaryValue>(&value); }
};

// The value as the index keeps it. Not for absent nodes.
[[nodiscard]] std::string encode(const Node& node);

}  // namespace ros2s::engine

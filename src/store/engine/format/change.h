// Change: the effect of one operation of a transaction on the pool's state, in physical terms:
// which blocks an array now has, and where. Journal records contain changes. apply_change() applies
// them, live and in recovery.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "ros2s/base/fields.h"
#include "ros2s/base/inline_vector.h"
#include "ros2s/base/result.h"
#include "ros2s/engine/format/address.h"
#include "ros2s/object/object_store.h"

namespace ros2s::engine {

struct Node;

struct Change {
    enum class Kind : uint8_t {
        array = 1,             // object, dkey, akey; size, holes and blocks as below; value: their
                               // seals (object/vocabulary.h) one after the other, or empty
        put = 2,               // object, dkey, akey, value
        punch_akey = 3,        // object, dkey, akey
        punch_dkey = 4,        // object, dkey
        punch_dkeys = 5,       // object, dkey .. dkey_end
        punch_object = 6,      // object
        create_container = 7,  // value: the record
        retire_container = 8,  // no longer visible; its objects are being removed
        remove_container = 9,  // removes the record; the container has no more objects
        set_container = 10,    // value: a record; its owner and caps replace the present ones
        // object, dkey, akey: the blocks of one piece, in one segment, get other places. They have
        // the same bytes as before, and the entry keeps its epoch and time. `size`: the address of
        // the first of them before; the others followed it there. A block that is not there any
        // more when this is applied was overwritten or removed meanwhile, and stays as it is.
        move = 11,
    };
    enum class SizeRule : uint8_t { keep = 0, at_least = 1, exactly = 2 };
    // Consecutive blocks of the array; their addresses are the next `count` of `blocks`.
    struct Piece {
        uint64_t first = 0;
        uint32_t count = 0;
    };

    Kind kind{};
    SizeRule size_rule{};
    uint8_t piece_count = 0;
    object::ObjectId object{};
    std::string dkey, akey, dkey_end, value;
    uint64_t size = 0;
    // Blocks [hole_first, hole_first + hole_count) become holes before `blocks` are added.
    uint64_t hole_first = 0, hole_count = 0;
    std::array<Piece, 2> pieces{};
    InlineVector<BlockRef, 1> blocks;

    // Not in the record: the nodes of array, put and punch_akey. The code that loads and pins them
    // sets these. Applying a write within segment 0, whose node `head` is, or a put then needs no
    // look-up. The head of a move is the node of its segment.
    Node* head = nullptr;
    Node* summary = nullptr;

    // It can affect many dkeys, on any cores.
    [[nodiscard]] bool spans_dkeys() const {
        return kind == Kind::punch_dkeys || kind == Kind::punch_object;
    }
    [[nodiscard]] bool is_of_container() const {
        return kind >= Kind::create_container && kind <= Kind::set_container;
    }
    // Of the encoded form, for any addresses.
    [[nodiscard]] size_t encoded_bytes_max() const;
    // The same without the value and the blocks: a request must leave room for this.
    static constexpr size_t encoded_bytes_fixed = 256;
};

struct TransactionRecord {
    UpdateName id{};
    object::ContainerId container{};
    InlineVector<Change, 1> changes;
    // Not in the record: its reservation in its container's caps (State::reserve).
    object::Amount reserved{};

    // Of the encoded form, for any addresses.
    [[nodiscard]] size_t encoded_bytes_max() const;
};

void encode(FieldWriter<Encoder>& out, const TransactionRecord& transaction);
// False if the bytes are not a transaction; `transaction` is then undefined.
[[nodiscard]] bool decode(FieldReader& in, TransactionRecord& transaction);

}  // namespace ros2s::engine

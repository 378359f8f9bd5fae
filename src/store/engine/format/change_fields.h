// The fields of transactions and changes (change.h). A record keeps the addresses of a change's
// blocks as runs, memory keeps them one by one: change.cc writes and reads the list of runs by
// hand.
#pragma once
#include "change.h"
#include "ros2s/base/fields.h"

namespace ros2s::engine {

inline constexpr auto transaction_fields = [](auto& io, auto& transaction) {
    io("client", transaction.id.client);
    io("slot", transaction.id.slot);
    io("sequence", transaction.id.sequence);
    io("owner", transaction.id.owner);
    io("digest", transaction.id.digest);
    io("container", transaction.container.uuid);
};

inline constexpr auto change_fields = [](auto& io, auto& change) {
    io.choice("kind", change.kind, Change::Kind::move);
    io.choice("size rule", change.size_rule, Change::SizeRule::exactly);
    io("pieces", change.piece_count);
    io.known("zero", uint8_t{0});
    io("object high", change.object.high);
    io("object low", change.object.low);
    io.text("dkey", change.dkey, object::key_bytes_max);
    io.text("akey", change.akey, object::key_bytes_max);
    io.text("dkey_end", change.dkey_end, object::key_bytes_max);
    io.text("value", change.value, UINT32_MAX);
    io("size", change.size);
    io("hole_first", change.hole_first);
    io("hole_count", change.hole_count);
};

inline constexpr auto piece_fields = [](auto& io, auto& piece) {
    io("first block", piece.first);
    io("blocks", piece.count);
};

struct BlockRun {
    BlockAddress address;
    uint32_t blocks = 0;
};
inline constexpr auto run_fields = [](auto& io, auto& run) {
    io("address", run.address.value);
    io("blocks", run.blocks);
};

}  // namespace ros2s::engine

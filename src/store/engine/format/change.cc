#include "change.h"

#include <span>

#include "change_fields.h"
#include "ros2s/engine/format/block_map.h"

namespace ros2s::engine {
namespace {

uint32_t run_length(std::span<const BlockRef> blocks) {
    uint32_t length = 1;
    while (length < blocks.size() && blocks[length].address == blocks[0].address + length) {
        ++length;
    }
    return length;
}

template <class Out>
void write_pieces(Out& out, const Change& change) {
    std::span<const BlockRef> rest(change.blocks);
    for (uint8_t i = 0; i < change.piece_count; ++i) {
        const Change::Piece& piece = change.pieces[i];
        piece_fields(out, piece);
        const auto blocks = rest.first(piece.count);
        for (size_t at = 0; at < blocks.size();) {
            const BlockRun run{blocks[at].address, run_length(blocks.subspan(at))};
            run_fields(out, run);
            at += run.blocks;
        }
        for (const BlockRef& block : blocks) out.number(block.crc);
        rest = rest.subspan(piece.count);
    }
}

constexpr uint64_t blocks_max = object::array_bytes_max / block_bytes;

bool read_piece(FieldReader& in, Change& change, Change::Piece& piece) {
    piece_fields(in, piece);
    // Each block has at least its CRC in the input, so a false count cannot cause a large
    // allocation.
    if (!in.ok() || piece.count > in.left() / sizeof(uint32_t)) return false;
    if (piece.first >= blocks_max || piece.count > blocks_max - piece.first) return false;
    const size_t begin = change.blocks.size();
    const size_t end = begin + piece.count;
    while (change.blocks.size() < end) {
        BlockRun run;
        run_fields(in, run);
        if (!in.ok() || run.blocks == 0 || run.blocks > end - change.blocks.size()) return false;
        if (run.address.is_hole()) return false;
        for (uint32_t i = 0; i < run.blocks; ++i) change.blocks.push_back({run.address + i, 0});
    }
    for (size_t i = begin; i < end; ++i) change.blocks[i].crc = in.number<uint32_t>();
    return in.ok();
}

bool is_in_one_segment(const Change& change) {
    const Change::Piece& piece = change.pieces[0];
    return change.piece_count == 1 && piece.count > 0 &&
           piece.first / segment_blocks == (piece.first + piece.count - 1) / segment_blocks;
}

bool read_pieces(FieldReader& in, Change& change) {
    const bool array = change.kind == Change::Kind::array;
    const bool move = change.kind == Change::Kind::move;
    if (change.kind < Change::Kind::array) return false;
    const bool of_akey = move || change.kind <= Change::Kind::punch_akey;
    if (of_akey && change.akey.empty()) return false;
    if (change.piece_count > change.pieces.size()) return false;
    if (!array && change.value.size() > object::value_bytes_max) return false;
    if (!array && ((!move && change.piece_count > 0) || change.hole_count > 0)) return false;
    if ((!move && change.size > object::array_bytes_max) || change.hole_first > blocks_max ||
        change.hole_count > blocks_max - change.hole_first) {
        return false;
    }
    for (uint8_t i = 0; i < change.piece_count; ++i) {
        if (!read_piece(in, change, change.pieces[i])) return false;
    }
    if (array && !change.value.empty() &&
        change.value.size() != change.blocks.size() * object::seal_bytes) {
        return false;
    }
    return !move || (change.size != 0 && is_in_one_segment(change));
}

constexpr auto whole_change_fields = []<class Io>(Io& io, auto& change) {
    change_fields(io, change);
    if constexpr (Io::reads) {
        io.refuse_when(!io.ok() || !read_pieces(io, change));
    } else {
        write_pieces(io, change);
    }
};
constexpr auto whole_transaction_fields = [](auto& io, auto& transaction) {
    transaction_fields(io, transaction);
    io.list("changes", transaction.changes, UINT32_MAX, whole_change_fields);
};

}  // namespace

size_t Change::encoded_bytes_max() const {
    return measured(change_fields, *this) + piece_count * measured(piece_fields, Piece()) +
           blocks.size() * (measured(run_fields, BlockRun()) + sizeof(uint32_t));
}

size_t TransactionRecord::encoded_bytes_max() const {
    size_t bytes = measured(transaction_fields, *this) + sizeof(uint32_t);
    for (const Change& change : changes) bytes += change.encoded_bytes_max();
    return bytes;
}

void encode(FieldWriter<Encoder>& out, const TransactionRecord& transaction) {
    whole_transaction_fields(out, transaction);
}

bool decode(FieldReader& in, TransactionRecord& transaction) {
    transaction.changes.clear();
    whole_transaction_fields(in, transaction);
    return in.ok();
}

}  // namespace ros2s::engine

#include "change.h"

#include <span>

#include "ros2s/engine/format/block_map.h"

namespace ros2s::engine {
namespace {

constexpr size_t run_bytes = sizeof(uint64_t) + sizeof(uint32_t);

size_t run_length(std::span<const BlockRef> blocks, size_t from, size_t end) {
    size_t at = from + 1;
    while (at < end && blocks[at].address == blocks[from].address + (at - from)) ++at;
    return at - from;
}

void encode(Encoder& encoder, const Change& change) {
    encoder.number(static_cast<uint8_t>(change.kind));
    encoder.number(static_cast<uint8_t>(change.size_rule));
    encoder.number(change.piece_count);
    encoder.number(uint8_t{0});
    encoder.number(change.object.high);
    encoder.number(change.object.low);
    encoder.text(change.dkey);
    encoder.text(change.akey);
    encoder.text(change.dkey_end);
    encoder.text(change.value);
    encoder.number(change.size);
    encoder.number(change.hole_first);
    encoder.number(change.hole_count);
    size_t at = 0;
    for (uint8_t i = 0; i < change.piece_count; ++i) {
        const size_t end = at + change.pieces[i].count;
        encoder.number(change.pieces[i].first);
        encoder.number(change.pieces[i].count);
        for (size_t run = at; run < end;) {
            const size_t length = run_length(change.blocks, run, end);
            encoder.number(change.blocks[run].address.value);
            encoder.number(static_cast<uint32_t>(length));
            run += length;
        }
        for (; at < end; ++at) encoder.number(change.blocks[at].crc);
    }
}

bool decode_piece(Decoder& decoder, Change& change, Change::Piece& piece) {
    piece.first = decoder.number<uint64_t>();
    piece.count = decoder.number<uint32_t>();
    // Each block has at least its CRC in the input, so a false count cannot cause a large
    // allocation.
    if (!decoder.ok() || piece.count > decoder.left() / sizeof(uint32_t)) return false;
    constexpr uint64_t blocks_max = object::array_bytes_max / block_bytes;
    if (piece.first >= blocks_max || piece.count > blocks_max - piece.first) return false;
    const size_t begin = change.blocks.size();
    const size_t end = begin + piece.count;
    while (change.blocks.size() < end) {
        const BlockAddress address{decoder.number<uint64_t>()};
        const auto length = decoder.number<uint32_t>();
        if (!decoder.ok() || length == 0 || length > end - change.blocks.size()) return false;
        if (address.is_hole()) return false;
        for (uint32_t i = 0; i < length; ++i) change.blocks.push_back({address + i, 0});
    }
    for (size_t i = begin; i < end; ++i) change.blocks[i].crc = decoder.number<uint32_t>();
    return decoder.ok();
}

bool is_in_one_segment(const Change& change) {
    const Change::Piece& piece = change.pieces[0];
    return change.piece_count == 1 && piece.count > 0 &&
           piece.first / segment_blocks == (piece.first + piece.count - 1) / segment_blocks;
}

bool decode(Decoder& decoder, Change& change) {
    const auto kind = decoder.number<uint8_t>();
    const auto size_rule = decoder.number<uint8_t>();
    change.piece_count = decoder.number<uint8_t>();
    decoder.number<uint8_t>();
    change.object.high = decoder.number<uint64_t>();
    change.object.low = decoder.number<uint64_t>();
    change.dkey = decoder.text(object::key_bytes_max);
    change.akey = decoder.text(object::key_bytes_max);
    change.dkey_end = decoder.text(object::key_bytes_max);
    change.value = decoder.text(decoder.left());
    change.size = decoder.number<uint64_t>();
    change.hole_first = decoder.number<uint64_t>();
    change.hole_count = decoder.number<uint64_t>();
    if (!decoder.ok()) return false;
    if (kind < 1 || kind > static_cast<uint8_t>(Change::Kind::move)) return false;
    if (size_rule > static_cast<uint8_t>(Change::SizeRule::exactly)) return false;
    if (change.piece_count > change.pieces.size()) return false;
    change.kind = static_cast<Change::Kind>(kind);
    change.size_rule = static_cast<Change::SizeRule>(size_rule);
    const bool array = change.kind == Change::Kind::array;
    const bool move = change.kind == Change::Kind::move;
    if (!array && change.value.size() > object::value_bytes_max) return false;
    if (!array && ((!move && change.piece_count > 0) || change.hole_count > 0)) return false;
    constexpr uint64_t blocks_max = object::array_bytes_max / block_bytes;
    if ((!move && change.size > object::array_bytes_max) || change.hole_first > blocks_max ||
        change.hole_count > blocks_max - change.hole_first) {
        return false;
    }
    for (uint8_t i = 0; i < change.piece_count; ++i) {
        if (!decode_piece(decoder, change, change.pieces[i])) return false;
    }
    if (array && !change.value.empty() &&
        change.value.size() != change.blocks.size() * object::seal_bytes) {
        return false;
    }
    return !move || (change.size != 0 && is_in_one_segment(change));
}

}  // namespace

size_t Change::encoded_bytes_max() const {
    constexpr size_t fixed = 4 + 16 + 4 * sizeof(uint32_t) + 3 * sizeof(uint64_t);
    return fixed + dkey.size() + akey.size() + dkey_end.size() + value.size() +
           piece_count * run_bytes + blocks.size() * (run_bytes + sizeof(uint32_t));
}

size_t TransactionRecord::encoded_bytes_max() const {
    size_t bytes = encoded_bytes_fixed;
    for (const Change& change : changes) bytes += change.encoded_bytes_max();
    return bytes;
}

void encode(Encoder& encoder, const TransactionRecord& transaction) {
    encoder.uuid(transaction.id.client);
    encoder.number(transaction.id.slot);
    encoder.number(transaction.id.sequence);
    encoder.uuid(transaction.id.owner);
    encoder.number(transaction.id.digest);
    encoder.uuid(transaction.container.uuid);
    encoder.number(static_cast<uint32_t>(transaction.changes.size()));
    for (const Change& change : transaction.changes) encode(encoder, change);
}

bool decode(Decoder& decoder, TransactionRecord& transaction) {
    transaction.id.client = decoder.uuid();
    transaction.id.slot = decoder.number<uint32_t>();
    transaction.id.sequence = decoder.number<uint64_t>();
    transaction.id.owner = decoder.uuid();
    transaction.id.digest = decoder.number<uint64_t>();
    transaction.container.uuid = decoder.uuid();
    const auto count = decoder.number<uint32_t>();
    if (!decoder.ok() || count > decoder.left()) return false;
    transaction.changes.clear();
    for (uint32_t i = 0; i < count; ++i) {
        if (!decode(decoder, transaction.changes.emplace_back())) return false;
    }
    return true;
}

}  // namespace ros2s::engine

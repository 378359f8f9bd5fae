// Payload has one CRC32C per piece. The extent of an array is cut into pieces at multiples of
// block_bytes of the array's offsets. The piece of a whole block is therefore the unit that the
// media stores, and needs no second computation. A single value is one piece, even if it is empty.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "ros2s/base/bytes.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/object/vocabulary.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/slices.h"

namespace ros2s::object {

// 0 for an empty extent.
[[nodiscard]] constexpr uint64_t piece_count(uint64_t offset, uint64_t length) {
    if (length == 0) return 0;
    return (offset + length - 1) / block_bytes - offset / block_bytes + 1;
}

// Calls visit(offset in the array, bytes) for each piece of `bytes`, which start at `offset`.
template <class Span, class Visit>
void for_each_piece(uint64_t offset, Span bytes, Visit visit) {
    while (!bytes.empty()) {
        const size_t piece = std::min<uint64_t>(block_bytes - offset % block_bytes, bytes.size());
        visit(offset, bytes.first(piece));
        bytes = bytes.subspan(piece);
        offset += piece;
    }
}

// Returns the number of the `length` bytes from `offset` on that one slice covers
// (runtime/slices.h), in whole pieces.
[[nodiscard]] constexpr uint64_t slice_of_pieces(uint64_t offset, uint64_t length) {
    return std::min(length, round_down(offset + slice_bytes, block_bytes) - offset);
}

// Replaces the contents of `checksums` and reuses its memory.
void array_checksums(uint64_t offset, ConstBytes bytes, Checksums& checksums);
// The same in slices, if there is more than one. Errors: cancelled, deadline.
Task<Result<>> array_checksums_in_slices(SliceTurns& turns, const Call& call, uint64_t offset,
                                         ConstBytes bytes, Checksums& checksums);
// The CRC32C of all the bytes, from their checksums.
[[nodiscard]] uint32_t combined_checksum(uint64_t offset, uint64_t length,
                                         std::span<const uint32_t> checksums);
void value_checksums(ConstBytes bytes, Checksums& checksums);

// True if `checksums` match `bytes`. Otherwise *bad is the first piece that differs, or the whole
// range if the number of checksums is wrong.
[[nodiscard]] bool array_checksums_match(uint64_t offset, ConstBytes bytes,
                                         const Checksums& checksums, Extent* bad = nullptr);

}  // namespace ros2s::object

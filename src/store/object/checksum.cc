#include "checksum.h"

namespace ros2s::object {

void array_checksums(uint64_t offset, ConstBytes bytes, Checksums& checksums) {
    checksums.clear();
    checksums.reserve(piece_count(offset, bytes.size()));
    for_each_piece(offset, bytes,
                   [&](uint64_t, ConstBytes piece) { checksums.push_back(crc32c(piece)); });
}

Task<Result<>> array_checksums_in_slices(SliceTurns& turns, const Call& call, uint64_t offset,
                                         ConstBytes bytes, Checksums& checksums) {
    if (bytes.size() <= slice_bytes) {
        array_checksums(offset, bytes, checksums);
        co_return Result<>{};
    }
    checksums.clear();
    checksums.reserve(piece_count(offset, bytes.size()));
    SlicedJob job(turns);
    while (!bytes.empty()) {
        const ConstBytes slice = bytes.first(slice_of_pieces(offset, bytes.size()));
        co_await job.slice(slice.size());
        ROS2S_CO_TRY(call.check(turns.reactor()));
        for_each_piece(offset, slice,
                       [&](uint64_t, ConstBytes piece) { checksums.push_back(crc32c(piece)); });
        bytes = bytes.subspan(slice.size());
        offset += slice.size();
    }
    co_return Result<>{};
}

uint32_t combined_checksum(uint64_t offset, uint64_t length, std::span<const uint32_t> checksums) {
    uint32_t crc = 0;
    for (const uint32_t piece : checksums) {
        const uint64_t count = std::min(length, block_bytes - offset % block_bytes);
        crc = crc32c_combine(crc, piece, count);
        offset += count;
        length -= count;
    }
    return crc;
}

void value_checksums(ConstBytes bytes, Checksums& checksums) {
    checksums.clear();
    checksums.push_back(crc32c(bytes));
}

bool array_checksums_match(uint64_t offset, ConstBytes bytes, const Checksums& checksums,
                           Extent* bad) {
    if (checksums.size() != piece_count(offset, bytes.size())) {
        if (bad != nullptr) *bad = {offset, bytes.size()};
        return false;
    }
    size_t i = 0;
    while (!bytes.empty()) {
        const size_t piece = std::min<uint64_t>(block_bytes - offset % block_bytes, bytes.size());
        if (crc32c(bytes.first(piece)) != checksums[i++]) [[unlikely]] {
            if (bad != nullptr) *bad = {offset, piece};
            return false;
        }
        bytes = bytes.subspan(piece);
        offset += piece;
    }
    return true;
}

}  // namespace ros2s::object

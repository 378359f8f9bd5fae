#include "checksum.h"

namespace ros2s::object {

void array_checksums(uint64_t offset, ConstBytes bytes, std::vector<uint32_t>& checksums) {
    checksums.clear();
    checksums.reserve(piece_count(offset, bytes.size()));
    for_each_piece(offset, bytes,
                   [&](uint64_t, ConstBytes piece) { checksums.push_back(crc32c(piece)); });
}

void value_checksums(ConstBytes bytes, std::vector<uint32_t>& checksums) {
    checksums.assign(1, crc32c(bytes));
}

bool array_checksums_match(uint64_t offset, ConstBytes bytes,
                           const std::vector<uint32_t>& checksums, Extent* bad) {
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

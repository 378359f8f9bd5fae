// PayloadChecksums: the checksums that travel with the bytes of one pread(), pwrite() or
// read_many(), from process to process (Call::checksums).
//
// Owned by the caller, until the task is done. Used on one core.
#pragma once
#include <optional>

#include "ros2s/object/checksum.h"

namespace ros2s::fs {

struct PayloadChecksums {
    explicit PayloadChecksums(SliceTurns& slices) : turns(slices) {}

    SliceTurns& turns;              // for computing them
    std::optional<uint32_t> whole;  // CRC32C of all the bytes
    object::Checksums pieces;       // of a write: one per piece of the file, or others
    // Of read_many(): the CRC32C of each item's bytes. Fewer than items: nobody knows them.
    object::Checksums items;
    bool differed = false;  // compare_checksums() found it

    [[nodiscard]] bool fit(uint64_t offset, uint64_t length) const {
        return !pieces.empty() && pieces.size() == object::piece_count(offset, length);
    }
};

// For a pwrite() that does not pass the call's checksums on, if it has any: compares the bytes with
// `whole`. Afterwards `pieces` are those of the bytes. Errors: corrupt, cancelled, deadline.
Task<Result<>> compare_checksums(const Call& call, ConstBytes bytes, uint64_t offset);

}  // namespace ros2s::fs

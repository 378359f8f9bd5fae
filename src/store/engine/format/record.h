// A journal record: the header below, then its transactions. It starts on a block boundary and is
// padded with zeros to the next. docs/formats/journal.md describes it.
//
// Records form a chain: each names its predecessor's id and announces its successor's. Ids are 64
// random bits. So bytes of an earlier lap, or of a tenant, are never taken for the next record.
// Records behind unreadable ones are still recognised, by their incarnation, which is as secret.
// They can prove that the unreadable ones were durable: those are then corrupt, not torn.
#pragma once
#include <cstdint>
#include <vector>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/base/uuid.h"
#include "ros2s/engine/format/change.h"

namespace ros2s::engine {

struct RecordHeader {
    static constexpr uint64_t magic_value = 0x314c4e4a53325352;  // "RS2SJNL1"
    static constexpr uint32_t version_value = 5;
    // The oldest version that is still read. It has neither set_container nor move.
    static constexpr uint32_t version_least = 2;

    uint64_t magic = magic_value;
    uint32_t version = version_value;
    uint32_t crc = 0;  // of header and payload, with this field zero
    Uuid pool;
    uint64_t incarnation = 0;  // random when the pool is made; each opening adds one
    uint64_t id = 0;
    uint64_t previous_id = 0;
    uint64_t next_id = 0;
    uint64_t sequence = 0;      // of the group; rises by one
    uint64_t durable_upto = 0;  // every group up to this one was durable when this was written
    uint64_t first_epoch = 0;   // of the first transaction; the others follow one by one
    int64_t wall_time_ns = 0;   // since 1970, UTC
    uint32_t payload_bytes = 0;
    uint32_t transactions = 0;
    uint32_t header_crc = 0;  // of the fields above, with `crc` zero: makes the length valid
    uint32_t reserved = 0;
};
static_assert(sizeof(RecordHeader) == 112);

// The size of a record in the ring, in bytes.
[[nodiscard]] constexpr uint64_t record_bytes(uint64_t payload_bytes) {
    return round_up<uint64_t>(sizeof(RecordHeader) + payload_bytes, block_bytes);
}

// Builds a record in its own memory: encodes transactions as they come, and the header last.
class RecordBuilder {
  public:
    // Of the transactions so far.
    [[nodiscard]] size_t payload_bytes() const { return payload_bytes_; }
    void add(const TransactionRecord& transaction);
    // Fills in the header's lengths and CRCs, and zeros up to the block's end. Returns the bytes to
    // write, which are valid until the next add() or clear().
    [[nodiscard]] ConstBytes finish(RecordHeader header);
    // Begins another record. Keeps the memory, unless it is large.
    void clear();

  private:
    void make_room(size_t payload_bytes);

    AlignedBuffer memory_;
    size_t payload_bytes_ = 0;
    uint32_t transactions_ = 0;
};

// The header alone, checked against its own CRC. It has the number of bytes to read. Errors:
// corrupt, bad_version.
[[nodiscard]] Result<RecordHeader> decode_record_header(ConstBytes block);

struct Record {
    RecordHeader header;
    std::vector<TransactionRecord> transactions;
};
// Errors: corrupt.
[[nodiscard]] Result<Record> decode_record(ConstBytes bytes);

}  // namespace ros2s::engine

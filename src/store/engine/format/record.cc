#include "record.h"

#include <algorithm>

#include "counter.h"
#include "ros2s/base/crc32c.h"

namespace ros2s::engine {
namespace {

uint32_t header_crc(RecordHeader header) {
    header.crc = 0;
    header.header_crc = 0;
    return crc32c(object_bytes(header));
}
uint32_t record_crc(RecordHeader header, ConstBytes payload) {
    header.crc = 0;
    return crc32c_extend(crc32c(object_bytes(header)), payload);
}

constexpr size_t memory_bytes_least = 16 * 1024;
constexpr size_t memory_bytes_kept = 256 * 1024;

}  // namespace

void RecordBuilder::make_room(size_t payload_bytes) {
    const size_t needed = record_bytes(payload_bytes);
    if (needed <= memory_.size()) return;
    AlignedBuffer larger(std::max(needed + memory_.size(), memory_bytes_least));
    if (payload_bytes_ > 0) {
        std::memcpy(larger.data() + sizeof(RecordHeader), memory_.data() + sizeof(RecordHeader),
                    payload_bytes_);
    }
    memory_ = std::move(larger);
}

void RecordBuilder::add(const TransactionRecord& transaction) {
    make_room(payload_bytes_ + transaction.encoded_bytes_max());
    FieldWriter<Encoder> encoder(memory_.bytes().subspan(sizeof(RecordHeader) + payload_bytes_));
    encode(encoder, transaction);
    payload_bytes_ += encoder.size();
    ++transactions_;
}

ConstBytes RecordBuilder::finish(RecordHeader header) {
    make_room(payload_bytes_);
    const Bytes bytes = memory_.bytes().first(record_bytes(payload_bytes_));
    const Bytes payload = bytes.subspan(sizeof header, payload_bytes_);
    header.payload_bytes = static_cast<uint32_t>(payload_bytes_);
    header.transactions = transactions_;
    header.header_crc = header_crc(header);
    header.crc = record_crc(header, payload);
    std::memcpy(bytes.data(), &header, sizeof header);
    const Bytes rest = bytes.subspan(sizeof header + payload_bytes_);
    if (!rest.empty()) std::memset(rest.data(), 0, rest.size());
    return bytes;
}

void RecordBuilder::clear() {
    payload_bytes_ = transactions_ = 0;
    if (memory_.size() > memory_bytes_kept) memory_ = {};
}

Result<RecordHeader> decode_record_header(ConstBytes block) {
    RecordHeader header;
    if (block.size() < sizeof header) return fail(Code::corrupt);
    std::memcpy(&header, block.data(), sizeof header);
    if (header.magic != RecordHeader::magic_value) return fail(Code::corrupt);
    if (header.header_crc != header_crc(header)) return fail(Code::corrupt);
    if (header.version < RecordHeader::version_least ||
        header.version > RecordHeader::version_value) {
        return fail(Code::bad_version, header.version);
    }
    if (std::max({header.sequence, header.durable_upto, header.first_epoch}) > counter_max) {
        return fail(Code::corrupt);
    }
    return header;
}

Result<Record> decode_record(ConstBytes bytes) {
    Record record;
    ROS2S_TRY_ASSIGN(record.header, decode_record_header(bytes));
    if (record.header.payload_bytes > bytes.size() - sizeof(RecordHeader)) {
        return fail(Code::corrupt);
    }
    const ConstBytes payload = bytes.subspan(sizeof(RecordHeader), record.header.payload_bytes);
    if (record_crc(record.header, payload) != record.header.crc) return fail(Code::corrupt);
    FieldReader decoder(payload);
    for (uint32_t i = 0; i < record.header.transactions; ++i) {
        if (!decode(decoder, record.transactions.emplace_back())) return fail(Code::corrupt);
    }
    if (!decoder.done()) return fail(Code::corrupt);
    return record;
}

}  // namespace ros2s::engine

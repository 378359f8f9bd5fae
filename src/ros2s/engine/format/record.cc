#include "record.h"

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

}  // namespace

ConstBytes encode_record(RecordHeader header,
                         const std::vector<const TransactionRecord*>& transactions, Bytes into) {
    Encoder encoder(into.subspan(sizeof header));
    for (const TransactionRecord* transaction : transactions) encode(encoder, *transaction);
    header.payload_bytes = static_cast<uint32_t>(encoder.size());
    header.transactions = static_cast<uint32_t>(transactions.size());
    header.header_crc = header_crc(header);
    header.crc = record_crc(header, into.subspan(sizeof header, encoder.size()));
    std::memcpy(into.data(), &header, sizeof header);
    const size_t used = sizeof header + encoder.size();
    const size_t total = record_bytes(encoder.size());
    std::memset(into.data() + used, 0, total - used);
    return into.first(total);
}

Result<RecordHeader> decode_record_header(ConstBytes block) {
    RecordHeader header;
    if (block.size() < sizeof header) return fail(Code::corrupt);
    std::memcpy(&header, block.data(), sizeof header);
    if (header.magic != RecordHeader::magic_value) return fail(Code::corrupt);
    if (header.header_crc != header_crc(header)) return fail(Code::corrupt);
    if (header.version != RecordHeader::version_value) {
        return fail(Code::bad_version, header.version);
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
    Decoder decoder(payload);
    for (uint32_t i = 0; i < record.header.transactions; ++i) {
        if (!decode(decoder, record.transactions.emplace_back())) return fail(Code::corrupt);
    }
    if (!decoder.done()) return fail(Code::corrupt);
    return record;
}

}  // namespace ros2s::engine

// Any bytes as a journal record, and as the transactions of a record with valid checksums. They are
// refused, or decoding, encoding and decoding gives the same result.
#include <string>

#include "record.h"

using namespace ros2s;
using namespace ros2s::engine;

namespace {

std::string bytes_of(const TransactionRecord& transaction) {
    std::string memory(transaction.encoded_bytes_max(), '\0');
    FieldWriter<Encoder> encoder(std::as_writable_bytes(std::span(memory)));
    encode(encoder, transaction);
    memory.resize(encoder.size());
    return memory;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const ConstBytes bytes = std::as_bytes(std::span(data, size));
    static_cast<void>(decode_record(bytes));

    FieldReader decoder(bytes);
    std::vector<TransactionRecord> read;
    while (decoder.left() > 0) {
        TransactionRecord transaction;
        if (!decode(decoder, transaction)) return 0;
        read.push_back(std::move(transaction));
    }
    RecordBuilder record;
    for (const auto& transaction : read) record.add(transaction);
    const auto again = decode_record(record.finish({}));
    ROS2S_CHECK(again.has_value() && again->transactions.size() == read.size());
    for (size_t i = 0; i < read.size(); ++i)
        ROS2S_CHECK(bytes_of(read[i]) == bytes_of(again->transactions[i]));
    return 0;
}

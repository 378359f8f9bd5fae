#include "wire.h"

#include "fields.h"

namespace ros2s::hostlink {

using rpc::build;

ConstBytes encode_moved(Buffer& buffer, MovedBody body) {
    return build(buffer, moved_fields, body);
}

ConstBytes encode_entries(Buffer& buffer, std::span<const fs::DirectoryEntry> entries,
                          size_t bytes_max) {
    const uint64_t others = least_bytes<std::vector<fs::DirectoryEntry>>(entries_fields);
    const size_t count = rpc::fitting(entries, entry_fields, bytes_max, others);
    return build(buffer, entries_fields, entries.first(count));
}

// ---- read_many ------------------------------------------------------------------------------

uint64_t read_many_request_bytes(const fs::ReadManyItem& item) {
    return measured(read_item_fields, item);
}

Result<ReadManyBody> decode_read_many(ConstBytes body, fs::UserClaim& user,
                                      std::vector<fs::ReadManyItem>& items) {
    ReadManyBody head;
    ROS2S_TRY(rpc::read(body, with_user(read_many_fields), user, head, items));
    for (fs::ReadManyItem& item : items) {
        item.window = {.length = item.window.length};
        item.status = {};
        item.bytes = item.size = 0;
    }
    return head;
}

ConstBytes encode_read_answers(Buffer& buffer, std::span<const fs::ReadManyItem> items,
                               std::span<const uint32_t> crcs) {
    return build(buffer, [&](auto& io) {
        for (size_t i = 0; i < items.size(); ++i) read_answer_fields(io, items[i], crcs[i]);
    });
}
Result<> decode_read_answers(ConstBytes body, std::span<fs::ReadManyItem> items,
                             std::vector<uint32_t>& crcs) {
    crcs.resize(items.size());
    return rpc::read(body, [&](auto& io) {
        for (size_t i = 0; i < items.size(); ++i) read_answer_fields(io, items[i], crcs[i]);
    });
}

}  // namespace ros2s::hostlink

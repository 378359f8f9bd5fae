#include "wire.h"

#include "fields.h"

namespace ros2s::hostlink {

using rpc::build;
using rpc::read_body;

ConstBytes encode_file(Buffer& buffer, const FileBody& body) {
    return build(buffer, file_fields, body);
}
Result<FileBody> decode_file(ConstBytes body) { return read_body<FileBody>(body, file_fields); }

ConstBytes encode_moved(Buffer& buffer, MovedBody body) {
    return build(buffer, moved_fields, body);
}
Result<MovedBody> decode_moved(ConstBytes body) { return read_body<MovedBody>(body, moved_fields); }

ConstBytes encode_readdir(Buffer& buffer, const ReaddirBody& body) {
    return build(buffer, readdir_fields, body);
}
Result<ReaddirBody> decode_readdir(ConstBytes body) {
    return read_body<ReaddirBody>(body, readdir_fields);
}

ConstBytes encode_entries(Buffer& buffer, std::span<const fs::DirectoryEntry> entries,
                          size_t bytes_max) {
    const uint64_t others = least_bytes<std::vector<fs::DirectoryEntry>>(entries_fields);
    const size_t count = rpc::fitting(entries, entry_fields, bytes_max, others);
    return build(buffer, entries_fields, entries.first(count));
}
Result<std::vector<fs::DirectoryEntry>> decode_entries(ConstBytes body) {
    return read_body<std::vector<fs::DirectoryEntry>>(body, entries_fields);
}

// ---- read_many ------------------------------------------------------------------------------

uint64_t read_many_request_bytes(const fs::ReadManyItem& item) {
    return measured(read_item_fields, item);
}

ConstBytes encode_read_many(Buffer& buffer, const fs::Caller& user, ReadManyBody head,
                            std::span<const fs::ReadManyItem> items) {
    return build(buffer, with_user(read_many_fields), user, head, items);
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

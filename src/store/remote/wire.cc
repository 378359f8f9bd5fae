#include "wire.h"

#include "fields.h"
#include "ros2s/object/checksum.h"

namespace ros2s::remote {

using namespace object;
using rpc::build;

uint64_t payload_bytes(const FetchItem& item) {
    if (!item.status) return 0;
    return item.is_value ? item.size : item.extent.length;
}
uint64_t request_bytes_max(const FetchItem& item) { return measured(item_fields, item); }
uint64_t reply_bytes_max(const FetchItem& item) {
    const uint64_t pieces = piece_count(item.extent.offset, item.extent.length);
    return least_bytes<FetchItem>(fetched_item_fields) +
           std::max<uint64_t>(pieces, 1) * sizeof(uint32_t) +
           (item.wants_seals ? sizeof(uint32_t) + pieces * seal_bytes : 0);
}
uint64_t facts_bytes_max() { return least_bytes<QueryReply>(queried_fields) + key_bytes_max; }

ConstBytes encode_commit(Buffer& buffer, const Commit& commit, bool leased) {
    if (leased) return build(buffer, leased_commit_fields, commit);
    return build(buffer, commit_fields, commit);
}

ConstBytes encode_listed(Buffer& buffer, const ListReply& reply, size_t bytes_max) {
    const std::span<const ListEntry> entries(reply.entries);
    const uint64_t others = least_bytes<std::vector<ListEntry>, bool>(listed_fields);
    const size_t count = rpc::fitting(entries, list_entry_fields, bytes_max, others);
    return build(buffer, listed_fields, entries.first(count), reply.more || count < entries.size());
}

ConstBytes encode_containers(Buffer& buffer, std::span<const ContainerRecord> records,
                             std::string_view after, size_t bytes_max) {
    while (!records.empty() && records.front().properties.label <= after) {
        records = records.subspan(1);
    }
    const uint64_t others = least_bytes<std::vector<ContainerRecord>, bool>(containers_fields);
    const size_t count = rpc::fitting(records, container_fields, bytes_max, others);
    return build(buffer, containers_fields, records.first(count), count < records.size());
}

}  // namespace ros2s::remote

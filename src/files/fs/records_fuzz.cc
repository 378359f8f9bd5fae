// Any bytes as a record of DFS. They are refused as corrupt or as another version, or read as they
// are. An inode is also converted to stat's form, with any reply of the store about its contents.
#include "records.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ros2s/base/check.h"

using namespace ros2s;
using namespace ros2s::fs;

namespace {

template <class Record>
void read_as(ConstBytes bytes) {
    const auto record = decode<Record>(bytes);
    if (!record) {
        const Code code = record.error().code;
        ROS2S_CHECK(code == Code::corrupt || code == Code::bad_version);
    } else {
        ROS2S_CHECK(std::ranges::equal(object_bytes(*record), bytes));
    }
    // As after a fetch: in a buffer of the record's size, with the size that the store reports.
    Record fetched;
    std::memcpy(static_cast<void*>(&fetched), bytes.data(), std::min(bytes.size(), sizeof fetched));
    FetchItem item = record_item({}, record_dkey(), inode_akey(), fetched);
    item.size = bytes.size();
    const auto brought = record_of(item, fetched);
    if (bytes.size() <= sizeof(Record)) ROS2S_CHECK(brought.has_value() == record.has_value());
}

void show(ConstBytes bytes) {
    if (bytes.size() < sizeof(InodeRecord) + 3 * sizeof(uint64_t)) return;
    const auto inode = decode<InodeRecord>(bytes.first(sizeof(InodeRecord)));
    if (!inode) return;
    std::array<uint64_t, 3> numbers{};
    std::memcpy(numbers.data(), bytes.data() + sizeof(InodeRecord), sizeof numbers);
    object::QueryReply contents;
    contents.exists = true;
    contents.highest_dkey = chunk_dkey(numbers[0] >> 8);
    contents.size = numbers[1];
    contents.last_epoch = Epoch{numbers[2]};
    const Attributes shown = attributes_of(NodeId{5}, *inode, contents, block_bytes);
    ROS2S_CHECK(shown.mode == inode->mode && shown.links == inode->links);
    if (S_ISLNK(inode->mode)) ROS2S_CHECK(shown.size == inode->target_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const ConstBytes bytes = std::as_bytes(std::span(data, size));
    read_as<Superblock>(bytes);
    read_as<EntryRecord>(bytes);
    read_as<InodeRecord>(bytes);
    read_as<NumberRecord>(bytes);
    read_as<OrphanRecord>(bytes);
    show(bytes);
    return 0;
}

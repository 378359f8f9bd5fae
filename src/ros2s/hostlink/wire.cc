#include "wire.h"

namespace ros2s::hostlink {

using rpc::build;
using rpc::finish;

ConstBytes encode_file(Buffer& buffer, const FileBody& body) {
    return build(buffer, [&](auto& out) {
        out.number(body.mount.value);
        out.number(body.handle.value);
        out.number(body.offset);
        out.number(body.length);
        out.number(body.crc);
    });
}
Result<FileBody> decode_file(ConstBytes body) {
    Decoder in(body);
    FileBody file;
    file.mount.value = in.number<uint64_t>();
    file.handle.value = in.number<uint64_t>();
    file.offset = in.number<uint64_t>();
    file.length = in.number<uint64_t>();
    file.crc = in.number<uint32_t>();
    ROS2S_TRY(finish(in));
    return file;
}

ConstBytes encode_moved(Buffer& buffer, MovedBody body) {
    return build(buffer, [&](auto& out) {
        out.number(body.bytes);
        out.number(body.crc);
    });
}
Result<MovedBody> decode_moved(ConstBytes body) {
    Decoder in(body);
    MovedBody moved;
    moved.bytes = in.number<uint64_t>();
    moved.crc = in.number<uint32_t>();
    ROS2S_TRY(finish(in));
    return moved;
}

ConstBytes encode_node(Buffer& buffer, const NodeBody& body) {
    return build(buffer, [&](auto& out) {
        out.number(body.mount.value);
        out.number(body.node.value);
        out.text(body.name);
    });
}
Result<NodeBody> decode_node(ConstBytes body) {
    Decoder in(body);
    NodeBody node;
    node.mount.value = in.number<uint64_t>();
    node.node.value = in.number<uint64_t>();
    // One more than a name may have: the file system says what is wrong with it.
    node.name = in.text(fs::name_bytes_max + 1);
    ROS2S_TRY(finish(in));
    return node;
}

ConstBytes encode_attributes(Buffer& buffer, const fs::Attributes& attributes) {
    return build(buffer, [&](auto& out) {
        out.number(attributes.node.value);
        out.number(uint32_t{attributes.mode});
        out.number(attributes.links);
        out.number(uint32_t{attributes.uid});
        out.number(uint32_t{attributes.gid});
        out.number(attributes.size);
        out.number(attributes.bytes_used);
        out.number(uint64_t{attributes.device});
        rpc::put(out, attributes.accessed);
        rpc::put(out, attributes.modified);
        rpc::put(out, attributes.changed);
    });
}
Result<fs::Attributes> decode_attributes(ConstBytes body) {
    Decoder in(body);
    fs::Attributes attributes;
    attributes.node.value = in.number<uint64_t>();
    attributes.mode = in.number<uint32_t>();
    attributes.links = in.number<uint32_t>();
    attributes.uid = in.number<uint32_t>();
    attributes.gid = in.number<uint32_t>();
    attributes.size = in.number<uint64_t>();
    attributes.bytes_used = in.number<uint64_t>();
    attributes.device = in.number<uint64_t>();
    attributes.accessed = rpc::take_time(in);
    attributes.modified = rpc::take_time(in);
    attributes.changed = rpc::take_time(in);
    ROS2S_TRY(finish(in));
    return attributes;
}

ConstBytes encode_readdir(Buffer& buffer, const ReaddirBody& body) {
    return build(buffer, [&](auto& out) {
        out.number(body.mount.value);
        out.number(body.handle.value);
        out.number(body.cookie);
        out.number(body.limit);
    });
}
Result<ReaddirBody> decode_readdir(ConstBytes body) {
    Decoder in(body);
    ReaddirBody readdir;
    readdir.mount.value = in.number<uint64_t>();
    readdir.handle.value = in.number<uint64_t>();
    readdir.cookie = in.number<uint64_t>();
    readdir.limit = in.number<uint32_t>();
    if (readdir.limit > readdir_entries_max) in.refuse();
    ROS2S_TRY(finish(in));
    return readdir;
}

constexpr uint64_t entry_fixed_bytes = 4 + 8 + 4 + 8;

ConstBytes encode_entries(Buffer& buffer, std::span<const fs::DirectoryEntry> entries,
                          size_t bytes_max) {
    size_t count = 0;
    for (uint64_t bytes = sizeof(uint32_t); count < entries.size(); ++count) {
        bytes += entry_fixed_bytes + entries[count].name.size();
        if (bytes > bytes_max && count > 0) break;
    }
    return build(buffer, [&](auto& out) {
        out.number(static_cast<uint32_t>(count));
        for (const fs::DirectoryEntry& entry : entries.first(count)) {
            out.text(entry.name);
            out.number(entry.node.value);
            out.number(uint32_t{entry.type});
            out.number(entry.cookie);
        }
    });
}
Result<std::vector<fs::DirectoryEntry>> decode_entries(ConstBytes body) {
    Decoder in(body);
    const auto count = in.number<uint32_t>();
    if (count > readdir_entries_max || count > in.left() / entry_fixed_bytes) {
        return fail(Code::corrupt);
    }
    std::vector<fs::DirectoryEntry> entries(count);
    for (fs::DirectoryEntry& entry : entries) {
        entry.name = in.text(fs::name_bytes_max);
        entry.node.value = in.number<uint64_t>();
        entry.type = in.number<uint32_t>();
        entry.cookie = in.number<uint64_t>();
    }
    ROS2S_TRY(finish(in));
    return entries;
}

// ---- read_many ------------------------------------------------------------------------------

constexpr uint64_t item_fixed_bytes = 4 + 8;

uint64_t read_many_request_bytes(const fs::ReadManyItem& item) {
    return item_fixed_bytes + item.name.size();
}

ConstBytes encode_read_many(Buffer& buffer, ReadManyBody head,
                            std::span<const fs::ReadManyItem> items) {
    return build(buffer, [&](auto& out) {
        out.number(head.mount.value);
        out.number(head.directory.value);
        out.number(static_cast<uint32_t>(items.size()));
        for (const fs::ReadManyItem& item : items) {
            out.text(item.name);
            out.number(item.window.length);
        }
    });
}
Result<ReadManyBody> decode_read_many(ConstBytes body, std::vector<fs::ReadManyItem>& items) {
    Decoder in(body);
    ReadManyBody head;
    head.mount.value = in.number<uint64_t>();
    head.directory.value = in.number<uint64_t>();
    const auto count = in.number<uint32_t>();
    if (count > read_many_items_max || count > in.left() / item_fixed_bytes) {
        return fail(Code::corrupt);
    }
    items.resize(count);
    for (fs::ReadManyItem& item : items) {
        item.name = in.text(read_many_name_bytes_max);
        item.window = {.length = in.number<uint64_t>()};
        item.status = {};
        item.bytes = item.size = 0;
    }
    ROS2S_TRY(finish(in));
    return head;
}

ConstBytes encode_read_answers(Buffer& buffer, std::span<const fs::ReadManyItem> items,
                               std::span<const uint32_t> crcs) {
    return build(buffer, [&](auto& out) {
        for (size_t i = 0; i < items.size(); ++i) {
            rpc::put(out, items[i].status);
            out.number(items[i].bytes);
            out.number(items[i].size);
            out.number(crcs[i]);
        }
    });
}
Result<> decode_read_answers(ConstBytes body, std::span<fs::ReadManyItem> items,
                             std::vector<uint32_t>& crcs) {
    Decoder in(body);
    crcs.clear();
    for (fs::ReadManyItem& item : items) {
        item.status = rpc::take_status(in);
        item.bytes = in.number<uint64_t>();
        item.size = in.number<uint64_t>();
        crcs.push_back(in.number<uint32_t>());
        if (item.bytes > item.window.length || item.bytes > item.size) in.refuse();
        if (!item.status && item.bytes > 0) in.refuse();
    }
    return finish(in);
}

}  // namespace ros2s::hostlink

// This header declares the fields of the bodies of wire.h. They are written and read with
// rpc::build() and rpc::read_body().
#pragma once
#include "ros2s/base/fields.h"
#include "ros2s/hostlink/wire.h"
#include "ros2s/object/blocks.h"
#include "ros2s/object/lock_fields.h"

namespace ros2s::hostlink {

inline constexpr auto user_fields = [](auto& io, auto& user) {
    io("uid", user.uid);
    io("gid", user.gid);
    io.list("groups", user.groups, fs::caller_groups_max,
            [](auto& group_io, auto& group) { group_io("gid", group); });
};
// A request with the user for whom it is made, at its end.
inline constexpr auto with_user = [](auto fields) {
    return [fields](auto& io, auto& user, auto&... parts) {
        fields(io, parts...);
        user_fields(io, user);
    };
};

inline constexpr auto file_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("handle", body.handle.value);
    io("offset", body.offset);
    io("length", body.length);
    io("CRC32C of the payload", body.crc);
};

inline constexpr auto pieces_fields = [](auto& io, auto& body, auto& checksums) {
    io("mount", body.mount.value);
    io("handle", body.handle.value);
    io("offset", body.offset);
    io.numbers("checksums of the payload's pieces", checksums);
};

inline constexpr auto node_read_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("node", body.node.value);
    io("offset", body.offset);
};

inline constexpr auto lock_body_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("handle", body.handle.value);
    io.choice("how", body.how, fs::LockHow::now_waiting);
    io.part("lock", body.lock, object::lock_fields);
};

inline constexpr auto moved_fields = [](auto& io, auto& body) {
    io("bytes", body.bytes);
    io("CRC32C of the payload", body.crc);
};

inline constexpr auto node_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("node", body.node.value);
    // One byte more than a name may have: the file system then reports what is wrong with it.
    io.text("name", body.name, fs::name_bytes_max + 1);
};

inline constexpr auto attributes_fields = [](auto& io, auto& attributes) {
    io("node", attributes.node.value);
    io("mode", attributes.mode);
    io("links", attributes.links);
    io("uid", attributes.uid);
    io("gid", attributes.gid);
    io("size", attributes.size);
    io("bytes used", attributes.bytes_used);
    io("device", attributes.device);
    io("of access", attributes.accessed);
    io("of change of data", attributes.modified);
    io("of change", attributes.changed);
    io("of creation", attributes.created);
    io("flags", attributes.flags);
};

inline constexpr auto lease_fields = [](auto& io, auto& lease) {
    io("node", lease.node);
    io("number", lease.number);
    io.refuse_when(lease.number == 0);
};
inline constexpr auto listen_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("begins", body.listening.begins);
    io("ends", body.listening.ends);
    io("heard", body.listening.heard);
};
inline constexpr auto news_fields = []<class Io>(Io& io, auto& news) {
    io("all leases are lost", news.lost);
    io("number", news.number);
    int64_t held_for = news.held_for.count();
    io("nanoseconds for which the others are held", held_for);
    io.refuse_when(held_for < 0);
    if constexpr (Io::reads) news.held_for = Duration(held_for);
    io.list("recalled", news.recalled, session::MountLeases::recalled_max, lease_fields);
};
// Those that cover a reply are at its end.
inline constexpr auto covering_fields = [](auto& io, auto& lease) {
    lease_fields(io, lease);
    io("when the directory was changed (0: it was not)", lease.changed);
};
inline constexpr auto leases_fields = [](auto& io, auto& leases) {
    io.list("leases", leases, leases_max, covering_fields);
};
inline constexpr auto with_leases = [](auto fields) {
    return [fields](auto& io, auto& leases, auto&... parts) {
        fields(io, parts...);
        leases_fields(io, leases);
    };
};

inline constexpr auto readdir_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("handle", body.handle.value);
    io("cookie", body.cookie);
    io("limit", body.limit);
    io.refuse_when(body.limit > readdir_entries_max);
};

inline constexpr auto entry_fields = [](auto& io, auto& entry) {
    io.text("name", entry.name, fs::name_bytes_max);
    // A program that joins paths would leave its directory.
    io.refuse_when(!fs::check_name(entry.name));
    io("node", entry.node.value);
    io("type", entry.type);
    io("cookie", entry.cookie);
};
inline constexpr auto entries_fields = [](auto& io, auto& entries) {
    io.list("entries", entries, readdir_entries_max, entry_fields);
};

inline constexpr auto read_item_fields = [](auto& io, auto& item) {
    io.text("name", item.name, read_many_name_bytes_max);
    io("length of the window", item.window.length);
};
inline constexpr auto read_many_fields = [](auto& io, auto& body, auto& items) {
    io("mount", body.mount.value);
    io("directory", body.directory.value);
    io.list("items", items, read_many_items_max, read_item_fields);
};

inline constexpr auto read_answer_fields = [](auto& io, auto& item, auto& crc) {
    io.part("status", item.status, rpc::status_fields);
    io("bytes", item.bytes);
    io("size of the file", item.size);
    io("CRC32C of its bytes", crc);
    io.refuse_when(item.bytes > item.window.length || item.bytes > item.size);
    io.refuse_when(!item.status && item.bytes > 0);
};

inline constexpr auto block_fields = [](auto& io, auto& block) {
    io.text("key", block.key, block_key_text_max);
    io("length, of a put", block.length);
    io("CRC32C of its bytes", block.crc);
};
inline constexpr auto blocks_fields = [](auto& io, auto& body, auto& blocks) {
    io("mount", body.mount.value);
    io.choice("work", body.work, fs::BlockWork::remove);
    io("nanoseconds, of a pin", body.pinned_for_ns);
    io.list("blocks", blocks, fs::blocks_together_max, block_fields);
};

}  // namespace ros2s::hostlink

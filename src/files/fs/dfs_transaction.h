// What transactions of a DFS consist of: their operations and conditions, and what the flags of
// nodes permit.
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "caller.h"
#include "records.h"

namespace ros2s::fs {

using object::Condition;
using object::FetchItem;
using object::Operation;

// What the flags of a node and of its directory permit. Errors: EPERM.
[[nodiscard]] inline Result<> check_flags(const InodeRecord& node, uint32_t forbidden) {
    return (node.flags & forbidden) == 0 ? Result<>() : fail_permission();
}
[[nodiscard]] inline Result<> check_may_add(const InodeRecord& directory) {
    return check_flags(directory, node_flags::immutable);
}
[[nodiscard]] inline Result<> check_may_remove(const InodeRecord& directory,
                                               const InodeRecord& node) {
    ROS2S_TRY(check_flags(directory, node_flags::all));
    return check_flags(node, node_flags::all);
}

// A new node of this mode gets its lists from the directory's default one.
[[nodiscard]] inline bool inherits_acl(const InodeRecord& directory, mode_t mode) {
    return (directory.flags & node_flags::has_default_acl) != 0 && !S_ISLNK(mode);
}

// Operations of DFS transactions.
template <class Record>
[[nodiscard]] Operation put(ObjectId object, Dkey dkey, Akey akey, const Record& record) {
    return {.kind = Operation::Kind::put,
            .object = object,
            .dkey = std::move(dkey),
            .akey = std::move(akey),
            .window = Window::local(object_bytes(record))};
}
[[nodiscard]] inline Operation put_inode(NodeId node, const InodeRecord& record) {
    return put(object_of(node), record_dkey(), inode_akey(), record);
}
[[nodiscard]] inline Operation punch_xattr(NodeId node, std::string_view name) {
    return {.kind = Operation::Kind::punch_akey,
            .object = object_of(node),
            .dkey = record_dkey(),
            .akey = {std::string(name)}};
}
[[nodiscard]] inline Operation put_acl(NodeId node, std::string_view name,
                                       const std::string& bytes) {
    return {.kind = Operation::Kind::put,
            .object = object_of(node),
            .dkey = record_dkey(),
            .akey = {std::string(name)},
            .window = Window::local(as_bytes(bytes))};
}
// The error of an item of file contents, with a position in the file instead of one in the chunk.
[[nodiscard]] inline Error error_in_file(const FetchItem& item, uint64_t chunk_bytes) {
    Error error = item.status.error();
    if (error.code == Code::corrupt && error.detail > 0) {
        error.detail += item.dkey.number() * chunk_bytes;
    }
    return error;
}
// The array reaches the extent's end: every byte read belongs to the file.
[[nodiscard]] inline bool is_complete(const FetchItem& item) {
    return item.status && item.extent.end() <= item.size;
}
[[nodiscard]] inline Condition node_exists(NodeId node) {
    return {.kind = Condition::Kind::exists,
            .object = object_of(node),
            .dkey = record_dkey(),
            .akey = inode_akey()};
}
[[nodiscard]] inline Condition is_orphan(NodeId node) {
    return {.kind = Condition::Kind::exists,
            .object = object_of(orphan_node),
            .dkey = Dkey::integer(node.value),
            .akey = orphan_akey()};
}
[[nodiscard]] inline Operation punch_orphan_record(NodeId node) {
    return {.kind = Operation::Kind::punch_dkey,
            .object = object_of(orphan_node),
            .dkey = Dkey::integer(node.value)};
}
[[nodiscard]] inline Condition pinned(NodeId node) {
    return {.kind = Condition::Kind::pinned, .object = object_of(node)};
}
// By the holder (LockSpace::container).
[[nodiscard]] inline Condition container_is_locked() {
    return {.kind = Condition::Kind::pinned, .object = ObjectId{}};
}
[[nodiscard]] inline Condition unpinned(NodeId node) {
    return {.kind = Condition::Kind::unpinned, .object = object_of(node)};
}
[[nodiscard]] inline Condition inode_is(NodeId node, Epoch epoch) {
    return {.kind = Condition::Kind::epoch_equals,
            .object = object_of(node),
            .dkey = record_dkey(),
            .akey = inode_akey(),
            .value = epoch.value};
}
[[nodiscard]] inline Condition entry_is(NodeId parent, std::string_view name, Epoch epoch) {
    return {.kind = Condition::Kind::epoch_equals,
            .object = object_of(parent),
            .dkey = name_dkey(name),
            .akey = entry_akey(),
            .value = epoch.value};
}
// Continues `crc` over the first `bytes` bytes of fetched items, from their checksums. Errors:
// corrupt.
Result<> add_checksums(std::span<const FetchItem> items, uint64_t bytes, uint32_t& crc);
// A client with rights to the container's objects can put such keys and values into a directory.
[[nodiscard]] inline bool is_no_entry(const object::ListEntry& listed) {
    if (!check_name(listed.key)) return true;
    const auto record = decode<EntryRecord>(as_bytes(listed.value));
    return !record && record.error().code == Code::corrupt;
}
[[nodiscard]] inline Operation punch_chunks_from(NodeId node, uint64_t first) {
    return {.kind = Operation::Kind::punch_dkeys,
            .object = object_of(node),
            .dkey = chunk_dkey(first),
            .dkey_end = chunks_end()};
}
[[nodiscard]] inline Operation punch_entry(NodeId parent, std::string_view name) {
    return {.kind = Operation::Kind::punch_akey,
            .object = object_of(parent),
            .dkey = name_dkey(name),
            .akey = entry_akey()};
}

}  // namespace ros2s::fs

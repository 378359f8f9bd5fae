// Extended attributes: single values beside the inode record, under their own names. Access control
// lists (acl.h) are such values, too; the record has a flag for each, so that a node without one
// costs no request. So it has for file capabilities, which a write must drop.
#include <algorithm>
#include <array>

#include "dfs_mount.h"

namespace ros2s::fs {
namespace {

// The namespaces of Linux; of "system.", whose names have a meaning, only what DFS respects. Every
// name has a '.', so none equals a record's akey.
Result<> check_xattr_name(std::string_view name) {
    if (is_acl(name)) return {};
    for (const std::string_view space : {"user.", "trusted.", "security."}) {
        if (!name.starts_with(space)) continue;
        if (name.size() == space.size()) return fail(Code::invalid);
        if (name.size() > name_bytes_max) return fail(Code::too_small, name_bytes_max);  // ERANGE
        if (name.find('\0') != name.npos) return fail(Code::invalid);
        return {};
    }
    return fail(Code::unsupported);
}

Akey xattr_akey(std::string_view name) { return {std::string(name)}; }

bool is_xattr(std::string_view akey) { return akey.contains('.'); }

}  // namespace

Task<Result<std::string>> DfsMount::get_xattr(const Call& call, NodeId node,
                                              std::string_view name) {
    ROS2S_CO_TRY(check_xattr_name(name));
    if (name == unsynced_attribute) {
        // A store of this process knows better, and the mount does not ask it.
        if (!is_deferred_ || store_.pins_era() == 0) co_return fail(Code::no_attribute);
        if (deferred_->store_start() == 0) ROS2S_CO_TRY(co_await deferred_->learn(call));
        co_return to_text(deferred_->unsynced(), reactor_.now(), deferred_->store_start());
    }
    InodeRecord inode;
    std::string value(256, '\0');  // most are shorter; a longer one is fetched again
    for (;;) {
        std::array items{
            record_item(object_of(node), record_dkey(), inode_akey(), inode),
            FetchItem{.object = object_of(node),
                      .dkey = record_dkey(),
                      .akey = xattr_akey(name),
                      .extent = {.offset = 0, .length = value.size()},
                      .window = Window::local(std::as_writable_bytes(std::span(value)))}};
        ROS2S_CO_TRY(co_await store_.fetch(call, container_, items));
        if (!items[0].status && items[0].status.error().code == Code::not_found) {
            co_return fail(Code::stale);
        }
        const Result<>& status = items[1].status;
        if (!status && status.error().code == Code::too_small) {
            // Others with rights to the container may have put anything there.
            const uint64_t needed = status.error().detail;
            if (needed <= value.size() || needed > object::value_bytes_max) {
                co_return fail(Code::corrupt);
            }
            value.resize(needed);
            continue;
        }
        if (!status) {
            co_return status.error().code == Code::not_found ? fail(Code::no_attribute)
                                                             : fail(status.error());
        }
        if (const uint32_t flag = flag_of_attribute(name)) {
            ROS2S_CO_TRY_ASSIGN(const InodeRecord record, record_of(items[0], inode));
            if ((record.flags & flag) == 0) co_return fail(Code::no_attribute);
        }
        if (!items[1].is_value || items[1].size > value.size()) co_return fail(Code::corrupt);
        value.resize(items[1].size);
        co_return value;
    }
}

Task<Result<>> DfsMount::change_xattr(const Call& call, NodeId node,
                                      std::optional<Condition::Kind> condition,
                                      const Operation& operation) {
    const bool puts = operation.kind == Operation::Kind::put;
    const uint32_t flag = flag_of_attribute(operation.akey.bytes);
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        ROS2S_CO_TRY_ASSIGN(InodeAndContents whole, co_await fetch_whole(call, node));
        auto& [inode, contents] = whole;
        ROS2S_CO_TRY(check_flags(inode.record, node_flags::all));
        // The commit's condition on the inode excludes other changes of attributes since then.
        if (puts && condition != Condition::Kind::exists) {
            ROS2S_CO_TRY(co_await check_room_for_xattr(call, node, operation.akey.bytes));
        }
        inode.record.flags = puts ? inode.record.flags | flag : inode.record.flags & ~flag;
        stamp_changed(inode.record, contents);
        co_await slots_.wait();
        auto slot = slots_.take();
        if (condition) {
            slot.require({.kind = *condition,
                          .object = operation.object,
                          .dkey = operation.dkey,
                          .akey = operation.akey});
        }
        const size_t inode_condition = slot.transaction().conditions.size();
        slot.require(inode_is(node, inode.epoch));
        slot.add(put_inode(node, inode.record));
        slot.add(operation);
        FoundSuperblock superblock;
        if (puts && flag != 0) {
            ROS2S_CO_TRY(
                co_await require_feature(call, slot, Superblock::has_capabilities, superblock));
        }
        const auto done = co_await commit_named(call, slot);
        if (done) {
            if (NodeState* const state = nodes_.find(node)) state->flags = inode.record.flags;
            co_return Result<>();
        }
        const Error error = done.error();
        if (error.code == Code::condition_failed && error.detail < inode_condition) {
            co_return fail(condition == Condition::Kind::absent ? Code::exists
                                                                : Code::no_attribute);
        }
        if (!co_await conflicted(error, attempt)) co_return fail(error);
    }
    co_return fail(Code::busy);
}

// Errors: no_space.
Task<Result<>> DfsMount::check_room_for_xattr(const Call& call, NodeId node,
                                              const std::string& name) {
    ROS2S_CO_TRY_ASSIGN(const std::vector<std::string> names, co_await list_names(call, node));
    if (names.size() < xattrs_max || std::ranges::find(names, name) != names.end()) {
        co_return Result<>();
    }
    co_return fail(Code::no_space);
}

Task<Result<>> DfsMount::set_xattr(const Call& call, NodeId node, std::string_view name,
                                   ConstBytes value, SetXattr how) {
    ROS2S_CO_TRY(check_xattr_name(name));
    if (value.size() > attribute_value_bytes_max) {
        co_return fail(Code::too_large, attribute_value_bytes_max);
    }
    if (is_acl(name)) {
        ROS2S_CO_TRY_ASSIGN(Acl list, Acl::decode(value));
        const auto changed = co_await change_acl(call, node, name, std::move(list), how);
        co_return co_await unless_done(call, changed);
    }
    const Operation operation{.kind = Operation::Kind::put,
                              .object = object_of(node),
                              .dkey = record_dkey(),
                              .akey = xattr_akey(name),
                              .window = Window::local(value)};
    std::optional<Condition::Kind> condition;
    if (how == SetXattr::create) condition = Condition::Kind::absent;
    if (how == SetXattr::replace) condition = Condition::Kind::exists;
    const auto changed = co_await change_xattr(call, node, condition, operation);
    co_return co_await unless_done(call, changed);
}

Task<Result<>> DfsMount::remove_xattr(const Call& call, NodeId node, std::string_view name) {
    ROS2S_CO_TRY(check_xattr_name(name));
    if (is_acl(name)) {
        const auto changed = co_await change_acl(call, node, name, std::nullopt, SetXattr::any);
        co_return co_await unless_done(call, changed);
    }
    const auto changed =
        co_await change_xattr(call, node, Condition::Kind::exists, punch_xattr(node, name));
    co_return co_await unless_done(call, changed);
}

// ---- access control lists -------------------------------------------------------------------

Task<Result<Acl>> DfsMount::fetch_acl(const Call& call, NodeId node, std::string_view name) {
    ROS2S_CO_TRY_ASSIGN(const std::string value, co_await get_xattr(call, node, name));
    auto list = Acl::decode(as_bytes(value));
    co_return list ? std::move(list) : fail(Code::corrupt);
}

// As Linux (posix_acl_update_mode): a list that says what a mode can say becomes the mode.
Task<Result<>> DfsMount::change_acl(const Call& call, NodeId node, std::string_view name,
                                    std::optional<Acl> list, SetXattr how) {
    const std::string value = list ? list->encode() : std::string();
    const uint32_t flag = flag_of_attribute(name);
    const bool is_access = name == access_acl_name;
    const bool stays = list && !(is_access && list->is_mode());
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        ROS2S_CO_TRY_ASSIGN(InodeAndContents whole, co_await fetch_whole(call, node));
        auto& [inode, contents] = whole;
        InodeRecord& record = inode.record;
        if (S_ISLNK(record.mode)) co_return fail(Code::unsupported);
        const bool has = (record.flags & flag) != 0;
        if (has && how == SetXattr::create) co_return fail(Code::exists);
        if (!has && (!list || how == SetXattr::replace)) co_return fail(Code::no_attribute);
        if (!is_access && !S_ISDIR(record.mode)) co_return fail_access();
        ROS2S_CO_TRY(check_flags(record, node_flags::all));
        if (stays && !has)
            ROS2S_CO_TRY(co_await check_room_for_xattr(call, node, std::string(name)));
        if (list && is_access) {
            record.mode = (record.mode & ~access_bits) | list->mode();
            if (how == SetXattr::without_set_group) record.mode &= ~mode_t{S_ISGID};
        }
        record.flags = stays ? record.flags | flag : record.flags & ~flag;
        stamp_changed(record, contents);
        co_await slots_.wait();
        auto slot = slots_.take();
        slot.require(inode_is(node, inode.epoch));
        slot.add(put_inode(node, record));
        FoundSuperblock superblock;
        if (stays) {
            slot.add(put_acl(node, name, value));
            ROS2S_CO_TRY(co_await require_feature(call, slot, Superblock::has_acls, superblock));
        } else if (has) {
            slot.add(punch_xattr(node, name));
        }
        const auto done = co_await commit_named(call, slot);
        if (done) co_return Result<>();
        if (!co_await conflicted(done.error(), attempt)) co_return fail(done.error());
    }
    co_return fail(Code::busy);
}

Task<Result<>> DfsMount::check_access(const Call& call, NodeId node, const InodeRecord& record,
                                      uint32_t wanted) {
    const Caller& caller = *call.caller;
    InodeRecord now = record;
    if ((record.flags & node_flags::has_access_acl) != 0 && !caller.is_root()) {
        const auto list = co_await fetch_acl(call, node, access_acl_name);
        if (list) {
            const bool may = list->allows(caller, record.uid, record.gid, wanted);
            co_return may ? Result<>() : fail_access();
        }
        if (list.error().code != Code::no_attribute) co_return fail(list.error());
        // It was removed meanwhile.
        ROS2S_CO_TRY_ASSIGN(const Inode inode, co_await fetch_inode(call, node));
        now = inode.record;
        if ((now.flags & node_flags::has_access_acl) != 0) co_return fail(Code::busy);
    }
    co_return allows(caller, now.mode, now.uid, now.gid, wanted) ? Result<>() : fail_access();
}

// ---- names ----------------------------------------------------------------------------------

Task<Result<std::vector<std::string>>> DfsMount::list_xattrs(const Call& call, NodeId node) {
    ROS2S_CO_TRY(co_await fetch_inode(call, node));
    co_return co_await list_names(call, node);
}

Task<Result<std::vector<std::string>>> DfsMount::list_names(const Call& call, NodeId node) {
    Listing listing{{.what = object::ListRequest::What::akeys,
                     .object = object_of(node),
                     .dkey = record_dkey()}};
    std::vector<std::string> names;
    size_t bytes = 0;
    while (listing.more) {
        ROS2S_CO_TRY_ASSIGN(const auto entries, co_await next_page(call, listing));
        for (const object::ListEntry& entry : entries) {
            if (!is_xattr(entry.key)) continue;
            bytes += entry.key.size() + 1;
            if (bytes > xattr_list_bytes_max) co_return fail(Code::too_large, xattr_list_bytes_max);
            names.push_back(entry.key);
        }
    }
    co_return names;
}

}  // namespace ros2s::fs

#include "mount_names.h"

namespace ros2s::session {

Result<> check_name(std::string_view field, std::string_view name, Report& report) {
    const auto checked = fs::check_name(name);
    if (checked) return {};
    if (checked.error().code == Code::name_too_long) {
        return report.fail(checked.error(), "{} has {} bytes; the limit of a name is {}", field,
                           name.size(), fs::name_bytes_max);
    }
    return report.fail(
        checked.error(),
        "{} is not a valid name: it is empty, \".\" or \"..\", or contains '/' or NUL", field);
}

Result<> check_permissions(uint32_t mode, Report& report) {
    if ((mode & ~uint32_t{fs::permission_bits}) == 0) return {};
    return report.fail(Code::invalid,
                       "mode is 0{:o}; only permission and set-id bits are valid here (0 to 07777)",
                       mode);
}

Result<> check_node_mode(uint32_t mode, Report& report) {
    const uint32_t type = mode & S_IFMT;
    const bool known = type == S_IFIFO || type == S_IFSOCK || type == S_IFCHR || type == S_IFBLK ||
                       type == S_IFREG;
    if (known && (mode & ~uint32_t{S_IFMT | fs::permission_bits}) == 0) return {};
    return report.fail(Code::invalid,
                       "mode is 0{:o}; the type must be FIFO, socket, device or regular file",
                       mode);
}

Result<> MountNames::check_may_change() {
    if (!mount_.read_only()) return {};
    return report_.fail(Code::read_only,
                        "the container is mounted for reading only: the client requested it, or "
                        "'access' in the server's settings lets {} only read",
                        mount_.subject());
}

Result<> MountNames::check_may_change(std::string_view name) {
    ROS2S_TRY(check_name("name", name, report_));
    return check_may_change();
}

Result<HandleRoom> MountNames::reserve_handle() {
    std::string why;
    auto room = mount_.reserve_handle(&why);
    if (room) return room;
    if (!why.empty()) return report_.fail(room.error(), "{}", why);
    return report_.fail(
        room.error(),
        "too many files are open in this mount, by this tenant, or in all; close some");
}

Result<> MountNames::give(const Call& call, NodeId node) {
    if (call.stop.stop_requested()) {
        fs().forget(node, 1);
        return fail(Code::cancelled);
    }
    mount_.refer(node);
    return {};
}

Result<fs::Attributes> MountNames::give(const Call& call, Result<fs::Attributes> found) {
    if (found) ROS2S_TRY(give(call, found->node));
    return shown(std::move(found));
}

Result<fs::Attributes> MountNames::shown(Result<fs::Attributes> found) const {
    if (found) *found = mount_.users().shown(*found);
    return found;
}

fs::Owner MountNames::stored(fs::Owner owner) const {
    const rights::UserMapping& users = mount_.users();
    return {.uid = users.stored_uid(owner.uid).value_or(fs::nobody),
            .gid = users.stored_gid(owner.gid).value_or(fs::nobody),
            .umask = owner.umask};
}

Task<Result<fs::Opened>> MountNames::give(const Call& call, Result<fs::Opened> opened,
                                          HandleRoom room, bool is_new) {
    if (!opened) co_return opened;
    Result<> given{};
    if (is_new) {
        if (const auto node = give(call, opened->attributes); !node) given = fail(node.error());
    } else if (call.stop.stop_requested()) {
        given = fail(Code::cancelled);
    }
    if (given) {
        mount_.opened(opened->handle, std::move(room));
        opened->attributes = mount_.users().shown(opened->attributes);
        co_return opened;
    }
    // The host has not written it.
    StopSource gone;
    gone.request_stop();
    (void)co_await fs().close({.stop = gone.token()}, opened->handle);
    co_return fail(given.error());
}

// ---- names ----------------------------------------------------------------------------------

MountNames::AttributesTask MountNames::lookup(const Call& call, NodeId parent,
                                              std::string_view name) {
    if (name != "." && name != "..") ROS2S_CO_TRY(check_name("name", name, report_));
    co_return give(call, co_await fs().lookup(call, parent, name));
}

MountNames::AttributesTask MountNames::mkdir(const Call& call, NodeId parent, std::string_view name,
                                             mode_t mode, fs::Owner owner) {
    ROS2S_CO_TRY(check_permissions(mode, report_));
    ROS2S_CO_TRY(check_may_change(name));
    co_return give(call, co_await fs().mkdir(call, parent, name, mode, stored(owner)));
}

MountNames::AttributesTask MountNames::mknod(const Call& call, NodeId parent, std::string_view name,
                                             mode_t mode, dev_t device, fs::Owner owner) {
    ROS2S_CO_TRY(check_node_mode(mode, report_));
    ROS2S_CO_TRY(check_may_change(name));
    co_return give(call, co_await fs().mknod(call, parent, name, mode, device, stored(owner)));
}

MountNames::AttributesTask MountNames::symlink(const Call& call, NodeId parent,
                                               std::string_view name, std::string_view target,
                                               fs::Owner owner) {
    ROS2S_CO_TRY(check_may_change(name));
    co_return give(call, co_await fs().symlink(call, parent, name, target, stored(owner)));
}

MountNames::AttributesTask MountNames::link(const Call& call, NodeId node, NodeId parent,
                                            std::string_view name) {
    ROS2S_CO_TRY(check_may_change(name));
    co_return give(call, co_await fs().link(call, node, parent, name));
}

Task<Result<>> MountNames::unlink(const Call& call, NodeId parent, std::string_view name) {
    ROS2S_CO_TRY(check_may_change(name));
    co_return co_await fs().unlink(call, parent, name);
}

Task<Result<>> MountNames::rmdir(const Call& call, NodeId parent, std::string_view name) {
    ROS2S_CO_TRY(check_may_change(name));
    co_return co_await fs().rmdir(call, parent, name);
}

Task<Result<>> MountNames::rename(const Call& call, NodeId parent, std::string_view name,
                                  NodeId new_parent, std::string_view new_name, RenameFlags flags) {
    ROS2S_CO_TRY(check_name("new_name", new_name, report_));
    ROS2S_CO_TRY(check_may_change(name));
    flags.owner = stored(flags.owner);
    co_return co_await fs().rename(call, parent, name, new_parent, new_name, flags);
}

// The client gets both nodes of the result, or none.
Task<Result<fs::Walked>> MountNames::walk(const Call& call, std::string_view path,
                                          fs::LastLink last) {
    auto walked = co_await fs().walk(call, path, last);
    if (!walked) co_return walked;
    const bool has_parent = walked->parent != NodeId{};
    Result<> given = has_parent ? give(call, walked->parent) : Result<>{};
    if (walked->attributes) {
        const NodeId node = walked->attributes->node;
        if (!given) {
            fs().forget(node, 1);
        } else {
            given = give(call, node);
        }
        walked->attributes = mount_.users().shown(*walked->attributes);
    }
    if (!given) co_return fail(given.error());
    co_return walked;
}

Task<std::vector<Result<fs::Attributes>>> MountNames::lookup_many(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    auto results = co_await fs().lookup_many(call, parent, names);
    for (auto& result : results) result = give(call, std::move(result));
    co_return results;
}

Task<std::vector<Result<fs::Attributes>>> MountNames::look_up_names(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    auto results = co_await fs().look_up_names(call, parent, names);
    for (auto& result : results) result = give(call, std::move(result));
    co_return results;
}

Task<std::vector<Result<>>> MountNames::create_many(const Call& call, NodeId parent,
                                                    std::span<const std::string_view> names,
                                                    mode_t mode, fs::Owner owner) {
    Result<> may = check_permissions(mode, report_);
    if (may) may = check_may_change();
    if (!may) co_return std::vector<Result<>>(names.size(), may);
    co_return co_await fs().create_many(call, parent, names, mode, stored(owner));
}

Task<std::vector<Result<>>> MountNames::unlink_many(const Call& call, NodeId parent,
                                                    std::span<const std::string_view> names) {
    const Result<> may = check_may_change();
    if (!may) co_return std::vector<Result<>>(names.size(), may);
    co_return co_await fs().unlink_many(call, parent, names);
}

// ---- attributes -----------------------------------------------------------------------------

MountNames::AttributesTask MountNames::set_attributes(const Call& call, NodeId node,
                                                      const fs::SetAttributes& changes) {
    if (changes.mode) ROS2S_CO_TRY(check_permissions(*changes.mode, report_));
    ROS2S_CO_TRY(check_may_change());
    fs::SetAttributes wanted = changes;
    if (wanted.uid) {
        ROS2S_CO_TRY_ASSIGN(wanted.uid, mount_.users().stored_uid(*wanted.uid));
    }
    if (wanted.gid) {
        ROS2S_CO_TRY_ASSIGN(wanted.gid, mount_.users().stored_gid(*wanted.gid));
    }
    co_return shown(co_await fs().set_attributes(call, node, wanted));
}

MountNames::AttributesTask MountNames::get_attributes(const Call& call, NodeId node) {
    co_return shown(co_await fs().get_attributes(call, node));
}

Task<Result<std::string>> MountNames::get_xattr(const Call& call, NodeId node,
                                                std::string_view name) {
    auto value = co_await fs().get_xattr(call, node, name);
    if (!value || !fs::is_acl(name)) co_return value;
    auto list = fs::Acl::decode(as_bytes(*value));
    if (!list) co_return fail(Code::corrupt);
    const rights::UserMapping& users = mount_.users();
    ROS2S_CO_TRY(list->replace_ids(
        [&](uint32_t uid) -> Result<uint32_t> { return users.shown({.uid = uid}).uid; },
        [&](uint32_t gid) -> Result<uint32_t> { return users.shown({.gid = gid}).gid; }));
    co_return list->encode();
}

Task<Result<>> MountNames::set_xattr(const Call& call, NodeId node, std::string_view name,
                                     ConstBytes value, fs::SetXattr how) {
    ROS2S_CO_TRY(check_may_change());
    if (!fs::is_acl(name)) co_return co_await fs().set_xattr(call, node, name, value, how);
    ROS2S_CO_TRY_ASSIGN(fs::Acl list, fs::Acl::decode(value));
    const rights::UserMapping& users = mount_.users();
    ROS2S_CO_TRY(list.replace_ids([&](uint32_t uid) { return users.stored_uid(uid); },
                                  [&](uint32_t gid) { return users.stored_gid(gid); }));
    const std::string stored = list.encode();
    co_return co_await fs().set_xattr(call, node, name, as_bytes(stored), how);
}

Task<Result<>> MountNames::remove_xattr(const Call& call, NodeId node, std::string_view name) {
    ROS2S_CO_TRY(check_may_change());
    co_return co_await fs().remove_xattr(call, node, name);
}

// ---- handles --------------------------------------------------------------------------------

Task<Result<fs::Opened>> MountNames::open(const Call& call, NodeId node, fs::OpenFlags flags) {
    if (flags.write || flags.append || flags.truncate) ROS2S_CO_TRY(check_may_change());
    ROS2S_CO_TRY_ASSIGN(HandleRoom room, reserve_handle());
    auto opened = co_await fs().open(call, node, flags);
    co_return co_await give(call, std::move(opened), std::move(room), false);
}

Task<Result<fs::Opened>> MountNames::create(const Call& call, NodeId parent, std::string_view name,
                                            mode_t mode, fs::OpenFlags flags, fs::Owner owner) {
    ROS2S_CO_TRY(check_permissions(mode, report_));
    if (!flags.nameless) ROS2S_CO_TRY(check_name("name", name, report_));
    ROS2S_CO_TRY(check_may_change());
    ROS2S_CO_TRY_ASSIGN(HandleRoom room, reserve_handle());
    auto opened = co_await fs().create(call, parent, name, mode, flags, stored(owner));
    co_return co_await give(call, std::move(opened), std::move(room), true);
}

Task<Result<>> MountNames::close(const Call&, fs::FileHandle handle) {
    ROS2S_CO_TRY(mount_.closing(handle));
    // The handle is out of the table, so its closing must not be stopped.
    const Call closing;
    co_return co_await fs().close(closing, handle);
}

Task<Result<std::vector<fs::DirectoryEntry>>> MountNames::readdir(const Call& call,
                                                                  fs::FileHandle handle,
                                                                  uint64_t cookie, size_t limit) {
    ROS2S_CO_TRY(mount_.check(handle));
    co_return co_await fs().readdir(call, handle, cookie, limit);
}

}  // namespace ros2s::session

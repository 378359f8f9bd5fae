#include "checked_file_system.h"

#include "ros2s/fs/path_walk.h"
#include "ros2s/fs/unsynced.h"

namespace ros2s::access {
namespace {

using fs::Caller;
using fs::Wanted;

// Null if nothing is checked: the program itself, or root.
const Caller* ordinary(const Call& call) {
    return call.caller == nullptr || call.caller->is_root() ? nullptr : call.caller;
}

bool has_set_id(mode_t type, mode_t mode) {
    return !S_ISDIR(type) && (mode & (S_ISUID | S_ISGID)) != 0;
}

bool may_keep_set_ids(const Call& call) {
    return call.caller == nullptr || (call.caller->is_root() && call.caller->may_set_ids);
}

bool is_privileged(std::string_view attribute) {
    return attribute.starts_with("trusted.") || attribute.starts_with("security.");
}

bool allows(const Caller& caller, const Rights& rights, uint32_t wanted) {
    if (rights.acl != nullptr) return rights.acl->allows(caller, rights.uid, rights.gid, wanted);
    return fs::allows(caller, rights.mode, rights.uid, rights.gid, wanted);
}

// A sticky directory of another user: a user may remove only the user's own nodes.
bool is_guarded(const Caller& caller, const Rights& directory) {
    return (directory.mode & S_ISVTX) != 0 && directory.uid != caller.uid;
}

uint32_t wanted_by(fs::OpenFlags flags) {
    const bool writes = flags.write || flags.append || flags.truncate;
    const uint32_t to_read = flags.execute ? Wanted::search : Wanted::read;
    return (flags.read || !writes ? to_read : 0) | (writes ? Wanted::write : 0);
}

Rights rights_in(const fs::Attributes& node) {
    return {.mode = node.mode,
            .uid = node.uid,
            .gid = node.gid,
            .has_acl = (node.flags & fs::node_flags::has_access_acl) != 0};
}

// An own change whose outcome is not known may be done within this time, and ends no lease.
constexpr Duration unsure_for = std::chrono::seconds(30);

// Reads of attributes and list that others change all the time.
constexpr int acl_attempts_max = 16;

template <class T>
bool may_be_done_later(const Result<T>& done) {
    return !done && may_run_on(done.error().code);
}

const fs::Attributes* attributes_in(const fs::Attributes* attributes) { return attributes; }
const fs::Attributes* attributes_in(const fs::Opened* opened) { return &opened->attributes; }

}  // namespace

// Attributes that were read while a change was made may be older than the change.
template <class T>
Result<T> CheckedFileSystem::seen(const Call& call, uint64_t since, Result<T> result) {
    if (!result) return result;
    const fs::Attributes& attributes = *attributes_in(&*result);
    if (since == changes_) {
        see(call, attributes);
    } else {
        seen_.drop(attributes.node);
    }
    return result;
}

void CheckedFileSystem::see(const Call& call, const fs::Attributes& node) {
    Rights rights = rights_in(node);
    const Time now = reactor_.now();
    if (call.leases != nullptr && now >= unsure_until_) {
        rights.era = inner_.leases()->era();
        rights.lease = inner_.leases()->held(*call.leases, node.node);
    }
    if (rights.has_acl && rights.lease != 0) {
        // A change of the list would have ended the lease.
        const auto before = known(node.node);
        const bool is_same = before && before->lease == rights.lease && before->era == rights.era;
        if (is_same) rights.acl = before->acl;
    }
    seen_.see(node.node, std::move(rights), now);
}

std::optional<Rights> CheckedFileSystem::known(NodeId node) {
    fs::LeaseSet* const leases = inner_.leases();
    return seen_.find(node, reactor_.now(), [&](const Rights& rights) {
        if (rights.lease == 0) return std::optional<bool>();
        return std::optional(leases->era() == rights.era &&
                             leases->holds({node.value, rights.lease}));
    });
}

void CheckedFileSystem::changed_rights(NodeId node, bool may_be_done_later) {
    seen_.drop(node);
    if (may_be_done_later) unsure_until_ = reactor_.now() + unsure_for;
}

Task<Result<Rights>> CheckedFileSystem::rights_of(const Call& call, NodeId node) {
    const auto lately = known(node);
    if (lately && (!lately->has_acl || lately->acl != nullptr)) co_return *lately;
    // A list that is read later than the attributes may be newer, and may be gone.
    for (int attempt = 0; attempt < acl_attempts_max; ++attempt) {
        const uint64_t since = changes_;
        const Time asked = reactor_.now();
        Rights rights;
        if (attempt == 0 && lately && lately->lease != 0) {
            rights = *lately;
        } else {
            ROS2S_CO_TRY_ASSIGN(const fs::Attributes now,
                                seen(call, since, co_await inner_.get_attributes(call, node)));
            rights = rights_in(now);
        }
        if (!rights.has_acl) co_return rights;
        const auto value = co_await inner_.get_xattr(call, node, fs::access_acl_name);
        if (!value && value.error().code == Code::no_attribute) continue;
        if (!value) co_return fail(value.error());
        auto list = fs::Acl::decode(as_bytes(*value));
        if (!list) co_return fail(Code::corrupt);
        rights.acl = std::make_shared<const fs::Acl>(std::move(*list));
        if (auto kept = since == changes_ ? known(node) : std::nullopt; kept && kept->has_acl) {
            kept->acl = rights.acl;
            seen_.see(node, *kept, kept->lease != 0 ? reactor_.now() : asked);
        }
        co_return rights;
    }
    co_return fail(Code::busy);
}

Task<Result<>> CheckedFileSystem::require(const Call& call, fs::Attributes node, uint32_t wanted) {
    Rights rights = rights_in(node);
    if (rights.has_acl) {
        ROS2S_CO_TRY_ASSIGN(rights, co_await rights_of(call, node.node));
    }
    co_return allows(*call.caller, rights, wanted) ? Result<>{} : fs::fail_access();
}

Task<Result<>> CheckedFileSystem::require_in(const Call& call, NodeId directory, uint32_t wanted) {
    ROS2S_CO_TRY_ASSIGN(const Rights rights, co_await rights_of(call, directory));
    if (!S_ISDIR(rights.mode)) co_return fail(Code::not_directory);
    if (!allows(*call.caller, rights, wanted)) co_return fs::fail_access();
    co_return Result<>{};
}

Task<Result<>> CheckedFileSystem::require_change(const Call& call, NodeId directory,
                                                 std::string_view name, Code first) {
    ROS2S_CO_TRY(co_await require_in(call, directory, Wanted::search));
    const auto may = co_await require_in(call, directory, Wanted::write);
    if (may) co_return may;
    const auto absent = co_await check_absent(call, directory, name);
    const Code found = absent ? Code::not_found : absent.error().code;
    if (found == first) co_return fail(first);
    co_return may;
}

Task<Result<>> CheckedFileSystem::check_absent(const Call& call, NodeId parent,
                                               std::string_view name) {
    const auto found = co_await inner_.lookup(call, parent, name);
    if (!found) co_return found.error().code == Code::not_found ? Result<>{} : fail(found.error());
    inner_.forget(found->node, 1);
    co_return fail(Code::exists);
}

// ---- look-ups -------------------------------------------------------------------------------

CheckedFileSystem::AttributesTask CheckedFileSystem::lookup(const Call& call, NodeId parent,
                                                            std::string_view name) {
    if (ordinary(call) != nullptr) ROS2S_CO_TRY(co_await require_in(call, parent, Wanted::search));
    const uint64_t since = changes_;
    co_return seen(call, since, co_await inner_.lookup(call, parent, name));
}

Task<std::vector<Result<fs::Attributes>>> CheckedFileSystem::look_up_names(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    std::vector<Result<fs::Attributes>> found;
    if (ordinary(call) != nullptr) {
        if (const auto may = co_await require_in(call, parent, Wanted::search); !may) {
            found.emplace_back(fail(may.error()));
            co_return found;
        }
    }
    const uint64_t since = changes_;
    found = co_await inner_.look_up_names(call, parent, names);
    Result<> may_go_on{};
    size_t kept = 0;
    for (auto& each : found) {
        if (!may_go_on) {
            if (each) inner_.forget(each->node, 1);
            continue;
        }
        ++kept;
        if (!each) continue;
        if (since == changes_) see(call, *each);
        if (ordinary(call) == nullptr || !S_ISDIR(each->mode)) continue;
        may_go_on = co_await require(call, *each, Wanted::search);
    }
    if (kept < found.size()) {
        found.resize(kept);
        found.emplace_back(fail(may_go_on.error()));
    }
    co_return found;
}

Task<Result<>> CheckedFileSystem::may_search(const Call& call, NodeId directory) {
    if (ordinary(call) == nullptr) co_return Result<>{};
    co_return co_await require_in(call, directory, Wanted::search);
}

CheckedFileSystem::AttributesTask CheckedFileSystem::get_attributes(const Call& call, NodeId node) {
    const uint64_t since = changes_;
    co_return seen(call, since, co_await inner_.get_attributes(call, node));
}

// ---- new names ------------------------------------------------------------------------------

Task<Result<>> CheckedFileSystem::check_new(const Call& call, NodeId parent, std::string_view name,
                                            mode_t& mode, fs::Owner& owner) {
    const Caller* const caller = call.caller;
    if (caller == nullptr) co_return Result<>{};
    if (has_set_id(mode, mode) && !caller->may_set_ids) co_return fs::fail_permission();
    if (caller->is_root()) co_return Result<>{};
    ROS2S_CO_TRY(co_await require_change(call, parent, name, Code::exists));
    ROS2S_CO_TRY_ASSIGN(owner, co_await owner_in(call, parent, owner));
    // A program that runs as a group in which its creator is not.
    if (!S_ISDIR(mode) && (mode & S_IXGRP) != 0 && !caller->in_group(owner.gid)) {
        mode &= ~mode_t{S_ISGID};
    }
    co_return Result<>{};
}

Task<Result<fs::Owner>> CheckedFileSystem::owner_in(const Call& call, NodeId directory,
                                                    fs::Owner wanted) {
    ROS2S_CO_TRY_ASSIGN(const Rights rights, co_await rights_of(call, directory));
    const bool inherits = (rights.mode & S_ISGID) != 0;
    co_return fs::Owner{.uid = call.caller->uid,
                        .gid = inherits ? rights.gid : call.caller->gid,
                        .umask = wanted.umask};
}

CheckedFileSystem::AttributesTask CheckedFileSystem::mkdir(const Call& call, NodeId parent,
                                                           std::string_view name, mode_t mode,
                                                           fs::Owner owner) {
    mode_t whole = S_IFDIR | mode;
    ROS2S_CO_TRY(co_await check_new(call, parent, name, whole, owner));
    const uint64_t since = changes_;
    co_return seen(call, since, co_await inner_.mkdir(call, parent, name, mode, owner));
}

CheckedFileSystem::AttributesTask CheckedFileSystem::mknod(const Call& call, NodeId parent,
                                                           std::string_view name, mode_t mode,
                                                           dev_t device, fs::Owner owner) {
    const bool is_device = (S_ISCHR(mode) || S_ISBLK(mode)) && !fs::is_whiteout(mode, device);
    const Caller* const caller = call.caller;
    if (is_device && caller != nullptr && !(caller->is_root() && caller->may_make_devices)) {
        if (!caller->is_root()) {
            ROS2S_CO_TRY(co_await require_change(call, parent, name, Code::exists));
        }
        co_return fs::fail_permission();
    }
    ROS2S_CO_TRY(co_await check_new(call, parent, name, mode, owner));
    const uint64_t since = changes_;
    co_return seen(call, since, co_await inner_.mknod(call, parent, name, mode, device, owner));
}

CheckedFileSystem::AttributesTask CheckedFileSystem::symlink(const Call& call, NodeId parent,
                                                             std::string_view name,
                                                             std::string_view target,
                                                             fs::Owner owner) {
    mode_t mode = S_IFLNK;
    ROS2S_CO_TRY(co_await check_new(call, parent, name, mode, owner));
    const uint64_t since = changes_;
    co_return seen(call, since, co_await inner_.symlink(call, parent, name, target, owner));
}

// Whether a user may link another user's file is the host's setting (fs.protected_hardlinks), which
// its kernel enforces.
CheckedFileSystem::AttributesTask CheckedFileSystem::link(const Call& call, NodeId node,
                                                          NodeId parent, std::string_view name) {
    if (ordinary(call) != nullptr) {
        ROS2S_CO_TRY(co_await require_change(call, parent, name, Code::exists));
    }
    const uint64_t since = changes_;
    co_return seen(call, since, co_await inner_.link(call, node, parent, name));
}

// ---- removed and moved names ----------------------------------------------------------------

Task<Result<>> CheckedFileSystem::check_sticky(const Call& call, NodeId parent,
                                               std::string_view name) {
    ROS2S_CO_TRY_ASSIGN(const Rights directory, co_await rights_of(call, parent));
    if (!is_guarded(*call.caller, directory)) co_return Result<>{};
    ROS2S_CO_TRY_ASSIGN(const fs::Attributes node, co_await inner_.lookup(call, parent, name));
    inner_.forget(node.node, 1);
    if (node.uid != call.caller->uid) co_return fs::fail_permission();
    co_return Result<>{};
}

Task<Result<>> CheckedFileSystem::check_removal(const Call& call, NodeId parent,
                                                std::string_view name) {
    if (ordinary(call) == nullptr) co_return Result<>{};
    ROS2S_CO_TRY(co_await require_change(call, parent, name, Code::not_found));
    co_return co_await check_sticky(call, parent, name);
}

// The first execution of a repeated call changed what the checks look at: the name is gone, or
// another user's file has the new name.
Task<Result<>> CheckedFileSystem::unless_done(const Call& call, Result<> refusal) {
    if (!call.repeated) co_return refusal;
    ROS2S_CO_TRY_ASSIGN(const bool was_done, co_await inner_.was_done(call));
    co_return was_done ? Result<>{} : refusal;
}

Task<Result<>> CheckedFileSystem::unlink(const Call& call, NodeId parent, std::string_view name) {
    const auto may = co_await check_removal(call, parent, name);
    if (!may) co_return co_await unless_done(call, may);
    co_return co_await inner_.unlink(call, parent, name);
}

Task<Result<>> CheckedFileSystem::rmdir(const Call& call, NodeId parent, std::string_view name) {
    const auto may = co_await check_removal(call, parent, name);
    if (!may) co_return co_await unless_done(call, may);
    co_return co_await inner_.rmdir(call, parent, name);
}

// A directory that moves to another one gets another "..": this needs the right to write to it.
Task<Result<>> CheckedFileSystem::check_move(const Call& call, NodeId parent,
                                             std::string_view name) {
    const uint64_t since = changes_;
    ROS2S_CO_TRY_ASSIGN(const fs::Attributes node,
                        seen(call, since, co_await inner_.lookup(call, parent, name)));
    inner_.forget(node.node, 1);
    if (S_ISDIR(node.mode)) co_return co_await require(call, node, Wanted::write);
    co_return Result<>{};
}

Task<Result<>> CheckedFileSystem::check_rename(const Call& call, NodeId parent,
                                               std::string_view name, NodeId new_parent,
                                               std::string_view new_name, RenameFlags flags) {
    if (ordinary(call) == nullptr) co_return Result<>{};
    ROS2S_CO_TRY(co_await check_removal(call, parent, name));
    ROS2S_CO_TRY(co_await require_in(call, new_parent, Wanted::search | Wanted::write));
    // The node of the new name is removed, or moved. It need not exist.
    const auto replaced = co_await check_sticky(call, new_parent, new_name);
    if (!replaced && replaced.error().code != Code::not_found) co_return replaced;
    if (parent == new_parent) co_return Result<>{};
    ROS2S_CO_TRY(co_await check_move(call, parent, name));
    if (flags.exchange) ROS2S_CO_TRY(co_await check_move(call, new_parent, new_name));
    co_return Result<>{};
}

Task<Result<>> CheckedFileSystem::rename(const Call& call, NodeId parent, std::string_view name,
                                         NodeId new_parent, std::string_view new_name,
                                         RenameFlags flags) {
    const auto may = co_await check_rename(call, parent, name, new_parent, new_name, flags);
    if (!may) co_return co_await unless_done(call, may);
    if (flags.whiteout && ordinary(call) != nullptr) {
        ROS2S_CO_TRY_ASSIGN(flags.owner, co_await owner_in(call, parent, flags.owner));
    }
    co_return co_await inner_.rename(call, parent, name, new_parent, new_name, flags);
}

// ---- many names -----------------------------------------------------------------------------

// Rights to look up, create and remove names are the directory's, so one check is enough for names
// that are all allowed. Otherwise each name by itself finds out what Linux returns for it.

Task<std::vector<Result<fs::Attributes>>> CheckedFileSystem::lookup_many(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    std::vector<Result<fs::Attributes>> results;
    if (ordinary(call) != nullptr) {
        const auto may = co_await require_in(call, parent, Wanted::search);
        if (!may) results.assign(names.size(), fail(may.error()));
        if (!may) co_return results;
    }
    const uint64_t since = changes_;
    results = co_await inner_.lookup_many(call, parent, names);
    for (auto& result : results) result = seen(call, since, std::move(result));
    co_return results;
}

Task<std::vector<Result<>>> CheckedFileSystem::create_many(const Call& call, NodeId parent,
                                                           std::span<const std::string_view> names,
                                                           mode_t mode, fs::Owner owner) {
    if (names.empty()) co_return std::vector<Result<>>{};
    mode_t whole = S_IFREG | (mode & fs::permission_bits);
    fs::Owner creator = owner;
    const auto may = co_await check_new(call, parent, names.front(), whole, creator);
    if (!may) co_return co_await FileSystem::create_many(call, parent, names, mode, owner);
    co_return co_await inner_.create_many(call, parent, names, whole & fs::permission_bits,
                                          creator);
}

Task<std::vector<Result<>>> CheckedFileSystem::unlink_many(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    const Caller* const caller = ordinary(call);
    if (caller == nullptr) co_return co_await inner_.unlink_many(call, parent, names);
    const auto directory = co_await rights_of(call, parent);
    const bool may_all = directory && S_ISDIR(directory->mode) &&
                         allows(*caller, *directory, Wanted::search | Wanted::write) &&
                         !is_guarded(*caller, *directory);
    if (!may_all) co_return co_await FileSystem::unlink_many(call, parent, names);
    co_return co_await inner_.unlink_many(call, parent, names);
}

// ---- attributes -----------------------------------------------------------------------------

namespace {

constexpr mode_t set_ids = S_ISUID | S_ISGID;

// As a kernel does for a user who writes to another user's file.
bool drops_set_ids(mode_t now, mode_t wanted) {
    const mode_t changed = (now ^ wanted) & fs::permission_bits;
    return changed != 0 && (changed & ~set_ids) == 0 && (wanted & changed) == 0;
}
bool changes_nothing(mode_t now, mode_t wanted) {
    return ((now ^ wanted) & fs::permission_bits) == 0;
}

// Times near the clock are those of touch(1): who may write may set them. Hosts' clocks differ.
constexpr Duration near = std::chrono::seconds(60);

bool is_near(const std::optional<WallTime>& time, WallTime now) {
    return !time || (*time > now - near && *time < now + near);
}

}  // namespace

Task<Result<fs::SetAttributes>> CheckedFileSystem::checked_changes(const Call& call, NodeId node,
                                                                   fs::SetAttributes changes) {
    const Caller* const caller = call.caller;
    if (caller == nullptr) co_return changes;
    changes.keeps_set_ids = changes.keeps_set_ids && may_keep_set_ids(call);
    const bool may_be_unseen = caller->is_root() && (!changes.mode || caller->may_set_ids);
    if (may_be_unseen) co_return changes;
    ROS2S_CO_TRY_ASSIGN(const Rights rights, co_await rights_of(call, node));
    const bool sets_ids = changes.mode && has_set_id(rights.mode, *changes.mode);
    if (caller->is_root()) {
        if (sets_ids && !caller->may_set_ids) co_return fs::fail_permission();
        co_return changes;
    }
    if (changes.flags) co_return fs::fail_permission();
    const bool is_owner = caller->uid == rights.uid;
    const bool may_write = writes_.contains({node, caller->holder, caller->uid}) ||
                           allows(*caller, rights, Wanted::write);
    if (changes.size && !S_ISDIR(rights.mode) && !may_write) co_return fs::fail_access();
    // A kernel asks for it before a program writes to a file that another user has opened for it.
    // The write must not fail for this.
    changes.clears_set_ids = changes.clears_set_ids && (is_owner || may_write);
    if (changes.uid && !(is_owner && *changes.uid == rights.uid)) co_return fs::fail_permission();
    const bool may_give =
        is_owner && changes.gid && (*changes.gid == rights.gid || caller->in_group(*changes.gid));
    if (changes.gid && !may_give) co_return fs::fail_permission();
    if (changes.mode) {
        const bool is_done = call.repeated && changes_nothing(rights.mode, *changes.mode);
        const bool may_drop = may_write && (drops_set_ids(rights.mode, *changes.mode) || is_done);
        if (!is_owner && !may_drop) co_return fs::fail_permission();
        if (sets_ids && !caller->may_set_ids) co_return fs::fail_permission();
        if (!caller->in_group(changes.gid.value_or(rights.gid))) {
            *changes.mode &= ~mode_t{S_ISGID};
        }
    }
    if ((changes.accessed || changes.modified) && !is_owner) {
        const WallTime now = reactor_.wall_time();
        const bool touches = is_near(changes.accessed, now) && is_near(changes.modified, now);
        if (!touches) co_return fs::fail_permission();
        if (!allows(*caller, rights, Wanted::write)) co_return fs::fail_access();
    }
    co_return changes;
}

CheckedFileSystem::AttributesTask CheckedFileSystem::set_attributes(
    const Call& call, NodeId node, const fs::SetAttributes& changes) {
    ROS2S_CO_TRY_ASSIGN(const fs::SetAttributes allowed,
                        co_await checked_changes(call, node, changes));
    const uint64_t since = ++changes_;
    auto changed = co_await inner_.set_attributes(call, node, allowed);
    // Look-ups that were answered meanwhile may have returned the mode before, or after.
    changed_rights(node, may_be_done_later(changed));
    ++changes_;
    co_return seen(call, since + 1, std::move(changed));
}

Task<Result<>> CheckedFileSystem::check_xattr(const Call& call, NodeId node, std::string_view name,
                                              bool changes) {
    const Caller* const caller = call.caller;
    if (caller == nullptr) co_return Result<>{};
    if (is_privileged(name)) {
        const bool may = caller->is_root() && caller->may_change_privileged;
        // Everybody may read security.*, and for others trusted.* does not exist.
        if (!changes && (may || !name.starts_with("trusted."))) co_return Result<>{};
        if (!changes) co_return fail(Code::no_attribute);
        if (!may) co_return fs::fail_permission();
        co_return Result<>{};
    }
    if (caller->is_root()) co_return Result<>{};
    if (!changes && name == fs::unsynced_attribute) co_return Result<>{};
    ROS2S_CO_TRY_ASSIGN(const Rights rights, co_await rights_of(call, node));
    if (fs::is_acl(name)) {
        const bool is_possible = name == fs::access_acl_name || S_ISDIR(rights.mode);
        if (changes && !is_possible) co_return fs::fail_access();
        if (changes && caller->uid != rights.uid) co_return fs::fail_permission();
        co_return Result<>{};
    }
    const bool can_have = S_ISREG(rights.mode) || S_ISDIR(rights.mode);
    if (!can_have) {
        if (changes) co_return fs::fail_permission();
        co_return fail(Code::no_attribute);
    }
    const bool is_sticky = S_ISDIR(rights.mode) && (rights.mode & S_ISVTX) != 0;
    if (changes && is_sticky && caller->uid != rights.uid) co_return fs::fail_permission();
    if (!allows(*caller, rights, changes ? Wanted::write : Wanted::read)) {
        co_return fs::fail_access();
    }
    co_return Result<>{};
}

Task<Result<std::string>> CheckedFileSystem::get_xattr(const Call& call, NodeId node,
                                                       std::string_view name) {
    ROS2S_CO_TRY(co_await check_xattr(call, node, name, false));
    co_return co_await inner_.get_xattr(call, node, name);
}

Task<Result<>> CheckedFileSystem::set_xattr(const Call& call, NodeId node, std::string_view name,
                                            ConstBytes value, fs::SetXattr how) {
    ROS2S_CO_TRY(co_await check_xattr(call, node, name, true));
    if (ordinary(call) != nullptr && name == fs::access_acl_name && how == fs::SetXattr::any) {
        ROS2S_CO_TRY_ASSIGN(const Rights rights, co_await rights_of(call, node));
        if (!call.caller->in_group(rights.gid)) how = fs::SetXattr::without_set_group;
    }
    const auto done = co_await inner_.set_xattr(call, node, name, value, how);
    ++changes_;
    changed_rights(node, may_be_done_later(done));  // an access list may change the mode
    co_return done;
}

Task<Result<>> CheckedFileSystem::remove_xattr(const Call& call, NodeId node,
                                               std::string_view name) {
    ROS2S_CO_TRY(co_await check_xattr(call, node, name, true));
    const auto done = co_await inner_.remove_xattr(call, node, name);
    ++changes_;
    changed_rights(node, may_be_done_later(done));
    co_return done;
}

// ---- files ----------------------------------------------------------------------------------

void CheckedFileSystem::keep(const Call& call, const fs::Opened& opened, fs::OpenFlags flags) {
    if (ordinary(call) == nullptr || !(flags.write || flags.append)) return;
    const Writer writer{opened.attributes.node, call.caller->holder, call.caller->uid};
    writers_.emplace(opened.handle, writer);
    ++writes_[writer];
}

CheckedFileSystem::OpenedTask CheckedFileSystem::checked(const Call& call, fs::OpenFlags flags,
                                                         Result<fs::Opened> opened) {
    if (!opened) co_return opened;
    const fs::Attributes& node = opened->attributes;
    if (!S_ISREG(node.mode)) flags.execute = false;  // to list is to read
    const Caller* const caller = ordinary(call);
    Result<> may{};
    if (caller != nullptr) may = co_await require(call, node, wanted_by(flags));
    if (may) {
        keep(call, *opened, flags);
        co_return opened;
    }
    const Call closing;
    (void)co_await inner_.close(closing, opened->handle);
    co_return fail(may.error());
}

// The attributes that opening returns are the newest. Truncation is checked before, and a leased
// opening, which returns none.
CheckedFileSystem::OpenedTask CheckedFileSystem::open(const Call& call, NodeId node,
                                                      fs::OpenFlags flags) {
    const Caller* const caller = ordinary(call);
    if (flags.leased || (caller != nullptr && flags.truncate)) {
        ROS2S_CO_TRY_ASSIGN(const Rights rights, co_await rights_of(call, node));
        if (flags.leased && !S_ISREG(rights.mode)) co_return fail(Code::invalid);
        if (caller != nullptr && S_ISREG(rights.mode) &&
            !allows(*caller, rights, wanted_by(flags))) {
            co_return fs::fail_access();
        }
    }
    if (flags.leased) co_return co_await inner_.open(call, node, flags);
    flags.keeps_set_ids = flags.keeps_set_ids && may_keep_set_ids(call);
    const uint64_t since = changes_;
    auto opened = seen(call, since, co_await inner_.open(call, node, flags));
    co_return co_await checked(call, flags, std::move(opened));
}

// A new file is open for its creator, whatever its mode. Whether it is new shows only if it must
// be.
CheckedFileSystem::OpenedTask CheckedFileSystem::create(const Call& call, NodeId parent,
                                                        std::string_view name, mode_t mode,
                                                        fs::OpenFlags flags, fs::Owner owner) {
    return fs::by_name([this, &call, parent, name, mode, flags, owner] {
        return create_or_open(call, parent, name, mode, flags, owner);
    });
}

CheckedFileSystem::OpenedTask CheckedFileSystem::create_or_open(const Call& call, NodeId parent,
                                                                std::string_view name, mode_t mode,
                                                                fs::OpenFlags flags,
                                                                fs::Owner owner) {
    flags.keeps_set_ids = flags.keeps_set_ids && may_keep_set_ids(call);
    mode_t whole = S_IFREG | mode;
    const auto may = co_await check_new(call, parent, name, whole, owner);
    const bool exists = !may && may.error().code == Code::exists;
    if (!may && !exists) co_return fail(may.error());
    if (ordinary(call) == nullptr) {
        const uint64_t since = changes_;
        co_return seen(call, since, co_await inner_.create(call, parent, name, mode, flags, owner));
    }
    if (!exists) {
        fs::OpenFlags exclusive = flags;
        exclusive.exclusive = flags.exclusive || !flags.nameless;
        const uint64_t since = changes_;
        auto opened = seen(call, since,
                           co_await inner_.create(call, parent, name, whole & fs::permission_bits,
                                                  exclusive, owner));
        if (opened) keep(call, *opened, flags);
        if (opened || opened.error().code != Code::exists) co_return opened;
    }
    if (flags.exclusive) co_return fail(Code::exists);
    const auto found = co_await inner_.lookup(call, parent, name);
    // It was removed meanwhile.
    if (!found && found.error().code == Code::not_found) co_return fail(Code::stale);
    if (!found) co_return fail(found.error());
    auto opened = co_await open(call, found->node, flags);
    // The caller of create() gets one reference, as for a new file.
    if (!opened) inner_.forget(found->node, 1);
    co_return opened;
}

Task<Result<>> CheckedFileSystem::close(const Call& call, fs::FileHandle handle) {
    if (const auto found = writers_.find(handle); found != writers_.end()) {
        const auto count = writes_.find(found->second);
        if (--count->second == 0) writes_.erase(count);
        writers_.erase(found);
    }
    return inner_.close(call, handle);
}

Task<Result<>> CheckedFileSystem::read_many(const Call& call, NodeId directory,
                                            std::span<fs::ReadManyItem> items) {
    if (ordinary(call) != nullptr) {
        ROS2S_CO_TRY(co_await require_in(call, directory, Wanted::search));
    }
    co_return co_await inner_.read_many(call, directory, items);
}

Task<Result<>> CheckedFileSystem::blocks(const Call& call, fs::BlockWork work,
                                         std::span<fs::BlockItem> items, Duration pinned_for) {
    if (const Caller* const caller = ordinary(call); caller != nullptr) {
        const uint32_t writes = fs::changes_blocks(work) ? Wanted::write : 0;
        ROS2S_CO_TRY(co_await require_in(call, fs::root_node, Wanted::search | writes));
        if (work == fs::BlockWork::remove) {
            ROS2S_CO_TRY_ASSIGN(const Rights root, co_await rights_of(call, fs::root_node));
            if (is_guarded(*caller, root)) co_return fs::fail_permission();
        }
    }
    co_return co_await inner_.blocks(call, work, items, pinned_for);
}

}  // namespace ros2s::access

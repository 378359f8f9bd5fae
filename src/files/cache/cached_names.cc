// Names and attributes.
#include "cached_file_system.h"
#include "ros2s/fs/acl.h"

namespace ros2s::cache {

// ---- look-ups -------------------------------------------------------------------------------

CachedFileSystem::AttributesTask CachedFileSystem::lookup(const Call& call, NodeId parent,
                                                          std::string_view name) {
    if (auto kept = find(call, parent, name, true)) co_return *kept;
    metrics_.misses.add();
    co_return co_await look_up_missing(call, parent, name);
}

CachedFileSystem::AttributesTask CachedFileSystem::look_up_missing(const Call& call, NodeId parent,
                                                                   std::string_view name) {
    const auto is_kept = [this, parent](std::string_view each) {
        return is_looked_up(parent, each);
    };
    std::vector<std::string> names{std::string(name)};
    for (const std::string_view each : listed_.after(parent, name, looked_up_ahead, is_kept)) {
        if (!is_kept(each)) names.emplace_back(each);
    }
    Request request(*this, call);
    if (names.size() == 1) {
        auto found = co_await below_.lookup(request.call(), parent, name);
        keep_found(request, parent, name, found, true);
        co_return found;
    }
    const std::vector<std::string_view> wanted(names.begin(), names.end());
    const auto found = co_await below_.lookup_many(request.call(), parent, wanted);
    for (size_t i = 0; i < found.size(); ++i) {
        keep_found(request, parent, names[i], found[i], true);
        if (i > 0 && found[i]) forget(found[i]->node, 1);
    }
    co_return found.front();
}

Task<std::vector<Result<fs::Attributes>>> CachedFileSystem::lookup_many(const Call& call,
                                                                        NodeId parent,
                                                                        Names names) {
    std::vector<Result<Attributes>> results(names.size());
    std::vector<std::string_view> missing;
    std::vector<size_t> places;
    for (size_t i = 0; i < names.size(); ++i) {
        if (const auto kept = find(call, parent, names[i], true)) {
            results[i] = *kept;
        } else {
            missing.push_back(names[i]);
            places.push_back(i);
        }
    }
    if (missing.empty()) co_return results;
    metrics_.misses.add();
    Request request(*this, call);
    const auto found = co_await below_.lookup_many(request.call(), parent, missing);
    for (size_t i = 0; i < found.size(); ++i) {
        keep_found(request, parent, missing[i], found[i], true);
        results[places[i]] = found[i];
    }
    co_return results;
}

Task<std::vector<Result<fs::Attributes>>> CachedFileSystem::look_up_names(const Call& call,
                                                                          NodeId parent,
                                                                          Names names) {
    return look_up_chain(call, parent, names, true);
}

Task<std::vector<Result<fs::Attributes>>> CachedFileSystem::look_up_way(const Call& call,
                                                                        NodeId parent,
                                                                        Names names) {
    return look_up_chain(call, parent, names, false);
}

Task<std::vector<Result<fs::Attributes>>> CachedFileSystem::look_up_chain(const Call& call,
                                                                          NodeId parent,
                                                                          Names names,
                                                                          bool is_whole) {
    if (!names.empty()) co_await ask_for_rights(call, parent, names.front());
    std::vector<Result<Attributes>> found;
    for (; !names.empty(); names = names.subspan(1)) {
        const auto kept = find(call, parent, names.front(), is_whole && names.size() == 1);
        if (!kept) break;
        found.push_back(*kept);
        if (!*kept || !S_ISDIR((*kept)->mode)) co_return found;
        parent = (*kept)->node;
    }
    if (names.empty()) co_return found;
    metrics_.misses.add();
    Request request(*this, call);
    const auto rest = co_await below_.look_up_names(request.call(), parent, names);
    for (size_t i = 0; i < rest.size(); ++i) {
        keep_found(request, parent, names[i], rest[i], i + 1 == names.size());
        found.push_back(rest[i]);
        if (rest[i]) parent = rest[i]->node;
    }
    co_return found;
}

// Nobody looks up the directory where a path begins, so its rights do not come with a name.
Task<> CachedFileSystem::ask_for_rights(const Call& call, NodeId directory, std::string_view name) {
    const Node* const kept = held(directory);
    const bool is_needed = kept != nullptr && !kept->has_rights && user_of(call) != nullptr;
    if (is_needed && named(*kept, name)) (void)co_await get_attributes(call, directory);
}

Task<Result<>> CachedFileSystem::may_search(const Call& call, NodeId directory) {
    const Node* const kept = held(directory);
    if (kept != nullptr && permits(call, *kept, fs::Wanted::search)) {
        cover(call, *kept);
        co_return Result<>{};
    }
    const auto found = co_await below_.lookup(call, directory, ".");
    if (!found) co_return fail(found.error());
    below_.forget(found->node, 1);
    co_return Result<>{};
}

CachedFileSystem::AttributesTask CachedFileSystem::get_attributes(const Call& call, NodeId node) {
    if (const Node* const kept = known(node)) {
        cover(call, *kept);
        metrics_.hits.add();
        co_return kept->attributes;
    }
    metrics_.misses.add();
    Request request(*this, call);
    auto found = co_await below_.get_attributes(request.call(), node);
    if (found) keep(request, *found, true);
    co_return found;
}

Task<Result<std::string>> CachedFileSystem::readlink(const Call& call, NodeId node) {
    if (const Node* const kept = held(node); kept != nullptr && !kept->target.empty()) {
        cover(call, *kept);
        metrics_.hits.add();
        co_return kept->target;
    }
    metrics_.misses.add();
    Request request(*this, call);
    auto target = co_await below_.readlink(request.call(), node);
    const uint64_t lease = target ? request.lease_of(node) : 0;
    if (lease != 0) entry(node, lease).target = *target;
    co_return target;
}

// ---- new names ------------------------------------------------------------------------------

template <class Work>
CachedFileSystem::AttributesTask CachedFileSystem::make(const Call& call, NodeId parent,
                                                        std::string_view name, Work work) {
    Request request(*this, call);
    Change change(changes_);
    const Directory directory = directory_of(parent);
    touch(change, parent, name);
    change.sent();
    auto made = co_await work(request.call());
    change.end(is_certain(made));
    request.of(change);
    if (!made) co_return made;
    keep_found(request, parent, name, made, true);
    renew(request, directory, name);
    if (S_ISDIR(made->mode)) keep_empty(request, made->node);
    co_return made;
}

CachedFileSystem::AttributesTask CachedFileSystem::mkdir(const Call& call, NodeId parent,
                                                         std::string_view name, mode_t mode,
                                                         fs::Owner owner) {
    return make(call, parent, name, [this, parent, name, mode, owner](const Call& request) {
        return below_.mkdir(request, parent, name, mode, owner);
    });
}

CachedFileSystem::AttributesTask CachedFileSystem::mknod(const Call& call, NodeId parent,
                                                         std::string_view name, mode_t mode,
                                                         dev_t device, fs::Owner owner) {
    return make(call, parent, name, [this, parent, name, mode, device, owner](const Call& request) {
        return below_.mknod(request, parent, name, mode, device, owner);
    });
}

CachedFileSystem::AttributesTask CachedFileSystem::symlink(const Call& call, NodeId parent,
                                                           std::string_view name,
                                                           std::string_view target,
                                                           fs::Owner owner) {
    return make(call, parent, name, [this, parent, name, target, owner](const Call& request) {
        return below_.symlink(request, parent, name, target, owner);
    });
}

CachedFileSystem::AttributesTask CachedFileSystem::link(const Call& call, NodeId node,
                                                        NodeId parent, std::string_view name) {
    Request request(*this, call);
    Change change(changes_);
    const Directory directory = directory_of(parent);
    touch(change, node);
    touch(change, parent, name);
    change.sent();
    auto made = co_await below_.link(request.call(), node, parent, name);
    change.end(is_certain(made));
    request.of(change);
    if (!made) co_return made;
    keep_found(request, parent, name, made, true);
    renew(request, directory, name);
    co_return made;
}

Task<std::vector<Result<>>> CachedFileSystem::create_many(const Call& call, NodeId parent,
                                                          Names names, mode_t mode,
                                                          fs::Owner owner) {
    Change change(changes_);
    for (const std::string_view name : names) touch(change, parent, name);
    change.sent();
    auto made = co_await below_.create_many(call, parent, names, mode, owner);
    change.end(is_certain(made));
    co_return made;
}

// ---- removed and moved names ----------------------------------------------------------------

Task<Result<>> CachedFileSystem::unlink(const Call& call, NodeId parent, std::string_view name) {
    return remove(call, parent, name, false);
}

Task<Result<>> CachedFileSystem::rmdir(const Call& call, NodeId parent, std::string_view name) {
    return remove(call, parent, name, true);
}

Task<Result<>> CachedFileSystem::remove(const Call& call, NodeId parent, std::string_view name,
                                        bool is_directory) {
    Request request(*this, call);
    Change change(changes_);
    const Old old = old_of(parent, name);
    const Directory directory = directory_of(parent);
    touch(change, parent, name);
    touch(change, old);
    if (is_directory) drop(old.node);
    ROS2S_CO_TRY(co_await open_first(call, old));
    change.sent();
    Result<> done;
    if (is_directory) {
        done = co_await below_.rmdir(request.call(), parent, name);
    } else {
        done = co_await below_.unlink(request.call(), parent, name);
    }
    change.end(is_certain(done));
    request.of(change);
    if (!done) co_return done;
    keep_name(request, parent, name, {}, 0);
    renew(request, directory, name);
    co_return done;
}

Task<std::vector<Result<>>> CachedFileSystem::unlink_many(const Call& call, NodeId parent,
                                                          Names names) {
    Change change(changes_);
    std::vector<Old> old;
    for (const std::string_view name : names) {
        old.push_back(old_of(parent, name));
        touch(change, parent, name);
    }
    // Once is enough for all that are not known.
    bool is_any = false;
    for (const Old& each : old) {
        if (each.is_known || !is_any) touch(change, each);
        is_any = is_any || !each.is_known;
    }
    for (const Old& each : old) {
        if (const auto opened = co_await open_first(call, each); !opened) {
            co_return std::vector<Result<>>(names.size(), fail(opened.error()));
        }
    }
    change.sent();
    auto done = co_await below_.unlink_many(call, parent, names);
    change.end(is_certain(done));
    co_return done;
}

Task<Result<>> CachedFileSystem::rename(const Call& call, NodeId parent, std::string_view name,
                                        NodeId new_parent, std::string_view new_name,
                                        RenameFlags flags) {
    Request request(*this, call);
    Change change(changes_);
    const Old moved = old_of(parent, name);
    const Old replaced = old_of(new_parent, new_name);
    const Directory from = directory_of(parent);
    const Directory to = directory_of(new_parent);
    touch(change, parent, name);
    touch(change, new_parent, new_name);
    touch(change, moved);
    touch(change, replaced);
    if (!flags.exchange) drop(replaced.node);
    ROS2S_CO_TRY(co_await open_first(call, moved));
    ROS2S_CO_TRY(co_await open_first(call, replaced));
    change.sent();
    const auto done =
        co_await below_.rename(request.call(), parent, name, new_parent, new_name, flags);
    change.end(is_certain(done));
    request.of(change);
    // Of two names of one node, both stay.
    const bool is_move = is_still_known(parent, moved) && is_still_known(new_parent, replaced) &&
                         moved.node != NodeId{} && moved.node != replaced.node;
    if (done && is_move && !flags.exchange && !flags.whiteout) {
        keep_name(request, parent, name, {}, 0);
        keep_name(request, new_parent, new_name, moved.node, moved.type);
        renew(request, from, name);
        renew(request, to, new_name);
    }
    co_return done;
}

// ---- changed attributes ---------------------------------------------------------------------

CachedFileSystem::AttributesTask CachedFileSystem::set_attributes(
    const Call& call, NodeId node, const fs::SetAttributes& changes) {
    if (changes.mode || changes.uid || changes.gid || changes.flags) {
        return change_rights(call, node, [this, node, &changes](const Call& request) {
            return below_.set_attributes(request, node, changes);
        });
    }
    return change_attributes(call, node, changes);
}

CachedFileSystem::AttributesTask CachedFileSystem::change_attributes(
    const Call& call, NodeId node, const fs::SetAttributes& changes) {
    Request request(*this, call);
    Change change(changes_);
    touch(change, node);
    change.sent();
    auto done = co_await below_.set_attributes(request.call(), node, changes);
    change.end(is_certain(done));
    request.of(change);
    if (done) keep(request, *done, true);
    co_return done;
}

// Programs look for labels and access lists of each file that they list.
Task<Result<std::string>> CachedFileSystem::get_xattr(const Call& call, NodeId node,
                                                      std::string_view name) {
    if (const Node* const kept = held(node); kept != nullptr && lacks_xattr(*kept, name)) {
        cover(call, *kept);
        metrics_.hits.add();
        co_return fail(Code::no_attribute);
    }
    metrics_.misses.add();
    Request request(*this, call);
    auto value = co_await below_.get_xattr(request.call(), node, name);
    const bool is_absent = !value && value.error().code == Code::no_attribute;
    // Others may not see all of "trusted.".
    if (!is_absent || !(name.starts_with("security.") || name.starts_with("user."))) {
        co_return value;
    }
    const uint64_t lease = request.lease_of(node);
    if (lease == 0 || !request.is_newest(node)) co_return value;
    Node& kept = entry(node, lease);
    if (kept.absent_xattrs.size() < absent_xattrs_max) kept.absent_xattrs.emplace_back(name);
    co_return value;
}

bool CachedFileSystem::lacks_xattr(const Node& node, std::string_view name) {
    if (const uint32_t flag = fs::flag_of_attribute(name)) {
        return node.has_rights && (node.attributes.flags & flag) == 0;
    }
    return std::ranges::find(node.absent_xattrs, name) != node.absent_xattrs.end();
}

// An access list may change the mode.
Task<Result<>> CachedFileSystem::set_xattr(const Call& call, NodeId node, std::string_view name,
                                           ConstBytes value, fs::SetXattr how) {
    return change_rights(call, node, [this, node, name, value, how](const Call& request) {
        return below_.set_xattr(request, node, name, value, how);
    });
}

Task<Result<>> CachedFileSystem::remove_xattr(const Call& call, NodeId node,
                                              std::string_view name) {
    return change_rights(call, node, [this, node, name](const Call& request) {
        return below_.remove_xattr(request, node, name);
    });
}

}  // namespace ros2s::cache

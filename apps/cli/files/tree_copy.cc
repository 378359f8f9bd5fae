#include "tree_copy.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "ros2s/base/random.h"
#include "ros2s/fs/acl.h"
#include "ros2s/runtime/process_limits.h"

namespace ros2s::cli {
namespace {

constexpr size_t files_side_by_side_max = 32;
// A local file that is open has two descriptors, and so may have its copy. Two file systems have
// as many again for what is not open (Locations).
constexpr size_t shares_of_descriptors = 8;
constexpr size_t buffers_max = 32;  // of piece_bytes each

}  // namespace

TreeCopy::TreeCopy(CommandContext context, const Location& from, const Location& to, bool preserve)
    : context_(context),
      from_(from),
      to_(to),
      keeps_power_(!to.local || preserve),
      progress_("copying", Progress::Unit::bytes, !context.console.json()),
      mark_(random_seed()),
      files_side_by_side_(descriptor_share(shares_of_descriptors, files_side_by_side_max)),
      buffer_slots_(context.environment.reactor, buffers_max) {}

Task<Result<>> TreeCopy::copy(Entry from_slot, fs::Attributes source, Entry to_slot) {
    from_slot_ = std::move(from_slot);
    to_slot_ = std::move(to_slot);
    if (from_.file_system == to_.file_system) {
        const auto there =
            co_await to_.file_system->lookup(context_.call, to_slot_.directory, to_slot_.name);
        if (there && there->node == source.node) {
            co_return context_.report.fail(Code::invalid, "{} and {} are the same file",
                                           from_.shown, to_.shown);
        }
    }
    items_.push_back({.name = from_slot_.name, .source = source});
    co_return co_await run();
}

Task<Result<>> TreeCopy::copy_content(fs::Attributes source, fs::NodeId into) {
    to_slot_ = {.directory = into, .name = {}};
    merge_root_ = true;
    items_.push_back({.source = source});
    co_return co_await run();
}

Task<Result<>> TreeCopy::run() {
    Result<> done = co_await scan();
    if (done) done = co_await make_directories();
    if (done) done = co_await copy_files();
    if (done) done = co_await link_names();
    if (done) done = co_await finish_directories();
    release_nodes();
    if (done && failures_ > 0) {
        co_return context_.report.fail(
            first_failure_, "{} failure{} in copying {}, named above; the rest of it was copied",
            failures_, failures_ == 1 ? "" : "s", from_.shown);
    }
    co_return done;
}

// ---- the scan ------------------------------------------------------------------------------

Task<Result<>> TreeCopy::scan() {
    for (size_t index = 0; index < items_.size() && go_on(); ++index) {
        if (S_ISDIR(items_[index].source.mode)) {
            co_await scan_directory(index);
        } else {
            total_bytes_ += items_[index].source.size;
        }
    }
    co_return stopped_;
}

Task<> TreeCopy::scan_directory(size_t index) {
    fs::FileSystem& file_system = *from_.file_system;
    const fs::NodeId directory = items_[index].source.node;
    const auto entries = co_await read_directory(context_, file_system, directory);
    if (!entries) {
        note(index, entries.error());
        co_return;
    }
    std::span<const fs::DirectoryEntry> left(*entries);
    while (!left.empty()) {
        const auto part = left.first(std::min(left.size(), fs::names_together_max));
        left = left.subspan(part.size());
        const auto names = names_of(part);
        const auto found = co_await file_system.lookup_many(context_.call, directory, names);
        for (size_t i = 0; i < part.size(); ++i) {
            if (!found[i]) {
                // Otherwise it was removed meanwhile.
                if (found[i].error().code != Code::not_found) note(index, found[i].error());
                continue;
            }
            items_.push_back({.parent = index, .name = part[i].name, .source = *found[i]});
            if (!keeps_node(*found[i])) file_system.forget(found[i]->node, 1);
        }
    }
}

// Directories are walked later, and the names of one file are recognised by its node.
bool TreeCopy::keeps_node(const fs::Attributes& attributes) {
    return S_ISDIR(attributes.mode) || attributes.links > 1;
}

void TreeCopy::release_nodes() {
    for (size_t index = 1; index < items_.size(); ++index) {
        const Item& item = items_[index];
        if (keeps_node(item.source)) from_.file_system->forget(item.source.node, 1);
        if (item.made.value != 0) to_.file_system->forget(item.made, 1);
    }
}

// ---- directories -----------------------------------------------------------------------------

Task<Result<>> TreeCopy::make_directories() {
    // Items are sorted by depth, so the directories of one level can be made concurrently.
    std::vector<size_t> depth(items_.size(), 0);
    Nursery nursery(context_.environment.reactor, files_side_by_side_);
    for (size_t index = 0; index < items_.size() && go_on(); ++index) {
        if (items_[index].parent != none) depth[index] = depth[items_[index].parent] + 1;
        if (index > 0 && depth[index] != depth[index - 1]) co_await nursery.join();
        if (S_ISDIR(items_[index].source.mode)) co_await nursery.spawn(make_directory(index));
    }
    co_await nursery.join();
    co_return stopped_;
}

Task<> TreeCopy::make_directory(size_t index) {
    Item& item = items_[index];
    fs::FileSystem& target = *to_.file_system;
    if (index == 0 && merge_root_) {
        item.made = to_slot_.directory;
        co_return;
    }
    const fs::NodeId parent = target_directory(item);
    if (parent.value == 0) co_return;  // the parent's failure was reported
    const std::string name = target_name(index);
    // Its owner can write to it until finish_directories() sets its final mode.
    auto made = co_await target.mkdir(context_.call, parent, name, mode_of(item.source) | 0700U,
                                      owner_of(item.source));
    if (!made && made.error().code == Code::exists) {
        made = co_await target.lookup(context_.call, parent, name);
        if (made && !S_ISDIR(made->mode)) {
            target.forget(made->node, 1);
            made = context_.report.fail(Code::not_directory,
                                        "copying {}: {} in {} exists and is not a directory; it "
                                        "was not changed. Move it away, or copy to another place",
                                        path_of(index), name, to_.shown);
        }
    }
    if (!made) {
        note(index, made.error());
        co_return;
    }
    item.made = made->node;
    ++counts_.directories;
}

Task<Result<>> TreeCopy::finish_directories() {
    Nursery nursery(context_.environment.reactor, files_side_by_side_);
    for (size_t index = 0; index < items_.size() && go_on(); ++index) {
        if (S_ISDIR(items_[index].source.mode)) co_await nursery.spawn(finish_directory(index));
    }
    co_await nursery.join();
    co_return stopped_;
}

Task<> TreeCopy::finish_directory(size_t index) {
    const Item& item = items_[index];
    if (index == 0 && merge_root_) co_return;  // it existed before, with attributes of its own
    if (item.made.value == 0) co_return;
    Result<> done = co_await copy_xattrs(item.source.node, item.made);
    if (done) done = co_await set_attributes(item.source, item.made);
    if (!done) note(index, done.error());
}

// ---- everything else -------------------------------------------------------------------------

Task<Result<>> TreeCopy::copy_files() {
    Nursery nursery(context_.environment.reactor, files_side_by_side_);
    for (size_t index = 0; index < items_.size() && go_on(); ++index) {
        const fs::Attributes& source = items_[index].source;
        if (S_ISDIR(source.mode) || target_directory(items_[index]).value == 0) continue;
        if (source.links > 1 && !first_names_.try_emplace(source.node, index).second) continue;
        co_await nursery.spawn(copy_item(index));
    }
    co_await nursery.join();
    co_return stopped_;
}

Task<> TreeCopy::copy_item(size_t index) {
    Item& item = items_[index];
    // Looks up the node again, because the scan gave it back.
    fs::NodeId source = item.source.node;
    const bool looked_up = index > 0 && !keeps_node(item.source);
    if (looked_up) {
        const auto found =
            co_await from_.file_system->lookup(context_.call, source_directory(item), item.name);
        if (!found) {
            note(index, found.error());
            co_return;
        }
        source = found->node;
    }
    Result<> done;
    switch (item.source.mode & S_IFMT) {
        case S_IFREG: done = co_await copy_file(index, source); break;
        case S_IFLNK: done = co_await copy_symbolic_link(index, source); break;
        default: done = co_await copy_special(index); break;
    }
    if (looked_up) from_.file_system->forget(source, 1);
    if (!done) note(index, done.error());
}

Task<Result<>> TreeCopy::copy_symbolic_link(size_t index, fs::NodeId source) {
    Item& item = items_[index];
    ROS2S_CO_TRY_ASSIGN(const std::string text,
                        co_await from_.file_system->readlink(context_.call, source));
    ROS2S_CO_TRY(co_await clear_name(index));
    ROS2S_CO_TRY_ASSIGN(
        const fs::Attributes made,
        co_await to_.file_system->symlink(context_.call, target_directory(item), target_name(index),
                                          text, owner_of(item.source)));
    item.made = made.node;
    ++counts_.symbolic_links;
    fs::SetAttributes times{.accessed = item.source.accessed, .modified = item.source.modified};
    co_return co_await set(made.node, times);
}

Task<Result<>> TreeCopy::copy_special(size_t index) {
    Item& item = items_[index];
    if (S_ISBLK(item.source.mode) || S_ISCHR(item.source.mode)) {
        // FileSystem does not return the device number of a node.
        co_return context_.report.fail(Code::unsupported,
                                       "{} is a device node, which cannot be copied; leave it out",
                                       path_of(index));
    }
    ROS2S_CO_TRY(co_await clear_name(index));
    ROS2S_CO_TRY_ASSIGN(
        const fs::Attributes made,
        co_await to_.file_system->mknod(context_.call, target_directory(item), target_name(index),
                                        (item.source.mode & S_IFMT) | mode_of(item.source), 0,
                                        owner_of(item.source)));
    item.made = made.node;
    ++counts_.others;
    co_return co_await set_attributes(item.source, made.node);
}

// Removes an existing file if the new node can only be made anew. Errors: is_directory.
Task<Result<>> TreeCopy::clear_name(size_t index) {
    const auto done = co_await to_.file_system->unlink(
        context_.call, target_directory(items_[index]), target_name(index));
    if (!done && done.error().code != Code::not_found) co_return std::unexpected(done.error());
    co_return Result<>{};
}

Task<Result<>> TreeCopy::link_names() {
    Nursery nursery(context_.environment.reactor, files_side_by_side_);
    for (size_t index = 0; index < items_.size() && go_on(); ++index) {
        const fs::Attributes& source = items_[index].source;
        if (S_ISDIR(source.mode) || source.links < 2) continue;
        if (target_directory(items_[index]).value == 0) continue;
        const size_t first = first_names_.at(source.node);
        if (first == index) continue;
        if (items_[first].made.value == 0) {
            context_.report.say("copying {}: it is the same file as {}, which failed",
                                path_of(index), path_of(first));
            note(index, items_[first].failure);
        } else {
            co_await nursery.spawn(link_name(index, items_[first].made));
        }
    }
    co_await nursery.join();
    co_return stopped_;
}

Task<> TreeCopy::link_name(size_t index, fs::NodeId first) {
    Result<> done = co_await clear_name(index);
    if (done) {
        const auto linked = co_await to_.file_system->link(
            context_.call, first, target_directory(items_[index]), target_name(index));
        if (linked) {
            to_.file_system->forget(linked->node, 1);
            ++counts_.hard_links;
        } else {
            done = std::unexpected(linked.error());
        }
    }
    if (!done) note(index, done.error());
}

// ---- attributes ------------------------------------------------------------------------------

Task<Result<>> TreeCopy::set_attributes(const fs::Attributes& source, fs::NodeId to) {
    const fs::SetAttributes changes{
        .mode = mode_of(source),
        .uid = keeps_owners() ? std::optional(source.uid) : std::nullopt,
        .gid = keeps_owners() ? std::optional(source.gid) : std::nullopt,
        .accessed = source.accessed,
        .modified = source.modified};
    co_return co_await set(to, changes);
}

Task<Result<>> TreeCopy::set(fs::NodeId to, fs::SetAttributes changes) {
    ROS2S_CO_TRY(co_await to_.file_system->set_attributes(context_.call, to, changes));
    co_return Result<>{};
}

// User attributes, and access lists wherever owners are kept. Others belong to their file system.
Task<Result<>> TreeCopy::copy_xattrs(fs::NodeId from, fs::NodeId to) {
    const auto names = co_await from_.file_system->list_xattrs(context_.call, from);
    if (!names) {
        const bool has_none = names.error().code == Code::unsupported;
        co_return has_none ? Result<>{} : Result<>(std::unexpected(names.error()));
    }
    for (const std::string& name : *names) {
        if (!name.starts_with("user.") && !(fs::is_acl(name) && keeps_power_)) continue;
        ROS2S_CO_TRY_ASSIGN(const std::string value,
                            co_await from_.file_system->get_xattr(context_.call, from, name));
        ROS2S_CO_TRY(co_await to_.file_system->set_xattr(context_.call, to, name, as_bytes(value),
                                                         fs::SetXattr::any));
    }
    co_return Result<>{};
}

mode_t TreeCopy::mode_of(const fs::Attributes& source) const {
    const mode_t mode = source.mode & fs::permission_bits;
    return keeps_power_ ? mode : mode & ~mode_t{S_ISUID | S_ISGID};
}

// Containers accept any owner. On a local file system only root may change owners.
bool TreeCopy::keeps_owners() const { return keeps_power_ && (!to_.local || geteuid() == 0); }

fs::Owner TreeCopy::owner_of(const fs::Attributes& source) const {
    if (keeps_owners()) return {.uid = source.uid, .gid = source.gid};
    return {.uid = geteuid(), .gid = getegid()};
}

// ---- where -----------------------------------------------------------------------------------

fs::NodeId TreeCopy::source_directory(const Item& item) const {
    return item.parent == none ? from_slot_.directory : items_[item.parent].source.node;
}

fs::NodeId TreeCopy::target_directory(const Item& item) const {
    return item.parent == none ? to_slot_.directory : items_[item.parent].made;
}

std::string TreeCopy::target_name(size_t index) const {
    return index == 0 ? to_slot_.name : items_[index].name;
}

std::string TreeCopy::path_of(size_t index) const {
    std::string path;
    for (; index != 0; index = items_[index].parent) path = "/" + items_[index].name + path;
    return from_.shown + path;
}

bool TreeCopy::go_on() {
    const auto allowed = context_.call.check(context_.environment.reactor);
    if (!allowed && stopped_) stopped_ = allowed;
    return stopped_.has_value();
}

void TreeCopy::note(size_t index, const Error& error) {
    items_[index].failure = error;
    if (!stopped_) return;
    if (context_.report.empty()) {
        // Names the pool, if the pool has to be repaired.
        const bool names_pool =
            !to_.local && (error.code == Code::no_space || error.code == Code::over_cap);
        explain(context_,
                fmt::format("copying {}{}", path_of(index), names_pool ? " to " + to_.shown : ""),
                error, to_.local ? std::string_view(to_.shown) : std::string_view(), to_.shown);
    }
    // Without its root there is no tree. Lack of space and an interruption affect all later items.
    if (index == 0 || error.code == Code::no_space || error.code == Code::over_cap ||
        error.code == Code::cancelled || error.code == Code::deadline) {
        stopped_ = std::unexpected(error);
        return;
    }
    if (failures_++ == 0) first_failure_ = error;
    context_.console.complain(context_.report.text());
    context_.report = {};
}

}  // namespace ros2s::cli

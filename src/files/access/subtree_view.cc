#include "subtree_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "ros2s/base/digest.h"

namespace ros2s::access {
namespace {

using fs::NodeId;

// For look-ups of the view's own: no user, and no name of an update.
Call own(const Call& call) {
    return {.deadline = call.deadline, .stop = call.stop, .tenant = call.tenant};
}

// The same at each mount, so that a host that comes back after a restart finds them. Far above the
// numbers of files.
constexpr uint64_t shown_bit = uint64_t{1} << 62;

NodeId node_of(std::string_view path) {
    return {shown_bit | (Digest().add(path).value() & (shown_bit - 1))};
}

std::vector<std::string> names_of(std::string_view path) {
    std::vector<std::string> names;
    for (const auto part : std::views::split(path, '/')) {
        if (!part.empty()) names.emplace_back(part.begin(), part.end());
    }
    return names;
}

bool is_inside(std::span<const std::string> path, std::span<const std::string> top) {
    return path.size() >= top.size() && std::ranges::equal(path.first(top.size()), top);
}

// A node outside of the granted directories, or no longer in one, does not exist for the host.
std::unexpected<Error> fail_outside(const Error& error) {
    const bool gone = error.code == Code::not_found || error.code == Code::not_directory;
    return gone ? fail(Code::stale) : fail(error);
}

}  // namespace

// ---- the granted directories ----------------------------------------------------------------

Task<Result<std::unique_ptr<SubtreeView>>> SubtreeView::open(const Call& call, Reactor& reactor,
                                                             fs::FileSystem& inner,
                                                             std::vector<Subtree> subtrees,
                                                             std::string container,
                                                             Report& report) {
    std::unique_ptr<SubtreeView> view(new SubtreeView(reactor, inner));
    view->made_ = reactor.wall_time();
    // From the top down, so that a directory in another granted one is found to be that.
    std::ranges::sort(subtrees, {}, [](const Subtree& each) { return names_of(each.path).size(); });
    for (Subtree& each : subtrees) view->add(std::move(each));
    ROS2S_CO_TRY(co_await view->check_areas(call, std::move(container), report));
    co_return view;
}

void SubtreeView::add(Subtree subtree) {
    Area area{.names = names_of(subtree.path), .writable = subtree.writable};
    const Area* around = nullptr;  // the innermost granted directory that has it
    for (Area& each : areas_) {
        if (each.names == area.names) {
            each.writable = each.writable || area.writable;
            return;
        }
        if (is_inside(area.names, each.names)) around = &each;
    }
    if (around != nullptr) {
        if (!around->writable && area.writable) areas_.push_back(std::move(area));
        return;
    }
    if (area.names.empty()) {
        area.root.node = fs::root_node;
        areas_.push_back(std::move(area));
        return;
    }
    if (shown_.empty()) {
        shown_.push_back({.node = fs::root_node});
        shown_by_node_.emplace(fs::root_node, 0);
    }
    size_t above = 0;
    std::string path;
    for (const std::string& name : std::span(area.names).first(area.names.size() - 1)) {
        path += '/' + name;
        const auto found = shown_[above].children.find(name);
        if (found != shown_[above].children.end()) {
            above = found->second.index;
            continue;
        }
        NodeId node = node_of(path);
        while (shown_by_node_.contains(node)) node.value = shown_bit | (node.value + 1);
        const size_t index = shown_.size();
        shown_[above].children.emplace(name, Child{.index = index});
        shown_.push_back({.node = node, .above = above});
        shown_by_node_.emplace(node, index);
        above = index;
    }
    area.above = above;
    shown_[above].children.emplace(area.names.back(),
                                   Child{.is_area = true, .index = areas_.size()});
    areas_.push_back(std::move(area));
}

Task<Result<>> SubtreeView::check_areas(const Call& call, std::string container, Report& report) {
    size_t found = 0;
    Error error{.code = Code::not_found};
    std::string why;
    for (Area& area : areas_) {
        const auto root = co_await root_of(call, area);
        if (root) {
            ++found;
            const Call asking = own(call);
            const auto above = co_await inner_.lookup(asking, *root, "..");
            if (above) inner_.forget(above->node, 1);
            if (!above && above.error().code == Code::stale) {
                co_return report.fail(Code::unsupported,
                                      "{} is a directory of the server, and no part of it can be "
                                      "mounted; the server's "
                                      "'directories' setting can name that part",
                                      container);
            }
            if (!above) co_return fail(above.error());
            continue;
        }
        error = root.error();
        const std::string path = fmt::format("{}", fmt::join(area.names, "/"));
        if (error.code == Code::not_found) {
            why = fmt::format(
                "{}/{}, to which the server's settings give rights, does not exist; "
                "make this directory, or correct the settings",
                container, path);
        } else if (error.code == Code::not_directory) {
            why = fmt::format(
                "{}/{}, to which the server's settings give rights, is not a "
                "directory, or a symbolic link leads to it",
                container, path);
        } else {
            co_return report.fail(
                error,
                "cannot look up {}/{}, to which the server's settings give rights; try again",
                container, path);
        }
    }
    if (found == 0) co_return report.fail(error, why);
    co_return Result<>{};
}

Task<Result<NodeId>> SubtreeView::root_of(const Call& call, Area& area, bool again) {
    const Time asked = reactor_.now();
    if (area.names.empty()) co_return fs::root_node;
    const bool is_recent = asked - area.checked < SeenParents::lifetime;
    if (area.root.node != NodeId{} && is_recent && !again) {
        co_return area.root.node;
    }
    const Call asking = own(call);
    const std::vector<std::string_view> names(area.names.begin(), area.names.end());
    fs::Attributes at{.node = fs::root_node};
    Result<> walked{};
    for (size_t next = 0; walked && next < names.size();) {
        const auto found =
            co_await inner_.look_up_names(asking, at.node, std::span(names).subspan(next));
        for (const auto& each : found) {
            if (each) inner_.forget(each->node, 1);
        }
        next += found.size();
        // A symbolic link is none: a user who may write above the granted directory could otherwise
        // give what only others may read.
        if (!found.back()) {
            walked = fail(found.back().error());
        } else if (at = *found.back(); !S_ISDIR(at.mode)) {
            walked = fail(Code::not_directory);
        }
    }
    if (!walked) {
        const bool gone = fail_outside(walked.error()).error().code == Code::stale;
        if (gone) area.root = {};
        co_return fail(walked.error());
    }
    area.root = at;
    area.checked = asked;
    co_return at.node;
}

Task<Result<SubtreeView::Area*>> SubtreeView::area_of(const Call& call, NodeId node) {
    const Call asking = own(call);
    NodeId at = node;
    for (int level = 0; level < levels_max && at != NodeId{}; ++level) {
        for (Area& area : areas_) {
            if (area.root.node != at) continue;
            const auto root = co_await root_of(asking, area);
            if (!root) co_return fail_outside(root.error());
            if (*root == at) co_return &area;
        }
        if (at == fs::root_node) break;
        const Time asked = reactor_.now();
        if (const auto known = parents_.find(at, asked)) {
            at = *known;
            continue;
        }
        const auto above = co_await inner_.lookup(asking, at, "..");
        if (!above) co_return fail_outside(above.error());
        inner_.forget(above->node, 1);
        parents_.see(at, above->node, asked);
        at = above->node;
    }
    co_return fail(Code::stale);
}

Task<Result<>> SubtreeView::require_writable(const Call& call, NodeId node) {
    if (shown_of(node) != nullptr) co_return fail(Code::read_only);
    ROS2S_CO_TRY_ASSIGN(const Area* const area, co_await area_of(call, node));
    co_return area->writable ? Result<>() : fail(Code::read_only);
}

Task<Result<>> SubtreeView::require_readable(const Call& call, NodeId node) {
    const auto area = co_await area_of(call, node);
    if (area || (area.error().code == Code::stale && open_nodes_.contains(node))) {
        co_return Result<>{};
    }
    co_return fail(area.error());
}

// ---- the directories on the way -------------------------------------------------------------

const SubtreeView::Shown* SubtreeView::shown_of(NodeId node) const {
    const auto found = shown_by_node_.find(node);
    return found == shown_by_node_.end() ? nullptr : &shown_[found->second];
}

fs::Attributes SubtreeView::attributes_of(const Shown& shown) const {
    return {.node = shown.node,
            .mode = S_IFDIR | 0555,
            .links = 1,
            .accessed = made_,
            .modified = made_,
            .changed = made_};
}

SubtreeView::AttributesTask SubtreeView::look_up_shown(const Call& call, const Shown& shown,
                                                       std::string_view name) {
    if (name == ".") co_return attributes_of(shown);
    if (name == "..") co_return attributes_of(shown_[shown.above]);
    ROS2S_CO_TRY(fs::check_name(name));
    const auto found = shown.children.find(name);
    if (found == shown.children.end()) co_return fail(Code::not_found);
    if (!found->second.is_area) co_return attributes_of(shown_[found->second.index]);
    const auto root = co_await root_of(call, areas_[found->second.index]);
    if (!root) {
        const bool gone = fail_outside(root.error()).error().code == Code::stale;
        co_return gone ? fail(Code::not_found) : fail(root.error());
    }
    const Call asking = own(call);
    co_return co_await inner_.lookup(asking, *root, ".");
}

// ---- look-ups -------------------------------------------------------------------------------

SubtreeView::AttributesTask SubtreeView::lookup(const Call& call, NodeId parent,
                                                std::string_view name) {
    if (const Shown* const shown = shown_of(parent); shown != nullptr) {
        co_return co_await look_up_shown(call, *shown, name);
    }
    ROS2S_CO_TRY_ASSIGN(const Area* const area, co_await area_of(call, parent));
    const bool is_top = area->root.node == parent && area->above;
    if (name == ".." && is_top) co_return attributes_of(shown_[*area->above]);
    const Time asked = reactor_.now();
    auto found = co_await inner_.lookup(call, parent, name);
    if (!found || name == ".") co_return found;
    if (name != "..") co_return co_await added(call, asked, parent, name, std::move(found));
    // It may have been moved meanwhile.
    parents_.see(parent, found->node, asked);
    const auto inside = co_await area_of(call, found->node);
    if (inside) co_return found;
    inner_.forget(found->node, 1);
    co_return fail(inside.error());
}

Task<> SubtreeView::see(const Call& call, Time asked, NodeId parent, std::string_view name,
                        NodeId node) {
    if (!fs::check_name(name)) co_return;  // "." and "..": the node does not lie in `parent`
    parents_.see(node, parent, asked);
    for (Area& area : areas_) {
        const bool is_inner = !area.above && !area.names.empty();
        if (!is_inner || area.names.back() != name || area.root.node == node) continue;
        // A directory in another granted one was made, or replaced.
        (void)co_await root_of(call, area, true);
    }
}

SubtreeView::AttributesTask SubtreeView::added(const Call& call, Time asked, NodeId parent,
                                               std::string_view name, Result<fs::Attributes> node) {
    if (node) co_await see(call, asked, parent, name, node->node);
    co_return node;
}

Task<std::vector<Result<fs::Attributes>>> SubtreeView::look_up_names(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    const Shown* shown = shown_of(parent);
    if (shown == nullptr) co_return co_await look_up_inside(call, parent, names);
    std::vector<Result<fs::Attributes>> found;
    for (size_t i = 0; i < names.size(); ++i) {
        const auto child = shown->children.find(names[i]);
        const bool is_shown = child != shown->children.end() && !child->second.is_area;
        const bool is_way =
            child != shown->children.end() && child->second.is_area && i + 1 < names.size();
        if (is_shown) {
            shown = &shown_[child->second.index];
            found.emplace_back(attributes_of(*shown));
            continue;
        }
        if (!is_way) {
            found.push_back(co_await look_up_shown(call, *shown, names[i]));
            co_return found;
        }
        // One request for the rest of the path, not one more for the granted directory.
        Area& area = areas_[child->second.index];
        if (const auto root = co_await root_of(call, area); !root) {
            found.push_back(co_await look_up_shown(call, *shown, names[i]));
            co_return found;
        }
        const fs::Attributes top = area.root;
        auto rest = co_await look_up_inside(call, top.node, names.subspan(i + 1));
        found.emplace_back(top);
        std::ranges::move(rest, std::back_inserter(found));
        co_return found;
    }
    co_return found;
}

Task<std::vector<Result<fs::Attributes>>> SubtreeView::look_up_inside(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    std::vector<Result<fs::Attributes>> found;
    if (const auto area = co_await area_of(call, parent); !area) {
        found.emplace_back(fail(area.error()));
        co_return found;
    }
    const Time asked = reactor_.now();
    found = co_await inner_.look_up_names(call, parent, names);
    NodeId above = parent;
    for (size_t i = 0; i < found.size() && found[i]; ++i) {
        co_await see(call, asked, above, names[i], found[i]->node);
        above = found[i]->node;
    }
    co_return found;
}

Task<Result<>> SubtreeView::may_search(const Call& call, NodeId directory) {
    if (shown_of(directory) != nullptr) co_return Result<>{};
    ROS2S_CO_TRY(co_await area_of(call, directory));
    // This needs the right to search it.
    ROS2S_CO_TRY_ASSIGN(const fs::Attributes found, co_await inner_.lookup(call, directory, "."));
    inner_.forget(found.node, 1);
    co_return Result<>{};
}

Task<std::vector<Result<fs::Attributes>>> SubtreeView::lookup_many(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    // ".." can lead out of the view; lookup() handles that.
    const bool are_names = std::ranges::all_of(
        names, [](std::string_view name) { return fs::check_name(name).has_value(); });
    if (shown_of(parent) != nullptr || !are_names)
        co_return co_await FileSystem::lookup_many(call, parent, names);
    std::vector<Result<fs::Attributes>> found;
    if (const auto area = co_await area_of(call, parent); !area) {
        found.assign(names.size(), fail(area.error()));
        co_return found;
    }
    const Time asked = reactor_.now();
    found = co_await inner_.lookup_many(call, parent, names);
    for (size_t i = 0; i < found.size(); ++i) {
        if (found[i]) co_await see(call, asked, parent, names[i], found[i]->node);
    }
    co_return found;
}

Task<Result<std::string>> SubtreeView::readlink(const Call& call, NodeId node) {
    if (shown_of(node) != nullptr) co_return fail(Code::invalid);
    ROS2S_CO_TRY(co_await area_of(call, node));
    co_return co_await inner_.readlink(call, node);
}

// ---- changes of names -----------------------------------------------------------------------

SubtreeView::AttributesTask SubtreeView::mkdir(const Call& call, NodeId parent,
                                               std::string_view name, mode_t mode,
                                               fs::Owner owner) {
    ROS2S_CO_TRY(co_await require_writable(call, parent));
    const Time asked = reactor_.now();
    auto made = co_await inner_.mkdir(call, parent, name, mode, owner);
    co_return co_await added(call, asked, parent, name, std::move(made));
}

SubtreeView::AttributesTask SubtreeView::mknod(const Call& call, NodeId parent,
                                               std::string_view name, mode_t mode, dev_t device,
                                               fs::Owner owner) {
    ROS2S_CO_TRY(co_await require_writable(call, parent));
    const Time asked = reactor_.now();
    auto made = co_await inner_.mknod(call, parent, name, mode, device, owner);
    co_return co_await added(call, asked, parent, name, std::move(made));
}

SubtreeView::AttributesTask SubtreeView::symlink(const Call& call, NodeId parent,
                                                 std::string_view name, std::string_view target,
                                                 fs::Owner owner) {
    ROS2S_CO_TRY(co_await require_writable(call, parent));
    const Time asked = reactor_.now();
    auto made = co_await inner_.symlink(call, parent, name, target, owner);
    co_return co_await added(call, asked, parent, name, std::move(made));
}

// A link in a writable directory would make a file writable that may only be read.
SubtreeView::AttributesTask SubtreeView::link(const Call& call, NodeId node, NodeId parent,
                                              std::string_view name) {
    ROS2S_CO_TRY(co_await require_writable(call, node));
    ROS2S_CO_TRY(co_await require_writable(call, parent));
    const Time asked = reactor_.now();
    auto made = co_await inner_.link(call, node, parent, name);
    co_return co_await added(call, asked, parent, name, std::move(made));
}

Task<Result<>> SubtreeView::unlink(const Call& call, NodeId parent, std::string_view name) {
    ROS2S_CO_TRY(co_await require_writable(call, parent));
    co_return co_await inner_.unlink(call, parent, name);
}

Task<Result<>> SubtreeView::rmdir(const Call& call, NodeId parent, std::string_view name) {
    ROS2S_CO_TRY(co_await require_writable(call, parent));
    co_return co_await inner_.rmdir(call, parent, name);
}

Task<Result<>> SubtreeView::rename(const Call& call, NodeId parent, std::string_view name,
                                   NodeId new_parent, std::string_view new_name,
                                   RenameFlags flags) {
    ROS2S_CO_TRY(co_await require_writable(call, parent));
    ROS2S_CO_TRY(co_await require_writable(call, new_parent));
    co_return co_await inner_.rename(call, parent, name, new_parent, new_name, flags);
}

Task<std::vector<Result<>>> SubtreeView::create_many(const Call& call, NodeId parent,
                                                     std::span<const std::string_view> names,
                                                     mode_t mode, fs::Owner owner) {
    if (const auto may = co_await require_writable(call, parent); !may) {
        co_return std::vector<Result<>>(names.size(), may);
    }
    co_return co_await inner_.create_many(call, parent, names, mode, owner);
}

Task<std::vector<Result<>>> SubtreeView::unlink_many(const Call& call, NodeId parent,
                                                     std::span<const std::string_view> names) {
    if (const auto may = co_await require_writable(call, parent); !may) {
        co_return std::vector<Result<>>(names.size(), may);
    }
    co_return co_await inner_.unlink_many(call, parent, names);
}

// ---- attributes -----------------------------------------------------------------------------

SubtreeView::AttributesTask SubtreeView::get_attributes(const Call& call, NodeId node) {
    if (const Shown* const shown = shown_of(node); shown != nullptr) {
        co_return attributes_of(*shown);
    }
    ROS2S_CO_TRY(co_await require_readable(call, node));
    co_return co_await inner_.get_attributes(call, node);
}

// A session that has a file open for writing may still change its size and times, wherever it was
// moved.
SubtreeView::AttributesTask SubtreeView::set_attributes(const Call& call, NodeId node,
                                                        const fs::SetAttributes& changes) {
    const auto may = co_await require_writable(call, node);
    const auto open = open_nodes_.find(node);
    const bool has_written = open != open_nodes_.end() && open->second.writing > 0;
    const bool is_writers =
        has_written && !changes.mode && !changes.uid && !changes.gid && !changes.flags;
    if (!may && !(may.error().code == Code::stale && is_writers)) co_return fail(may.error());
    co_return co_await inner_.set_attributes(call, node, changes);
}

Task<Result<std::string>> SubtreeView::get_xattr(const Call& call, NodeId node,
                                                 std::string_view name) {
    if (shown_of(node) != nullptr) co_return fail(Code::no_attribute);
    ROS2S_CO_TRY(co_await require_readable(call, node));
    co_return co_await inner_.get_xattr(call, node, name);
}

Task<Result<>> SubtreeView::set_xattr(const Call& call, NodeId node, std::string_view name,
                                      ConstBytes value, fs::SetXattr how) {
    ROS2S_CO_TRY(co_await require_writable(call, node));
    co_return co_await inner_.set_xattr(call, node, name, value, how);
}

Task<Result<>> SubtreeView::remove_xattr(const Call& call, NodeId node, std::string_view name) {
    ROS2S_CO_TRY(co_await require_writable(call, node));
    co_return co_await inner_.remove_xattr(call, node, name);
}

Task<Result<std::vector<std::string>>> SubtreeView::list_xattrs(const Call& call, NodeId node) {
    if (shown_of(node) != nullptr) co_return std::vector<std::string>{};
    ROS2S_CO_TRY(co_await require_readable(call, node));
    co_return co_await inner_.list_xattrs(call, node);
}

// ---- files ----------------------------------------------------------------------------------

Result<fs::Opened> SubtreeView::keep(Result<fs::Opened> opened, bool writes) {
    if (!opened) return opened;
    const fs::Attributes& node = opened->attributes;
    open_.emplace(opened->handle,
                  Open{.node = node.node, .writes = writes, .is_directory = S_ISDIR(node.mode)});
    OpenCount& count = open_nodes_[node.node];
    ++count.all;
    if (writes) ++count.writing;
    return opened;
}

SubtreeView::OpenedTask SubtreeView::open(const Call& call, NodeId node, fs::OpenFlags flags) {
    const bool writes = flags.write || flags.append || flags.truncate;
    if (const Shown* const shown = shown_of(node); shown != nullptr) {
        if (writes) co_return fail(Code::is_directory);
        FileHandle handle;
        do {
            handle = {listing_bit | reactor_.secrets().next()};
        } while (listings_.contains(handle));
        listings_.emplace(handle, shown_by_node_.at(node));
        co_return fs::Opened{.handle = handle, .attributes = attributes_of(*shown)};
    }
    if (writes) {
        ROS2S_CO_TRY(co_await require_writable(call, node));
    } else {
        ROS2S_CO_TRY(co_await area_of(call, node));
    }
    co_return keep(co_await inner_.open(call, node, flags), writes);
}

SubtreeView::OpenedTask SubtreeView::create(const Call& call, NodeId parent, std::string_view name,
                                            mode_t mode, fs::OpenFlags flags, fs::Owner owner) {
    ROS2S_CO_TRY(co_await require_writable(call, parent));
    const Time asked = reactor_.now();
    auto opened = co_await inner_.create(call, parent, name, mode, flags, owner);
    if (opened) parents_.see(opened->attributes.node, parent, asked);
    co_return keep(std::move(opened), flags.write || flags.append);
}

Task<Result<>> SubtreeView::close(const Call& call, FileHandle handle) {
    if (is_listing(handle)) {
        listings_.erase(handle);
        co_return Result<>{};
    }
    if (const auto found = open_.find(handle); found != open_.end()) {
        const auto count = open_nodes_.find(found->second.node);
        if (found->second.writes) --count->second.writing;
        if (--count->second.all == 0) open_nodes_.erase(count);
        open_.erase(found);
    }
    co_return co_await inner_.close(call, handle);
}

Task<Result<>> SubtreeView::fsync(const Call& call, FileHandle handle) {
    if (is_listing(handle)) co_return Result<>{};
    co_return co_await inner_.fsync(call, handle);
}

// New names of a directory are new knowledge, so an open one must be inside, too.
Task<Result<std::vector<fs::DirectoryEntry>>> SubtreeView::readdir(const Call& call,
                                                                   FileHandle handle,
                                                                   uint64_t cookie, size_t limit) {
    if (!is_listing(handle)) {
        if (const auto found = open_.find(handle);
            found != open_.end() && found->second.is_directory) {
            ROS2S_CO_TRY(co_await area_of(call, found->second.node));
        }
        co_return co_await inner_.readdir(call, handle, cookie, limit);
    }
    // Copied, because the handle may be closed while the directories are looked up.
    const Shown shown = shown_[listings_.at(handle)];
    std::vector<fs::DirectoryEntry> entries;
    uint64_t place = 0;
    for (const auto& [name, child] : shown.children) {
        if (++place <= cookie || entries.size() >= limit) continue;
        const auto found = co_await look_up_shown(call, shown, name);
        if (!found && found.error().code == Code::not_found) continue;
        if (!found) co_return fail(found.error());
        if (child.is_area) inner_.forget(found->node, 1);
        entries.push_back(
            {.name = name, .node = found->node, .type = found->mode & S_IFMT, .cookie = place});
    }
    co_return entries;
}

void SubtreeView::forget(NodeId node, uint64_t count) {
    if (shown_of(node) == nullptr) inner_.forget(node, count);
}

Task<Result<>> SubtreeView::read_many(const Call& call, NodeId directory,
                                      std::span<fs::ReadManyItem> items) {
    const Shown* const from = shown_of(directory);
    if (from == nullptr) {
        ROS2S_CO_TRY(co_await area_of(call, directory));
        co_return co_await inner_.read_many(call, directory, items);
    }
    struct Part {
        std::vector<size_t> places;  // of `items`
        std::vector<fs::ReadManyItem> items;
    };
    std::map<size_t, Part> parts;  // by granted directory
    for (size_t i = 0; i < items.size(); ++i) {
        const Shown* at = from;
        std::string_view rest = items[i].name;
        items[i].status = fail(Code::is_directory);
        while (!rest.empty()) {
            const std::string_view name = rest.substr(0, rest.find('/'));
            rest.remove_prefix(std::min(name.size() + 1, rest.size()));
            const auto child = at->children.find(name);
            if (child == at->children.end()) {
                const auto valid = fs::check_name(name);
                items[i].status = fail(valid ? Code::not_found : valid.error().code);
                break;
            }
            if (!child->second.is_area) {
                at = &shown_[child->second.index];
                continue;
            }
            if (rest.empty()) break;
            Part& part = parts[child->second.index];
            part.places.push_back(i);
            part.items.push_back({.name = std::string(rest), .window = items[i].window});
            break;
        }
    }
    Call of_parts = call;
    of_parts.checksums = nullptr;  // those of `items` have another order
    for (auto& [index, part] : parts) {
        const auto root = co_await root_of(call, areas_[index]);
        const Result<> done =
            root ? co_await inner_.read_many(of_parts, *root, part.items) : fail(root.error());
        for (size_t i = 0; i < part.places.size(); ++i) {
            fs::ReadManyItem& item = items[part.places[i]];
            item.status = done ? part.items[i].status : done;
            item.bytes = part.items[i].bytes;
            item.size = part.items[i].size;
        }
    }
    co_return Result<>{};
}

}  // namespace ros2s::access

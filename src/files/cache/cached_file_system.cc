// What is kept, and the changes that end it.
#include "cached_file_system.h"

namespace ros2s::cache {

CachedFileSystem::CachedFileSystem(Reactor& reactor, fs::FileSystem& below, Options options)
    : reactor_(reactor),
      below_(below),
      options_(std::move(options)),
      leases_(below.leases()),
      changes_(reactor, unknown_for) {
    ROS2S_CHECK(options_.nodes_max > 0 && options_.names_max > 0);
    if (options_.user) {
        user_ = fs::Caller{
            .uid = options_.user->uid, .gid = options_.user->gid, .groups = options_.user->groups};
    }
    ROS2S_CHECK(leases_ != nullptr);
    leases_->observe(*this);
}

CachedFileSystem::~CachedFileSystem() {
    ROS2S_CHECK(nodes_.size() == 0);  // close_all()
    leases_->unobserve(*this);
}

Task<> CachedFileSystem::close_all() {
    cached_opens_.clear();
    unopened_.clear();
    while (nodes_.size() > 0) drop(nodes_.oldest().node);
    names_.clear();
    listed_.clear();
    return below_.close_all();
}

// ---- requests -------------------------------------------------------------------------------

CachedFileSystem::Request::Request(CachedFileSystem& files, const Call& call)
    : files_(files),
      wanted_(call.leases),
      call_(call),
      since_(files.changes_.now()),
      entries_(files.last_entry_) {
    call_.leases = &leases_;
}

CachedFileSystem::Request::~Request() {
    if (wanted_ != nullptr) wanted_->insert(wanted_->end(), leases_.begin(), leases_.end());
}

// The reply of a repeated change may be that of its first execution.
bool CachedFileSystem::Request::is_newest(NodeId node) const {
    if (change_ == nullptr) return files_.changes_.quiet(node, since_);
    return !call_.repeated && change_->may_keep(node);
}
bool CachedFileSystem::Request::is_newest(NodeId directory, std::string_view name) const {
    if (change_ == nullptr) return files_.changes_.quiet(directory, name, since_);
    return !call_.repeated && change_->may_keep(directory, name);
}

// Of two leases of one node the first has been recalled, and part of the reply may be older.
uint64_t CachedFileSystem::Request::lease_of(NodeId node) {
    if (by_node_.size() != leases_.size()) {
        by_node_ = leases_;
        std::ranges::sort(by_node_, {}, &Leased::node);
    }
    const auto found = std::ranges::equal_range(by_node_, node.value, {}, &Leased::node);
    if (!found.empty()) {
        const bool is_held = std::ranges::all_of(
            found, [this](const Leased& each) { return files_.leases_->holds(each); });
        return is_held ? found.front().number : 0;
    }
    const Node* const kept = files_.held(node);
    return kept != nullptr && kept->number <= entries_ ? kept->lease : 0;
}

WallTime CachedFileSystem::Request::changed(NodeId directory) const {
    WallTime changed{};
    for (const Leased& each : leases_) {
        if (each.node == directory.value) changed = std::max(changed, each.changed);
    }
    return changed;
}

// ---- what is kept ---------------------------------------------------------------------------

CachedFileSystem::Node* CachedFileSystem::held(NodeId node) {
    Node* const kept = nodes_.find(node.value);
    if (kept == nullptr || leases_->holds({node.value, kept->lease})) return kept;
    drop(node);
    return nullptr;
}

CachedFileSystem::Node* CachedFileSystem::known(NodeId node) {
    Node* const kept = held(node);
    const bool is_known =
        kept != nullptr && kept->has_attributes && changes_.used_since(kept->kept);
    return is_known ? kept : nullptr;
}

bool CachedFileSystem::permits(const Call& call, const Node& node, uint32_t wanted) const {
    const fs::Caller* user = user_of(call);
    if (user == nullptr) return true;
    if (!node.has_rights) return false;
    const fs::Caller nobody;
    if (options_.squashes_root) {
        if (user->uid != 0 && user->in_group(0)) return false;
        if (user->uid == 0) user = &nobody;
    }
    const Attributes& rights = node.attributes;
    const bool has_acl = (rights.flags & fs::node_flags::has_access_acl) != 0;
    if (has_acl && !user->is_root() && user->uid != rights.uid) return false;
    return fs::allows(*user, rights.mode, rights.uid, rights.gid, wanted);
}

std::optional<Result<fs::Attributes>> CachedFileSystem::find(const Call& call, NodeId parent,
                                                             std::string_view name, bool is_whole) {
    const Node* const directory = held(parent);
    if (directory == nullptr || !permits(call, *directory, fs::Wanted::search)) return {};
    const std::optional<NodeId> found = named(*directory, name);
    if (!found) return {};
    if (*found == NodeId{}) {
        cover(call, *directory);
        metrics_.hits.add();
        return fail(Code::not_found);
    }
    const Node* const node = is_whole ? known(*found) : held(*found);
    if (node == nullptr || !node->has_rights || !node->is_referenced) return {};
    cover(call, *directory);
    cover(call, *node);
    ++given_[node->node.value];
    metrics_.hits.add();
    return node->attributes;
}

std::optional<fs::NodeId> CachedFileSystem::named(const Node& directory, std::string_view name) {
    const Name* const kept = names_.find({directory.node, name});
    if (kept != nullptr && kept->entry == directory.number) return kept->node;
    if (directory.is_complete && fs::check_name(name)) return NodeId{};
    return {};
}

bool CachedFileSystem::is_looked_up(NodeId directory, std::string_view name) {
    const Node* const parent = held(directory);
    if (parent == nullptr) return false;
    const std::optional<NodeId> found = named(*parent, name);
    if (!found || *found == NodeId{}) return found.has_value();
    const Node* const node = known(*found);
    return node != nullptr && node->is_referenced;
}

CachedFileSystem::Node& CachedFileSystem::entry(NodeId node, uint64_t lease) {
    Node* const kept = nodes_.find(node.value);
    if (kept != nullptr && kept->lease == lease) return *kept;
    drop(node);
    while (nodes_.size() >= options_.nodes_max) drop(nodes_.oldest().node);
    return nodes_.add({.node = node, .lease = lease, .number = ++last_entry_});
}

CachedFileSystem::Node* CachedFileSystem::keep(Request& request, const Attributes& node,
                                               bool is_whole) {
    if (node.links == 0 && is_whole) return nullptr;
    const uint64_t lease = request.lease_of(node.node);
    if (lease == 0 || !request.is_newest(node.node)) return nullptr;
    Node& kept = entry(node.node, lease);
    // Not known(): if the lease ends now, it drops the entry.
    const bool is_known = kept.has_attributes && changes_.used_since(kept.kept);
    if (is_whole || !is_known) kept.attributes = node;
    kept.has_rights = true;
    if (is_whole) {
        kept.has_attributes = true;
        kept.kept = changes_.now();
    }
    return &kept;
}

bool CachedFileSystem::keep_name(Request& request, NodeId parent, std::string_view name,
                                 NodeId node, mode_t type) {
    const uint64_t lease = request.lease_of(parent);
    if (lease == 0 || !request.is_newest(parent, name) || !fs::check_name(name)) return false;
    const uint64_t directory = entry(parent, lease).number;
    if (Name* const kept = names_.find({parent, name})) {
        kept->entry = directory;
        kept->node = node;
        kept->type = type;
        return true;
    }
    while (names_.size() >= options_.names_max) {
        const Name& oldest = names_.oldest();
        if (Node* const directory = nodes_.find(oldest.directory.value)) {
            directory->is_complete = false;
            ++directory->evicted;
        }
        names_.erase(oldest.key());
    }
    names_.add({.directory = parent,
                .name = std::string(name),
                .entry = directory,
                .node = node,
                .type = type});
    return true;
}

void CachedFileSystem::keep_found(Request& request, NodeId parent, std::string_view name,
                                  const Result<Attributes>& found, bool is_whole) {
    if (!found) {
        if (found.error().code == Code::not_found) keep_name(request, parent, name, {}, 0);
        return;
    }
    Node* const kept = keep(request, *found, is_whole);
    if (kept == nullptr) return;
    if (!kept->is_referenced) {  // the reply's reference stays here
        kept->is_referenced = true;
        ++given_[found->node.value];
    }
    keep_name(request, parent, name, found->node, found->mode & S_IFMT);
}

void CachedFileSystem::drop(NodeId node) {
    const Node* const kept = nodes_.find(node.value);
    if (kept == nullptr) return;
    const bool is_referenced = kept->is_referenced;
    nodes_.erase(node.value);
    if (is_referenced) release(node);
}

void CachedFileSystem::release(NodeId node) {
    const auto given = given_.find(node.value);
    if (given == given_.end()) return below_.forget(node, 1);
    if (--given->second == 0) given_.erase(given);
}

// The references from the cache are dropped first, so that the last one is one of those below.
void CachedFileSystem::forget(NodeId node, uint64_t count) {
    if (const auto given = given_.find(node.value); given != given_.end()) {
        const uint64_t dropped = std::min(count, given->second);
        count -= dropped;
        given->second -= dropped;
        if (given->second == 0) given_.erase(given);
    }
    if (count > 0) below_.forget(node, count);
}

// ---- own changes ----------------------------------------------------------------------------

CachedFileSystem::Old CachedFileSystem::old_of(NodeId parent, std::string_view name) {
    const Node* const directory = held(parent);
    if (directory == nullptr) return {};
    const std::optional<NodeId> found = named(*directory, name);
    if (!found) return {};
    const Name* const kept = names_.find({parent, name});
    return {.is_known = true,
            .node = *found,
            .type = kept != nullptr ? kept->type : 0,
            .entry = directory->number};
}

void CachedFileSystem::touch(Change& change, NodeId node) {
    if (Node* const kept = nodes_.find(node.value)) {
        kept->has_attributes = false;
        kept->absent_xattrs.clear();
    }
    change.touch(node);
}

CachedFileSystem::Directory CachedFileSystem::directory_of(NodeId node) {
    const Node* const kept = held(node);
    if (kept == nullptr) return {};
    return {.node = node,
            .entry = kept->number,
            .evicted = kept->evicted,
            .is_known = known(node) != nullptr,
            .is_complete = kept->is_complete};
}

void CachedFileSystem::renew(Request& request, const Directory& before, std::string_view name) {
    Node* const kept = held(before.node);
    if (kept == nullptr || kept->number != before.entry || !request.is_newest(before.node)) return;
    kept->is_complete = before.is_complete && kept->evicted == before.evicted &&
                        names_.find({before.node, name}) != nullptr;
    const WallTime changed = request.changed(before.node);
    if (!before.is_known || changed == WallTime{}) return;
    kept->attributes.modified = kept->attributes.changed = changed;
    kept->has_attributes = true;
    kept->kept = changes_.now();
}

void CachedFileSystem::keep_empty(Request& request, NodeId made) {
    if (request.changed(made) == WallTime{} || !request.is_newest(made)) return;
    const uint64_t lease = request.lease_of(made);
    Node* const kept = held(made);
    if (kept != nullptr && kept->lease == lease) kept->is_complete = true;
}

void CachedFileSystem::touch(Change& change, NodeId parent, std::string_view name) {
    if (Node* const kept = nodes_.find(parent.value)) {
        kept->has_attributes = false;
        kept->is_complete = false;
        kept->listing.reset();
    }
    names_.erase({parent, name});
    change.touch(parent, name);
}

void CachedFileSystem::touch(Change& change, const Old& old) {
    if (!old.is_known) return change.touch_any();
    if (old.node != NodeId{}) touch(change, old.node);
}

// ---- leases that are lost -------------------------------------------------------------------

// Nothing waits before everything is dropped: a lease may be given again meanwhile.
Task<> CachedFileSystem::lost(std::span<const Leased> leases) {
    std::vector<CachedOpenPointer> files;
    for (const Leased& each : leases) {
        const NodeId node{each.node};
        drop(node);
        changes_.lost(node);
        for (CachedOpenPointer& file : unopened(node)) files.push_back(std::move(file));
    }
    co_await open_lost(std::move(files));
}

Task<> CachedFileSystem::lost_all() {
    while (nodes_.size() > 0) drop(nodes_.oldest().node);
    names_.clear();
    changes_.lost_all();
    co_await open_lost(unopened());
}

// What cannot be opened in time is opened by its next call, if it still exists then.
Task<> CachedFileSystem::open_lost(std::vector<CachedOpenPointer> files) {
    if (files.empty()) co_return;
    const Call call{.deadline = reactor_.now() + options_.opens_within};
    (void)co_await open_all(call, std::move(files), Opening::whole);
}

}  // namespace ros2s::cache

#include "tree.h"

#include <algorithm>
#include <cerrno>

#include "ros2s/base/check.h"

namespace ros2s::engine {
namespace {

constexpr size_t page_bytes = 4096;
constexpr size_t sector_bytes = 512;

std::unexpected<Error> frozen() { return fail(Error{Code::io, EIO, 0}); }

InodePtr make_inode(bool is_directory) {
    auto inode = std::make_shared<Inode>();
    inode->is_directory = is_directory;
    return inode;
}

void put_names(Inode::Entries& entries, const Inode::Change& change) {
    for (const auto& [name, inode] : change) {
        if (inode) {
            entries[name] = inode;
        } else {
            entries.erase(name);
        }
    }
}

// The part of the unsynced changes of a file or directory that survives a crash.
enum class Fate : uint8_t { none, all, first_few, any };
Fate draw_fate(Random& random) { return static_cast<Fate>(random.below(4)); }

std::string surviving_content(const Inode& file, Random& random) {
    const size_t unsynced = file.content.size() - file.synced;
    if (unsynced == 0) return file.content;
    size_t kept = 0;
    const Fate fate = draw_fate(random);
    if (fate == Fate::all) kept = unsynced;
    if (fate == Fate::first_few || fate == Fate::any) kept = random.below(unsynced + 1);
    size_t size = file.synced + kept;
    // Disks write whole sectors, but a file system may journal small tails with their length.
    if (fate != Fate::all && random.one_in(2))
        size = std::max(file.synced, size / sector_bytes * sector_bytes);
    std::string content = file.content.substr(0, size);
    if (fate == Fate::any) {
        for (size_t at = file.synced; at < size; at = (at / page_bytes + 1) * page_bytes) {
            if (!random.one_in(4)) continue;
            const size_t end = std::min(size, (at / page_bytes + 1) * page_bytes);
            std::fill(content.begin() + static_cast<ptrdiff_t>(at),
                      content.begin() + static_cast<ptrdiff_t>(end), '\0');
        }
    }
    return content;
}

InodePtr surviving(const Inode& inode, Random& random) {
    auto after = make_inode(inode.is_directory);
    if (!inode.is_directory) {
        after->content = surviving_content(inode, random);
        after->synced = after->content.size();
        return after;
    }
    auto entries = inode.durable;
    const Fate fate = draw_fate(random);
    const size_t count = fate == Fate::none        ? 0
                         : fate == Fate::first_few ? random.below(inode.pending.size() + 1)
                                                   : inode.pending.size();
    for (size_t i = 0; i < count; ++i)
        if (fate != Fate::any || random.one_in(2)) put_names(entries, inode.pending[i]);
    for (const auto& [name, child] : entries) after->entries[name] = surviving(*child, random);
    after->durable = after->entries;
    return after;
}

uint64_t count_bytes(const Inode& inode) {
    uint64_t bytes = inode.content.size();
    for (const auto& [name, child] : inode.entries) bytes += count_bytes(*child);
    return bytes;
}

uint64_t count_unsynced(const Inode& inode) {
    uint64_t count = inode.pending.size() + (inode.synced < inode.content.size() ? 1 : 0);
    for (const auto& [name, child] : inode.entries) count += count_unsynced(*child);
    return count;
}

}  // namespace

Tree::Tree() : root_(make_inode(true)) {}

Tree::Generation Tree::generation() const {
    const std::lock_guard lock(mutex_);
    return generation_;
}

Result<> Tree::usable(Generation g) const {
    if (g != generation_) return frozen();
    return {};
}

Result<InodePtr> Tree::walk(std::string_view path) const {
    InodePtr at = root_;
    while (!path.empty()) {
        const auto end = std::min(path.find('/'), path.size());
        const std::string name(path.substr(0, end));
        path.remove_prefix(std::min(end + 1, path.size()));
        if (name.empty() || name == ".") continue;
        if (!at->is_directory) return fail_errno(ENOTDIR);
        const auto found = at->entries.find(name);
        if (found == at->entries.end()) return fail_errno(ENOENT);
        at = found->second;
    }
    return at;
}

Result<Tree::Entry> Tree::place(std::string_view path) const {
    while (path.ends_with('/')) path.remove_suffix(1);
    const auto slash = path.rfind('/');
    ROS2S_CHECK(slash != std::string_view::npos);
    ROS2S_TRY_ASSIGN(auto directory, walk(path.substr(0, slash)));
    if (!directory->is_directory) return fail_errno(ENOTDIR);
    return Entry{std::move(directory), std::string(path.substr(slash + 1))};
}

void Tree::change(Inode& directory, Inode::Change change) {
    put_names(directory.entries, change);
    directory.pending.push_back(std::move(change));
}

Result<> Tree::changed() {
    ++changes_;
    if (!planned_ || planned_->happened || changes_ < planned_->at) return {};
    planned_->happened = true;
    Random random(planned_->seed);
    crash_locked(random);
    return frozen();
}

Result<InodePtr> Tree::create(Generation g, std::string_view path) {
    const std::lock_guard lock(mutex_);
    ROS2S_TRY(usable(g));
    ROS2S_TRY_ASSIGN(const auto at, place(path));
    const auto found = at.directory->entries.find(at.name);
    if (found != at.directory->entries.end() && found->second->is_directory)
        return fail_errno(EISDIR);
    auto file = make_inode(false);
    change(*at.directory, {{at.name, file}});
    ROS2S_TRY(changed());
    return file;
}

Result<InodePtr> Tree::find(Generation g, std::string_view path) const {
    const std::lock_guard lock(mutex_);
    ROS2S_TRY(usable(g));
    return walk(path);
}

Result<> Tree::append(Generation g, Inode& file, std::string_view data) {
    const std::lock_guard lock(mutex_);
    ROS2S_TRY(usable(g));
    if (capacity_ != UINT64_MAX && count_bytes(*root_) + data.size() > capacity_)
        return fail_errno(ENOSPC);
    file.content += data;
    return changed();
}

Result<> Tree::truncate(Generation g, Inode& file, size_t size) {
    const std::lock_guard lock(mutex_);
    ROS2S_TRY(usable(g));
    // RocksDB truncates only its preallocated space beyond the end, which does not exist here.
    ROS2S_CHECK(size >= file.synced);
    file.content.resize(size);
    return changed();
}

Result<> Tree::sync(Generation g, Inode& inode) {
    const std::lock_guard lock(mutex_);
    ROS2S_TRY(usable(g));
    if (fail_syncs_) return frozen();
    inode.synced = inode.content.size();
    inode.durable = inode.entries;
    inode.pending.clear();
    return changed();
}

Result<size_t> Tree::read(Generation g, const Inode& file, uint64_t offset, size_t length,
                          char* to) const {
    const std::lock_guard lock(mutex_);
    ROS2S_TRY(usable(g));
    if (file.is_directory) return fail_errno(EISDIR);
    if (offset >= file.content.size()) return size_t{0};
    return file.content.copy(to, length, offset);
}

Result<size_t> Tree::size(Generation g, const Inode& file) const {
    const std::lock_guard lock(mutex_);
    ROS2S_TRY(usable(g));
    return file.content.size();
}

Result<> Tree::make_directory(Generation g, std::string_view path) {
    const std::lock_guard lock(mutex_);
    ROS2S_TRY(usable(g));
    ROS2S_TRY_ASSIGN(const auto at, place(path));
    if (at.directory->entries.contains(at.name)) return fail_errno(EEXIST);
    change(*at.directory, {{at.name, make_inode(true)}});
    return changed();
}

Result<> Tree::remove(Generation g, std::string_view path, bool directory) {
    const std::lock_guard lock(mutex_);
    ROS2S_TRY(usable(g));
    ROS2S_TRY_ASSIGN(const auto at, place(path));
    const auto found = at.directory->entries.find(at.name);
    if (found == at.directory->entries.end()) return fail_errno(ENOENT);
    if (found->second->is_directory != directory) return fail_errno(directory ? ENOTDIR : EISDIR);
    if (!found->second->entries.empty()) return fail_errno(ENOTEMPTY);
    change(*at.directory, {{at.name, nullptr}});
    return changed();
}

Result<> Tree::rename(Generation g, std::string_view from, std::string_view to) {
    const std::lock_guard lock(mutex_);
    ROS2S_TRY(usable(g));
    ROS2S_TRY_ASSIGN(const auto source, place(from));
    ROS2S_TRY_ASSIGN(const auto target, place(to));
    // RocksDB renames inside its directory. Otherwise one change would span two directories.
    ROS2S_CHECK(source.directory == target.directory);
    const auto found = source.directory->entries.find(source.name);
    if (found == source.directory->entries.end()) return fail_errno(ENOENT);
    auto moved = found->second;
    change(*source.directory, {{source.name, nullptr}, {target.name, std::move(moved)}});
    return changed();
}

Result<std::vector<std::string>> Tree::list(Generation g, std::string_view path) const {
    const std::lock_guard lock(mutex_);
    ROS2S_TRY(usable(g));
    ROS2S_TRY_ASSIGN(const auto directory, walk(path));
    if (!directory->is_directory) return fail_errno(ENOTDIR);
    std::vector<std::string> names;
    for (const auto& [name, inode] : directory->entries) names.push_back(name);
    return names;
}

Result<> Tree::lock(Generation g, const std::string& path) {
    const std::lock_guard lock(mutex_);
    ROS2S_TRY(usable(g));
    if (!locks_.insert(path).second) return fail_errno(EBUSY);
    return {};
}

Result<> Tree::unlock(Generation g, const std::string& path) {
    const std::lock_guard lock(mutex_);
    ROS2S_TRY(usable(g));
    locks_.erase(path);
    return {};
}

void Tree::crash_locked(Random& random) {
    root_ = surviving(*root_, random);
    locks_.clear();
    fail_syncs_ = false;
    ++generation_;
}

void Tree::crash(Random& random) {
    const std::lock_guard lock(mutex_);
    crash_locked(random);
}

void Tree::crash_after(uint64_t changes, uint64_t seed) {
    ROS2S_CHECK(changes > 0);
    const std::lock_guard lock(mutex_);
    planned_ = PlannedCrash{changes_ + changes, seed};
}

bool Tree::cancel_crash() {
    const std::lock_guard lock(mutex_);
    const bool happened = planned_ && planned_->happened;
    planned_.reset();
    return happened;
}

void Tree::fail_syncs(bool fail) {
    const std::lock_guard lock(mutex_);
    fail_syncs_ = fail;
}

void Tree::set_capacity(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    capacity_ = bytes;
}

uint64_t Tree::changes() const {
    const std::lock_guard lock(mutex_);
    return changes_;
}

uint64_t Tree::bytes() const {
    const std::lock_guard lock(mutex_);
    return count_bytes(*root_);
}

uint64_t Tree::unsynced() const {
    const std::lock_guard lock(mutex_);
    return count_unsynced(*root_);
}

}  // namespace ros2s::engine

// Listings of directories.
#include "cached_file_system.h"

namespace ros2s::cache {

Task<Result<std::vector<fs::DirectoryEntry>>> CachedFileSystem::readdir(const Call& call,
                                                                        FileHandle handle,
                                                                        uint64_t cookie,
                                                                        size_t limit) {
    if (!cached_opens_.contains(handle.value)) return below_.readdir(call, handle, cookie, limit);
    return list_names(call, handle, cookie, limit);
}

Task<Result<std::vector<fs::DirectoryEntry>>> CachedFileSystem::list_names(const Call& call,
                                                                           FileHandle handle,
                                                                           uint64_t cookie,
                                                                           size_t limit) {
    const CachedOpenPointer file = cached_opens_.at(handle.value);
    if (const Listing* const kept = listing_of(*file, cookie)) co_return kept->page(cookie, limit);
    ROS2S_CO_TRY_ASSIGN(const FileHandle below, co_await open_below(call, file, Opening::whole));
    Request request(*this, call);
    begin_page(*file, cookie);
    auto entries = co_await below_.readdir(call, below, cookie, limit);
    if (!entries) co_return entries;
    listed_.add(file->node, cookie, *entries);
    keep_page(request, *file, cookie, *entries);
    co_return entries;
}

CachedFileSystem::ListedTask CachedFileSystem::readdir_many(const Call& call, NodeId node,
                                                            FileHandle handle, uint64_t cookie,
                                                            size_t limit) {
    if (!cached_opens_.contains(handle.value)) return list_below(call, node, handle, cookie, limit);
    return list_many(call, handle, cookie, limit);
}

CachedFileSystem::ListedTask CachedFileSystem::list_below(const Call& call, NodeId node,
                                                          FileHandle handle, uint64_t cookie,
                                                          size_t limit) {
    Request request(*this, call);
    auto listed = co_await below_.readdir_many(request.call(), node, handle, cookie, limit);
    if (!listed) co_return listed;
    for (const fs::ListedEntry& each : *listed) {
        keep_found(request, node, each.entry.name, each.attributes, true);
    }
    co_return listed;
}

CachedFileSystem::ListedTask CachedFileSystem::list_many(const Call& call, FileHandle handle,
                                                         uint64_t cookie, size_t limit) {
    const CachedOpenPointer file = cached_opens_.at(handle.value);
    std::vector<fs::DirectoryEntry> entries;
    if (const Listing* const kept = listing_of(*file, cookie)) {
        entries = kept->page(cookie, std::min(limit, fs::names_together_max));
    } else {
        ROS2S_CO_TRY_ASSIGN(const FileHandle below,
                            co_await open_below(call, file, Opening::whole));
        begin_page(*file, cookie);
        Request request(*this, call);
        auto listed = co_await list_below(call, file->node, below, cookie, limit);
        if (!listed) co_return listed;
        for (const fs::ListedEntry& each : *listed) entries.push_back(each.entry);
        keep_page(request, *file, cookie, entries);
        co_return listed;
    }
    std::vector<std::string_view> names;
    for (const fs::DirectoryEntry& each : entries) names.push_back(each.name);
    auto found = co_await lookup_many(call, file->node, names);
    std::vector<fs::ListedEntry> listed;
    for (size_t i = 0; i < entries.size(); ++i) {
        listed.push_back({.entry = std::move(entries[i]), .attributes = std::move(found[i])});
    }
    co_return listed;
}

// ---- names that are kept --------------------------------------------------------------------

std::vector<fs::DirectoryEntry> CachedFileSystem::Listing::page(uint64_t cookie,
                                                                size_t limit) const {
    const size_t from = std::min<uint64_t>(cookie, entries_.size());
    const auto begin = entries_.begin() + static_cast<ptrdiff_t>(from);
    return {begin, begin + static_cast<ptrdiff_t>(std::min(limit, entries_.size() - from))};
}

const CachedFileSystem::Listing* CachedFileSystem::listing_of(CachedOpen& file, uint64_t cookie) {
    if (cookie == 0) {
        Node* const directory = held(file.node);
        file.listing = directory != nullptr ? make_listing(*directory) : nullptr;
    }
    if (file.listing != nullptr) metrics_.hits.add();
    return file.listing.get();
}

CachedFileSystem::ListingPointer CachedFileSystem::make_listing(Node& directory) {
    if (ListingPointer made = directory.listing.lock()) return made;
    if (!directory.is_complete) return nullptr;
    const size_t room = options_.names_max - std::min(listing_names_, options_.names_max);
    std::vector<fs::DirectoryEntry> entries;
    bool is_whole = true;
    names_.each_from({directory.node, {}}, [&](const Name& each) {
        if (each.directory != directory.node) return false;
        if (each.entry != directory.number || each.node == NodeId{}) return true;
        is_whole = each.type != 0 && entries.size() < room;
        entries.push_back({.name = each.name,
                           .node = each.node,
                           .type = each.type,
                           .cookie = entries.size() + 1});
        return is_whole;
    });
    if (!is_whole) return nullptr;
    auto made = std::make_shared<const Listing>(std::move(entries), listing_names_);
    directory.listing = made;
    return made;
}

void CachedFileSystem::begin_page(CachedOpen& file, uint64_t cookie) {
    if (cookie != 0) return;
    const Node* const directory = held(file.node);
    file.walk = {};
    if (directory == nullptr) return;
    file.walk.entry = directory->number;
    file.walk.evicted = directory->evicted;
    file.walk.begun = changes_.now();
}

// Names of a very large directory would take the room of all others.
void CachedFileSystem::keep_page(Request& request, CachedOpen& file, uint64_t cookie,
                                 std::span<const fs::DirectoryEntry> entries) {
    CachedOpen::Walk walk = std::exchange(file.walk, {});
    const auto is_same = [&] {
        const Node* const directory = held(file.node);
        return directory != nullptr && directory->number == walk.entry &&
               directory->evicted == walk.evicted && request.lease_of(file.node) != 0 &&
               changes_.quiet(file.node, walk.begun);
    };
    walk.names += entries.size();
    if (walk.entry == 0 || walk.cookie != cookie || walk.names > options_.names_max / 2 ||
        !request.is_newest(file.node) || !is_same()) {
        return;
    }
    if (entries.empty()) {
        if (Node* const directory = held(file.node)) directory->is_complete = true;
        return;
    }
    for (const fs::DirectoryEntry& each : entries) {
        if (!keep_name(request, file.node, each.name, each.node, each.type)) return;
    }
    if (!is_same()) return;
    walk.cookie = entries.back().cookie;
    file.walk = walk;
}

}  // namespace ros2s::cache

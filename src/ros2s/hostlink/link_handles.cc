// What is open: opening and closing by the namespace, opening again where the mount has moved, and
// reading directories, whose cookies a server forgets with its handles.
#include "link_ask.h"

#include <fmt/format.h>

#include <algorithm>

namespace ros2s::hostlink {
namespace {

// A server that is about to be there, or is at its limit for a while.
bool may_pass(const Error& error) {
    switch (error.code) {
        case Code::disconnected:
        case Code::closed:
        case Code::busy:
        case Code::no_memory:
        case Code::deadline:
        case Code::cancelled: return true;
        default: return false;
    }
}

class ReadEntries final : public rpc::ReplyReader {
  public:
    Result<> read(const rpc::Reply& reply) override {
        ROS2S_TRY_ASSIGN(value, decode_entries(reply.body));
        return {};
    }
    std::vector<fs::DirectoryEntry> value;
};

}  // namespace

// ---- open, close ------------------------------------------------------------------------------

Task<Result<fs::Opened>> LinkClient::open(const Call& call, NodeId node, fs::OpenFlags flags) {
    const session::MountLocation before = locator_.location();
    ROS2S_CO_TRY_ASSIGN(const auto opened, co_await names_.open(call, node, flags));
    co_return co_await keep(call, before, opened, flags);
}

Task<Result<fs::Opened>> LinkClient::create(const Call& call, NodeId parent, std::string_view name,
                                            mode_t mode, fs::OpenFlags flags, fs::Owner owner) {
    const session::MountLocation before = locator_.location();
    ROS2S_CO_TRY_ASSIGN(const auto opened,
                        co_await names_.create(call, parent, name, mode, flags, owner));
    co_return co_await keep(call, before, opened, flags);
}

Task<Result<fs::Opened>> LinkClient::keep(const Call& call, session::MountLocation before,
                                          fs::Opened opened, fs::OpenFlags flags) {
    const fs::FileHandle handle{++last_handle_};
    Open& file = open_[handle];
    file.node = opened.attributes.node;
    file.flags = flags;
    file.flags.truncate = file.flags.exclusive = false;
    file.there = opened.handle;
    // Where the mount moved meanwhile, nobody knows which of the two places has the handle.
    if (locator_.location() == before) {
        file.place = before;
    } else {
        co_await reopen(call, handle);
    }
    opened.handle = handle;
    co_return opened;
}

Task<Result<>> LinkClient::close(const Call& call, fs::FileHandle handle) {
    const auto found = open_.find(handle);
    if (found == open_.end()) co_return fail(Code::stale);
    const session::MountLocation place = found->second.place;
    const fs::FileHandle there = found->second.there;
    open_.erase(found);
    // What was open at another place went with it.
    if (place != locator_.location()) co_return Result<>{};
    const auto closed = co_await names_.close(call, there);
    if (place != locator_.location() || (!closed && closed.error().code == Code::stale)) {
        co_return Result<>{};
    }
    co_return closed;
}

Result<LinkClient::Open*> LinkClient::opened(fs::FileHandle handle) {
    const auto found = open_.find(handle);
    if (found == open_.end()) return fail(Code::stale);
    return &found->second;
}

Result<fs::PathReport> LinkClient::path_report(fs::FileHandle handle) const {
    const auto found = open_.find(handle);
    if (found == open_.end()) return fail(Code::stale);
    fs::PathReport report = found->second.report;
    const std::string keeper = locator_.keeper();
    report.path = fmt::format("host link over {} to {}{}{}", channel_.provider(), options_.behind,
                              keeper.empty() ? "" : ", ", keeper);
    return report;
}

// ---- another place ----------------------------------------------------------------------------

Task<Result<LinkClient::Where>> LinkClient::where(const Call& call, fs::FileHandle handle) {
    constexpr Duration pause = std::chrono::milliseconds(2);
    const Time until = reactor_.now() + options_.patience;
    for (;;) {
        ROS2S_CO_TRY_ASSIGN(const Open* file, opened(handle));
        if (file->lost) co_return fail(*file->lost);
        if (file->place == locator_.location()) {
            co_return Where{.place = file->place, .handle = file->there};
        }
        ROS2S_CO_TRY(call.check(reactor_.now()));
        if (reactor_.now() >= until) co_return fail(Code::disconnected);
        if (file->reopening) {
            (void)co_await sleep_for(reactor_, pause, call.stop);
        } else {
            const Call bounded{.deadline = std::min(call.deadline, until), .stop = call.stop};
            co_await reopen(bounded, handle);
        }
    }
}

Task<> LinkClient::reopen_all(const Call& call) {
    session::MountLocation place;
    do {
        place = locator_.location();
        std::vector<fs::FileHandle> handles;
        for (const auto& [handle, file] : open_) handles.push_back(handle);
        for (const fs::FileHandle handle : handles) co_await reopen(call, handle);
    } while (locator_.location() != place);
}

Task<> LinkClient::reopen(const Call& call, fs::FileHandle handle) {
    const auto file = opened(handle);
    if (!file || (*file)->reopening) co_return;
    (*file)->reopening = true;
    co_await open_again(call, handle);
    if (const auto still = opened(handle)) (*still)->reopening = false;
}

Task<> LinkClient::open_again(const Call& call, fs::FileHandle handle) {
    constexpr Duration pause = std::chrono::milliseconds(100);
    for (;;) {
        const auto file = opened(handle);
        const session::MountLocation place = locator_.location();
        if (!file || (*file)->lost || (*file)->place == place) co_return;
        if (!call.check(reactor_.now())) co_return;
        const auto again = co_await names_.open(call, (*file)->node, (*file)->flags);
        const auto still = opened(handle);
        if (!again && !may_pass(again.error())) {
            if (still && (*still)->place != locator_.location()) (*still)->lost = again.error();
            co_return;
        }
        if (!again) {
            (void)co_await sleep_for(reactor_, pause, call.stop);
            continue;
        }
        if (locator_.location() != place) continue;
        if (!still) {
            (void)co_await names_.close(call, again->handle);  // closed meanwhile
            co_return;
        }
        (*still)->there = again->handle;
        (*still)->place = place;
        (*still)->cookie_base = (*still)->cookie_most;
        co_return;
    }
}

// ---- directories ------------------------------------------------------------------------------

// Cookies of a handle that was opened again begin anew at the server; ours go on behind those that
// were given. What lies behind an older one is found by its name, for DFS lists in their order.
Task<Result<LinkClient::Entries>> LinkClient::readdir(const Call& call, fs::FileHandle handle,
                                                      uint64_t cookie, size_t limit) {
    for (;;) {
        ROS2S_CO_TRY_ASSIGN(const Where at, co_await where(call, handle));
        ROS2S_CO_TRY_ASSIGN(const Open* file, opened(handle));
        const uint64_t base = file->cookie_base;
        Result<Entries> entries;
        if (cookie == 0 || cookie > base) {
            entries = co_await list(call, at, cookie == 0 ? 0 : cookie - base, limit);
        } else {
            const auto last = std::ranges::find(file->given, cookie, &fs::DirectoryEntry::cookie);
            if (last == file->given.end()) co_return fail(Code::invalid);
            entries = co_await list_behind(call, at, last->name, limit);
        }
        if (!entries && entries.error().code == Code::stale &&
            co_await locator_.moved(call, at.place)) {
            continue;
        }
        if (!entries) co_return fail(entries.error());
        for (fs::DirectoryEntry& entry : *entries) entry.cookie += base;
        if (const auto still = opened(handle); still && !entries->empty()) {
            (*still)->given = *entries;
            (*still)->cookie_most = std::max((*still)->cookie_most, entries->back().cookie);
        }
        co_return entries;
    }
}

Task<Result<LinkClient::Entries>> LinkClient::list(const Call& call, Where at, uint64_t cookie,
                                                   size_t limit) {
    Buffer buffer;
    ReadEntries reader;
    const ReaddirBody asked{
        .mount = at.place.mount,
        .handle = at.handle,
        .cookie = cookie,
        .limit = static_cast<uint32_t>(std::min<size_t>(limit, readdir_entries_max))};
    const rpc::CallRequest request{.method = static_cast<uint16_t>(Method::readdir),
                                   .repeatable = true,
                                   .body = encode_readdir(buffer, asked)};
    ROS2S_CO_TRY(co_await channel_.call(call, request, reader));
    co_return std::move(reader.value);
}

Task<Result<LinkClient::Entries>> LinkClient::list_behind(const Call& call, Where at,
                                                          std::string name, size_t limit) {
    for (uint64_t cookie = 0;;) {
        ROS2S_CO_TRY_ASSIGN(auto entries, co_await list(call, at, cookie, readdir_entries_max));
        if (entries.empty()) co_return entries;
        cookie = entries.back().cookie;
        std::erase_if(entries, [&](const auto& entry) { return entry.name <= name; });
        if (entries.empty()) continue;
        if (entries.size() > limit) entries.resize(limit);
        co_return entries;
    }
}

}  // namespace ros2s::hostlink

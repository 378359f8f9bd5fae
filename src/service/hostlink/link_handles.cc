// Handles: opening and closing, opening again after the mount has moved, and reading directories,
// because a server forgets cookies with their handles.
#include "link_ask.h"

#include <fmt/format.h>

#include <algorithm>

namespace ros2s::hostlink {
namespace {

// True if the server will probably be there soon, or is at a limit for a while.
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

// The host or its user may not do it now. The right may come back.
bool is_for_want_of_rights(const Error& error) {
    return error.code == Code::denied || error.code == Code::read_only;
}

// Before a failed request about a handle is sent again.
constexpr Duration retry_pause = std::chrono::milliseconds(100);

}  // namespace

// ---- open, close ------------------------------------------------------------------------------

Task<Result<LinkClient::OpenedAtServer>> LinkClient::open_node(const Call& call, NodeId node,
                                                               fs::OpenFlags flags) {
    OpenedAtServer there;
    ROS2S_CO_TRY_ASSIGN(there.opened, co_await change<fs::Opened>(
                                          call, Method::open,
                                          OpenBody{.node = node, .flags = flags}, &there.place));
    co_return there;
}

Task<Result<fs::Opened>> LinkClient::open(const Call& call, NodeId node, fs::OpenFlags flags) {
    OpenedAtServer there{.opened = {.attributes = {.node = node, .mode = S_IFREG}}};
    if (!std::exchange(flags.leased, false)) {
        ROS2S_CO_TRY_ASSIGN(there, co_await open_node(call, node, flags));
    }
    co_return keep(call, there, flags);
}

Task<Result<>> LinkClient::hold(const Call& call, fs::FileHandle handle) {
    ROS2S_CO_TRY(co_await where(call, handle));
    co_return Result<>{};
}

Task<Result<fs::Opened>> LinkClient::create(const Call& call, NodeId parent, std::string_view name,
                                            mode_t mode, fs::OpenFlags flags, fs::Owner owner) {
    const CreateBody body{.parent = parent,
                          .name = name.substr(0, name_text_max),
                          .mode = mode & fs::permission_bits,
                          .owner = owner,
                          .flags = flags};
    OpenedAtServer there;
    ROS2S_CO_TRY_ASSIGN(there.opened,
                        co_await change<fs::Opened>(call, Method::create, body, &there.place));
    co_return keep(call, there, flags);
}

Task<Result<fs::Opened>> LinkClient::open_path(const Call& call, std::string_view path,
                                               fs::PathOpen how) {
    if (path.size() > path_text_max) co_return co_await FileSystem::open_path(call, path, how);
    how.mode &= fs::permission_bits;
    OpenedAtServer there;
    ROS2S_CO_TRY_ASSIGN(there.opened, co_await change<fs::Opened>(
                                          call, Method::open_path,
                                          OpenPathBody{.path = path, .how = how}, &there.place));
    co_return keep(call, there, how.flags);
}

fs::FileHandle LinkClient::adopt(fs::FileHandle there, NodeId node, fs::OpenFlags flags) {
    const OpenedAtServer opened{.opened = {.handle = there, .attributes = {.node = node}},
                                .place = locator_.location()};
    return keep(Call{}, opened, flags).handle;
}

fs::Opened LinkClient::keep(const Call& call, const OpenedAtServer& there, fs::OpenFlags flags) {
    const fs::Caller user = user_of(call);
    const fs::FileHandle handle{++last_handle_};
    Open& file = open_[handle];
    file.node = there.opened.attributes.node;
    file.flags = flags;
    file.user = {user.uid, user.gid, {user.groups.begin(), user.groups.end()}};
    file.flags.truncate = file.flags.exclusive = false;
    file.there = there.opened.handle;
    file.place = there.place;
    return {.handle = handle, .attributes = there.opened.attributes};
}

Task<Result<>> LinkClient::close(const Call& call, fs::FileHandle handle) {
    auto found = open_.find(handle);
    if (found == open_.end()) co_return fail(Code::stale);
    const bool waits = found->second.unsynced;
    if (waits && changes_.must_ask(locator_.location())) {
        (void)co_await ask_for_losses(call);
        found = open_.find(handle);
        if (found == open_.end()) co_return fail(Code::stale);
    }
    const session::MountLocation place = found->second.place;
    const fs::FileHandle there = found->second.there;
    const bool is_lost = found->second.tells_loss;
    const bool is_here = is_leased(found->second);
    end_locks(handle, found->second, false);
    open_.erase(found);
    if (is_here) co_return Result<>{};
    Result<> closed;
    if (waits) closed = co_await close_there(call, place, there);
    const bool is_open = !closed && may_pass(closed.error());
    if (!waits || is_open) close_later({place, there});
    if (closed && is_lost) co_return fail(Code::io);
    co_return closed;
}

// The caller goes on, also while the server is away.
void LinkClient::close_later(ServerHandle at) {
    if (!closers_.try_spawn(close_behind(*this, at))) unclosed_.push_back(at);
}

// Until the handle is closed: it counts against the bounds of the mount. Then the handles that
// found no room in `closers_`.
Task<> LinkClient::close_behind(LinkClient& self, ServerHandle at) {
    for (;;) {
        const Time until = self.reactor_.now() + self.options_.close_within;
        const Call call{.deadline = std::min(until, self.closes_until_)};
        const auto closed = co_await self.close_there(call, at.place, at.handle);
        const bool is_open = !closed && may_pass(closed.error());
        if (is_open && self.is_closing()) co_return;
        if (is_open) {
            (void)co_await sleep_for(self.reactor_, retry_pause, {});
            continue;
        }
        if (self.unclosed_.empty()) co_return;
        at = self.unclosed_.back();
        self.unclosed_.pop_back();
    }
}

// A handle at another location ended with that location.
Task<Result<>> LinkClient::close_there(const Call& call, session::MountLocation place,
                                       fs::FileHandle there) {
    if (place != locator_.location()) co_return Result<>{};
    Buffer buffer;
    ReadLeased<void> reader;
    const HandleBody body{.mount = place.mount, .handle = there};
    const rpc::CallRequest request{
        .method = static_cast<uint16_t>(Method::close),
        .repeatable = true,
        .body = rpc::build(buffer, with_user(handle_fields), user_of(call), body)};
    const auto closed = co_await channel_.call(call, request, reader);
    if (!closed && closed.error().code == Code::stale) co_return Result<>{};
    if (place != locator_.location()) co_return Result<>{};
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
    const std::string storage = locator_.storage();
    report.path = fmt::format("host link over {} to {}{}{}{}", channel_.provider(), options_.behind,
                              storage.empty() ? "" : ", ", storage,
                              is_deferred() ? ", durable at fsync" : "");
    return report;
}

// ---- another place ----------------------------------------------------------------------------

Task<Result<LinkClient::ServerHandle>> LinkClient::where(const Call& call, fs::FileHandle handle) {
    constexpr Duration pause = std::chrono::milliseconds(2);
    const Time until = reactor_.now() + options_.patience;
    for (;;) {
        ROS2S_CO_TRY_ASSIGN(const Open* file, opened(handle));
        if (file->lost) co_return fail(*file->lost);
        if (file->place == locator_.location()) {
            co_return ServerHandle{.place = file->place, .handle = file->there};
        }
        ROS2S_CO_TRY(call.check(reactor_));
        if (reactor_.now() >= until) co_return fail(Code::disconnected);
        if (file->reopening) {
            (void)co_await sleep_for(reactor_, pause, call.stop);
        } else {
            const Call bounded{.deadline = std::min(call.deadline, until), .stop = call.stop};
            const auto reopened = co_await reopen(bounded, handle);
            if (!reopened && is_for_want_of_rights(reopened.error())) {
                co_return fail(reopened.error());
            }
        }
    }
}

Task<> LinkClient::reopen_all(const Call& call) {
    session::MountLocation place;
    do {
        place = locator_.location();
        std::vector<fs::FileHandle> handles;
        for (const auto& [handle, file] : open_) handles.push_back(handle);
        for (const fs::FileHandle handle : handles) (void)co_await reopen(call, handle);
    } while (locator_.location() != place);
}

Task<Result<>> LinkClient::reopen(const Call& call, fs::FileHandle handle) {
    const auto file = opened(handle);
    if (!file || (*file)->reopening) co_return Result<>{};
    (*file)->reopening = true;
    const auto reopened = co_await open_again(call, handle);
    if (const auto still = opened(handle)) (*still)->reopening = false;
    co_return reopened;
}

Task<Result<>> LinkClient::open_again(const Call& call, fs::FileHandle handle) {
    for (;;) {
        const auto file = opened(handle);
        if (!file || (*file)->lost || (*file)->place == locator_.location()) co_return Result<>{};
        ROS2S_CO_TRY(call.check(reactor_));
        const fs::UserClaim opener = (*file)->user;
        const fs::Caller user{.uid = opener.uid, .gid = opener.gid, .groups = opener.groups};
        Call as_opener = call;
        as_opener.caller = &user;
        const auto again = co_await open_node(as_opener, (*file)->node, (*file)->flags);
        const auto still = opened(handle);
        if (!again && !may_pass(again.error())) {
            const bool is_final = !is_for_want_of_rights(again.error());
            if (still && is_final && (*still)->place != locator_.location()) {
                (*still)->lost = again.error();
            }
            co_return fail(again.error());
        }
        if (!again) {
            (void)co_await sleep_for(reactor_, retry_pause, call.stop);
            continue;
        }
        if (!still) {  // closed meanwhile
            (void)co_await close_there(call, again->place, again->opened.handle);
            co_return Result<>{};
        }
        (*still)->there = again->opened.handle;
        (*still)->place = again->place;
        (*still)->cookie_base = (*still)->cookie_most;
        end_locks(handle, **still, true);
    }
}

// ---- directories ------------------------------------------------------------------------------

// A handle that was opened again starts with new cookies at the server. The client's cookies
// continue after the last one that it returned. Entries behind an older cookie are found by its
// name if the server lists in the order of names, as DFS does; otherwise the handle is stale.
Task<Result<LinkClient::Entries>> LinkClient::readdir(const Call& call, fs::FileHandle handle,
                                                      uint64_t cookie, size_t limit) {
    for (;;) {
        ROS2S_CO_TRY_ASSIGN(const ServerHandle at, co_await where(call, handle));
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
        if (!entries && entries.error().code == Code::stale) {
            ROS2S_CO_TRY(co_await locator_.moved(call, at.place));
            continue;
        }
        if (!entries) co_return fail(entries.error());
        for (fs::DirectoryEntry& entry : *entries) entry.cookie += base;
        remember(handle, *entries);
        co_return entries;
    }
}

void LinkClient::remember(fs::FileHandle handle, const Entries& entries) {
    const auto file = opened(handle);
    if (!file || entries.empty()) return;
    (*file)->given = entries;
    (*file)->cookie_most = std::max((*file)->cookie_most, entries.back().cookie);
}

Task<Result<LinkClient::Entries>> LinkClient::list(const Call& call, ServerHandle at,
                                                   uint64_t cookie, size_t limit) {
    Buffer buffer;
    ReadAs<Entries> reader;
    const ReaddirBody asked{
        .mount = at.place.mount,
        .handle = at.handle,
        .cookie = cookie,
        .limit = static_cast<uint32_t>(std::min<size_t>(limit, readdir_entries_max))};
    const rpc::CallRequest request{.method = static_cast<uint16_t>(Method::readdir),
                                   .repeatable = true,
                                   .body = rpc::build(buffer, readdir_fields, asked)};
    ROS2S_CO_TRY(co_await channel_.call(call, request, reader));
    if (reader.value.size() > asked.limit) co_return fail(Code::corrupt);
    co_return std::move(reader.value);
}

Task<Result<LinkClient::Entries>> LinkClient::list_behind(const Call& call, ServerHandle at,
                                                          std::string name, size_t limit) {
    std::string before;
    for (uint64_t cookie = 0;;) {
        ROS2S_CO_TRY_ASSIGN(auto entries, co_await list(call, at, cookie, readdir_entries_max));
        if (entries.empty()) co_return entries;
        for (const fs::DirectoryEntry& entry : entries) {
            if (entry.name <= before) co_return fail(Code::stale);
            before = entry.name;
        }
        cookie = entries.back().cookie;
        std::erase_if(entries, [&](const auto& entry) { return entry.name <= name; });
        if (entries.empty()) continue;
        if (entries.size() > limit) entries.resize(limit);
        co_return entries;
    }
}

}  // namespace ros2s::hostlink

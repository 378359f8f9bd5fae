#include "mounts.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/base/check.h"

namespace ros2s::session {
namespace {

// Neither label holds a '/'; a made-up one that does names no container.
std::string key_of(const std::string& pool, const std::string& container) {
    return pool + "/" + container;
}

}  // namespace

void Mount::say_if_foreign(fs::FileHandle handle) const {
    const auto holder = owner_.holders.find(handle);
    if (holder == owner_.holders.end() || holder->second == &owner_.session) return;
    owner_.sessions.foreign(
        owner_.session.request.subject,
        fmt::format(
            "session {} of {} asked for handle {} of {}, which is session {}'s of {}: refused",
            owner_.session.id.value, owner_.session.request.subject, handle.value, key_,
            holder->second->id.value, holder->second->request.subject),
        fields_of(owner_.session));
}

Result<> Mount::refer(fs::NodeId node) {
    if (nodes_.size() >= nodes_max_ && !nodes_.contains(node)) {
        file_system_.forget(node, 1);
        return fail(Code::busy, nodes_max_);
    }
    ++nodes_[node];
    return {};
}

void Mount::forget(fs::NodeId node, uint64_t count) {
    const auto held = nodes_.find(node);
    if (held == nodes_.end()) return;
    const uint64_t dropped = std::min(count, held->second);
    file_system_.forget(node, dropped);
    held->second -= dropped;
    if (held->second == 0) nodes_.erase(held);
}

Mounts::Mounts(Reactor& reactor, SessionTable& sessions, FileSystemSource& source, Options options)
    : reactor_(reactor),
      sessions_(sessions),
      source_(source),
      options_(options),
      last_mount_(reactor.random().next() >> 16),
      changing_(reactor, 1) {
    sessions_.watch(*this);
}

Mounts::~Mounts() {
    sessions_.unwatch(*this);
    ROS2S_CHECK(mounts_.empty() && shared_.empty());
}

Task<Result<MountId>> Mounts::mount(const Call& call, Session& session,
                                    const std::string& container, bool read_only, Report& report) {
    const auto first = mounts_.lower_bound({session.id, MountId{0}});
    size_t count = 0;
    for (auto i = first; i != mounts_.end() && i->first.first == session.id; ++i) ++count;
    if (count >= options_.per_session_max) {
        co_return report.fail(Code::busy, "the session has too many mounts; unmount some first");
    }
    co_await changing_.acquire();
    const SemaphoreHold hold(changing_);
    const std::string key = key_of(session.request.pool, container);
    auto shared = shared_.find(key);
    if (shared == shared_.end()) {
        opening_ = key;
        auto opened = co_await source_.open(call, session.request.pool, container, report);
        opening_.clear();
        if (!opened) co_return fail(opened.error());
        shared = shared_.emplace(key, Shared{.file_system = std::move(*opened)}).first;
    }
    ++shared->second.mounts;
    const MountId id{++last_mount_};
    mounts_.emplace(
        Key{session.id, id},
        std::make_unique<Mount>(reactor_, Mount::Owner{sessions_, session, shared->second.holders},
                                key, *shared->second.file_system, read_only, options_.handles_max,
                                options_.nodes_max));
    holders_[id] = &session;
    co_return id;
}

Result<MountUse> Mounts::find(const Session& session, MountId id) const {
    const auto found = mounts_.find({session.id, id});
    if (found != mounts_.end() && !found->second->ending_) return MountUse(*found->second);
    if (const auto holder = holders_.find(id);
        holder != holders_.end() && holder->second != &session) {
        sessions_.foreign(
            session.request.subject,
            fmt::format("session {} of {} asked for mount {}, which is session {}'s of {}: refused",
                        session.id.value, session.request.subject, id.value,
                        holder->second->id.value, holder->second->request.subject),
            fields_of(session));
    }
    return fail(Code::stale);
}

Task<Result<>> Mounts::unmount(Session& session, MountId id) {
    const auto found = mounts_.find({session.id, id});
    if (found == mounts_.end() || found->second->ending_) co_return fail(Code::stale);
    co_await close(found->first);
    co_return Result<>{};
}

Task<> Mounts::close(Key key) {
    Mount& mount = *mounts_.at(key);
    mount.ending_ = true;
    while (mount.in_use_ > 0) co_await mount.idle_;
    const Call call;
    // A close that fails leaves nothing that could be done about it here.
    for (const fs::FileHandle handle : mount.handles_) {
        mount.owner_.holders.erase(handle);
        (void)co_await mount.file_system_.close(call, handle);
    }
    for (const auto& [node, count] : mount.nodes_) mount.file_system_.forget(node, count);
    const std::string shared_key = mount.key_;
    mounts_.erase(key);
    holders_.erase(key.second);
    co_await release(shared_key);
}

Task<> Mounts::release(std::string key) {
    co_await changing_.acquire();
    const SemaphoreHold hold(changing_);
    Shared& shared = shared_.at(key);
    if (--shared.mounts > 0) co_return;
    co_await shared.file_system->close_all();
    shared_.erase(key);
}

bool Mounts::in_use(const std::string& pool, const std::string& container) const {
    const std::string key = key_of(pool, container);
    return key == opening_ || shared_.contains(key);
}

Task<> Mounts::session_ending(Session& session) {
    for (;;) {
        const auto next = mounts_.lower_bound({session.id, MountId{0}});
        if (next == mounts_.end() || next->first.first != session.id) break;
        co_await close(next->first);
    }
}

}  // namespace ros2s::session

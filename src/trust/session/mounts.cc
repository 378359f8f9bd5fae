#include "mounts.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/access/subtree_view.h"
#include "ros2s/base/check.h"
#include "ros2s/runtime/slices.h"

namespace ros2s::session {
namespace {

// Of work on a core between two turns of others, in nodes or handles: about 10 µs.
constexpr size_t slice_of_items = 64;

}  // namespace

std::string directories_of(const std::vector<access::Subtree>& subtrees) {
    std::string all;
    for (const access::Subtree& each : subtrees) {
        all += fmt::format("{}{}", all.empty() ? "" : ", ", each.path.empty() ? "/" : each.path);
    }
    return all;
}

AuditObject Mount::object(fs::NodeId node) const {
    return {.pool = shared_.pool,
            .container = shared_.container,
            .subtree = owner_.directories,
            .node = node.value};
}

void Mount::say_if_foreign(fs::FileHandle handle) const {
    const auto holder = owner_.holders.find(handle);
    if (holder == owner_.holders.end() || holder->second == &owner_.session) return;
    owner_.sessions.foreign(
        event_of(
            owner_.session, AuditAction::mount, object(), AuditDecision::refused,
            Error{.code = Code::stale},
            fmt::format(
                "session {} of {} requested handle {} of {}, which is session {}'s of {}: refused",
                owner_.session.id.value, owner_.session.request.subject, handle.value,
                shared_.place(), holder->second->id.value, holder->second->request.subject)),
        owner_.session.tenant);
}

Result<fs::Caller> Mount::caller_for(fs::UserClaim& claim) const {
    auto caller = users_.caller_for(claim);
    if (!caller) {
        owner_.sessions.audit().say(event_of(
            owner_.session, AuditAction::mount, object(), AuditDecision::refused, caller.error(),
            fmt::format("{} requested access to {} as user {}, for whom it may not act: refused",
                        subject(), shared_.place(), claim.uid)));
        return fail(caller.error());
    }
    caller->holder = owner_.session.id.value;
    return caller;
}

Result<HandleRoom> Mount::reserve_handle(std::string* why) {
    if (!owner_.handles.check() ||
        (owner_.holds_descriptors && !owner_.descriptors.check(descriptors_per_handle))) {
        return fail(Code::busy, owner_.handles.of_tenant());
    }
    const admission::Account& account = owner_.session.account();
    if (const uint64_t most = account.handles_max(); owner_.handles.of_tenant() >= most) {
        if (why != nullptr) *why = account.at_limit("handles", most);
        return fail(Code::busy, most);
    }
    return HandleRoom(*this);
}

void Mount::add_handle() {
    owner_.session.account().metrics.handles.add();
    owner_.handles.add();
    if (owner_.holds_descriptors) owner_.descriptors.add(descriptors_per_handle);
}

void Mount::subtract_handle() {
    owner_.session.account().metrics.handles.subtract();
    owner_.handles.subtract();
    if (owner_.holds_descriptors) owner_.descriptors.subtract(descriptors_per_handle);
}

void Mount::opened(fs::FileHandle handle, HandleRoom&& room) {
    room.mount_ = nullptr;
    handles_.insert(handle);
    owner_.holders[handle] = &owner_.session;
}

Result<> Mount::closing(fs::FileHandle handle) {
    ROS2S_TRY(check(handle));
    handles_.erase(handle);
    owner_.holders.erase(handle);
    subtract_handle();
    return {};
}

void Mount::refer(fs::NodeId node) {
    Held& held = nodes_[node];
    held.is_recent = true;
    if (++held.count > 1) return;
    owner_.nodes.add();
    // Two, so that the mount shrinks if it has the nodes that others have too many.
    for (int i = 0; i < 2 && is_full_of_nodes(); ++i) forget_one();
}

bool Mount::is_full_of_nodes() const {
    return nodes_.size() > owner_.bounds.nodes_max ||
           (nodes_.size() > owner_.bounds.nodes_sure && owner_.nodes.is_beyond());
}

// If it finds only recent nodes, it takes the last one: a mount may have a million of them.
void Mount::forget_one() {
    auto next = nodes_.upper_bound(hand_);
    for (size_t looked = 1;; ++looked) {
        if (next == nodes_.end()) next = nodes_.begin();
        hand_ = next->first;
        if (!std::exchange(next->second.is_recent, false) || looked == slice_of_items) break;
        ++next;
    }
    forget(next->first, next->second.count);
}

void Mount::forget(fs::NodeId node, uint64_t count) {
    const auto found = nodes_.find(node);
    if (found == nodes_.end()) return;
    const uint64_t dropped = std::min(count, found->second.count);
    file_system_.forget(node, dropped);
    found->second.count -= dropped;
    if (found->second.count > 0) return;
    nodes_.erase(found);
    owner_.nodes.subtract();
}

namespace {

Quota::Bounds bounds_of(uint64_t per_subject, uint64_t MountBounds::Together::* what,
                        const MountBounds& bounds) {
    return {
        .per_subject = per_subject, .per_tenant = bounds.tenant.*what, .in_all = bounds.all.*what};
}

}  // namespace

MountQuotas::MountQuotas(const MountBounds& bounds)
    : mounts(bounds_of(bounds.per_session_max, &MountBounds::Together::mounts_max, bounds)),
      handles(bounds_of(bounds.handles_max, &MountBounds::Together::handles_max, bounds)),
      nodes(bounds_of(UINT64_MAX, &MountBounds::Together::nodes_max, bounds)),
      descriptors(bounds_of(UINT64_MAX, &MountBounds::Together::descriptors_max, bounds)),
      lending(bounds_of(UINT64_MAX, &MountBounds::Together::lending_max, bounds)) {}

Mounts::Mounts(Reactor& reactor, SessionTable& sessions, FileSystemSource& source, Options options)
    : reactor_(reactor), sessions_(sessions), source_(source), options_(options), quotas_(options) {
    sessions_.watch(*this);
}

Mounts::~Mounts() {
    sessions_.unwatch(*this);
    ROS2S_CHECK(mounts_.empty() && shared_.empty());
}

Result<Quota::Share> Mounts::reserve_mount(const Session& session, Report& report) {
    auto share = quotas_.mounts.take({.tenant = session.tenant, .subject = session.id.value});
    if (share) return std::move(*share);
    switch (share.error()) {
        case Quota::Limit::subject:
            return report.fail(Code::busy, "the session has too many mounts; unmount some");
        case Quota::Limit::tenant:
            return report.fail(Code::busy, "{} has too many mounts; unmount some",
                               session.request.subject);
        case Quota::Limit::all: break;
    }
    return report.fail(Code::busy, "the server has too many mounts; try again later");
}

Task<Result<>> Mounts::enter(const Call& call, MountedContainer which, Report& report) {
    Shared& shared = shared_.try_emplace(which, reactor_).first->second;
    ++shared.users;
    Result<> entered = co_await shared.turn.acquire_for(call);
    if (!entered) {
        --shared.users;  // not the last one, which holds the turn
        co_return report.fail(
            entered.error(),
            "container '{}' is still being opened or closed for other clients; try again later",
            which.container);
    }
    {
        const SemaphoreHold hold(shared.turn);
        if (shared.file_system == nullptr) {
            entered = call.check(reactor_);  // waiting for the turn may have taken long
            if (entered) {
                auto opened = co_await source_.open(call, which, report);
                if (opened) {
                    shared.file_system = std::move(*opened);
                } else {
                    entered = fail(opened.error());
                }
            }
        }
    }
    if (!entered) co_await leave(which);
    co_return entered;
}

Task<> Mounts::leave(MountedContainer which) {
    Shared& shared = shared_.at(which);
    co_await shared.turn.acquire();
    {
        const SemaphoreHold hold(shared.turn);
        if (shared.users == 1 && shared.file_system != nullptr) {
            co_await shared.file_system->close_all();
            shared.file_system.reset();
        }
    }
    if (--shared.users == 0) shared_.erase(which);
}

// As for sessions: a client's own number reveals nothing about others.
MountId Mounts::draw() const {
    for (;;) {
        const MountId id{reactor_.secrets().next() >> 16};
        if (id.value != 0 && !holders_.contains(id)) return id;
    }
}

Task<Result<MountId>> Mounts::mount(const Call& call, Session& session,
                                    const std::string& container, MountScope scope,
                                    Report& report) {
    ROS2S_CO_TRY_ASSIGN(Quota::Share mount_share, reserve_mount(session, report));
    const std::string& pool = session.request.pool;
    const MountId id = draw();
    const Quota::Who who{.tenant = session.tenant, .subject = id.value};
    const bool may_lend = scope.may_have_leases() && source_.lends(pool, container);
    auto lending = quotas_.lending.take(who, may_lend ? 1 : 0);
    const bool lends = may_lend && lending;
    if (may_lend && !lending) answers_.counters.refused.add();
    if (!scope.exclusive_as.empty() && scope.read_only) {
        co_return report.fail(
            Code::denied,
            "{}/{} cannot be mounted with `exclusive` by a mount that only reads: leave that out",
            pool, container);
    }
    if (!scope.exclusive_as.empty() && !lends) {
        co_return report.fail(may_lend ? Code::busy : Code::unsupported,
                              "{}/{} cannot be mounted with `exclusive`: {}. Leave that out", pool,
                              container,
                              may_lend ? "the DPU has too many mounts of their own"
                                       : "the mount has directories only, or other users than the "
                                         "container, or the storage has no locks");
    }
    const MountedContainer which{pool,
                                 container,
                                 source_.authority_for(session, scope.read_only),
                                 lends ? id : MountId{},
                                 lends && !scope.durable,
                                 std::move(scope.exclusive_as)};
    ROS2S_CO_TRY(co_await enter(call, which, report));
    std::unique_ptr<fs::FileSystem> view;
    std::string directories = directories_of(scope.subtrees);
    if (!scope.subtrees.empty()) {
        auto opened =
            co_await access::SubtreeView::open(call, reactor_, *shared_.at(which).file_system,
                                               std::move(scope.subtrees), which.place(), report);
        if (!opened) {
            co_await leave(which);
            co_return fail(opened.error());
        }
        view = std::move(*opened);
    }
    Shared& shared = shared_.at(which);
    std::unique_ptr<MountLeases> leases;
    if (fs::LeaseSet* const held = shared.file_system->leases(); lends && held != nullptr) {
        leases = std::make_unique<MountLeases>(reactor_, *held, answers_, session.tenant);
    }
    Mount::Owner owner{
        .sessions = sessions_,
        .session = session,
        .holders = shared.holders,
        .bounds = options_,
        .mount = std::move(mount_share),
        .handles = quotas_.handles.count(who, 0),
        .nodes = quotas_.nodes.count(who, 0),
        .descriptors = quotas_.descriptors.count(who, 0),
        .lending = lends ? std::move(*lending) : Quota::Share(),
        .holds_descriptors = source_.holds_descriptors(pool, container),
        .directories = std::move(directories),
    };
    mounts_.emplace(Key{session.id, id},
                    std::make_unique<Mount>(reactor_, std::move(owner), which, *shared.file_system,
                                            std::move(view), scope.read_only,
                                            std::move(scope.users), std::move(leases)));
    holders_[id] = &session;
    MountLeases* const of_mount = mounts_.at({session.id, id})->leases();
    if (of_mount != nullptr) {
        of_mount->on_silence = [this, id, &session](Duration waited) {
            const auto found = mounts_.find({session.id, id});
            if (silent_ && found != mounts_.end()) silent_(lender_of(*found->second, id), waited);
        };
    }
    co_return id;
}

std::optional<MountUse> Mounts::try_find(const Session& session, MountId id) const {
    const auto found = mounts_.find({session.id, id});
    if (found == mounts_.end() || found->second->ending_) return std::nullopt;
    return MountUse(*found->second);
}

Result<MountUse> Mounts::find(const Session& session, MountId id) const {
    if (auto found = try_find(session, id)) return std::move(*found);
    if (const auto holder = holders_.find(id);
        holder != holders_.end() && holder->second != &session) {
        sessions_.foreign(
            event_of(
                session, AuditAction::mount, {.pool = session.request.pool}, AuditDecision::refused,
                Error{.code = Code::stale},
                fmt::format(
                    "session {} of {} requested mount {}, which is session {}'s of {}: refused",
                    session.id.value, session.request.subject, id.value, holder->second->id.value,
                    holder->second->request.subject)),
            session.tenant);
    }
    return fail(Code::stale);
}

const Mount* Mounts::look(const Session& session, MountId id) const {
    const auto found = mounts_.find({session.id, id});
    return found == mounts_.end() ? nullptr : found->second.get();
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
    if (mount.leases_ != nullptr) co_await mount.leases_->end();
    while (mount.in_use_ > 0) co_await mount.idle_;
    // Stopped: a file that the host has not finished must not appear as a whole one.
    StopSource gone;
    gone.request_stop();
    const Call call{.stop = gone.token(), .tenant = mount.owner_.session.tenant};
    // Nobody else finds the mount any more.
    SliceCount slices(reactor_);
    while (!mount.handles_.empty()) {
        co_await slices.add(slice_bytes / slice_of_items);
        const fs::FileHandle handle = *mount.handles_.begin();
        (void)mount.closing(handle);
        // If a close fails, nothing can be done about it here.
        (void)co_await mount.file_system_.close(call, handle);
    }
    while (!mount.nodes_.empty()) {
        co_await slices.add(slice_bytes / slice_of_items);
        const auto& [node, held] = *mount.nodes_.begin();
        mount.forget(node, held.count);
    }
    const MountedContainer which = mount.shared_;
    mounts_.erase(key);
    holders_.erase(key.second);
    co_await leave(which);
}

bool Mounts::in_use(const std::string& pool, const std::string& container) const {
    const auto next = shared_.lower_bound({pool, container});
    return next != shared_.end() && next->first.pool == pool && next->first.container == container;
}

Mounts::Lender Mounts::lender_of(const Mount& mount, MountId id) {
    return {.session = mount.owner_.session,
            .id = id,
            .pool = mount.shared_.pool,
            .container = mount.shared_.container,
            .leases = *mount.leases_};
}

std::vector<Mounts::Lender> Mounts::lenders() const {
    std::vector<Lender> all;
    for (const auto& [key, mount] : mounts_) {
        if (mount->is_lending()) all.push_back(lender_of(*mount, key.second));
    }
    return all;
}

bool Mounts::evict(MountId id) {
    const auto holder = holders_.find(id);
    if (holder == holders_.end()) return false;
    Mount& mount = *mounts_.at({holder->second->id, id});
    if (!mount.is_lending()) return false;
    mount.leases_->evict();
    return true;
}

void Mounts::visit_metrics(const MetricVisitor& visit) const {
    uint64_t holders = 0, nodes = 0;
    for (const Lender& each : lenders()) {
        ++holders;
        nodes += each.leases.nodes();
    }
    visit("ros2store_dpu_leases", "Nodes that hosts may keep in their caches, at most.", nodes);
    visit("ros2store_dpu_lease_holders", "Mounts of hosts that listen for recalls of leases.",
          holders);
    const object::LeaseCounters& counters = answers_.counters;
    visit("ros2store_dpu_lease_recalls_total", "Leases that were asked back from hosts.",
          counters.recalls.value());
    visit("ros2store_dpu_lease_expired_total", "Recalls that a host did not answer in time.",
          counters.expired.value());
    visit("ros2store_dpu_lease_refused_total", "Mounts without leases because of a bound.",
          counters.refused.value());
    visit("ros2store_dpu_lease_cuts_total", "Times that a tenant's hosts answered too late.",
          counters.cuts.value());
    visit("ros2store_dpu_lease_evictions_total", "Mounts whose leases an operator ended.",
          counters.evictions.value());
}

void Mounts::visit_times(const HistogramVisitor& visit) const {
    visit("ros2store_lease_answer_duration_seconds",
          "Time that updates waited for the answer to a recall.", {}, answers_.times.read());
}

std::vector<std::string> Mounts::containers_of(SessionId session) const {
    std::vector<std::string> containers;
    for (auto each = mounts_.lower_bound({session, MountId{0}});
         each != mounts_.end() && each->first.first == session; ++each) {
        containers.emplace_back(each->second->object().container);
    }
    return containers;
}

std::vector<MountId> Mounts::all_of(SessionId session) const {
    std::vector<MountId> all;
    for (auto each = mounts_.lower_bound({session, MountId{0}});
         each != mounts_.end() && each->first.first == session; ++each) {
        all.push_back(each->first.second);
    }
    return all;
}

Task<> Mounts::session_ending(Session& session) {
    for (;;) {
        const auto next = mounts_.lower_bound({session.id, MountId{0}});
        if (next == mounts_.end() || next->first.first != session.id) break;
        co_await close(next->first);
    }
}

}  // namespace ros2s::session

#include "locks.h"

#include <algorithm>
#include <cerrno>

#include "ros2s/base/quota.h"
#include "sharing_rules.h"

namespace ros2s::object {
namespace {

bool overlap(const Lock& a, const Lock& b) { return a.first <= b.last && b.first <= a.last; }

bool touch(const Lock& a, const Lock& b) {
    return (a.last != UINT64_MAX && a.last + 1 == b.first) ||
           (b.last != UINT64_MAX && b.last + 1 == a.first);
}

}  // namespace

bool exclude_each_other(const Lock& a, const Lock& b) {
    const bool is_one_exclusive = a.mode == LockMode::exclusive || b.mode == LockMode::exclusive;
    return a.space == b.space && is_one_exclusive && a.mode != LockMode::none &&
           b.mode != LockMode::none && overlap(a, b);
}

void set_range(std::vector<Lock>& locks, const Lock& lock) {
    Lock joined = lock;
    std::vector<Lock> parts;
    std::erase_if(locks, [&](const Lock& old) {
        if (old.mode == lock.mode && (overlap(old, lock) || touch(old, lock))) {
            joined.first = std::min(joined.first, old.first);
            joined.last = std::max(joined.last, old.last);
            return true;
        }
        if (!overlap(old, lock)) return false;
        if (old.first < lock.first) parts.emplace_back(old).last = lock.first - 1;
        if (old.last > lock.last) parts.emplace_back(old).first = lock.last + 1;
        return true;
    });
    locks.insert(locks.end(), parts.begin(), parts.end());
    if (lock.mode != LockMode::none) locks.push_back(joined);
}

bool is_upgrade(const std::vector<Lock>& own, const Lock& lock) {
    return lock.space == LockSpace::flock && lock.mode == LockMode::exclusive && !own.empty() &&
           own.front().mode == LockMode::shared;
}

std::vector<Lock> steps_back(const std::vector<Lock>& own, const Lock& unknown) {
    std::vector<Lock> steps{unknown};
    steps.front().mode = LockMode::exclusive;
    for (Lock each : own) {
        each.mode = LockMode::none;
        set_range(steps, each);
    }
    for (Lock& step : steps) step.mode = LockMode::none;
    for (const Lock& each : own) {
        if (overlap(each, unknown)) steps.push_back(each);
    }
    return steps;
}

std::optional<Lock> LockTable::conflict(const Locks& locks, const HolderName& holder,
                                        const Lock& wanted) const {
    std::optional<Lock> first;
    for (const Held& held : locks) {
        if (held.is_of(holder, wanted) || !exclude_each_other(held.lock, wanted)) continue;
        if (has_ended(held) || (first && first->first <= held.lock.first)) continue;
        first = held.lock;
        // A process id means nothing elsewhere.
        if (held.holder != holder) first->mount = first->owner = first->pid = 0;
    }
    return first;
}

Result<> LockTable::check_room(const Locks& locks, const Holder& holder, size_t more) const {
    if (locks.size() + more > object_locks_max) return fail(Code::no_memory, object_locks_max);
    if (count_ + more > locks_max) return fail(Code::no_memory, locks_max);
    if (holder.session == 0) return {};
    const auto own = std::ranges::count_if(
        locks, [&](const Held& held) { return held.holder.owner == holder.owner; });
    if (exceeds_fair_share(static_cast<uint64_t>(own), locks.size() + more - 1, object_locks_max)) {
        return fail(Code::no_memory, static_cast<uint64_t>(own));
    }
    const auto session = sessions_.find(holder.session);
    if (session != sessions_.end() && session->second.locks + more > session_locks_max) {
        return fail(Code::no_memory, session_locks_max);
    }
    const auto owner = owners_.find(holder.owner);
    if (owner != owners_.end() && exceeds_fair_share(owner->second, count_, locks_max)) {
        return fail(Code::no_memory, owner->second);
    }
    return {};
}

Result<> LockTable::check(const LockRequest& request) {
    const Lock& lock = request.lock;
    if (lock.first > lock.last) return fail(Code::invalid);
    // The nil object stands for the container.
    if (lock.space != LockSpace::container && request.object != ObjectId{}) return {};
    if (lock.space != LockSpace::container) return fail(Code::invalid);
    const bool is_whole = lock.first == 0 && lock.last == UINT64_MAX;
    const bool is_one = request.object == ObjectId{} && lock.mode != LockMode::shared;
    return is_whole && is_one ? Result<>() : fail(Code::invalid);
}

bool LockTable::is_exclusive(const HolderName& holder) const {
    const auto found = objects_.find({holder.container, ObjectId{}});
    return found != objects_.end() && std::ranges::any_of(found->second, [&](const Held& held) {
               return held.lock.space == LockSpace::container && held.holder == holder &&
                      !has_ended(held);
           });
}

Result<> LockTable::admit(ContainerId container, const Uuid& client, Time now) {
    if (!has_container()) return {};
    ROS2S_TRY(pins_.admit(container, client, now));
    const Key key{container, ObjectId{}};
    const auto found = objects_.find(key);
    if (found == objects_.end()) return {};
    const auto excludes = [&](const Held& held) {
        return held.lock.space == LockSpace::container && held.holder.client != client;
    };
    const bool is_taken = std::ranges::any_of(
        found->second, [&](const Held& held) { return excludes(held) && !has_ended(held); });
    if (is_taken) return fail(Code::busy);
    drop_ended_of(key, excludes);
    return {};
}

Result<> LockTable::pin_container(ContainerId container, const Holder& holder, const Lock& lock) {
    if (lock.space != LockSpace::container || lock.mode == LockMode::none) return {};
    pins_.forget_exclusive(container);
    const auto pinned = pins_.add(container, ObjectId{}, holder);
    if (!pinned) replace({container, ObjectId{}}, holder, lock, {});
    return pinned;
}

Result<std::optional<Lock>> LockTable::lock(ContainerId container, const Holder& holder,
                                            const LockRequest& request, Time now) {
    ROS2S_TRY(check(request));
    const bool is_of_container = request.lock.space == LockSpace::container;
    drop_ended(now);
    end_old_waits(now);
    const Key key{container, request.object};
    const HolderName name = name_of(container, holder);
    const WaitKey wait{{name, request.lock.mount, request.lock.owner}, key};
    const bool is_range = request.lock.space == LockSpace::range;
    if (is_range && !request.waits) end_wait(wait);
    const auto found = objects_.find(key);
    static const Locks none;
    const Locks& locks = found == objects_.end() ? none : found->second;
    if (request.how == LockRequest::How::claim) {
        const bool has = std::ranges::any_of(locks, [&](const Held& held) {
            return held.is_of(name, request.lock) && !is_over(held, now) &&
                   held.lock.mode == request.lock.mode && held.lock.first <= request.lock.first &&
                   request.lock.last <= held.lock.last;
        });
        if (has) {
            move(key, name, holder.session, now);
            ROS2S_TRY(pin_container(container, holder, request.lock));
            return std::nullopt;
        }
        const bool may_claim = is_of_container ? pins_.may_claim_exclusive(container, holder, now)
                                               : pins_.may_claim(container, holder, now);
        if (!may_claim && sharing_rules.refuse_late_claims) return fail(Code::stale);
    } else if (request.lock.mode != LockMode::none && sharing_rules.await_claims &&
               pins_.awaits_claims(container, holder, now)) {
        counters_.held_off.add();
        return fail(Code::busy);
    }
    std::vector<Lock> own;
    for (const Held& held : locks) {
        if (held.is_of(name, request.lock) && !is_over(held, now)) own.push_back(held.lock);
    }
    if (auto other = conflict(locks, name, request.lock)) {
        // Two that share the lock and both want it alone would wait for each other for ever.
        if (request.how != LockRequest::How::test) counters_.refused.add();
        const bool ends = request.how == LockRequest::How::set && is_upgrade(own, request.lock);
        if (ends) replace(key, holder, request.lock, {});
        if (is_range && request.waits) ROS2S_TRY(note_wait(wait, request.lock, now));
        return other;
    }
    if (is_range) end_wait(wait);
    if (request.how == LockRequest::How::test) return std::nullopt;
    const bool is_new = request.how == LockRequest::How::set && own.empty();
    if (is_of_container && is_new && request.lock.mode != LockMode::none &&
        pins_.has_another(container, holder)) {
        return Lock{.space = LockSpace::container, .mode = LockMode::shared};
    }
    if (request.lock.mode == LockMode::none && found == objects_.end()) return std::nullopt;
    const size_t had = own.size();
    set_range(own, request.lock);
    if (own.size() > had) {
        if (!check_room(locks, holder, own.size() - had)) {
            drop_ended_of(key, [&](const Held& held) { return held.holder != name; });
        }
        if (const auto room = check_room(locks, holder, own.size() - had); !room) {
            counters_.bounded.add();
            if (locks.empty()) objects_.erase(key);
            return fail(room.error());
        }
    }
    drop_ended_of(key, [&](const Held& held) {
        return !held.is_of(name, request.lock) && exclude_each_other(held.lock, request.lock) &&
               sharing_rules.forget_overtaken;
    });
    replace(key, holder, request.lock, own);
    ROS2S_TRY(pin_container(container, holder, request.lock));
    return std::nullopt;
}

// ---- processes that wait --------------------------------------------------------------------

void LockTable::end_wait(const WaitKey& wait) {
    const auto found = waits_.find(wait);
    if (found == waits_.end()) return;
    waits_until_.erase({found->second.until, wait});
    waits_.erase(found);
    const auto owner = waiting_owners_.find(wait.first.holder.owner);
    if (--owner->second == 0) waiting_owners_.erase(owner);
}

void LockTable::end_old_waits(Time now) {
    while (!waits_until_.empty() && waits_until_.begin()->first <= now) {
        end_wait(WaitKey(waits_until_.begin()->second));
    }
}

Result<> LockTable::note_wait(const WaitKey& wait, const Lock& lock, Time now) {
    end_wait(wait);
    if (waits_for_itself(wait, lock)) return fail_errno(EDEADLK);
    const Uuid& owner = wait.first.holder.owner;
    const auto own = waiting_owners_.find(owner);
    const size_t has = own == waiting_owners_.end() ? 0 : own->second;
    if (exceeds_fair_share(has, waits_.size(), waits_max)) return {};
    const Time until = now + lock_waits_for;
    waits_.emplace(wait, Waiting{.lock = lock, .until = until});
    waits_until_.emplace(until, wait);
    ++waiting_owners_[owner];
    return {};
}

// All that have a lock in the way must unlock. Each of them may wait for several.
bool LockTable::waits_for_itself(const WaitKey& wait, const Lock& lock) {
    const Waiter& self = wait.first;
    size_t looks = 0;
    std::set<Waiter> seen{self};
    std::vector<std::pair<WaitKey, Lock>> left{{wait, lock}};
    for (size_t step = 0; step < 2 * cycle_max && !left.empty(); ++step) {
        const auto [waiting, wanted] = left.back();
        left.pop_back();
        const auto object = objects_.find(waiting.second);
        if (object == objects_.end()) continue;
        for (const Held& held : object->second) {
            if (++looks > cycle_locks_max) return false;
            ++cycle_locks_;
            const Waiter other{held.holder, held.lock.mount, held.lock.owner};
            if (other == waiting.first || has_ended(held)) continue;
            if (!exclude_each_other(held.lock, wanted)) continue;
            if (other == self) return true;
            if (!seen.insert(other).second) continue;
            for (auto next = waits_.lower_bound({other, {}});
                 next != waits_.end() && next->first.first == other && left.size() < 2 * cycle_max;
                 ++next) {
                left.emplace_back(next->first, next->second.lock);
            }
        }
    }
    return false;
}

template <class Match>
void LockTable::drop_ended_of(const Key& key, Match match) {
    const auto found = objects_.find(key);
    if (found == objects_.end()) return;
    const auto dropped = std::ranges::partition(
        found->second, [&](const Held& held) { return !has_ended(held) || !match(held); });
    const Locks ended(dropped.begin(), dropped.end());
    found->second.erase(dropped.begin(), dropped.end());
    for (const Held& held : ended) discount(held, key, 1);
}

void LockTable::move(const Key& key, const HolderName& holder, uint64_t session, Time now) {
    for (Held& held : objects_.at(key)) {
        if (held.holder != holder || held.session == session || is_over(held, now)) continue;
        const Held before = held;
        held.session = session;
        count(held, key, 1);
        discount(before, key, 1);
    }
}

void LockTable::replace(const Key& key, const Holder& holder, const Lock& owned_as,
                        const std::vector<Lock>& own) {
    const HolderName name = name_of(key.first, holder);
    Locks& locks = objects_[key];
    // Nearly always one session.
    std::map<uint64_t, std::pair<Held, size_t>> removed;
    std::erase_if(locks, [&](const Held& held) {
        if (!held.is_of(name, owned_as)) return false;
        ++removed.try_emplace(held.session, held, 0).first->second.second;
        return true;
    });
    for (const Lock& each : own) locks.push_back({each, name, holder.session});
    if (!own.empty()) count(locks.back(), key, own.size());
    for (const auto& [session, each] : removed) discount(each.first, key, each.second);
    if (locks.empty()) objects_.erase(key);
}

void LockTable::count(const Held& held, const Key& key, size_t locks) {
    Session& session = sessions_[held.session];
    session.owner = held.holder.owner;
    session.objects[key] += locks;
    session.locks += locks;
    owners_[held.holder.owner] += locks;
    count_ += locks;
    if (held.lock.space == LockSpace::container) containers_.add(locks);
}

void LockTable::discount(const Held& held, const Key& key, size_t locks) {
    const auto session = sessions_.find(held.session);
    const auto object = session->second.objects.find(key);
    object->second -= locks;
    if (object->second == 0) session->second.objects.erase(object);
    session->second.locks -= locks;
    if (session->second.locks == 0) {
        ended_.erase({session->second.until, session->first});
        sessions_.erase(session);
    }
    const auto owner = owners_.find(held.holder.owner);
    owner->second -= locks;
    if (owner->second == 0) owners_.erase(owner);
    count_ -= locks;
    if (held.lock.space != LockSpace::container) return;
    containers_.subtract(locks);
    (void)pins_.remove(key.first, ObjectId{},
                       {held.holder.client, held.session, held.holder.owner});
}

void LockTable::session_ended(uint64_t ended, Time now, Time until) {
    drop_ended(now);
    const auto session = sessions_.find(ended);
    if (session == sessions_.end() || session->second.until != Time::max()) return;
    if (!sharing_rules.end_with_session) return;
    session->second.until = until;
    ended_.emplace(until, ended);
    drop_ended(now);
}

void LockTable::drop_ended(Time now) {
    size_t dropped = 0;
    while (dropped < slice_of_locks && !ended_.empty() && ended_.begin()->first <= now) {
        dropped += drop_one(ended_.begin()->second);
    }
}

size_t LockTable::drop_one(uint64_t session) {
    const Key key = sessions_.at(session).objects.begin()->first;
    const auto found = objects_.find(key);
    Locks& locks = found->second;
    const auto gone =
        std::ranges::partition(locks, [&](const Held& held) { return held.session != session; });
    const Locks dropped(gone.begin(), gone.end());
    locks.erase(gone.begin(), gone.end());
    if (locks.empty()) objects_.erase(found);
    for (const Held& each : dropped) discount(each, key, 1);
    return dropped.size();
}

}  // namespace ros2s::object

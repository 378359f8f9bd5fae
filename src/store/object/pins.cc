#include "pins.h"

#include <algorithm>
#include <utility>

#include "ros2s/base/check.h"

namespace ros2s::object {
namespace {

bool is_another_in(const std::set<HolderName>& holders, const HolderName& than) {
    return holders.size() > holders.count(than);
}

}  // namespace

uint64_t PinTable::limit_met(const Holder& holder, size_t more) const {
    if (count_ + more > pins_max) return pins_max;
    if (holder.session == 0) return 0;
    const auto session = sessions_.find(holder.session);
    const size_t pins = session == sessions_.end() ? 0 : session->second.pins.size();
    if (pins + more > session_pins_max) return session_pins_max;
    const auto owner = owners_.find(holder.owner);
    const size_t owned = owner == owners_.end() ? 0 : owner->second;
    const size_t others = count_ - owned;
    const size_t owner_pins_max = (pins_max - others) / 2;
    return owned + more > owner_pins_max ? owner_pins_max : 0;
}

bool PinTable::has(ContainerId container, ObjectId object, const Holder& holder) const {
    const auto found = objects_.find({container, object});
    return found != objects_.end() && found->second.holders.contains(holder);
}

Result<> PinTable::add(ContainerId container, ObjectId object, const Holder& holder) {
    drop_some();
    const Key key{container, object};
    if (has(container, object, holder)) return {};
    if (const uint64_t limit = limit_met(holder, 1)) return fail(Code::no_memory, limit);
    objects_[key].holders.insert(holder);
    Session& session = sessions_[holder.session];
    session.owner = holder.owner;
    session.pins.emplace(key, holder.client);
    ++owners_[holder.owner];
    ++holders_[name_of(container, holder)];
    ++count_;
    return {};
}

bool PinTable::drop(const Key& key, const Holder& holder) {
    const auto found = objects_.find(key);
    if (found == objects_.end() || found->second.holders.erase(holder) == 0) return false;
    --count_;
    const auto owner = owners_.find(holder.owner);
    if (--owner->second == 0) owners_.erase(owner);
    const auto name = holders_.find(name_of(key.first, holder));
    if (--name->second == 0) holders_.erase(name);
    if (!found->second.holders.empty()) return false;
    const bool is_wanted = found->second.is_wanted;
    objects_.erase(found);
    return is_wanted;
}

bool PinTable::remove(ContainerId container, ObjectId object, const Holder& holder) {
    const Key key{container, object};
    if (const auto session = sessions_.find(holder.session); session != sessions_.end()) {
        session->second.pins.erase({key, holder.client});
        if (session->second.pins.empty()) {
            ended_.erase({session->second.until, session->first});
            sessions_.erase(session);
        }
    }
    return drop(key, holder);
}

// Asks once for each session: clients name themselves, so one may hold the object very many times.
bool PinTable::is_free(const Object& object, const Holder& holder, Time now) const {
    auto each = object.holders.begin();
    while (each != object.holders.end()) {
        const uint64_t session = each->session;
        if (*each == holder) {
            ++each;
        } else if (sessions_.at(session).until > now) {
            return false;
        } else if (session == UINT64_MAX) {
            return true;
        } else {
            each = object.holders.lower_bound({{}, session + 1, {}});
        }
    }
    return true;
}

void PinTable::await(std::span<const HolderName> holders, std::span<const HolderName> ended,
                     Time until) {
    awaited_until_ = until;
    for (const HolderName& holder : holders) {
        awaited_[holder.container].holders.insert(holder);
    }
    for (const HolderName& holder : ended) awaited_[holder.container].ended.insert(holder);
}

void PinTable::await_exclusive(std::span<const HolderName> holders, Time until) {
    exclusive_until_ = until;
    for (const HolderName& holder : holders) {
        Awaited& awaited = awaited_[holder.container];
        if (awaited.ended.contains(holder) || awaited.exclusive) continue;
        awaited.exclusive = holder;
        exclusive_.add();
    }
}

void PinTable::forget_exclusive(ContainerId container) {
    const auto found = awaited_.find(container);
    if (found == awaited_.end() || !std::exchange(found->second.exclusive, std::nullopt)) return;
    exclusive_.subtract();
}

Result<> PinTable::admit(ContainerId container, const Uuid& client, Time now) {
    const auto found = awaits_exclusive() ? awaited_.find(container) : awaited_.end();
    if (found == awaited_.end()) return {};
    auto& exclusive = found->second.exclusive;
    if (!exclusive || exclusive->client == client) return {};
    constexpr uint64_t for_a_moment = 1;
    if (now < exclusive_until_) return fail(Code::busy, for_a_moment);
    forget_exclusive(container);
    return {};
}

bool PinTable::may_claim_exclusive(ContainerId container, const Holder& holder, Time now) const {
    const auto found = awaited_.find(container);
    return found != awaited_.end() && found->second.exclusive == name_of(container, holder) &&
           may_claim(container, holder, now);
}

bool PinTable::pinned_again(ContainerId container, const Holder& holder) {
    const auto found = awaited_.find(container);
    if (found == awaited_.end()) return false;
    auto returned = found->second.holders.extract(name_of(container, holder));
    if (returned.empty()) return false;
    found->second.returned.insert(std::move(returned));
    return found->second.is_wanted;
}

bool PinTable::may_claim(ContainerId container, const Holder& holder, Time now) const {
    if (now >= claims_until_) return false;
    if (now < all_until_) return true;
    const auto found = awaited_.find(container);
    if (now >= awaited_until_ || found == awaited_.end()) return false;
    const HolderName name = name_of(container, holder);
    return found->second.holders.contains(name) && !found->second.ended.contains(name);
}

bool PinTable::awaits_another(ContainerId container, const Holder& holder, Time now) const {
    if (now < all_until_) return true;
    const auto found = awaited_.find(container);
    if (now >= awaited_until_ || found == awaited_.end()) return false;
    return is_another_in(found->second.holders, name_of(container, holder));
}

bool PinTable::awaited_another(ContainerId container, const Holder& holder, Time now) const {
    if (now < all_until_) return true;
    const auto found = awaited_.find(container);
    if (found == awaited_.end()) return false;
    const HolderName name = name_of(container, holder);
    return is_another_in(found->second.holders, name) ||
           is_another_in(found->second.returned, name);
}

bool PinTable::has_another(ContainerId container, const Holder& holder) {
    drop_some();
    const HolderName mine = name_of(container, holder);
    for (auto each = holders_.lower_bound({.container = container, .owner = {}, .client = {}});
         each != holders_.end() && each->first.container == container; ++each) {
        if (each->first != mine) return true;
    }
    return false;
}

bool PinTable::spares_for_another(ContainerId container, const Holder& holder, Time now) {
    if (now >= awaited_until_) {
        awaited_.clear();
        exclusive_.set(0);
    }
    if (!awaits_another(container, holder, now)) return false;
    if (const auto found = awaited_.find(container); found != awaited_.end()) {
        found->second.is_wanted = true;
    }
    return true;
}

Result<> PinTable::judge(ContainerId container, const Transaction& transaction, Time now) {
    now_ = std::max(now_, now);
    drop_some();
    size_t taken = 0;
    for (size_t i = 0; i < transaction.conditions.size(); ++i) {
        const Condition& condition = transaction.conditions[i];
        if (!condition.is_about_holders() || condition.kind == Condition::Kind::lease) continue;
        if (condition.kind == Condition::Kind::pin) {
            ++taken;
            continue;
        }
        const auto found = objects_.find({container, condition.object});
        if (condition.kind == Condition::Kind::pinned) {
            const bool holds = has(container, condition.object, transaction.holder) &&
                               sessions_.at(transaction.holder.session).until > now;
            if (!holds) return fail(Code::condition_failed, i);
        } else if (found != objects_.end() && !is_free(found->second, transaction.holder, now)) {
            found->second.is_wanted = true;
            return fail(Code::condition_failed, i);
        } else if (spares_for_another(container, transaction.holder, now)) {
            return fail(Code::condition_failed, i);
        }
    }
    if (taken == 0) return {};
    const uint64_t limit = limit_met(transaction.holder, taken);
    return limit == 0 ? Result<>() : fail(Code::no_memory, limit);
}

void PinTable::take(ContainerId container, const Transaction& transaction) {
    for (const Condition& condition : transaction.conditions) {
        if (condition.kind != Condition::Kind::pin) continue;
        ROS2S_CHECK(add(container, condition.object, transaction.holder));
    }
}

void PinTable::session_ended(uint64_t ended, Time now, Time until) {
    now_ = std::max(now_, now);
    if (const auto found = sessions_.find(ended); found != sessions_.end()) {
        ended_.erase({found->second.until, ended});
        ended_.emplace(until, ended);
        found->second.until = until;
    }
    drop_some();
}

void PinTable::drop_some() {
    size_t left = slice_of_pins;
    while (left > 0 && !ended_.empty() && ended_.begin()->first <= now_) {
        const auto over = sessions_.find(ended_.begin()->second);
        Session& session = over->second;
        for (; left > 0 && !session.pins.empty(); --left) {
            const auto [key, client] = *session.pins.begin();
            session.pins.erase(session.pins.begin());
            drop(key, {client, over->first, session.owner});
        }
        if (!session.pins.empty()) return;
        ended_.erase(ended_.begin());
        sessions_.erase(over);
    }
}

}  // namespace ros2s::object

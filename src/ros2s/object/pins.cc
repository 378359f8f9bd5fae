#include "pins.h"

#include <algorithm>

#include "ros2s/base/check.h"

namespace ros2s::object {
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

Result<> PinTable::add(ContainerId container, ObjectId object, const Holder& holder) {
    const Key key{container, object};
    const auto found = objects_.find(key);
    if (found != objects_.end() && found->second.holders.contains(holder)) return {};
    if (const uint64_t limit = limit_met(holder, 1)) return fail(Code::no_memory, limit);
    objects_[key].holders.insert(holder);
    Session& session = sessions_[holder.session];
    session.owner = holder.owner;
    session.pins.emplace(key, holder.client);
    ++owners_[holder.owner];
    ++count_;
    return {};
}

bool PinTable::drop(const Key& key, const Holder& holder) {
    const auto found = objects_.find(key);
    if (found == objects_.end() || found->second.holders.erase(holder) == 0) return false;
    --count_;
    const auto owner = owners_.find(holder.owner);
    if (--owner->second == 0) owners_.erase(owner);
    if (!found->second.holders.empty()) return false;
    const bool is_wanted = found->second.is_wanted;
    objects_.erase(found);
    return is_wanted;
}

bool PinTable::remove(ContainerId container, ObjectId object, const Holder& holder) {
    const Key key{container, object};
    if (const auto session = sessions_.find(holder.session); session != sessions_.end()) {
        session->second.pins.erase({key, holder.client});
        if (session->second.pins.empty()) sessions_.erase(session);
    }
    return drop(key, holder);
}

bool PinTable::is_free(Object& object, const Holder& holder, Time now) {
    return std::ranges::none_of(object.holders, [&](const Holder& other) {
        return other != holder && sessions_.at(other.session).until > now;
    });
}

Result<> PinTable::judge(ContainerId container, const Transaction& transaction, Time now) {
    size_t taken = 0;
    for (size_t i = 0; i < transaction.conditions.size(); ++i) {
        const Condition& condition = transaction.conditions[i];
        if (!condition.is_about_pins()) continue;
        if (condition.kind == Condition::Kind::pin) {
            ++taken;
            continue;
        }
        const auto found = objects_.find({container, condition.object});
        if (condition.kind == Condition::Kind::pinned) {
            const bool holds =
                found != objects_.end() && found->second.holders.contains(transaction.holder);
            if (!holds) return fail(Code::condition_failed, i);
        } else if (found != objects_.end() && !is_free(found->second, transaction.holder, now)) {
            found->second.is_wanted = true;
            return fail(Code::condition_failed, i);
        } else if (now < grace_until_) {
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
    if (const auto found = sessions_.find(ended); found != sessions_.end()) {
        found->second.until = until;
    }
    for (auto each = sessions_.begin(); each != sessions_.end();) {
        auto& [number, session] = *each;
        if (session.until > now) {
            ++each;
            continue;
        }
        for (const auto& [key, client] : session.pins) drop(key, {client, number, session.owner});
        each = sessions_.erase(each);
    }
}

}  // namespace ros2s::object

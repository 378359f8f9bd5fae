#include "pins.h"

#include <algorithm>

namespace ros2s::object {
namespace {

bool has(const std::vector<Holder>& holders, const Holder& holder) {
    return std::ranges::find(holders, holder) != holders.end();
}

}  // namespace

Result<> PinTable::add(ContainerId container, ObjectId object, const Holder& holder) {
    const Place place{container, object};
    std::vector<Holder>& holders = objects_[place].holders;
    if (has(holders, holder)) return {};
    Session& session = sessions_[holder.session];
    if (holder.session != 0 && session.pins.size() >= session_pins_max) {
        if (holders.empty()) objects_.erase(place);
        return fail(Code::no_memory, session_pins_max);
    }
    if (count_ >= pins_max) {
        if (holders.empty()) objects_.erase(place);
        if (session.pins.empty()) sessions_.erase(holder.session);
        return fail(Code::no_memory, pins_max);
    }
    holders.push_back(holder);
    session.pins.emplace(place, holder.client);
    ++count_;
    return {};
}

bool PinTable::drop(const Place& place, const Holder& holder) {
    const auto found = objects_.find(place);
    if (found == objects_.end() || std::erase(found->second.holders, holder) == 0) return false;
    --count_;
    if (!found->second.holders.empty()) return false;
    const bool is_wanted = found->second.is_wanted;
    objects_.erase(found);
    return is_wanted;
}

bool PinTable::remove(ContainerId container, ObjectId object, const Holder& holder) {
    const Place place{container, object};
    if (const auto session = sessions_.find(holder.session); session != sessions_.end()) {
        session->second.pins.erase({place, holder.client});
        if (session->second.pins.empty()) sessions_.erase(session);
    }
    return drop(place, holder);
}

bool PinTable::is_free(Object& object, const Holder& holder, Time now) {
    return std::ranges::none_of(object.holders, [&](const Holder& other) {
        return other != holder && sessions_.at(other.session).until > now;
    });
}

Result<> PinTable::judge(ContainerId container, const Transaction& transaction, Time now) {
    for (size_t i = 0; i < transaction.conditions.size(); ++i) {
        const Condition& condition = transaction.conditions[i];
        if (!condition.is_about_pins()) continue;
        const auto found = objects_.find({container, condition.object});
        if (condition.kind == Condition::Kind::pinned) {
            const bool holds =
                found != objects_.end() && has(found->second.holders, transaction.holder);
            if (!holds) return fail(Code::condition_failed, i);
        } else if (found != objects_.end() && !is_free(found->second, transaction.holder, now)) {
            found->second.is_wanted = true;
            return fail(Code::condition_failed, i);
        } else if (now < grace_until_) {
            return fail(Code::condition_failed, i);
        }
    }
    return {};
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
        for (const auto& [place, client] : session.pins) drop(place, {client, number});
        each = sessions_.erase(each);
    }
}

}  // namespace ros2s::object

#include "volatile_objects.h"

#include <algorithm>

namespace ros2s::engine {

bool VolatileObjects::note(object::ContainerId container, const object::Transaction& transaction,
                           uint64_t group, Time now) {
    const size_t added_max = transaction.operations.size() + 1;
    if (objects_.size() + added_max > objects_max) return false;
    const Uuid& client = transaction.holder.client;
    const auto add = [&](object::ObjectId object) {
        Change& change =
            objects_.try_emplace(Key{container, object}, Change{client, group}).first->second;
        if (change.client != client) change.client = {};
        change.group = group;
    };
    add({});
    for (const object::Operation& each : transaction.operations) add(each.object);
    count_.set(objects_.size());
    count(transaction, group, now);
    return true;
}

void VolatileObjects::count(const object::Transaction& transaction, uint64_t group, Time now) {
    std::deque<Part>& parts = clients_[transaction.holder.client];
    const bool joins = !parts.empty() && (parts.back().group == group || parts.size() == parts_max);
    if (!joins) parts.push_back({.amount = {.since = now}});
    Part& part = parts.back();
    part.group = group;
    ++part.amount.changes;
    for (const object::Operation& each : transaction.operations) {
        part.amount.bytes += each.window.length;
    }
}

VolatileObjects::Amount VolatileObjects::of_client(const Uuid& client) const {
    Amount amount{.since = Time::max()};
    const auto add = [&amount](const auto& parts) {
        for (const Part& each : parts) {
            amount.changes += each.amount.changes;
            amount.bytes += each.amount.bytes;
            amount.since = std::min(amount.since, each.amount.since);
        }
    };
    if (client.is_nil()) {
        for (const auto& [id, parts] : clients_) add(parts);
    } else if (const auto its = clients_.find(client); its != clients_.end()) {
        add(its->second);
    }
    return amount;
}

void VolatileObjects::durable_upto(uint64_t group) {
    if (objects_.empty() || group == durable_) return;
    durable_ = group;
    std::erase_if(objects_, [group](const auto& each) { return each.second.group <= group; });
    for (auto& [client, parts] : clients_) {
        while (!parts.empty() && parts.front().group <= group) parts.pop_front();
    }
    std::erase_if(clients_, [](const auto& each) { return each.second.empty(); });
    count_.set(objects_.size());
}

uint64_t VolatileObjects::changed_by_others(object::ContainerId container, object::ObjectId object,
                                            const Uuid& client) const {
    const auto found = objects_.find(Key{container, object});
    if (found == objects_.end()) return 0;
    const Change& change = found->second;
    return client.is_nil() || change.client != client ? change.group : 0;
}

}  // namespace ros2s::engine

#include "volatile_objects.h"

namespace ros2s::engine {

bool VolatileObjects::note(object::ContainerId container, const object::Transaction& transaction,
                           uint64_t group) {
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
    return true;
}

void VolatileObjects::durable_upto(uint64_t group) {
    if (objects_.empty() || group == durable_) return;
    durable_ = group;
    std::erase_if(objects_, [group](const auto& each) { return each.second.group <= group; });
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

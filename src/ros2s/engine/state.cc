#include "state.h"

namespace ros2s::engine {

std::set<object::ContainerId> State::visible_containers() const {
    std::set<object::ContainerId> visible;
    for (const auto& [id, container] : containers) {
        if (has_container(id)) visible.insert(id);
    }
    return visible;
}

void State::note(const Applying& now, const TransactionRecord& transaction) {
    for (const Change& change : transaction.changes) {
        if (change.is_of_container()) apply_container(now, change);
    }
    const object::OperationId& id = transaction.id;
    if (id.client.is_nil()) return;
    const bool is_of_container =
        !transaction.changes.empty() && transaction.changes[0].is_of_container();
    replies.store(
        Replies::key_of(id, is_of_container ? object::ContainerId{} : now.container),
        {.sequence = id.sequence, .epoch = now.epoch, .time = now.time, .digest = id.digest});
}

void State::finish(const AppliedGroup& group, size_t transactions) {
    applied = group.sequence;
    next_epoch = group.first_epoch + transactions;
    wall_time_ns = group.wall_time_ns;
}

bool State::makes_sense(const TransactionRecord& transaction) const {
    for (const Change& change : transaction.changes) {
        for (const BlockRef& block : change.blocks) {
            if (!space.contains(block.address)) return false;
        }
    }
    return true;
}

void State::apply_container(const Applying& now, const Change& change) {
    if (change.kind == Change::Kind::remove_container) {
        containers.erase(now.container);
        removed_containers.push_back(now.container);
        return;
    }
    Container& container = containers[now.container];
    container.changed = true;
    if (change.kind == Change::Kind::retire_container) {
        container.value.retired = true;
        return;
    }
    const auto value = decode_container(change.value);
    if (value) {
        container.value = *value;
        container.value.created = now.time;
    } else {
        ++inconsistencies;
    }
}

}  // namespace ros2s::engine

#include "state.h"

#include <algorithm>
#include <utility>

namespace ros2s::engine {

std::set<object::ContainerId> State::visible_containers() const {
    std::set<object::ContainerId> visible;
    for (const auto& [id, container] : containers) {
        if (has_container(id)) visible.insert(id);
    }
    return visible;
}

void State::note(const Applying& now, const TransactionRecord& transaction) {
    if (transaction.reserved != object::Amount{}) unreserve(now.container, transaction.reserved);
    for (const Change& change : transaction.changes) {
        if (change.is_of_container()) apply_container(now, change);
    }
    const UpdateName& id = transaction.id;
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
        const auto found = containers.find(now.container);
        if (found == containers.end()) return;
        if (found->second.value.used != object::Amount{}) ++inconsistencies;
        leave_owner(found->second);
        counted_ = nullptr;
        containers.erase(found);
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
    if (!value) {
        ++inconsistencies;
        return;
    }
    leave_owner(container);
    if (change.kind == Change::Kind::set_container) {
        container.value.properties.owner = value->properties.owner;
        container.value.properties.caps = value->properties.caps;
    } else {
        container.value = *value;
        container.value.counted = true;
        container.value.created = now.time;
    }
    join_owner(container);
}

// ---- use of containers ---------------------------------------------------------------------

namespace {

using object::Amount;

void add(Amount& to, const Amount& more) {
    to.bytes += more.bytes;
    to.values += more.values;
}
void subtract(Amount& from, const Amount& less) {
    from.bytes -= less.bytes;
    from.values -= less.values;
}

bool fits(uint64_t used, uint64_t more, uint64_t cap) {
    return more == 0 || (used <= cap && more <= cap - used);
}

uint64_t sum(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

// 0: it fits. Otherwise the cap that it does not fit into.
uint64_t cap_in_the_way(const Amount& caps, const Amount& used, const Amount& reserved,
                        const Amount& more, uint64_t beyond) {
    if (caps.bytes > 0 && !fits(used.bytes + reserved.bytes, more.bytes, sum(caps.bytes, beyond))) {
        return caps.bytes;
    }
    if (caps.values > 0 && !fits(used.values + reserved.values, more.values, caps.values)) {
        return caps.values;
    }
    return 0;
}

// One count of the space that is left below a cap.
void narrow(uint64_t cap, uint64_t all, uint64_t own, uint64_t& total, uint64_t& left) {
    if (cap == 0) return;
    const uint64_t here = cap > all ? cap - all : 0;
    left = std::min(left, here);
    total = std::min(total, own + here);
}

}  // namespace

void State::find_owners() {
    for (auto& [id, container] : containers) join_owner(container);
}

void State::join_owner(Container& container) {
    const std::string& name = container.value.properties.owner;
    if (name.empty()) return;
    container.owner = &owners[name];
    ++container.owner->containers;
    add(container.owner->used, container.value.used);
    add(container.owner->reserved, container.reserved);
}

void State::leave_owner(Container& container) {
    OwnedSpace* const owner = std::exchange(container.owner, nullptr);
    if (owner == nullptr) return;
    subtract(owner->used, container.value.used);
    subtract(owner->reserved, container.reserved);
    if (--owner->containers > 0 || owner->caps != Amount{}) return;
    owners.erase(container.value.properties.owner);
}

void State::set_owner_caps(const std::map<std::string, Amount>& caps) {
    for (auto& [name, owner] : owners) owner.caps = {};
    for (const auto& [name, amount] : caps) owners[name].caps = amount;
    std::erase_if(owners, [](const auto& each) {
        return each.second.containers == 0 && each.second.caps == Amount{};
    });
}

bool State::has_caps(object::ContainerId id) const {
    const auto found = containers.find(id);
    if (found == containers.end()) return false;
    const Container& container = found->second;
    return container.value.properties.caps != Amount{} ||
           (container.owner != nullptr && container.owner->caps != Amount{});
}

Result<Amount> State::reserve(object::ContainerId id, const Growth& growth) {
    Container& container = containers.at(id);
    const int64_t bytes = growth.blocks * static_cast<int64_t>(block_bytes) + growth.bytes;
    const Amount more{.bytes = static_cast<uint64_t>(std::max<int64_t>(bytes, 0)),
                      .values = static_cast<uint64_t>(std::max<int64_t>(growth.values, 0))};
    const uint64_t beyond = growth.blocks <= 0 && growth.values <= 0 ? beyond_cap_bytes : 0;
    const uint64_t own = cap_in_the_way(container.value.properties.caps, container.value.used,
                                        container.reserved, more, beyond);
    OwnedSpace* const owner = container.owner;
    const uint64_t all =
        owner == nullptr ? 0
                         : cap_in_the_way(owner->caps, owner->used, owner->reserved, more, beyond);
    if (own > 0) ++container.refusals;
    if (all > 0) ++owner->refusals;
    if (own > 0 || all > 0) return fail(Code::over_cap, own > 0 ? own : all);
    add(container.reserved, more);
    if (owner != nullptr) add(owner->reserved, more);
    return more;
}

void State::unreserve(object::ContainerId id, const Amount& reserved) {
    const auto found = containers.find(id);
    if (found == containers.end()) return;
    subtract(found->second.reserved, reserved);
    if (found->second.owner != nullptr) subtract(found->second.owner->reserved, reserved);
}

void State::count(const SummaryChange& change) {
    const int64_t bytes = change.blocks * static_cast<int64_t>(block_bytes) + change.bytes;
    if (bytes == 0 && change.values == 0) return;
    if (counted_ == nullptr || counted_id_ != change.container) {
        const auto found = containers.find(change.container);
        if (found == containers.end()) {
            ++inconsistencies;
            return;
        }
        counted_ = &found->second;
        counted_id_ = change.container;
    }
    const Amount more{.bytes = static_cast<uint64_t>(bytes),
                      .values = static_cast<uint64_t>(change.values)};
    counted_->changed = true;
    add(counted_->value.used, more);
    if (counted_->owner != nullptr) add(counted_->owner->used, more);
}

void State::narrow(const Container& container, object::PoolSpace& space) const {
    const Amount& used = container.value.used;
    uint64_t values = UINT64_MAX, free_values = UINT64_MAX;
    const auto below = [&](const Amount& caps, const Amount& all) {
        engine::narrow(caps.bytes, all.bytes, used.bytes, space.total_bytes, space.free_bytes);
        engine::narrow(caps.values, all.values, used.values, values, free_values);
    };
    below(container.value.properties.caps, used);
    if (container.owner != nullptr) below(container.owner->caps, container.owner->used);
    if (values == UINT64_MAX) return;
    space.total_values = values;
    space.free_values = free_values;
}

}  // namespace ros2s::engine

#include "replies.h"

#include <algorithm>

namespace ros2s::engine {

Result<std::optional<ReplyValue>> Replies::look_up(const object::OperationId& id,
                                                   object::ContainerId container, bool is_new,
                                                   WallTime now) const {
    const auto owner = owners_.find(id.owner);
    const Owner* const known_owner = owner == owners_.end() ? nullptr : &owner->second;
    const Client* client = nullptr;
    if (known_owner != nullptr) {
        const auto found = known_owner->clients.find(id.client);
        if (found != known_owner->clients.end()) client = &found->second;
    }
    if (client != nullptr) {
        const auto found = client->slots.find({container, id.slot});
        if (found != client->slots.end()) {
            const ReplyValue& reply = found->second.reply;
            if (id.sequence < reply.sequence) return fail(Code::stale);
            if (id.sequence > reply.sequence) return std::nullopt;
            if (is_new || id.digest != reply.digest) return fail(Code::name_taken);
            return reply;
        }
    }
    const uint64_t dropped = known_owner != nullptr ? known_owner->dropped_upto : dropped_upto_;
    const bool all_kept = client != nullptr ? client->whole : dropped == 0;
    if (!is_new && !all_kept && options_.expire_unknown) return fail(Code::expired);
    if (!has_room(known_owner, now)) return fail(Code::busy, options_.per_owner_max);
    return std::nullopt;
}

// After a clock was set back, some updates are in the future. Those are over as well: their age is
// unknown, and otherwise they would use up the owner's share for as long as the clock had been
// wrong.
bool Replies::is_over(const Owner& owner, WallTime now) const {
    const Duration age = now - owner.clients.at(owner.oldest_first.front()).last;
    return age >= options_.lease || age <= -options_.lease || !options_.keep_for_lease;
}

// Room is what is free and what trim() would free. An owner leaves as many slots free as it has. So
// n owners that take all they get leave a share of 1/(n + 1), and another one always finds room.
bool Replies::has_room(const Owner* owner, WallTime now) const {
    if (owner != nullptr && owner->slots >= options_.per_owner_max) return is_over(*owner, now);
    return count_ + (owner == nullptr ? 0 : owner->slots) < options_.slots_max ||
           std::ranges::any_of(
               owners_, [&](const auto& each) { return is_over(each.second, now); });
}

void Replies::store(const ReplyKey& key, ReplyValue reply) {
    auto [at, owner_is_new] = owners_.try_emplace(key.owner);
    Owner& owner = at->second;
    if (owner_is_new) {
        owner.dropped_upto = dropped_upto_;
        if (dropped_upto_ > 0) changed_owners_.push_back(key.owner);
    }
    auto [known, client_is_new] = owner.clients.try_emplace(key.client);
    Client& client = known->second;
    if (client_is_new) {
        client.whole = owner.dropped_upto == 0;
        client.place = owner.oldest_first.insert(owner.oldest_first.end(), key.client);
    } else {
        owner.oldest_first.splice(owner.oldest_first.end(), owner.oldest_first, client.place);
    }
    client.last = reply.time;
    reply.whole = client.whole;
    auto [slot, slot_is_new] = client.slots.try_emplace({key.container, key.slot});
    if (slot_is_new) {
        ++owner.slots;
        ++count_;
    }
    slot->second.reply = reply;
    if (!slot->second.changed) changed_.push_back(key);
    slot->second.changed = true;
    if (slot_is_new) trim(key.owner, reply.time);
}

Replies::Stored* Replies::find(const ReplyKey& key) {
    const auto owner = owners_.find(key.owner);
    if (owner == owners_.end()) return nullptr;
    const auto client = owner->second.clients.find(key.client);
    if (client == owner->second.clients.end()) return nullptr;
    const auto slot = client->second.slots.find({key.container, key.slot});
    return slot == client->second.slots.end() ? nullptr : &slot->second;
}

// After an update of the owner. Its client is therefore not the oldest unless it is the only one.
void Replies::trim(const Uuid& owner, WallTime now) {
    const auto own = owners_.find(owner);
    while (own->second.slots > options_.per_owner_max && is_over(own->second, now)) {
        drop_oldest(own);
    }
    // Without the new slot, as has_room() counts.
    while (count_ - 1 + own->second.slots - 1 >= options_.slots_max) {
        const auto over = std::ranges::find_if(
            owners_, [&](const auto& each) { return is_over(each.second, now); });
        if (over == owners_.end()) break;
        drop_oldest(over);
    }
}

void Replies::drop_oldest(std::map<Uuid, Owner>::iterator at) {
    Owner& owner = at->second;
    const auto client = owner.clients.find(owner.oldest_first.front());
    for (const auto& [slot, stored] : client->second.slots) {
        owner.dropped_upto = std::max(owner.dropped_upto, stored.reply.epoch.value);
        if (stored.changed) continue;
        changed_.push_back({at->first, client->first, slot.first, slot.second});
    }
    owner.slots -= client->second.slots.size();
    count_ -= client->second.slots.size();
    owner.oldest_first.pop_front();
    owner.clients.erase(client);
    changed_owners_.push_back(at->first);
    if (!owner.clients.empty()) return;
    dropped_upto_ = std::max(dropped_upto_, owner.dropped_upto);
    owners_.erase(at);
}

void Replies::load(const ReplyKey& key, const ReplyValue& reply) {
    Owner& owner = owners_[key.owner];
    Client& client = owner.clients[key.client];
    client.slots[{key.container, key.slot}] = {.reply = reply, .changed = false};
    client.last = std::max(client.last, reply.time);
    client.whole = reply.whole;
    ++owner.slots;
    ++count_;
}

void Replies::load_owner(const Uuid& owner, uint64_t dropped_upto) {
    owners_[owner].dropped_upto = dropped_upto;
}

void Replies::finish_load(uint64_t dropped_upto) {
    dropped_upto_ = dropped_upto;
    for (auto& [id, owner] : owners_) {
        std::vector<std::pair<WallTime, Uuid>> order;
        for (const auto& [client, known] : owner.clients) order.emplace_back(known.last, client);
        std::ranges::sort(order);
        for (const auto& [last, client] : order) {
            owner.clients[client].place =
                owner.oldest_first.insert(owner.oldest_first.end(), client);
        }
    }
    // A mark without clients is not stored.
    std::erase_if(owners_, [](const auto& each) { return each.second.clients.empty(); });
}

}  // namespace ros2s::engine

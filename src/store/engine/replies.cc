#include "replies.h"

#include <algorithm>

#include "ros2s/base/quota.h"
#include "ros2s/engine/rules/commit_rules.h"

namespace ros2s::engine {
namespace {

// The times in an index can be any numbers, and too far apart for a Duration.
Duration between(WallTime earlier, WallTime later) {
    int64_t ns = 0;
    if (__builtin_sub_overflow(later.time_since_epoch().count(), earlier.time_since_epoch().count(),
                               &ns)) {
        return later < earlier ? Duration::min() : Duration::max();
    }
    return Duration{ns};
}

}  // namespace

Result<std::optional<ReplyValue>> Replies::look_up(const UpdateName& id,
                                                   object::ContainerId container, bool is_new,
                                                   WallTime now) const {
    const auto owner = owners_.find(id.owner);
    const ClientsOfOwner* const known_owner = owner == owners_.end() ? nullptr : &owner->second;
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
    if (!is_new && !all_kept && rules.expire_unknown) return fail(Code::expired);
    if (!has_room(id.owner, known_owner, now)) return fail(Code::busy, options_.per_owner_max);
    return std::nullopt;
}

// After a clock was set back, some updates are in the future. Their age is unknown, so they count
// as over. Otherwise they would use up the owner's share for as long as the clock was wrong.
bool Replies::is_over(const ClientsOfOwner& owner, WallTime now) const {
    const Duration age = between(owner.clients.at(owner.oldest_first.front()).last, now);
    return age >= options_.lease || age <= -options_.lease || !rules.keep_for_lease;
}

// A sender leaves as many slots free as it has, and an owner as many to its sender. So n senders
// with many owners that take all they get leave a share of 1/(n + 1), and another one always finds
// room. So does another owner of the same sender.
bool Replies::leaves_enough(size_t all, size_t of_sender, size_t of_owner) const {
    return all < options_.slots_max &&
           !exceeds_fair_share(of_sender + 2 * of_owner, all, options_.slots_max);
}

// Room is what is free and what trim() would free.
bool Replies::has_room(const Uuid& owner, const ClientsOfOwner* known, WallTime now) const {
    if (known != nullptr && known->slots >= options_.per_owner_max) return is_over(*known, now);
    const auto sender = senders_.find(sender_of(owner));
    return leaves_enough(count_, sender == senders_.end() ? 0 : sender->second,
                         known == nullptr ? 0 : known->slots) ||
           find_over(now) != nullptr;
}

// Looks at the owners with the oldest and the newest oldest client.
const Uuid* Replies::find_over(WallTime now) const {
    if (by_age_.empty()) return nullptr;
    for (const Uuid* owner : {&by_age_.begin()->second, &by_age_.rbegin()->second}) {
        if (is_over(owners_.at(*owner), now)) return owner;
    }
    return nullptr;
}

// An active owner with one client is not moved with each update.
void Replies::set_age(const Uuid& id, ClientsOfOwner& owner) {
    const WallTime oldest = owner.clients.at(owner.oldest_first.front()).last;
    if (owner.age) {
        const Duration moved = between(*owner.age, oldest);
        if (moved < options_.lease / 16 && moved > -options_.lease / 16) return;
        by_age_.erase({*owner.age, id});
    }
    by_age_.insert({oldest, id});
    owner.age = oldest;
}

void Replies::store(const ReplyKey& key, ReplyValue reply) {
    auto [at, owner_is_new] = owners_.try_emplace(key.owner);
    ClientsOfOwner& owner = at->second;
    if (owner_is_new) {
        owner.dropped_upto = dropped_upto_;
        if (dropped_upto_ > 0) changed_owners_.push_back(key.owner);
    }
    auto [known, client_is_new] = owner.clients.try_emplace(key.client);
    Client& client = known->second;
    const bool was_oldest = !client_is_new && client.place == owner.oldest_first.begin();
    if (client_is_new) {
        client.whole = owner.dropped_upto == 0;
        client.place = owner.oldest_first.insert(owner.oldest_first.end(), key.client);
    } else {
        owner.oldest_first.splice(owner.oldest_first.end(), owner.oldest_first, client.place);
    }
    client.last = reply.time;
    if (was_oldest || owner_is_new) set_age(key.owner, owner);
    reply.whole = client.whole;
    auto [slot, slot_is_new] = client.slots.try_emplace({key.container, key.slot});
    if (slot_is_new) {
        ++owner.slots;
        ++senders_[sender_of(key.owner)];
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
    const auto is_too_much = [&] {
        return !leaves_enough(count_ - 1, senders_.at(sender_of(owner)) - 1, own->second.slots - 1);
    };
    while (is_too_much()) {
        const Uuid* const over = find_over(now);
        if (over == nullptr) break;
        drop_oldest(owners_.find(*over));
    }
}

void Replies::drop_oldest(std::map<Uuid, ClientsOfOwner>::iterator at) {
    ClientsOfOwner& owner = at->second;
    const auto client = owner.clients.find(owner.oldest_first.front());
    for (const auto& [slot, stored] : client->second.slots) {
        owner.dropped_upto = std::max(owner.dropped_upto, stored.reply.epoch.value);
        if (stored.changed) continue;
        changed_.push_back({at->first, client->first, slot.first, slot.second});
    }
    const size_t slots = client->second.slots.size();
    owner.slots -= slots;
    count_ -= slots;
    const auto sender = senders_.find(sender_of(at->first));
    sender->second -= slots;
    if (sender->second == 0) senders_.erase(sender);
    owner.oldest_first.pop_front();
    owner.clients.erase(client);
    changed_owners_.push_back(at->first);
    if (!owner.clients.empty()) {
        set_age(at->first, owner);
        return;
    }
    by_age_.erase({*owner.age, at->first});
    dropped_upto_ = std::max(dropped_upto_, owner.dropped_upto);
    owners_.erase(at);
}

void Replies::load(const ReplyKey& key, const ReplyValue& reply) {
    ClientsOfOwner& owner = owners_[key.owner];
    Client& client = owner.clients[key.client];
    client.slots[{key.container, key.slot}] = {.reply = reply, .changed = false};
    client.last = std::max(client.last, reply.time);
    client.whole = reply.whole;
    ++owner.slots;
    ++senders_[sender_of(key.owner)];
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
    for (auto& [id, owner] : owners_) set_age(id, owner);
}

}  // namespace ros2s::engine

#include "replies.h"

#include <algorithm>

namespace ros2s::engine {

Result<std::optional<ReplyValue>> Replies::look_up(const object::OperationId& id,
                                                   bool is_new) const {
    const auto found = slots_.find({id.client, id.slot});
    if (found == slots_.end()) {
        // The slot may have been dropped: then nobody knows whether this was done.
        if (dropped_upto_ > 0 && id.sequence > 1 && !is_new) return fail(Code::stale);
        return std::nullopt;
    }
    const ReplyValue& reply = found->second.reply;
    if (id.sequence < reply.sequence) return fail(Code::stale);
    if (id.sequence > reply.sequence) return std::nullopt;
    return reply;
}

void Replies::store(const object::OperationId& id, const ReplyValue& reply) {
    const Slot slot{id.client, id.slot};
    auto [at, is_new] = slots_.try_emplace(slot);
    Stored& stored = at->second;
    if (is_new) {
        stored.place = oldest_first_.insert(oldest_first_.end(), slot);
    } else {
        oldest_first_.splice(oldest_first_.end(), oldest_first_, stored.place);
    }
    stored.reply = reply;
    if (!stored.changed) changed_.push_back(slot);
    stored.changed = true;
    trim();
}

void Replies::trim() {
    while (slots_.size() > most_) {
        const auto oldest = slots_.find(oldest_first_.front());
        dropped_upto_ = std::max(dropped_upto_, oldest->second.reply.epoch.value);
        if (!oldest->second.changed) changed_.push_back(oldest->first);
        oldest_first_.pop_front();
        slots_.erase(oldest);
    }
}

void Replies::load(const Uuid& client, uint32_t slot, const ReplyValue& reply) {
    slots_[{client, slot}] = {.reply = reply, .changed = false, .place = {}};
}

void Replies::finish_load(uint64_t dropped_upto) {
    dropped_upto_ = dropped_upto;
    std::vector<std::pair<object::Epoch, Slot>> order;
    for (const auto& [slot, stored] : slots_) order.emplace_back(stored.reply.epoch, slot);
    std::ranges::sort(order);
    for (const auto& [epoch, slot] : order) {
        slots_[slot].place = oldest_first_.insert(oldest_first_.end(), slot);
    }
    trim();
}

}  // namespace ros2s::engine

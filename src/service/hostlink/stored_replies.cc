#include "stored_replies.h"

#include "ros2s/runtime/sync.h"

namespace ros2s::hostlink {

Result<StoredReplies::Entry*> StoredReplies::slot_of(session::SessionId session, uint64_t tenant,
                                                     uint32_t number) {
    const auto present = sessions_.find(session);
    if (present != sessions_.end()) {
        const auto slot = present->second.slots.find(number);
        if (slot != present->second.slots.end()) return &slot->second;
    }
    const Quota::Who who{.tenant = tenant, .subject = session.value};
    if (!bound_.check(who)) return fail(Code::busy, bound_.used_by_tenant(tenant));
    OfSession& of = present != sessions_.end() ? present->second : sessions_[session];
    if (of.slots.empty()) of.share = bound_.count(who, 0);
    of.share.add();
    return &of.slots[number];
}

void StoredReplies::forget(session::SessionId session) { sessions_.erase(session); }

Task<Result<const StoredReplies::Reply*>> StoredReplies::begin(const Call& call,
                                                               session::SessionId session,
                                                               uint64_t tenant,
                                                               const UpdateName& id,
                                                               uint64_t digest) {
    if (id.slot >= slots_max || id.sequence == 0) co_return fail(Code::invalid);
    for (;;) {
        ROS2S_CO_TRY_ASSIGN(Entry* const its, slot_of(session, tenant, id.slot));
        Entry& slot = *its;
        if (id.sequence < slot.sequence) co_return fail(Code::stale);
        if (id.sequence > slot.sequence && !slot.running) {
            slot = {.sequence = id.sequence, .digest = digest, .running = true};
            co_return nullptr;
        }
        if (id.sequence == slot.sequence && digest != slot.digest) co_return fail(Code::name_taken);
        // A slot's next update comes when the client has the last reply, or has given up waiting
        // for it.
        if (!slot.running) {
            returned_.add();
            co_return &slot.reply;
        }
        ROS2S_CO_TRY(call.check(reactor_));
        const WakeOnStop wake(call.stop, ended_);
        co_await ended_;
    }
}

void StoredReplies::end(session::SessionId session, const UpdateName& id, Reply reply) {
    Entry& slot = sessions_.at(session).slots.at(id.slot);
    slot.running = false;
    slot.reply = std::move(reply);
    ended_.wake_all();
}

}  // namespace ros2s::hostlink

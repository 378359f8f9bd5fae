#include "stored_replies.h"

#include "ros2s/base/shares.h"
#include "ros2s/runtime/wake_on_stop.h"

namespace ros2s::hostlink {

Result<StoredReplies::Entry*> StoredReplies::slot_of(session::SessionId session, uint64_t tenant,
                                                     uint32_t number) {
    if (const auto present = sessions_.find(session); present != sessions_.end()) {
        const auto slot = present->second.slots.find(number);
        if (slot != present->second.slots.end()) return &slot->second;
    }
    uint32_t& of_tenant = slots_of_[tenant];
    if (of_tenant >= bounds_.of_tenant) return fail(Code::busy, bounds_.of_tenant);
    if (of_tenant >= bounds_.sure_of_tenant &&
        exceeds_fair_share(of_tenant, slots_, bounds_.of_all)) {
        return fail(Code::busy, bounds_.of_all);
    }
    ++of_tenant;
    ++slots_;
    OfSession& of = sessions_[session];
    of.tenant = tenant;
    return &of.slots[number];
}

void StoredReplies::forget(session::SessionId session) {
    const auto found = sessions_.find(session);
    if (found == sessions_.end()) return;
    const auto count = static_cast<uint32_t>(found->second.slots.size());
    slots_ -= count;
    const auto of_tenant = slots_of_.find(found->second.tenant);
    of_tenant->second -= count;
    if (of_tenant->second == 0) slots_of_.erase(of_tenant);
    sessions_.erase(found);
}

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

#include "stored_replies.h"

namespace ros2s::hostlink {

Task<Result<const StoredReplies::Reply*>> StoredReplies::begin(session::SessionId session,
                                                               const rpc::OperationId& id,
                                                               uint64_t digest) {
    if (id.slot >= slots_max || id.sequence == 0) co_return fail(Code::invalid);
    for (;;) {
        Slot& slot = slots_[session][id.slot];
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
        co_await ended_;
    }
}

void StoredReplies::end(session::SessionId session, const rpc::OperationId& id, Reply reply) {
    Slot& slot = slots_[session][id.slot];
    slot.running = false;
    slot.reply = std::move(reply);
    ended_.wake_all();
}

}  // namespace ros2s::hostlink

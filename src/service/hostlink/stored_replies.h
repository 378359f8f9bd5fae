// StoredReplies: the replies to the updates of sessions. If a connection is lost before the reply
// arrives, the client sends the update again and gets the stored reply. The update is not done
// again.
//
// An update is named by its session, slot and sequence number. A slot has one update at a time, so
// its last reply is sufficient: when the next update comes, the client has seen it. Another update
// with the last one's name is refused, by the digest of its contents.
//
// Replies are in memory and do not survive the process. A slot is kept until its session ends, so
// their number is bounded (base/quota.h). A client uses as many slots as it had updates in progress
// at once, which is far fewer. A refused update was not done.
//
// Used on one core.
#pragma once
#include <map>
#include <vector>

#include "ros2s/base/metrics.h"
#include "ros2s/base/quota.h"
#include "ros2s/rpc/frame.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/sync.h"
#include "ros2s/session/sessions.h"

namespace ros2s::hostlink {

class StoredReplies {
  public:
    static constexpr uint32_t slots_max = UpdateName::slots_max;  // of one session

    static constexpr Quota::Bounds slots_default{
        .per_tenant = 65'536, .in_all = 262'144, .sure = 256};
    explicit StoredReplies(Reactor& reactor, Quota::Bounds slots = slots_default)
        : reactor_(reactor), bound_(slots), ended_(reactor) {}

    struct Reply {
        Result<> status{};
        uint64_t bytes = 0;
        std::vector<std::byte> body{};  // of a change of names
    };
    // Returns null for a new update; end() must be called when it is done. Otherwise returns its
    // reply, and suspends while the first execution runs. The reply stays valid until the next
    // await. Errors: invalid (an impossible slot or number), stale (older than the slot's last),
    // name_taken (not the update that the slot had under this number), busy (a bound of slots),
    // cancelled and deadline (while it waited).
    Task<Result<const Reply*>> begin(const Call& call, session::SessionId session, uint64_t tenant,
                                     const UpdateName& id, uint64_t digest);
    // A call in every build: tests kill a daemon that enters it (tests/daemons/strike.h).
    [[gnu::noinline]] void end(session::SessionId session, const UpdateName& id, Reply reply);
    // Call it after the session's last update has ended.
    void forget(session::SessionId session);

    [[nodiscard]] uint64_t slots() const { return bound_.used(); }  // of all sessions
    [[nodiscard]] const Counter& returned() const { return returned_; }

  private:
    struct Entry {
        uint64_t sequence = 0;
        uint64_t digest = 0;
        bool running = false;
        Reply reply;
    };
    struct OfSession {
        Quota::Share share;  // of the slots
        std::map<uint32_t, Entry> slots;
    };
    [[nodiscard]] Result<Entry*> slot_of(session::SessionId session, uint64_t tenant,
                                         uint32_t number);

    Reactor& reactor_;
    Quota bound_;
    std::map<session::SessionId, OfSession> sessions_;
    Event ended_;  // woken whenever an update ends
    Counter returned_;
};

}  // namespace ros2s::hostlink

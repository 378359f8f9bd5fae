// StoredReplies: the replies to the updates of sessions. If a connection is lost before the reply
// arrives, the client sends the update again and gets the stored reply. The update is not done
// again.
//
// An update is named by its session, slot and sequence number. A slot has one update at a time, so
// its last reply is sufficient: when the next update comes, the client has seen it. Another update
// with the last one's name is refused, by the digest of its contents.
//
// Replies are in memory and do not survive the process. A slot is kept until its session ends, so
// their number is bounded per tenant and in sum, and no tenant takes what is left for all others
// (base/shares.h). A client uses as many slots as it had updates in progress at once, which is far
// fewer. A tenant with few slots gets one also when others have used the sum. A refused update was
// not done.
//
// Used on one core.
#pragma once
#include <map>
#include <vector>

#include "ros2s/base/metrics.h"
#include "ros2s/rpc/frame.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/sync.h"
#include "ros2s/session/sessions.h"

namespace ros2s::hostlink {

class StoredReplies {
  public:
    static constexpr uint32_t slots_max = UpdateName::slots_max;  // of one session

    struct Bounds {
        uint32_t of_tenant = 65'536;
        uint32_t of_all = 262'144;
        uint32_t sure_of_tenant = 256;  // also if others have used the sum
    };
    explicit StoredReplies(Reactor& reactor) : StoredReplies(reactor, Bounds()) {}
    StoredReplies(Reactor& reactor, Bounds bounds)
        : reactor_(reactor), bounds_(bounds), ended_(reactor) {}

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

    [[nodiscard]] uint32_t slots() const { return slots_; }  // of all sessions
    [[nodiscard]] const Counter& returned() const { return returned_; }

  private:
    struct Entry {
        uint64_t sequence = 0;
        uint64_t digest = 0;
        bool running = false;
        Reply reply;
    };
    struct OfSession {
        uint64_t tenant = 0;
        std::map<uint32_t, Entry> slots;
    };
    [[nodiscard]] Result<Entry*> slot_of(session::SessionId session, uint64_t tenant,
                                         uint32_t number);

    Reactor& reactor_;
    const Bounds bounds_;
    std::map<session::SessionId, OfSession> sessions_;
    std::map<uint64_t, uint32_t> slots_of_;  // by tenant
    uint32_t slots_ = 0;
    Event ended_;  // woken whenever an update ends
    Counter returned_;
};

}  // namespace ros2s::hostlink

// StoredReplies: what the updates of sessions were answered, so that one which comes again, because
// its connection was lost before the answer came, is answered and not done again.
//
// An update is named by its session, slot and sequence number. A slot has one update at a time, so
// its last answer is enough: when the next comes, the client has seen it. Another update under the
// name of the last one is refused, by the digest of what it asks for.
//
// In memory alone: they do not outlive the process. Used on one core.
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
    static constexpr uint32_t slots_max = UpdateName::slots_max;  // of a session

    explicit StoredReplies(Reactor& reactor) : ended_(reactor) {}

    struct Reply {
        Result<> status{};
        uint64_t bytes = 0;
    };
    // Null: it is new, and end() is due when it has been done. Otherwise its answer; suspends while
    // the first one is still being worked on. The answer stays until something is awaited.
    // Errors: invalid (a slot or number that cannot be), stale (older than what the slot had),
    // name_taken (not what the slot had under this number).
    Task<Result<const Reply*>> begin(session::SessionId session, const rpc::OperationId& id,
                                     uint64_t digest);
    void end(session::SessionId session, const rpc::OperationId& id, Reply reply);
    // After the session's last update has ended.
    void forget(session::SessionId session) { slots_.erase(session); }

    [[nodiscard]] const Counter& returned() const { return returned_; }

  private:
    struct Slot {
        uint64_t sequence = 0;
        uint64_t digest = 0;
        bool running = false;
        Reply reply;
    };
    std::map<session::SessionId, std::map<uint32_t, Slot>> slots_;
    Event ended_;  // woken whenever an update has ended
    Counter returned_;
};

}  // namespace ros2s::hostlink

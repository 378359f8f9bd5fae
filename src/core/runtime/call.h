// Call: the data that goes with a request through every layer: its deadline, stop token, tenant,
// user and trace. Owned by the outermost caller. Layers pass it by reference.
#pragma once
#include <cstdint>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/base/update_name.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/runtime/time.h"

namespace ros2s {

class Trace;
namespace fs {
struct Caller;
struct PayloadChecksums;
}  // namespace fs

// A lease that covers what a reply says of a node (fs/leases.h).
struct Leased {
    uint64_t node = 0;
    uint64_t number = 0;  // of the lease; never 0
    // Of a directory that the call has made, or of which it has changed a name: when. The lease was
    // held then.
    WallTime changed{};
    friend bool operator==(const Leased&, const Leased&) = default;
};

// A client of a store. It is shown its own changes before they are durable, and those of others
// only then.
struct StoreClient {
    Uuid id;  // nil: unknown
    // Of the store, as the client knows it (ObjectStore::sync()). 0: it does not matter.
    uint64_t incarnation = 0;
};

struct Call {
    Time deadline = Time::max();
    StopToken stop{};
    uint64_t tenant = 0;
    Trace* trace = nullptr;
    const UpdateName* update = nullptr;  // null: the caller will not repeat the request
    bool repeated = false;               // the update was sent before, and may have been done
    const fs::Caller* caller = nullptr;  // for its user; null: for the program itself
    // Of one pread() or pwrite(), for a process that passes the bytes on. Null: it ends or begins
    // here.
    fs::PayloadChecksums* checksums = nullptr;
    // Counters of what the request makes others look at. Null: they are not counted.
    uint64_t* names_walked = nullptr;    // names of paths
    uint64_t* entries_looked = nullptr;  // keys of a store, of lists and queries and conditions
    // For a caller that keeps results: the file system adds the leases that cover them. Null: it
    // takes no leases.
    std::vector<Leased>* leases = nullptr;
    // Null: the store's own process asks.
    const StoreClient* client = nullptr;

    // For points where a request can still be abandoned without harm. Errors: cancelled, deadline.
    [[nodiscard]] Result<> check(Time now) const {
        if (stop.stop_requested()) return fail(Code::cancelled);
        if (now >= deadline) return fail(Code::deadline);
        return {};
    }
    // The same for the present time. Most calls have no deadline, and need no clock.
    [[nodiscard]] Result<> check(const Reactor& reactor) const {
        return check(deadline == Time::max() ? Time{} : reactor.now());
    }
};

// The error of a call that may have ended before its update did.
[[nodiscard]] constexpr bool may_run_on(Code code) noexcept {
    return code == Code::deadline || code == Code::cancelled || code == Code::disconnected ||
           code == Code::closed;
}

}  // namespace ros2s

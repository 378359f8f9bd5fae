// Rig: a store on media that can crash and be opened again. The engine's rig is engine_rig.h.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/object/object_store.h"
#include "ros2s/runtime/task.h"

namespace ros2s::sim {

enum class CrashKind : uint8_t {
    power,    // data that no flush covered survives in part or not at all
    process,  // completed writes stay readable and volatile
};

// The crash comes with the first device operation that satisfies all of these conditions.
struct CrashPlan {
    CrashKind kind = CrashKind::power;
    uint64_t operations = 0;         // at least this many operations after arm()
    size_t unflushed_writes = 0;     // at least this many writes, completed or in flight, that are
                                     // not flushed
    bool at_flush = false;           // when a flush is issued
    bool at_checkpoint = false;      // just after a checkpoint was written; the first condition is
                                     // then waived
    uint64_t operations_max = 2000;  // after this many, the last three conditions are waived
};

// The state of the machine at a crash.
struct CrashPoint {
    CrashKind kind = CrashKind::power;
    // Set by the trial: the crash came while the store was opened; while it was growing; while a
    // container was created or destroyed; after a device had reported an error.
    bool in_recovery = false, in_growth = false, in_container_change = false;
    bool after_error = false;
    size_t unflushed_writes = 0;  // including those in flight
    std::string operation;        // "read", "write", "flush", "discard"; empty: between two
                                  // operations
};

class Rig {
  public:
    virtual ~Rig() = default;
    // Opens the store, which is empty at first. After an error or a crash close() comes first.
    virtual Task<Result<object::ObjectStore*>> open(Report& report) = 0;
    // May also be called after a crash, and after an open() that failed. A second call does
    // nothing.
    virtual Task<> close() = 0;

    // Adds space to the store while it works, and returns the result. If a crash comes in between,
    // the next open() finds the old or the new size.
    virtual Task<Result<>> grow(Report& report) = 0;
    // False if it cannot grow further.
    [[nodiscard]] virtual bool can_grow() const = 0;

    // True if the transport to the store may repeat a request by itself, so that even the first
    // answer to an update name may be a stored one.
    [[nodiscard]] virtual bool repeats_requests() const { return false; }

    // The minimum time for which a client's replies are kept, if there is so little room that they
    // are dropped then. Empty: as long as any client asks.
    [[nodiscard]] virtual std::optional<Duration> reply_lease() const { return std::nullopt; }

    // From now on; the crash disarms it. A rig whose devices report errors draws these, too.
    virtual void arm(const CrashPlan& plan) = 0;
    virtual void disarm() = 0;
    // True if a device has reported an error since the last open(). A request may then fail, and
    // its effect is known only after the next open().
    [[nodiscard]] virtual const bool& failing() const {
        static const bool never = false;
        return never;
    }
    // Crashes now, between two device operations.
    virtual void crash(CrashKind kind) = 0;
    // Sets a function that is called at the moment of each crash: the server of the store ends with
    // it. The function must only record the crash. Empty: none.
    virtual void on_crash(std::function<void()> told) = 0;
    // True from a crash to the next open().
    [[nodiscard]] virtual const bool& crashed() const = 0;
    // The last crash.
    [[nodiscard]] virtual const CrashPoint& point() const = 0;
};

}  // namespace ros2s::sim

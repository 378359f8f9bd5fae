// Rig: a store on media that can crash and be opened again. The engine's is engine_rig.h.
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
    power,    // what no flush covers survives in part or not at all
    process,  // completed writes stay readable, and stay volatile
};

// The crash comes with the first device operation that satisfies all of these.
struct CrashPlan {
    CrashKind kind = CrashKind::power;
    uint64_t operations = 0;         // at least so many operations after this was armed
    size_t unflushed_writes = 0;     // at least so many written or being written, and not flushed
    bool at_flush = false;           // when a flush is issued
    bool at_checkpoint = false;      // just after one was written; then the first is waived
    uint64_t operations_max = 2000;  // after so many, the last three are waived
};

// How the machine was found at a crash.
struct CrashPoint {
    CrashKind kind = CrashKind::power;
    // Set by the trial: while the store was opened; while it was asked to grow; while a container
    // was being made or destroyed; after a device had reported an error.
    bool in_recovery = false, in_growth = false, in_container_change = false;
    bool after_error = false;
    size_t unflushed_writes = 0;  // in flight included
    std::string operation;        // "read", "write", "flush", "discard"; empty: between two
};

class Rig {
  public:
    virtual ~Rig() = default;
    // Opens the store, at first an empty one. After an error or a crash close() comes first.
    virtual Task<Result<object::ObjectStore*>> open(Report& report) = 0;
    // Also after a crash, and after an open() that failed; again, and nothing happens.
    virtual Task<> close() = 0;

    // Adds to the store's space while it works, and tells what came of it. A crash may come in
    // between: then the next open() finds the one or the other.
    virtual Task<Result<>> grow(Report& report) = 0;
    // False when it has grown as far as it does.
    [[nodiscard]] virtual bool can_grow() const = 0;

    // What carries requests to the store may send one again by itself, so that already the first
    // answer to an operation id may be the stored one.
    [[nodiscard]] virtual bool repeats_requests() const { return false; }

    // For how long a client's replies are kept at least, where there is so little room that they go
    // then; nothing: as long as anybody asks.
    [[nodiscard]] virtual std::optional<Duration> reply_lease() const { return std::nullopt; }

    // From now on; disarmed by the crash. A rig whose devices report errors draws these, too.
    virtual void arm(const CrashPlan& plan) = 0;
    virtual void disarm() = 0;
    // A device has reported an error since the last open(): a request may fail, and what became of
    // it is known only after the next one.
    [[nodiscard]] virtual const bool& failing() const {
        static const bool never = false;
        return never;
    }
    // Crashes now, between two device operations.
    virtual void crash(CrashKind kind) = 0;
    // Called in the moment of each crash: whoever serves the store is gone with it. Must only note
    // it. Empty: nobody.
    virtual void on_crash(std::function<void()> told) = 0;
    // True from a crash to the next open().
    [[nodiscard]] virtual const bool& crashed() const = 0;
    // Of the last crash.
    [[nodiscard]] virtual const CrashPoint& point() const = 0;
};

}  // namespace ros2s::sim

// Queue: the two rings between a caller's thread and the core that serves it.
//
//     caller: put(), publish() ── requests ──►  core: poll() starts a coroutine for each
//     caller: reap()           ◄─ completions ─ core: complete() at its end, tell() once a turn
//
// Both rings have room for `depth` entries, and at most `depth` requests are between put and reap.
// So neither side ever waits for room in a ring. A caller with `depth` requests has no room().
//
// The caller runs the core's loop itself, in publish() and while it waits in reap() (class Lead).
// The eventfd is for the other cases: another thread runs the loop, or the caller waits for
// descriptor(). In `wanted_` the caller stores the number of completions that it sleeps for. The
// core writes the eventfd once when they are there. Each side first makes its entry visible and
// then reads the other's flag, both sequentially consistent, so at least one of the two sees the
// other's. The core does this once a turn for all completions of the turn, because a caller that
// wakes up for the first takes a processor from the rest. It always does it before it sleeps.
//
// Invariants
// - submitted_ - reaped_ <= depth; taken_ <= submitted_; reaped_ <= completed_ (as they wrap).
// - Each index is written by one thread: submitted_ by the submitter, reaped_ by the reaper,
//   completed_ by the core.
//
// Requests complete in any order, so each has a slot that it keeps until it is reaped. slots_ is a
// permutation: its positions from reaped_ to submitted_ (as they wrap) have the slots of the
// requests in progress, the others are free. Reaping swaps a request's slot to the position that
// becomes free. A forked child therefore finds the requests that its parent had in progress,
// without what the core knows, which may have changed during the fork.
//
// It has atomics because the caller of the C ABI has a thread of its own.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "ros2s/base/log.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2store/ros2store.h"

namespace ros2s::api {

// The core's data of an open file. Used on the core only.
struct CoreFile {
    fs::FileHandle handle{};
    uint32_t requests = 0;  // of queues, in progress
    std::string_view path;  // as it was opened, for the log
};

// A request in the ring.
struct QueueEntry {
    ros2s_opcode opcode{};
    CoreFile* file = nullptr;
    void* address = nullptr;
    uint64_t bytes = 0;
    uint64_t offset = 0;
    uint64_t user_data = 0;
};

class Queue final : public Poller {
  public:
    // Errors: no_memory, those of eventfd().
    [[nodiscard]] static Result<std::unique_ptr<Queue>> create(OsReactor& reactor,
                                                               fs::FileSystem& file_system,
                                                               uint32_t depth, Log log);
    // In a forked child: a queue in which the requests that `of_parent` has in progress have ended
    // with ECANCELED. Errors: those of create().
    [[nodiscard]] static Result<std::unique_ptr<Queue>> cancelled_copy(const Queue& of_parent,
                                                                       OsReactor& reactor,
                                                                       fs::FileSystem& file_system,
                                                                       Log log);
    ~Queue() override;

    // ---- the submitter's thread
    // The number of further entries that can be put.
    [[nodiscard]] uint32_t room() const noexcept {
        return depth_ - (unpublished_ - reaped_.load(std::memory_order_acquire));
    }
    // Adds an entry if there is room(). The core sees it after the next publish().
    void put(const QueueEntry& entry) noexcept { entries_[slots_[unpublished_++ & mask_]] = entry; }
    void publish() noexcept;

    // ---- the reaper's thread
    uint32_t reap(std::span<ros2s_completion> into, uint32_t least, int64_t timeout_ns) noexcept;
    [[nodiscard]] int descriptor() noexcept;

    // ---- the core
    bool poll() noexcept override;
    bool prepare_sleep() noexcept override;
    // Starts everything that was submitted; poll() may leave some for the next turn.
    void take_all() noexcept;
    // Waits until no request is in progress.
    Task<> drain();

  private:
    Queue(OsReactor& reactor, fs::FileSystem& file_system, uint32_t depth, int descriptor, Log log);
    void say_corrupt(const CoreFile& file, std::string_view what, const Error& error);
    // Starts requests until their payload reaches `bytes_max`. False if there were none.
    bool take(uint64_t bytes_max) noexcept;
    Task<> serve(uint32_t slot);
    void complete(uint32_t slot, int64_t result) noexcept;
    // The request at this position of completions_ is reaped.
    void release_slot(uint32_t at) noexcept;
    // Makes the completions visible to the caller, and wakes it if it sleeps for them.
    void tell() noexcept;
    [[nodiscard]] uint32_t available() const noexcept {
        return completed_.load(std::memory_order_seq_cst) - reaped_.load(std::memory_order_relaxed);
    }
    // Requests the eventfd at `count` completions. False if they are there already.
    [[nodiscard]] bool ask_for(uint32_t count) noexcept;
    void stop_asking() noexcept;
    // Requests the eventfd at the next completion, which may have happened already.
    void arm_descriptor() noexcept;
    void wait(uint32_t least, int64_t timeout_ns) noexcept;
    void wait_for_event(uint32_t least, Time until) noexcept;

    OsReactor& reactor_;
    fs::FileSystem& file_system_;
    const uint32_t depth_;
    const uint32_t mask_;
    const int descriptor_;
    std::unique_ptr<QueueEntry[]> entries_;  // by slot
    std::unique_ptr<uint32_t[]> slots_;
    std::unique_ptr<uint32_t[]> positions_;  // of each slot in slots_; the reaper's
    std::unique_ptr<ros2s_completion[]> completions_;
    std::unique_ptr<uint32_t[]> completed_slots_;  // of completions_

    static constexpr size_t line = 64;  // the two sides use different cache lines
    alignas(line) std::atomic<uint32_t> submitted_ = 0;
    uint32_t unpublished_ = 0;  // the submitter's: where put() continues
    uint32_t advanced_ = 0;     // the submitter's: what it has started itself
    alignas(line) std::atomic<uint32_t> reaped_ = 0;
    // descriptor() was called: the reaper does not wait in reap().
    std::atomic<bool> by_descriptor_ = false;
    alignas(line) std::atomic<uint32_t> wanted_ = 0;
    alignas(line) std::atomic<uint32_t> completed_ = 0;
    // The core's own.
    uint32_t taken_ = 0;
    uint32_t finished_ = 0;
    uint32_t corrupt_ = 0;
    Log log_;
    Call call_{};
    Nursery nursery_;
};

}  // namespace ros2s::api

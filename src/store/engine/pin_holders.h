// PinHolders: the list of the holders that may have pins. It outlives the process
// (EngineOptions::pin_list). After a start the store awaits the holders on the list, and no others.
//
//     first pin ──► add: written ──► pinned … over, left, or without pins for long ──► removed
//     start     ──► awaited, until it has pinned again or EngineOptions::pin_grace has passed
//     its session ends ──► written as ended, until it has pinned again
//
// One that has a container alone (an exclusive mount) is listed so: after a start nobody else is
// admitted there for a moment, and it can claim the container meanwhile.
//
// One that has ended may have lost locks to others, of which a restarted store knows nothing. After
// a start it can claim none.
//
// The list also says which holders defer changes. After a start these may have to repeat some
// (awaited_clients.h).
//
// A holder is written once. Additions wait for the writing; those that come meanwhile share the
// next one. Nobody waits for removals.
//
// Part of an open pool, which owns it. Used on core 0.
//
// Invariants
// - A holder of another process is on the written list before its first pin has an effect, and as
//   long as it has pins. Otherwise the written text is not a valid list, and the next start awaits
//   all holders.
// - Locks of a session exclude others until the written list has its holders as ended.
// - Bounded: an owner has no more holders than it leaves free.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "awaited_clients.h"
#include "ros2s/engine/options.h"
#include "ros2s/object/locks.h"
#include "ros2s/object/pins.h"
#include "ros2s/object/vocabulary.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/stop.h"

namespace ros2s::engine {

// The most holders that one list has.
inline constexpr size_t pin_list_holders_max = 8192;

// A pool's list of the holders of pins. Its text: docs/formats/served.md. Reentrant.
struct PinList {
    std::vector<object::HolderName> holders{};
    std::vector<object::HolderName> ended{};      // others, whose sessions had ended
    std::vector<object::HolderName> deferring{};  // of all these
    std::vector<object::HolderName> exclusive{};  // of `holders`: have their containers alone
};
[[nodiscard]] std::string encode_pin_list(const PinList& list);
// Empty: it is not a list, or it is damaged.
[[nodiscard]] std::optional<PinList> decode_pin_list(std::string_view text);

class PinHolders {
  public:
    PinHolders(const Environment& env, const EngineOptions& options, object::PinTable& pins,
               object::LockTable& locks, AwaitedClients& awaited);
    // Nobody can repeat anything now, but perhaps after the next start. Set by the pool.
    std::function<bool()> is_read_only = [] { return false; };
    Task<> start();
    // Writes the list if it has changed.
    Task<> stop();

    enum class Use : uint8_t { pins, defers };
    // A pin, or a deferred change, of the holder may be granted. If not, add() it first.
    [[nodiscard]] bool has(object::ContainerId container, const object::Holder& holder,
                           Use use = Use::pins) {
        return !keeps_list() || holder.session == 0 || touch(container, holder, use);
    }
    // Errors: no_memory (too many holders; detail: the limit).
    Task<Result<>> add(object::ContainerId container, object::Holder holder, Use use = Use::pins);
    // It has become exclusive, or is so no longer: returns when the list says so.
    Task<> write_again(const object::Holder& holder);
    // The holder ends. It is removed as soon as it has no pins, unless it pins again.
    void leave(object::ContainerId container, const object::Holder& holder);
    // The holder has again what it had.
    void pinned_again(object::ContainerId container, const object::Holder& holder);
    // After PinTable::session_ended(). Ends the session's locks, now or soon.
    void session_ended(uint64_t session, Time now, Time until);
    void client_ended(uint64_t session);
    // Those of the session that defer changes.
    [[nodiscard]] std::vector<Uuid> deferring(uint64_t session) const;

  private:
    struct Entry {
        uint64_t session = 0;      // 0: it is over, or was one of an earlier process
        Time until = Time::max();  // when its pins end
        Time used{};
        bool leaves = false;
        bool is_awaited = false;  // since the start
        bool has_ended = false;   // its session did, and it has not pinned again
        bool defers = false;
        uint64_t version = 0;  // the first that has it
    };
    [[nodiscard]] bool keeps_list() const { return static_cast<bool>(list_.write); }
    [[nodiscard]] bool is_written(const Entry& entry) const {
        return (awaits_all_ && !is_writing_) || entry.version <= written_;
    }
    [[nodiscard]] bool touch(object::ContainerId container, const object::Holder& holder, Use use);
    [[nodiscard]] size_t owners_share(const Uuid& owner) const;
    // Removes the entries for which `is_over` holds.
    template <class IsOver>
    void remove_if(IsOver is_over);
    // What has not come back when others are no longer refused cannot claim anything any more.
    void give_up_awaited();
    Task<> give_up_deferring();
    void end_locks();
    // Removes those that are over, and those that have had no pins for this time.
    void prune(Duration unused);
    void drop_entry_of(const Uuid& owner);
    // Until this version is written, or cannot be.
    Task<> wait_until_written(uint64_t version);
    static Task<> prune_sometimes(PinHolders& self);
    static Task<> write_out(PinHolders& self);

    const Environment& env_;
    const EngineOptions::PinList& list_;
    object::PinTable& pins_;
    object::LockTable& locks_;
    AwaitedClients& awaited_;
    struct Ending {
        uint64_t version = 0;  // of the list that knows of it
        uint64_t session = 0;
        Time until{};
    };
    std::deque<Ending> endings_;  // of sessions, in the order of their versions
    std::map<object::HolderName, Entry> entries_;
    std::map<Uuid, size_t> owners_;  // their entries
    uint64_t version_ = 0, written_ = 0;
    // The written text is not a valid list until this time.
    bool awaits_all_ = false;
    bool is_writing_ = false;  // a list that may lack those that were added since
    Time all_until_{}, awaited_until_{};
    bool has_warned_ = false;
    Event changed_, wrote_;
    StopSource closing_;
    std::optional<Nursery> background_;
};

}  // namespace ros2s::engine

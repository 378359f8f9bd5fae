// Committer: makes groups of transactions durable and visible, one journal record each.
// group_states.h has the states of a group.
//
//   update() stages into the open group ─┐ join: its blocks get their places
//                                        │ data is written as it comes, in pieces worth a write
//                                        ▼ seal: place the record, fix epochs
//   open ──────────────────────────► in flight: the rest and the record written side by side
//                                        ▼ all completed
//                                    every touched device flushed, in parallel
//                                        ▼ in order
//                                    applied, visible, acknowledged
//
// While a group is in flight the open one grows. A large group does not wait for the one in flight.
//
// A group is deferred if all its transactions are (Transaction::deferred). It is applied and
// acknowledged without its flush. The next flush makes it durable: that of a later group that waits
// for one, or that of flush_deferred(), which comes when somebody waits for it (make_durable),
// when much is deferred, and after deferred_max at the latest.
//
// Invariants (each a rule of docs/formats/journal.md; tests switch them off, rules/commit_rules.h)
// - A flush is issued only when every write it must cover has completed.
// - Groups become visible and are acknowledged in their order, and only once they are durable;
//   deferred ones once they are written.
// - A flush makes the deferred groups durable that were visible when it was issued, on all devices
//   that they were written to.
// - `durable_upto` in a record is the last group that was durable before the record was written.
// - A failed write or flush ends all writing at once, until the pool is opened again: no flush that
//   ends later acknowledges anything. Nothing is retried.
//
// Used on core 0.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "discarder.h"
#include "group.h"
#include "group_states.h"
#include "journal.h"
#include "options.h"
#include "publisher.h"
#include "ros2s/base/metrics.h"
#include "ros2s/device/block_device.h"
#include "ros2s/object/sharing_rules.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/trace.h"
#include "volatile_objects.h"

namespace ros2s::engine {

class Committer {
  public:
    // The end of the journal's chain, at which it continues.
    struct JournalEnd {
        Uuid pool;
        uint64_t incarnation = 0;
        uint64_t last_sequence = 0;  // durable and visible
        uint64_t last_id = 0;
        uint64_t next_id = 0;
        uint64_t next_epoch = 1;
        // Epochs from this one to next_epoch were lost by the loss of power before this opening, or
        // never given.
        uint64_t recovered_epoch = 1;
    };
    struct Counters {
        Counter groups, empty_groups, deferred_groups, deferred_flushes, transactions, blocks, runs,
            record_bytes, journal_waits;
    };

    Committer(const Environment& env, std::vector<device::BlockDevice*> devices, Cores& cores,
              Publisher& publisher, State& state, Journal& journal, const EngineOptions& options,
              const JournalEnd& journal_end, std::string read_only_reason);
    ~Committer();

    // Runs until stop(), and then until the joined transactions are done. Spawned by the pool.
    Task<> run();
    void stop();

    // Waits until the open group has room for `record_bytes` more. If the caller does not suspend
    // before join(), the room stays. Errors: too_large, read_only.
    Task<Result<>> admit(size_t record_bytes, uint64_t blocks);
    [[nodiscard]] Group& open() { return *open_; }
    // Staging for this transaction is the last change to open(). open() also has the nodes that the
    // transaction needs. The caller keeps these pinned until the group is done.
    struct Ticket {
        std::shared_ptr<Group> group;
        size_t index = 0;
    };
    Ticket join(TransactionRecord&& transaction, bool deferred = false);
    // join(), and waits until the group is published. Errors: those of the group's I/O.
    Task<Result<object::Commit>> commit(TransactionRecord&& transaction, Trace* trace = nullptr,
                                        bool deferred = false);

    // Waits until all groups up to this visible one are durable. Errors: io (some never will be),
    // cancelled, deadline.
    Task<Result<>> make_durable(const Call& call, uint64_t group);
    // Waits until all transactions that have joined are visible. The same errors.
    Task<Result<>> wait_visible(const Call& call);
    // ObjectStore::sync().
    Task<Result<uint64_t>> sync(const Call& call, const object::Acknowledged& known);
    // Errors: expired (the client knows another incarnation; detail: this one).
    [[nodiscard]] Result<> check_incarnation(const Call& call) const {
        const uint64_t known = call.client == nullptr ? 0 : call.client->incarnation;
        if (known == 0 || known == incarnation_ || !object::sharing_rules.refuse_unaware) return {};
        return fail(Code::expired, incarnation_);
    }
    // May this transaction, which joins next, be deferred? Not if there is no room to note it.
    [[nodiscard]] bool may_defer(object::ContainerId container,
                                 const object::Transaction& transaction) {
        return volatile_.note(container, transaction, states_.ordered() + 1, env_.reactor.now());
    }
    [[nodiscard]] const VolatileObjects& volatile_objects() const { return volatile_; }
    [[nodiscard]] const GroupStates& states() const { return states_; }
    // For so long there have been deferred groups that no flush was issued for.
    [[nodiscard]] Duration volatile_for() const {
        return volatile_since_ ? env_.reactor.now() - *volatile_since_ : Duration{};
    }
    // A deferred group is durable this long after its acknowledgement, if the device is fast
    // enough.
    static constexpr Duration deferred_max = std::chrono::seconds(1);

    // Commits an empty group if that would free blocks in quarantine. False: it would not, and no
    // group in progress could.
    [[nodiscard]] bool advance_proof();
    // Commits an empty group if no durable record proves the last update, and no group is in
    // progress. Damage to that update's group would otherwise look like a torn tail.
    void prove_last();
    // The last group that was sealed.
    [[nodiscard]] uint64_t last_sequence() const { return states_.ordered(); }
    // Signalled when a group is done or blocks become available.
    Event& progress() { return progress_; }
    // A read has ended: blocks may be released.
    void release_space();
    // Discards unused blocks on their devices. They then become available.
    [[nodiscard]] Discarder& discarder() { return discarder_; }
    [[nodiscard]] const Discarder& discarder() const { return discarder_; }
    // A checkpoint has made room in the journal.
    void journal_trimmed() { wake_.wake_all(); }
    // Set by the pool: called when a checkpoint is due, and when the committer has died.
    std::function<void()> want_checkpoint;
    // A new device's blocks may be used from now on.
    void add_device(device::BlockDevice* device);

    // No more writes are accepted; `reason` is a sentence for people.
    void die(const Error& error, std::string reason);
    [[nodiscard]] bool is_dead() const { return dead_.has_value(); }
    // Empty: updates are accepted. Otherwise a sentence for people.
    [[nodiscard]] const std::string& read_only_reason() const { return read_only_reason_; }

    // For checkpoints: the applied group's end in the journal, the next ids, its incarnation.
    struct Cut {
        uint64_t position = 0;
        uint64_t last_id = 0;
        uint64_t next_id = 0;
        uint64_t incarnation = 0;
    };
    [[nodiscard]] const Cut& applied_cut() const { return cut_; }
    // Frees groups and payload memory that nothing uses.
    void drop_spare();
    ChunkPool chunks;
    Counters counters;

  private:
    [[nodiscard]] bool can_seal() const;
    [[nodiscard]] bool is_large() const;  // the open group
    Task<> gather();
    std::shared_ptr<Group> seal();
    void place_blocks(TransactionRecord& transaction);
    void write_ahead();
    void look_ahead(const Group& group);
    ConstBytes place_record(Group& group);
    Task<> write(std::shared_ptr<Group> group);
    // Placed blocks that are contiguous on the device and in memory.
    struct Piece {
        uint32_t device = 0;
        uint64_t offset = 0;
        ConstBytes bytes;
    };
    [[nodiscard]] Piece next_piece(Group& group, uint32_t device, uint64_t least) const;
    static Task<Result<>> write_of(const Group& group, device::BlockDevice& device, uint64_t offset,
                                   ConstBytes bytes);
    Task<> write_piece(Group& group, Piece piece);
    Task<> write_piece_of(std::shared_ptr<Group> group, Piece piece);
    Task<> write_record(Group& group, ConstBytes record);
    Task<> flush_device(Group& group, device::BlockDevice& device);
    Task<> flush(Group& group);
    Task<> flush_deferred();
    [[nodiscard]] Time next_flush() const;
    void wake_flush();
    void want_durable(uint64_t group);
    void note_volatile(const Group& group);
    void note_failure(Group& group, const Result<>& failed);
    void learn(bool soon);
    void finish(Group& group);
    void fail_group(Group& group, Result<> outcome);
    [[nodiscard]] std::shared_ptr<Group> make_group();
    void choose_discards(uint32_t device);

    const Environment& env_;
    std::vector<device::BlockDevice*> devices_;
    Cores& cores_;
    Publisher& publisher_;
    State& state_;
    Journal& journal_;
    bool may_discard_;
    uint32_t groups_in_flight_max_;
    uint32_t large_groups_in_flight_max_;
    uint64_t large_group_blocks_;
    uint64_t group_blocks_max_;
    JournalEnd journal_end_;
    // The incarnation as clients know it: its first epoch, and 16 bits of its number. The number is
    // secret, because recovery takes what has it for a record.
    const uint64_t incarnation_;
    Nursery nursery_;
    Nursery ahead_;  // writes of groups that are not sealed yet
    // All groups. A group that nothing else refers to is reused, so that a new group allocates
    // nothing.
    std::vector<std::shared_ptr<Group>> groups_;
    std::shared_ptr<Group> open_;
    uint32_t in_flight_ = 0;
    bool want_empty_ = false;
    size_t burst_ = 0;       // the expected size of the next group, in transactions
    Duration quiet_max_;     // with no new transaction for so long, a burst has ended
    bool is_short_ = false;  // the last group had less than the expected size ...
    Time sealed_short_{};    // ... and was sealed at this time
    bool stopping_ = false;
    GroupStates states_;
    VolatileObjects volatile_;
    uint64_t filled_ = 0;       // the last visible group that was not empty
    uint64_t flushed_max_ = 0;  // for the rule that tests may switch off
    // Of the groups that became visible without a flush since the last flush was issued: when the
    // first one did, and their blocks.
    std::optional<Time> volatile_since_;
    uint64_t volatile_blocks_ = 0;
    std::vector<uint64_t> volatile_on_;  // by device: the last deferred group with blocks there
    uint64_t wanted_durable_ = 0;        // somebody waits for this group
    StopSource* flush_pause_ = nullptr;  // while flush_deferred() sleeps
    bool flush_ends_ = false;
    Cut cut_;
    std::optional<Error> dead_;
    std::string read_only_reason_;
    Event wake_;     // wakes the loop
    Event ordered_;  // a group is done
    Event opened_;   // the open group has been replaced
    Event progress_;
    Discarder discarder_;
    std::vector<BlockRun> set_apart_;
};

}  // namespace ros2s::engine

// The rules that crashes, errors of devices and requests on several cores punish the lack of: those
// of the commit protocol (docs/formats/journal.md, "Rules"), and what else tests once did not
// notice. Tests switch one off to show that the crash suite notices; programs never do.
#pragma once

namespace ros2s::engine {

struct CommitRules {
    // A group is flushed before it is acknowledged ...
    bool flush_groups = true;
    // ... on every device that it was written to ...
    bool flush_all_devices = true;
    // ... and only after all data and record writes that this must cover have completed.
    bool flush_after_writes = true;
    // ... those included that began before it was sealed.
    bool await_writes_ahead = true;
    // Recovery compares the data of unproven records with the CRCs in them ...
    bool verify_tail_data = true;
    // ... and not the data of proven ones, whose blocks may have been used again since.
    bool verify_only_unproven = true;
    // It applies what the index does not have, and nothing else.
    bool replay_once = true;
    // It begins at the newest checkpoint.
    bool newest_checkpoint = true;
    // A displaced block is not free at once ...
    bool quarantine = true;
    // ... and not before the reads that began earlier have ended.
    bool await_reads = true;
    // Groups are acknowledged in their order.
    bool acknowledge_in_order = true;
    // A displaced block is free only when a record that proves the displacement is itself durable.
    bool two_generations = true;
    // A record is the next only if it has the announced id and names its predecessor's.
    bool chain = true;
    // Nobody can know a record's id before it is written: not an older record in its place either.
    bool fresh_ids = true;
    // A record is not written over one that recovery still needs.
    bool await_room = true;
    // After recovery a restart record is written and flushed before any block is used again.
    bool restart_record = true;
    // What recovery goes by and nothing proves is written again, and flushed, before the restart
    // record says that it is durable.
    bool write_again = true;

    // A block that is being discarded is handed out when the device has answered.
    bool discard_ends_first = true;
    // One whose discard failed is not handed out before the pool is opened again.
    bool heed_failed_discards = true;

    // A failed write or flush ends all writing in the moment in which it is known, so that no flush
    // that ends later acknowledges anything ...
    bool fail_at_once = true;
    // ... of data ...
    bool heed_failed_data = true;
    // ... of records ...
    bool heed_failed_records = true;
    // ... and of flushes alike.
    bool heed_failed_flushes = true;

    // The index is flushed before a checkpoint's slot says that it has the groups.
    bool flush_index = true;
    // An index that cannot take a checkpoint ends all writing.
    bool heed_failed_index = true;
    // The slot is written before the journal is trimmed ...
    bool trim_after_slot = true;
    // ... and flushed.
    bool flush_checkpoint = true;
    // A checkpoint cuts between two groups, on all cores.
    bool cut_between_groups = true;
    // It has all regions of the map of blocks in use that have changed.
    bool cut_all_regions = true;
    // What is gone is taken out of the index: keys ...
    bool erase_absent = true;
    // ... and containers.
    bool erase_containers = true;
    // The replies that are kept are in the checkpoint ...
    bool checkpoint_replies = true;
    // ... and the mark that some are not kept any more.
    bool checkpoint_marks = true;
    // Nobody reads a node to which a group was applied before it is applied on every core.
    bool hold_nodes = true;
    // A displaced block is not used again while a read on any core may still look at it.
    bool count_all_reads = true;
    // What several cores change of one summary is in it in the order of the transactions.
    bool settle_in_order = true;
    // What cuts an array off cuts off all of its segments, however many it has.
    bool cut_all_segments = true;
    // What a transaction reads and writes is locked ...
    bool lock_keys = true;
    // ... until its group is applied.
    bool lock_until_applied = true;

    // A repetition waits for the first try.
    bool await_first_try = true;
    // One whose reply is not kept any more is refused: it may have been done.
    bool expire_unknown = true;
    // Replies are kept for the lease of their client.
    bool keep_for_lease = true;
    // Times are the clock's, also where it was set back.
    bool follow_clock = true;

    // A device that was restored from an old copy is refused ...
    bool refuse_old_copies = true;
    // ... and no other: a generation counts when all devices have it.
    bool settle_last = true;
    // A pool that grows is known by the new device first.
    bool new_device_first = true;
    // What a crash left of a destroyed container is removed at the next opening.
    bool resume_purges = true;

    // What they protect: an update is acknowledged when its group is durable. Without it,
    // updates without conditions are acknowledged as soon as they are staged in memory. That is the
    // control of the kill test (tests/kill), which must notice.
    bool acknowledge_durable = true;
};

// What holds where nobody says otherwise: every rule. A program of its own may define this function
// itself, which then replaces the library's; the kill test's control does.
[[nodiscard]] CommitRules default_rules();

}  // namespace ros2s::engine

// CommitRules lists the rules that protect against crashes, device errors and concurrent requests:
// those of the commit protocol (docs/formats/journal.md, "Rules"), and others whose absence tests
// once did not detect. In programs all hold, as constants. The crash suite links another build of
// the engine (engine_switchable in CMakeLists.txt), in which it switches one off to show that it
// detects this.
#pragma once

namespace ros2s::engine {

struct CommitRules {
    // A group is flushed before it is acknowledged ...
    bool flush_groups = true;
    // ... on every device that it was written to ...
    bool flush_all_devices = true;
    // ... and only after all data and record writes that it must cover have completed.
    bool flush_after_writes = true;
    // ... including those that began before it was sealed.
    bool await_writes_ahead = true;
    // A flush makes durable what was visible when it was issued, and not what came meanwhile.
    bool cover_what_came_before = true;
    // Deferred groups are durable before a checkpoint has them ...
    bool flush_before_index = true;
    // ... and before another process learns of them.
    bool show_durable_only = true;
    // Recovery compares the data of unproven records with the CRCs in them ...
    bool verify_tail_data = true;
    // ... and not the data of proven ones: their blocks may have been reused since.
    bool verify_only_unproven = true;
    // It applies the groups that the index does not have, and nothing else.
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
    // A record is the next one only if it has the announced id and names its predecessor's.
    bool chain = true;
    // A record's id is random: an older record in its place cannot have it.
    bool fresh_ids = true;
    // A record is not written over a record that recovery still needs.
    bool await_room = true;
    // After recovery a restart record is written and flushed before any block is used again.
    bool restart_record = true;
    // Records that recovery used and nothing proves are written again, and flushed, before the
    // restart record states that they are durable.
    bool write_again = true;

    // A block that is being discarded is available only after the device has answered.
    bool discard_ends_first = true;
    // A block with a failed discard is not available before the pool is opened again.
    bool heed_failed_discards = true;

    // A failed write or flush ends all writing at once when it is known, so that no flush that ends
    // later acknowledges anything ...
    bool fail_at_once = true;
    // ... of data ...
    bool heed_failed_data = true;
    // ... of records ...
    bool heed_failed_records = true;
    // ... and of flushes.
    bool heed_failed_flushes = true;

    // The index is flushed before a checkpoint's slot states that it has the groups.
    bool flush_index = true;
    // An index that fails to store a checkpoint ends all writing.
    bool heed_failed_index = true;
    // The slot is written before the journal is trimmed ...
    bool trim_after_slot = true;
    // ... and flushed.
    bool flush_checkpoint = true;
    // A checkpoint cuts between two groups, on all cores.
    bool cut_between_groups = true;
    // It has all changed regions of the map of used blocks.
    bool cut_all_regions = true;
    // Removed things are erased from the index: keys ...
    bool erase_absent = true;
    // ... and containers.
    bool erase_containers = true;
    // The stored replies are in the checkpoint ...
    bool checkpoint_replies = true;
    // ... and so is the mark that some were dropped.
    bool checkpoint_marks = true;
    // After a group was applied to a node, the node is not read before all cores have applied it.
    bool hold_nodes = true;
    // A displaced block is not reused while a read on any core may still access it.
    bool count_all_reads = true;
    // Changes of one summary by several cores take effect in the order of the transactions.
    bool apply_totals_in_order = true;
    // Cutting off an array cuts off all of its segments.
    bool cut_all_segments = true;
    // The keys that a transaction reads and writes are locked ...
    bool lock_keys = true;
    // ... until its group is applied.
    bool lock_until_applied = true;

    // A repetition waits for the first try.
    bool await_first_try = true;
    // A repetition without a stored reply is refused: the update may have been done.
    bool expire_unknown = true;
    // Replies are kept for the lease of their client.
    bool keep_for_lease = true;
    // Times follow the clock, also if it was set back.
    bool follow_clock = true;

    // A device that was restored from an old copy is refused ...
    bool refuse_old_copies = true;
    // ... and no other device: a generation counts when all devices have it.
    bool reach_last = true;
    // When a pool grows, the new device is written first.
    bool new_device_first = true;
    // The rest of a destroyed container after a crash is removed at the next opening.
    bool resume_purges = true;

    // The purpose of these rules: an update is acknowledged when its group is durable. Without this
    // rule, updates without conditions are acknowledged as soon as they are staged in memory. The
    // kill test (tests/kill) uses this as a control, and must detect it.
    bool acknowledge_durable = true;
};

#ifdef ROS2S_SWITCHABLE_RULES
inline CommitRules rules;  // changed only while no pool is open
#else
inline constexpr CommitRules rules;
#endif

}  // namespace ros2s::engine

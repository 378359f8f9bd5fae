// The rules that crashes, errors of devices and requests on several cores punish the lack of: those
// of the commit protocol (docs/formats/journal.md, "Rules"), and what else tests once did not
// notice. Tests switch one off to show that the crash suite notices; programs never do.
#pragma once

namespace ros2s::engine {

struct CommitRules {
    // A group is flushed before it is acknowledged ...
    bool flush_groups = true;
    // ... and only after all data and record writes that this must cover have completed.
    bool flush_after_writes = true;
    // Recovery compares the data of unproven records with the CRCs in them ...
    bool verify_tail_data = true;
    // ... and not the data of proven ones, whose blocks may have been used again since.
    bool verify_only_unproven = true;
    // A displaced block is not free at once.
    bool quarantine = true;
    // Groups are acknowledged in their order.
    bool acknowledge_in_order = true;
    // A displaced block is free only when a record that proves the displacement is itself durable.
    bool two_generations = true;
    // A record is the next only if it has the announced id and names its predecessor's.
    bool chain = true;
    // After recovery a restart record is written and flushed before any block is used again.
    bool restart_record = true;
    // What recovery goes by and nothing proves is written again, and flushed, before the restart
    // record says that it is durable.
    bool write_again = true;

    // A block that is being discarded is handed out when the device has answered.
    bool discard_ends_first = true;

    // A failed write or flush ends all writing in the moment in which it is known, so that no flush
    // that ends later acknowledges anything ...
    bool fail_at_once = true;
    // ... and a failed write of data does as one of a record.
    bool heed_failed_data = true;
    // The checkpoint's slot is flushed before the journal is trimmed.
    bool flush_checkpoint = true;
    // A checkpoint cuts between two groups, on all cores.
    bool cut_between_groups = true;
    // Nobody reads a node to which a group was applied before it is applied on every core.
    bool hold_nodes = true;
    // A displaced block is not used again while a read on any core may still look at it.
    bool count_all_reads = true;
    // What cuts an array off cuts off all of its segments, however many it has.
    bool cut_all_segments = true;

    // What they protect: an update is acknowledged when its group is durable. Without it,
    // updates without conditions are acknowledged as soon as they are staged in memory. That is the
    // control of the kill test (tests/kill), which must notice.
    bool acknowledge_durable = true;
};

// What holds where nobody says otherwise: every rule. A program of its own may define this function
// itself, which then replaces the library's; the kill test's control does.
[[nodiscard]] CommitRules default_rules();

}  // namespace ros2s::engine

// The engine's rules (commit_rules.h), and the promise that they protect (acknowledge-durable), by
// name, for tests that remove them; and the set-ups in which the crash suite notices that one is
// gone.
#pragma once
#include <array>
#include <span>
#include <string_view>

#include "ros2s/engine/rules/commit_rules.h"

namespace ros2s::sim {

// A set-up in which a store is tested.
struct SetUp {
    uint32_t groups = 1;  // in flight
    uint32_t cores = 1;
    bool errors = false;    // devices report some
    bool deferred = false;  // most transactions are deferred
};
inline constexpr SetUp by_crashes[] = {{.groups = 1}, {.groups = 3}};
inline constexpr SetUp by_three_groups[] = {{.groups = 3}};
inline constexpr SetUp by_errors[] = {{.groups = 3, .errors = true},
                                      {.groups = 3, .cores = 2, .errors = true}};
inline constexpr SetUp by_cores[] = {{.groups = 3, .cores = 2}, {.groups = 3, .cores = 4}};
inline constexpr SetUp by_many_cores[] = {{.groups = 3, .cores = 4}};
inline constexpr SetUp by_deferred[] = {{.groups = 1, .deferred = true},
                                        {.groups = 3, .deferred = true}};
inline constexpr SetUp by_errors_on_cores[] = {{.groups = 3, .cores = 4, .errors = true}};

inline constexpr SetUp all_set_ups[] = {by_crashes[0],         by_crashes[1],  by_errors[0],
                                        by_errors[1],          by_cores[0],    by_cores[1],
                                        by_errors_on_cores[0], by_deferred[0], by_deferred[1]};

struct NamedRule {
    std::string_view name;
    bool engine::CommitRules::* rule;
    std::span<const SetUp> set_ups = by_crashes;
};

inline constexpr std::array<NamedRule, 51> named_rules = {{
    {"flush-groups", &engine::CommitRules::flush_groups},
    {"flush-all-devices", &engine::CommitRules::flush_all_devices, by_three_groups},
    {"flush-after-writes", &engine::CommitRules::flush_after_writes},
    {"await-writes-ahead", &engine::CommitRules::await_writes_ahead, by_three_groups},
    {"cover-what-came-before", &engine::CommitRules::cover_what_came_before, by_deferred},
    {"flush-before-index", &engine::CommitRules::flush_before_index, by_deferred},
    {"show-durable-only", &engine::CommitRules::show_durable_only, by_deferred},
    {"verify-tail-data", &engine::CommitRules::verify_tail_data},
    {"verify-only-unproven", &engine::CommitRules::verify_only_unproven},
    {"replay-once", &engine::CommitRules::replay_once, by_three_groups},
    {"newest-checkpoint", &engine::CommitRules::newest_checkpoint, by_three_groups},
    {"quarantine", &engine::CommitRules::quarantine},
    {"await-reads", &engine::CommitRules::await_reads, by_errors},
    {"acknowledge-in-order", &engine::CommitRules::acknowledge_in_order},
    {"two-generations", &engine::CommitRules::two_generations},
    {"chain", &engine::CommitRules::chain, by_three_groups},
    {"fresh-ids", &engine::CommitRules::fresh_ids, by_three_groups},
    {"await-room", &engine::CommitRules::await_room, by_three_groups},
    {"restart-record", &engine::CommitRules::restart_record},
    {"write-again", &engine::CommitRules::write_again},
    {"discard-ends-first", &engine::CommitRules::discard_ends_first},
    {"heed-failed-discards", &engine::CommitRules::heed_failed_discards, by_errors},
    {"fail-at-once", &engine::CommitRules::fail_at_once, by_errors},
    {"heed-failed-data", &engine::CommitRules::heed_failed_data, by_errors},
    {"heed-failed-records", &engine::CommitRules::heed_failed_records, by_errors},
    {"heed-failed-flushes", &engine::CommitRules::heed_failed_flushes, by_errors},
    {"flush-index", &engine::CommitRules::flush_index, by_three_groups},
    {"heed-failed-index", &engine::CommitRules::heed_failed_index, by_three_groups},
    {"trim-after-slot", &engine::CommitRules::trim_after_slot, by_three_groups},
    {"flush-checkpoint", &engine::CommitRules::flush_checkpoint, by_errors_on_cores},
    {"cut-between-groups", &engine::CommitRules::cut_between_groups, by_cores},
    {"cut-all-regions", &engine::CommitRules::cut_all_regions, by_three_groups},
    {"erase-absent", &engine::CommitRules::erase_absent, by_three_groups},
    {"erase-containers", &engine::CommitRules::erase_containers, by_three_groups},
    {"checkpoint-replies", &engine::CommitRules::checkpoint_replies, by_three_groups},
    {"checkpoint-marks", &engine::CommitRules::checkpoint_marks, by_errors_on_cores},
    {"hold-nodes", &engine::CommitRules::hold_nodes, by_many_cores},
    {"count-all-reads", &engine::CommitRules::count_all_reads, by_cores},
    {"apply-totals-in-order", &engine::CommitRules::apply_totals_in_order, by_cores},
    {"cut-all-segments", &engine::CommitRules::cut_all_segments},
    {"lock-keys", &engine::CommitRules::lock_keys, by_three_groups},
    {"lock-until-applied", &engine::CommitRules::lock_until_applied, by_three_groups},
    {"await-first-try", &engine::CommitRules::await_first_try, by_three_groups},
    {"expire-unknown", &engine::CommitRules::expire_unknown, by_three_groups},
    {"keep-for-lease", &engine::CommitRules::keep_for_lease, by_three_groups},
    {"follow-clock", &engine::CommitRules::follow_clock, by_three_groups},
    {"refuse-old-copies", &engine::CommitRules::refuse_old_copies, by_three_groups},
    {"reach-last", &engine::CommitRules::reach_last, by_three_groups},
    {"new-device-first", &engine::CommitRules::new_device_first, by_three_groups},
    {"resume-purges", &engine::CommitRules::resume_purges, by_three_groups},
    {"acknowledge-durable", &engine::CommitRules::acknowledge_durable},
}};
static_assert(sizeof(engine::CommitRules) == named_rules.size(), "a rule without a name");

inline const NamedRule* find_rule(std::string_view name) {
    for (const NamedRule& rule : named_rules) {
        if (rule.name == name) return &rule;
    }
    return nullptr;
}

}  // namespace ros2s::sim

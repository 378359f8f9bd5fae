// The engine's rules (commit_rules.h), and the promise that they protect (acknowledge-durable), by
// name, for tests that remove them; and the set-ups in which the crash suite notices that one is
// gone.
#pragma once
#include <array>
#include <span>
#include <string_view>

#include "ros2s/engine/commit_rules.h"

namespace ros2s::sim {

// What a store is tried in.
struct SetUp {
    uint32_t groups = 1;  // in flight
    uint32_t cores = 1;
    bool errors = false;  // devices report some
    friend bool operator==(const SetUp&, const SetUp&) = default;
};
inline constexpr SetUp by_crashes[] = {{.groups = 1}, {.groups = 3}};
inline constexpr SetUp by_errors[] = {{.groups = 3, .errors = true},
                                      {.groups = 3, .cores = 2, .errors = true}};
inline constexpr SetUp by_cores[] = {{.groups = 3, .cores = 2}, {.groups = 3, .cores = 4}};
inline constexpr SetUp by_many_cores[] = {{.groups = 3, .cores = 4}};

inline constexpr SetUp all_set_ups[] = {by_crashes[0], by_crashes[1], by_errors[0],
                                        by_errors[1],  by_cores[0],   by_cores[1]};

struct NamedRule {
    std::string_view name;
    bool engine::CommitRules::* rule;
    std::span<const SetUp> set_ups = by_crashes;
};

inline constexpr std::array<NamedRule, 19> named_rules = {{
    {"flush-groups", &engine::CommitRules::flush_groups},
    {"flush-after-writes", &engine::CommitRules::flush_after_writes},
    {"verify-tail-data", &engine::CommitRules::verify_tail_data},
    {"verify-only-unproven", &engine::CommitRules::verify_only_unproven},
    {"quarantine", &engine::CommitRules::quarantine},
    {"acknowledge-in-order", &engine::CommitRules::acknowledge_in_order},
    {"two-generations", &engine::CommitRules::two_generations},
    {"chain", &engine::CommitRules::chain},
    {"restart-record", &engine::CommitRules::restart_record},
    {"write-again", &engine::CommitRules::write_again},
    {"discard-ends-first", &engine::CommitRules::discard_ends_first},
    {"fail-at-once", &engine::CommitRules::fail_at_once, by_errors},
    {"heed-failed-data", &engine::CommitRules::heed_failed_data, by_errors},
    {"flush-checkpoint", &engine::CommitRules::flush_checkpoint},
    {"cut-between-groups", &engine::CommitRules::cut_between_groups, by_cores},
    {"hold-nodes", &engine::CommitRules::hold_nodes, by_many_cores},
    {"count-all-reads", &engine::CommitRules::count_all_reads, by_cores},
    {"cut-all-segments", &engine::CommitRules::cut_all_segments},
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

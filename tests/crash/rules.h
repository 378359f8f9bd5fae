// The eleven rules of the commit protocol, and the promise that they protect (acknowledge-durable),
// by name, for tests that remove them.
#pragma once
#include <array>
#include <string_view>

#include "ros2s/engine/commit_rules.h"

namespace ros2s::sim {

struct NamedRule {
    std::string_view name;
    bool engine::CommitRules::* rule;
};

inline constexpr std::array<NamedRule, 12> named_rules = {{
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

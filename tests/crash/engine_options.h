// The options that the campaigns of an engine share.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "campaign.h"
#include "ros2s/sim/engine/engine_rig.h"
#include "rules.h"

namespace ros2s::sim {

struct EngineOptions {
    EngineRigOptions rig;
    const NamedRule* missing = nullptr;

    // After those of the program.
    [[nodiscard]] std::vector<Option> behind(std::vector<Option> options) {
        std::map<std::string, const NamedRule*> rules;
        for (const NamedRule& rule : named_rules) rules.emplace(rule.name, &rule);
        options.push_back(numeric("groups", rig.groups_in_flight, 1, 16));
        options.push_back(numeric("cores", rig.cores, 1, 16));
        options.push_back(
            one_of("index", rig.index,
                   {{"ordered", IndexKind::ordered}, {"rocksdb", IndexKind::rocksdb}}));
        options.push_back(yes_or_no("errors", rig.device_errors));
        options.push_back(one_of("remove-rule", missing, std::move(rules)));
        return options;
    }
    // Once the options are read.
    void remove_rule() {
        if (missing != nullptr) rig.rules.*missing->rule = false;
    }
};

}  // namespace ros2s::sim

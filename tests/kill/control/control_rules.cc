// The one difference of a control: the rule REMOVED_RULE does not hold.
#include "ros2s/engine/commit_rules.h"

namespace ros2s::engine {

CommitRules default_rules() {
    CommitRules rules;
    rules.REMOVED_RULE = false;
    return rules;
}

}  // namespace ros2s::engine

// The one difference of the control build: it acknowledges what is still in its memory.
#include "ros2s/engine/commit_rules.h"

namespace ros2s::engine {

CommitRules default_rules() {
    CommitRules rules;
    rules.acknowledge_durable = false;
    return rules;
}

}  // namespace ros2s::engine

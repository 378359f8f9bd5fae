// The one difference of this control: its flushes do not wait for the writes that they must cover.
#include "ros2s/engine/commit_rules.h"

namespace ros2s::engine {

CommitRules default_rules() {
    CommitRules rules;
    rules.flush_after_writes = false;
    return rules;
}

}  // namespace ros2s::engine

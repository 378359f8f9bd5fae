// The one difference of a control: the rule REMOVED_RULE does not hold.
#include "ros2s/engine/rules/commit_rules.h"

namespace {

[[maybe_unused]] const bool holds = ros2s::engine::rules.REMOVED_RULE = false;

}  // namespace

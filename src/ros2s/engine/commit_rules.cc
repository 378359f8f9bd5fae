#include "commit_rules.h"

// Alone in its file, so that a program's own definition keeps this one out of the link.
namespace ros2s::engine {

CommitRules default_rules() { return {}; }

}  // namespace ros2s::engine

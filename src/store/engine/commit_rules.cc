#include "commit_rules.h"

// In a file of its own, so that a program's own definition replaces it at link time.
namespace ros2s::engine {

CommitRules default_rules() { return {}; }

}  // namespace ros2s::engine

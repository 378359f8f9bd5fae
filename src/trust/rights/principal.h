// Principal: who wants something of a pool: the subject of a certificate, with its tenant in the
// pool, and what limits it there.
//
// Plain values; any thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ros2s/capability/capability.h"
#include "ros2s/rights/grants/grant.h"
#include "ros2s/rights/user_mapping.h"

namespace ros2s::rights {

// A chain of capabilities whose signatures were verified. Its holder has this part of the rights of
// the tenant, and no more.
struct VerifiedCapability {
    std::string pool;
    capability::Capability first, last;  // of the chain, perhaps the same one
};

struct Principal {
    std::string subject;
    std::string tenant{};  // empty: it has none in the pool
    // The name under which it owns containers. Empty: it owns none.
    std::string owner{};
    UserMapping users{};
    std::shared_ptr<const VerifiedCapability> capability{};  // null: none
    // At a delegated DPU: what programs of its tenant handed over.
    std::vector<Grant> handed_over{};
};

}  // namespace ros2s::rights

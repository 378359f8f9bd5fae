// Principal: who wants something of a pool: the subject of a certificate, with its tenant in the
// pool, and what limits it there.
//
// Plain values; any thread.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ros2s/base/uuid.h"
#include "ros2s/capability/capability.h"
#include "ros2s/rights/grant.h"
#include "ros2s/rights/user_mapping.h"

namespace ros2s::rights {

// A chain of capabilities whose signatures were verified. Its holder has this part of the rights of
// the tenant, and no more.
struct VerifiedCapability {
    Grant grant;
    // Only directories that the tenant's grants name. The holder is a DPU, which checks paths.
    bool directories = false;
    uint8_t links = 1;
    uint64_t generation = 0;          // of the tenant's record
    Uuid first, last;                 // ids of the links
    capability::PublicKey program{};  // the holder of the first link
    WallTime begins{}, ends{};        // by the engine's clock
};

struct Principal {
    std::string subject;
    std::string tenant{};  // empty: it has none in the pool
    // The name under which it owns containers. Empty: it owns none.
    std::string owner{};
    UserMapping users{};
    std::optional<VerifiedCapability> capability{};
    // At a delegated DPU: what programs of its tenant handed over.
    std::vector<Grant> handed_over{};
};

}  // namespace ros2s::rights

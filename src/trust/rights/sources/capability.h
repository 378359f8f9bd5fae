// The grants of capabilities whose chain was verified, and their holders.
#pragma once
#include "ros2s/capability/capability.h"
#include "ros2s/rights/policy.h"

namespace ros2s::rights {

[[nodiscard]] Grant grant_of(const std::string& pool, const capability::Use& use);
// `first` and `last`: the links of the chain, perhaps the same one.
[[nodiscard]] VerifiedCapability verified(const std::string& pool,
                                          const capability::Capability& first,
                                          const capability::Capability& last);
// The subject that shows that chain: the tenant's rights, as far as the capability has them.
[[nodiscard]] Principal holder_of(const Policy& policy, const std::string& subject,
                                  const std::string& pool, const capability::Capability& first,
                                  const capability::Capability& last);
// True if a tenant with these grants may have a capability for that use: it has the rights, or, for
// directories, has them in one of the container.
[[nodiscard]] bool give(std::span<const Grant> grants, const std::string& pool,
                        const capability::Use& use);

}  // namespace ros2s::rights

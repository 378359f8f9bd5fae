// The grants of capabilities whose chain was verified.
#pragma once
#include "ros2s/capability/capability.h"
#include "ros2s/rights/principal.h"

namespace ros2s::rights {

[[nodiscard]] Grant grant_of(const std::string& pool, const capability::Use& use);
// `first` and `last`: the links of the chain, perhaps the same one.
[[nodiscard]] VerifiedCapability verified(const std::string& pool,
                                          const capability::Capability& first,
                                          const capability::Capability& last);

}  // namespace ros2s::rights

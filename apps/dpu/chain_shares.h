// The limit of capability chains of each tenant at a DPU (DelegatedChains), and the choice of the
// chain to remove when there are too many. A chain that no mount uses only saves calls, and its
// host can hand it over again.
#pragma once
#include <map>
#include <string>
#include <utility>

#include "ros2s/base/quota.h"
#include "ros2s/base/result.h"

namespace ros2s::dpud {

using TenantOfPool = std::pair<std::string, std::string>;  // pool, tenant

struct ChainCount {
    size_t all = 0;
    size_t unused = 0;  // of these: chains that no mount uses
};

struct ChainBounds {
    size_t per_tenant = 32;
    // Each may have a session. An engine has 2,048 for one subject (apps/engine), and here up to 16
    // are ending.
    size_t in_all = 480;
};

// The tenant whose unused chain goes, so that `tenant` has one more. Null: there is room. Nobody
// loses one to a tenant that has as many. `taken`: of all places. Errors: busy (it has enough).
[[nodiscard]] inline Result<const TenantOfPool*> tenant_to_make_room(
    const std::map<TenantOfPool, ChainCount>& counts, const TenantOfPool& tenant, size_t taken,
    ChainBounds bounds = {}) {
    const auto own = counts.find(tenant);
    const ChainCount has = own == counts.end() ? ChainCount{} : own->second;
    const TenantOfPool* loser = has.unused > 0 ? &own->first : nullptr;
    if (has.all < bounds.per_tenant) {
        if (taken < bounds.in_all && !exceeds_fair_share(has.all, taken, bounds.in_all))
            return nullptr;
        size_t most = has.all;
        for (const auto& [each, count] : counts) {
            if (count.unused == 0 || count.all <= most) continue;
            loser = &each;
            most = count.all;
        }
    }
    if (loser == nullptr) return fail(Code::busy, has.all);
    return loser;
}

}  // namespace ros2s::dpud

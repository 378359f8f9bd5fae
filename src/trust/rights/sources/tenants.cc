#include "tenants.h"

#include <utility>

namespace ros2s::rights {
namespace {

std::vector<Grant> grants_of(const std::string& pool, const tenancy::Tenant& tenant) {
    std::vector<Grant> grants = tenant.grants;
    for (Grant& each : grants) each.pool = pool;
    return grants;
}

void add(Parties& parties, const std::string& pool, const tenancy::Tenant& tenant, bool is_active,
         bool own) {
    TenantParty party{.owner = own ? tenant.owner() : std::string(),
                      .is_active = is_active,
                      .generation = tenant.generation,
                      .revocations = tenant.revocations,
                      .clock_min = tenant.clock_min,
                      .grants = grants_of(pool, tenant)};
    for (const auto& [id, revoked] : tenant.revoked_capabilities) {
        party.revoked_capabilities.insert(id);
        if (revoked.program) party.revoked_programs.push_back(*revoked.program);
    }
    for (const std::string& name : tenant.subjects) {
        SubjectParty& subject = parties.subjects[name];
        if (is_active) {
            subject.tenants.insert_or_assign(pool, tenant.name);
        } else {
            std::erase_if(subject.grants, [&](const Grant& each) { return each.pool == pool; });
            subject.ended.insert(pool);
        }
    }
    parties.tenants.insert_or_assign(std::pair(pool, tenant.name), std::move(party));
}

}  // namespace

void add_file(Parties& parties, const std::string& pool, const tenancy::TenantsByName& tenants,
              WallTime now) {
    for (const auto& [name, tenant] : tenants) {
        add(parties, pool, tenant, tenant.is_active(now), true);
    }
}

void add_pushed(Parties& parties, const std::string& pool, const tenancy::SeenTenants& tenants,
                bool own) {
    for (const auto& [name, seen] : tenants) {
        add(parties, pool, seen.tenant, seen.active, own);
        if (!seen.active) continue;
        for (const std::string& each : seen.tenant.subjects) {
            SubjectParty& subject = parties.subjects[each];
            subject.users.insert_or_assign(pool, seen.tenant.users);
            for (Grant& grant : grants_of(pool, seen.tenant)) {
                subject.grants.push_back(std::move(grant));
            }
        }
    }
}

}  // namespace ros2s::rights

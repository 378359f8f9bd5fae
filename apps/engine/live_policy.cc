#include "live_policy.h"

#include "ros2s/rights/decide.h"
#include "ros2s/rights/sources/tenants.h"

namespace ros2s::engined {

LivePolicy::LivePolicy(Reactor& reactor, Pools& pools, rights::Parties settings,
                       admission::Allowances allowances, admission::Accounts& accounts,
                       session::SessionTable& sessions)
    : reactor_(reactor),
      pools_(pools),
      settings_(std::move(settings)),
      allowances_(std::move(allowances)),
      accounts_(accounts),
      sessions_(sessions) {}

void LivePolicy::begin(std::function<void()> changed) {
    changed_ = std::move(changed);
    for (const std::string& name : pools_.names()) {
        pools_.tenants(name)->on_change([this] { apply(); });
    }
    // What a container's owner may do is part of every decision.
    pools_.on_owner_change = [this] { apply(); };
    apply();
}

void LivePolicy::apply() {
    rights::Parties parties = settings_;
    admission::Allowances allowances = allowances_;
    const WallTime now = reactor_.wall_time();
    for (const std::string& name : pools_.names()) {
        const tenancy::TenantsByName& tenants = pools_.tenants(name)->tenants();
        rights::add_file(parties, name, tenants, now);
        for (const auto& [tenant, record] : tenants) {
            tenancy::add_account(allowances, name, record);
            if (!record.allowance) continue;
            for (const std::string& subject : record.subjects) {
                // Sessions that were opened before the tenant was have the account of the subject.
                allowances.by_account.insert_or_assign(subject, *record.allowance);
            }
        }
    }
    sessions_.rights().replace(std::move(parties));
    accounts_.set(std::move(allowances));
    pools_.apply_caps();
    changed_();
    end_without_rights();
}

void LivePolicy::end_without_rights() {
    const rights::Policy& policy = sessions_.rights().policy();
    for (const session::Session* const session : sessions_.all()) {
        const session::SessionRequest& who = session->request;
        if (session->shows) continue;
        const auto seen = decide(policy, policy.principal(who.subject, who.pool),
                                 {.pool = who.pool}, rights::Wanted::see_pool);
        if (!seen.is_none()) continue;
        sessions_.evict(session->id, "the tenant of its subject was revoked or has expired");
    }
}

}  // namespace ros2s::engined

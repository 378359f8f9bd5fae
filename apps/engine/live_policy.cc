#include "live_policy.h"

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

void LivePolicy::begin() {
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
    const rights::Policy before = sessions_.rights().replace(std::move(parties));
    accounts_.set(std::move(allowances));
    pools_.apply_caps();
    sessions_.end_sessions(before, session::SessionTable::EndsWith::rights);
}

}  // namespace ros2s::engined

#include "live_policy.h"

#include "ros2s/rights/sources/settings.h"
#include "ros2s/rights/sources/tenants.h"

namespace ros2s::engined {

LivePolicy::LivePolicy(Reactor& reactor, Pools& pools, tenancy::Policy settings,
                       std::vector<std::string> delegates, admission::Accounts& accounts,
                       session::SessionTable& sessions)
    : reactor_(reactor),
      pools_(pools),
      settings_(std::move(settings)),
      delegates_(std::move(delegates)),
      access_(settings_.access),
      accounts_(accounts),
      sessions_(sessions) {}

void LivePolicy::begin() {
    for (const std::string& name : pools_.names()) {
        pools_.tenants(name)->on_change([this] { apply(); });
    }
    apply();
}

void LivePolicy::apply() {
    tenancy::Policy policy = settings_;
    const WallTime now = reactor_.wall_time();
    for (const std::string& name : pools_.names()) {
        for (const auto& [tenant, record] : pools_.tenants(name)->tenants()) {
            tenancy::add_account(policy.allowances, name, record);
            if (!record.is_active(now)) tenancy::remove_rights(policy.access, name, record);
            if (!record.allowance) continue;
            for (const std::string& subject : record.subjects) {
                // Sessions that were opened before the tenant was have the account of the subject.
                policy.allowances.by_account.insert_or_assign(subject, *record.allowance);
            }
        }
    }
    access_ = std::move(policy.access);
    compare(now);
    accounts_.set(std::move(policy.allowances));
    pools_.apply_caps();
    if (pools_.on_owner_change) pools_.on_owner_change();
    end_without_rights();
}

void LivePolicy::compare(WallTime now) {
    const auto& administrators = pools_.administrators();
    rights::Parties parties{.delegates = {delegates_.begin(), delegates_.end()},
                            .subjects_own = true,
                            .administrators = {administrators.begin(), administrators.end()}};
    rights::add_settings(parties, settings_.access);
    for (const std::string& name : pools_.names()) {
        rights::add_file(parties, name, pools_.tenants(name)->tenants(), now);
    }
    policy_ = policy_.next(std::move(parties));
    access_.compare_with(policy_);
}

void LivePolicy::end_without_rights() {
    for (const session::Session* const session : sessions_.all()) {
        const session::SessionRequest& who = session->request;
        if (session->shows || access_.sees_pool(who.subject, who.pool)) continue;
        sessions_.evict(session->id, "the tenant of its subject was revoked or has expired");
    }
}

}  // namespace ros2s::engined

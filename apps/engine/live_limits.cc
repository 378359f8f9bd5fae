#include "live_limits.h"

#include "ros2s/tenancy/policy.h"

namespace ros2s::engined {

LiveLimits::LiveLimits(Pools& pools, admission::Allowances settings, admission::Accounts& accounts)
    : pools_(pools), settings_(std::move(settings)), accounts_(accounts) {}

void LiveLimits::begin() {
    for (const std::string& name : pools_.names()) {
        pools_.tenants(name)->on_change([this] { apply(); });
    }
    apply();
}

void LiveLimits::apply() {
    admission::Allowances allowances = settings_;
    for (const std::string& name : pools_.names()) {
        for (const auto& [tenant, record] : pools_.tenants(name)->tenants()) {
            tenancy::add_account(allowances, name, record);
            if (!record.allowance) continue;
            for (const std::string& subject : record.subjects) {
                // Sessions that were opened before the tenant was have the account of the subject.
                allowances.by_account.insert_or_assign(subject, *record.allowance);
            }
        }
    }
    accounts_.set(std::move(allowances));
    pools_.apply_caps();
    if (pools_.on_owner_change) pools_.on_owner_change();
}

}  // namespace ros2s::engined

#include "live_limits.h"

namespace ros2s::engined {

LiveLimits::LiveLimits(Reactor& reactor, Pools& pools, admission::Allowances settings,
                       admission::Accounts& accounts)
    : reactor_(reactor), pools_(pools), settings_(std::move(settings)), accounts_(accounts) {}

void LiveLimits::begin() {
    const auto names = pools_.names();
    following_ = std::make_unique<Nursery>(reactor_, names.size());
    for (const std::string& name : names) {
        ROS2S_CHECK(following_->try_spawn(follow(*this, *pools_.tenants(name))));
    }
    apply();
}

Task<> LiveLimits::stop() {
    stopping_ = true;
    if (following_) co_await following_->join();
}

// A wait ends with each heartbeat at the latest.
Task<> LiveLimits::follow(LiveLimits& self, tenancy::TenantRegistry& tenants) {
    uint64_t seen = tenants.version();
    while (!self.stopping_) {
        co_await tenants.wait(seen);
        if (seen == tenants.version()) continue;
        seen = tenants.version();
        self.apply();
    }
}

void LiveLimits::apply() {
    admission::Allowances allowances = settings_;
    for (const std::string& name : pools_.names()) {
        for (const auto& [tenant, record] : pools_.tenants(name)->tenants()) {
            if (!record.allowance) continue;
            allowances.by_account.insert_or_assign(tenant, *record.allowance);
            for (const std::string& subject : record.subjects) {
                // Sessions that were opened before the tenant was have the account of the subject.
                allowances.by_account.insert_or_assign(subject, *record.allowance);
                allowances.accounts.emplace(subject, tenant);
            }
        }
    }
    accounts_.set(std::move(allowances));
}

}  // namespace ros2s::engined

#include "tenant_shares.h"

namespace ros2s::control {

TenantShares::ByName::Who TenantShares::who(const std::string& subject) const {
    return {.tenant = std::string(admission::name_for(*names_, subject)), .subject = subject};
}

Result<> TenantShares::take(const std::string& subject, std::string* whose) {
    follow_tenants();
    const ByName::Who its = who(subject);
    const auto refuse = [&](size_t has, const std::string& name) {
        if (whose != nullptr) *whose = name;
        return fail(Code::busy, has);
    };
    if (const auto allowed = quota_.check(its); !allowed) {
        switch (allowed.error()) {
            case ByName::Limit::subject: return refuse(quota_.used(its), subject);
            case ByName::Limit::tenant:
                return refuse(quota_.used_by_tenant(its.tenant),
                              its.tenant == subject ? subject : "tenant '" + its.tenant + "'");
            case ByName::Limit::all: return refuse(quota_.used(), "this server");
        }
    }
    const auto share = shares_.find(subject);
    if (share != shares_.end()) {
        share->second.add();
    } else {
        shares_.emplace(subject, quota_.count(its, 1));
    }
    return {};
}

void TenantShares::give_back(const std::string& subject) {
    const auto share = shares_.find(subject);
    share->second.subtract();
    if (share->second.amount() == 0) shares_.erase(share);
}

void TenantShares::follow_tenants() {
    auto now = accounts_.names();
    if (now == names_) return;
    names_ = std::move(now);
    for (auto& [subject, share] : shares_) share = quota_.count(who(subject), share.amount());
}

}  // namespace ros2s::control

// TenantShares: one quota of the control plane (base/quota.h): of requests being received, calls in
// progress or connections. A tenant has its share however many certificates it has. A subject has a
// limit of its own, too.
//
// A tenant is an account (admission/accounts.h), as for sessions. A subject without one is an
// account by itself. A subject with tenants in several pools counts for the first: the pool of a
// request is not known before it is read.
//
// If tenants change, what each subject has counts where the subject belongs from then on.
//
// Owned by what has the bound. Threads: any, one at a time, which the owner ensures.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "ros2s/admission/accounts.h"
#include "ros2s/base/quota.h"
#include "ros2s/base/result.h"

namespace ros2s::control {

class TenantShares {
  public:
    // The accounts outlive it.
    TenantShares(const admission::Accounts& accounts, size_t all, size_t per_subject)
        : accounts_(accounts), quota_({.per_subject = per_subject, .in_all = all}) {}

    // One more for the subject. Errors: busy (it, its tenant, or all have as many as they may; the
    // detail says how many). `whose`: gets which of them, for a sentence.
    [[nodiscard]] Result<> take(const std::string& subject, std::string* whose = nullptr);
    // Ends one that take() has counted.
    void give_back(const std::string& subject);

  private:
    using ByName = QuotaOf<std::string, std::string>;
    [[nodiscard]] ByName::Who who(const std::string& subject) const;
    void follow_tenants();

    const admission::Accounts& accounts_;
    ByName quota_;
    std::map<std::string, ByName::Share> shares_;           // by subject
    std::shared_ptr<const admission::AccountNames> names_;  // of the accounts that they count for
};

}  // namespace ros2s::control

#include "tenant_shares.h"

#include "ros2s/base/shares.h"

namespace ros2s::control {
namespace {

size_t count_of(const auto& counts, std::string_view name) {
    const auto found = counts.find(name);
    return found == counts.end() ? 0 : found->second;
}

void subtract_one(auto& counts, std::string_view name) {
    const auto found = counts.find(name);
    if (--found->second == 0) counts.erase(found);
}

}  // namespace

Result<> TenantShares::take(const std::string& subject, std::string* whose) {
    follow_tenants();
    const std::string account(admission::name_for(*names_, subject));
    const size_t of_subject = count_of(subjects_, subject);
    const size_t of_account = count_of(by_account_, account);
    const auto refuse = [&](size_t has, const std::string& who) {
        if (whose != nullptr) *whose = who;
        return fail(Code::busy, has);
    };
    if (of_subject >= per_subject_) return refuse(of_subject, subject);
    if (exceeds_fair_share(of_account, used_, all_)) {
        return refuse(of_account, account == subject ? subject : "tenant '" + account + "'");
    }
    if (used_ >= all_) return refuse(used_, "this server");
    ++used_;
    ++subjects_[subject];
    ++by_account_[account];
    return {};
}

void TenantShares::give_back(const std::string& subject) {
    --used_;
    subtract_one(subjects_, subject);
    // By the names that it was counted with.
    subtract_one(by_account_, admission::name_for(*names_, subject));
}

void TenantShares::follow_tenants() {
    auto now = accounts_.names();
    if (now == names_) return;
    names_ = std::move(now);
    by_account_.clear();
    for (const auto& [subject, count] : subjects_) {
        by_account_[std::string(admission::name_for(*names_, subject))] += count;
    }
}

}  // namespace ros2s::control

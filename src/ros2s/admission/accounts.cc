#include "ros2s/admission/accounts.h"

#include <algorithm>
#include <chrono>

namespace ros2s::admission {
namespace {

// The longest that one request counts, so that times do not overflow.
constexpr Duration most_of_one = std::chrono::hours(1);

Duration time_of(uint64_t count, uint64_t per_second) {
    if (per_second == 0) return {};
    const double ns = static_cast<double>(count) * 1e9 / static_cast<double>(per_second);
    return Duration(static_cast<int64_t>(std::min(ns, static_cast<double>(most_of_one.count()))));
}

}  // namespace

void AccountMetrics::visit(const MetricVisitor& visit) const {
    visit("ros2store_tenant_requests_total", "Requests with payload that began", requests.value());
    visit("ros2store_tenant_names_total", "Requests without payload that began", names.value());
    visit("ros2store_tenant_bytes_total", "Payload of requests that began", bytes.value());
    visit("ros2store_tenant_delayed_total", "Requests that a rate of the tenant delayed",
          delayed.value());
    visit("ros2store_tenant_delayed_ns_total", "Time for which rates delayed requests",
          delayed_ns.value());
}

Time Account::use(uint64_t bytes, Time now) noexcept {
    Time begins = now;
    for (auto& [count, per_second, paid] : rates_of(bytes)) {
        if (per_second == 0) continue;
        *paid = std::max(*paid, now);
        begins = std::max(begins, *paid - allowance_.burst);
        *paid += time_of(count, per_second);
    }
    return begins;
}

void Account::give_back(uint64_t bytes) noexcept {
    for (auto& [count, per_second, paid] : rates_of(bytes)) *paid -= time_of(count, per_second);
}

std::array<Account::Use, 2> Account::rates_of(uint64_t bytes) noexcept {
    if (bytes == 0) return {{{1, allowance_.names, &names_paid_}, {0, 0, &bytes_paid_}}};
    return {{{1, allowance_.requests, &requests_paid_}, {bytes, allowance_.bytes, &bytes_paid_}}};
}

bool Account::owes_nothing(Time now) const noexcept {
    return std::max({requests_paid_, bytes_paid_, names_paid_}) <= now;
}

std::shared_ptr<Account> Accounts::open(std::string_view subject) {
    if (const auto found = numbers_.find(subject); found != numbers_.end()) {
        return by_number_.at(found->second);
    }
    if (by_number_.size() >= kept_max) forget_some();
    const auto allowed = allowances_.by_subject.find(subject);
    auto account = std::make_shared<Account>(
        ++last_number_, std::string(subject),
        allowed != allowances_.by_subject.end() ? allowed->second : allowances_.others);
    numbers_.emplace(account->subject, account->number);
    by_number_.emplace(account->number, account);
    return account;
}

std::shared_ptr<Account> Accounts::find(uint64_t number) const {
    const auto found = by_number_.find(number);
    return found == by_number_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<const Account>> Accounts::all() const {
    std::vector<std::shared_ptr<const Account>> accounts;
    for (const auto& [number, account] : by_number_) accounts.push_back(account);
    return accounts;
}

void Accounts::forget_some() {
    const Time now = reactor_.now();
    std::erase_if(by_number_, [&](const auto& each) {
        const bool unused = each.second.use_count() == 1 && each.second->owes_nothing(now);
        if (unused) numbers_.erase(each.second->subject);
        return unused;
    });
}

}  // namespace ros2s::admission

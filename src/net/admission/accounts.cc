#include "ros2s/admission/accounts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "ros2s/admission/admission.h"

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
    visit("ros2store_tenant_requests_total", "Reads and writes that began", requests.value());
    visit("ros2store_tenant_names_total", "Requests on names and attributes that began",
          names.value());
    visit("ros2store_tenant_bytes_total", "Payload of requests that began", bytes.value());
    visit("ros2store_tenant_delayed_total", "Requests that a rate of the tenant delayed",
          delayed.value());
    visit("ros2store_tenant_throttled_seconds_total",
          "Time for which requests waited because of a rate of the tenant", throttled_ns.value());
    visit("ros2store_tenant_queued_seconds_total", "Time for which requests waited for their turn",
          queued_ns.value());
    visit("ros2store_tenant_refused_total",
          "Requests, connections and sessions that were refused: not permitted, over a limit, or "
          "malformed",
          refused.value());
    visit("ros2store_tenant_sessions", "Open sessions of the tenant", sessions.value());
    visit("ros2store_tenant_handles", "Files and directories that the tenant has open",
          handles.value());
}

void AccountMetrics::visit_times(const HistogramVisitor& visit) const {
    visit("ros2store_tenant_request_duration_seconds",
          "From the arrival of a tenant's request to its reply", {}, latency.read());
}

std::string Account::at_limit(std::string_view what, uint64_t most) const {
    return fmt::format(
        "'{}' has as many {} as it may have, {}. Close some. An administrator sets this limit with "
        "`ros2store tenant set NAME --{}`, or under 'limits' in the settings of this server",
        name, what, most, what);
}

Time Account::use(const Demand& demand, Time now) noexcept {
    Time begins = now;
    for (auto& [count, per_second, paid] : rates_of(demand)) {
        if (per_second == 0 || count == 0) continue;
        *paid = std::max(*paid, now);
        begins = std::max(begins, *paid - allowance_.burst);
        *paid += time_of(count, per_second);
    }
    if (refusals_paid_ <= now) refusals_paid_ = {};
    return std::max(begins, refusals_paid_ - refusals_burst);
}

void Account::owe_for_refusal(Duration time, Time now) noexcept {
    refusals_paid_ = std::max(refusals_paid_, now) + std::min(time, most_of_one);
}

void Account::use_names(uint64_t names, Time now) noexcept {
    metrics.names.add(names);
    if (allowance_.names == 0) return;
    names_paid_ = std::max(names_paid_, now) + time_of(names, allowance_.names);
}

void Account::give_back(const Demand& demand) noexcept {
    for (auto& [count, per_second, paid] : rates_of(demand)) *paid -= time_of(count, per_second);
}

std::array<Account::Use, 2> Account::rates_of(const Demand& demand) noexcept {
    const Use bytes{demand.bytes, allowance_.bytes, &bytes_paid_};
    if (demand.on_names) return {{{1, allowance_.names, &names_paid_}, bytes}};
    return {{{1, allowance_.requests, &requests_paid_}, bytes}};
}

bool Account::owes_nothing(Time now) const noexcept {
    return std::max({requests_paid_, bytes_paid_, names_paid_, refusals_paid_}) <= now;
}

std::string_view name_for(const AccountNames& names, std::string_view subject,
                          std::string_view pool) {
    const auto found = names.find(subject);
    if (found == names.end()) return subject;
    const auto& by_pool = found->second;
    const auto here = by_pool.find(pool);
    return here == by_pool.end() ? by_pool.begin()->second : here->second;
}

Accounts::Accounts(Reactor& reactor, Allowances allowances)
    : reactor_(reactor),
      allowances_(std::move(allowances)),
      names_(std::make_shared<const AccountNames>(std::move(allowances_.accounts))) {}

std::shared_ptr<const AccountNames> Accounts::names() const {
    const std::lock_guard lock(mutex_);
    return names_;
}

const Allowance& Accounts::allowance_of(std::string_view name) const {
    const auto found = allowances_.by_account.find(name);
    return found == allowances_.by_account.end() ? allowances_.others : found->second;
}

std::shared_ptr<Account> Accounts::open(std::string_view subject, std::string_view pool) {
    const std::string_view name = name_for(subject, pool);
    if (const auto found = numbers_.find(name); found != numbers_.end()) {
        return by_number_.at(found->second);
    }
    if (by_number_.size() >= kept_max) forget_some();
    auto account = std::make_shared<Account>(++last_number_, std::string(name), allowance_of(name));
    numbers_.emplace(account->name, account->number);
    by_number_.emplace(account->number, account);
    return account;
}

void Accounts::set(Allowances allowances) {
    allowances_ = std::move(allowances);
    auto names = std::make_shared<const AccountNames>(std::move(allowances_.accounts));
    {
        const std::lock_guard lock(mutex_);
        names_.swap(names);  // the earlier ones are destroyed after the lock
    }
    for (const auto& [number, account] : by_number_) {
        const Allowance& allowed = allowance_of(account->name);
        if (account->allowance_ == allowed) continue;
        account->allowance_ = allowed;
        // A debt to the old rates is not a debt to the new ones.
        for (Time* paid :
             {&account->requests_paid_, &account->bytes_paid_, &account->names_paid_}) {
            *paid = std::min(*paid, reactor_.now());
        }
        for (Admission* const each : admissions_) each->allowance_changed(number);
    }
}

std::shared_ptr<Account> Accounts::find(uint64_t number) const {
    const auto found = by_number_.find(number);
    return found == by_number_.end() ? nullptr : found->second;
}

void Accounts::count_refusal(std::string_view subject, std::string_view pool) const noexcept {
    const auto found = numbers_.find(name_for(subject, pool));
    if (found != numbers_.end()) by_number_.at(found->second)->metrics.refused.add();
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
        if (unused) numbers_.erase(each.second->name);
        return unused;
    });
}

}  // namespace ros2s::admission

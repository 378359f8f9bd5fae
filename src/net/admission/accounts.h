// Accounts: the limits of each tenant at a server, and its use. A tenant of a pool has one or more
// subjects of certificates; a subject without a tenant is one by itself. A subject with tenants in
// several pools has an account in each of them. Every Admission of a process uses the same
// accounts.
//
// Rates are limited by the generic cell rate algorithm (ITU-T I.371). Each rate has one time, at
// which all use is paid for. An idle tenant earns a burst. A request larger than the burst may
// begin, but the next one waits longer.
//
// An account outlives its tenant's last session, so a new session gets no new burst. If there are
// kept_max accounts, those that owe nothing and are not in use are removed.
//
// Owned by the composing code; outlives all its users. Used on one core, except names(): calls of
// the control plane begin on gRPC's threads.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/admission/cost.h"
#include "ros2s/base/latency_histogram.h"
#include "ros2s/base/metrics.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::admission {

class Admission;

// Rates are per second. 0: no limit; the server's own bounds remain.
struct Allowance {
    uint32_t weight = 1;    // its share while others are active; up to 1000
    uint64_t requests = 0;  // reads and writes
    uint64_t bytes = 0;     // of payload
    uint64_t names = 0;     // requests on names and attributes
    Duration burst = std::chrono::milliseconds(100);  // of each rate
    // Limits at one time. A further session or handle is refused; a further request waits.
    uint32_t sessions = 0;
    uint32_t handles = 0;
    uint32_t requests_in_flight = 0;
    uint64_t bytes_in_flight = 0;  // of memory for payload; one request may have more
    friend bool operator==(const Allowance&, const Allowance&) = default;
};

// The account of a subject, or of a tenant's name, in each pool. In other pools the first of these
// applies. A subject that is not listed has its own account, with the subject's name.
using AccountNames =
    std::map<std::string, std::map<std::string, std::string, std::less<>>, std::less<>>;
[[nodiscard]] std::string_view name_for(const AccountNames& names, std::string_view subject,
                                        std::string_view pool = {});

struct Allowances {
    std::map<std::string, Allowance, std::less<>> by_account;
    Allowance others;
    AccountNames accounts;
};

// Only the core of the accounts counts; any thread may read.
struct AccountMetrics {
    Counter requests, names, bytes;
    Counter delayed;  // requests that a rate delayed, without the requests behind them
    // The total time that requests waited before they began. throttled_ns: while a rate delayed the
    // first request of their line. queued_ns: otherwise.
    Counter throttled_ns, queued_ns;
    Counter refused;            // requests, connections and sessions
    Counter sessions, handles;  // now
    CoarseHistogram latency;    // from the arrival of a request to its reply
    void visit(const MetricVisitor& visit) const;
    void visit_times(const HistogramVisitor& visit) const;
};

class Account {
  public:
    Account(uint64_t its_number, std::string its_name, const Allowance& allowance)
        : number(its_number), name(std::move(its_name)), allowance_(allowance) {}

    const uint64_t number;
    const std::string name;

    [[nodiscard]] uint32_t weight() const noexcept { return allowance_.weight; }
    // Whether use() may delay a request.
    [[nodiscard]] bool has_rates() const noexcept {
        return (allowance_.requests | allowance_.bytes | allowance_.names) != 0 ||
               refusals_paid_ != Time{};
    }
    [[nodiscard]] uint64_t sessions_max() const noexcept { return limit(allowance_.sessions); }
    [[nodiscard]] uint64_t handles_max() const noexcept { return limit(allowance_.handles); }
    [[nodiscard]] uint64_t requests_in_flight_max() const noexcept {
        return limit(allowance_.requests_in_flight);
    }
    [[nodiscard]] uint64_t bytes_in_flight_max() const noexcept {
        return limit(allowance_.bytes_in_flight);
    }
    // The sentence for a refused client: the limit, and the setting for it. `what`: "sessions".
    [[nodiscard]] std::string at_limit(std::string_view what, uint64_t most) const;
    // Uses the rates for one request, which may begin at the returned time.
    [[nodiscard]] Time use(const Demand& demand, Time now) noexcept;
    // Uses the rate of names for further names of a request that has begun. Later requests wait.
    void use_names(uint64_t names, Time now) noexcept;
    // A refused request took this long. Later requests wait for it, beyond a burst of refusals.
    void owe_for_refusal(Duration time, Time now) noexcept;
    // The request does not begin.
    void give_back(const Demand& demand) noexcept;
    // True if all use is paid for.
    [[nodiscard]] bool owes_nothing(Time now) const noexcept;

    AccountMetrics metrics;

  private:
    static constexpr uint64_t limit(uint64_t most) { return most > 0 ? most : UINT64_MAX; }
    struct Use {
        uint64_t count, per_second;
        Time* paid;
    };
    std::array<Use, 2> rates_of(const Demand& demand) noexcept;

    friend class Accounts;
    Allowance allowance_;
    // The time at which all use of the rate is paid for.
    Time requests_paid_{}, bytes_paid_{}, names_paid_{};
    // The same of refused requests. Zero: all are paid for.
    Time refusals_paid_{};
    static constexpr Duration refusals_burst = std::chrono::milliseconds(20);
};

class Accounts {
  public:
    static constexpr size_t kept_max = 1024;
    explicit Accounts(Reactor& reactor, Allowances allowances = {});

    // The subject's account in the pool, created at its first opening. Its number is never reused.
    [[nodiscard]] std::shared_ptr<Account> open(std::string_view subject,
                                                std::string_view pool = {});
    // The name of the subject's account in the pool.
    [[nodiscard]] std::string_view name_for(std::string_view subject,
                                            std::string_view pool = {}) const {
        return admission::name_for(*names_, subject, pool);
    }
    // Any thread. The returned names do not change: set() replaces them with new ones.
    [[nodiscard]] std::shared_ptr<const AccountNames> names() const;
    // Also applies to waiting requests: those that may now begin do so.
    void set(Allowances allowances);
    // Null: no such account.
    [[nodiscard]] std::shared_ptr<Account> find(uint64_t number) const;
    // Counts a refusal to the subject, if it has an account.
    void count_refusal(std::string_view subject, std::string_view pool = {}) const noexcept;
    // Oldest first.
    [[nodiscard]] std::vector<std::shared_ptr<const Account>> all() const;

  private:
    [[nodiscard]] const Allowance& allowance_of(std::string_view name) const;
    void forget_some();

    friend class Admission;
    mutable std::vector<Admission*> admissions_;  // they add and remove themselves
    Reactor& reactor_;
    Allowances allowances_;     // without `accounts`
    mutable std::mutex mutex_;  // of names_, for other threads and set()
    std::shared_ptr<const AccountNames> names_;
    uint64_t last_number_ = 0;
    std::map<uint64_t, std::shared_ptr<Account>> by_number_;
    std::map<std::string, uint64_t, std::less<>> numbers_;
};

}  // namespace ros2s::admission

// Accounts: the limits of each tenant at a server, and its use. A tenant of a pool has one or more
// subjects of certificates; a subject without a tenant is one by itself. A subject with tenants in
// several pools has an account in each of them. Every Admission of a process uses the same
// accounts.
//
// A rate is kept by the generic cell rate algorithm (ITU-T I.371): one time for each rate, at which
// all that was used is paid for. A tenant that was idle has a burst. A request that is larger than
// the burst begins, and the next one waits for longer.
//
// An account is kept after its tenant's last session, so that a new session brings no new burst. If
// there are kept_max, those that owe nothing and are not in use are removed.
//
// Owned by the composing code; outlives everything that it is given to. Used on one core, except
// names(): calls of the control plane begin on gRPC's threads.
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
    uint32_t weight = 1;    // of its share while others are active; up to 1000
    uint64_t requests = 0;  // reads and writes
    uint64_t bytes = 0;     // of payload
    uint64_t names = 0;     // requests on names and attributes
    Duration burst = std::chrono::milliseconds(100);  // of each rate
    // At once. One more session or handle is refused; one more request waits.
    uint32_t sessions = 0;
    uint32_t handles = 0;
    uint32_t requests_in_flight = 0;
    uint64_t bytes_in_flight = 0;  // of memory for payload; one request may have more
    friend bool operator==(const Allowance&, const Allowance&) = default;
};

// The account of a subject, or of a tenant's name, in each pool. In other pools it has the first of
// these. Not listed: an account of its own, named as the subject.
using AccountNames =
    std::map<std::string, std::map<std::string, std::string, std::less<>>, std::less<>>;
[[nodiscard]] std::string_view name_for(const AccountNames& names, std::string_view subject,
                                        std::string_view pool = {});

struct Allowances {
    std::map<std::string, Allowance, std::less<>> by_account;
    Allowance others;
    AccountNames accounts;
};

// The core of the accounts counts, any thread reads.
struct AccountMetrics {
    Counter requests, names, bytes;
    Counter delayed;  // requests that a rate delayed, without those behind them
    // The time that requests waited, in all, before they began: while a rate delayed the first of
    // their line, and otherwise.
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
    [[nodiscard]] bool has_rates() const noexcept {
        return (allowance_.requests | allowance_.bytes | allowance_.names) != 0;
    }
    [[nodiscard]] uint64_t sessions_max() const noexcept { return limit(allowance_.sessions); }
    [[nodiscard]] uint64_t handles_max() const noexcept { return limit(allowance_.handles); }
    [[nodiscard]] uint64_t requests_in_flight_max() const noexcept {
        return limit(allowance_.requests_in_flight);
    }
    [[nodiscard]] uint64_t bytes_in_flight_max() const noexcept {
        return limit(allowance_.bytes_in_flight);
    }
    // The sentence for a refused client: which limit it was, and where it is set. `what`:
    // "sessions".
    [[nodiscard]] std::string at_limit(std::string_view what, uint64_t most) const;
    // Uses the rates for one request, which may begin at the returned time.
    [[nodiscard]] Time use(const Demand& demand, Time now) noexcept;
    // Uses the rate of names for further names of a request that has begun. Later requests wait.
    void use_names(uint64_t names, Time now) noexcept;
    // The request does not begin.
    void give_back(const Demand& demand) noexcept;
    // All that was used is paid for.
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
    // All that was used of the rate is paid for at this time.
    Time requests_paid_{}, bytes_paid_{}, names_paid_{};
};

class Accounts {
  public:
    static constexpr size_t kept_max = 1024;
    explicit Accounts(Reactor& reactor, Allowances allowances = {});

    // The subject's account in the pool, made when it is opened first. The number is not used for
    // another one later.
    [[nodiscard]] std::shared_ptr<Account> open(std::string_view subject,
                                                std::string_view pool = {});
    // Of the subject's account in the pool.
    [[nodiscard]] std::string_view name_for(std::string_view subject,
                                            std::string_view pool = {}) const {
        return admission::name_for(*names_, subject, pool);
    }
    // Any thread. They do not change: set() replaces them by others.
    [[nodiscard]] std::shared_ptr<const AccountNames> names() const;
    // Also for requests that wait: those that may begin now do.
    void set(Allowances allowances);
    // Null: no such account.
    [[nodiscard]] std::shared_ptr<Account> find(uint64_t number) const;
    // Counts something that was refused to the subject, if it has an account.
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

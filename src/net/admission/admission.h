// Admission: chooses the next request to begin, where tenants share a resource that each could
// exhaust: the core and payload memory of a server, or the credits of a connection.
//
//     Line::enter() ─ room? ─ yes ─► inside: a Permit ─ released ─► the next one's turn
//                       └─ no ─► waits in its line
//     Line::pass() ─ never inside: others wait for what it says
//
// A line is one connection of a tenant. A request is inside while its Permit exists. It holds bytes
// of memory, and costs time of the server (cost.h).
//
// Waiting requests are admitted by start-time fair queueing (Goyal, Vin and Cheng 1996):
//
//     level                                 shares of the level above
//     tenants                               by weight (accounts.h)
//     sessions of a tenant                  equal
//     lines of a session                    equal
//     small and large requests of a line    equal: two queues, each in order of arrival
//
// A branch that was idle comes before branches that have used their share. A small request
// therefore passes the large ones of its line until small requests have used half of the line's
// share.
//
// A request begins if none of these limits is exceeded. A tenant's part is its share by weight of
// Limits::shared. A tenant's demand is the peak cost of its running and queued requests within
// Limits::span.
//
//     limit                           applies to                      when
//     Limits::all                     requests, bytes of all tenants  always
//     Limits::one                     requests, bytes of a tenant     always
//     bytes that stay free for all    bytes of a tenant               others have bytes inside
//     Limits::line_bytes              bytes of a line                 always
//     account: what may be in flight  requests, bytes of a tenant     Limits::keeps_accounts
//     account: rates                  first request of each queue     the same
//     Limits::large                   cost of large requests          one active tenant, which also
//                                                                     makes small requests
//     cost, by weight, that another   cost of a tenant with at least  several active tenants
//     tenant demands                  Limits::least inside
//     twice its part                  cost of a tenant                several active tenants; not a
//                                                                     tenant's only request
//     Limits::shared                  cost of all tenants             the same, if the tenant has
//                                                                     over half of its part
//
// Limits::large keeps a small request from waiting behind megabytes. For a tenant with few
// requests, few requests of others are ahead. If all tenants have many, each keeps a queue that is
// long enough for efficiency. A rate delays the first request of a queue and those behind it. Other
// queues, lines and tenants do not wait for it.
//
// Owned by the composing code; outlives its lines. Used on one core. Waiting allocates nothing.
//
// Invariants
// - While other tenants are active, a tenant has at most as many bytes inside as are free for all.
// - Only a single request that is larger than a limit of bytes
//   exceeds it, if nothing else counts towards the limit.
// - No request waits while there is room for it, it is its turn, and the tenant's rates allow it. A
//   request over its tenant's limit in flight has no turn. If that is the limit of bytes, requests
//   without bytes pass it.
// - The cost of ending a request, or its wait, does not depend on the number of waiting requests.
#pragma once
#include <array>
#include <coroutine>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "ros2s/admission/accounts.h"
#include "ros2s/admission/cost.h"
#include "ros2s/admission/heap.h"
#include "ros2s/admission/list.h"
#include "ros2s/base/metrics.h"
#include "ros2s/runtime/alarm.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stop.h"

namespace ros2s::admission {

struct Amount {
    uint64_t requests = 0;
    uint64_t bytes = 0;
};

// A request with more bytes is a large one.
inline constexpr uint64_t small_bytes_max = uint64_t{16} << 10;

struct Limits {
    Amount all{.requests = 512, .bytes = uint64_t{1} << 30};
    Amount one{.requests = 256, .bytes = uint64_t{768} << 20};  // for one tenant, even if it is
                                                                // alone
    // While several tenants are active: no request begins while the requests inside cost `shared`.
    // Exceptions are a tenant's only request, and requests with which a tenant has at most half of
    // its part. A tenant may always have `least`, even if others want less.
    Duration shared = std::chrono::milliseconds(4);
    Amount least{.requests = 2, .bytes = uint64_t{2} << 20};
    // While only one tenant is active and also makes small requests: none of its large requests
    // begins while its large requests inside cost this much.
    Duration large = std::chrono::milliseconds(1);
    uint64_t line_bytes = uint64_t{160} << 20;
    // A tenant wants the highest cost of its requests inside and waiting in the current and the
    // last span of this length. A tenant that wanted nothing is not active. A tenant is also not
    // active if it makes fewer than asked_least requests in a span and had none in progress at the
    // span's start. An occasional user therefore takes nothing from others.
    Duration span = std::chrono::milliseconds(50);
    uint32_t asked_least = 8;
    // A refused request counts so many times what it cost: its tenant's next ones wait for that.
    // One tenant's refused requests therefore take at most this part of the core's time.
    uint32_t refusal_factor = 8;
    // False if requests have passed another Admission with the same accounts. It has kept the rates
    // and counted the requests.
    bool keeps_accounts = true;
};

struct AdmissionMetrics {
    Counter waiting;  // now
    Counter waited;   // requests that found no room at once
    Counter moved;    // insertions into lists: the work of admission
    void visit(const MetricVisitor& visit) const;
};

class Admission;
class Line;

// The requests that are inside, or wait, with their cost.
struct Load {
    uint64_t requests = 0;
    uint64_t bytes = 0;  // of memory
    uint64_t cost_ns = 0;
    void add(const Demand& demand) noexcept {
        ++requests;
        bytes += demand.memory_bytes();
        cost_ns += demand.cost_ns;
    }
    void remove(const Demand& demand) noexcept {
        --requests;
        bytes -= demand.memory_bytes();
        cost_ns -= demand.cost_ns;
    }
};

// Room for one request. The destructor or release() frees it.
class [[nodiscard]] Permit {
  public:
    Permit() = default;
    Permit(Permit&& other) noexcept
        : line_(std::exchange(other.line_, nullptr)), demand_(other.demand_) {}
    Permit& operator=(Permit&& other) noexcept {
        if (this != &other) {
            release();
            line_ = std::exchange(other.line_, nullptr);
            demand_ = other.demand_;
        }
        return *this;
    }
    ~Permit() { release(); }
    explicit operator bool() const noexcept { return line_ != nullptr; }
    // The request cost this much more than its Demand. The tenant's next turn is later by the part
    // that was not expected. Call it once for each request of a line, or for none.
    void correct_cost(uint64_t more_ns) noexcept;
    void release() noexcept;

  private:
    friend class Line;
    Permit(Line& line, Demand demand) noexcept : line_(&line), demand_(demand) {}
    Line* line_ = nullptr;
    Demand demand_;
};

class Line {
  public:
    // `session`: lines of one session share its turns.
    Line(Admission& admission, uint64_t tenant, uint64_t session = 0);
    // Call it only when no request waits in the line or is inside.
    ~Line();
    Line& operator=(Line&&) = delete;

    // co_await line.enter(demand, stop): a Permit. It is empty if the request was stopped, or the
    // line turned away, while it waited. `arrived`: the time of its arrival, if the caller has it.
    class Entering;
    [[nodiscard]] Entering enter(Demand demand, StopToken stop, Time arrived = {}) noexcept;
    // The same without waiting. The Permit is empty if the request would wait.
    [[nodiscard]] Permit try_enter(Demand demand) noexcept;
    // For a request for which others wait: it begins without a turn, whatever its tenant has inside
    // or has used of its rates, and is never inside. False: its tenant has had too many of these,
    // and it has to enter.
    [[nodiscard]] bool pass(Time now) noexcept;
    // Of its tenant's account.
    [[nodiscard]] AccountMetrics& metrics() const noexcept { return tenant_.account->metrics; }
    [[nodiscard]] const std::string& tenant_name() const noexcept { return tenant_.account->name; }
    // Counts further names of a request, such as those of a batch (Account::use_names()).
    void use_names(uint64_t names) noexcept;
    // A request of the line that cost this much is refused: its tenant pays for it in time, with
    // its next requests. Call it before the reply, which the next request may follow.
    void charge_refusal(uint64_t cost_ns) noexcept;
    // Requests that wait, and all later ones, get an empty Permit.
    void turn_away() noexcept;
    // The line ends when its requests are done: rates do not delay them any more.
    void end_rates() noexcept;
    // No request waits in it or is inside.
    [[nodiscard]] bool is_idle() const noexcept {
        return inside_.requests == 0 && small_.waiters.empty() && large_.waiters.empty();
    }

  private:
    friend class Admission;
    friend class Permit;
    struct Waiter {
        std::coroutine_handle<> handle{};
        Demand demand{};
        Time since{};
        Duration throttled_before{};  // the queue's, when the request began to wait
        enum class State : uint8_t { outside, waiting, inside } state = State::outside;
        Links<Waiter> links{};
    };
    // The limit in flight that a request of the tenant counts towards. While requests of one kind
    // are over their limit, others pass them. `unlimited`: the Admission keeps no accounts.
    enum Kind : uint8_t { unlimited, names, payload };
    template <class T>
    using ByKind = std::array<T, 3>;
    // In the tree of turns: all tenants, a tenant, a session, a line, or a queue of a line.
    struct Branch {
        Branch* parent = nullptr;
        uint64_t turn = 0;    // of its next request, on its parent's clock
        uint64_t clock = 0;   // for the turns of its own branches: of the latest request
        int64_t owed_ns = 0;  // corrections while it waited; its next request pays them
        // Below a tenant: branches with a request that may begin if its tenant's limits allow it,
        // by turn.
        ByKind<Heap<Branch>> ready{};
        ByKind<Heap<Branch>::Node> nodes{};
        uint32_t linked = 0;  // the number of its parent's lists that have it
    };
    struct Queue;
    struct Session : Branch {
        uint32_t lines = 0;
    };
    struct Tenant : Branch {
        std::shared_ptr<Account> account;
        std::map<uint64_t, Session> sessions;
        Load inside{};
        List<Queue> delayed{};  // by its rates
        Load waiting{};
        uint64_t large_inside_ns = 0;  // the cost of its large requests
        uint64_t small_inside = 0;
        uint64_t wanted = 0;         // the cost, in this span
        uint64_t wanted_before = 0;  // in the last one
        uint32_t asked = 0;          // requests in this span
        uint32_t lines = 0;
        // Its small requests in the current and the last span of its large requests.
        uint64_t small_asked = 0, small_asked_before = 0;
        Time next_size_span{};
        Time passed_until{};  // its rate of requests that pass is used until then
        Links<Tenant> links{};
    };
    // The line's requests of one size class, in order of arrival.
    struct Queue : Branch {
        explicit Queue(Line& its_line) : line(its_line) { parent = &its_line.branch_; }
        // Moves it to the list where it belongs.
        void look() noexcept;
        enum class State : uint8_t { unlisted, ready, delayed };
        [[nodiscard]] State state_of_first() noexcept;
        void leave_list() noexcept;
        [[nodiscard]] Kind kind_of_first() const noexcept;
        // Uses the tenant's rates for the first request, if that was not done. Returns true if it
        // may begin now.
        [[nodiscard]] bool is_in_rate(const Demand& demand) noexcept;
        // The total time for which rates have delayed its first requests.
        [[nodiscard]] Duration throttled(Time now) const noexcept;
        // The request has waited until `now`.
        void count_wait(const Waiter& waiter, Time now) noexcept;
        // Removes a request that was not admitted. Returns true if it was the first.
        bool leave(Waiter& waiter) noexcept;

        Line& line;
        List<Waiter> waiters;
        State state = State::unlisted;
        Kind kind = unlimited;        // of its first request, while it is ready
        bool has_used_rates = false;  // for its first request, which may begin at not_before
        uint64_t not_before = 0;      // nanoseconds
        Heap<Queue>::Node delay{};
        Links<Queue> links{};
        // The average extra cost of requests, above the cost of their kind.
        uint64_t expected_more_ns = 0;
        Time delayed_since{};
        Duration throttled_until_then{};
    };
    [[nodiscard]] static bool is_large(const Demand& demand) noexcept {
        return demand.bytes > small_bytes_max;
    }
    [[nodiscard]] Queue& queue_for(const Demand& demand) noexcept {
        return is_large(demand) ? large_ : small_;
    }

    Admission& admission_;
    const uint64_t number_, session_number_;
    Tenant& tenant_;
    Session& session_;
    Branch branch_;
    Queue small_{*this}, large_{*this};
    Load inside_;
    bool turned_away_ = false;
    bool keeps_rates_;
};

class Admission {
  public:
    // Without `accounts` all tenants have the default allowance.
    Admission(Reactor& reactor, Limits limits, const Accounts* accounts = nullptr);
    ~Admission();
    Admission& operator=(Admission&&) = delete;

    [[nodiscard]] const Limits& limits() const noexcept { return limits_; }
    [[nodiscard]] Amount inside() const noexcept {
        return {.requests = inside_.requests, .bytes = inside_.bytes};
    }
    [[nodiscard]] const AdmissionMetrics& metrics() const noexcept { return metrics_; }
    // Lists the metrics, and what is inside. On its core.
    void visit_metrics(const MetricVisitor& visit) const;
    // Counts a refusal to the tenant before a line.
    void count_refusal(uint64_t tenant) const noexcept {
        account_of(tenant)->metrics.refused.add();
    }

  private:
    friend class Accounts;
    friend class Line;
    friend class Permit;
    using Branch = Line::Branch;
    using Queue = Line::Queue;
    using Tenant = Line::Tenant;
    [[nodiscard]] bool fits(const Tenant& tenant, const Demand& demand) const noexcept;
    [[nodiscard]] bool leaves_room(const Tenant& tenant, uint64_t bytes) const noexcept;
    [[nodiscard]] bool fits(const Line& line, uint64_t bytes) const noexcept;
    // Whether the account allows the tenant to have the request in flight. Requests with bytes do
    // not pass a waiting one, or a large one would wait for ever.
    [[nodiscard]] bool is_in_limits(const Tenant& tenant, const Demand& demand) const noexcept;
    void take(Queue& queue, const Demand& demand) noexcept;
    void give_back(Line& line, const Demand& demand) noexcept;
    void correct_cost(Queue& queue, const Demand& demand, uint64_t more_ns) noexcept;
    // Gives a branch that is in no list its turn for a request of this cost, ahead of the branches
    // that wait in its parent.
    void pass(Branch& branch, uint64_t cost, uint64_t turn_of_waiting) const noexcept;
    // Moves the branch's next turn by the cost that it owes.
    static void pay(Branch& branch, const Tenant& tenant) noexcept;
    // link(): the queue now has a request that may begin. unlink(): it no longer has one.
    void link(Queue& queue) noexcept;
    void unlink(Queue& queue) noexcept;
    static void insert(Branch& branch, size_t kind) noexcept;
    static void erase(Branch& branch, size_t kind) noexcept;
    // A tenant is in the list of tenants while it has a request that its limits allow.
    void place(Tenant& tenant) noexcept;
    void leave_list(Tenant& tenant) noexcept;
    // The kinds of requests that the tenant's limits allow. The first request with payload decides
    // for all: a large one would wait for ever behind small ones.
    using Kinds = Line::ByKind<bool>;
    [[nodiscard]] static Kinds open_kinds(const Tenant& tenant) noexcept;
    // The first queue by turn with a request of these kinds. Null: none.
    [[nodiscard]] static Queue* first_of(const Tenant& tenant, const Kinds& kinds) noexcept;
    // Its next branch. Null: none.
    [[nodiscard]] static const Heap<Branch>* next_in(const Branch& branch,
                                                     const Kinds& kinds) noexcept;
    // Sets `now` if it is not known yet ({}).
    void read_once(Time& now) const noexcept {
        if (now == Time{}) now = reactor_.turn_time();
    }
    // Admits all requests that have room, by turn.
    void admit() noexcept;
    // Admits requests of a tenant whose limits or first requests have changed.
    void admit(Tenant& tenant) noexcept;
    bool admit_one(Tenant& tenant, Time& now) noexcept;
    // Adds the request to the demand of its tenant.
    void note(Line& line, const Demand& demand, Time& now) noexcept;
    void note_size(Tenant& tenant, const Demand& demand, Time& now) noexcept;
    void begin_span(Time now) noexcept;
    // Sets the clock of the tenants' turns back before it overflows.
    void rebase() noexcept;
    // Recomputes the demand of the tenants.
    void count() noexcept;
    [[nodiscard]] std::shared_ptr<Account> account_of(uint64_t tenant) const;
    // Begins the tenant's waiting requests that the new allowance permits.
    void allowance_changed(uint64_t tenant) noexcept;
    // The first delayed queue's time has come.
    static void end_delays(void* self) noexcept;

    Reactor& reactor_;
    const Limits limits_;
    const Accounts* const accounts_;
    const uint64_t lag_max_;                   // in turns
    const std::shared_ptr<Account> ordinary_;  // of tenants without an account
    AdmissionMetrics metrics_;
    Load inside_;
    uint32_t lines_ = 0;
    std::map<uint64_t, Tenant> tenants_;
    Branch all_;           // of the tenants; its turns are costs by weight
    List<Tenant> ready_;   // by turn
    Heap<Queue> delayed_;  // by time
    Alarm alarm_;          // for the first of them
    uint64_t active_ = 0;  // tenants
    uint64_t active_weight_ = 0;
    // The highest and second highest cost by weight that tenants want.
    struct Highest {
        uint64_t first = 0, second = 0;
        const Tenant* whose = nullptr;  // the first tenant; it is only compared
        void see(const Tenant& tenant, uint64_t cost) noexcept;
        [[nodiscard]] uint64_t of_others(const Tenant& tenant) const noexcept {
            return whose == &tenant ? second : first;
        }
    };
    Highest wanted_;
    Time next_span_{};
};

class [[nodiscard]] Line::Entering {
  public:
    Entering(Line& line, Demand demand, StopToken stop, Time arrived) noexcept
        : queue_(line.queue_for(demand)), stop_(stop), callback_(*this) {
        waiter_.demand = demand;
        waiter_.demand.expected_more_ns = queue_.expected_more_ns;
        waiter_.demand.cost_ns += queue_.expected_more_ns;
        waiter_.since = arrived;
    }
    Entering& operator=(Entering&&) = delete;
    bool await_ready() noexcept;
    void await_suspend(std::coroutine_handle<> handle) noexcept;
    Permit await_resume() noexcept {
        if (waiter_.state != Waiter::State::inside) return {};
        return {queue_.line, waiter_.demand};
    }

  private:
    struct Stopped : StopCallback {
        explicit Stopped(Entering& owner) noexcept
            : StopCallback(owner.stop_.source(),
                           [](StopCallback& self) noexcept {
                               static_cast<Stopped&>(self).owner_.stopped();
                           }),
              owner_(owner) {}
        Entering& owner_;
    };
    void stopped() noexcept;
    Queue& queue_;
    StopToken stop_;
    Waiter waiter_;
    Stopped callback_;
};

inline Line::Entering Line::enter(Demand demand, StopToken stop, Time arrived) noexcept {
    return {*this, demand, stop, arrived};
}

inline Permit Line::try_enter(Demand demand) noexcept {
    Entering entering(*this, demand, {}, {});
    return entering.await_ready() ? entering.await_resume() : Permit();
}

inline void Permit::correct_cost(uint64_t more_ns) noexcept {
    if (line_ != nullptr)
        line_->admission_.correct_cost(line_->queue_for(demand_), demand_, more_ns);
}

inline void Permit::release() noexcept {
    if (line_ == nullptr) return;
    Line& line = *std::exchange(line_, nullptr);
    line.admission_.give_back(line, demand_);
}

}  // namespace ros2s::admission

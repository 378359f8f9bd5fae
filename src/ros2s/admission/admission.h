// Admission: chooses the request that begins next, if tenants share a resource that each of them
// could exhaust: the core and the payload memory of a server, or the credits of a connection.
//
//     Line::enter() ─ room? ─ yes ─► inside: a Place ─ released ─► the next one's turn
//                       └─ no ─► waits in its line
//
// A line is one connection of a tenant. Waiting requests are admitted by start-time fair queueing
// (Goyal, Vin and Cheng 1996): tenants get shares of the server's time by their weights
// (accounts.h), and the lines of a tenant get equal ones. A request costs a fixed time and a time
// for its bytes, so 1 MiB is 17 small requests. A tenant that was idle comes before those that have
// had their share. A line keeps its order.
//
// A tenant that is alone may use nearly all of the resource. While several tenants are active, a
// tenant has no more inside, in cost by weight, than another tenant wants, but always
// Limits::least. All together have Limits::shared, and one tenant less than twice its part by
// weight. A tenant with few requests therefore finds few ahead of it. If all tenants have many
// requests, each keeps a queue that is long enough to be efficient.
//
// The rates of a tenant delay the first request of each of its lines. Requests behind it wait, too;
// other lines and tenants do not.
//
// Owned by the composing code; outlives its lines. Used on one core. Waiting allocates nothing.
//
// Invariants
// - While other tenants are active, a tenant has no more bytes inside than are free for all.
// - A tenant has at most Limits::one inside, and all tenants together at most Limits::all. Only a
//   single request that is larger than a limit of bytes exceeds it, if nothing else counts towards
//   the limit.
// - No request waits while there is room for it, it is its turn, and the tenant's rates allow it.
#pragma once
#include <coroutine>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "ros2s/admission/accounts.h"
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

struct Limits {
    Amount all{.requests = 512, .bytes = uint64_t{1} << 30};
    Amount one{.requests = 256, .bytes = uint64_t{768} << 20};  // for one tenant, also if it is
                                                                // alone
    // While several tenants are active: no request begins while those inside cost `shared`, except
    // the only one of a tenant. `least` is what a tenant may have even if others want less.
    Duration shared = std::chrono::milliseconds(4);
    Amount least{.requests = 2, .bytes = uint64_t{2} << 20};
    uint64_t line_bytes = uint64_t{160} << 20;
    // Lines of all tenants, and of one tenant.
    uint32_t lines = 1024;
    uint32_t lines_of_one = 1024;
    // A tenant wants the highest cost that it had inside and waiting in the current and the last
    // span of this length. A tenant that wanted nothing is not active. Neither is one that makes
    // fewer requests than asked_least in a span and had none in progress when the span began. An
    // occasional user therefore takes nothing from the others.
    Duration span = std::chrono::milliseconds(50);
    uint32_t asked_least = 8;
    // False if requests have passed another Admission with the same accounts. It has kept the rates
    // and counted the requests.
    bool keeps_accounts = true;
};

struct AdmissionMetrics {
    Counter waiting;  // now
    Counter waited;   // requests that found no room at once
    void visit(const MetricVisitor& visit) const;
};

class Admission;
class Line;

// Room for one request. The destructor or release() frees it.
class [[nodiscard]] Place {
  public:
    Place() = default;
    Place(Place&& other) noexcept
        : line_(std::exchange(other.line_, nullptr)), bytes_(other.bytes_) {}
    Place& operator=(Place&& other) noexcept {
        if (this != &other) {
            release();
            line_ = std::exchange(other.line_, nullptr);
            bytes_ = other.bytes_;
        }
        return *this;
    }
    ~Place() { release(); }
    explicit operator bool() const noexcept { return line_ != nullptr; }
    void release() noexcept;

  private:
    friend class Line;
    Place(Line& line, uint64_t bytes) noexcept : line_(&line), bytes_(bytes) {}
    Line* line_ = nullptr;
    uint64_t bytes_ = 0;
};

class Line {
  public:
    Line(Admission& admission, uint64_t tenant);
    // Call it only when no request waits in the line or is inside.
    ~Line();
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;

    // co_await line.enter(bytes, stop): a Place. It is empty if the request was stopped, or the
    // line turned away, while it waited. `arrived`: when the request did, if the caller knows it.
    class Entering;
    [[nodiscard]] Entering enter(uint64_t bytes, StopToken stop, Time arrived = {}) noexcept;
    // Of its tenant's account.
    [[nodiscard]] AccountMetrics& metrics() const noexcept { return tenant_.account->metrics; }
    [[nodiscard]] const std::string& tenant_name() const noexcept { return tenant_.account->name; }
    // Requests that wait, and all later ones, get an empty Place.
    void turn_away() noexcept;
    // The line ends when its requests are done: rates do not delay them any more.
    void end_rates() noexcept;
    // No request waits in it or is inside.
    [[nodiscard]] bool is_idle() const noexcept {
        return inside_.requests == 0 && waiters_.empty();
    }

  private:
    friend class Admission;
    friend class Place;
    friend class List<Line>;
    struct Waiter {
        std::coroutine_handle<> handle{};
        uint64_t bytes = 0;
        Time since{};
        Duration throttled_before{};  // the line's, when the request began to wait
        enum class State : uint8_t { outside, waiting, inside } state = State::outside;
        Links<Waiter> links{};
    };
    struct Tenant {
        std::shared_ptr<Account> account;
        Amount inside{};
        Amount waiting{};
        uint64_t wanted = 0;         // the cost, in this span
        uint64_t wanted_before = 0;  // in the last one
        uint32_t asked = 0;          // requests in this span
        uint32_t lines = 0;
        uint64_t turn = 0;   // of its next request, on the clock of all tenants
        uint64_t clock = 0;  // for the turns of its lines
        List<Line> ready;    // lines whose first waiter has room in the line, by turn
        Links<Tenant> links{};
    };
    void leave_queue(Waiter& waiter) noexcept;
    // Moves the line to the list where it belongs.
    void look() noexcept;
    enum class Where : uint8_t { nowhere, ready, delayed };
    [[nodiscard]] Where where_first_belongs() noexcept;
    void leave_list() noexcept;
    // Uses the tenant's rates for the line's first request, if that was not done. Returns true if
    // it may begin now.
    [[nodiscard]] bool is_in_rate(uint64_t bytes) noexcept;
    // For how long rates have delayed its first requests, in all.
    [[nodiscard]] Duration throttled(Time now) const noexcept;
    // The request has waited until `now`.
    void count_wait(const Waiter& waiter, Time now) noexcept;

    Admission& admission_;
    const uint64_t number_;
    Tenant& tenant_;
    uint64_t turn_ = 0;
    Amount inside_{};
    bool turned_away_ = false;
    bool keeps_rates_;
    List<Waiter> waiters_;
    Where where_ = Where::nowhere;
    Links<Line> links_{};
    bool has_used_rates_ = false;  // for its first request
    uint64_t not_before_ = 0;      // that request, in nanoseconds of the reactor's clock
    Time delayed_since_{};
    Duration throttled_{};  // until then
};

class Admission {
  public:
    // Without `accounts` all tenants have the default allowance.
    Admission(Reactor& reactor, Limits limits, const Accounts* accounts = nullptr);
    ~Admission();
    Admission(const Admission&) = delete;
    Admission& operator=(const Admission&) = delete;

    [[nodiscard]] const Limits& limits() const noexcept { return limits_; }
    // True if the tenant may have one more line.
    [[nodiscard]] bool has_room_for_line(uint64_t tenant) const noexcept;
    [[nodiscard]] Amount inside() const noexcept { return inside_; }
    [[nodiscard]] const AdmissionMetrics& metrics() const noexcept { return metrics_; }
    // Lists the metrics, and what is inside. On its core.
    void visit_metrics(const MetricVisitor& visit) const;
    // Counts something of the tenant that never came to a line.
    void count_refusal(uint64_t tenant) const noexcept {
        account_of(tenant)->metrics.refused.add();
    }

  private:
    friend class Line;
    friend class Place;
    using Tenant = Line::Tenant;
    [[nodiscard]] bool fits(const Tenant& tenant, uint64_t bytes) const noexcept;
    [[nodiscard]] bool leaves_room(const Tenant& tenant, uint64_t bytes) const noexcept;
    [[nodiscard]] bool fits(const Line& line, uint64_t bytes) const noexcept;
    void take(Line& line, uint64_t bytes) noexcept;
    void give_back(Line& line, uint64_t bytes) noexcept;
    // Reads the clock if `now` is not known yet ({}). Reading it costs as much as admitting a
    // request, so it is read only where it is needed, and once.
    void read_once(Time& now) const noexcept {
        if (now == Time{}) now = reactor_.now();
    }
    // Admits all requests that have room, by turn.
    void admit() noexcept;
    bool admit_one(Tenant& tenant, Time& now) noexcept;
    // Adds `bytes` to what the line's tenant wants.
    void note(Line& line, uint64_t bytes, Time& now) noexcept;
    void begin_span(Time now) noexcept;
    // Recomputes what the tenants want.
    void count() noexcept;
    [[nodiscard]] Amount most_of(const Tenant& tenant) const noexcept;
    [[nodiscard]] std::shared_ptr<Account> account_of(uint64_t tenant) const;
    // The first delayed line's time has come.
    static void end_delays(void* self) noexcept;

    Reactor& reactor_;
    const Limits limits_;
    const Accounts* const accounts_;
    const std::shared_ptr<Account> ordinary_;  // of tenants without an account
    AdmissionMetrics metrics_;
    Amount inside_;
    uint32_t lines_ = 0;
    std::map<uint64_t, Tenant> tenants_;
    List<Tenant> waiting_;  // tenants with ready lines, by turn
    uint64_t clock_ = 0;    // the turn of the latest request; turns are costs by weight
    List<Line> delayed_;    // by time
    Alarm alarm_;           // for the first of them
    uint64_t active_ = 0;   // tenants
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
    Entering(Line& line, uint64_t bytes, StopToken stop, Time arrived) noexcept
        : line_(line), stop_(stop), callback_(*this) {
        waiter_.bytes = bytes;
        waiter_.since = arrived;
    }
    Entering(const Entering&) = delete;
    Entering& operator=(const Entering&) = delete;
    bool await_ready() noexcept;
    void await_suspend(std::coroutine_handle<> handle) noexcept;
    Place await_resume() noexcept {
        if (waiter_.state != Waiter::State::inside) return {};
        return {line_, waiter_.bytes};
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
    Line& line_;
    StopToken stop_;
    Waiter waiter_;
    Stopped callback_;
};

inline Line::Entering Line::enter(uint64_t bytes, StopToken stop, Time arrived) noexcept {
    return {*this, bytes, stop, arrived};
}

inline void Place::release() noexcept {
    if (line_ == nullptr) return;
    Line& line = *std::exchange(line_, nullptr);
    line.admission_.give_back(line, bytes_);
}

}  // namespace ros2s::admission

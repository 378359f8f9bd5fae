#include "ros2s/admission/admission.h"

#include <algorithm>

namespace ros2s::admission {
namespace {

// What a request costs the server, in nanoseconds of its core and device: the medians of
// `./dev bench costs` are 17 µs for 4 KiB and 273 µs for 1 MiB at a DPU, 15 and 326 at an engine.
constexpr uint64_t fixed_cost = 16'000;
constexpr uint64_t bytes_per_cost = 4;

uint64_t cost_of(const Amount& amount) {
    return amount.requests * fixed_cost + amount.bytes / bytes_per_cost;
}

// The turn of a request is the clock, or the end of its owner's request before it. Whoever was away
// therefore saves nothing, and is not behind either.
void pass(uint64_t& clock, uint64_t& turn, uint64_t cost) {
    clock = std::max(clock, turn);
    turn = clock + cost;
}

// Costs are multiplied before they are divided by a weight, so that little is lost.
constexpr uint64_t weight_one = 256;
uint64_t by_weight(uint64_t cost, const Account& account) {
    return cost * weight_one / account.weight();
}

bool fits_bytes(uint64_t inside, uint64_t more, uint64_t most) {
    return more == 0 || inside == 0 || (more <= most && inside <= most - more);
}

}  // namespace

void AdmissionMetrics::visit(const MetricVisitor& visit) const {
    visit("ros2store_admission_waiting", "Requests that wait for their turn", waiting.value());
    visit("ros2store_admission_waited_total", "Requests that found no room at once",
          waited.value());
}

// ---- lines ----------------------------------------------------------------------------------

Line::Line(Admission& admission, uint64_t tenant)
    : admission_(admission),
      number_(tenant),
      tenant_(admission.tenants_[tenant]),
      keeps_rates_(admission.limits_.keeps_accounts) {
    if (tenant_.lines == 0) tenant_.account = admission.account_of(tenant);
    ++tenant_.lines;
    ++admission_.lines_;
}

Line::~Line() {
    ROS2S_CHECK(is_idle());
    --admission_.lines_;
    if (--tenant_.lines > 0) return;
    admission_.tenants_.erase(number_);
    admission_.count();
}

void Line::look() noexcept {
    const Where where = where_first_belongs();
    if (where == where_) return;
    leave_list();
    where_ = where;
    if (where == Where::ready) {
        turn_ = std::max(turn_, tenant_.clock);
        tenant_.ready.insert(*this, &Line::turn_);
        if (List<Tenant>::has(tenant_)) return;
        tenant_.turn = std::max(tenant_.turn, admission_.clock_);
        admission_.waiting_.insert(tenant_, &Tenant::turn);
    } else if (where == Where::delayed) {
        delayed_since_ = admission_.reactor_.now();
        metrics().delayed.add();
        admission_.delayed_.insert(*this, &Line::not_before_);
        if (admission_.delayed_.first() == this) admission_.alarm_.set(Time(Duration(not_before_)));
    }
}

Line::Where Line::where_first_belongs() noexcept {
    if (waiters_.empty()) return Where::nowhere;
    const uint64_t bytes = waiters_.front().bytes;
    if (!is_in_rate(bytes)) return Where::delayed;
    return admission_.fits(*this, bytes) ? Where::ready : Where::nowhere;
}

void Line::leave_list() noexcept {
    if (where_ == Where::ready) {
        tenant_.ready.erase(*this);
        if (tenant_.ready.empty()) admission_.waiting_.erase(tenant_);
    } else if (where_ == Where::delayed) {
        admission_.delayed_.erase(*this);
        throttled_ = throttled(admission_.reactor_.now());
    }
    where_ = Where::nowhere;
}

Duration Line::throttled(Time now) const noexcept {
    return where_ == Where::delayed ? throttled_ + (now - delayed_since_) : throttled_;
}

void Line::count_wait(const Waiter& waiter, Time now) noexcept {
    const Duration throttled_since = throttled(now) - waiter.throttled_before;
    const Duration queued = now - waiter.since - throttled_since;
    metrics().throttled_ns.add(static_cast<uint64_t>(throttled_since.count()));
    metrics().queued_ns.add(static_cast<uint64_t>(queued.count()));
}

bool Line::is_in_rate(uint64_t bytes) noexcept {
    if (!keeps_rates_ || !tenant_.account->has_rates()) return true;
    const Time now = admission_.reactor_.now();
    if (!has_used_rates_) {
        const Time begins = tenant_.account->use(bytes, now);
        not_before_ = static_cast<uint64_t>(begins.time_since_epoch().count());
        has_used_rates_ = true;
    }
    return now.time_since_epoch() >= Duration(not_before_);
}

// Removes it from the line; it was not admitted.
void Line::leave_queue(Waiter& waiter) noexcept {
    if (waiter.state != Waiter::State::waiting) return;
    if (admission_.limits_.keeps_accounts) count_wait(waiter, admission_.reactor_.now());
    if (&waiter == &waiters_.front() && has_used_rates_) {
        tenant_.account->give_back(waiter.bytes);
        has_used_rates_ = false;
        leave_list();
    }
    waiter.state = Waiter::State::outside;
    waiters_.erase(waiter);
    --tenant_.waiting.requests;
    tenant_.waiting.bytes -= waiter.bytes;
    admission_.metrics_.waiting.subtract();
    look();
    admission_.reactor_.post(waiter.handle);
}

void Line::turn_away() noexcept {
    turned_away_ = true;
    while (!waiters_.empty()) leave_queue(waiters_.front());
}

void Line::end_rates() noexcept {
    keeps_rates_ = false;
    look();
    admission_.admit();
}

// Other requests may fit where this one did not.
void Line::Entering::stopped() noexcept {
    line_.leave_queue(waiter_);
    line_.admission_.admit();
}

bool Line::Entering::await_ready() noexcept {
    if (line_.turned_away_ || stop_.stop_requested()) return true;
    Admission& admission = line_.admission_;
    admission.note(line_, waiter_.bytes, waiter_.since);
    // Waiting requests come first.
    const bool first = line_.waiters_.empty() && line_.tenant_.ready.empty();
    if (!first || !admission.fits(line_, waiter_.bytes) ||
        !admission.fits(line_.tenant_, waiter_.bytes) || !line_.is_in_rate(waiter_.bytes)) {
        return false;
    }
    admission.take(line_, waiter_.bytes);
    waiter_.state = Waiter::State::inside;
    return true;
}

void Line::Entering::await_suspend(std::coroutine_handle<> handle) noexcept {
    waiter_.handle = handle;
    waiter_.state = Waiter::State::waiting;
    if (line_.admission_.limits_.keeps_accounts) {
        line_.admission_.read_once(waiter_.since);
        waiter_.throttled_before = line_.throttled(waiter_.since);
    }
    line_.waiters_.push_back(waiter_);
    ++line_.tenant_.waiting.requests;
    line_.tenant_.waiting.bytes += waiter_.bytes;
    line_.admission_.metrics_.waiting.add();
    line_.admission_.metrics_.waited.add();
    line_.look();
}

// ---- whose turn it is -----------------------------------------------------------------------

Admission::Admission(Reactor& reactor, Limits limits, const Accounts* accounts)
    : reactor_(reactor),
      limits_(limits),
      accounts_(accounts),
      ordinary_(std::make_shared<Account>(0, "", Allowance{})),
      alarm_(reactor, &Admission::end_delays, this) {}

Admission::~Admission() { ROS2S_CHECK(lines_ == 0); }

void Admission::visit_metrics(const MetricVisitor& visit) const {
    metrics_.visit(visit);
    visit("ros2store_admission_inside", "Requests in progress, without those that wait",
          inside_.requests);
}

std::shared_ptr<Account> Admission::account_of(uint64_t tenant) const {
    auto account = accounts_ != nullptr ? accounts_->find(tenant) : nullptr;
    return account != nullptr ? std::move(account) : ordinary_;
}

bool Admission::has_room_for_line(uint64_t tenant) const noexcept {
    if (lines_ >= limits_.lines) return false;
    const auto found = tenants_.find(tenant);
    return found == tenants_.end() || found->second.lines < limits_.lines_of_one;
}

bool Admission::fits(const Line& line, uint64_t bytes) const noexcept {
    return fits_bytes(line.inside_.bytes, bytes, limits_.line_bytes);
}

bool Admission::fits(const Tenant& tenant, uint64_t bytes) const noexcept {
    if (inside_.requests >= limits_.all.requests) return false;
    if (!fits_bytes(inside_.bytes, bytes, limits_.all.bytes)) return false;
    if (!leaves_room(tenant, bytes)) return false;
    const Amount most = most_of(tenant);
    if (tenant.inside.requests >= most.requests ||
        !fits_bytes(tenant.inside.bytes, bytes, most.bytes)) {
        return false;
    }
    // One request of each tenant has room, also if others fill what is shared. A large request
    // needs no more room than a small one, or small ones would always be first.
    if (active_ <= 1 || tenant.inside.requests == 0) return true;
    const auto shared = static_cast<uint64_t>(limits_.shared.count());
    const uint64_t weight = tenant.account->weight();
    return cost_of(inside_) < shared &&
           cost_of(tenant.inside) < 2 * shared * weight / (active_weight_ + weight);
}

// While others are active, it leaves as many bytes free as it then has. Tenants that cooperate and
// keep what they got therefore leave room for one more.
bool Admission::leaves_room(const Tenant& tenant, uint64_t bytes) const noexcept {
    if (bytes == 0 || inside_.bytes == tenant.inside.bytes) return true;
    return tenant.inside.bytes + bytes <= limits_.all.bytes - inside_.bytes - bytes;
}

Amount Admission::most_of(const Tenant& tenant) const noexcept {
    if (active_ <= 1) return limits_.one;
    const uint64_t others = wanted_.of_others(tenant) * tenant.account->weight() / weight_one;
    return {.requests = std::min(limits_.one.requests,
                                 std::max(limits_.least.requests, others / fixed_cost)),
            .bytes = std::min(limits_.one.bytes,
                              std::max(limits_.least.bytes, others * bytes_per_cost))};
}

void Admission::take(Line& line, uint64_t bytes) noexcept {
    const uint64_t cost = cost_of({.requests = 1, .bytes = bytes});
    Account& account = *line.tenant_.account;
    pass(clock_, line.tenant_.turn, by_weight(cost, account));
    pass(line.tenant_.clock, line.turn_, cost);
    line.has_used_rates_ = false;
    if (limits_.keeps_accounts) {
        (bytes > 0 ? account.metrics.requests : account.metrics.names).add();
        account.metrics.bytes.add(bytes);
    }
    for (Amount* each : {&line.inside_, &line.tenant_.inside, &inside_}) {
        ++each->requests;
        each->bytes += bytes;
    }
}

void Admission::give_back(Line& line, uint64_t bytes) noexcept {
    for (Amount* each : {&line.inside_, &line.tenant_.inside, &inside_}) {
        --each->requests;
        each->bytes -= bytes;
    }
    if (!line.waiters_.empty()) line.look();
    if (!waiting_.empty()) admit();
}

void Admission::admit() noexcept {
    Time now{};
    for (Tenant* tenant = waiting_.first(); tenant != nullptr;) {
        if (inside_.requests >= limits_.all.requests) return;
        tenant = admit_one(*tenant, now) ? waiting_.first() : List<Tenant>::next(*tenant);
    }
}

bool Admission::admit_one(Tenant& tenant, Time& now) noexcept {
    Line& line = tenant.ready.front();
    Line::Waiter& waiter = line.waiters_.front();
    if (!fits(tenant, waiter.bytes)) return false;
    if (limits_.keeps_accounts) {
        read_once(now);
        line.count_wait(waiter, now);
    }
    line.waiters_.erase(waiter);
    waiter.state = Line::Waiter::State::inside;
    --tenant.waiting.requests;
    tenant.waiting.bytes -= waiter.bytes;
    metrics_.waiting.subtract();
    // Both are inserted at their new turns.
    line.leave_list();
    if (!tenant.ready.empty()) waiting_.erase(tenant);
    take(line, waiter.bytes);
    if (!tenant.ready.empty()) waiting_.insert(tenant, &Tenant::turn);
    line.look();
    reactor_.post(waiter.handle);
    return true;
}

void Admission::end_delays(void* self) noexcept {
    auto& admission = *static_cast<Admission*>(self);
    const auto now = static_cast<uint64_t>(admission.reactor_.now().time_since_epoch().count());
    while (!admission.delayed_.empty() && admission.delayed_.front().not_before_ <= now) {
        admission.delayed_.front().look();
    }
    if (!admission.delayed_.empty()) {
        admission.alarm_.set(Time(Duration(admission.delayed_.front().not_before_)));
    }
    admission.admit();
}

// ---- what tenants want ----------------------------------------------------------------------

void Admission::Highest::see(const Tenant& tenant, uint64_t cost) noexcept {
    if (whose == &tenant) {
        first = std::max(first, cost);
    } else if (cost > first) {
        second = first;
        first = cost;
        whose = &tenant;
    } else {
        second = std::max(second, cost);
    }
}

// What a tenant wanted in the last span still counts, so that no other tenant fills its room before
// it comes back.
void Admission::note(Line& line, uint64_t bytes, Time& now) noexcept {
    if (tenants_.size() == 1) return;
    read_once(now);
    if (now >= next_span_) {
        // No request came in a whole span.
        if (now >= next_span_ + limits_.span) begin_span(now);
        begin_span(now);
    }
    Tenant& tenant = line.tenant_;
    if (++tenant.asked < limits_.asked_least && tenant.wanted == 0) return;
    if (tenant.wanted + tenant.wanted_before == 0) {
        ++active_;
        active_weight_ += tenant.account->weight();
    }
    const Amount more{.requests = 1, .bytes = bytes};
    const uint64_t cost = cost_of(tenant.inside) + cost_of(tenant.waiting) + cost_of(more);
    tenant.wanted = std::max(tenant.wanted, cost);
    wanted_.see(tenant, by_weight(tenant.wanted, *tenant.account));
}

void Admission::begin_span(Time now) noexcept {
    next_span_ = now + limits_.span;
    for (auto& [number, tenant] : tenants_) {
        tenant.asked = 0;
        tenant.wanted_before = tenant.wanted;
        tenant.wanted = cost_of(tenant.inside) + cost_of(tenant.waiting);
    }
    count();
}

void Admission::count() noexcept {
    active_ = active_weight_ = 0;
    wanted_ = {};
    for (const auto& [number, tenant] : tenants_) {
        const uint64_t wanted = std::max(tenant.wanted, tenant.wanted_before);
        if (wanted > 0) {
            ++active_;
            active_weight_ += tenant.account->weight();
        }
        wanted_.see(tenant, by_weight(wanted, *tenant.account));
    }
}

}  // namespace ros2s::admission

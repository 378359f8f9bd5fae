#include "ros2s/admission/admission.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace ros2s::admission {
namespace {

// Costs are multiplied before they are divided by a weight, so that little is lost.
constexpr uint64_t weight_one = 256;
uint64_t by_weight(uint64_t cost, const Account& account) {
    return cost * weight_one / account.weight();
}

// So many small requests in two spans are a reader that waits for each, even behind a full queue of
// large ones.
constexpr uint64_t small_asked_least = 2;

// The clock of all tenants is set back when it has passed this. A busy core takes about 60 days if
// all weights are 1.
constexpr uint64_t clock_max = uint64_t{1} << 62;

// Of what a request turned out to cost, this part becomes the expectation at once.
constexpr uint64_t learned_of = 8;

// A tenant's requests that pass, and how many may come at once.
constexpr Duration pass_every = std::chrono::microseconds(500);
constexpr Duration pass_burst = std::chrono::milliseconds(250);

bool fits_bytes(uint64_t inside, uint64_t more, uint64_t most) {
    return more == 0 || inside == 0 || (more <= most && inside <= most - more);
}

}  // namespace

void AdmissionMetrics::visit(const MetricVisitor& visit) const {
    visit("ros2store_admission_waiting", "Requests that wait for their turn", waiting.value());
    visit("ros2store_admission_waited_total", "Requests that found no room at once",
          waited.value());
    visit("ros2store_admission_moved_total", "Lines of requests that admission put in another list",
          moved.value());
}

// ---- lines ----------------------------------------------------------------------------------

Line::Line(Admission& admission, uint64_t tenant, uint64_t session)
    : admission_(admission),
      number_(tenant),
      session_number_(session),
      tenant_(admission.tenants_[tenant]),
      session_(tenant_.sessions[session]),
      keeps_rates_(admission.limits_.keeps_accounts) {
    if (tenant_.lines == 0) {
        tenant_.account = admission.account_of(tenant);
        tenant_.parent = &admission.all_;
    }
    session_.parent = &tenant_;
    branch_.parent = &session_;
    ++tenant_.lines;
    ++session_.lines;
    ++admission_.lines_;
}

Line::~Line() {
    ROS2S_CHECK(is_idle());
    --admission_.lines_;
    if (--session_.lines == 0) tenant_.sessions.erase(session_number_);
    if (--tenant_.lines > 0) return;
    admission_.tenants_.erase(number_);
    admission_.count();
}

void Line::Queue::look() noexcept {
    const State next = state_of_first();
    if (next == state && (state != State::ready || kind == kind_of_first())) return;
    leave_list();
    state = next;
    if (state == State::unlisted) return;
    Admission& admission = line.admission_;
    admission.metrics_.moved.add();
    if (state == State::ready) {
        kind = kind_of_first();
        admission.link(*this);
    } else {
        delayed_since = admission.reactor_.now();
        line.metrics().delayed.add();
        line.tenant_.delayed.push_back(*this);
        admission.delayed_.insert(*this, delay, not_before);
        if (&admission.delayed_.front() == this) admission.alarm_.set(Time(Duration(not_before)));
    }
}

Line::Kind Line::Queue::kind_of_first() const noexcept {
    if (!line.admission_.limits_.keeps_accounts) return unlimited;
    return waiters.front().demand.memory_bytes() > 0 ? payload : names;
}

Line::Queue::State Line::Queue::state_of_first() noexcept {
    if (waiters.empty()) return State::unlisted;
    const Demand& demand = waiters.front().demand;
    if (!is_in_rate(demand)) return State::delayed;
    return line.admission_.fits(line, demand.memory_bytes()) ? State::ready : State::unlisted;
}

void Line::Queue::leave_list() noexcept {
    if (state == State::ready) {
        line.admission_.unlink(*this);
    } else if (state == State::delayed) {
        line.admission_.delayed_.erase(delay);
        line.tenant_.delayed.erase(*this);
        throttled_until_then = throttled(line.admission_.reactor_.now());
    }
    state = State::unlisted;
}

Duration Line::Queue::throttled(Time now) const noexcept {
    return state == State::delayed ? throttled_until_then + (now - delayed_since)
                                   : throttled_until_then;
}

void Line::Queue::count_wait(const Waiter& waiter, Time now) noexcept {
    const Duration throttled_since = throttled(now) - waiter.throttled_before;
    // The times of a turn's begin and of the moment differ.
    const Duration queued = std::max(now - waiter.since - throttled_since, Duration{});
    line.metrics().throttled_ns.add(static_cast<uint64_t>(throttled_since.count()));
    line.metrics().queued_ns.add(static_cast<uint64_t>(queued.count()));
}

bool Line::Queue::is_in_rate(const Demand& demand) noexcept {
    if (!line.keeps_rates_ || !line.tenant_.account->has_rates()) return true;
    const Time now = line.admission_.reactor_.now();
    if (!has_used_rates) {
        const Time begins = line.tenant_.account->use(demand, now);
        not_before = static_cast<uint64_t>(begins.time_since_epoch().count());
        has_used_rates = true;
    }
    return now.time_since_epoch() >= Duration(not_before);
}

bool Line::Queue::leave(Waiter& waiter) noexcept {
    if (waiter.state != Waiter::State::waiting) return false;
    Admission& admission = line.admission_;
    if (admission.limits_.keeps_accounts) count_wait(waiter, admission.reactor_.now());
    const bool was_first = &waiter == &waiters.front();
    if (was_first && has_used_rates) {
        line.tenant_.account->give_back(waiter.demand);
        has_used_rates = false;
        leave_list();
    }
    waiter.state = Waiter::State::outside;
    waiters.erase(waiter);
    line.tenant_.waiting.remove(waiter.demand);
    admission.metrics_.waiting.subtract();
    if (was_first) look();
    admission.reactor_.post(waiter.handle);
    return was_first;
}

bool Line::pass(Time now) noexcept {
    const Time begins = std::max(tenant_.passed_until, now - pass_burst);
    if (turned_away_ || begins > now) return false;
    tenant_.passed_until = begins + pass_every;
    return true;
}

void Line::use_names(uint64_t names) noexcept {
    if (keeps_rates_ && names > 0) tenant_.account->use_names(names, admission_.reactor_.now());
}

void Line::charge_refusal(uint64_t cost_ns) noexcept {
    // Tenants without an account of their own share one.
    if (!keeps_rates_ || tenant_.account->number == 0) return;
    const auto time = Duration(static_cast<int64_t>(cost_ns * admission_.limits_.refusal_factor));
    tenant_.account->owe_for_refusal(time, admission_.reactor_.now());
}

void Line::turn_away() noexcept {
    turned_away_ = true;
    for (Queue* const queue : {&small_, &large_}) {
        while (!queue->waiters.empty()) queue->leave(queue->waiters.front());
    }
    admission_.admit(tenant_);
}

void Line::end_rates() noexcept {
    keeps_rates_ = false;
    small_.look();
    large_.look();
    admission_.admit();
}

// Other requests may fit where the first did not. Nobody waits for one behind it.
void Line::Entering::stopped() noexcept {
    if (queue_.leave(waiter_)) queue_.line.admission_.admit(queue_.line.tenant_);
}

bool Line::Entering::await_ready() noexcept {
    Line& line = queue_.line;
    if (line.turned_away_ || stop_.stop_requested()) return true;
    Admission& admission = line.admission_;
    const Demand& demand = waiter_.demand;
    // Waiting requests come first.
    const bool first = queue_.waiters.empty() && !List<Tenant>::has(line.tenant_);
    if (!first || !admission.fits(line, demand.memory_bytes()) ||
        !admission.fits(line.tenant_, demand) || !admission.is_in_limits(line.tenant_, demand) ||
        !queue_.is_in_rate(demand)) {
        return false;  // noted when it waits: what does not wait asks again elsewhere
    }
    admission.note(line, demand, waiter_.since);
    admission.take(queue_, demand);
    waiter_.state = Waiter::State::inside;
    return true;
}

void Line::Entering::await_suspend(std::coroutine_handle<> handle) noexcept {
    Line& line = queue_.line;
    Admission& admission = line.admission_;
    admission.note(line, waiter_.demand, waiter_.since);
    waiter_.handle = handle;
    waiter_.state = Waiter::State::waiting;
    if (admission.limits_.keeps_accounts) {
        admission.read_once(waiter_.since);
        waiter_.throttled_before = queue_.throttled(waiter_.since);
    }
    const bool is_first = queue_.waiters.empty();
    queue_.waiters.push_back(waiter_);
    line.tenant_.waiting.add(waiter_.demand);
    admission.metrics_.waiting.add();
    admission.metrics_.waited.add();
    queue_.look();
    // It may pass those of its tenant for which there is no room.
    if (is_first && queue_.state == Queue::State::ready) admission.admit();
}

// ---- whose turn it is -----------------------------------------------------------------------

Admission::Admission(Reactor& reactor, Limits limits, const Accounts* accounts)
    : reactor_(reactor),
      limits_(limits),
      accounts_(accounts),
      lag_max_(8 * static_cast<uint64_t>(limits.shared.count()) * weight_one),
      ordinary_(std::make_shared<Account>(0, "", Allowance{})),
      alarm_(reactor, &Admission::end_delays, this) {
    if (accounts_ != nullptr && limits_.keeps_accounts) accounts_->admissions_.push_back(this);
}

Admission::~Admission() {
    ROS2S_CHECK(lines_ == 0);
    if (accounts_ != nullptr && limits_.keeps_accounts) std::erase(accounts_->admissions_, this);
}

void Admission::visit_metrics(const MetricVisitor& visit) const {
    metrics_.visit(visit);
    visit("ros2store_admission_inside", "Requests in progress, without those that wait",
          inside_.requests);
}

std::shared_ptr<Account> Admission::account_of(uint64_t tenant) const {
    auto account = accounts_ != nullptr ? accounts_->find(tenant) : nullptr;
    return account != nullptr ? std::move(account) : ordinary_;
}

bool Admission::fits(const Line& line, uint64_t bytes) const noexcept {
    return fits_bytes(line.inside_.bytes, bytes, limits_.line_bytes);
}

bool Admission::is_in_limits(const Tenant& tenant, const Demand& demand) const noexcept {
    if (!limits_.keeps_accounts) return true;
    const Account& account = *tenant.account;
    if (tenant.inside.requests >= account.requests_in_flight_max()) return false;
    const uint64_t bytes = demand.memory_bytes();
    return bytes == 0 || (tenant.ready[Line::payload].empty() &&
                          fits_bytes(tenant.inside.bytes, bytes, account.bytes_in_flight_max()));
}

bool Admission::fits(const Tenant& tenant, const Demand& demand) const noexcept {
    const uint64_t bytes = demand.memory_bytes();
    if (inside_.requests >= limits_.all.requests) return false;
    if (!fits_bytes(inside_.bytes, bytes, limits_.all.bytes)) return false;
    if (!leaves_room(tenant, bytes)) return false;
    const Load& inside = tenant.inside;
    if (inside.requests >= limits_.one.requests ||
        !fits_bytes(inside.bytes, bytes, limits_.one.bytes)) {
        return false;
    }
    if (active_ <= 1) {
        return !Line::is_large(demand) ||
               tenant.large_inside_ns < static_cast<uint64_t>(limits_.large.count()) ||
               (tenant.small_inside == 0 &&
                tenant.small_asked + tenant.small_asked_before < small_asked_least);
    }
    const uint64_t weight = tenant.account->weight();
    const bool has_least = inside.requests >= limits_.least.requests ||
                           !fits_bytes(inside.bytes, bytes, limits_.least.bytes);
    if (has_least && inside.cost_ns >= wanted_.of_others(tenant) * weight / weight_one) {
        return false;
    }
    // One request of each tenant has room, also if others fill what is shared. A large request
    // needs no more room than a small one, or small ones would always be first.
    if (inside.requests == 0) return true;
    const auto shared = static_cast<uint64_t>(limits_.shared.count());
    const uint64_t weights = active_weight_ + weight;
    if (inside.cost_ns * weights >= 2 * shared * weight) return false;
    // While their peers stall, the running requests of other tenants may cost more than
    // Limits::shared. The tenant still has a quarter of its own limit. It is at most half of the
    // tenant's part by weight, and so does not decide the shares.
    return inside_.cost_ns < shared ||
           2 * (inside.cost_ns + demand.cost_ns) * weights <= shared * weight;
}

// While others are active, it leaves as many bytes free as it then has. Tenants that cooperate and
// keep what they got therefore leave room for one more.
bool Admission::leaves_room(const Tenant& tenant, uint64_t bytes) const noexcept {
    if (bytes == 0 || inside_.bytes == tenant.inside.bytes) return true;
    return tenant.inside.bytes + bytes <= limits_.all.bytes - inside_.bytes - bytes;
}

// Turns never go back behind the clock by more than what was paid before.
void Admission::pay(Branch& branch, const Tenant& tenant) noexcept {
    const int64_t owed = std::exchange(branch.owed_ns, 0);
    const auto more = static_cast<uint64_t>(std::abs(owed));
    const uint64_t turns = &branch == &tenant ? by_weight(more, *tenant.account) : more;
    branch.turn = owed >= 0 ? branch.turn + turns : branch.turn - std::min(branch.turn, turns);
}

// The turn of a request is the clock when it came, or the end of its owner's request before it. An
// owner that was idle therefore saves nothing, and is not behind either. The clock is the turn of
// the latest request. But those that wait because they have enough inside keep their turns: the
// clock does not pass them, up to a limit, so that no tenant saves time by what stays inside.
void Admission::pass(Branch& branch, uint64_t cost, uint64_t turn_of_waiting) const noexcept {
    Branch& parent = *branch.parent;
    const uint64_t begins = std::max(branch.turn, parent.clock);
    branch.turn = begins + cost;
    const uint64_t least = begins - std::min(begins, lag_max_);
    const uint64_t clock = std::min(begins, std::max(least, turn_of_waiting));
    parent.clock = std::max(parent.clock, clock);
}

void Admission::take(Queue& queue, const Demand& demand) noexcept {
    Line& line = queue.line;
    Tenant& tenant = line.tenant_;
    Account& account = *tenant.account;
    const Kinds open = open_kinds(tenant);
    for (Branch* each = &queue; each != &tenant; each = each->parent) {
        pay(*each, tenant);
        const Heap<Branch>* const next = next_in(*each->parent, open);
        pass(*each, demand.cost_ns, next != nullptr ? next->front_key() : UINT64_MAX);
    }
    pay(tenant, tenant);
    pass(tenant, by_weight(demand.cost_ns, account),
         ready_.empty() ? UINT64_MAX : ready_.front().turn);
    queue.has_used_rates = false;
    if (limits_.keeps_accounts) {
        (demand.on_names ? account.metrics.names : account.metrics.requests).add();
        account.metrics.bytes.add(demand.bytes);
    }
    for (Load* const each : {&line.inside_, &tenant.inside, &inside_}) each->add(demand);
    if (Line::is_large(demand)) {
        tenant.large_inside_ns += demand.cost_ns;
    } else {
        ++tenant.small_inside;
    }
}

void Admission::give_back(Line& line, const Demand& demand) noexcept {
    for (Load* const each : {&line.inside_, &line.tenant_.inside, &inside_}) each->remove(demand);
    if (Line::is_large(demand)) {
        line.tenant_.large_inside_ns -= demand.cost_ns;
    } else {
        --line.tenant_.small_inside;
    }
    for (Queue* const queue : {&line.small_, &line.large_}) {
        if (!queue->waiters.empty()) queue->look();
    }
    place(line.tenant_);
    if (!ready_.empty()) admit();
}

void Admission::correct_cost(Queue& queue, const Demand& demand, uint64_t more_ns) noexcept {
    if (more_ns == 0 && queue.expected_more_ns == 0) return;
    queue.expected_more_ns -= queue.expected_more_ns / learned_of;
    queue.expected_more_ns += more_ns / learned_of;
    Tenant& tenant = queue.line.tenant_;
    const auto unexpected =
        static_cast<int64_t>(more_ns) - static_cast<int64_t>(demand.expected_more_ns);
    for (Branch* each = &queue; each->parent != nullptr; each = each->parent) {
        // While it is in a list, its place is by its turn.
        each->owed_ns += unexpected;
        if (each->linked == 0) pay(*each, tenant);
    }
}

// While it is in a list, its turn stays: it has waited since.
void Admission::insert(Branch& branch, size_t kind) noexcept {
    if (branch.linked++ == 0) branch.turn = std::max(branch.turn, branch.parent->clock);
    branch.parent->ready[kind].insert(branch, branch.nodes[kind], branch.turn);
}

void Admission::erase(Branch& branch, size_t kind) noexcept {
    --branch.linked;
    branch.parent->ready[kind].erase(branch.nodes[kind]);
}

void Admission::link(Queue& queue) noexcept {
    Tenant& tenant = queue.line.tenant_;
    for (Branch* each = &queue; each != &tenant; each = each->parent) {
        if (Heap<Branch>::has(each->nodes[queue.kind])) break;
        insert(*each, queue.kind);
    }
    place(tenant);
}

void Admission::unlink(Queue& queue) noexcept {
    Tenant& tenant = queue.line.tenant_;
    for (Branch* each = &queue; each != &tenant; each = each->parent) {
        erase(*each, queue.kind);
        if (!each->parent->ready[queue.kind].empty()) break;
    }
    place(tenant);
}

void Admission::place(Tenant& tenant) noexcept {
    const bool waits = next_in(tenant, open_kinds(tenant)) != nullptr;
    if (waits == List<Tenant>::has(tenant)) return;
    if (!waits) return leave_list(tenant);
    ++tenant.linked;
    tenant.turn = std::max(tenant.turn, all_.clock);
    ready_.insert(tenant, &Tenant::turn);
}

void Admission::leave_list(Tenant& tenant) noexcept {
    --tenant.linked;
    ready_.erase(tenant);
}

Admission::Kinds Admission::open_kinds(const Tenant& tenant) noexcept {
    const Account& account = *tenant.account;
    if (tenant.inside.requests >= account.requests_in_flight_max()) return {true, false, false};
    const uint64_t bytes_max = account.bytes_in_flight_max();
    if (bytes_max == UINT64_MAX) return {true, true, true};
    const Queue* const first = first_of(tenant, {false, false, true});
    return {
        true, true,
        first == nullptr || fits_bytes(tenant.inside.bytes,
                                       first->waiters.front().demand.memory_bytes(), bytes_max)};
}

const Heap<Line::Branch>* Admission::next_in(const Branch& branch, const Kinds& kinds) noexcept {
    const Heap<Branch>* next = nullptr;
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
        const Heap<Branch>& ready = branch.ready[kind];
        if (!kinds[kind] || ready.empty()) continue;
        if (next == nullptr || ready.front_key() < next->front_key()) next = &ready;
    }
    return next;
}

Line::Queue* Admission::first_of(const Tenant& tenant, const Kinds& kinds) noexcept {
    Branch* leaf = nullptr;
    const Branch* from = &tenant;
    while (const Heap<Branch>* const next = next_in(*from, kinds)) from = leaf = &next->front();
    return static_cast<Queue*>(leaf);
}

void Admission::admit() noexcept {
    Time now{};
    for (Tenant* tenant = ready_.first(); tenant != nullptr;) {
        if (inside_.requests >= limits_.all.requests) return;
        tenant = admit_one(*tenant, now) ? ready_.first() : List<Tenant>::next(*tenant);
    }
}

void Admission::admit(Tenant& tenant) noexcept {
    place(tenant);
    Time now{};
    while (List<Tenant>::has(tenant) && admit_one(tenant, now)) {
    }
}

bool Admission::admit_one(Tenant& tenant, Time& now) noexcept {
    Queue* first = first_of(tenant, open_kinds(tenant));
    // Of payload, the one whose bytes open_kinds() has compared with the limit: branches with equal
    // turns can lead to another one.
    if (first->kind == Line::payload) first = first_of(tenant, {false, false, true});
    Queue& queue = *first;
    Line::Waiter& waiter = queue.waiters.front();
    if (!fits(tenant, waiter.demand)) return false;
    if (limits_.keeps_accounts) {
        read_once(now);
        queue.count_wait(waiter, now);
    }
    queue.waiters.erase(waiter);
    waiter.state = Line::Waiter::State::inside;
    tenant.waiting.remove(waiter.demand);
    metrics_.waiting.subtract();
    // All branches on its way are inserted at their new turns.
    queue.leave_list();
    for (Branch* each = queue.parent; each != &tenant; each = each->parent) {
        for (size_t kind = 0; kind < each->nodes.size(); ++kind) {
            if (Heap<Branch>::has(each->nodes[kind])) erase(*each, kind);
        }
    }
    if (List<Tenant>::has(tenant)) leave_list(tenant);
    take(queue, waiter.demand);
    for (Branch* each = queue.parent; each != &tenant; each = each->parent) {
        for (size_t kind = 0; kind < each->ready.size(); ++kind) {
            if (!each->ready[kind].empty()) insert(*each, kind);
        }
    }
    place(tenant);
    queue.look();
    reactor_.post(waiter.handle);
    return true;
}

void Admission::end_delays(void* self) noexcept {
    auto& admission = *static_cast<Admission*>(self);
    const auto now = static_cast<uint64_t>(admission.reactor_.now().time_since_epoch().count());
    while (!admission.delayed_.empty() && admission.delayed_.front().not_before <= now) {
        admission.delayed_.front().look();
    }
    if (!admission.delayed_.empty()) {
        admission.alarm_.set(Time(Duration(admission.delayed_.front().not_before)));
    }
    admission.admit();
}

// Forgets the delays by the old rates, and the debts of the account (Accounts::set). Delayed
// requests use the new rates.
void Admission::allowance_changed(uint64_t tenant) noexcept {
    const auto found = tenants_.find(tenant);
    if (found == tenants_.end()) return;
    List<Queue>& delayed = found->second.delayed;
    for (Queue* each = delayed.first(); each != nullptr; each = List<Queue>::next(*each)) {
        each->has_used_rates = false;
    }
    // Queues that the new rates delay as well go to the end.
    while (!delayed.empty() && !delayed.front().has_used_rates) {
        Queue& queue = delayed.front();
        queue.leave_list();
        queue.look();
    }
    admit(found->second);
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

// A tenant's demand of the last span still counts. Otherwise other tenants would fill its room
// before its next request.
void Admission::note(Line& line, const Demand& demand, Time& now) noexcept {
    note_size(line.tenant_, demand, now);
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
    const uint64_t cost = tenant.inside.cost_ns + tenant.waiting.cost_ns + demand.cost_ns;
    tenant.wanted = std::max(tenant.wanted, cost);
    wanted_.see(tenant, by_weight(tenant.wanted, *tenant.account));
}

void Admission::note_size(Tenant& tenant, const Demand& demand, Time& now) noexcept {
    if (!Line::is_large(demand)) {
        ++tenant.small_asked;
        return;
    }
    read_once(now);
    if (now < tenant.next_size_span) return;
    // No large request came in a whole span.
    const bool is_old = now >= tenant.next_size_span + limits_.span;
    tenant.small_asked_before = is_old ? 0 : tenant.small_asked;
    tenant.small_asked = 0;
    tenant.next_size_span = now + limits_.span;
}

// Turns before the clock count as the clock anyway, so nothing else changes. A tenant that is alone
// begins no spans, but has no other tenant before or behind it. The clocks of tenants, sessions and
// lines are not multiplied by weight_one, and last longer than a century.
void Admission::rebase() noexcept {
    if (all_.clock <= clock_max) return;
    for (auto& [number, tenant] : tenants_) tenant.turn -= std::min(tenant.turn, all_.clock);
    all_.clock = 0;
}

void Admission::begin_span(Time now) noexcept {
    next_span_ = now + limits_.span;
    rebase();
    for (auto& [number, tenant] : tenants_) {
        tenant.asked = 0;
        tenant.wanted_before = tenant.wanted;
        tenant.wanted = tenant.inside.cost_ns + tenant.waiting.cost_ns;
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

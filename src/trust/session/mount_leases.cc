#include "mount_leases.h"

#include <algorithm>
#include <utility>

#include "ros2s/base/check.h"

namespace ros2s::session {
namespace {

// With the longest wait for one answer it is less than the time for which a store bans an owner: a
// slow tenant is banned before the server as a whole is.
constexpr Duration waited_most = std::chrono::milliseconds(500);

}  // namespace

void TenantAnswers::note(uint64_t tenant, Time begun, Time now) {
    times.add(static_cast<uint64_t>((now - begun).count()));
    if (now - begun < object::SlowAnswers::prompt_most) return;
    std::erase_if(tenants_, [now](const auto& each) { return each.second.is_past(now); });
    if (tenants_[tenant].note(begun, now, waited_most)) counters.cuts.add();
}

std::vector<std::pair<uint64_t, Time>> TenantAnswers::barred(Time now) const {
    std::vector<std::pair<uint64_t, Time>> all;
    for (const auto& [tenant, each] : tenants_) {
        if (each.is_banned(now)) all.emplace_back(tenant, each.banned_until());
    }
    return all;
}

MountLeases::MountLeases(Reactor& reactor, fs::LeaseSet& leases, TenantAnswers& answers,
                         uint64_t tenant)
    : reactor_(reactor), leases_(leases), answers_(answers), tenant_(tenant), idle_(reactor) {}
MountLeases::~MountLeases() {
    ROS2S_CHECK(recalls_.empty() && running_ == 0);
    leases_.unobserve(*this);
}

bool MountLeases::is_lending() const {
    const Time now = reactor_.now();
    return is_begun_ && now < until_ && !answers_.is_banned(tenant_, now);
}

void MountLeases::wake() {
    if (listening_ != nullptr) std::exchange(listening_, nullptr)->request_stop();
}

// ---- the client -----------------------------------------------------------------------------

Task<LeaseNews> MountLeases::listen(const Call& call, const Listening& listening) {
    const uint64_t self = ++last_listening_;
    wake();
    if (listening.begins || listening.ends) {
        is_begun_ = false;
        until_ = {};
        finish_all();
        if (listening.begins && !std::exchange(is_observing_, true)) leases_.observe(*this);
        if (listening.ends || leases_.era() == 0 || answers_.is_banned(tenant_, reactor_.now())) {
            co_return LeaseNews{.lost = true};
        }
        is_begun_ = true;
        since_ = reactor_.now();
        co_return next_news();
    }
    if (!is_lending()) co_return LeaseNews{.lost = true};
    finish(listening.heard);
    if (!has_untold()) {
        StopSource end;
        const ForwardedStop stopped(call.stop, end);
        listening_ = &end;
        (void)co_await sleep_for(reactor_, listening_max, end.token());
        if (listening_ == &end) listening_ = nullptr;
    }
    if (self != last_listening_ || !is_lending()) co_return LeaseNews{.lost = true};
    co_return next_news();
}

bool MountLeases::has_untold() const {
    return std::ranges::any_of(recalls_, [](const Recall* each) { return each->told_in == 0; });
}

LeaseNews MountLeases::next_news() {
    LeaseNews news{.number = ++last_news_};
    for (Recall* const each : recalls_) {
        while (each->told < each->leases.size() && news.recalled.size() < recalled_max) {
            news.recalled.push_back(each->leases[each->told++]);
        }
        if (each->told_in == 0 && each->told == each->leases.size()) each->told_in = news.number;
    }
    const Time now = reactor_.now();
    Time until = std::min(leases_.until(), now + held_most);
    // One that owes an answer gets no more time.
    const bool owes_answer = std::ranges::any_of(recalls_, [&news](const Recall* each) {
        return each->told_in != 0 && each->told_in != news.number;
    });
    if (owes_answer) until = std::min(until, until_);
    news.held_for = std::max(until - now, Duration{});
    until_ = std::max(until_, until);
    return news;
}

void MountLeases::finish(uint64_t heard) {
    std::erase_if(recalls_, [heard](Recall* each) {
        const bool is_answered = each->told_in != 0 && each->told_in == heard;
        if (is_answered) each->answered.request_stop();
        return is_answered;
    });
}

void MountLeases::finish_all() {
    for (Recall* const each : std::exchange(recalls_, {})) each->answered.request_stop();
}

// ---- the store ------------------------------------------------------------------------------

Task<> MountLeases::answer_to(Recall& recall) {
    recalls_.push_back(&recall);
    wake();
    while (!recall.answered.stop_requested() && reactor_.now() < until_) {
        (void)co_await sleep_until(reactor_, until_, recall.answered.token());
    }
    if (recall.answered.stop_requested()) co_return;
    // Its time is over. It has lost all.
    is_begun_ = false;
    size_t expired = 0;
    for (const Recall* const each : recalls_) expired += each->leases.size();
    answers_.counters.expired.add(expired);
    if (expired > 0 && on_silence) on_silence(reactor_.now() - recalled());
    finish_all();
}

Task<> MountLeases::lost(std::span<const Leased> leases) {
    const Time begun = reactor_.now();
    if (until_ <= begun) co_return;
    ++running_;
    answers_.counters.recalls.add(leases.size());
    Recall recall{.leases = leases, .begun = begun};
    co_await answer_to(recall);
    answers_.note(tenant_, begun, reactor_.now());
    if (--running_ == 0) idle_.wake_all();
}

Task<> MountLeases::lost_all() {
    ++running_;
    co_await lose_all();
    if (--running_ == 0) idle_.wake_all();
}

Task<> MountLeases::lose_all() {
    is_begun_ = false;
    if (until_ <= reactor_.now()) co_return;
    Recall recall{.begun = reactor_.now()};
    co_await answer_to(recall);
}

Task<> MountLeases::end() {
    co_await lose_all();
    while (running_ > 0) co_await idle_;
}

// ---- for operators --------------------------------------------------------------------------

Time MountLeases::recalled() const {
    const auto oldest = std::ranges::min_element(recalls_, {}, &Recall::begun);
    return oldest == recalls_.end() ? Time{} : (*oldest)->begun;
}

void MountLeases::evict() {
    answers_.counters.evictions.add();
    is_begun_ = false;
    wake();
}

}  // namespace ros2s::session

#include "leases.h"

#include <algorithm>
#include <cstring>

#include "ros2s/base/check.h"
#include "ros2s/runtime/backoff.h"
#include "sharing_rules.h"

namespace ros2s::object {
namespace {

// Others that wait to change an object ask again within this time.
constexpr Duration wanted_for = std::chrono::milliseconds(200);
// An object of which so many changes in a second had to wait is not leased for a while, at first
// so long.
constexpr uint32_t recalls_max = 3;
constexpr Duration looked_every = std::chrono::seconds(1);
// An answer that takes longer is reported.
constexpr Duration slow_least = std::chrono::seconds(1);

// The objects that it changes. One of several operations may be called several times.
void each_object(const Transaction& transaction, auto&& visit) {
    const ObjectId* last = nullptr;
    for (const Operation& operation : transaction.operations) {
        if (last != nullptr && *last == operation.object) continue;
        last = &operation.object;
        visit(operation.object);
    }
}

}  // namespace

size_t LeaseTable::KeyHash::operator()(const Key& key) const noexcept {
    uint64_t words[4];
    static_assert(sizeof key.first == 16 && sizeof key.second == 16);
    std::memcpy(words, &key.first, 16);
    std::memcpy(words + 2, &key.second, 16);
    uint64_t hash = 0;
    for (const uint64_t word : words) {
        hash = (hash ^ word) * 0x9E3779B97F4A7C15;
        hash ^= hash >> 32;
    }
    return hash;
}

LeaseTable::HolderState* LeaseTable::find(ContainerId container, const Holder& holder) {
    if (holders_.empty()) return nullptr;
    const auto found = holders_.find(name_of(container, holder));
    return found == holders_.end() ? nullptr : found->second.get();
}

void LeaseTable::close() {
    is_closed_ = true;
    for (const auto& [name, holder] : holders_) holder->wake();
}

// ---- listening ------------------------------------------------------------------------------

// A holder that begins, or ends, has dropped everything that it kept.
void LeaseTable::end(const HolderName& name) {
    const auto known = holders_.find(name);
    if (known == holders_.end()) return;
    known->second->wake();
    known->second->until = {};
    ended_.push_back(std::move(known->second));
    holders_.erase(known);
}

void LeaseTable::client_ended(uint64_t session) {
    std::vector<HolderName> gone;
    for (const auto& [name, each] : holders_) {
        if (each->session == session) gone.push_back(name);
    }
    for (const HolderName& name : gone) end(name);
}

LeaseTable::HolderPointer LeaseTable::begin_listening(ContainerId container, const Holder& holder) {
    end(name_of(container, holder));
    HolderPointer& known = holders_[name_of(container, holder)];
    known = std::make_shared<HolderState>(name_of(container, holder));
    known->session = holder.session;
    known->begun = reactor_.now();
    return known;
}

Task<Result<LeaseNews>> LeaseTable::listen(const Call& call, ContainerId container,
                                           const Holder& holder, const Listening& listening) {
    drop_some_ended();
    HolderPointer self;
    if (listening.ends) {
        end(name_of(container, holder));
        co_return LeaseNews{.lost = true};
    }
    if (listening.begins) {
        self = begin_listening(container, holder);
    } else if (const auto found = holders_.find(name_of(container, holder));
               found != holders_.end()) {
        self = found->second;
    }
    // Leases of a holder whose time is over may have ended without a recall.
    const auto is_over = [&] {
        return self->is_cut || self->session != holder.session ||
               (self->until <= reactor_.now() && !listening.begins);
    };
    if (self == nullptr || is_over()) co_return LeaseNews{.lost = true};
    for (const Lease& each : listening.given_back) {
        give_back(*self, {container, each.object}, each.number);
    }
    self->wake();
    if (listening.waits && self->untold == 0 && !is_closed_) {
        StopSource end;
        const ForwardedStop stopped(call.stop, end);
        self->listening = &end;
        (void)co_await sleep_for(reactor_, listening_max, end.token());
        if (self->listening == &end) self->listening = nullptr;
    }
    const auto now_known = holders_.find(self->name);
    const bool is_replaced = now_known == holders_.end() || now_known->second != self;
    if (is_over() || is_replaced) co_return LeaseNews{.lost = true};
    co_return news_for(*self);
}

bool LeaseTable::has_another(ContainerId container, const Holder& holder) const {
    const HolderName mine = name_of(container, holder);
    const Time now = reactor_.now();
    for (auto each = holders_.lower_bound({.container = container, .owner = {}, .client = {}});
         each != holders_.end() && each->first.container == container; ++each) {
        if (each->first != mine && each->second->until > now) return true;
    }
    return false;
}

LeaseNews LeaseTable::news_for(HolderState& holder) {
    LeaseNews news;
    for (auto& [number, recall] : holder.recalls) {
        if (holder.untold == 0 || news.recalled.size() == lease_news_max) break;
        if (recall.told) continue;
        recall.told = reactor_.now();
        --holder.untold;
        news.recalled.push_back({recall.key.second, number});
    }
    const Duration lasts = sharing_rules.holder_stops_first ? lease_time : lease_use_time / 2;
    holder.until = std::max(holder.until, reactor_.now() + lasts);
    return news;
}

// ---- grants ---------------------------------------------------------------------------------

bool LeaseTable::has_room(const HolderState& holder) const {
    if (count_ >= leases_max || holder.leases.size() >= session_leases_max) return false;
    const auto owner = owners_.find(holder.name.owner);
    const size_t own = owner == owners_.end() ? 0 : owner->second.leases;
    return own < (leases_max - (count_ - own)) / 2;
}

uint64_t LeaseTable::grant(ContainerId container, ObjectId object, const Holder& holder) {
    HolderState* const state = find(container, holder);
    if (state == nullptr || state->session != holder.session || state->is_cut) return 0;
    const Time now = reactor_.now();
    if (now >= state->until) return 0;
    const Key key{container, object};
    if (const auto held = state->leases.find(key); held != state->leases.end()) {
        return state->recalls.contains(held->second) ? 0 : held->second;
    }
    if (ending_.contains(container)) return 0;
    if (const auto others = objects_.find(key);
        others != objects_.end() && others->second.size() >= object_leases_max) {
        counters_.refused.add();
        return 0;
    }
    const Bucket& bucket = bucket_of(key);
    if (bucket.in_flight > 0 && sharing_rules.no_grant_amid_change) return 0;
    if (now < bucket.wanted_until) return 0;
    if (now < bucket.recalled.spared_until && bucket.recalled.key == key) return 0;
    if (!has_room(*state)) {
        counters_.refused.add();
        return 0;
    }
    Owner& owner = owners_[state->name.owner];
    if (owner.answers.is_banned(now)) return 0;
    const uint64_t number = ++last_number_;
    state->leases.emplace(key, number);
    objects_[key].push_back({state, number});
    ++owner.leases;
    ++count_;
    return number;
}

namespace {

auto lease_wanted_by(const Transaction& transaction) {
    return std::ranges::find(transaction.conditions, Condition::Kind::lease, &Condition::kind);
}

}  // namespace

bool wants_lease(const Transaction& transaction) {
    return lease_wanted_by(transaction) != transaction.conditions.end();
}

uint64_t LeaseTable::grant(ContainerId container, const Transaction& transaction) {
    const auto wanted = lease_wanted_by(transaction);
    if (wanted == transaction.conditions.end()) return 0;
    return grant(container, wanted->object, transaction.holder);
}

void LeaseTable::drop(HolderState& holder, Key key) {
    const auto held = holder.leases.find(key);
    if (held == holder.leases.end()) return;
    const uint64_t number = held->second;
    holder.leases.erase(held);
    if (const auto recall = holder.recalls.find(number); recall != holder.recalls.end()) {
        if (!recall->second.told) --holder.untold;
        // One that begins again has dropped everything: that is an answer.
        end_recall(holder, recall->second, holder.until == Time{});
        holder.recalls.erase(recall);
    }
    const auto object = objects_.find(key);
    std::erase_if(object->second, [&](const Granted& each) { return each.number == number; });
    if (object->second.empty()) objects_.erase(object);
    --owners_.at(holder.name.owner).leases;
    --count_;
}

void LeaseTable::done(ContainerId container, const Transaction& transaction) {
    for (const Operation& operation : transaction.operations) {
        if (operation.kind != Operation::Kind::punch_object) continue;
        HolderState* const holder = find(container, transaction.holder);
        if (holder != nullptr) drop(*holder, {container, operation.object});
    }
}

// Holders that have ended may have very many leases.
void LeaseTable::drop_some_ended() {
    constexpr size_t slice = 4096;
    const Time now = reactor_.now();
    if (now >= looked_ + looked_every) {
        looked_ = now;
        for (auto each = holders_.begin(); each != holders_.end();) {
            const HolderPointer& holder = each->second;
            if (holder->until > now || holder->listening != nullptr) {
                ++each;
                continue;
            }
            ended_.push_back(holder);
            each = holders_.erase(each);
        }
        std::erase_if(owners_, [&](const auto& each) {
            const Owner& owner = each.second;
            return owner.leases == 0 && owner.answers.is_past(now);
        });
    }
    for (size_t left = slice; left > 0 && !ended_.empty();) {
        HolderState& holder = *ended_.back();
        for (; left > 0 && !holder.leases.empty(); --left)
            drop(holder, holder.leases.begin()->first);
        if (holder.leases.empty()) ended_.pop_back();
    }
}

// ---- recalls --------------------------------------------------------------------------------

bool LeaseTable::awaits_another(ContainerId container, const Holder& holder) const {
    const Time now = reactor_.now();
    return now < opened_ + lease_time && pins_.awaited_another(container, holder, now);
}

Result<> LeaseTable::admit(ContainerId container, const Transaction& transaction) {
    if (awaits_another(container, transaction.holder)) return fail(Code::leased);
    return ask(container, transaction);
}

Result<> LeaseTable::ask(ContainerId container, const Transaction& transaction) {
    if (objects_.empty()) return {};
    const HolderState* const by = find(container, transaction.holder);
    bool waits = false;
    each_object(transaction, [&](ObjectId object) {
        if (ask_back({container, object}, by, transaction.holder)) waits = true;
    });
    return waits && sharing_rules.await_leases ? fail(Code::leased) : Result<>();
}

Task<> LeaseTable::end_all(ContainerId container) {
    constexpr Duration pause = std::chrono::milliseconds(2);
    ending_.insert(container);
    std::vector<HolderPointer> holders;
    for (const auto& [name, holder] : holders_) {
        if (name.container != container) continue;
        cut(*holder);
        holders.push_back(holder);
    }
    const auto is_over = [this](const HolderPointer& each) {
        return each->until <= reactor_.now();
    };
    while (!std::ranges::all_of(holders, is_over)) co_await sleep_for(reactor_, pause);
}

bool LeaseTable::ask_back(const Key& key, const HolderState* by, const Holder& waiter) {
    const auto found = objects_.find(key);
    if (found == objects_.end()) return false;
    const Time now = reactor_.now();
    bool waits = false, recalls = false;
    std::vector<HolderState*> over;
    for (const Granted& each : found->second) {
        HolderState& holder = *each.holder;
        if (&holder == by) continue;
        if (holder.until <= now) {
            over.push_back(&holder);
            continue;
        }
        const auto recall = holder.recalls.find(each.number);
        if (recall == holder.recalls.end()) {
            begin_recall(each, key, waiter);
            recalls = true;
        } else if (recall->second.told && now >= *recall->second.told + lease_time) {
            over.push_back(&holder);
            continue;
        }
        waits = true;
    }
    for (HolderState* const each : over) drop(*each, key);
    if (recalls) note_recalls(key);
    if (waits) bucket_of(key).wanted_until = now + wanted_for;
    return waits;
}

void LeaseTable::begin_recall(const Granted& granted, const Key& key, const Holder& waiter) {
    const Time now = reactor_.now();
    HolderState& holder = *granted.holder;
    holder.recalls.emplace(granted.number, Recall{.key = key, .begun = now, .waiter = waiter});
    ++holder.untold;
    counters_.recalls.add();
    holder.wake();
}

// One change, however many holders it waits for.
void LeaseTable::note_recalls(const Key& key) {
    const Time now = reactor_.now();
    Recalled& recalled = bucket_of(key).recalled;
    if (recalled.key != key) {
        if (now < recalled.spared_until) return;
        recalled = {.key = key};
    }
    if (now >= recalled.second + std::chrono::seconds(1)) {
        recalled.second = now;
        recalled.recalls = 0;
    }
    if (++recalled.recalls < recalls_max) return;
    Backoff spared{.first = std::chrono::seconds(5), .longest = std::chrono::seconds(60)};
    if (now >= recalled.spared_until + spared.longest) recalled.backoffs = 0;
    spared.attempts = static_cast<int>(recalled.backoffs++);
    recalled.spared_until = now + spared.next();
}

void LeaseTable::end_recall(HolderState& holder, const Recall& recall, bool is_answered) {
    const Time now = reactor_.now();
    const Time ended = holder.until == Time{} ? now : std::min(now, holder.until);
    const Duration waited = std::max(ended - recall.begun, Duration{});
    answers_.add(static_cast<uint64_t>(waited.count()));
    if (!is_answered) counters_.expired.add();
    if (waited > slow_least && slow_) {
        slow_({.holder = holder.name,
               .session = holder.session,
               .waiter = recall.waiter,
               .waited = waited,
               .is_answered = is_answered});
    }
    const bool is_gone = holder.until <= now;
    SlowAnswers& owner = owners_[holder.name.owner].answers;
    if (!owner.note(recall.begun, ended, lease_time, is_gone)) return;
    for (const auto& [name, each] : holders_) {
        if (name.owner != holder.name.owner || each->is_cut) continue;
        counters_.cuts.add();
        cut(*each);
    }
}

void LeaseTable::give_back(HolderState& holder, const Key& key, uint64_t number) {
    const auto held = holder.leases.find(key);
    if (held == holder.leases.end() || held->second != number) return;
    if (const auto recall = holder.recalls.find(number); recall != holder.recalls.end()) {
        if (!recall->second.told) --holder.untold;
        end_recall(holder, recall->second, true);
        holder.recalls.erase(recall);
    }
    drop(holder, key);
}

void LeaseTable::count_in_flight(ContainerId container, const Transaction& transaction, int more) {
    each_object(transaction, [&](ObjectId object) {
        bucket_of({container, object}).in_flight += static_cast<uint32_t>(more);
    });
}

// ---- for operators --------------------------------------------------------------------------

std::vector<LeaseHolder> LeaseTable::holders() const {
    const Time now = reactor_.now();
    std::vector<LeaseHolder> all;
    for (const auto& [name, each] : holders_) {
        if (each->until <= now) continue;
        LeaseHolder& holder = all.emplace_back(LeaseHolder{.name = name,
                                                           .session = each->session,
                                                           .since = each->begun,
                                                           .nodes = each->leases.size(),
                                                           .recalls = each->recalls.size(),
                                                           .is_cut = each->is_cut});
        for (const auto& [number, recall] : each->recalls) {
            const bool is_first = holder.recalled == Time{};
            holder.recalled = is_first ? recall.begun : std::min(holder.recalled, recall.begun);
        }
    }
    return all;
}

std::vector<std::pair<Uuid, Time>> LeaseTable::barred() const {
    const Time now = reactor_.now();
    std::vector<std::pair<Uuid, Time>> all;
    for (const auto& [owner, each] : owners_) {
        if (each.answers.is_banned(now)) all.emplace_back(owner, each.answers.banned_until());
    }
    return all;
}

bool LeaseTable::evict(const HolderName& holder) {
    const auto found = holders_.find(holder);
    if (found == holders_.end() || found->second->until <= reactor_.now()) return false;
    counters_.evictions.add();
    cut(*found->second);
    return true;
}

}  // namespace ros2s::object

#include "sim_rados.h"

#include <algorithm>
#include <array>
#include <set>

#include "ros2s/base/check.h"
#include "ros2s/rados/keys.h"
#include "ros2s/rados/records.h"

namespace ros2s::rados {
namespace {

constexpr size_t names_per_page = 100;
constexpr std::array refusals{Code::denied, Code::io, Code::condition_failed};

// Of a transaction over several objects.
bool is_step(const Change& change) {
    const auto has_step = [](const auto& each) {
        Coordination record;
        return each.first == pending_key || decode(each.second, record);
    };
    return std::ranges::find(change.remove, pending_key) != change.remove.end() ||
           std::ranges::any_of(change.set, has_step);
}

}  // namespace

Result<> SimRados::apply(const Change& change) {
    const auto found = objects_.find(change.object);
    const bool exists = found != objects_.end();
    if (change.expect == Change::Expect::absent && exists) return fail(Code::condition_failed);
    if (!change.equal.empty() && !exists) return fail(Code::condition_failed);
    for (const auto& [key, value] : change.equal) {
        const auto now = found->second.omap.find(key);
        const std::string& bytes = now == found->second.omap.end() ? std::string() : now->second;
        if (bytes != value) return fail(Code::condition_failed);
    }
    if (change.remove_object) {
        if (!exists) return fail(Code::not_found);
        objects_.erase(found);
        return {};
    }
    const bool only_removes = change.set.empty() && change.data.empty();
    if (only_removes && !exists) return fail(Code::not_found);
    const size_t bytes_before = exists ? found->second.data.size() : 0;
    const bool adds = !exists || change.data.size() > bytes_before;
    if (is_full_ && adds && !change.even_if_full) return fail(Code::no_space);
    Object& object = objects_[change.object];
    for (const auto& [key, value] : change.set) {
        ROS2S_CHECK(!value.empty());  // it would look like a missing key
        object.omap[key] = value;
    }
    for (const std::string& key : change.remove) object.omap.erase(key);
    if (!change.data.empty()) object.data = as_text(change.data);
    return {};
}

void SimRados::apply_perhaps(const Change& change) {
    Random& random = reactor_.random();
    const uint64_t fate = random.below(3);
    if (fate == 1) (void)apply(change);
    if (fate == 2) {
        const auto late = std::chrono::milliseconds(random.below(3000));
        ROS2S_CHECK(late_.try_spawn(apply_late(change, std::string(as_text(change.data)), late)));
    }
}

Task<> SimRados::apply_late(Change change, std::string data, Duration delay) {
    co_await sleep_for(reactor_, delay);
    change.data = as_bytes(data);
    (void)apply(change);
}

Task<> SimPool::delay() {
    const auto most = static_cast<uint64_t>(options_.delay_max.count());
    if (most == 0) co_return;
    Reactor& reactor = cluster_.reactor_;
    co_await sleep_for(reactor, Duration(reactor.random().below(most + 1)));
}

bool SimPool::survives(const Change* change) {
    if (is_dead_) return false;
    const uint64_t number = requests_++;
    if (!options_.dies_at || number != *options_.dies_at) return true;
    is_dead_ = true;
    if (change != nullptr) cluster_.apply_perhaps(*change);
    return false;
}

Result<> SimPool::mislead(const Change& change) {
    Random& random = cluster_.reactor_.random();
    if (random.one_in(2)) {
        is_misled_ = true;
        cluster_.apply_perhaps(change);
        return fail(Code::deadline);
    }
    const auto applied = cluster_.apply(change);
    if (!applied) return applied;
    is_misled_ = true;
    return fail(refusals.at(random.below(refusals.size() - (is_step(change) ? 0 : 1))));
}

Task<Result<>> SimPool::apply(const Change& change) {
    const bool needs_omap = !change.set.empty() || !change.remove.empty() || !change.equal.empty();
    if (needs_omap && !options_.has_omap) co_return fail(Code::unsupported);
    co_await delay();
    if (!survives(&change)) co_return fail(Code::cancelled);
    const bool is_due = misled_at_ && !is_misled_ && requests_ > *misled_at_;
    auto applied = is_due ? mislead(change) : cluster_.apply(change);
    co_await delay();
    if (is_dead_) co_return fail(Code::cancelled);
    co_return applied;
}

Task<Result<ReadReply>> SimPool::read(const Read& read) {
    co_await delay();
    if (!survives(nullptr)) co_return fail(Code::cancelled);
    const auto found = cluster_.objects_.find(read.object);
    Result<ReadReply> reply = fail(Code::not_found);
    if (found != cluster_.objects_.end()) {
        const auto& omap = found->second.omap;
        reply.emplace();
        for (const std::string& key : read.keys) {
            if (const auto value = omap.find(key); value != omap.end()) {
                reply->values.emplace(*value);
            }
        }
        const KeyRange& range = read.range;
        const size_t most = std::min(range.limit, keys_per_read);
        size_t count = 0;
        for (auto at = omap.upper_bound(std::max(range.after, range.prefix)); at != omap.end();
             ++at) {
            const bool is_in =
                at->first.starts_with(range.prefix) && (range.end.empty() || at->first < range.end);
            if (most == 0 || !is_in) break;
            if (count++ == most) {
                reply->more = true;
                break;
            }
            reply->values.emplace(*at);
            reply->last = at->first;
        }
    }
    co_await delay();
    if (is_dead_) co_return fail(Code::cancelled);
    co_return reply;
}

Task<Result<uint64_t>> SimPool::read_data(const ObjectName& object, uint64_t offset, Bytes into) {
    co_await delay();
    if (!survives(nullptr)) co_return fail(Code::cancelled);
    Result<uint64_t> count = fail(Code::not_found);
    const auto found = cluster_.objects_.find(object);
    if (found != cluster_.objects_.end()) {
        const std::string& data = found->second.data;
        const uint64_t from = std::min<uint64_t>(offset, data.size());
        count = std::min<uint64_t>(into.size(), data.size() - from);
        std::ranges::copy(as_bytes(data).subspan(from, *count), into.begin());
    }
    co_await delay();
    if (is_dead_) co_return fail(Code::cancelled);
    co_return count;
}

// In the order of a hash, as RADOS.
class SimListing final : public Listing {
  public:
    SimListing(SimPool& pool, std::string space) : pool_(pool), space_(std::move(space)) {}
    Task<Result<std::vector<std::string>>> next() override {
        co_await pool_.delay();
        if (!pool_.survives(nullptr)) co_return fail(Code::cancelled);
        std::vector<std::string> names;
        std::set<std::pair<size_t, ObjectName>> order;
        for (const auto& [name, object] : pool_.cluster_.objects()) {
            if (space_ == all_spaces || name.space == space_) order.emplace(hash(name.name), name);
        }
        auto at = order.begin();
        if (last_) at = order.upper_bound(*last_);
        for (; at != order.end() && names.size() < names_per_page; ++at) {
            names.push_back(at->second.name);
            last_ = *at;
        }
        co_return names;
    }

  private:
    static size_t hash(const std::string& name) {
        size_t hash = 14695981039346656037U;
        for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211U;
        return hash;
    }
    SimPool& pool_;
    std::string space_;
    std::optional<std::pair<size_t, ObjectName>> last_;
};

std::unique_ptr<Listing> SimPool::list(std::string space) {
    return std::make_unique<SimListing>(*this, std::move(space));
}

// As a cluster without a manager answers: the facts are late.
Task<Result<object::PoolSpace>> SimPool::space() {
    co_await delay();
    co_return object::PoolSpace{.total_bytes = uint64_t{1} << 40, .free_bytes = uint64_t{1} << 40};
}

}  // namespace ros2s::rados

#include "caches.h"

#include <algorithm>
#include <set>

#include "ros2s/object/checksum.h"
#include "ros2s/object/validate.h"

namespace ros2s::engine {

using object::CacheUse;
using Kind = object::Operation::Kind;

namespace {

// Victims of one transaction.
constexpr size_t victims_max = 64;
// What is removed beyond what a put needs, so that not every put removes something.
constexpr uint64_t margin_share = 64, margin_max = 8 << 20;
constexpr size_t keys_of_page = 1024;
// The whole table is looked at in about sixteen pauses.
constexpr Duration pause = std::chrono::seconds(1);
constexpr size_t looks_min = 1024, looks_share = 16;

bool is_block(const object::Operation& operation) {
    return operation.object == object::blocks_object && !operation.dkey.bytes.empty();
}
std::optional<object::BlockHead> head_in(const object::Operation& operation) {
    if (operation.kind != Kind::put || operation.akey != object::block_head_akey()) return {};
    return object::parse_block_head(operation.window.bytes());
}
bool is_pin(const object::Operation& operation) {
    return operation.object == object::blocks_object &&
           operation.akey == object::block_pin_akey() &&
           (operation.kind == Kind::put || operation.kind == Kind::punch_akey);
}
bool is_cache_record(const object::Operation& operation) {
    return operation.object == object::blocks_object && operation.dkey == object::cache_dkey() &&
           operation.kind == Kind::put && operation.akey == object::cache_akey();
}

uint64_t age_ns(uint32_t seconds) { return uint64_t{seconds} * 1'000'000'000; }
uint64_t above(uint64_t sum, uint64_t cap) { return cap > 0 && sum > cap ? sum - cap : 0; }

void hide(object::FetchItem& item) {
    std::ranges::fill(item.window.bytes().first(item.extent.length), std::byte{0});
    item.checksums.clear();
    item.seals.clear();
    item.status = fail(Code::not_found);
}

}  // namespace

struct Caches::Cache {
    Cache(object::ContainerId container, Reactor& reactor, uint64_t secret)
        : id(container), keys(secret), turn(reactor, 1), progress(reactor) {}
    [[nodiscard]] bool is_old(uint32_t at, uint32_t now) const {
        return ttl_s > 0 && now - at >= ttl_s;
    }

    void unpin(const BlockPins::Keys& over) {
        for (const std::string& key : over) keys.unpin(key);
    }

    const object::ContainerId id;
    S3Fifo keys;
    BlockPins pins;
    TableUse counted;
    Owners::value_type* owned = nullptr;  // it is counted there
    bool is_forgotten = false;
    uint32_t ttl_s = 0;        // 0: none
    uint64_t claimed = 0;      // bytes
    bool has_unknown = false;  // blocks that are not in the table
    size_t next_place = 0;     // where remove_old() continues
    CacheUse use;
    size_t puts = 0;     // in progress
    size_t leaving = 0;  // blocks that are being removed
    Semaphore turn;
    Event progress;  // a put or a removal has ended
};

void Caches::Claim::begin(Caches& caches, std::shared_ptr<Cache> cache, uint64_t bytes) {
    caches_ = &caches;
    cache_ = std::move(cache);
    bytes_ = bytes;
    cache_->claimed += bytes;
    ++cache_->puts;
    caches_->recount(*cache_);
}

void Caches::Claim::release() {
    if (cache_ != nullptr) cache_->claimed -= std::exchange(bytes_, 0);
}

Caches::Claim::~Claim() {
    if (cache_ == nullptr) return;
    release();
    --cache_->puts;
    caches_->recount(*cache_);
    cache_->progress.wake_all();
}

Caches::Caches(Cores& cores, State& state, Reader& reader, Lister& lister, uint64_t memory_bytes)
    : cores_(cores),
      state_(state),
      reader_(reader),
      lister_(lister),
      reactor_(cores.home().env.reactor),
      memory_bytes_max_(memory_bytes),
      secret_(reactor_.secrets().next()),
      changed_(reactor_),
      ended_(reactor_) {}

std::shared_ptr<Caches::Cache> Caches::find(object::ContainerId container) const {
    const auto found = caches_.find(container);
    return found == caches_.end() ? nullptr : found->second;
}

uint32_t Caches::now_s() const {
    return static_cast<uint32_t>(
        std::chrono::floor<std::chrono::seconds>(reactor_.now().time_since_epoch()).count());
}

uint64_t Caches::memory_bytes() const {
    uint64_t bytes = 0;
    for (const auto& [id, cache] : caches_) bytes += cache->keys.memory_bytes();
    return bytes + all_.pins * BlockPins::bytes_per_pin;
}

void Caches::recount(Cache& cache) {
    if (cache.is_forgotten) return;
    const std::string_view owner = owner_of(cache.id);
    if (cache.owned == nullptr || cache.owned->first != owner) {
        uncount(cache);
        cache.owned = &*owners_.try_emplace(std::string(owner)).first;
        cache.owned->second.caches.insert(cache.id);
    }
    const TableUse now{.bytes = cache.keys.charged_bytes(cache.puts), .pins = cache.pins.size()};
    for (TableUse* const sum : {&all_, &cache.owned->second.amount}) {
        sum->bytes += now.bytes - cache.counted.bytes;
        sum->pins += now.pins - cache.counted.pins;
    }
    cache.counted = now;
}

void Caches::uncount(Cache& cache) {
    if (cache.owned == nullptr) return;
    Owned& owned = cache.owned->second;
    for (TableUse* const sum : {&all_, &owned.amount}) {
        sum->bytes -= cache.counted.bytes;
        sum->pins -= cache.counted.pins;
    }
    cache.counted = {};
    owned.caches.erase(cache.id);
    if (owned.caches.empty()) owners_.erase(cache.owned->first);
    cache.owned = nullptr;
}

void Caches::forget(object::ContainerId container) {
    const auto cache = find(container);
    if (cache == nullptr) return;
    uncount(*cache);
    cache->is_forgotten = true;
    caches_.erase(container);
}

bool Caches::has_memory(const Cache& cache) const {
    const uint64_t more =
        cache.keys.charged_bytes(cache.puts + 1) - cache.keys.charged_bytes(cache.puts);
    return all_.bytes + more + pin_bytes_max() <= memory_bytes_max_;
}

std::string_view Caches::owner_of(object::ContainerId container) const {
    const auto found = state_.containers.find(container);
    if (found == state_.containers.end()) return {};
    return found->second.value.properties.owner;
}

object::ContainerId Caches::gives_memory(const Cache& cache) const {
    const Owned* giver = &cache.owned->second;
    const auto shares = std::ranges::count_if(owners_, [giver](const auto& each) {
        return &each.second == giver || each.second.amount.bytes > 0;
    });
    if (giver->amount.bytes * static_cast<size_t>(shares) < all_.bytes) {
        giver = &std::ranges::max_element(owners_, {}, [](const auto& each) {
                     return each.second.amount.bytes;
                 })->second;
    } else if (cache.counted.bytes * giver->caches.size() >= giver->amount.bytes) {
        return cache.id;
    }
    object::ContainerId largest = cache.id;
    size_t most = 0;
    for (const object::ContainerId id : giver->caches) {
        const size_t queued = caches_.at(id)->keys.queued();
        if (queued <= most) continue;
        if (!state_.has_container(id)) continue;  // it is being removed
        largest = id;
        most = queued;
    }
    return largest;
}

// ---- transactions with blocks --------------------------------------------------------------

bool Caches::concerns(const object::Transaction& transaction) {
    return std::ranges::any_of(transaction.operations, [](const object::Operation& operation) {
        return operation.object == object::blocks_object;
    });
}
bool Caches::concerns(std::span<const object::FetchItem> items) {
    return !items.empty() && items.front().object == object::blocks_object;
}
bool Caches::has_blocks(const object::Transaction& transaction) {
    return std::ranges::any_of(transaction.operations, is_block);
}

// Bytes and head of one block, and the condition that it is absent.
static bool is_put(const object::Transaction& transaction) {
    if (transaction.operations.size() != 2) return false;
    const object::Operation& data = transaction.operations[0];
    const object::Operation& head = transaction.operations[1];
    if (!head.window.is_local()) return false;
    const auto record = head_in(head);
    const auto is_absent = [&head](const object::Condition& condition) {
        return condition.kind == object::Condition::Kind::absent &&
               condition.object == head.object && condition.dkey == head.dkey &&
               condition.akey == head.akey;
    };
    return record && data.kind == Kind::write && data.object == head.object &&
           data.dkey == head.dkey && data.akey == object::block_data_akey() &&
           data.extent == object::Extent{0, record->length} &&
           object::is_block_key(head.dkey.bytes) &&
           std::ranges::any_of(transaction.conditions, is_absent);
}

Result<> Caches::validate(const object::Transaction& transaction) {
    if (is_put(transaction)) return {};
    if (is_of_pins(transaction)) {
        const bool are_right =
            std::ranges::all_of(transaction.operations, [&](const object::Operation& operation) {
                // To end all pins of a client takes time.
                const bool ends_all = operation.kind != Kind::put && operation.dkey.bytes.empty();
                if (ends_all) return transaction.operations.size() == 1;
                return operation.kind != Kind::put ||
                       (operation.window.is_local() && !operation.dkey.bytes.empty() &&
                        object::parse_pin_record(operation.window.bytes()));
            });
        return are_right ? Result<>{} : fail(Code::invalid);
    }
    const bool is_of_blocks = has_blocks(transaction);
    for (const object::Operation& operation : transaction.operations) {
        if (operation.object != object::blocks_object) {
            // Changes of blocks are shown before they are durable.
            if (is_of_blocks) return fail(Code::unsupported);
            continue;
        }
        if (is_block(operation) && operation.kind == Kind::punch_dkey) continue;
        if (!is_cache_record(operation)) return fail(Code::unsupported);
        if (!operation.window.is_local() || !object::parse_cache_record(operation.window.bytes())) {
            return fail(Code::invalid);
        }
    }
    return {};
}

void Caches::note(object::ContainerId container, const object::Transaction& transaction,
                  const Claim& claim) {
    for (const object::Operation& operation : transaction.operations) {
        if (is_cache_record(operation)) {
            const auto record = object::parse_cache_record(operation.window.bytes());
            if (record) begin(container, *record);
        }
        if (!is_block(operation)) continue;
        const auto cache = find(container);
        if (cache == nullptr) return;
        const std::string& key = operation.dkey.bytes;
        if (operation.kind == Kind::punch_dkey) {
            cache->pins.erase(key);
            if (cache->keys.erase(key)) ++cache->use.removed;
        } else if (operation.kind == Kind::put) {
            ++cache->use.puts;
            cache->keys.insert(key, claim.weight_, now_s());
        }
        recount(*cache);
    }
}

void Caches::begin(object::ContainerId container, const object::CacheRecord& record) {
    std::shared_ptr<Cache>& cache = caches_[container];
    if (cache == nullptr) cache = std::make_shared<Cache>(container, reactor_, secret_);
    recount(*cache);
    constexpr uint64_t second = 1'000'000'000;
    cache->ttl_s = static_cast<uint32_t>(
        std::min<uint64_t>((record.ttl_ns + second - 1) / second, UINT32_MAX));
    changed_.wake_all();
}

// ---- room ----------------------------------------------------------------------------------

Caches::Excess Caches::excess(object::ContainerId container, const Cache& cache,
                              uint64_t more) const {
    Excess excess;
    const auto found = state_.containers.find(container);
    if (found == state_.containers.end()) return excess;
    const auto add = [&](const object::Amount& caps, const object::Amount& used,
                         const object::Amount& reserved) {
        excess.bytes = std::max(
            excess.bytes, above(used.bytes + reserved.bytes + cache.claimed + more, caps.bytes));
        excess.blocks =
            std::max(excess.blocks, above(used.values + reserved.values + 1, caps.values));
        const bool never = caps.bytes > 0 && more > caps.bytes;
        if (never) excess.never_below = caps.bytes;
        if (excess.any() && excess.cap == 0) excess.cap = caps.bytes;
    };
    // Only of this cache: nobody says when another container gives something back.
    excess.comes_back = cache.puts > 0 || cache.leaving > 0;
    const State::Container& state = found->second;
    add(state.value.properties.caps, state.value.used, state.reserved);
    if (state.owner != nullptr) add(state.owner->caps, state.owner->used, state.owner->reserved);
    return excess;
}

Task<Result<>> Caches::make_room(const Call& call, object::ContainerId container,
                                 const object::Transaction& transaction, Claim& claim) {
    const std::shared_ptr<Cache> cache = find(container);
    const object::Operation& last = transaction.operations.back();
    const auto head = is_block(last) ? head_in(last) : std::nullopt;
    if (cache == nullptr && has_blocks(transaction)) {
        co_return fail(state_.has_container(container) ? Code::unsupported : Code::not_found);
    }
    if (cache == nullptr || !head) co_return Result<>();
    recount(*cache);  // its owner may have changed
    const uint64_t more = object::block_use(last.dkey.bytes, head->length);
    claim.weight_ = static_cast<uint32_t>(more);
    ROS2S_CO_TRY(co_await remove_if_old(call, container, *cache, last.dkey.bytes));
    // The condition of a block that is there fails.
    if (cache->keys.contains(last.dkey.bytes)) {
        claim.begin(*this, cache, 0);
        co_return Result<>();
    }
    co_await cache->turn.acquire();
    const SemaphoreHold turn(cache->turn);
    for (;;) {
        ROS2S_CO_TRY(call.check(reactor_));
        // It may be gone since.
        if (find(container) != cache) co_return fail(Code::not_found);
        Excess over = excess(container, *cache, more);
        if (over.never_below > 0) co_return fail(Code::over_cap, over.never_below);
        if (!has_memory(*cache)) {
            const object::ContainerId giver = gives_memory(*cache);
            if (giver != container) {
                const std::shared_ptr<Cache> its = find(giver);
                const Result<> gave = co_await evict(giver, *its, {.blocks = victims_max / 4});
                // Its container may be gone since.
                if (!gave && find(giver) == its) co_return fail(gave.error());
                continue;
            }
            if (cache->keys.size() > 0) over.blocks = std::max<uint64_t>(over.blocks, 1);
        }
        if (!over.any()) break;
        // Nothing is removed for a put that does not fit afterwards.
        if (over.bytes <= cache->keys.weight() && over.blocks <= cache->keys.queued()) {
            ROS2S_CO_TRY(co_await evict(container, *cache, over));
        } else if (over.comes_back) {
            const WakeOnStop wake(call.stop, cache->progress);
            co_await cache->progress;
        } else {
            co_return fail(Code::over_cap, over.cap);
        }
    }
    claim.begin(*this, cache, more);
    co_return Result<>();
}

// ---- pins ----------------------------------------------------------------------------------

bool Caches::is_of_pins(const object::Transaction& transaction) {
    return !transaction.operations.empty() && transaction.conditions.empty() &&
           std::ranges::all_of(transaction.operations, is_pin);
}

// In seconds. 0: it is no put.
static Result<std::vector<uint32_t>> pin_lengths(const object::Transaction& transaction) {
    constexpr uint64_t second = 1'000'000'000;
    std::vector<uint32_t> lengths_s(transaction.operations.size());
    for (size_t i = 0; i < lengths_s.size(); ++i) {
        if (transaction.operations[i].kind != Kind::put) continue;
        const auto record = object::parse_pin_record(transaction.operations[i].window.bytes());
        if (!record) return fail(Code::invalid);
        lengths_s[i] = static_cast<uint32_t>((record->length_ns + second - 1) / second);
    }
    return lengths_s;
}

Result<> Caches::pin(object::ContainerId container, const object::Transaction& transaction) {
    const auto cache = find(container);
    if (cache == nullptr) {
        return fail(state_.has_container(container) ? Code::unsupported : Code::not_found);
    }
    recount(*cache);  // its owner may have changed
    ROS2S_TRY(may_pin(container, *cache, transaction));
    ROS2S_TRY_ASSIGN(const std::vector<uint32_t> lengths_s, pin_lengths(transaction));
    const object::Holder& holder = transaction.holder;
    for (size_t i = 0; i < transaction.operations.size(); ++i) {
        const object::Operation& operation = transaction.operations[i];
        const std::string& key = operation.dkey.bytes;
        if (operation.kind != Kind::put) {
            cache->unpin(key.empty() ? cache->pins.remove_all(holder.client)
                                     : cache->pins.remove(key, holder.client));
        } else if (cache->keys.weight_to_pin(key)) {
            cache->pins.add(key, holder.client, holder.session, now_s() + lengths_s[i]);
            cache->keys.pin(key);
        }
    }
    recount(*cache);
    changed_.wake_all();
    return {};
}

Result<> Caches::may_pin(object::ContainerId container, const Cache& cache,
                         const object::Transaction& transaction) const {
    uint64_t more = 0, more_pins = 0;
    std::set<std::string_view> counted;
    for (const object::Operation& operation : transaction.operations) {
        const std::string& key = operation.dkey.bytes;
        if (operation.kind != Kind::put || !counted.insert(key).second) continue;
        const auto weight = cache.keys.weight_to_pin(key);
        if (!weight) continue;
        more += *weight;
        if (!cache.pins.has(key, transaction.holder.client)) ++more_pins;
    }
    if (more_pins == 0 && more == 0) return {};
    const uint64_t pins_max = pin_bytes_max() / BlockPins::bytes_per_pin;
    // An owner leaves as much for others as it has.
    const uint64_t owned = cache.owned->second.amount.pins;
    if (2 * (owned + more_pins) + (all_.pins - owned) > pins_max) {
        return fail(Code::no_memory, pins_max);
    }
    const auto found = state_.containers.find(container);
    if (found == state_.containers.end()) return fail(Code::not_found);
    const State::Container& state = found->second;
    const auto check = [more](uint64_t cap, uint64_t pinned) -> Result<> {
        return cap > 0 && pinned + more > cap / 2 ? fail(Code::over_cap, cap) : Result<>{};
    };
    ROS2S_TRY(check(state.value.properties.caps.bytes, cache.keys.pinned_weight()));
    if (state.owner == nullptr) return {};
    return check(state.owner->caps.bytes, pinned_weight(cache.owned->second));
}

uint64_t Caches::pinned_weight(const Owned& owned) const {
    uint64_t weight = 0;
    for (const object::ContainerId id : owned.caches) {
        weight += caches_.at(id)->keys.pinned_weight();
    }
    return weight;
}

void Caches::session_ended(uint64_t session) {
    for (const auto& [id, cache] : caches_) {
        if (cache->pins.size() == 0) continue;
        cache->unpin(cache->pins.session_ended(session));
        recount(*cache);
    }
}

Task<Result<>> Caches::remove_if_old(const Call& call, object::ContainerId container, Cache& cache,
                                     const std::string& key) {
    for (;;) {
        const auto at = cache.keys.at(key);
        if (!at || !cache.is_old(*at, now_s())) co_return Result<>();
        if (auto old = cache.keys.take(key)) {
            std::vector<S3Fifo::Victim> victims;
            victims.push_back(std::move(*old));
            ROS2S_CO_TRY(co_await punch(container, cache, std::move(victims), &CacheUse::expired));
            co_return Result<>();
        }
        // It is being removed.
        if (cache.leaving == 0) co_return Result<>();
        ROS2S_CO_TRY(call.check(reactor_));
        const WakeOnStop wake(call.stop, cache.progress);
        co_await cache.progress;
    }
}

Task<Result<>> Caches::evict(object::ContainerId container, Cache& cache, Excess excess) {
    if (excess.bytes > 0) excess.bytes += std::min(excess.cap / margin_share, margin_max);
    std::vector<S3Fifo::Victim> victims;
    uint64_t bytes = 0;
    while (victims.size() < victims_max &&
           (bytes < excess.bytes || victims.size() < excess.blocks)) {
        auto victim = cache.keys.evict();
        if (!victim) break;
        bytes += victim->weight;
        victims.push_back(std::move(*victim));
    }
    return punch(container, cache, std::move(victims), &CacheUse::evicted);
}

Task<Result<>> Caches::punch(object::ContainerId container, Cache& cache,
                             std::vector<S3Fifo::Victim> victims, uint64_t CacheUse::* cause) {
    if (victims.empty()) co_return Result<>();
    cache.leaving += victims.size();
    std::span<const S3Fifo::Victim> rest(victims);
    Result<> done;
    while (done && !rest.empty()) {
        const auto group = rest.first(std::min(rest.size(), victims_max));
        done = co_await punch_group(container, group);
        if (!done) break;
        cache.use.*cause += group.size();
        if (cause == &CacheUse::evicted) count_ages(cache, group);
        cache.leaving -= group.size();
        rest = rest.subspan(group.size());
    }
    for (const S3Fifo::Victim& victim : rest) {
        cache.keys.restore(victim.key);
        if (cache.keys.contains(victim.key) && cache.pins.is_pinned(victim.key)) {
            cache.keys.pin(victim.key);
        }
    }
    cache.leaving -= rest.size();
    cache.progress.wake_all();
    co_return done;
}

void Caches::count_ages(Cache& cache, std::span<const S3Fifo::Victim> evicted) {
    const uint32_t now = now_s();
    for (const S3Fifo::Victim& victim : evicted) {
        cache.use.evicted_age_s += now - victim.at;
        evicted_ages_.add(age_ns(now - victim.at));
    }
}

Task<Result<>> Caches::punch_group(object::ContainerId container,
                                   std::span<const S3Fifo::Victim> victims) {
    object::Transaction transaction;
    for (const S3Fifo::Victim& victim : victims) {
        transaction.operations.push_back(
            {.kind = Kind::punch_dkey, .object = object::blocks_object, .dkey = {victim.key}});
    }
    const Call call;
    const auto done = co_await update(call, container, transaction);
    co_return done ? Result<>() : fail(done.error());
}

// ---- the opening ---------------------------------------------------------------------------

Task<Result<>> Caches::load() {
    for (const object::ContainerId id : state_.visible_containers()) {
        object::CacheRecord record;
        object::FetchItem item{
            .object = object::blocks_object,
            .dkey = object::cache_dkey(),
            .akey = object::cache_akey(),
            .extent = {0, sizeof record},
            .window = object::Window::local(std::as_writable_bytes(std::span(&record, 1)))};
        const Call call;
        ROS2S_CO_TRY(co_await reader_.fetch(call, id, {&item, 1}));
        const auto found = object::parse_cache_record(object_bytes(record));
        if (!item.status || !found) {
            if (item.status || item.status.error().code != Code::not_found) {
                cores_.home().env.log.warning(
                    "a container's record as a cache cannot be used: it evicts no blocks");
            }
            continue;
        }
        begin(id, *found);
        ROS2S_CO_TRY(co_await load(id, *caches_.at(id)));
    }
    changed_.wake_all();
    co_return Result<>();
}

Task<Result<>> Caches::load(object::ContainerId container, Cache& cache) {
    const uint32_t now = now_s();
    std::optional<std::string> after;
    for (bool more = true; more;) {
        ROS2S_CO_TRY_ASSIGN(const object::ListReply page, co_await list(container, after));
        for (const object::ListEntry& entry : page.entries) {
            const auto head = object::parse_block_head(as_bytes(entry.value));
            if (!head || !object::is_block_key(entry.key) || !has_memory(cache)) {
                cache.has_unknown = true;
                continue;
            }
            cache.keys.insert(
                entry.key, static_cast<uint32_t>(object::block_use(entry.key, head->length)), now);
            recount(cache);
        }
        more = page.more;
        if (more) after = page.entries.back().key;
    }
    co_return Result<>();
}

// Blocks by their heads.
Task<Result<object::ListReply>> Caches::list(object::ContainerId container,
                                             std::optional<std::string> after) {
    const Call call;
    const object::ListRequest request{.what = object::ListRequest::What::dkeys,
                                      .object = object::blocks_object,
                                      .akey = object::block_head_akey(),
                                      .after = std::move(after),
                                      .limit = keys_of_page};
    co_return co_await lister_.list(call, container, request);
}

// ---- in the background ---------------------------------------------------------------------

// There is no memory for their keys, or these or their heads are not those of blocks.
Task<Result<>> Caches::drop_unknown(object::ContainerId container, Cache& cache) {
    std::optional<std::string> after;
    for (bool more = true; more && !stopping_.stop_requested();) {
        ROS2S_CO_TRY_ASSIGN(const object::ListReply page, co_await list(container, after));
        std::vector<S3Fifo::Victim> unknown;
        for (const object::ListEntry& entry : page.entries) {
            // Without a key it is the cache's own record.
            const bool is_known = entry.key.empty() || cache.keys.contains(entry.key);
            if (!is_known) unknown.push_back({entry.key, 0, now_s()});
        }
        more = page.more;
        if (more) after = page.entries.back().key;
        ROS2S_CO_TRY(co_await punch(container, cache, std::move(unknown), &CacheUse::evicted));
    }
    cache.has_unknown = false;
    co_return Result<>();
}

Task<Result<>> Caches::remove_old(object::ContainerId container, Cache& cache) {
    const uint32_t now = now_s();
    if (cache.ttl_s == 0 || now < cache.ttl_s) co_return Result<>();
    const size_t looks = std::max(looks_min, cache.keys.places() / looks_share);
    auto old = cache.keys.take_old(now - cache.ttl_s, looks, cache.next_place);
    co_return co_await punch(container, cache, std::move(old), &CacheUse::expired);
}

Task<> Caches::run() {
    is_running_ = true;
    while (!stopping_.stop_requested()) {
        const bool has_work = std::ranges::any_of(caches_, [](const auto& each) {
            const Cache& cache = *each.second;
            return cache.ttl_s > 0 || cache.has_unknown || cache.pins.size() > 0;
        });
        if (!has_work) {
            co_await changed_;
            continue;
        }
        const auto all = caches_;
        for (const auto& [id, cache] : all) {
            cache->unpin(cache->pins.end_until(now_s()));
            recount(*cache);
            // If it fails, the next round tries again.
            if (cache->has_unknown) (void)co_await drop_unknown(id, *cache);
            (void)co_await remove_old(id, *cache);
        }
        co_await sleep_for(reactor_, pause, stopping_.token());
    }
    is_running_ = false;
    ended_.wake_all();
}

Task<> Caches::stop() {
    stopping_.request_stop();
    changed_.wake_all();
    while (is_running_) co_await ended_;
}

// ---- fetches -------------------------------------------------------------------------------

// A miss needs no look at the index: the table has all keys.
Task<Result<>> Caches::fetch(const Call& call, object::ContainerId container,
                             std::span<object::FetchItem> items) {
    const auto cache = find(container);
    if (cache == nullptr || cache->has_unknown) {
        ROS2S_CO_TRY(co_await reader_.fetch(call, container, items));
        if (cache != nullptr) fetched(*cache, items);
        co_return Result<>();
    }
    std::vector<object::FetchItem> present;
    std::vector<size_t> places;
    for (size_t i = 0; i < items.size(); ++i) {
        if (is_answered(*cache, items[i])) continue;
        places.push_back(i);
        present.push_back(std::move(items[i]));
    }
    const auto done = co_await reader_.fetch(call, container, present);
    for (size_t i = 0; i < places.size(); ++i) items[places[i]] = std::move(present[i]);
    ROS2S_CO_TRY(done);
    fetched(*cache, items);
    co_return Result<>();
}

// By the table alone: what is absent, and whether a block is there.
bool Caches::is_answered(const Cache& cache, object::FetchItem& item) {
    const bool is_block = item.object == object::blocks_object && !item.dkey.bytes.empty();
    if (!is_block) return false;
    const bool only_looks =
        item.akey == object::block_head_akey() && item.extent.length + item.extent.offset == 0;
    // Of one that leaves, a look says that it is absent: it can be pinned no more.
    const std::string& key = item.dkey.bytes;
    const bool is_there =
        only_looks ? cache.keys.weight_to_pin(key).has_value() : cache.keys.contains(key);
    if (is_there && !only_looks) return false;
    if (object::begin_fetch(item) && !is_there) hide(item);
    return true;
}

void Caches::fetched(Cache& cache, std::span<object::FetchItem> items) {
    const uint32_t now = now_s();
    for (object::FetchItem& item : items) {
        if (item.object != object::blocks_object) continue;
        if (item.dkey == object::cache_dkey()) {
            if (item.akey == object::cache_use_akey()) answer_use(cache, item);
            continue;
        }
        const bool is_get = item.akey == object::block_data_akey() && item.extent.offset == 0;
        const auto at = is_get ? cache.keys.touch(item.dkey.bytes) : cache.keys.at(item.dkey.bytes);
        if (at && cache.is_old(*at, now)) hide(item);
        if (!is_get) continue;
        ++(item.status ? cache.use.hits : cache.use.misses);
        if (item.status && at) hit_ages_.add(age_ns(now - *at));
    }
}

void Caches::answer_use(const Cache& cache, object::FetchItem& item) const {
    CacheUse use = cache.use;
    use.blocks = cache.keys.size();
    use.pinned = static_cast<uint32_t>(cache.keys.pinned());
    const ConstBytes bytes = object_bytes(use);
    if (item.extent.offset != 0 || item.window.length < bytes.size()) return;
    std::ranges::copy(bytes, item.window.bytes().begin());
    item.status = {};
    item.is_value = true;
    item.size = bytes.size();
    object::value_checksums(bytes, item.checksums);
}

CacheUse Caches::use() const {
    CacheUse sum;
    for (const auto& [id, cache] : caches_) {
        sum.blocks += cache->keys.size();
        sum.pinned += static_cast<uint32_t>(cache->keys.pinned());
        for (uint64_t CacheUse::* each :
             {&CacheUse::hits, &CacheUse::misses, &CacheUse::puts, &CacheUse::evicted,
              &CacheUse::expired, &CacheUse::removed, &CacheUse::evicted_age_s}) {
            sum.*each += cache->use.*each;
        }
    }
    return sum;
}

}  // namespace ros2s::engine

// S3Fifo: the table of keys against a model, memory, and hit ratios on generated traces beside LRU
// and LFU. That a key is promoted after one use, and what the ghost remembers, was chosen with
// these traces in sight; the sizes of the queues were not.
#include "s3_fifo.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <map>
#include <set>
#include <unordered_map>

#include "ros2s/base/random.h"

namespace ros2s::engine {
namespace {

// ---- traces --------------------------------------------------------------------------------

using Trace = std::vector<uint64_t>;

class Zipf {
  public:
    Zipf(size_t keys, double skew) {
        double sum = 0;
        for (size_t i = 1; i <= keys; ++i) {
            sum += 1 / std::pow(static_cast<double>(i), skew);
            sums_.push_back(sum);
        }
    }
    uint64_t next(Random& random) const {
        const double at = static_cast<double>(random.next() >> 11) * 0x1p-53 * sums_.back();
        return static_cast<uint64_t>(std::ranges::upper_bound(sums_, at) - sums_.begin());
    }

  private:
    std::vector<double> sums_;
};

constexpr size_t requests = 300'000, keys = 20'000, capacity = 2'000;

Trace zipf(double skew) {
    Random random(1);
    const Zipf popular(keys, skew);
    Trace trace;
    while (trace.size() < requests) trace.push_back(popular.next(random));
    return trace;
}
// Every 30,000 requests somebody reads 4,000 new keys once.
Trace with_scans() {
    Trace trace = zipf(0.9);
    uint64_t fresh = 1 << 20;
    for (size_t at = 30'000; at < trace.size(); at += 30'000) {
        for (size_t i = 0; i < 4'000 && at + i < trace.size(); ++i) trace[at + i] = fresh++;
    }
    return trace;
}
// One request of two is a key that never comes again.
Trace with_single_uses() {
    Trace trace = zipf(0.9);
    uint64_t fresh = 1 << 20;
    for (size_t at = 0; at < trace.size(); at += 2) trace[at] = fresh++;
    return trace;
}
// Every 30,000 requests other keys are popular.
Trace with_shifts() {
    Trace trace = zipf(1.0);
    for (size_t i = 0; i < trace.size(); ++i) trace[i] += i / 30'000 * (keys / 10);
    return trace;
}
// Conversations: each turn reads all blocks of one so far and adds one. New ones replace those
// that end.
Trace conversations() {
    Random random(2);
    struct Conversation {
        uint64_t first = 0, blocks = 1;
    };
    std::vector<Conversation> live(400);
    uint64_t made = 0;
    const auto begin = [&made](Conversation& one) { one = {made += 1000, 1 + made / 1000 % 4}; };
    std::ranges::for_each(live, begin);
    const Zipf active(live.size(), 0.8);
    Trace trace;
    while (trace.size() < requests) {
        Conversation& one = live[active.next(random)];
        for (uint64_t i = 0; i < one.blocks; ++i) trace.push_back(one.first + i);
        if (++one.blocks > 24) begin(one);
    }
    return trace;
}

// ---- the others ----------------------------------------------------------------------------

uint64_t lru_hits(const Trace& trace) {
    std::list<uint64_t> order;
    std::unordered_map<uint64_t, std::list<uint64_t>::iterator> found;
    uint64_t hits = 0;
    for (const uint64_t key : trace) {
        if (const auto at = found.find(key); at != found.end()) {
            ++hits;
            order.splice(order.begin(), order, at->second);
            continue;
        }
        if (found.size() == capacity) {
            found.erase(order.back());
            order.pop_back();
        }
        order.push_front(key);
        found[key] = order.begin();
    }
    return hits;
}

// Of keys with equal counts the one that was used least recently goes.
uint64_t lfu_hits(const Trace& trace) {
    struct Use {
        uint64_t count = 0, last = 0;
    };
    std::unordered_map<uint64_t, Use> found;
    std::set<std::tuple<uint64_t, uint64_t, uint64_t>> order;
    uint64_t hits = 0, now = 0;
    for (const uint64_t key : trace) {
        Use& use = found[key];
        if (use.count > 0) {
            ++hits;
            order.erase({use.count, use.last, key});
        } else if (order.size() == capacity) {
            found.erase(std::get<2>(*order.begin()));
            order.erase(order.begin());
        }
        Use& now_used = found[key];
        now_used = {now_used.count + 1, ++now};
        order.insert({now_used.count, now_used.last, key});
    }
    return hits;
}

std::string name(uint64_t key) { return fmt::format("{:032x}", key); }

uint64_t s3_fifo_hits(const Trace& trace) {
    S3Fifo cache(7);
    uint64_t hits = 0;
    for (const uint64_t number : trace) {
        const std::string key = name(number);
        if (cache.touch(key)) {
            ++hits;
            continue;
        }
        if (cache.weight() == capacity) cache.erase(cache.evict()->key);
        cache.insert(key, 1, 0);
    }
    return hits;
}

TEST(S3Fifo, HitRatioIsNearTheBetterOfLruAndLfu) {
    struct Case {
        const char* name;
        Trace trace;
    };
    for (const Case& each :
         {Case{"zipf 0.8", zipf(0.8)}, Case{"zipf 1.1", zipf(1.1)}, Case{"scans", with_scans()},
          Case{"single uses", with_single_uses()}, Case{"shifts", with_shifts()},
          Case{"conversations", conversations()}}) {
        const auto percent = [&](uint64_t hits) {
            return 100.0 * static_cast<double>(hits) / static_cast<double>(each.trace.size());
        };
        const double ours = percent(s3_fifo_hits(each.trace));
        const double lru = percent(lru_hits(each.trace)), lfu = percent(lfu_hits(each.trace));
        const std::string figures =
            fmt::format("{}: {:.1f} %, LRU {:.1f} %, LFU {:.1f} %", each.name, ours, lru, lfu);
        EXPECT_GE(ours, std::max(lru, lfu) - 2) << figures;
        RecordProperty(each.name, figures);
    }
}

// ---- the table -----------------------------------------------------------------------------

TEST(S3Fifo, RandomChangesMatchAMap) {
    Random random(3);
    S3Fifo cache(7);
    std::map<std::string, uint32_t> model;
    for (uint32_t step = 0; step < 200'000; ++step) {
        const std::string key = name(random.next() % 3000);
        const auto at = model.find(key);
        switch (random.next() % 5) {
            case 0:
            case 1:
                cache.insert(key, step % 7 + 1, step);
                model[key] = step;
                break;
            case 2:
                EXPECT_EQ(cache.erase(key), at != model.end());
                if (at != model.end()) model.erase(at);
                break;
            case 3: {
                const auto victim = cache.evict();
                ASSERT_EQ(victim.has_value(), !model.empty());
                if (!victim) break;
                EXPECT_TRUE(cache.contains(victim->key));
                EXPECT_FALSE(cache.erase(victim->key));
                EXPECT_EQ(model.erase(victim->key), 1U);
                break;
            }
            default:
                EXPECT_EQ(cache.touch(key),
                          at == model.end() ? std::nullopt : std::optional(at->second));
        }
        ASSERT_EQ(cache.size(), model.size());
    }
    uint64_t weight = 0;
    for (const auto& [key, step] : model) weight += step % 7 + 1;
    EXPECT_EQ(cache.weight(), weight);
}

TEST(S3Fifo, KeyTakesAtMostAHundredBytes) {
    S3Fifo cache(7);
    for (uint64_t i = 0; i < 200'000; ++i) {
        cache.insert(fmt::format("{:064x}", i), 1, 0);
        if (i % 100 != 99) continue;
        EXPECT_LE(cache.memory_bytes(), (cache.size() + S3Fifo::keys_least) * S3Fifo::bytes_per_key)
            << i;
    }
}

TEST(S3Fifo, RemovalOfKeysFreesTheirMemory) {
    S3Fifo cache(7);
    constexpr uint64_t count = 10'000;
    for (uint64_t i = 0; i < count; ++i) cache.insert(fmt::format("{}", i), 1, 0);
    for (uint64_t i = 0; i < count; ++i) {
        // Neither in their order, nor in the opposite one.
        EXPECT_TRUE(cache.erase(fmt::format("{}", i * 7 % count)));
        EXPECT_LE(cache.memory_bytes(), (cache.size() + S3Fifo::keys_least) * 120) << i;
    }
    EXPECT_EQ(cache.size(), 0U);
    EXPECT_LE(cache.memory_bytes(), S3Fifo::keys_least * S3Fifo::bytes_per_key);
    cache.insert("after", 1, 0);
    EXPECT_TRUE(cache.contains("after"));
}

TEST(S3Fifo, PinnedKeyIsNoVictim) {
    S3Fifo cache(7);
    for (const char* key : {"a", "b", "c"}) cache.insert(key, 10, 0);
    EXPECT_EQ(cache.weight_to_pin("b"), 10U);
    EXPECT_EQ(cache.weight_to_pin("d"), std::nullopt);
    cache.pin("b");
    EXPECT_EQ(cache.weight_to_pin("b"), 0U);
    EXPECT_EQ(cache.pinned_weight(), 10U);
    EXPECT_EQ(cache.queued(), 2U);
    for (const char* key : {"a", "c"}) {
        const auto victim = cache.evict();
        ASSERT_TRUE(victim);
        EXPECT_EQ(victim->key, key);
        EXPECT_EQ(cache.weight_to_pin(key), std::nullopt) << "it is being removed";
        EXPECT_FALSE(cache.erase(key));
    }
    EXPECT_FALSE(cache.evict());
    cache.unpin("b");
    EXPECT_EQ(cache.evict()->key, "b");
}

TEST(S3Fifo, ScanLeavesWhatIsUsed) {
    S3Fifo cache(7);
    for (uint64_t i = 0; i < 1000; ++i) {
        cache.insert(name(i), 1, 0);
        cache.touch(name(i));
    }
    for (uint64_t i = 0; i < 10'000; ++i) {
        cache.erase(cache.evict()->key);
        cache.insert(name(1'000'000 + i), 1, 0);
    }
    size_t left = 0;
    for (uint64_t i = 0; i < 1000; ++i) left += cache.contains(name(i)) ? 1 : 0;
    EXPECT_GE(left, 850U);
}

TEST(S3Fifo, RestoredVictimIsEvictedAgain) {
    S3Fifo cache(7);
    cache.insert("a", 1, 0);
    EXPECT_EQ(cache.evict()->key, "a");
    EXPECT_FALSE(cache.evict());
    cache.restore("a");
    EXPECT_EQ(cache.weight(), 1U);
    EXPECT_EQ(cache.evict()->key, "a");
}

TEST(S3Fifo, OldKeysAreFoundInAnyTable) {
    S3Fifo cache(7);
    for (uint32_t i = 0; i < 1000; ++i) cache.insert(name(i), 1, i);
    size_t place = 0, found = 0;
    do found += cache.take_old(299, 100, place).size();
    while (place != 0);
    EXPECT_EQ(found, 300U);
    EXPECT_EQ(cache.weight(), 700U);
}

}  // namespace
}  // namespace ros2s::engine

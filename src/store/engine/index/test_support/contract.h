// The contract suite of Index: the requirements for every implementation. A test program includes
// this header once, makes an IndexUnderTest and instantiates the suite:
//
//     INSTANTIATE_TEST_SUITE_P(OrderedMap, IndexContract,
//                              testing::Values(MakeIndexUnderTest{"ordered map", make}));
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/engine/index/index.h"

namespace ros2s::engine {

// The media of an index, in a test.
class IndexUnderTest {
  public:
    virtual ~IndexUnderTest() = default;
    // Opens the existing index; the first time, an empty one.
    virtual std::unique_ptr<Index> open() = 0;
    // Returns true if crash() is possible. It makes the open index unusable; it is destroyed next.
    [[nodiscard]] virtual bool can_crash() const { return false; }
    virtual void crash(Random&) {}
    // Rounds of the randomised tests: fewer if opening takes long.
    [[nodiscard]] virtual int rounds() const { return 20; }
};
struct MakeIndexUnderTest {
    const char* name;
    std::function<std::unique_ptr<IndexUnderTest>()> make;
    friend void PrintTo(const MakeIndexUnderTest& self, std::ostream* out) { *out << self.name; }
};

class IndexContract : public testing::TestWithParam<MakeIndexUnderTest> {
  protected:
    IndexContract() : place_(GetParam().make()) {}
    ~IndexContract() override { close(); }

    Index& index() {
        if (!index_) index_ = place_->open();
        ROS2S_CHECK(index_ != nullptr);
        return *index_;
    }
    void close() {
        if (!index_) return;
        EXPECT_TRUE(index_->close());
        index_.reset();
    }
    void crash(Random& random) {
        place_->crash(random);
        index_.reset();
    }
    void put(std::string_view key, std::string_view value) {
        IndexBatch batch;
        batch.put(key, value);
        ASSERT_TRUE(index().apply(std::move(batch)));
    }
    std::optional<std::string> get(std::string_view key) {
        const auto cached = index().get_cached(key);
        auto value = index().get(key);
        EXPECT_TRUE(value);
        if (cached) EXPECT_EQ(*cached, *value);
        return value ? *value : std::nullopt;
    }
    // The keys of a page joined with commas, and "+" if more follow.
    std::string keys(IndexScan scan) {
        const auto cached = index().scan_cached(scan);
        const auto page = index().scan(scan);
        EXPECT_TRUE(page);
        if (cached) {
            EXPECT_EQ(cached->entries, page->entries);
            EXPECT_EQ(cached->more, page->more);
        }
        std::string text;
        for (const auto& entry : page->entries) text += (text.empty() ? "" : ",") + entry.key;
        return text + (page->more ? "+" : "");
    }
    std::map<std::string, std::string> everything() {
        std::map<std::string, std::string> all;
        IndexScan scan{.limit = 7};
        for (;;) {
            const auto page = index().scan(scan);
            EXPECT_TRUE(page);
            if (!page) return all;
            for (const auto& entry : page->entries) all[entry.key] = entry.value;
            if (!page->more) return all;
            scan.from = page->entries.back().key + '\0';
        }
    }

    std::unique_ptr<IndexUnderTest> place_;
    std::unique_ptr<Index> index_;
};

TEST_P(IndexContract, StoredValueIsReturned) {
    EXPECT_EQ(get("a"), std::nullopt);
    put("a", "1");
    put("b", "");
    EXPECT_EQ(get("a"), "1");
    EXPECT_EQ(get("b"), "");
    EXPECT_EQ(get("ab"), std::nullopt);
    put("a", "2");
    EXPECT_EQ(get("a"), "2");
}

TEST_P(IndexContract, PresentKeyIsAnsweredFromMemory) {
    put("a", "1");
    EXPECT_EQ(index().get("a"), "1");
    int answers = 0;
    for (int i = 0; i < 10; ++i) {
        const auto cached = index().get_cached(i % 4 < 2 ? "a" : "b");
        if (!cached) continue;
        ++answers;
        EXPECT_EQ(*cached, i % 4 < 2 ? std::optional<std::string>("1") : std::nullopt);
    }
    EXPECT_GT(answers, 0);
    EXPECT_EQ(keys({.limit = IndexScan::few}), "a");
    EXPECT_TRUE(index().scan_cached({.limit = IndexScan::few}) ||
                index().scan_cached({.limit = IndexScan::few}));
}
TEST_P(IndexContract, BatchIsAppliedInOrder) {
    put("gone", "x");
    IndexBatch batch;
    batch.put("a", "1");
    batch.erase("a");
    batch.put("b", "1");
    batch.put("b", "2");
    batch.erase("c");
    batch.put("c", "3");
    batch.erase("gone");
    batch.erase("never there");
    EXPECT_EQ(batch.count(), 8u);
    ASSERT_TRUE(index().apply(std::move(batch)));
    EXPECT_EQ(get("a"), std::nullopt);
    EXPECT_EQ(get("b"), "2");
    EXPECT_EQ(get("c"), "3");
    EXPECT_EQ(get("gone"), std::nullopt);
}

TEST_P(IndexContract, AppendedBatchesFormOneBatch) {
    IndexBatch first, second;
    first.put("k", "1");
    second.put("k", "2");
    second.put("l", "3");
    first.append(std::move(second));
    EXPECT_TRUE(second.empty());
    EXPECT_EQ(first.count(), 3u);
    ASSERT_TRUE(index().apply(std::move(first)));
    EXPECT_EQ(get("k"), "2");
    EXPECT_EQ(get("l"), "3");
}

TEST_P(IndexContract, EmptyBatchChangesNothing) {
    put("a", "1");
    ASSERT_TRUE(index().apply(IndexBatch()));
    EXPECT_EQ(keys({}), "a");
}

TEST_P(IndexContract, ArbitraryBytesAreAccepted) {
    const std::string zeros(3, '\0'), high = "\xff\xff", value("\0\n\xff", 3);
    put(zeros, value);
    put(high, value);
    put("m", value);
    EXPECT_EQ(get(zeros), value);
    const auto page = index().scan({});
    ASSERT_TRUE(page);
    ASSERT_EQ(page->entries.size(), 3u);
    EXPECT_EQ(page->entries[0].key, zeros);
    EXPECT_EQ(page->entries[2].key, high) << "keys are ordered as unsigned bytes";
}

TEST_P(IndexContract, RangesAreScannedInBothDirections) {
    for (const char* key : {"b", "d", "a", "c", "cc", "e"}) put(key, key);
    EXPECT_EQ(keys({}), "a,b,c,cc,d,e");
    EXPECT_EQ(keys({.reverse = true}), "e,d,cc,c,b,a");
    EXPECT_EQ(keys({.from = "b", .to = "d"}), "b,c,cc");
    EXPECT_EQ(keys({.from = "b", .to = "d", .reverse = true}), "cc,c,b");
    EXPECT_EQ(keys({.from = "bb"}), "c,cc,d,e");
    EXPECT_EQ(keys({.from = "bb", .reverse = true}), "e,d,cc,c");
    EXPECT_EQ(keys({.to = "bb", .reverse = true}), "b,a");
    EXPECT_EQ(keys({.from = "d", .to = "b"}), "");
    EXPECT_EQ(keys({.from = "d", .to = "b", .reverse = true}), "");
    EXPECT_EQ(keys({.from = "x"}), "");
    EXPECT_EQ(keys({.from = "x", .reverse = true}), "");
    EXPECT_EQ(keys({.from = "c", .to = "c"}), "");
}

TEST_P(IndexContract, PageEndsAtItsLimitAndReportsMore) {
    for (const char* key : {"a", "b", "c", "d"}) put(key, std::string(100, 'v'));
    EXPECT_EQ(keys({.limit = 2}), "a,b+");
    EXPECT_EQ(keys({.limit = 4}), "a,b,c,d");
    EXPECT_EQ(keys({.from = std::string("b\0", 2), .limit = 2}), "c,d");
    EXPECT_EQ(keys({.limit = 3, .reverse = true}), "d,c,b+");
    EXPECT_EQ(keys({.to = "b", .limit = 3, .reverse = true}), "a");
    EXPECT_EQ(keys({.bytes_max = 210}), "a,b+");
    EXPECT_EQ(keys({.bytes_max = 1}), "a+") << "one entry always fits";
    EXPECT_EQ(keys({.bytes_max = 3, .keys_only = true}), "a,b,c+");
    const auto page = index().scan({.limit = 1, .keys_only = true});
    ASSERT_TRUE(page);
    EXPECT_EQ(page->entries[0].value, "");
}

TEST_P(IndexContract, LargeValueIsStored) {
    Random random(3);
    std::string value(5'000'000, '\0');
    for (auto& c : value) c = static_cast<char>(random.next());
    put("large", value);
    put("small", "s");
    EXPECT_EQ(get("large"), value);
    ASSERT_TRUE(index().flush());
    EXPECT_EQ(get("large"), value);
    EXPECT_GT(index().disk_bytes(), value.size() / 2);
}

TEST_P(IndexContract, FlushedBatchSurvivesReopening) {
    put("a", "1");
    put("b", "2");
    ASSERT_TRUE(index().flush());
    IndexBatch batch;
    batch.erase("a");
    ASSERT_TRUE(index().apply(std::move(batch)));
    ASSERT_TRUE(index().flush());
    ASSERT_TRUE(index().flush()) << "a flush of nothing";
    close();
    EXPECT_EQ(keys({}), "b");
}

TEST_P(IndexContract, ClosedIndexReturnsAnError) {
    put("a", "1");
    ASSERT_TRUE(index().close());
    EXPECT_EQ(index().get("a").error().code, Code::closed);
    EXPECT_EQ(index().scan({}).error().code, Code::closed);
    IndexBatch batch;
    batch.put("a", "2");
    EXPECT_EQ(index().apply(std::move(batch)).error().code, Code::closed);
    EXPECT_EQ(index().flush().error().code, Code::closed);
}

TEST_P(IndexContract, ConcurrentBatchIsSeenWholeOrNotAtAll) {
    constexpr int width = 20, batches = 300;
    const auto fill = [&](int i) {
        IndexBatch batch;
        for (int k = 0; k < width; ++k) batch.put("k" + std::to_string(100 + k), std::to_string(i));
        ASSERT_TRUE(index().apply(std::move(batch)));
    };
    fill(0);
    std::thread writer([&] {
        for (int i = 1; i <= batches; ++i) fill(i);
    });
    std::string last;
    for (const auto done = std::to_string(batches); last != done;) {
        const auto page = index().scan({});
        ASSERT_TRUE(page);
        ASSERT_EQ(page->entries.size(), static_cast<size_t>(width));
        for (const auto& entry : page->entries)
            ASSERT_EQ(entry.value, page->entries[0].value) << entry.key;
        last = page->entries[0].value;
    }
    writer.join();
}

// Random batches against a model, with flushes, reopenings and, if possible, crashes. Each batch
// also writes its number under "position", as the engine does. After every reopening the index must
// equal the model after the batch with that number.
TEST_P(IndexContract, ReopeningFindsAPrefixOfWholeBatches) {
    for (int seed = 1; seed <= place_->rounds(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(static_cast<uint64_t>(seed));
        std::vector<std::map<std::string, std::string>> history;
        history.push_back(everything());
        const auto number_of = [](size_t n) { return std::to_string(n); };
        {
            IndexBatch batch;
            batch.put("position", number_of(0));
            ASSERT_TRUE(index().apply(std::move(batch)));
            ASSERT_TRUE(index().flush());
            history.back()["position"] = number_of(0);
        }
        size_t flushed = 0;
        for (int step = 0; step < 40; ++step) {
            const auto choice = random.below(10);
            if (choice < 7) {
                auto state = history.back();
                IndexBatch batch;
                for (auto n = random.below(12); n > 0; --n) {
                    const auto key = "key" + std::to_string(random.below(60));
                    if (random.one_in(4)) {
                        batch.erase(key);
                        state.erase(key);
                    } else {
                        const std::string value(random.below(6000),
                                                static_cast<char>('a' + random.below(26)));
                        batch.put(key, value);
                        state[key] = value;
                    }
                }
                batch.put("position", number_of(history.size()));
                state["position"] = number_of(history.size());
                ASSERT_TRUE(index().apply(std::move(batch)));
                history.push_back(std::move(state));
            } else if (choice == 7) {
                ASSERT_TRUE(index().flush());
                flushed = history.size() - 1;
            } else if (choice == 8) {
                ASSERT_EQ(everything(), history.back());
            } else {
                if (place_->can_crash()) {
                    crash(random);
                } else {
                    close();
                }
                const auto found = everything();
                ASSERT_TRUE(found.contains("position"));
                const size_t position = std::stoul(found.at("position"));
                ASSERT_GE(position, flushed);
                ASSERT_LT(position, history.size());
                ASSERT_EQ(found, history[position]);
                history.resize(position + 1);
                flushed = position;
            }
        }
    }
}

}  // namespace ros2s::engine

#include "ros2s/engine/index/rocksdb/sim/simulated_files.h"

#include <gtest/gtest.h>
#include <rocksdb/env.h>

#include <algorithm>
#include <map>
#include <set>

#include "ros2s/engine/index/rocksdb/rocksdb_index.h"
#include "ros2s/engine/index/test_support/contract.h"
#include "tree.h"

namespace ros2s::engine {
namespace {

RocksDbOptions simulated(SimulatedFiles& files, bool compaction = false) {
    return {.memory_bytes = 1024 * 1024, .env = files.mount(), .compaction = compaction};
}

class SimulatedUnderTest final : public IndexUnderTest {
  public:
    std::unique_ptr<Index> open() override {
        Report report;
        const auto options = simulated(files_);
        auto index = made_ ? open_rocksdb_index("/index", options, report)
                           : create_rocksdb_index("/index", options, report);
        EXPECT_TRUE(index) << report.text();
        made_ = true;
        return index ? std::move(*index) : nullptr;
    }
    bool can_crash() const override { return true; }
    void crash(Random& random) override { files_.crash(random); }

  private:
    SimulatedFiles files_;
    bool made_ = false;
};
std::unique_ptr<IndexUnderTest> make_simulated() { return std::make_unique<SimulatedUnderTest>(); }
INSTANTIATE_TEST_SUITE_P(RocksDbOnSimulatedFiles, IndexContract,
                         testing::Values(MakeIndexUnderTest{"RocksDB on simulated files",
                                                            make_simulated}));

// One run of an index: batches and flushes until the planned crash. Each batch writes its number
// under "position" and under a key of its own.
struct Life {
    uint64_t applied = 0, flushed = 0;
    size_t flushes = 0;  // those with something to flush
};
std::string own_key(uint64_t position) { return "batch" + std::to_string(position % 50); }
std::string own_value(uint64_t position) {
    return std::string(500 + position % 2500, static_cast<char>('a' + position % 26));
}
Life live(Index& index, uint64_t position, Random& random) {
    Life life{position, position};
    for (int step = 0; step < 60; ++step) {
        if (random.below(4) != 0) {
            IndexBatch batch;
            batch.put(own_key(life.applied + 1), own_value(life.applied + 1));
            batch.put("position", std::to_string(life.applied + 1));
            if (!index.apply(std::move(batch))) break;
            ++life.applied;
        } else {
            if (!index.flush()) break;
            life.flushes += life.applied > life.flushed ? 1 : 0;
            life.flushed = life.applied;
        }
    }
    return life;
}

// The number of the last batch found. Checks that exactly the batches up to it exist, including all
// flushed ones.
uint64_t survivor(Index& index, const Life& life = {.applied = UINT64_MAX}) {
    const auto page = index.scan({.bytes_max = SIZE_MAX});
    EXPECT_TRUE(page);
    if (!page || page->entries.empty()) {
        EXPECT_EQ(life.flushed, 0U);
        return 0;
    }
    std::map<std::string, std::string> found;
    for (const auto& entry : page->entries) found[entry.key] = entry.value;
    const uint64_t position = std::stoull(found.at("position"));
    std::map<std::string, std::string> expected{{"position", std::to_string(position)}};
    for (uint64_t i = 1; i <= position; ++i) expected[own_key(i)] = own_value(i);
    EXPECT_EQ(found, expected);
    EXPECT_GE(position, life.flushed);
    EXPECT_LE(position, life.applied);
    return position;
}

size_t tables(SimulatedFiles& files) {
    std::vector<std::string> names;
    // A thread of RocksDB may crash the files in between. That happens once.
    const auto is_listed = [&] { return files.mount()->GetChildren("/index", &names).ok(); };
    EXPECT_TRUE(is_listed() || is_listed());
    return static_cast<size_t>(std::ranges::count_if(
        names, [](const std::string& name) { return name.ends_with(".sst"); }));
}

// The same while RocksDB merges tables, in threads of its own: no two runs are equal.
TEST(RocksDbCrash, CrashDuringCompactionKeepsTheContract) {
    int crashes = 0;
    size_t merged = 0;
    for (uint64_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        SimulatedFiles files;
        Report report;
        ASSERT_TRUE(create_rocksdb_index("/index", simulated(files), report)) << report.text();
        Life life;
        for (int round = 0; round < 4; ++round) {
            auto index = open_rocksdb_index("/index", simulated(files, true), report);
            ASSERT_TRUE(index) << report.text();
            const uint64_t position = survivor(**index, life);
            const size_t before = tables(files);
            files.crash_after(1 + random.below(200), random.next());
            life = live(**index, position, random);
            // Each flush of a batch makes a table.
            const size_t made = life.flushes;
            const size_t after = tables(files);
            merged += before + made > after + 1 ? before + made - after - 1 : 0;
            if (files.cancel_crash()) {
                ++crashes;
            } else {
                files.crash(random);
            }
        }
    }
    RecordProperty("crashes_at_a_change", crashes);
    RecordProperty("tables_merged", static_cast<int>(merged));
    EXPECT_GT(crashes, 60);
    EXPECT_GT(merged, 100U);
}

TEST(RocksDbCrash, CrashAtAnyFileChangeKeepsTheContract) {
    int crashes = 0, in_open = 0, lost_some = 0;
    for (uint64_t seed = 1; seed <= 160; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        SimulatedFiles files;
        Report report;
        ASSERT_TRUE(create_rocksdb_index("/index", simulated(files), report)) << report.text();
        Life life;
        for (int round = 0; round < 3; ++round) {
            files.crash_after(1 + random.below(round == 0 ? 120 : 60), random.next());
            if (auto index = open_rocksdb_index("/index", simulated(files), report)) {
                // If its opening survived, the crash comes later in its run.
                if (!files.cancel_crash()) {
                    const uint64_t position = survivor(**index, life);
                    files.crash_after(1 + random.below(40), random.next());
                    lost_some += position < life.applied ? 1 : 0;
                    life = live(**index, position, random);
                }
            } else {
                ++in_open;
            }
            if (files.cancel_crash()) ++crashes;
            // Otherwise the machine loses power now.
            else
                files.crash(random);
        }
        auto last = open_rocksdb_index("/index", simulated(files), report);
        ASSERT_TRUE(last) << report.text();
        survivor(**last, life);
    }
    RecordProperty("crashes_at_a_change", crashes);
    RecordProperty("crashes_while_opening", in_open);
    EXPECT_GT(crashes, 160);
    EXPECT_GT(in_open, 8);
    EXPECT_GT(lost_some, 8);
}

TEST(RocksDbCrash, InterruptedCreationIsRecognised) {
    int interrupted = 0, finished = 0;
    for (uint64_t changes = 1;; ++changes) {
        bool crashed = false;
        for (uint64_t seed = 1; seed <= 5; ++seed) {
            SCOPED_TRACE("change " + std::to_string(changes) + ", seed " + std::to_string(seed));
            SimulatedFiles files;
            files.crash_after(changes, seed);
            Report report;
            const bool made = create_rocksdb_index("/index", simulated(files), report).has_value();
            crashed = files.cancel_crash();
            const auto index = open_rocksdb_index("/index", simulated(files), report);
            if (index) {
                ++finished;
                EXPECT_EQ(survivor(**index), 0u);
            } else {
                ++interrupted;
                EXPECT_FALSE(made && !crashed);
                EXPECT_EQ(index.error().code, Code::not_found) << report.text();
            }
        }
        if (!crashed) break;
    }
    EXPECT_GT(interrupted, 20);
    EXPECT_GT(finished, 0);
}

TEST(RocksDbCrash, FailedSyncFailsAllLaterFlushes) {
    SimulatedFiles files;
    Report report;
    auto index = create_rocksdb_index("/index", simulated(files), report);
    ASSERT_TRUE(index) << report.text();
    Random random(1);
    IndexBatch batch;
    batch.put("position", "1");
    batch.put(own_key(1), own_value(1));
    ASSERT_TRUE((*index)->apply(std::move(batch)));
    ASSERT_TRUE((*index)->flush());
    IndexBatch second;
    second.put("position", "2");
    second.put(own_key(2), own_value(2));
    ASSERT_TRUE((*index)->apply(std::move(second)));
    files.fail_syncs(true);
    EXPECT_EQ((*index)->flush().error().code, Code::io);
    files.fail_syncs(false);
    EXPECT_FALSE((*index)->flush()) << "a failed flush is not retried";
    EXPECT_EQ(survivor(**index), 2u) << "reads stay allowed";
    files.crash(random);
    index->reset();
    auto after = open_rocksdb_index("/index", simulated(files), report);
    ASSERT_TRUE(after) << report.text();
    EXPECT_GE(survivor(**after), 1u);
}

TEST(RocksDbCrash, FullDiskIsReportedAndLosesNothing) {
    SimulatedFiles files;
    Report report;
    uint64_t flushed = 0;
    {
        auto index = create_rocksdb_index("/index", simulated(files), report);
        ASSERT_TRUE(index) << report.text();
        files.set_capacity(files.bytes() + 20'000);
        for (uint64_t i = 1;; ++i) {
            ASSERT_LT(i, 1000u);
            IndexBatch batch;
            batch.put("position", std::to_string(i));
            batch.put(own_key(i), own_value(i));
            Result<> done = (*index)->apply(std::move(batch));
            if (done) done = (*index)->flush();
            if (!done) {
                EXPECT_EQ(done.error().code, Code::no_space);
                break;
            }
            flushed = i;
        }
    }
    EXPECT_GT(flushed, 0u);
    if (const auto full = open_rocksdb_index("/index", simulated(files), report); !full) {
        EXPECT_EQ(full.error().code, Code::no_space);
        EXPECT_NE(report.text().find("free some space there and try again"), std::string::npos)
            << report.text();
    }
    files.set_capacity(UINT64_MAX);
    auto index = open_rocksdb_index("/index", simulated(files), report);
    ASSERT_TRUE(index) << report.text();
    EXPECT_GE(survivor(**index), flushed);
}

class TreeTest : public testing::Test {
  protected:
    Tree tree_;
    const Tree::Generation now_ = 0;
    // Contents by name after a crash; a missing file is absent.
    std::map<std::string, std::string> after_crash(uint64_t seed) {
        Random random(seed);
        tree_.crash(random);
        std::map<std::string, std::string> found;
        const auto g = tree_.generation();
        for (const auto& name : *tree_.list(g, "/")) {
            const auto inode = *tree_.find(g, "/" + name);
            std::string content(*tree_.size(g, *inode), '\0');
            EXPECT_TRUE(tree_.read(g, *inode, 0, content.size(), content.data()));
            found[name] = content;
        }
        return found;
    }
};

TEST_F(TreeTest, SyncedBytesWithSyncedNameSurvive) {
    const auto file = *tree_.create(now_, "/a");
    ASSERT_TRUE(tree_.append(now_, *file, "text"));
    ASSERT_TRUE(tree_.sync(now_, *file));
    ASSERT_TRUE(tree_.sync(now_, **tree_.find(now_, "/")));
    EXPECT_EQ(tree_.unsynced(), 0u);
    EXPECT_EQ(after_crash(1), (std::map<std::string, std::string>{{"a", "text"}}));
}

TEST(TreeCrash, EveryOutcomeOfUnsyncedChangesOccurs) {
    std::set<std::string> outcomes;
    for (uint64_t seed = 0; seed < 4000; ++seed) {
        Tree tree;
        const auto kept = *tree.create(0, "/kept");
        ASSERT_TRUE(tree.append(0, *kept, "ab"));
        ASSERT_TRUE(tree.sync(0, *kept));
        ASSERT_TRUE(tree.sync(0, **tree.find(0, "/")));
        ASSERT_TRUE(tree.append(0, *kept, "cd"));
        ASSERT_TRUE(tree.create(0, "/new"));
        ASSERT_TRUE(tree.rename(0, "/kept", "/moved"));
        Random random(seed);
        tree.crash(random);
        const auto g = tree.generation();
        std::string outcome;
        for (const auto& name : *tree.list(g, "/")) {
            const auto inode = *tree.find(g, "/" + name);
            std::string content(*tree.size(g, *inode), '\0');
            ASSERT_TRUE(tree.read(g, *inode, 0, content.size(), content.data()));
            for (auto& c : content) c = c == '\0' ? '0' : c;
            outcome += name + "=" + content + " ";
        }
        outcomes.insert(outcome);
    }
    for (const char* expected : {"kept=ab ", "kept=abc ", "kept=abcd ", "kept=abcd new= ",
                                 "moved=ab ", "moved=abcd new= ", "moved=ab00 "}) {
        EXPECT_TRUE(outcomes.contains(expected)) << expected;
    }
    for (const auto& outcome : outcomes) {
        EXPECT_NE(outcome.find("=ab"), std::string::npos) << "synced bytes survive: " << outcome;
        EXPECT_FALSE(outcome.contains("kept") && outcome.contains("moved"))
            << "a rename is one change: " << outcome;
    }
}

TEST_F(TreeTest, OldMountFailsAfterACrash) {
    const auto file = *tree_.create(now_, "/a");
    after_crash(1);
    EXPECT_EQ(tree_.append(now_, *file, "x").error().code, Code::io);
    EXPECT_EQ(tree_.create(now_, "/b").error().code, Code::io);
    EXPECT_EQ(tree_.find(now_, "/a").error().code, Code::io);
}

TEST_F(TreeTest, PlannedCrashHappensAtItsChange) {
    tree_.crash_after(2, 1);
    ASSERT_TRUE(tree_.create(now_, "/a"));
    EXPECT_EQ(tree_.create(now_, "/b").error().code, Code::io);
    EXPECT_TRUE(tree_.cancel_crash());
    EXPECT_FALSE(tree_.cancel_crash());
}

TEST_F(TreeTest, InvalidOperationsAreRefused) {
    ASSERT_TRUE(tree_.make_directory(now_, "/d"));
    ASSERT_TRUE(tree_.create(now_, "/d/f"));
    EXPECT_EQ(tree_.make_directory(now_, "/d").error().code, Code::exists);
    EXPECT_EQ(tree_.make_directory(now_, "/no/d").error().code, Code::not_found);
    EXPECT_EQ(tree_.remove(now_, "/d", true).error().code, Code::not_empty);
    EXPECT_EQ(tree_.remove(now_, "/d", false).error().code, Code::is_directory);
    EXPECT_EQ(tree_.create(now_, "/d").error().code, Code::is_directory);
    EXPECT_EQ(tree_.create(now_, "/d/f/g").error().code, Code::not_directory);
    ASSERT_TRUE(tree_.lock(now_, "/l"));
    EXPECT_EQ(tree_.lock(now_, "/l").error().code, Code::busy);
    tree_.set_capacity(3);
    EXPECT_EQ(tree_.append(now_, **tree_.find(now_, "/d/f"), "four").error().code, Code::no_space);
}

}  // namespace
}  // namespace ros2s::engine

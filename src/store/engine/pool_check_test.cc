// Each fault of a pool is found and named, and nothing else.
#include "check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ros2s/base/crc32c.h"
#include "ros2s/engine/format/keys.h"
#include "ros2s/engine/format/values.h"
#include "test_support/pool.h"

namespace ros2s::engine {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

struct CheckedBench : PoolBench {
    explicit CheckedBench(size_t devices = 1, size_t cores = 1)
        : PoolBench(1, devices, 16 << 20, cores) {}

    // Two arrays of three blocks, a long one with a hole, a single value, and a second container.
    // All of it is in the index.
    Task<> fill() {
        co_await start();
        for (const uint64_t dkey : {0, 1}) EXPECT_OK(co_await write(dkey, 3, 7));
        co_await write_far();
        EXPECT_OK(co_await put("value"));
        const auto made = co_await store->create_container(call, {.label = "other"});
        EXPECT_OK(made);
        EXPECT_OK(co_await close());
    }
    // One block in the second segment of an array.
    Task<> write_far() {
        const AlignedBuffer buffer(block_bytes);
        object::Operation operation = writing(2, buffer.bytes());
        operation.extent.offset = uint64_t{300} * block_bytes;
        EXPECT_OK(co_await commit(std::move(operation)));
    }
    Task<Result<object::Commit>> put(std::string_view text) {
        co_return co_await commit({.kind = object::Operation::Kind::put,
                                   .object = {1, 1},
                                   .dkey = object::Dkey::integer(0),
                                   .akey = {"v"},
                                   .window = object::Window::local(as_bytes(text))});
    }
    Task<Result<object::Commit>> commit(object::Operation operation) {
        object::Transaction transaction;
        transaction.operations.push_back(std::move(operation));
        co_return co_await store->update(call, container, transaction);
    }
    [[nodiscard]] std::string key(uint64_t dkey, uint32_t segment = 0) const {
        return entry_key(container, {1, 1}, object::Dkey::integer(dkey).bytes, "a", segment).take();
    }
    [[nodiscard]] std::string summary(std::string_view akey = "a") const {
        return summary_key(container, {1, 1}, akey).take();
    }
    std::string value_at(std::string_view key) {
        return index_medium.open()->get(key).value().value();
    }
    void change(const std::function<void(IndexBatch&)>& changes) {
        const auto index = index_medium.open();
        IndexBatch batch;
        changes(batch);
        EXPECT_OK(index->apply(std::move(batch)));
        EXPECT_OK(index->flush());
        EXPECT_OK(index->close());
    }
    void set(const std::string& key, const std::string& value) {
        change([&](IndexBatch& batch) { batch.put(key, value); });
    }
    void erase(const std::string& key) {
        change([&](IndexBatch& batch) { batch.erase(key); });
    }
    // Opens it for reading, checks it, and closes it.
    Task<> check(bool data = false) {
        problems.clear();
        unjudged.clear();
        options.read_only = true;
        EXPECT_OK(co_await open());
        CheckOptions wanted{.data = data};
        wanted.problem = [this](object::ContainerId, const std::string& sentence) {
            problems.push_back(sentence);
        };
        wanted.unjudged = [this](object::ContainerId, const std::string& sentence) {
            unjudged.push_back(sentence);
        };
        auto done = co_await store->check(call, wanted);
        EXPECT_OK(done);
        if (done) checked = std::move(*done);
        EXPECT_OK(co_await close());
        options.read_only = false;
    }
    void expect_problem(const testing::Matcher<std::string>& problem) {
        world.run(check());
        EXPECT_THAT(problems, ElementsAre(problem));
    }
    std::vector<std::string> problems, unjudged;
    CheckedPool checked;
};

class EngineCheck : public testing::Test {
  protected:
    EngineCheck() { pool_.world.run(pool_.fill()); }
    CheckedBench pool_;
};

TEST_F(EngineCheck, SoundPoolHasNoProblem) {
    pool_.world.run(pool_.check(true));
    EXPECT_THAT(pool_.problems, IsEmpty());
    EXPECT_THAT(pool_.unjudged, IsEmpty());
    ASSERT_EQ(pool_.checked.containers.size(), 2U);
    uint64_t akeys = 0, blocks = 0;
    for (const CheckedContainer& each : pool_.checked.containers) {
        akeys += each.akeys;
        blocks += each.blocks;
    }
    EXPECT_EQ(akeys, 4U);
    EXPECT_EQ(blocks, 7U);
    EXPECT_EQ(pool_.checked.used_blocks, 7U);
}

Task<> write_and_crash(CheckedBench& pool) {
    EXPECT_OK(co_await pool.open());
    for (const uint64_t dkey : {1, 5}) EXPECT_OK(co_await pool.write(dkey, 4, 9));
    EXPECT_OK(co_await pool.commit({.kind = object::Operation::Kind::punch_dkey,
                                    .object = {1, 1},
                                    .dkey = object::Dkey::integer(0)}));
    for (auto& disk : pool.disks) disk->power_loss();
    pool.index_medium.crash(pool.world.random());
    EXPECT_FALSE(co_await pool.close());
}

TEST_F(EngineCheck, JournalIsReplayedInMemoryAndNothingIsWritten) {
    pool_.world.run(write_and_crash(pool_));
    const auto image = [&] {
        const AlignedBuffer bytes(pool_.disks[0]->size());
        pool_.disks[0]->peek(0, bytes.bytes());
        return crc32c(bytes.bytes());
    };
    const uint32_t before = image();
    for (int round = 0; round < 2; ++round) {
        pool_.world.run(pool_.check(true));
        EXPECT_THAT(pool_.problems, IsEmpty());
        EXPECT_EQ(pool_.checked.replayed_groups, 4U);  // one is the restart record
    }
    EXPECT_EQ(image(), before);
}

TEST(EngineCheckOnSeveralCores, SoundPoolHasNoProblem) {
    CheckedBench pool(2, 3);
    pool.world.run(pool.fill());
    pool.world.run(write_and_crash(pool));
    pool.world.run(pool.check(true));
    EXPECT_THAT(pool.problems, IsEmpty());
}

TEST_F(EngineCheck, FlippedByteOfAnEntryIsNamedOnce) {
    std::string value = pool_.value_at(pool_.key(1));
    value[value.size() / 2] ^= 1;
    pool_.set(pool_.key(1), value);
    pool_.expect_problem(AllOf(HasSubstr("object 0000000000000001.0000000000000001 dkey"),
                               HasSubstr("cannot be used: "), HasSubstr("restore the pool")));
    EXPECT_THAT(pool_.unjudged, ElementsAre(HasSubstr("what the container uses"),
                                            HasSubstr("blocks that no entry names")));
}

TEST_F(EngineCheck, BlockOfTwoEntriesNamesBoth) {
    EntryValue from = decode_entry(pool_.value_at(pool_.key(0))).value();
    EntryValue to = decode_entry(pool_.value_at(pool_.key(1))).value();
    to.map.set(1, from.map.at(1));
    pool_.set(pool_.key(1), encode(to));
    pool_.world.run(pool_.check());
    EXPECT_THAT(
        pool_.problems,
        UnorderedElementsAre(AllOf(HasSubstr("block "), HasSubstr("belongs to 2 entries"),
                                   HasSubstr("dkey \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\""),
                                   HasSubstr("dkey \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\"")),
                             HasSubstr("no entry of the index names it")));
}

// An entry of the same akey that the counts include.
TEST_F(EngineCheck, BlockThatSpaceMapHasAsFreeIsNamed) {
    const EntryValue entry = decode_entry(pool_.value_at(pool_.key(0))).value();
    std::string bits(SpaceMap::region_blocks / 8, '\0');
    for (const uint64_t dkey : {0, 1, 2}) {
        for (const uint32_t segment : {0U, 1U}) {
            const auto raw = pool_.index_medium.open()->get(pool_.key(dkey, segment)).value();
            if (!raw) continue;
            const EntryValue each = decode_entry(*raw).value();
            for (uint32_t i = 0; i < each.map.end(); ++i) {
                const uint64_t block = each.map.at(i).address.block();
                if (block == 0 || each.map.at(i).address == entry.map.at(0).address) continue;
                bits[block / 8] = static_cast<char>(bits[block / 8] | 1 << (block % 8));
            }
        }
    }
    pool_.set(space_key(0, 0).take(), encode_space(bits));
    pool_.expect_problem(
        AllOf(HasSubstr("block " + std::to_string(entry.map.at(0).address.block())),
              HasSubstr("which the space map has as free")));
}

TEST_F(EngineCheck, UsedBlockWithoutAnEntryIsNamed) {
    std::string bits(decode_space(pool_.value_at(space_key(0, 0).take())).value());
    bits[250] = '\x06';  // blocks 2001 and 2002
    pool_.set(space_key(0, 0).take(), encode_space(bits));
    pool_.expect_problem(HasSubstr("has blocks 2001 to 2002 of device-0 as in use, and no entry"));
}

TEST_F(EngineCheck, SegmentWithoutItsArrayIsNamed) {
    pool_.erase(pool_.key(2));
    pool_.world.run(pool_.check());
    EXPECT_THAT(
        pool_.problems,
        UnorderedElementsAre(HasSubstr("is a part of an array that does not exist"),
                             HasSubstr("the summary of"), HasSubstr("the container counts")));
}

TEST_F(EngineCheck, BlockBeyondTheSizeIsNamed) {
    EntryValue entry = decode_entry(pool_.value_at(pool_.key(1))).value();
    entry.size = block_bytes;
    pool_.set(pool_.key(1), encode(entry));
    pool_.expect_problem(HasSubstr("has blocks beyond its size of 4096 bytes"));
}

TEST_F(EngineCheck, EntryFromTheFutureIsNamed) {
    EntryValue entry = decode_entry(pool_.value_at(pool_.key(1))).value();
    entry.epoch = {uint64_t{1} << 40};
    pool_.set(pool_.key(1), encode(entry));
    pool_.expect_problem(HasSubstr("has epoch 1099511627776, and the pool has reached"));
}

TEST_F(EngineCheck, WrongSummaryIsNamed) {
    SummaryValue summary = decode_summary(pool_.value_at(pool_.summary())).value();
    ++summary.blocks;
    pool_.set(pool_.summary(), encode(summary));
    pool_.expect_problem(HasSubstr("counts 3 entries and 8 blocks, and there are 3 and 7"));
    --summary.blocks;
    summary.highest_known = true;
    summary.highest = "z";
    pool_.set(pool_.summary(), encode(summary));
    pool_.expect_problem(HasSubstr("and has another highest dkey"));
}

TEST_F(EngineCheck, MissingOrForeignSummaryIsNamed) {
    const std::string value = pool_.value_at(pool_.summary("v"));
    pool_.erase(pool_.summary("v"));
    pool_.expect_problem(HasSubstr("akey \"v\" has entries and no summary"));
    pool_.set(pool_.summary("v"), value);
    pool_.set(summary_key(pool_.container, {2, 2}, "a").take(), encode(SummaryValue{.entries = 1}));
    pool_.expect_problem(HasSubstr("counts 1 entries and 0 blocks, and there are 0 and 0"));
    // That of an object whose entries were removed has its times.
    pool_.set(summary_key(pool_.container, {2, 2}, "a").take(), encode(SummaryValue{}));
    pool_.world.run(pool_.check());
    EXPECT_THAT(pool_.problems, IsEmpty());
}

TEST_F(EngineCheck, WrongUseOfAContainerIsNamed) {
    const std::string key = container_key(pool_.container).take();
    ContainerValue value = decode_container(pool_.value_at(key)).value();
    value.used.bytes += 10;
    pool_.set(key, encode(value));
    pool_.expect_problem(HasSubstr("its caps are wrong by the difference"));
    value.used.bytes -= 10;
    ++value.used.values;
    pool_.set(key, encode(value));
    pool_.expect_problem(HasSubstr("and 2 single values as used"));
}

TEST_F(EngineCheck, EntriesWithoutAContainerAreNamed) {
    pool_.erase(container_key(pool_.container).take());
    pool_.expect_problem(HasSubstr("entries of container " + pool_.container.uuid.to_string()));
}

TEST_F(EngineCheck, FlippedByteOfDataIsFoundWithData) {
    const EntryValue entry = decode_entry(pool_.value_at(pool_.key(1))).value();
    const uint64_t at = entry.map.at(1).address.block() * block_bytes;
    const AlignedBuffer block(block_bytes);
    pool_.disks[0]->peek(at, block.bytes());
    block.data()[17] ^= std::byte{1};
    pool_.disks[0]->poke(at, block.bytes());
    pool_.world.run(pool_.check());
    EXPECT_THAT(pool_.problems, IsEmpty());
    pool_.world.run(pool_.check(true));
    EXPECT_THAT(pool_.problems, ElementsAre(AllOf(HasSubstr("[4096, 8192)"),
                                                  HasSubstr("does not match its checksum"))));
}

TEST_F(EngineCheck, CancelledCheckEnds) {
    StopSource stop;
    stop.request_stop();
    const auto run = [](CheckedBench& pool, StopToken token) -> Task<Result<CheckedPool>> {
        EXPECT_OK(co_await pool.open());
        CheckOptions wanted;
        wanted.problem = wanted.unjudged = [](object::ContainerId, const std::string&) {};
        auto done = co_await pool.store->check({.stop = token}, wanted);
        EXPECT_OK(co_await pool.close());
        co_return done;
    };
    const auto done = pool_.world.run(run(pool_, stop.token()));
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, Code::cancelled);
}

}  // namespace
}  // namespace ros2s::engine

// The properties of MemoryStore alone; the contract suite has those of every store.
#include <gtest/gtest.h>

#include "ros2s/object/checksum.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/object/validate.h"
#include "ros2s/runtime/sim/co_test.h"

namespace ros2s::object {
namespace {

TEST(Checksum, PiecesEndAtBlockBoundaries) {
    EXPECT_EQ(piece_count(0, 0), 0U);
    EXPECT_EQ(piece_count(4095, 1), 1U);
    EXPECT_EQ(piece_count(4095, 2), 2U);
    EXPECT_EQ(piece_count(0, 8192), 2U);
    EXPECT_EQ(piece_count(1, 8192), 3U);
    const std::string text(8192, 'x');
    Checksums checksums;
    array_checksums(1, as_bytes(text), checksums);
    ASSERT_EQ(checksums.size(), 3U);
    EXPECT_EQ(checksums[2], crc32c(as_bytes("x")));
    EXPECT_TRUE(array_checksums_match(1, as_bytes(text), checksums));
    ++checksums[1];
    Extent bad;
    EXPECT_FALSE(array_checksums_match(1, as_bytes(text), checksums, &bad));
    EXPECT_EQ(bad, (Extent{4096, 4096}));
    checksums.pop_back();
    EXPECT_FALSE(array_checksums_match(1, as_bytes(text), checksums, &bad));
    EXPECT_EQ(bad, (Extent{1, 8192}));
}

CO_TEST(MemoryStore, ReadOnlyStoreRefusesUpdates, sim::World, world, 1) {
    Reactor& reactor = world.core();
    MemoryStore store(reactor);
    const Call call;
    auto container = co_await store.create_container(call, {.label = "c"});
    EXPECT_TRUE(container.has_value());
    store.set_read_only(true);
    const Transaction touch{.operations = {{.kind = Operation::Kind::touch, .akey = {"a"}}}};
    auto refused = co_await store.update(call, container->id, touch);
    EXPECT_EQ(refused.error().code, Code::read_only);
    store.set_read_only(false);
    auto accepted = co_await store.update(call, container->id, touch);
    EXPECT_TRUE(accepted.has_value());
}

CO_TEST(MemoryStore, ConfiguredDelayTakesTime, sim::World, world, 1) {
    Reactor& reactor = world.core();
    MemoryStore store(reactor, {.delay_max = std::chrono::milliseconds(1)});
    const Call call;
    const Time before = reactor.now();
    for (int i = 0; i < 10; ++i) {
        auto space = co_await store.space(call, {});
        EXPECT_TRUE(space.has_value());
    }
    EXPECT_GT(reactor.now(), before);
    const Call late{.deadline = reactor.now()};
    auto refused = co_await store.space(late, {});
    EXPECT_EQ(refused.error().code, Code::deadline);
}

TEST(BeginFetch, ResultsOfEarlierFetchAreCleared) {
    FetchItem item{.dkey = Dkey::integer(1), .akey = {"a"}};
    const auto used = [](FetchItem& each) {
        each.is_value = true;
        each.size = 7;
        each.epoch = Epoch{7};
        each.checksums = {7};
        each.seals = "seals";
    };
    used(item);
    EXPECT_TRUE(begin_fetch(item));
    EXPECT_FALSE(item.is_value);
    EXPECT_EQ(item.size, 0U);
    EXPECT_EQ(item.epoch, Epoch{});
    EXPECT_TRUE(item.checksums.empty() && item.seals.empty());
    used(item);
    item.akey.bytes.clear();
    EXPECT_FALSE(begin_fetch(item));
    EXPECT_FALSE(item.status);
    EXPECT_EQ(item.size, 0U);
}

TEST(ContainerLimit, OwnerLeavesFreeContainersToOthers) {
    const auto fits = [](uint64_t all, std::string_view owner, uint64_t owned) {
        return check_room(all, owner, owned).has_value();
    };
    EXPECT_TRUE(fits(2047, "a", 2047));
    EXPECT_FALSE(fits(2048, "a", 2048));
    EXPECT_TRUE(fits(2048, "b", 0));
    EXPECT_EQ(check_room(3072, "b", 1024).error().detail, 1024U);
    EXPECT_TRUE(fits(containers_max - 1, "c", containers_of_owner_sure - 1));
    EXPECT_FALSE(fits(containers_max - 1, "c", containers_of_owner_sure));
    EXPECT_TRUE(fits(containers_max - 1, "", 3000)) << "of nobody in particular";
    EXPECT_EQ(check_room(containers_max, "", 0).error().detail, containers_max);
}

}  // namespace
}  // namespace ros2s::object

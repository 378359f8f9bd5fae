// How much of the memory for names each tenant may use.
#include "names_memory.h"

#include <gtest/gtest.h>

#include "ros2s/runtime/sim/world.h"

namespace ros2s::daos {
namespace {

constexpr size_t mib = size_t{1} << 20;

TEST(NamesMemory, EachTenantLeavesHalfOfTheRest) {
    sim::World world{1};
    NamesMemory memory(world.core());
    const auto first = memory.share_of(1), second = memory.share_of(2), third = memory.share_of(3);
    EXPECT_EQ(memory.take_all(*first), 64 * mib);
    // The tenant is at its limit, however often it asks.
    EXPECT_EQ(memory.take_all(*first), 0U);
    EXPECT_EQ(memory.take_all(*second), 32 * mib);
    EXPECT_EQ(memory.take_all(*third), 16 * mib);
    EXPECT_EQ(memory.take_all(*memory.share_of(4)), 8 * mib);
    // A finished listing keeps the memory that it needs.
    memory.give_back(*first, 63 * mib);
    EXPECT_EQ(memory.bytes(), (1 + 32 + 16 + 8) * mib);
    EXPECT_EQ(memory.share_of(1), first);
    EXPECT_GT(memory.take_all(*first), 30 * mib);
}

TEST(NamesMemory, EmptySharesAreForgotten) {
    sim::World world{1};
    NamesMemory memory(world.core());
    const std::weak_ptr<NamesMemory::Share> gone = memory.share_of(1);
    const std::weak_ptr<NamesMemory::Share> kept = memory.share_of(2);
    const size_t bytes = memory.take_all(*kept.lock());
    (void)memory.share_of(3);
    EXPECT_TRUE(gone.expired());
    EXPECT_FALSE(kept.expired());
    memory.give_back(*kept.lock(), bytes);
    EXPECT_EQ(memory.bytes(), 0U);
}

}  // namespace
}  // namespace ros2s::daos

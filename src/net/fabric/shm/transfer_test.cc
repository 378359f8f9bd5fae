// The order in which transfers of one connection are copied.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "ros2s/runtime/nursery.h"
#include "test_support/attack.h"

namespace ros2s::fabric::shm {
namespace {

constexpr size_t large = size_t{1} << 20;
constexpr size_t slice = size_t{64} << 10;

struct Transfer {
    explicit Transfer(size_t bytes) : memory(bytes) {}
    std::vector<std::byte> memory;
    Result<> result;
    bool ended = false;
};

Task<> get(Endpoint& server, RemoteKey key, Transfer& transfer, const Transfer& next,
           bool& next_has_begun) {
    transfer.result = co_await server.get(key, 0, transfer.memory);
    transfer.ended = true;
    next_has_begun = next.memory[0] != std::byte{};
}

Task<> large_ones_follow_each_other(Stage& stage) {
    Endpoint& client = *stage.bystander;
    const Bytes memory = *client.allocate(large);
    std::memset(memory.data(), 'a', memory.size());
    MemoryRegion region = *client.grant(memory, Rights::read);
    Transfer first(large), second(large), small(slice);
    bool second_has_begun = true, ignored = false;
    Nursery nursery(stage.core(), 3);
    const RemoteKey key = region.key();
    co_await nursery.spawn(get(*stage.bystander_server, key, first, second, second_has_begun));
    co_await nursery.spawn(get(*stage.bystander_server, key, second, small, ignored));
    co_await nursery.spawn(get(*stage.bystander_server, key, small, small, ignored));
    EXPECT_FALSE(first.ended);
    EXPECT_TRUE(small.ended) << "it waits for no large one";
    co_await nursery.join();
    EXPECT_FALSE(second_has_begun);
    for (const Transfer* each : {&first, &second, &small}) {
        EXPECT_TRUE(each->result);
        EXPECT_EQ(each->memory.front(), std::byte{'a'});
        EXPECT_EQ(each->memory.back(), std::byte{'a'});
    }
    co_await region.revoke();
    client.free(memory);
}
TEST(ShmTransfer, LargeTransfersRunInSequence) { Stage().run(large_ones_follow_each_other); }

// What waits for its turn does not use the grant.
Task<> a_revocation_waits_for_none_that_waits(Stage& stage) {
    Endpoint& client = *stage.bystander;
    const Bytes memory = *client.allocate(large);
    MemoryRegion region = *client.grant(memory.first(large / 2), Rights::read);
    MemoryRegion other_region = *client.grant(memory.subspan(large / 2), Rights::read);
    Transfer first(large / 2), second(large / 2);
    bool ignored = false;
    Nursery nursery(stage.core(), 2);
    co_await nursery.spawn(get(*stage.bystander_server, region.key(), first, second, ignored));
    co_await nursery.spawn(
        get(*stage.bystander_server, other_region.key(), second, first, ignored));
    co_await other_region.revoke();
    EXPECT_FALSE(first.ended);
    co_await nursery.join();
    EXPECT_TRUE(first.result);
    EXPECT_EQ(second.result.error().code, Code::stale);
    co_await region.revoke();
    client.free(memory);
}
TEST(ShmTransfer, RevocationDoesNotAwaitQueuedTransfer) {
    Stage().run(a_revocation_waits_for_none_that_waits);
}

Task<> those_that_wait_end_with_the_connection(Stage& stage) {
    Report report;
    const auto client = (co_await stage.honest->connect(stage.address(), {}, report)).value();
    const auto server = (co_await stage.listener->accept()).value();
    const Bytes memory = *client->allocate(large);
    std::memset(memory.data(), 'a', memory.size());
    MemoryRegion region = *client->grant(memory, Rights::read);
    Transfer first(large), second(large);
    bool ignored = false;
    Nursery nursery(stage.core(), 2);
    for (Transfer* const each : {&first, &second}) {
        co_await nursery.spawn(get(*server, region.key(), *each, *each, ignored));
    }
    co_await server->close();
    co_await nursery.join();
    EXPECT_EQ(first.result.error().code, Code::disconnected);
    EXPECT_EQ(second.result.error().code, Code::disconnected);
    EXPECT_EQ(second.memory[0], std::byte{}) << "copied after the end";
    co_await region.revoke();
    client->free(memory);
    co_await client->close();
}
TEST(ShmTransfer, QueuedTransfersEndWithConnection) {
    Stage().run(those_that_wait_end_with_the_connection);
}

}  // namespace
}  // namespace ros2s::fabric::shm

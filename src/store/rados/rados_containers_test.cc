// The limit on the containers of one owner: it cannot use up the pool.
#include <gtest/gtest.h>

#include "ros2s/rados/rados_store.h"
#include "ros2s/rados/records.h"
#include "ros2s/rados/sim/sim_rados.h"
#include "ros2s/runtime/sim/world.h"
#include "test_support/open_store.h"

namespace ros2s::rados {
namespace {

Task<Result<object::ContainerRecord>> create_for(object::ObjectStore& store, std::string owner,
                                                 std::string label) {
    const object::ContainerProperties properties{.label = std::move(label),
                                                 .owner = std::move(owner)};
    const Call call;
    co_return co_await store.create_container(call, properties);
}

CO_TEST(RadosContainers, OwnerCannotTakeAllContainers, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    Report report;
    const auto store = co_await RadosStore::open({}, reactor, pool, pool, {}, report);
    EXPECT_TRUE(store) << report.text();
    constexpr uint64_t half = object::containers_max / 2;
    EXPECT_TRUE(co_await create_for(**store, "alice", "a"));
    // Creates the other containers directly, as the store would.
    Change fill{.object = {"ros2store", "pool"}};
    for (uint64_t i = 1; i < half; ++i) {
        fill.set.emplace_back(
            "la-" + std::to_string(i),
            encode(ContainerValue{
                .id = Uuid::make(reactor.secrets()), .chunk_bytes = 1 << 20, .owner = "alice"}));
    }
    EXPECT_TRUE(co_await pool.apply(fill));
    const auto refused = co_await create_for(**store, "alice", "a-more");
    EXPECT_FALSE(refused);
    if (!refused) EXPECT_EQ(refused.error().detail, half);
    EXPECT_TRUE(co_await create_for(**store, "CN=bob", "b"));
    EXPECT_TRUE(co_await create_for(**store, "", "nobodys"));
    co_await (*store)->close();
    co_await cluster.close();
}

}  // namespace
}  // namespace ros2s::rados

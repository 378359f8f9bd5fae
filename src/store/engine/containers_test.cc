// Containers without a pool: labels are unique, and nothing remains of a destroyed one.
#include "containers.h"

#include "test_support/commit.h"

namespace ros2s::engine {
namespace {

struct ContainersBench : CommitBench {
    object::PinTable pins;
    object::LeaseTable leases{env.reactor, pins};
    Containers all{cores, state, committer, checkpointer, journal, leases};
};

Task<> make_and_destroy(ContainersBench& bench) {
    const auto made = co_await bench.all.create(bench.call, {.label = "b"});
    EXPECT_TRUE(made);
    EXPECT_EQ((co_await bench.all.create(bench.call, {.label = "b"})).error().code, Code::exists);
    EXPECT_EQ((co_await bench.all.list(bench.call))->size(), 2U);
    EXPECT_TRUE(co_await bench.all.destroy(bench.call, made->id));
    EXPECT_EQ((co_await bench.all.destroy(bench.call, made->id)).error().code, Code::not_found);
    EXPECT_FALSE(bench.state.containers.contains(made->id));
    EXPECT_EQ(bench.committer.counters.transactions.value(), 3U);
    // A destruction that a crash interrupted is resumed.
    bench.state.containers[Twenty::id].value.retired = true;
    co_await bench.all.resume_purges();
    EXPECT_TRUE(bench.state.containers.empty());
}
TEST(EngineContainers, CreationIsUniqueAndDestructionIsComplete) {
    ContainersBench bench;
    bench.run(make_and_destroy(bench));
}

Task<> make_too_many(ContainersBench& bench) {
    while (bench.state.containers.size() < object::containers_max) {
        const object::ContainerId id{Uuid::make(bench.env.reactor.secrets())};
        bench.state.containers[id].value.properties.label = id.uuid.to_string();
    }
    EXPECT_EQ((co_await bench.all.create(bench.call, {.label = "b"})).error(),
              (Error{.code = Code::too_large, .detail = object::containers_max}));
    bench.state.containers.erase(bench.state.containers.begin());
    EXPECT_TRUE(co_await bench.all.create(bench.call, {.label = "b"}));
}
TEST(EngineContainers, CreationBeyondTheLimitIsRefused) {
    ContainersBench bench;
    bench.run(make_too_many(bench));
}

}  // namespace
}  // namespace ros2s::engine

// Containers without a pool: labels are unique, and nothing remains of a destroyed one.
#include "containers.h"

#include "commit_test_support.h"

namespace ros2s::engine {
namespace {

struct ContainersBench : CommitBench {
    Containers all{cores, state, committer, checkpointer, journal};
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
    // A destruction that a crash interrupted continues.
    bench.state.containers[Twenty::id].value.retired = true;
    co_await bench.all.resume_purges();
    EXPECT_TRUE(bench.state.containers.empty());
}
TEST(Containers, AreMadeOnceAndDestroyedToTheEnd) {
    ContainersBench bench;
    bench.run(make_and_destroy(bench));
}

}  // namespace
}  // namespace ros2s::engine

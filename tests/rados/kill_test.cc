// cluster.py kills the OSD while this runs, and starts it again. No acknowledged change is lost,
// and none is made twice.
#include <gtest/gtest.h>

#include "real_cluster.h"
#include "ros2s/object/test_support/batch.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::rados {
namespace {

using object::AkeyAddress;
using object::Batch;

constexpr size_t workers = 8;
constexpr auto load_time = std::chrono::seconds(25);

struct Worker {
    uint64_t number = 0;
    uint64_t done = 0;  // the number of its acknowledged transactions
    Duration longest{};
    // Each adds one to a counter in two objects and replaces a file's data.
    [[nodiscard]] AkeyAddress counter(uint64_t copy) const {
        return {{10 + copy, number}, "counter", "value"};
    }
    [[nodiscard]] AkeyAddress data() const { return {{20, number}, "0", "data"}; }
    [[nodiscard]] static std::string text(uint64_t count) { return std::to_string(count); }
    [[nodiscard]] static std::string bytes(uint64_t count) {
        return std::string(9000, static_cast<char>('a' + count % 26));
    }
    Task<> load(RadosStore& store, object::ContainerId container, Reactor& reactor) {
        const Time until = reactor.now() + load_time;
        object::Epoch epoch{};
        Uuid client = Uuid::make(reactor.secrets());
        while (reactor.now() < until) {
            const Time began = reactor.now();
            Batch batch = Batch()
                              .epoch_equals(counter(0), epoch)
                              .put(counter(0), text(done + 1))
                              .put(counter(1), text(done + 1))
                              .write(data(), 0, bytes(done + 1));
            if (number % 2 == 0) batch.id({client, 0, done + 1});
            const auto commit = co_await store.update({}, container, batch.transaction());
            EXPECT_TRUE(commit.has_value()) << describe(commit.error());
            if (!commit) co_return;
            epoch = commit->epoch;
            ++done;
            longest = std::max(longest, reactor.now() - began);
        }
    }
    Task<> check(RadosStore& store, object::ContainerId container) const {
        for (const AkeyAddress& place : {counter(0), counter(1), data()}) {
            std::string found(9000, '\0');
            auto item = object::fetch_item(place.object, {place.dkey}, {place.akey}, 0,
                                           std::as_writable_bytes(std::span(found)));
            EXPECT_TRUE(co_await store.fetch({}, container, {&item, 1}));
            EXPECT_TRUE(item.status.has_value());
            found.resize(item.size);
            EXPECT_EQ(found, place == data() ? bytes(done) : text(done));
        }
    }
};

Task<> load_and_check(RealCluster& cluster) {
    Report report;
    auto opened = co_await RadosStore::open({}, cluster.reactor(), cluster.metadata(),
                                            cluster.data(), {}, report);
    EXPECT_TRUE(opened.has_value()) << report.text();
    if (!opened) co_return;
    RadosStore& store = **opened;
    const auto container = co_await store.create_container({}, {.label = "kill"});
    EXPECT_TRUE(container.has_value());
    std::vector<Worker> all(workers);
    Nursery nursery(cluster.reactor(), workers);
    for (size_t i = 0; i < workers; ++i) {
        all[i].number = i;
        co_await nursery.spawn(all[i].load(store, container->id, cluster.reactor()));
    }
    co_await nursery.join();
    uint64_t count = 0;
    Duration longest{};
    for (const Worker& each : all) {
        co_await each.check(store, container->id);
        count += each.done;
        longest = std::max(longest, each.longest);
    }
    std::printf("%lu transactions over three objects, the longest took %.1f s\n", count,
                std::chrono::duration<double>(longest).count());
    co_await cluster.empty(store);
    co_await store.close();
}

TEST(ClusterFaults, AcknowledgedChangesSurvive) {
    RealCluster& cluster = RealCluster::instance();
    run_blocking(cluster.reactor(), [&] { return load_and_check(cluster); });
}

}  // namespace
}  // namespace ros2s::rados

// An OSD stops answering while a client works. Each request fails at its deadline. When the OSD
// continues, all acknowledged data is there.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "real_cluster.h"
#include "ros2s/object/test_support/batch.h"

namespace ros2s::rados {
namespace {

using object::AkeyAddress;
using object::Batch;

constexpr auto limit = std::chrono::seconds(2);
// Much longer, because the machine may be busy.
constexpr auto bound = std::chrono::seconds(90);
const AkeyAddress place{{1, 1}, "dkey", "value"};
const AkeyAddress data{{1, 2}, "0", "data"};

// Stops the only OSD of the cluster for the lifetime of this object.
class StoppedOsd {
  public:
    StoppedOsd() {
        std::ifstream(std::filesystem::path(RealCluster::conf()).parent_path() / "osd.0.pid") >>
            pid_;
        EXPECT_GT(pid_, 0);
        EXPECT_EQ(::kill(pid_, SIGSTOP), 0);
    }
    ~StoppedOsd() { EXPECT_EQ(::kill(pid_, SIGCONT), 0); }
    StoppedOsd& operator=(StoppedOsd&&) = delete;

  private:
    pid_t pid_ = 0;
};

Task<Result<std::string>> fetch(RadosStore& store, object::ContainerId container,
                                AkeyAddress from) {
    std::string found(100, '\0');
    auto item = object::fetch_item(from.object, {from.dkey}, {from.akey}, 0,
                                   std::as_writable_bytes(std::span(found)));
    ROS2S_CO_TRY(co_await store.fetch({}, container, {&item, 1}));
    ROS2S_CO_TRY(item.status);
    found.resize(item.size);
    co_return found;
}

template <class T>
void expect_deadline(const Result<T>& result) {
    EXPECT_FALSE(result.has_value());
    if (!result) EXPECT_EQ(result.error().code, Code::deadline);
}

Task<> use_frozen(RadosStore& store, object::ContainerId container) {
    Reactor& reactor = RealCluster::instance().reactor();
    const StoppedOsd stopped;
    const Time began = reactor.now();
    // Its threads do not all stop at once.
    while (reactor.now() - began < bound && co_await fetch(store, container, place)) continue;
    expect_deadline(co_await fetch(store, container, data));
    const Batch batch = Batch().put(place, "new").write(data, 0, "new");
    expect_deadline(co_await store.update({}, container, batch.transaction()));
    expect_deadline(co_await store.list(
        {}, container, {.what = object::ListRequest::What::dkeys, .object = place.object}));
    expect_deadline(co_await store.list_containers({}));
    EXPECT_LT(reactor.now() - began, bound);
}

Task<> freeze() {
    RealCluster& real = RealCluster::instance();
    Report report;
    auto connected = co_await Cluster::connect(
        real.environment(), {.conf = RealCluster::conf(), .time_limit = limit}, report);
    EXPECT_TRUE(connected.has_value()) << report.text();
    if (!connected) co_return;
    Cluster& cluster = **connected;
    {
        const auto metadata = co_await cluster.open_pool("main", report);
        const auto bytes = co_await cluster.open_pool("data", report);
        auto opened =
            co_await RadosStore::open({}, real.reactor(), **metadata, **bytes, {}, report);
        EXPECT_TRUE(opened.has_value()) << report.text();
        RadosStore& store = **opened;
        const auto container = co_await store.create_container({}, {.label = "frozen"});
        EXPECT_TRUE(container.has_value());
        const Batch batch = Batch().put(place, "old").write(data, 0, "old");
        EXPECT_TRUE(co_await store.update({}, container->id, batch.transaction()));
        co_await use_frozen(store, container->id);
        // A request without an answer may still take effect, but only as a whole.
        Result<std::string> value = fail(Code::deadline);
        const Time until = real.reactor().now() + bound;
        while (!value && real.reactor().now() < until) {
            value = co_await fetch(store, container->id, place);
        }
        EXPECT_TRUE(value == "old" || value == "new")
            << (value ? *value : std::string(describe(value.error())));
        EXPECT_EQ(co_await fetch(store, container->id, data), value);
        Result<> destroyed = fail(Code::deadline);
        while (!destroyed && destroyed.error().code == Code::deadline &&
               real.reactor().now() < until) {
            destroyed = co_await store.destroy_container({}, container->id);
        }
        // It may have been done by a call whose answer came too late.
        EXPECT_TRUE(destroyed || destroyed.error().code == Code::not_found)
            << describe(destroyed.error());
        co_await store.close();
    }
    co_await cluster.close();
}

TEST(FrozenCluster, RequestsFailWithinTheirTime) {
    run_blocking(RealCluster::instance().reactor(), [] { return freeze(); });
}

}  // namespace
}  // namespace ros2s::rados

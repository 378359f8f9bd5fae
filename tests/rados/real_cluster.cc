#include "real_cluster.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace ros2s::rados {
namespace {

std::unique_ptr<RealCluster> the_cluster;

class EndOfCluster : public testing::Environment {
  public:
    void TearDown() override { the_cluster.reset(); }
};
const auto* const end_of_cluster = testing::AddGlobalTestEnvironment(new EndOfCluster);

Task<> connect(Environment environment, std::unique_ptr<Cluster>& cluster,
               std::unique_ptr<Pool>& metadata, std::unique_ptr<Pool>& data) {
    Report report;
    auto connected = co_await Cluster::connect(environment, {.conf = RealCluster::conf()}, report);
    ROS2S_CHECK(connected.has_value());
    cluster = std::move(*connected);
    metadata = (co_await cluster->open_pool("main", report)).value();
    data = (co_await cluster->open_pool("data", report)).value();
}

}  // namespace

std::string RealCluster::conf() {
    const char* const path = std::getenv("ROS2STORE_TEST_CEPH_CONF");
    ROS2S_CHECK(path != nullptr);  // run it by cluster.py
    return path;
}

RealCluster& RealCluster::instance() {
    if (the_cluster == nullptr) the_cluster = std::make_unique<RealCluster>();
    return *the_cluster;
}

RealCluster::RealCluster() {
    Report report;
    reactor_ = OsReactor::create({}, report).value();
    ROS2S_CHECK(reactor_->start(report).has_value());
    blocking_ = std::make_unique<ThreadPool>(4);
    run_blocking(*reactor_, [&] { return connect(environment(), cluster_, metadata_, data_); });
}

RealCluster::~RealCluster() {
    metadata_.reset();
    data_.reset();
    run_blocking(*reactor_, [&] { return cluster_->close(); });
    cluster_.reset();
    blocking_.reset();
    reactor_.reset();
}

Task<> RealCluster::empty(RadosStore& store) {
    const auto all = co_await store.list_containers({});
    EXPECT_TRUE(all.has_value());
    if (!all) co_return;
    for (const auto& each : *all) EXPECT_TRUE(co_await store.destroy_container({}, each.id));
}

}  // namespace ros2s::rados

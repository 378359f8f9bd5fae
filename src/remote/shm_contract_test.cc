// A store behind shared memory keeps the object contract: on one core, and with the server on
// another. Payload that does not go inline is staged here, for only the session's segment can be
// granted.
#include <stdlib.h>
#include <unistd.h>

#include "remote_test_support.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/object/contract/contract.h"
#include "ros2s/object/memory_store.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::remote {
namespace {

using object::contract::Needs;

std::unique_ptr<OsReactor> make_reactor() {
    Report report;
    auto made = OsReactor::create({}, report);
    if (!made) std::fprintf(stderr, "%s\n", report.text().c_str());
    ROS2S_CHECK(made);
    return std::move(*made);
}

class ShmSetup final : public object::contract::Setup {
  public:
    ShmSetup(const Needs& needs, bool two_cores, const WireOptions& options)
        : options_(options), client_(make_reactor()) {
        char name[] = "/tmp/ros2store-test-XXXXXX";
        directory_ = mkdtemp(name);
        if (two_cores) {
            server_ = make_reactor();
            Report report;
            const auto started = server_->start(report);
            ROS2S_CHECK(started);
        }
        options_.channel.service = object_service;
        options_.channel.client.bytes[0] = 1;
        client_->run(set_up(needs.capacity_bytes));
    }
    ~ShmSetup() override {
        client_->run(tear_down());
        if (server_) {
            server_->stop();
            server_->join();
        }
        rmdir(directory_.c_str());
    }
    object::ObjectStore& store() override { return *store_; }
    Reactor& reactor() override { return *client_; }
    void run(Task<> task) override { client_->run(std::move(task)); }
    bool make_read_only() override {
        if (server_) return false;  // the store is another core's
        behind_->set_read_only(true);
        return true;
    }

  private:
    Reactor& there() { return server_ ? *server_ : *client_; }
    Task<> serve(uint64_t capacity_bytes) {
        behind_ = std::make_unique<object::MemoryStore>(
            there(),
            // Without a delay, requests of one connection are done in the order of their making.
            object::MemoryStore::Options{.capacity_bytes = capacity_bytes,
                                         .delay_max = std::chrono::microseconds(200)});
        service_ = std::make_unique<StoreServer>(*behind_);
        server_domain_ = fabric::shm::open_domain(there());
        auto listening =
            co_await rpc::Server::listen(there(), *server_domain_, directory_ + "/store", *service_,
                                         gate_, options_.server, server_report_);
        ROS2S_CHECK(listening);
        serving_ = std::move(*listening);
    }
    Task<> stop_serving() {
        co_await serving_->close();
        serving_.reset();
        co_await server_domain_->close();
        server_domain_.reset();
        service_.reset();
        behind_.reset();
    }
    Task<> set_up(uint64_t capacity_bytes) {
        co_await on(there(), *client_, serve(capacity_bytes));
        domain_ = fabric::shm::open_domain(*client_);
        auto channel = co_await rpc::Channel::open(*client_, *domain_, directory_ + "/store",
                                                   tickets_, options_.channel, report_);
        EXPECT_TRUE(channel) << report_.text();
        ROS2S_CHECK(channel);
        channel_ = std::move(*channel);
        auto opened = co_await RemoteStore::open({}, *channel_, report_);
        EXPECT_TRUE(opened) << report_.text();
        ROS2S_CHECK(opened);
        store_ = std::move(*opened);
    }
    Task<> tear_down() {
        EXPECT_EQ(channel_->metrics().connections.value(), 1U);
        EXPECT_EQ(channel_->metrics().window_bytes.value(), 0U);
        store_.reset();
        co_await channel_->close();
        channel_.reset();
        co_await domain_->close();
        domain_.reset();
        co_await on(there(), *client_, stop_serving());
    }

    WireOptions options_;
    std::string directory_;
    std::unique_ptr<OsReactor> client_, server_;
    OpenGate gate_;
    NoTickets tickets_;
    Report report_, server_report_;
    std::unique_ptr<object::MemoryStore> behind_;
    std::unique_ptr<StoreServer> service_;
    std::unique_ptr<fabric::Domain> server_domain_, domain_;
    std::unique_ptr<rpc::Server> serving_;
    std::unique_ptr<rpc::Channel> channel_;
    std::unique_ptr<RemoteStore> store_;
};

ROS2S_OBJECT_STORE_CONTRACT(RemoteOverShm, [](const Needs& needs) {
    return std::make_unique<ShmSetup>(needs, false, WireOptions{});
});
ROS2S_OBJECT_STORE_CONTRACT(RemoteOverShmOnTwoCores, [](const Needs& needs) {
    return std::make_unique<ShmSetup>(needs, true, WireOptions{});
});
ROS2S_OBJECT_STORE_CONTRACT(RemoteInBulkOverShm, [](const Needs& needs) {
    return std::make_unique<ShmSetup>(needs, true, bulk_options());
});

}  // namespace
}  // namespace ros2s::remote

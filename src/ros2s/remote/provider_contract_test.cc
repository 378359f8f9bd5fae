// A store behind a real provider keeps the object contract: on one core, and with the server on
// another. Payload that is not inline is staged over shm, because there only the session's segment
// can be granted.
#include <stdlib.h>
#include <unistd.h>

#include "remote_test_support.h"
#include "ros2s/fabric/providers/providers.h"
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

class ProviderSetup final : public object::contract::Setup {
  public:
    ProviderSetup(const Needs& needs, std::string provider, bool two_cores,
                  const WireOptions& options)
        : provider_(std::move(provider)), options_(options), client_(make_reactor()) {
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
    ~ProviderSetup() override {
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
        if (server_) return false;  // the store belongs to another core
        behind_->set_read_only(true);
        return true;
    }

  private:
    std::unique_ptr<fabric::Domain> open_domain(Reactor& reactor) const {
        Report report;
        auto opened = fabric::open_domain(reactor, provider_, "lo", report);
        EXPECT_TRUE(opened) << report.text();
        ROS2S_CHECK(opened);
        return std::move(*opened);
    }
    Reactor& there() { return server_ ? *server_ : *client_; }
    Task<> serve(uint64_t capacity_bytes) {
        behind_ = std::make_unique<object::MemoryStore>(
            there(),
            // Without a delay, requests of one connection are executed in order.
            object::MemoryStore::Options{.capacity_bytes = capacity_bytes,
                                         .delay_max = std::chrono::microseconds(200)});
        service_ = std::make_unique<StoreServer>(*behind_);
        server_domain_ = open_domain(there());
        const std::string wanted = provider_ == "shm" ? directory_ + "/store" : "127.0.0.1:0";
        auto listening = co_await rpc::Server::listen(there(), *server_domain_, wanted, *service_,
                                                      gate_, options_.server, server_report_);
        EXPECT_TRUE(listening) << server_report_.text();
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
        domain_ = open_domain(*client_);
        auto channel = co_await rpc::Channel::open(*client_, *domain_, serving_->address(),
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
        if (provider_ == "shm") EXPECT_EQ(channel_->metrics().window_bytes.value(), 0U);
        store_.reset();
        co_await channel_->close();
        channel_.reset();
        co_await domain_->close();
        domain_.reset();
        co_await on(there(), *client_, stop_serving());
    }

    std::string provider_;
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
    return std::make_unique<ProviderSetup>(needs, "shm", false, WireOptions{});
});
ROS2S_OBJECT_STORE_CONTRACT(RemoteOverShmOnTwoCores, [](const Needs& needs) {
    return std::make_unique<ProviderSetup>(needs, "shm", true, WireOptions{});
});
ROS2S_OBJECT_STORE_CONTRACT(RemoteInBulkOverShm, [](const Needs& needs) {
    return std::make_unique<ProviderSetup>(needs, "shm", true, bulk_options());
});
ROS2S_OBJECT_STORE_CONTRACT(RemoteOverUcxTcpOnTwoCores, [](const Needs& needs) {
    return std::make_unique<ProviderSetup>(needs, "ucx+tcp", true, WireOptions{});
});
ROS2S_OBJECT_STORE_CONTRACT(RemoteOverOfiTcpOnTwoCores, [](const Needs& needs) {
    return std::make_unique<ProviderSetup>(needs, "ofi+tcp;ofi_rxm", true, WireOptions{});
});
ROS2S_OBJECT_STORE_CONTRACT(RemoteInBulkOverOfiTcp, [](const Needs& needs) {
    return std::make_unique<ProviderSetup>(needs, "ofi+tcp;ofi_rxm", true, bulk_options());
});
ROS2S_OBJECT_STORE_CONTRACT(RemoteInBulkOverUcxTcp, [](const Needs& needs) {
    return std::make_unique<ProviderSetup>(needs, "ucx+tcp", true, bulk_options());
});

}  // namespace
}  // namespace ros2s::remote

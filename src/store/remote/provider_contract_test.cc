// A store behind a real provider keeps the object contract: on one core, and with the server on
// another. Payload that is not inline is staged over shm, because there only the session's segment
// can be granted.
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "ros2s/fabric/providers/providers.h"
#include "ros2s/object/contract/contract.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/pki/authority.h"
#include "ros2s/runtime/test_support/made_reactor.h"
#include "test_support/remote.h"

namespace ros2s::remote {
namespace {

using object::contract::Needs;

// Certificates for tls, in a temporary directory.
class Certificates {
  public:
    Certificates() {
        char name[] = "/tmp/ros2store-test-XXXXXX";
        parent_ = mkdtemp(name);
        Report report;
        const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
        const auto made =
            pki::make_authority(parent_ + "/certs",
                                {.certificates = {{.name = "server",
                                                   .alternative_names = {"localhost"},
                                                   .server = true},
                                                  {.name = "client", .alternative_names = {}}}},
                                now, report);
        EXPECT_TRUE(made) << report.text();
    }
    Certificates& operator=(Certificates&&) = delete;
    ~Certificates() { std::filesystem::remove_all(parent_); }
    [[nodiscard]] fabric::DomainOptions of(const std::string& name) const {
        return {.tls = {.identity = pki::identity_in(parent_ + "/certs", name),
                        .server_name = "localhost"}};
    }

  private:
    std::string parent_;
};

// The cores of a set-up, and a domain on each. All cases of a suite use them one after the other:
// under AddressSanitizer, libfabric takes 0.3 s to open a domain, for which it fills 45 MiB.
class Cores final : public testing::EmptyTestEventListener {
  public:
    Cores(std::string provider, bool two) : provider_(std::move(provider)), two_(two) {}
    void open() {
        if (client_) return;
        client_ = made_reactor();
        if (two_) {
            server_ = made_reactor();
            Report report;
            const auto started = server_->start(report);
            ROS2S_CHECK(started);
        }
        client_->run(open_domains());
    }
    void OnTestSuiteEnd(const testing::TestSuite& /*suite*/) override {
        if (!client_) return;
        client_->run(close_domains());
        if (server_) {
            server_->stop();
            server_->join();
        }
        server_.reset();
        client_.reset();
    }
    [[nodiscard]] const std::string& provider() const { return provider_; }
    [[nodiscard]] bool two() const { return two_; }
    [[nodiscard]] OsReactor& client() { return *client_; }
    [[nodiscard]] OsReactor& server() { return server_ ? *server_ : *client_; }
    [[nodiscard]] fabric::Domain& client_domain() { return *client_domain_; }
    [[nodiscard]] fabric::Domain& server_domain() { return *server_domain_; }

  private:
    Task<> open_domain(Reactor& reactor, std::unique_ptr<fabric::Domain>& domain,
                       const char* name) const {
        Report report;
        auto opened = fabric::open_domain(reactor, provider_, "lo", report, certificates_.of(name));
        EXPECT_TRUE(opened) << report.text();
        ROS2S_CHECK(opened);
        domain = std::move(*opened);
        co_return;
    }
    Task<> open_domains() {
        co_await on(server(), *client_, open_domain(server(), server_domain_, "server"));
        co_await open_domain(*client_, client_domain_, "client");
    }
    static Task<> close_domain(std::unique_ptr<fabric::Domain>& domain) {
        co_await domain->close();
        domain.reset();
    }
    Task<> close_domains() {
        co_await close_domain(client_domain_);
        co_await on(server(), *client_, close_domain(server_domain_));
    }

    std::string provider_;
    const Certificates certificates_;
    bool two_;
    std::unique_ptr<OsReactor> client_, server_;
    std::unique_ptr<fabric::Domain> client_domain_, server_domain_;
};

class ProviderSetup final : public object::contract::Setup {
  public:
    [[nodiscard]] bool is_in_real_time() const override { return true; }
    ProviderSetup(const Needs& needs, Cores& cores, const WireOptions& options)
        : cores_(cores), options_(options) {
        char name[] = "/tmp/ros2store-test-XXXXXX";
        directory_ = mkdtemp(name);
        options_.channel.service = object_service;
        options_.channel.client.bytes[0] = 1;
        cores_.client().run(set_up(needs.capacity_bytes));
    }
    ~ProviderSetup() override {
        cores_.client().run(tear_down());
        rmdir(directory_.c_str());
    }
    object::ObjectStore& store() override { return *store_; }
    Reactor& reactor() override { return cores_.client(); }
    void run(Task<> task) override { cores_.client().run(std::move(task)); }
    bool make_read_only() override {
        if (cores_.two()) return false;  // the store belongs to another core
        behind_->set_read_only(true);
        return true;
    }

  private:
    Task<> serve(uint64_t capacity_bytes) {
        behind_ = std::make_unique<object::MemoryStore>(
            cores_.server(),
            // Without a delay, requests of one connection are executed in order.
            object::MemoryStore::Options{.capacity_bytes = capacity_bytes,
                                         .delay_max = std::chrono::microseconds(200)});
        service_ = std::make_unique<StoreServer>(*behind_);
        const std::string wanted =
            cores_.provider() == "shm" ? directory_ + "/store" : "127.0.0.1:0";
        auto listening =
            co_await rpc::Server::listen(cores_.server(), cores_.server_domain(), wanted, *service_,
                                         gate_, options_.server, server_report_);
        EXPECT_TRUE(listening) << server_report_.text();
        ROS2S_CHECK(listening);
        serving_ = std::move(*listening);
    }
    Task<> stop_serving() {
        co_await serving_->close();
        serving_.reset();
        service_.reset();
        behind_.reset();
    }
    Task<> set_up(uint64_t capacity_bytes) {
        co_await on(cores_.server(), cores_.client(), serve(capacity_bytes));
        auto channel =
            co_await rpc::Channel::open(cores_.client(), cores_.client_domain(),
                                        serving_->address(), tickets_, options_.channel, report_);
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
        if (cores_.provider() == "shm") EXPECT_EQ(channel_->metrics().window_bytes.value(), 0U);
        store_.reset();
        co_await channel_->close();
        channel_.reset();
        co_await on(cores_.server(), cores_.client(), stop_serving());
    }

    Cores& cores_;
    WireOptions options_;
    std::string directory_;
    OpenGate gate_;
    NoTickets tickets_;
    Report report_, server_report_;
    std::unique_ptr<object::MemoryStore> behind_;
    std::unique_ptr<StoreServer> service_;
    std::unique_ptr<rpc::Server> serving_;
    std::unique_ptr<rpc::Channel> channel_;
    std::unique_ptr<RemoteStore> store_;
};

object::contract::Factory behind(const char* provider, bool two_cores, const WireOptions& options) {
    auto* cores = new Cores(provider, two_cores);
    testing::UnitTest::GetInstance()->listeners().Append(cores);  // owns it
    return [cores, options](const Needs& needs) {
        cores->open();
        return std::make_unique<ProviderSetup>(needs, *cores, options);
    };
}

ROS2S_OBJECT_STORE_CONTRACT(RemoteOverShm, behind("shm", false, {}));
ROS2S_OBJECT_STORE_CONTRACT(RemoteOverShmOnTwoCores, behind("shm", true, {}));
ROS2S_OBJECT_STORE_CONTRACT(RemoteInBulkOverShm, behind("shm", true, bulk_options()));
ROS2S_OBJECT_STORE_CONTRACT(RemoteOverUcxTcpOnTwoCores, behind("ucx+tcp", true, {}));
ROS2S_OBJECT_STORE_CONTRACT(RemoteOverOfiTcpOnTwoCores, behind("ofi+tcp;ofi_rxm", true, {}));
ROS2S_OBJECT_STORE_CONTRACT(RemoteInBulkOverOfiTcp,
                            behind("ofi+tcp;ofi_rxm", true, bulk_options()));
ROS2S_OBJECT_STORE_CONTRACT(RemoteInBulkOverUcxTcp, behind("ucx+tcp", true, bulk_options()));
ROS2S_OBJECT_STORE_CONTRACT(RemoteOverTlsOnTwoCores, behind("tls", true, {}));
ROS2S_OBJECT_STORE_CONTRACT(RemoteInBulkOverTls, behind("tls", true, bulk_options()));

}  // namespace
}  // namespace ros2s::remote

// grpc.health.v1 as used by gRPC's own clients: Check, and Watch until its end.
#include <gtest/gtest.h>

#include "ros2s/control/health.grpc.pb.h"
#include "ros2s/rights/settings.h"
#include "test_support/test_rig.h"
#include "tls.h"

namespace ros2s::control {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using Status = HealthCheckResponse::ServingStatus;

class ControlHealth : public testing::Test {
  protected:
    // Alice may read a container of the pool, Mallory nothing.
    void SetUp() override {
        Report report;
        const auto access =
            rights::parse_access({{"CN=alice", {{"read", "pool/c"}}}}, "test", report);
        ASSERT_TRUE(access) << report.text();
        rig_.emplace(RigOptions{.access = *access});
    }
    std::unique_ptr<grpc::health::v1::Health::Stub> stub(const std::string& subject) {
        Report report;
        const auto channel =
            open_channel(rig_->address(), rig_->certificates.of(subject), {}, report);
        EXPECT_TRUE(channel) << report.text();
        return grpc::health::v1::Health::NewStub(*channel);
    }
    static void set_deadline(grpc::ClientContext& context) {
        context.set_deadline(std::chrono::system_clock::now() + patience);
    }
    static grpc::StatusCode check(grpc::health::v1::Health::Stub& stub, const std::string& service,
                                  Status& status) {
        grpc::ClientContext context;
        set_deadline(context);
        HealthCheckRequest request;
        request.set_service(service);
        HealthCheckResponse response;
        const grpc::Status done = stub.Check(&context, request, &response);
        status = response.status();
        return done.error_code();
    }
    void serve(bool serving) {
        rig_->do_there([&] { rig_->server->set_pool_serving("pool", serving); });
    }
    std::optional<Rig> rig_;
};

// One call of Watch.
class Watching {
  public:
    Watching(grpc::health::v1::Health::Stub& stub, const std::string& service) {
        context_.set_deadline(std::chrono::system_clock::now() + patience);
        HealthCheckRequest request;
        request.set_service(service);
        reader_ = stub.Watch(&context_, request);
    }
    // The next status; UNKNOWN: the call has ended.
    Status next() {
        HealthCheckResponse response;
        return reader_->Read(&response) ? response.status() : HealthCheckResponse::UNKNOWN;
    }
    void cancel() { context_.TryCancel(); }
    grpc::StatusCode end() {
        HealthCheckResponse response;
        while (reader_->Read(&response)) {
        }
        return reader_->Finish().error_code();
    }

  private:
    grpc::ClientContext context_;
    std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader_;
};

TEST_F(ControlHealth, WatcherSeesEachChangeAndTheEnd) {
    const auto alice = stub("alice");
    Watching server(*alice, ""), pool(*alice, "pool/pool"), none(*alice, "pool/none");
    EXPECT_EQ(server.next(), HealthCheckResponse::SERVING);
    EXPECT_EQ(pool.next(), HealthCheckResponse::SERVING);
    EXPECT_EQ(none.next(), HealthCheckResponse::SERVICE_UNKNOWN);
    for (const bool serving : {false, true, false}) {
        serve(serving);
        EXPECT_EQ(pool.next(),
                  serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
    }
    rig_->do_there([&] { rig_->server->drain(); });
    // No status of the server was sent meanwhile.
    EXPECT_EQ(server.next(), HealthCheckResponse::NOT_SERVING);
    for (Watching* each : {&server, &pool, &none}) EXPECT_EQ(each->end(), grpc::StatusCode::OK);
}

TEST_F(ControlHealth, WatcherMayCancelAtAnyTime) {
    const auto alice = stub("alice");
    Watching watching(*alice, "");
    EXPECT_EQ(watching.next(), HealthCheckResponse::SERVING);
    watching.cancel();
    EXPECT_EQ(watching.end(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(
        eventually(*rig_->client_reactor, [&] { return rig_->server->counters().cancelled == 1; }));
    // A watch delays the server's stop no longer than other calls do.
    Watching another(*alice, "");
    EXPECT_EQ(another.next(), HealthCheckResponse::SERVING);
    rig_->there([&] { return rig_->server->stop(0s); });
    (void)another.end();
}

// For a subject without a right, a pool is answered like one that does not exist.
TEST_F(ControlHealth, PoolIsVisibleOnlyWithRight) {
    const auto alice = stub("alice"), mallory = stub("mallory");
    Status status{};
    EXPECT_EQ(check(*alice, "pool/pool", status), grpc::StatusCode::OK);
    EXPECT_EQ(status, HealthCheckResponse::SERVING);
    EXPECT_EQ(check(*mallory, "", status), grpc::StatusCode::OK);
    EXPECT_EQ(status, HealthCheckResponse::SERVING);
    for (const char* service : {"pool/pool", "pool/none"}) {
        EXPECT_EQ(check(*mallory, service, status), grpc::StatusCode::NOT_FOUND) << service;
        Watching watching(*mallory, service);
        EXPECT_EQ(watching.next(), HealthCheckResponse::SERVICE_UNKNOWN) << service;
        watching.cancel();
        EXPECT_EQ(watching.end(), grpc::StatusCode::CANCELLED);
    }
}

}  // namespace
}  // namespace ros2s::control

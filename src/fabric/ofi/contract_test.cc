// libfabric keeps the fabric's contract: between two connections of one core, between two cores,
// and between two processes. Over tcp on the loopback interface, or over what the environment's
// ROS2STORE_TEST_OFI names: "ofi+verbs;ofi_rxm rxe0".
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "ofi.h"
#include "ros2s/fabric/contract/contract.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::fabric::ofi {
namespace {

Options tested() {
    const char* named = std::getenv("ROS2STORE_TEST_OFI");
    if (named == nullptr) return {.device = "lo"};
    const std::string text = named;
    const size_t space = text.find(' ');
    ROS2S_CHECK(space != std::string::npos);
    return {.provider = text.substr(0, space), .device = text.substr(space + 1)};
}

std::unique_ptr<OsReactor> make_reactor() {
    Report report;
    auto made = OsReactor::create({}, report);
    if (!made) std::fprintf(stderr, "%s\n", report.text().c_str());
    ROS2S_CHECK(made);
    return std::move(*made);
}

class OfiSetup final : public contract::Setup {
  public:
    explicit OfiSetup(bool two_cores) : client_(make_reactor()) {
        if (!two_cores) return;
        server_ = make_reactor();
        Report report;
        const auto started = server_->start(report);
        ROS2S_CHECK(started);
    }
    ~OfiSetup() override {
        if (!server_) return;
        server_->stop();
        server_->join();
    }
    Reactor& core(contract::Side side) override {
        return side == contract::Side::server && server_ ? *server_ : *client_;
    }
    void run(Task<> task) override { client_->run(std::move(task)); }
    Result<std::unique_ptr<Domain>> open_domain(contract::Side side, Report& report) override {
        return ofi::open_domain(core(side), tested(), report);
    }
    std::string address() override { return "127.0.0.1:0"; }
    // A port that is taken, so that nobody else comes to listen there, by one who does not listen.
    std::string address_of_nobody(const std::string&) override {
        taken_ = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof address;
        auto* generic = reinterpret_cast<sockaddr*>(&address);
        EXPECT_EQ(bind(taken_.get(), generic, length), 0);
        EXPECT_EQ(getsockname(taken_.get(), generic, &length), 0);
        return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    }
    Task<Result<>> connect_as_another(Domain&, std::string address, Report& report) override {
        ROS2S_CO_TRY_ASSIGN(Descriptor socket, co_await connect_to(*client_, address, {}, report));
        Hello hello;
        hello.set_provider("ucx+tcp");
        hello.seal();
        ROS2S_CO_TRY(co_await send_all(*client_, socket.get(), object_bytes(hello), {}));
        std::array<std::byte, sizeof hello> answer{};
        ROS2S_CO_TRY(co_await receive_all(*client_, socket.get(), answer, {}));
        co_return check_answer(Hello::decode(answer), address, "ucx+tcp", report);
    }

  private:
    Descriptor taken_;
    std::unique_ptr<OsReactor> client_;
    std::unique_ptr<OsReactor> server_;
};

ROS2S_FABRIC_CONTRACT(OfiOnOneCore, [] { return std::make_unique<OfiSetup>(false); });
ROS2S_FABRIC_CONTRACT(OfiOnTwoCores, [] { return std::make_unique<OfiSetup>(true); });
ROS2S_FABRIC_CONTRACT_TWO_PROCESSES(OfiInTwoProcesses,
                                    [] { return std::make_unique<OfiSetup>(false); });

}  // namespace
}  // namespace ros2s::fabric::ofi

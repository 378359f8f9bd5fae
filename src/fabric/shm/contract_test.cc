// Shared memory keeps the fabric's contract: between two connections of one core, between two
// cores, and between two processes.
#include <stdlib.h>
#include <unistd.h>

#include "ros2s/fabric/contract/contract.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::fabric {
namespace {

std::unique_ptr<OsReactor> make_reactor() {
    Report report;
    auto made = OsReactor::create({}, report);
    if (!made) std::fprintf(stderr, "%s\n", report.text().c_str());
    ROS2S_CHECK(made);
    return std::move(*made);
}

class ShmSetup final : public contract::Setup {
  public:
    explicit ShmSetup(bool two_cores) : client_(make_reactor()) {
        char name[] = "/tmp/ros2store-test-XXXXXX";
        directory_ = mkdtemp(name);
        if (!two_cores) return;
        server_ = make_reactor();
        Report report;
        const auto started = server_->start(report);
        ROS2S_CHECK(started);
    }
    ~ShmSetup() override {
        if (server_) {
            server_->stop();
            server_->join();
        }
        rmdir(directory_.c_str());
    }
    Reactor& core(contract::Side side) override {
        return side == contract::Side::server && server_ ? *server_ : *client_;
    }
    void run(Task<> task) override { client_->run(std::move(task)); }
    Result<std::unique_ptr<Domain>> open_domain(contract::Side side, Report&) override {
        return shm::open_domain(core(side));
    }
    std::string address() override { return directory_ + "/fabric"; }
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
    std::string directory_;
    std::unique_ptr<OsReactor> client_;
    std::unique_ptr<OsReactor> server_;
};

ROS2S_FABRIC_CONTRACT(ShmOnOneCore, [] { return std::make_unique<ShmSetup>(false); });
ROS2S_FABRIC_CONTRACT(ShmOnTwoCores, [] { return std::make_unique<ShmSetup>(true); });
ROS2S_FABRIC_CONTRACT_TWO_PROCESSES(ShmInTwoProcesses,
                                    [] { return std::make_unique<ShmSetup>(false); });

}  // namespace
}  // namespace ros2s::fabric

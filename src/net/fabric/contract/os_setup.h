// OsSetup: the contract's set-up for providers of real processes. It uses one reactor or two, and
// listens on the loopback interface by default.
#pragma once
#include "ros2s/fabric/contract/contract.h"
#include "ros2s/fabric/contract/stage.h"
#include "ros2s/fabric/socket/socket.h"

namespace ros2s::fabric::contract {

class OsSetup : public Setup {
  public:
    // `another`: the name of a provider other than `open`'s.
    OsSetup(OpenDomain open, bool two_cores, std::string another);
    ~OsSetup() override;
    Reactor& core(Side side) override {
        return side == Side::server && server_ ? *server_ : *client_;
    }
    void run(Task<> task) override { client_->run(std::move(task)); }
    Result<std::unique_ptr<Domain>> open_domain(Side side, Report& report) override {
        return open_(core(side), report);
    }
    std::string address() override { return "127.0.0.1:0"; }
    // A port that is bound but does not listen, so that no other program can listen there.
    std::string unused_address(const std::string& address) override;
    Task<Result<>> connect_as_another(Domain& client, std::string address, Report& report) override;

  private:
    const OpenDomain open_;
    const std::string another_;
    Descriptor taken_;
    std::unique_ptr<OsReactor> client_;
    std::unique_ptr<OsReactor> server_;
};

}  // namespace ros2s::fabric::contract

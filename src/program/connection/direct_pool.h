// DirectPool: a pool of a ros2store-engine, for a trusted host. It has a session over the control
// plane, a channel over a provider that the engine offers, and the verifying client on top.
//
//     VerifyingStore → RemoteStore → rpc::Channel → fabric ─── ros2store-engine
//
// A lost connection is opened again automatically. If the engine was restarted, a new session is
// opened, and requests in progress are sent again with their update names.
//
// Owned by its opener; used on the environment's core; close() before destruction. Fork rule: a
// forked child must not use it, nor destroy it.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/connection/connection.h"
#include "ros2s/object/object_store.h"
#include "ros2s/rpc/channel.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stack.h"

namespace ros2s::client {
class VerifyingStore;
}
namespace ros2s::remote {
class RemoteStore;
}

namespace ros2s::connection {

class DirectPool {
  public:
    // Chooses purpose and service. Errors, with a sentence: those of control::ControlClient,
    // not_found (no such pool), unsupported (no common provider; this machine lacks it), those of
    // rpc::Channel::open().
    [[nodiscard]] static Task<Result<std::unique_ptr<DirectPool>>> open(Reactor& reactor,
                                                                        Options options, Log log,
                                                                        Report& report);
    Task<Result<>> close() { return stack_.close(); }

    [[nodiscard]] object::ObjectStore& store();
    // "ucx+tcp to 127.0.0.1:7401, engine, io_uring, O_DIRECT, 1 device".
    [[nodiscard]] std::string path() const;
    // The same without the engine's address, for hosts: "ucx+tcp to its engine, …".
    [[nodiscard]] std::string path_without_address() const;
    // The provider of the connection to the engine: "ucx+tcp".
    [[nodiscard]] std::string provider() const;
    // Set while the engine cannot be reached.
    [[nodiscard]] const std::optional<rpc::Absence>& absence() const;
    // The holder has another capability, or will have none: as rpc::Channel.
    void try_again() noexcept;
    void expect_no_reconnect() noexcept;
    // Shows the holder's present capability. Errors: those of control::SessionTickets::show().
    Task<Result<>> show_capability(Report& report);
    void visit_metrics(const MetricVisitor& visit) const { stack_.visit_metrics(visit); }
    [[nodiscard]] std::string layers() const { return stack_.names(); }

  private:
    DirectPool() = default;
    Task<Result<>> begin(Reactor& reactor, Options options, Log log, Report& report);

    Stack stack_;
    Connection* connection_ = nullptr;
    rpc::Channel* channel_ = nullptr;
    remote::RemoteStore* remote_ = nullptr;
    client::VerifyingStore* client_ = nullptr;
};

}  // namespace ros2s::connection

// SocketDomain: the part of a Domain that is the same for all providers whose connections begin
// with a socket: addresses, listening, and how long a connection may take to be set up.
#pragma once
#include <memory>
#include <string>

#include "ros2s/fabric/domain.h"
#include "ros2s/fabric/socket/socket_listener.h"

namespace ros2s::fabric {

class SocketDomain : public Domain, private Handshakes {
  public:
    enum class Addresses { network, unix_socket };

    const std::string& provider() const noexcept final { return provider_; }
    uint64_t id() const noexcept final { return id_; }
    Counters& counters() noexcept final { return counters_; }
    Task<Result<std::unique_ptr<Listener>>> listen(std::string address, ListenOptions options,
                                                   Report& report) final;
    Task<Result<std::unique_ptr<Endpoint>>> connect(std::string address, ConnectOptions options,
                                                    Report& report) final;

  protected:
    SocketDomain(Reactor& reactor, std::string provider, Addresses addresses);
    // Connects, and sets up the session. Errors: those of connect(), or cancelled.
    virtual Task<Result<std::unique_ptr<Endpoint>>> handshake(std::string address,
                                                              const ConnectOptions& options,
                                                              StopToken stop, Report& report) = 0;

    Reactor& reactor_;
    const uint64_t id_;
    Counters counters_;

  private:
    [[nodiscard]] Result<> check_address(const std::string& address, Report& report) const;

    const std::string provider_;
    const Addresses addresses_;
};

}  // namespace ros2s::fabric

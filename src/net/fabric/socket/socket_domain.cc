#include "ros2s/fabric/socket/socket_domain.h"

#include <utility>

#include "ros2s/base/random.h"
#include "ros2s/fabric/deadline.h"

namespace ros2s::fabric {

SocketDomain::SocketDomain(Reactor& reactor, std::string provider, Addresses addresses)
    : reactor_(reactor),
      id_(reactor.secrets().next()),
      provider_(std::move(provider)),
      addresses_(addresses) {}

Result<> SocketDomain::check_address(const std::string& address, Report& report) const {
    const bool wants_unix = addresses_ == Addresses::unix_socket;
    if (!address.empty() && is_unix_address(address) == wants_unix) return {};
    return report.fail(Code::invalid,
                       "'" + address + "' is not an address for provider " + provider_ +
                           (wants_unix ? ": give the path of a socket with a slash in it, or @NAME"
                                       : ": give IP:PORT or [IPv6]:PORT"));
}

Task<Result<std::unique_ptr<Listener>>> SocketDomain::listen(std::string address,
                                                             ListenOptions options,
                                                             Report& report) {
    ROS2S_CO_TRY(check_address(address, report));
    ROS2S_CO_TRY_ASSIGN(Descriptor socket, co_await listen_when_free(reactor_, address, report));
    Handshakes& self = *this;
    co_return std::make_unique<SocketListener>(reactor_, counters_, self, std::move(socket),
                                               std::move(address), options);
}

Task<Result<std::unique_ptr<Endpoint>>> SocketDomain::connect(std::string address,
                                                              ConnectOptions options,
                                                              Report& report) {
    ROS2S_CO_TRY(check_address(address, report));
    Deadline deadline(reactor_, reactor_.now() + options.within, options.stop);
    auto made = co_await handshake(address, options, deadline.token(), report);
    if (!made && made.error().code == Code::cancelled) {
        made = deadline.error();
        if (deadline.passed() && report.empty()) {
            report.say(address +
                       " does not answer: is the server hung, or at its limit of open files?");
        }
    }
    if (!made && report.empty()) {
        report.say("the connection to " + address +
                   " was lost while it was being set up: " + describe(made.error()));
    }
    co_await deadline.finish();
    co_return made;
}

}  // namespace ros2s::fabric

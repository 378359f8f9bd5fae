#include "ros2s/rpc/server.h"

#include <algorithm>

#include "server_connection.h"

namespace ros2s::rpc {

Server::Server(Reactor& reactor, fabric::Domain& domain, Service& service, Gate& gate,
               ServerOptions options)
    : reactor_(reactor),
      service_(service),
      gate_(gate),
      options_(options),
      incarnation_(reactor.random().next()),
      memory_(reactor, options.memory_bytes, metrics_.memory_bytes),
      left_(reactor),
      accepting_(reactor, 1),
      attending_(reactor, std::min<size_t>(options.connections_max, domain.endpoints_max())) {}

Server::~Server() { ROS2S_CHECK(closed_); }

Task<Result<std::unique_ptr<Server>>> Server::listen(Reactor& reactor, fabric::Domain& domain,
                                                     std::string address, Service& service,
                                                     Gate& gate, ServerOptions options,
                                                     Report& report) {
    ROS2S_CO_TRY_ASSIGN(
        auto listener,
        co_await domain.listen(std::move(address), {.limits = options.limits()}, report));
    std::unique_ptr<Server> server(new Server(reactor, domain, service, gate, options));
    server->listener_ = std::move(listener);
    co_await server->accepting_.spawn(accept(*server));
    co_return server;
}

Task<> Server::accept(Server& self) {
    while (true) {
        auto accepted = co_await self.listener_->accept(self.closing_.token());
        if (!accepted) co_return;
        fabric::Endpoint& endpoint = **accepted;
        if (self.attending_.running() == self.attending_.limit()) {
            self.metrics_.refused_busy.add();
            endpoint.abandon();
            co_await endpoint.close();
            continue;
        }
        self.make_room();
        co_await self.attending_.spawn(attend(self, std::move(*accepted)));
    }
}

void Server::make_room() {
    if (attending_.running() + options_.places_for_guests < attending_.limit()) return;
    const auto is_new = [](const ServerConnection* each) { return each->is_new(); };
    const auto oldest = std::ranges::find_if(all_, is_new);
    if (oldest != all_.end()) (*oldest)->make_room();
}

Task<> Server::attend(Server& self, std::unique_ptr<fabric::Endpoint> endpoint) {
    ServerConnection connection(self, std::move(endpoint), ++self.last_connection_);
    self.all_.push_back(&connection);
    self.metrics_.connections.add();
    co_await connection.run(self.closing_.token());
    self.metrics_.connections.subtract();
    std::erase(self.all_, &connection);
    self.left_.wake_all();
}

Task<> Server::end_session(uint64_t session) {
    const auto of_session = [session](const ServerConnection* each) {
        return each->guest() && each->guest()->session == session;
    };
    for (ServerConnection* each : all_) {
        if (of_session(each)) each->abandon();
    }
    while (std::ranges::any_of(all_, of_session)) co_await left_;
}

void Server::abandon() {
    for (ServerConnection* each : all_) each->abandon();
}

Task<> Server::close() {
    closing_.request_stop();
    co_await accepting_.join();
    co_await attending_.join();
    if (!closed_) co_await listener_->close();
    closed_ = true;
}

}  // namespace ros2s::rpc

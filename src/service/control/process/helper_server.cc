#include "ros2s/control/process/helper_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <vector>

#include "ros2s/fabric/socket/socket.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/ring.h"
#include "wire.h"

namespace ros2s::control {
namespace {

constexpr size_t calls_max = 256;
// Connections to servers that are kept for the next child.
constexpr size_t clients_max = 16;

class HelperServer {
  public:
    explicit HelperServer(Reactor& reactor) : reactor_(reactor), calls_(reactor, calls_max) {}
    Task<> serve(int socket);

  private:
    using Client = std::shared_ptr<ControlClient>;

    static Task<> answer(HelperServer& self, fabric::Descriptor socket, HelperRequest request);
    static Task<> watch(Reactor& reactor, int socket, StopToken stop, StopSource& gone);
    Task<Result<>> perform(const Call& call, HelperRequest request, HelperReply& reply,
                           Report& report);
    // Processes that reach the same server as the same identity share one connection.
    Result<Client> client_for(const ClientOptions& server, Report& report);

    Reactor& reactor_;
    std::map<std::string, Client> clients_;
    Nursery calls_;
};

// The kernel names the process that made the socket.
bool is_of_this_user(int socket) {
    ucred peer{};
    socklen_t bytes = sizeof peer;
    return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
           peer.uid == ::geteuid() && peer.gid == ::getegid();
}

Task<> HelperServer::serve(int socket) {
    std::vector<std::byte> memory(helper_message_max);
    while (co_await reactor_.ring()->poll(socket, POLLIN)) {
        std::vector<fabric::Descriptor> descriptors;
        const ssize_t got = fabric::receive_message(socket, memory, descriptors, 1);
        if (got == 0) break;
        if (got < 0 && errno != EAGAIN && errno != EINTR && errno != EMFILE) break;
        HelperRequest request;
        if (got < 0 || descriptors.size() != 1 || !is_of_this_user(descriptors[0].get()) ||
            !rpc::read(Bytes(memory).first(static_cast<size_t>(got)), helper_request_fields,
                       request)) {
            continue;
        }
        co_await calls_.spawn(answer(*this, std::move(descriptors[0]), std::move(request)));
    }
    co_await calls_.join();
}

Task<> HelperServer::watch(Reactor& reactor, int socket, StopToken stop, StopSource& gone) {
    if (co_await reactor.ring()->poll(socket, POLLRDHUP, stop)) gone.request_stop();
}

Task<> HelperServer::answer(HelperServer& self, fabric::Descriptor socket, HelperRequest request) {
    StopSource gone, done;
    Nursery watching(self.reactor_, 1);
    co_await watching.spawn(watch(self.reactor_, socket.get(), done.token(), gone));
    Call call{.stop = gone.token()};
    if (request.left_ns != no_time_limit) {
        constexpr auto most = static_cast<uint64_t>(Duration(std::chrono::hours(1)).count());
        call.deadline = self.reactor_.now() + Duration(std::min(request.left_ns, most));
    }
    HelperReply reply;
    Report report;
    reply.status = co_await self.perform(call, std::move(request), reply, report);
    reply.text = report.text().substr(0, helper_text_max);
    done.request_stop();
    co_await watching.join();
    const std::string sent = written(helper_reply_fields, reply);
    (void)::send(socket.get(), sent.data(), sent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

Result<HelperServer::Client> HelperServer::client_for(const ClientOptions& server, Report& report) {
    const std::string key = written(helper_server_fields, server);
    if (const auto found = clients_.find(key); found != clients_.end()) return found->second;
    if (clients_.size() >= clients_max) {
        std::erase_if(clients_, [](const auto& each) { return each.second.use_count() == 1; });
    }
    ROS2S_TRY_ASSIGN(Client made, ControlClient::create(reactor_, server, report));
    clients_.emplace(key, made);
    return made;
}

Task<Result<>> HelperServer::perform(const Call& call, HelperRequest request, HelperReply& reply,
                                     Report& report) {
    ROS2S_CO_TRY_ASSIGN(const Client client, client_for(request.server, report));
    switch (request.what) {
        case HelperCall::open_session: {
            ROS2S_CO_TRY_ASSIGN(reply.session,
                                co_await client->open_session(call, request.wanted, report));
            break;
        }
        case HelperCall::keep_alive: {
            ROS2S_CO_TRY_ASSIGN(reply.session.idle_max,
                                co_await client->keep_alive(call, request.session, report));
            break;
        }
        case HelperCall::issue_ticket: {
            ROS2S_CO_TRY_ASSIGN(reply.session.ticket,
                                co_await client->issue_ticket(call, request.session, report));
            break;
        }
        case HelperCall::close_session:
            co_return co_await client->close_session(call, request.session, report);
        case HelperCall::delegate: {
            ROS2S_CO_TRY_ASSIGN(const auto after,
                                co_await client->delegate(call, std::move(request.wanted.pool),
                                                          std::move(request.use), report));
            if (after) reply.delegate_after = *after;
            break;
        }
        case HelperCall::mount: {
            ROS2S_CO_TRY_ASSIGN(reply.mount, co_await client->mount(call, request.session,
                                                                    std::move(request.container),
                                                                    request.how, report));
            break;
        }
        case HelperCall::unmount:
            co_return co_await client->unmount(call, request.session, request.mount, report);
    }
    co_return Result<>{};
}

}  // namespace

Task<> serve_as_helper(Reactor& reactor, int socket) {
    HelperServer server(reactor);
    co_await server.serve(socket);
}

}  // namespace ros2s::control

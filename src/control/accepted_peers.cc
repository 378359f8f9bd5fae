#include "accepted_peers.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <grpcpp/impl/server_builder_option.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "audit.h"

// gRPC 1.51 has socket mutators behind its public headers, though it exports them and takes one as
// a public channel argument. These are its types, as far as they are used.
// NOLINTBEGIN(readability-identifier-naming)
enum grpc_fd_usage : int { server_connection = 2 };
struct grpc_mutate_socket_info {
    int fd;
    grpc_fd_usage usage;
};
struct grpc_socket_mutator_vtable {
    bool (*mutate_fd)(int fd, grpc_socket_mutator* mutator);
    int (*compare)(grpc_socket_mutator* one, grpc_socket_mutator* other);
    void (*destroy)(grpc_socket_mutator* mutator);
    bool (*mutate_fd_2)(const grpc_mutate_socket_info* info, grpc_socket_mutator* mutator);
};
struct grpc_socket_mutator {
    const grpc_socket_mutator_vtable* vtable;
    intptr_t references;
};
void grpc_socket_mutator_init(grpc_socket_mutator* mutator,
                              const grpc_socket_mutator_vtable* vtable);
// NOLINTEND(readability-identifier-naming)

namespace ros2s::control {
namespace {

// From the accepting of a connection to the making of its TLS state.
thread_local std::string accepted;

std::string address_of(int fd) {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
    char text[INET6_ADDRSTRLEN] = {};
    if (storage.ss_family == AF_INET) {
        const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
        ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
        return fmt::format("{}:{}", text, ntohs(v4.sin_port));
    }
    if (storage.ss_family == AF_INET6) {
        const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
        if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
            ::inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof text);
            return fmt::format("{}:{}", text, ntohs(v6.sin6_port));
        }
        ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
        return fmt::format("[{}]:{}", text, ntohs(v6.sin6_port));
    }
    ucred who{};
    size = sizeof who;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return {};
    return fmt::format("a Unix socket, process {} of user {}", who.pid, who.uid);
}

bool see(const grpc_mutate_socket_info* info, grpc_socket_mutator*) {
    if (info->usage == server_connection) accepted = address_of(info->fd);
    return true;
}

const grpc_socket_mutator_vtable watching{
    .mutate_fd = [](int, grpc_socket_mutator*) { return true; },
    .compare = [](grpc_socket_mutator* one,
                  grpc_socket_mutator* other) { return one < other   ? -1
                                                       : one > other ? 1
                                                                     : 0; },
    .destroy = [](grpc_socket_mutator* mutator) { delete mutator; },
    .mutate_fd_2 = see};

void made(void*, void*, CRYPTO_EX_DATA* data, int index, long, void*) {
    if (accepted.empty()) return;
    CRYPTO_set_ex_data(data, index, new std::string(std::exchange(accepted, {})));
}
void gone(void* ssl, void* value, CRYPTO_EX_DATA*, int, long, void*) {
    const std::unique_ptr<std::string> address(static_cast<std::string*>(value));
    if (address == nullptr) return;
    Audit::connection_ended(*address, SSL_is_init_finished(static_cast<SSL*>(ssl)) == 1);
}

class Watched final : public grpc::ServerBuilderOption {
  public:
    void UpdateArguments(grpc::ChannelArguments* arguments) override {
        auto* const mutator = new grpc_socket_mutator{};
        grpc_socket_mutator_init(mutator, &watching);
        [[maybe_unused]] static const int index =
            SSL_get_ex_new_index(0, nullptr, made, nullptr, gone);
        arguments->SetSocketMutator(mutator);  // takes it
    }
    void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*) override {}
};

}  // namespace

void see_connections(grpc::ServerBuilder& builder) {
    builder.SetOption(std::make_unique<Watched>());
}

}  // namespace ros2s::control

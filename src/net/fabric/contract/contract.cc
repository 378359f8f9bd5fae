#include "contract.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <vector>

#include "cases.h"

namespace ros2s::fabric::contract {
namespace {

Task<> open_server(Server& server, const Case& each) {
    Report report;
    auto domain = server.setup.open_domain(Side::server, report);
    EXPECT_TRUE(domain) << report.text();
    if (!domain) co_return;
    server.domain = std::move(*domain);
    auto listener = co_await server.domain->listen(server.setup.address(),
                                                   {.limits = each.server_limits,
                                                    .peer_check = &server.peer_check,
                                                    .handshake_within = patience},
                                                   report);
    EXPECT_TRUE(listener) << report.text();
    if (listener) server.listener = std::move(*listener);
}

Task<> close_server(Server& server) {
    if (server.endpoint) co_await server.endpoint->close();
    server.endpoint.reset();
    if (server.listener) co_await server.listener->close();
    server.listener.reset();
    if (server.domain) co_await server.domain->close();
    server.domain.reset();
}

Task<> serve(Server& server, const Case& each) {
    if (each.connected) {
        server.endpoint = co_await accept(server);
        if (server.endpoint == nullptr) co_return;
    }
    co_await each.server(server);
}

Task<> run_client(Client& client, const Case& each) {
    Report report;
    auto domain = client.setup.open_domain(Side::client, report);
    EXPECT_TRUE(domain) << report.text();
    if (!domain) co_return;
    client.domain = std::move(*domain);
    if (each.connected) {
        auto connected = co_await client.domain->connect(
            client.address, {.limits = each.client_limits, .within = patience}, report);
        EXPECT_TRUE(connected) << report.text();
        if (connected) client.endpoint = std::move(*connected);
    }
    if (!each.connected || client.endpoint != nullptr) co_await each.client(client);
    if (client.endpoint) co_await client.endpoint->close();
    client.endpoint.reset();
    co_await client.domain->close();
    client.domain.reset();
}

Task<> run_both(Setup& setup, const Case& each) {
    Reactor& home = setup.core(Side::client);
    Reactor& away = setup.core(Side::server);
    Server server{.setup = setup, .core = away};
    co_await on(away, home, open_server(server, each));
    if (server.listener != nullptr) {
        Client client{.setup = setup, .core = home, .address = server.listener->address()};
        Nursery nursery(home, 2);
        co_await nursery.spawn(on(away, home, serve(server, each)));
        co_await nursery.spawn(run_client(client, each));
        co_await nursery.join();
    }
    co_await on(away, home, close_server(server));
}

// The server's half in this process. Sends its address to the client's half.
Task<> run_server_alone(Setup& setup, const Case& each, int pipe) {
    Server server{.setup = setup, .core = setup.core(Side::client)};
    co_await open_server(server, each);
    if (server.listener != nullptr) {
        const std::string& address = server.listener->address();
        EXPECT_EQ(write(pipe, address.data(), address.size()),
                  static_cast<ssize_t>(address.size()));
        close(pipe);
        co_await serve(server, each);
    }
    co_await close_server(server);
}

class ContractTest : public testing::Test {
  public:
    ContractTest(const Case& contract_case, const Factory& factory, bool fork_client)
        : case_(contract_case), factory_(factory), fork_client_(fork_client) {}

    void TestBody() override {
        if (fork_client_) return run_forked();
        const std::unique_ptr<contract::Setup> setup = factory_();
        ASSERT_NE(setup, nullptr);
        setup->run(run_both(*setup, case_));
    }

  private:
    void run_forked() {
        std::array<int, 2> pipe{};
        ASSERT_EQ(::pipe(pipe.data()), 0);
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            close(pipe[1]);
            client_process(pipe[0]);
            _exit(HasFailure() ? 1 : 0);
        }
        close(pipe[0]);
        const std::unique_ptr<contract::Setup> setup = factory_();
        ASSERT_NE(setup, nullptr);
        setup->run(run_server_alone(*setup, case_, pipe[1]));
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "in the client's process";
    }
    void client_process(int pipe) {
        std::array<char, 256> address{};
        size_t length = 0;
        while (length < address.size()) {
            const ssize_t got = read(pipe, address.data() + length, address.size() - length);
            if (got <= 0) break;
            length += static_cast<size_t>(got);
        }
        const std::unique_ptr<contract::Setup> setup = factory_();
        Client client{.setup = *setup,
                      .core = setup->core(Side::client),
                      .address = std::string(address.data(), length)};
        setup->run(run_client(client, case_));
    }

    Case case_;
    Factory factory_;
    bool fork_client_;
};

}  // namespace

bool register_contract(const std::string& name, const Factory& factory, bool fork_client) {
    for (const auto& cases :
         {connection_cases(), message_cases(), transfer_cases(), refusal_cases(), death_cases()}) {
        for (const Case& each : cases) {
            testing::RegisterTest(name.c_str(), each.name, nullptr, nullptr, __FILE__, __LINE__,
                                  [each, factory, fork_client]() -> testing::Test* {
                                      return new ContractTest(each, factory, fork_client);
                                  });
        }
    }
    return true;
}

Task<Result<std::unique_ptr<Endpoint>>> connect(Client& client, Limits limits) {
    Report report;
    auto connected = co_await client.domain->connect(
        client.address, {.limits = limits, .within = patience}, report);
    EXPECT_TRUE(connected) << report.text();
    co_return connected;
}

Task<std::unique_ptr<Endpoint>> accept(Server& server) {
    auto accepted = co_await server.listener->accept();
    EXPECT_TRUE(accepted) << describe(accepted.error());
    if (!accepted) co_return nullptr;
    co_return std::move(*accepted);
}

namespace {
// Without sanitizers, which took most of a suite's time here.
[[clang::no_sanitize("address", "undefined", "thread")]] void stamp_into(uint8_t* bytes,
                                                                         size_t count,
                                                                         uint64_t stamp,
                                                                         uint64_t first) {
    for (size_t at = 0; at < count; ++at) {
        const uint64_t place = first + at;
        bytes[at] = static_cast<uint8_t>(place * 31 ^ place >> 8 ^ stamp * 97);
    }
}
}  // namespace

void fill(Bytes bytes, uint64_t stamp, uint64_t first) {
    std::vector<uint8_t> content(bytes.size());
    stamp_into(content.data(), content.size(), stamp, first);
    if (!content.empty()) std::memcpy(bytes.data(), content.data(), content.size());
}

bool holds(ConstBytes bytes, uint64_t stamp, uint64_t first) {
    std::vector<uint8_t> expected(bytes.size());
    stamp_into(expected.data(), expected.size(), stamp, first);
    return bytes.empty() || std::memcmp(bytes.data(), expected.data(), expected.size()) == 0;
}

Task<> say(Endpoint& endpoint, std::string text) {
    const auto sent = co_await endpoint.send(as_bytes(text));
    EXPECT_TRUE(sent) << text << ": " << describe(sent.error());
}

Task<std::string> hear(Endpoint& endpoint) {
    auto message = co_await endpoint.receive();
    EXPECT_TRUE(message) << describe(message.error()) << ", " << describe(endpoint.ended());
    if (!message) co_return "";
    co_return std::string(as_text(message->bytes()));
}

Task<> expect_to_hear(Endpoint& endpoint, std::string text) {
    EXPECT_EQ(co_await hear(endpoint), text);
}

Task<> send_key(Endpoint& endpoint, RemoteKey key) {
    const auto sent = co_await endpoint.send(object_bytes(key));
    EXPECT_TRUE(sent) << describe(sent.error());
}

Task<RemoteKey> receive_key(Endpoint& endpoint) {
    auto message = co_await endpoint.receive();
    EXPECT_TRUE(message) << describe(message.error());
    if (!message) co_return RemoteKey{};
    const auto key = RemoteKey::decode(message->bytes());
    EXPECT_TRUE(key);
    co_return key.value_or(RemoteKey{});
}

Task<uint64_t> refused_by_both(Endpoint& endpoint, Counters& counters, Refusal refusal) {
    const uint64_t own = std::as_const(counters).of(refusal);
    if (!endpoint.initiates()) {
        const auto sent = co_await endpoint.send(object_bytes(own));
        EXPECT_TRUE(sent) << describe(sent.error());
        co_return 0;
    }
    auto message = co_await endpoint.receive();
    EXPECT_TRUE(message && message->bytes().size() == sizeof own);
    if (!message || message->bytes().size() != sizeof own) co_return own;
    uint64_t theirs = 0;
    std::memcpy(&theirs, message->bytes().data(), sizeof theirs);
    co_return own + theirs;
}

}  // namespace ros2s::fabric::contract

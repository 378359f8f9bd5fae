// Attacks on the ports: other protocols, half-open connections, invalid greetings.
#include <netinet/in.h>
#include <sys/socket.h>

#include "test_support/attack.h"

namespace ros2s::fabric::ucx {
namespace {

// Ports on which this process listens, besides `except`: UCX's own.
std::vector<std::string> other_ports(const std::string& except) {
    std::vector<std::string> found;
    for (int fd = 0; fd < 4096; ++fd) {
        int listens = 0;
        socklen_t length = sizeof listens;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) {
            continue;
        }
        sockaddr_in address{};
        length = sizeof address;
        if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
            address.sin_family != AF_INET) {
            continue;
        }
        const std::string each = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
        if (each != except) found.push_back(each);
    }
    return found;
}

const std::string http = "GET / HTTP/1.1\r\nHost: engine\r\n\r\n" + std::string(200, 'x');

Task<> half_open(Stage& stage) {
    constexpr int thousand = 1000;
    std::vector<Descriptor> silent;
    Report report;
    for (int i = 0; i < thousand; ++i) {
        auto socket = co_await connect_to(stage.core(), stage.address(), {}, report);
        EXPECT_TRUE(socket) << report.text();
        if (!socket) co_return;
        if (i % 3 == 0) {
            (void)::send(socket->get(), http.data(), http.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        }
        silent.push_back(std::move(*socket));
    }
    co_await stage.bystander_is_served();
    co_await stage.another_connects();
    EXPECT_GE(stage.server->counters().handshakes_refused.value(), 900U);
}
TEST(UcxSetUp, HalfOpenConnectionsLeaveOthersServed) { Stage().run(half_open); }

// The same at the ports on which UCX listens.
Task<> half_open_at_ucx(Stage& stage) {
    const std::vector<std::string> ports = other_ports(stage.address());
    EXPECT_GE(ports.size(), 2U);  // the server's and the honest client's
    std::vector<Descriptor> silent;
    Report report;
    for (int i = 0; i < 300; ++i) {
        const std::string& port = ports[static_cast<size_t>(i) % ports.size()];
        auto socket = co_await connect_to(stage.core(), port, {}, report);
        EXPECT_TRUE(socket) << report.text();
        if (!socket) co_return;
        if (i % 3 != 0) {
            (void)::send(socket->get(), http.data(), http.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        }
        silent.push_back(std::move(*socket));
        // Some hang up at once.
        if (i % 5 == 0) silent.pop_back();
    }
    co_await stage.bystander_is_served();
    co_await stage.another_connects();
}
TEST(UcxSetUp, HalfOpenUcxConnectionsLeaveOthersServed) { Stage().run(half_open_at_ucx); }

Task<> other_protocols(Stage& stage) {
    RawUcx raw;
    const std::vector<std::byte> good = encode_greeting(7, raw.address());
    const auto changed = [&](size_t at) {
        std::vector<std::byte> bytes = good;
        bytes[at] ^= std::byte{1};
        return bytes;
    };
    std::vector<std::vector<std::byte>> greetings{
        {},                                             // none
        std::vector<std::byte>(sizeof(Greeting) - 1),   // not even its head
        std::vector<std::byte>(sizeof(Greeting)),       // no address
        std::vector<std::byte>(sizeof(Greeting) + 64),  // zeros
        changed(8),                                     // its length
        changed(12),                                    // its CRC
        changed(good.size() - 1),                       // damage at its end
        std::vector<std::byte>(sizeof(Greeting) + Greeting::address_bytes_max + 1),
    };
    const size_t count = greetings.size();
    for (auto& greeting : greetings) {
        Attacker attacker{.ucx = raw};
        EXPECT_FALSE(co_await say_hello(stage, attacker, std::move(greeting)));
        co_await attacker.finish(stage);
    }
    const Time soon = stage.core().now() + std::chrono::seconds(30);
    while (stage.server->counters().handshakes_refused.value() < count &&
           stage.core().now() < soon) {
        co_await yield(stage.core());
    }
    EXPECT_EQ(stage.server->counters().handshakes_refused.value(), count);
    // A peer that sends a valid hello and then nothing gets no endpoint.
    {
        Attacker attacker{.ucx = raw};
        EXPECT_TRUE(co_await say_hello(stage, attacker, encode_greeting(7, raw.address())));
        co_await stage.another_connects();
        const Time until = stage.core().now() + std::chrono::seconds(30);
        while (stage.server->counters().handshakes_refused.value() == count &&
               stage.core().now() < until) {
            co_await attacker.look(stage);
        }
        EXPECT_EQ(stage.server->counters().handshakes_refused.value(), count + 1);
        co_await attacker.finish(stage);
    }
}
TEST(UcxSetUp, MalformedGreetingIsRefused) {
    Stage({.limits = {.reply_bytes = 256}, .handshake_within = std::chrono::milliseconds(500)})
        .run(other_protocols);
}

// For the connecting side: another program listens there, or there is no answer.
Task<> somebody_else_listens(Stage& stage) {
    Report report;
    std::string address = "127.0.0.1:0";
    auto listening = listen_on(address, report);
    EXPECT_TRUE(listening) << report.text();
    if (!listening) co_return;
    const auto silent =
        co_await stage.honest->connect(address, {.within = std::chrono::milliseconds(200)}, report);
    EXPECT_EQ(silent.error().code, Code::deadline);
    EXPECT_NE(report.text().find("does not answer"), std::string::npos) << report.text();
    // UCX's own port, which speaks UCX.
    for (const std::string& port : other_ports(stage.address())) {
        if (port == address) continue;
        const auto refused = co_await stage.honest->connect(
            port, {.within = std::chrono::milliseconds(200)}, report);
        EXPECT_FALSE(refused);
    }
    for (const std::string path : {"/run/ros2store/fabric", "@fabric", ""}) {
        EXPECT_EQ((co_await stage.honest->connect(path, {}, report)).error().code, Code::invalid);
        EXPECT_EQ((co_await stage.honest->listen(path, {}, report)).error().code, Code::invalid);
    }
}
TEST(UcxSetUp, SilentOrForeignListenerIsReported) { Stage().run(somebody_else_listens); }

}  // namespace
}  // namespace ros2s::fabric::ucx

#include "stage.h"

#include <gtest/gtest.h>

#include "ros2s/fabric/socket/socket_listener.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::fabric::contract {

Stage::Stage(OpenDomain open, ListenOptions listening, std::string address,
             ConnectOptions connecting)
    : open_(std::move(open)),
      listening_(listening),
      address_(std::move(address)),
      connecting_(std::move(connecting)),
      reactor_(made_reactor()) {}

Task<> Stage::perform(std::function<Task<>()> test) {
    Report report;
    auto opened = open_(*reactor_, report);
    auto opened_too = open_(*reactor_, report);
    EXPECT_TRUE(opened && opened_too) << report.text();
    if (!opened || !opened_too) co_return;
    server = std::move(*opened);
    honest = std::move(*opened_too);
    auto listening = co_await server->listen(address_, listening_, report);
    EXPECT_TRUE(listening) << report.text();
    if (listening) {
        listener = std::move(*listening);
        auto connected = co_await honest->connect(address(), connecting_, report);
        EXPECT_TRUE(connected) << report.text();
        if (connected) {
            bystander = std::move(*connected);
            auto accepted = co_await listener->accept();
            EXPECT_TRUE(accepted);
            bystander_server = std::move(*accepted);
            co_await test();
            co_await bystander_is_served();
            co_await bystander->close();
            co_await bystander_server->close();
            bystander.reset();
            bystander_server.reset();
        }
        co_await listener->close();
    }
    co_await server->close();
    co_await honest->close();
}

Task<> Stage::bystander_is_served() {
    auto memory = bystander->allocate(8192);
    EXPECT_TRUE(memory);
    if (!memory) co_return;
    auto region = bystander->grant(*memory, Rights::write);
    EXPECT_TRUE(region);
    if (!region) co_return;
    for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(co_await bystander->send(object_bytes(region->key())));
        auto request = co_await bystander_server->receive();
        EXPECT_TRUE(request) << describe(request.error());
        if (!request) break;
        AlignedBuffer buffer(8192);
        std::memset(buffer.data(), i, buffer.size());
        const auto put = co_await bystander_server->put(region->key(), 0, buffer.bytes());
        EXPECT_TRUE(put) << describe(put.error());
        EXPECT_TRUE(bystander_server->reply(*request, as_bytes("done")));
        auto answer = co_await bystander->receive();
        EXPECT_TRUE(answer);
        EXPECT_EQ((*memory)[8191], static_cast<std::byte>(i));
    }
    co_await region->revoke();
    bystander->free(*memory);
}

Task<> Stage::another_connects() {
    Report report;
    const Time until = core().now() + std::chrono::seconds(60);
    auto connected = co_await honest->connect(address(), {}, report);
    while (!connected && core().now() < until) {
        EXPECT_TRUE(connected.error().code == Code::busy ||
                    connected.error().code == Code::deadline)
            << report.text();
        co_await sleep_for(core(), std::chrono::milliseconds(20));
        connected = co_await honest->connect(address(), {}, report);
    }
    EXPECT_TRUE(connected) << report.text();
    if (!connected) co_return;
    auto accepted = co_await listener->accept();
    EXPECT_TRUE(accepted);
    EXPECT_TRUE(co_await (*connected)->send(as_bytes("hello")));
    EXPECT_TRUE((co_await (*accepted)->receive()).has_value());
    co_await (*connected)->close();
    co_await (*accepted)->close();
}

Task<std::optional<Welcome>> say_hello(Stage& stage, Descriptor& socket, std::string_view provider,
                                       uint64_t domain, std::vector<std::byte> greeting) {
    Report report;
    auto connected = co_await connect_to(stage.core(), stage.address(), {}, report);
    EXPECT_TRUE(connected) << report.text();
    if (!connected) co_return std::nullopt;
    socket = std::move(*connected);
    const int fd = socket.get();
    Hello hello{.domain = domain,
                .message_bytes_max = 65536,
                .incoming_bytes_max = 1 << 20,
                .operations_max = 16};
    hello.set_provider(provider);
    EXPECT_TRUE(co_await ask_admission(stage.core(), fd, hello, stage.address(), {}, {}, report));
    hello.appended_bytes = static_cast<uint32_t>(greeting.size());
    hello.seal();
    EXPECT_TRUE(co_await send_all(stage.core(), fd, object_bytes(hello), {}));
    (void)co_await send_all(stage.core(), fd, greeting, {});
    std::array<std::byte, sizeof(Hello)> bytes{};
    if (!co_await receive_all(stage.core(), fd, bytes, {})) co_return std::nullopt;
    const auto answer = Hello::decode(bytes);
    EXPECT_TRUE(answer);
    if (!answer || answer->answer != Answer::welcome) co_return std::nullopt;
    Welcome welcome{.hello = *answer, .greeting = std::vector<std::byte>(answer->appended_bytes)};
    EXPECT_TRUE(co_await receive_all(stage.core(), fd, welcome.greeting, {}));
    co_return welcome;
}

}  // namespace ros2s::fabric::contract

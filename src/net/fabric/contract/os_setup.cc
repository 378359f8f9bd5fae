#include "os_setup.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

#include "ros2s/base/check.h"
#include "ros2s/fabric/hello.h"

namespace ros2s::fabric::contract {

OsSetup::OsSetup(OpenDomain open, bool two_cores, std::string another)
    : open_(std::move(open)), another_(std::move(another)), client_(made_reactor()) {
    if (!two_cores) return;
    server_ = made_reactor();
    Report report;
    const auto started = server_->start(report);
    ROS2S_CHECK(started);
}

OsSetup::~OsSetup() {
    if (!server_) return;
    server_->stop();
    server_->join();
}

std::string OsSetup::unused_address(const std::string& /*address*/) {
    taken_ = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(taken_.get(), generic, length), 0);
    EXPECT_EQ(getsockname(taken_.get(), generic, &length), 0);
    return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

Task<Result<>> OsSetup::connect_as_another(Domain& /*client*/, std::string address,
                                           Report& report) {
    ROS2S_CO_TRY_ASSIGN(Descriptor socket, co_await connect_to(*client_, address, {}, report));
    Hello hello;
    hello.set_provider(another_);
    hello.seal();
    ROS2S_CO_TRY(co_await send_all(*client_, socket.get(), object_bytes(hello), {}));
    std::array<std::byte, sizeof hello> answer{};
    ROS2S_CO_TRY(co_await receive_all(*client_, socket.get(), answer, {}));
    co_return check_answer(Hello::decode(answer), address, another_, report);
}

}  // namespace ros2s::fabric::contract

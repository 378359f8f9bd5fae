// Relay: a network between a client and a server, for tests. It carries one connection and keeps a
// copy of all bytes in both directions.
#pragma once
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <string>

#include "ros2s/fabric/socket/socket.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/ring.h"

namespace ros2s::fabric::tls {

class Relay {
  public:
    Relay(Reactor& core, std::string to) : core_(core), to_(std::move(to)), nursery_(core, 2) {
        Report report;
        auto listening = listen_on(address_, report);
        EXPECT_TRUE(listening) << report.text();
        if (listening) listening_ = std::move(*listening);
        EXPECT_TRUE(nursery_.try_spawn(run(*this)));
    }
    Relay& operator=(Relay&&) = delete;
    [[nodiscard]] const std::string& address() const { return address_; }
    [[nodiscard]] const std::string& seen() const { return seen_; }
    Task<> close() {
        stop_.request_stop();
        co_await nursery_.join();
    }

  private:
    static Task<> run(Relay& self) {
        auto near = co_await accept_from(self.core_, self.listening_.get(), self.stop_.token());
        if (!near) co_return;
        Report report;
        auto far = co_await connect_to(self.core_, self.to_, self.stop_.token(), report);
        EXPECT_TRUE(far) << report.text();
        if (!far) co_return;
        Nursery nursery(self.core_, 1);
        co_await nursery.spawn(carry(self, near->get(), far->get()));
        co_await carry(self, far->get(), near->get());
        co_await nursery.join();
    }
    static Task<> carry(Relay& self, int from, int to) {
        std::array<std::byte, 65536> bytes{};
        while (true) {
            const ssize_t got = ::recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
            if (got < 0 && errno == EAGAIN) {
                if (!co_await self.core_.ring()->poll(from, POLLIN, self.stop_.token())) co_return;
                continue;
            }
            if (got <= 0) break;
            const ConstBytes part{bytes.data(), static_cast<size_t>(got)};
            self.seen_.append(as_text(part));
            if (!co_await send_all(self.core_, to, part, self.stop_.token())) break;
        }
        ::shutdown(to, SHUT_WR);
    }

    Reactor& core_;
    const std::string to_;
    std::string address_ = "127.0.0.1:0";
    std::string seen_;
    Descriptor listening_;
    StopSource stop_;
    Nursery nursery_;
};

}  // namespace ros2s::fabric::tls

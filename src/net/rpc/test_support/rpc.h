// For this module's tests: a server and clients on the simulated network, and a service with known
// replies.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "channel.h"
#include "ros2s/fabric/sim/network.h"
#include "ros2s/runtime/sim/world.h"
#include "server.h"

namespace ros2s::rpc {

// The methods of the test service.
enum TestMethod : uint16_t {
    echo = 1,        // replies with the same body and payload
    refuse = 2,      // fails: no_space, "there is no room"
    wait = 3,        // until `opened` is set, or it is asked to stop (cancelled)
    stubborn = 4,    // until `opened` is set, whatever the request says; then echoes
    count_once = 5,  // counts each update name once
    dawdle = 6,      // replies, and goes on for a while
    awaited = 7,     // echoes; others wait for it
};

inline void fill(Bytes bytes, uint64_t stamp) {
    for (size_t at = 0; at < bytes.size(); ++at) {
        bytes[at] = static_cast<std::byte>((at * 31 ^ at >> 8 ^ stamp * 97) & 0xff);
    }
}

class TestService final : public Service {
  public:
    explicit TestService(Reactor& reactor) : opened(reactor), reactor_(reactor) {}
    [[nodiscard]] uint32_t number() const override { return 7; }
    [[nodiscard]] bool is_awaited(const Request& request) const override {
        return request.method() == awaited;
    }
    Task<> serve(Request& request) override {
        ++running;
        running_max = std::max(running_max, running);
        co_await answer(request);
        --running;
    }

    Event opened;
    size_t running = 0, running_max = 0;
    uint64_t stopped = 0;
    std::map<std::pair<uint32_t, uint64_t>, int> done;  // by slot and sequence
    std::set<std::pair<uint32_t, uint64_t>> repeated;   // those that said so
    Result<> last_place{};

  private:
    Task<> answer(Request& request) {
        const UpdateName name = request.operation();
        if (request.repeated()) repeated.emplace(name.slot, name.sequence);
        switch (request.method()) {
            case echo: co_await sleep_for(reactor_, std::chrono::microseconds(50)); break;
            case refuse:
                co_await request.fail({.code = Code::no_space, .os_errno = 28, .detail = 5},
                                      "there is no room");
                co_return;
            case dawdle: {
                co_await request.reply({});
                co_await sleep_for(reactor_, std::chrono::milliseconds(10));
                co_return;
            }
            case wait: {
                while (!opened.is_set() && !request.call().stop.stop_requested()) {
                    co_await sleep_for(reactor_, std::chrono::milliseconds(1));
                }
                if (opened.is_set()) break;
                ++stopped;
                co_await request.fail({.code = Code::cancelled});
                co_return;
            }
            case stubborn: co_await opened; break;
            case awaited: break;
            case count_once: {
                const UpdateName id = request.operation();
                // As a store does: a repeated request gets its reply, but is not done again.
                if (++done[{id.slot, id.sequence}] > 1) {
                    EXPECT_TRUE(request.repeated());
                    done[{id.slot, id.sequence}] = 1;
                }
                break;
            }
            default: co_await request.fail({.code = Code::unsupported}); co_return;
        }
        const PayloadMemory memory = request.memory(request.payload_bytes());
        Result<> moved = co_await request.receive_payload(memory.bytes());
        if (moved && request.sink_bytes() == 0) co_return co_await request.reply(request.body());
        if (moved && request.fits_inline(request.body().size(), memory.bytes().size())) {
            co_return co_await request.reply(request.body(), memory.bytes());
        }
        if (moved) moved = last_place = co_await request.place(0, memory.bytes());
        if (!moved) co_return co_await request.fail(moved.error());
        co_await request.reply_placed(request.body(), memory.bytes().size());
    }
    Reactor& reactor_;
};

// Admits each ticket "ticket N" once.
class TestGate final : public Gate {
  public:
    Result<Guest> admit(const HelloBody& hello, const fabric::Peer&) override {
        if (!hello.ticket.starts_with("ticket ") || !used.emplace(hello.ticket).second) {
            return fail(Code::denied);
        }
        ++inside;
        return Guest{.session = ++sessions, .tenant = 11};
    }
    void left(const Guest&) override { --inside; }
    std::set<std::string> used;
    uint64_t sessions = 0;
    int inside = 0;
};

class TestTickets final : public TicketSource {
  public:
    Task<Result<std::string>> take(Report& report) override {
        if (!valid) co_return report.fail(Code::denied, "no tickets");
        if (outdated > 0) {
            --outdated;
            co_return report.fail(Code::stale, "the capability is out of date");
        }
        if (!moved_to.empty()) at = moved_to;
        if (too_old > 0) {
            --too_old;
            co_return "of the server before the restart";
        }
        co_return prefix + std::to_string(++number);
    }
    [[nodiscard]] std::string address() const override { return at; }
    bool valid = true;
    std::string moved_to;  // what the control plane would report
    std::string at;
    std::string prefix = "ticket ";
    uint64_t number = 0;
    uint64_t too_old = 0;   // this many of the next tickets are expired
    uint64_t outdated = 0;  // this many of the next attempts get no ticket
};

class ReadNothing final : public ReplyReader {
  public:
    Result<> read(const Reply&) override { return {}; }
};

// Keeps a copy of body and payload, wherever they arrived.
class CopyReply final : public ReplyReader {
  public:
    explicit CopyReply(std::span<const Bytes> sink) : sink_(sink) {}
    Result<> read(const Reply& reply) override {
        body.assign(reply.body.begin(), reply.body.end());
        where = reply.where;
        if (where == Reply::Payload::placed) {
            for (const Bytes piece : sink_)
                payload.insert(payload.end(), piece.begin(), piece.end());
            payload.resize(reply.payload_bytes);
        } else {
            payload.assign(reply.payload.begin(), reply.payload.end());
        }
        return {};
    }
    std::vector<std::byte> body, payload;
    Reply::Payload where{};

  private:
    std::span<const Bytes> sink_;
};

// A simulated world with one server; tests add clients.
struct Stage {
    explicit Stage(uint64_t seed) : world(seed), network(world.random()), service(world.core()) {
        channel_options.service = 7;
        channel_options.client.bytes[0] = 1;
    }
    Reactor& core() { return world.core(); }
    Task<> start(std::string address = "here") {
        server_domain = network.open_domain(core(), "server");
        auto listening = co_await Server::listen(core(), *server_domain, std::move(address),
                                                 service, gate, server_options, report);
        EXPECT_TRUE(listening) << report.text();
        if (listening) server = std::move(*listening);
    }
    Task<> stop() {
        if (server) co_await server->close();
        server.reset();
        if (server_domain) co_await server_domain->close();
        server_domain.reset();
    }
    Task<Result<std::unique_ptr<Channel>>> connect() {
        if (!client_domain) client_domain = network.open_domain(core(), "client");
        co_return co_await Channel::open(core(), *client_domain, "here", tickets, channel_options,
                                         report);
    }
    Task<> leave(std::unique_ptr<Channel>& channel) {
        if (channel) co_await channel->close();
        channel.reset();
        if (client_domain) co_await client_domain->close();
        client_domain.reset();
    }

    sim::World world;
    fabric::sim::Network network;
    TestService service;
    TestGate gate;
    TestTickets tickets;
    ServerOptions server_options;
    ChannelOptions channel_options;
    Report report;
    std::unique_ptr<fabric::Domain> server_domain;
    std::unique_ptr<Server> server;
    std::unique_ptr<fabric::Domain> client_domain;
};

}  // namespace ros2s::rpc

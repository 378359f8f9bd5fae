// For this module's tests: a store behind a server on the simulated network, and its client's side.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "remote_store.h"
#include "ros2s/fabric/sim/network.h"
#include "ros2s/rpc/server.h"
#include "ros2s/runtime/sim/world.h"
#include "store_server.h"

namespace ros2s::remote {

// Admits every client, as the guest that the test names.
class OpenGate final : public rpc::Gate {
  public:
    Result<rpc::Guest> admit(const rpc::HelloBody&, const fabric::Peer&) override {
        return rpc::Guest{.owner = owner};
    }
    void left(const rpc::Guest&) override {}
    Uuid owner{};
};
class NoTickets final : public rpc::TicketSource {
  public:
    Task<Result<std::string>> take(Report&) override { co_return std::string(); }
};

struct WireOptions {
    rpc::ServerOptions server;
    rpc::ChannelOptions channel;
};

// Sends everything through windows, including bodies.
[[nodiscard]] inline WireOptions bulk_options() {
    WireOptions options;
    options.channel.inline_request_bytes = 0;
    options.server.inline_reply_bytes = 160;
    return options;
}

class Wired {
  public:
    Wired(sim::World& world, const WireOptions& options)
        : world_(world), options_(options), network_(world.random()) {
        options_.channel.service = object_service;
        options_.channel.client.bytes[0] = 1;
    }
    Task<> serve(object::ObjectStore& store, ContainerPolicy* policy = nullptr) {
        server_domain_ = network_.open_domain(world_.core(), "server");
        service_ = std::make_unique<StoreServer>(store, policy);
        auto listening = co_await rpc::Server::listen(world_.core(), *server_domain_, "store",
                                                      *service_, gate_, options_.server, report_);
        EXPECT_TRUE(listening) << report_.text();
        if (listening) server_ = std::move(*listening);
    }
    Task<> stop_serving() {
        co_await server_->close();
        server_.reset();
        service_.reset();
        co_await server_domain_->close();
        server_domain_.reset();
    }
    Task<> connect() {
        domain_ = network_.open_domain(world_.core(), "client");
        auto channel = co_await rpc::Channel::open(world_.core(), *domain_, "store", tickets_,
                                                   options_.channel, report_);
        EXPECT_TRUE(channel) << report_.text();
        channel_ = std::move(*channel);
        auto opened = co_await RemoteStore::open({}, *channel_, report_);
        EXPECT_TRUE(opened) << report_.text();
        store_ = std::move(*opened);
    }
    Task<> disconnect() {
        store_.reset();
        co_await channel_->close();
        channel_.reset();
        co_await domain_->close();
        domain_.reset();
    }
    [[nodiscard]] RemoteStore& store() { return *store_; }
    [[nodiscard]] StoreServer& service() { return *service_; }
    [[nodiscard]] rpc::Channel& channel() { return *channel_; }
    [[nodiscard]] rpc::Server& server() { return *server_; }
    [[nodiscard]] fabric::sim::Network& network() { return network_; }
    [[nodiscard]] OpenGate& gate() { return gate_; }

  private:
    sim::World& world_;
    WireOptions options_;
    fabric::sim::Network network_;
    OpenGate gate_;
    NoTickets tickets_;
    Report report_;
    std::unique_ptr<fabric::Domain> server_domain_, domain_;
    std::unique_ptr<StoreServer> service_;
    std::unique_ptr<rpc::Server> server_;
    std::unique_ptr<rpc::Channel> channel_;
    std::unique_ptr<RemoteStore> store_;
};

}  // namespace ros2s::remote

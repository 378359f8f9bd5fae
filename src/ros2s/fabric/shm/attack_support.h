// What the attack tests share: a server with a bystander, whose session must not be affected, and a
// client that does the handshake by hand and then writes any bytes anywhere.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "layout.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/packet/packet.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/fabric/socket/socket_listener.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::fabric::shm {

// One core, one server domain, an honest client of its own domain.
class Stage {
  public:
    explicit Stage(ListenOptions listening = {.limits = {.reply_bytes = 256}},
                   Options options = {});
    ~Stage();
    Reactor& core() { return *reactor_; }
    const std::string& address() const { return address_; }
    void run(Task<> (*test)(Stage&)) { reactor_->run(perform(test)); }
    // The honest client sends a hundred requests and gets a hundred replies.
    Task<> bystander_is_served();

    std::unique_ptr<Domain> server;
    std::unique_ptr<Domain> honest;
    std::unique_ptr<Listener> listener;
    std::unique_ptr<Endpoint> bystander;         // the client's side
    std::unique_ptr<Endpoint> bystander_server;  // the server's

  private:
    Task<> perform(Task<> (*test)(Stage&));
    ListenOptions listening_;
    std::string directory_;
    std::string address_;
    std::unique_ptr<OsReactor> reactor_;
};

// A hostile client, and the server's endpoint for it.
struct Attacker {
    Descriptor socket;
    Descriptor control_descriptor;
    Descriptor payload_descriptor;
    Hello hello;
    ShmHello layout;
    Bytes control;
    Bytes payload;
    std::unique_ptr<Endpoint> victim;

    Attacker() = default;
    Attacker(const Attacker&) = delete;
    Attacker& operator=(const Attacker&) = delete;
    ~Attacker();
    [[nodiscard]] ControlPage& page() const {
        return *reinterpret_cast<ControlPage*>(control.data());
    }
    [[nodiscard]] Bytes ring_to_server() const {
        return control.subspan(control_page_bytes, layout.to_server_bytes);
    }
    [[nodiscard]] SharedGrant& grant(uint32_t slot) const {
        return reinterpret_cast<SharedGrant*>(control.data() + grants_offset(layout))[slot];
    }
    // Writes one entry at the tail and moves the tail by `advance`.
    void write_entry(const Packet& header, ConstBytes bytes, uint64_t advance);
    // A key in the protocol's format, with any content.
    [[nodiscard]] RemoteKey key(uint32_t slot, uint64_t address, uint64_t length);
};

// The test fails if it cannot connect.
Task<> attack(Stage& stage, Attacker& attacker, Domain& as, uint64_t memory = 1 << 20);
// Waits until the victim's connection has ended, for at most a second.
Task<End> how_it_ended(Stage& stage, Endpoint& victim);

}  // namespace ros2s::fabric::shm

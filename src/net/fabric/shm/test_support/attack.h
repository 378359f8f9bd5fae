// Parts that the attack tests share: a stage (fabric/contract/stage.h), and a client that does the
// handshake by hand and then writes any bytes anywhere.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "layout.h"
#include "ros2s/fabric/contract/attack_shapes.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/fabric/socket/socket_listener.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::fabric::shm {

class Stage : public contract::Stage {
  public:
    // `options` are those of the server's domain.
    explicit Stage(ListenOptions listening = {.limits = {.reply_bytes = 256}},
                   Options options = {});
    ~Stage();
    void run(Task<> (*test)(Stage&)) {
        contract::Stage::run([this, test] { return test(*this); });
    }

  private:
    Stage(const std::string& directory, ListenOptions listening, Options options);
    std::string directory_;
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

    Attacker& operator=(Attacker&&) = delete;
    ~Attacker();
    [[nodiscard]] ControlPage& page() const {
        return *reinterpret_cast<ControlPage*>(control.data());
    }
    [[nodiscard]] Bytes ring_to_server() const {
        return control.subspan(control_page_bytes, layout.to_server_bytes);
    }
    [[nodiscard]] SharedRegionEntry& grant(uint32_t slot) const {
        return reinterpret_cast<SharedRegionEntry*>(control.data() + grants_offset(layout))[slot];
    }
    // Writes one entry at the tail and moves the tail by `advance`.
    void write_entry(const Packet& header, ConstBytes bytes, uint64_t advance);
    // A key in the protocol's format, with any content.
    [[nodiscard]] RemoteKey key(uint32_t slot, uint64_t address, uint64_t length);
};

// The test fails if it cannot connect.
Task<> attack(Stage& stage, Attacker& attacker, Domain& as, uint64_t memory = 1 << 20,
              uint64_t first = 0);
using contract::how_it_ended;

}  // namespace ros2s::fabric::shm

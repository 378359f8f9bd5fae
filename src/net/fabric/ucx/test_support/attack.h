// Parts that the attack tests share: a stage (fabric/contract/stage.h), and a peer with a complete
// UCX that does the handshake by hand and then sends any bytes.
#pragma once
#include <gtest/gtest.h>

#include <memory>

#include "ros2s/fabric/contract/attack_shapes.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/lanes/greeting.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/fabric/socket/socket_listener.h"
#include "ucx.h"
#include "ucx_lane.h"
#include "ucx_library.h"

namespace ros2s::fabric::ucx {

using lanes::decode_greeting;
using lanes::encode_greeting;
using lanes::FrameHeader;
using lanes::Greeting;
using lanes::PeerAddress;

class Stage : public contract::Stage {
  public:
    explicit Stage(ListenOptions listening = {.limits = {.reply_bytes = 256}});
    void run(Task<> (*test)(Stage&)) {
        contract::Stage::run([this, test] { return test(*this); });
    }
};

#define ROS2S_UCX_ATTACK_FUNCTIONS(EACH) \
    EACH(ucp_atomic_op_nbx)              \
    EACH(ucp_ep_rkey_unpack)             \
    EACH(ucp_get_nbx)                    \
    EACH(ucp_mem_map)                    \
    EACH(ucp_mem_unmap)                  \
    EACH(ucp_put_nbx)                    \
    EACH(ucp_request_check_status)       \
    EACH(ucp_rkey_buffer_release)        \
    EACH(ucp_rkey_destroy)               \
    EACH(ucp_rkey_pack)

// UCX's functions, with those that the product never calls.
struct AllUcx : UcxLibrary {
    AllUcx();
#define ROS2S_UCX_MEMBER(name) decltype(&::name) name = nullptr;
    ROS2S_UCX_ATTACK_FUNCTIONS(ROS2S_UCX_MEMBER)
#undef ROS2S_UCX_MEMBER
};

// A UCX with one-sided operations. Only progress() makes its worker progress.
class RawUcx {
  public:
    RawUcx();
    RawUcx& operator=(RawUcx&&) = delete;
    ~RawUcx();
    [[nodiscard]] const AllUcx& ucx() const { return ucx_; }
    [[nodiscard]] ucp_context_h context() const { return context_; }
    [[nodiscard]] ucp_worker_h worker() const { return worker_; }
    [[nodiscard]] std::vector<std::byte> address() const;
    void progress() const { ucx_.ucp_worker_progress(worker_); }

  private:
    AllUcx ucx_;
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
};

// A hostile peer's session, and the server's endpoint for it.
struct Attacker {
    RawUcx& ucx;
    Descriptor socket{};
    Hello hello{};
    PeerAddress server{};
    ucp_ep_h endpoint = nullptr;
    uint64_t sequence = 0;
    std::unique_ptr<Endpoint> victim{};

    // The next header in the protocol's order.
    [[nodiscard]] FrameHeader header() {
        return {.channel = server.channel, .sequence = sequence++};
    }
    // Sends, and waits until the data is sent.
    Task<> send(Stage& stage, ConstBytes header, ConstBytes data, unsigned id = active_message_id,
                uint32_t flags = 0);
    // Makes the own worker progress for a while.
    Task<> look(Stage& stage, Duration how_long = std::chrono::milliseconds(50)) const;
    // Hangs up; closes the victim.
    Task<> finish(Stage& stage);
};

// The test fails if it cannot connect.
Task<> attack(Stage& stage, Attacker& attacker);
// Sends a hello with any bytes after it; false if it is refused.
Task<bool> say_hello(Stage& stage, Attacker& attacker, std::vector<std::byte> greeting);
Task<End> how_it_ended(Stage& stage, Attacker& attacker);

}  // namespace ros2s::fabric::ucx

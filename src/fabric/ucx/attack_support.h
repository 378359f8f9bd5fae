// What the attack tests share: a server with a bystander whose session must not notice anything,
// and a peer that does the handshake by hand and then says what it likes, with a UCX that can do
// everything.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/lanes/greeting.h"
#include "ros2s/fabric/packet/packet.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/runtime/os_reactor.h"
#include "ucx.h"
#include "ucx_lane.h"
#include "ucx_library.h"

namespace ros2s::fabric::ucx {

using lanes::decode_greeting;
using lanes::encode_greeting;
using lanes::FrameHeader;
using lanes::Greeting;
using lanes::PeerAddress;

// One core, one server domain, an honest client of its own domain.
class Stage {
  public:
    explicit Stage(ListenOptions listening = {.limits = {.reply_bytes = 256}});
    Reactor& core() { return *reactor_; }
    const std::string& address() const { return listener->address(); }
    void run(Task<> (*test)(Stage&)) { reactor_->run(perform(test)); }
    // The honest client asks and is answered, a hundred times.
    Task<> bystander_is_served();

    std::unique_ptr<Domain> server;
    std::unique_ptr<Domain> honest;
    std::unique_ptr<Listener> listener;
    std::unique_ptr<Endpoint> bystander;         // the client's side
    std::unique_ptr<Endpoint> bystander_server;  // the server's

  private:
    Task<> perform(Task<> (*test)(Stage&));
    ListenOptions listening_;
    std::unique_ptr<OsReactor> reactor_;
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

// A UCX with one-sided operations. Its own worker is looked at in progress() alone.
class RawUcx {
  public:
    RawUcx();
    RawUcx(const RawUcx&) = delete;
    RawUcx& operator=(const RawUcx&) = delete;
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

// A session of somebody without scruples, and the server's endpoint for it.
struct Attacker {
    RawUcx& ucx;
    Descriptor socket{};
    Hello hello{};
    PeerAddress server{};
    ucp_ep_h endpoint = nullptr;
    uint64_t sequence = 0;
    std::unique_ptr<Endpoint> victim{};

    // The next header that the protocol has.
    [[nodiscard]] FrameHeader header() {
        return {.channel = server.channel, .sequence = sequence++};
    }
    // Sends and waits until it has gone.
    Task<> send(Stage& stage, ConstBytes header, ConstBytes data, unsigned id = active_message_id,
                uint32_t flags = 0);
    // Looks at the own worker for a while.
    Task<> look(Stage& stage, Duration how_long = std::chrono::milliseconds(50)) const;
    // Hangs up; closes the victim.
    Task<> finish(Stage& stage);
};

// Fails the test when it does not come to be connected.
Task<> attack(Stage& stage, Attacker& attacker);
// Says hello, with anything behind it; false when it is not welcome.
Task<bool> say_hello(Stage& stage, Attacker& attacker, std::vector<std::byte> greeting);
// Waits until the victim's connection has ended, at most half a minute.
Task<End> how_it_ended(Stage& stage, Attacker& attacker);

[[nodiscard]] std::unique_ptr<OsReactor> make_reactor();

}  // namespace ros2s::fabric::ucx

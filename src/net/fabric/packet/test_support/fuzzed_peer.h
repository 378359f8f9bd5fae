// Parts that the fuzzers of packet-carrying providers share: the limits of a session, and a peer
// that sends mostly valid packets.
#pragma once
#include <vector>

#include "ros2s/base/check.h"
#include "ros2s/fabric/packet/packet.h"
#include "ros2s/fabric/packet/packet_endpoint.h"
#include "ros2s/fabric/test_support/fuzz_script.h"

namespace ros2s::fabric {

class FuzzedPeer {
  public:
    static constexpr Limits limits{.message_bytes_max = 20'000,
                                   .incoming_bytes_max = 40'000,
                                   .outgoing_bytes_max = 40'000,
                                   .reply_bytes = 256,
                                   .operations_max = 4,
                                   .regions_max = 4,
                                   .memory_bytes_max = 16'384,
                                   .answer_within = std::chrono::milliseconds(1)};

    explicit FuzzedPeer(ConstBytes input) : script(input) {}

    void meet(Reactor& reactor, Counters& counters, Flusher& flusher, bool initiates,
              std::unique_ptr<Wire> wire) {
        const Hello hello{.domain = 8,
                          .message_bytes_max = 20'000,
                          .incoming_bytes_max = 40'000,
                          .operations_max = 4};
        victim = std::make_unique<PacketEndpoint>(reactor, counters, flusher,
                                                  PacketEndpoint::normalized(limits),
                                                  PacketConnection{.provider = "fuzzed",
                                                                   .domain = 7,
                                                                   .session = 9,
                                                                   .peer = hello,
                                                                   .peer_name = "peer",
                                                                   .initiates = initiates},
                                                  std::move(wire));
    }
    void get_grant() {
        memory_ = victim->allocate(8192).value();
        if (auto region = victim->grant(memory_, Rights::read_write)) region_ = std::move(*region);
    }
    void look_at_messages() const {
        Message message;
        while (victim->try_receive(message)) {
            ROS2S_CHECK(message.bytes().size() <= limits.message_bytes_max);
            (void)victim->reply(message, as_bytes("answer"));
            message = Message();
        }
    }
    Task<> release_memory() {
        if (region_.live()) co_await region_.revoke();
        victim->free(memory_);
    }
    void add_packet(std::vector<std::byte>& frame) {
        using Type = Packet::Type;
        Packet header{.type = static_cast<Type>(script.take<uint8_t>() % 11),
                      .flags = static_cast<uint8_t>(script.take<uint8_t>() % 4),
                      .operation = script.take<uint16_t>(),
                      .offset = script.take<uint16_t>(),
                      .count = script.take<uint16_t>()};
        const bool has_key = header.type == Type::put || header.type == Type::get;
        const bool has_bytes =
            header.type == Type::message || header.type == Type::put || header.type == Type::got;
        const size_t bytes = has_bytes ? script.take<uint16_t>() % 9000 : 0;
        if (header.type == Type::done) header.result = script.take<uint8_t>() % 16;
        header.length = static_cast<uint32_t>((has_key ? sizeof(RemoteKey) : 0) + bytes);
        append(frame, object_bytes(header));
        if (has_key) append(frame, object_bytes(key()));
        frame.resize(frame.size() + bytes);
    }
    static void append(std::vector<std::byte>& to, ConstBytes bytes) {
        to.insert(to.end(), bytes.begin(), bytes.end());
    }

    FuzzScript script;
    std::unique_ptr<Endpoint> victim;

  private:
    // The granted key, or a similar one.
    RemoteKey key() {
        RemoteKey key = region_.live() ? region_.key() : RemoteKey{};
        const auto wrong = script.take<uint8_t>();
        if (wrong == 1) key.session = script.take<uint64_t>();
        if (wrong == 2) key.domain = script.take<uint64_t>();
        if (wrong == 3) key.slot = script.take<uint32_t>();
        if (wrong == 4) key.generation = script.take<uint32_t>();
        if (wrong == 5) key.address = script.take<uint64_t>();
        if (wrong == 6) key.length = script.take<uint64_t>();
        if (wrong != 7) key.seal();
        return key;
    }

    Bytes memory_;
    MemoryRegion region_;
};

}  // namespace ros2s::fabric

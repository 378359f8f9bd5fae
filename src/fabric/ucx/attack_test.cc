// Peers that do not keep to the protocol: whatever they do costs their own session and no other.
// (Within UCX's own formats, that is: who forges those is not kept out, see 0403-ucx.md.)
#include <sys/socket.h>

#include "attack_support.h"

namespace ros2s::fabric::ucx {
namespace {

std::vector<std::byte> packet(Packet header, size_t bytes) {
    std::vector<std::byte> frame(sizeof header + bytes, std::byte{0x42});
    std::memcpy(frame.data(), &header, sizeof header);
    return frame;
}

// What one attempt sends after the first message; a header of null is the right one.
struct Attempt {
    const char* what;
    void (*change)(FrameHeader&);
    std::vector<std::byte> data;
    uint32_t flags = 0;
    End end = End::violation;
};

Task<> make_attempts(Stage& stage, std::vector<Attempt> attempts) {
    RawUcx raw;
    for (const Attempt& attempt : attempts) {
        Attacker attacker{.ucx = raw};
        co_await attack(stage, attacker);
        if (attacker.victim == nullptr) co_return;
        FrameHeader header = attacker.header();
        if (attempt.change != nullptr) attempt.change(header);
        co_await attacker.send(stage, object_bytes(header), attempt.data, active_message_id,
                               attempt.flags);
        EXPECT_EQ(co_await how_it_ended(stage, attacker), attempt.end) << attempt.what;
        co_await attacker.finish(stage);
    }
}

Task<> senseless_headers(Stage& stage) {
    const auto good = packet({.type = Packet::Type::message, .length = 4, .operation = 4}, 4);
    std::vector<Attempt> attempts{
        {"magic", [](FrameHeader& header) { header.magic ^= 1; }, good},
        {"version", [](FrameHeader& header) { header.version = 2; }, good},
        {"reserved", [](FrameHeader& header) { header.reserved = 1; }, good},
        {"again", [](FrameHeader& header) { header.sequence = 0; }, good},
        {"left out", [](FrameHeader& header) { header.sequence += 1; }, good},
        {"empty", nullptr, {}},
        {"larger than a frame", nullptr, std::vector<std::byte>(frame_bytes + 1)},
        {"much larger", nullptr, std::vector<std::byte>(size_t{8} << 20)},
        {"rendezvous", nullptr, std::vector<std::byte>(size_t{1} << 20), UCP_AM_SEND_FLAG_RNDV},
    };
    const size_t count = attempts.size();
    co_await make_attempts(stage, std::move(attempts));
    EXPECT_EQ(stage.server->counters().of(End::violation).value(), count);
}
TEST(UcxAttack, senseless_headers) { Stage().run(senseless_headers); }

Task<> senseless_packets(Stage& stage) {
    using Type = Packet::Type;
    std::vector<Attempt> attempts{
        {"no type", nullptr, packet({}, 0)},
        {"unknown type", nullptr, packet({.type = static_cast<Type>(99)}, 0)},
        {"less than a header", nullptr, std::vector<std::byte>(sizeof(Packet) - 1)},
        {"longer than its frame", nullptr,
         packet({.type = Type::message, .length = 100, .operation = 100}, 99)},
        {"length of 4 GiB", nullptr,
         packet({.type = Type::message, .length = ~0U, .operation = ~0U}, 8)},
        {"beyond the message", nullptr,
         packet({.type = Type::message, .length = 4, .operation = 8, .offset = 6}, 4)},
        {"without its beginning", nullptr,
         packet({.type = Type::message, .length = 4, .operation = 8, .offset = 4}, 4)},
        {"put by the side that does not initiate", nullptr,
         packet({.type = Type::put, .length = sizeof(RemoteKey) + 8, .count = 8},
                sizeof(RemoteKey) + 8)},
        {"get by the side that does not initiate", nullptr,
         packet({.type = Type::get, .length = sizeof(RemoteKey), .count = 8}, sizeof(RemoteKey))},
        {"an answer to nothing", nullptr, packet({.type = Type::got, .length = 8}, 8)},
        {"credit that was not used", nullptr, packet({.type = Type::credit, .count = 1}, 0)},
        {"message over the budget", nullptr,
         packet({.type = Type::message, .length = 32, .operation = uint64_t{1} << 40}, 32), 0,
         End::over_budget},
    };
    co_await make_attempts(stage, std::move(attempts));
    EXPECT_EQ(stage.server->counters().of(End::over_budget).value(), 1U);
}
TEST(UcxAttack, senseless_packets) { Stage().run(senseless_packets); }

// Any bytes as frames, from many seeds.
Task<> garbage(Stage& stage) {
    RawUcx raw;
    for (uint64_t seed = 1; seed <= 60; ++seed) {
        Random random(seed);
        Attacker attacker{.ucx = raw};
        co_await attack(stage, attacker);
        if (attacker.victim == nullptr) co_return;
        for (int i = 0; i < 50 && attacker.victim->alive(); ++i) {
            std::vector<std::byte> data(1 + random.below(4000));
            for (std::byte& each : data) each = static_cast<std::byte>(random.next());
            // Now and then a packet that passes at first sight.
            const Packet header{.type = static_cast<Packet::Type>(1 + random.below(7)),
                                .length = static_cast<uint32_t>(random.below(data.size())),
                                .operation = random.below(2 * data.size())};
            if (data.size() >= sizeof header) std::memcpy(data.data(), &header, sizeof header);
            const FrameHeader frame = attacker.header();
            co_await attacker.send(stage, object_bytes(frame), data);
        }
        const End end = co_await how_it_ended(stage, attacker);
        EXPECT_TRUE(end == End::violation || end == End::closed_there || end == End::over_budget)
            << seed << ": " << describe(end);
        co_await attacker.finish(stage);
    }
}
TEST(UcxAttack, garbage_in_frames) { Stage().run(garbage); }

// What names no session of ours is nobody's: it is counted, and costs no session.
Task<> frames_for_nobody(Stage& stage) {
    RawUcx raw;
    Attacker attacker{.ucx = raw};
    co_await attack(stage, attacker);
    if (attacker.victim == nullptr) co_return;
    FrameHeader header{.channel = attacker.server.channel + 1, .sequence = 1};
    co_await attacker.send(stage, object_bytes(header), as_bytes("anything"));
    header.channel = 0;
    co_await attacker.send(stage, object_bytes(header), as_bytes("anything"));
    co_await attacker.send(stage, as_bytes("short"), as_bytes("anything"));
    co_await attacker.send(stage, {}, as_bytes("anything"));
    // Messages of other numbers, which UCX does not check against its table of handlers.
    header = {.channel = attacker.server.channel, .sequence = 1};
    co_await attacker.send(stage, object_bytes(header), as_bytes("anything"), 2);
    co_await attacker.send(stage, object_bytes(header), as_bytes("anything"), 65535);
    const Time until = stage.core().now() + std::chrono::seconds(30);
    while (stage.server->counters().frames_refused.value() < 6 && stage.core().now() < until) {
        co_await attacker.look(stage, std::chrono::milliseconds(1));
    }
    EXPECT_EQ(stage.server->counters().frames_refused.value(), 6U);
    co_await stage.bystander_is_served();
    EXPECT_TRUE(attacker.victim->alive());
    // And its own session still works.
    header = attacker.header();
    const auto good = packet({.type = Packet::Type::message, .length = 4, .operation = 4}, 4);
    co_await attacker.send(stage, object_bytes(header), good);
    auto message = co_await attacker.victim->receive();
    EXPECT_TRUE(message);
    message = {};
    co_await attacker.finish(stage);
}
TEST(UcxAttack, frames_for_nobody) { Stage().run(frames_for_nobody); }

// UCX's own put, get and atomics, at addresses that are mapped, known, and even granted.
Task<> one_sided_operations(Stage& stage) {
    RawUcx raw;
    Attacker attacker{.ucx = raw};
    co_await attack(stage, attacker);
    if (attacker.victim == nullptr) co_return;
    auto granted = stage.bystander->allocate(4096);
    EXPECT_TRUE(granted);
    if (!granted) co_return;
    AlignedBuffer secret(4096);
    for (const Bytes memory : {secret.bytes(), *granted}) {
        std::memset(memory.data(), 0x5a, memory.size());
    }
    AlignedBuffer own(4096);
    std::memset(own.data(), 0xee, own.size());
    // The key of some memory of its own: tcp's keys say nothing that the other side checks.
    ucp_mem_map_params_t map{};
    map.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    map.address = own.data();
    map.length = own.size();
    ucp_mem_h handle = nullptr;
    EXPECT_EQ(raw.ucx().ucp_mem_map(raw.context(), &map, &handle), UCS_OK);
    void* packed = nullptr;
    size_t packed_bytes = 0;
    EXPECT_EQ(raw.ucx().ucp_rkey_pack(raw.context(), handle, &packed, &packed_bytes), UCS_OK);
    ucp_rkey_h key = nullptr;
    EXPECT_EQ(raw.ucx().ucp_ep_rkey_unpack(attacker.endpoint, packed, &key), UCS_OK);
    std::vector<void*> requests;
    const ucp_request_param_t plain{};
    for (const Bytes memory : {secret.bytes(), *granted}) {
        const auto at = reinterpret_cast<uint64_t>(memory.data());
        for (const size_t size : {size_t{8}, size_t{4096}}) {
            requests.push_back(
                raw.ucx().ucp_put_nbx(attacker.endpoint, own.data(), size, at, key, &plain));
            requests.push_back(
                raw.ucx().ucp_get_nbx(attacker.endpoint, own.data(), size, at, key, &plain));
        }
        ucp_request_param_t wide{};
        wide.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
        wide.datatype = ucp_dt_make_contig(8);
        requests.push_back(raw.ucx().ucp_atomic_op_nbx(attacker.endpoint, UCP_ATOMIC_OP_ADD,
                                                       own.data(), 1, at, key, &wide));
    }
    // Long after they came, and after others were served in between.
    for (int i = 0; i < 10; ++i) {
        co_await attacker.look(stage);
        co_await stage.bystander_is_served();
    }
    for (const Bytes memory : {secret.bytes(), *granted}) {
        for (const std::byte each : memory) {
            if (each != std::byte{0x5a}) ADD_FAILURE() << "written by UCX's own operations";
            if (each != std::byte{0x5a}) break;
        }
    }
    for (const std::byte each : own.bytes()) {
        if (each != std::byte{0xee}) ADD_FAILURE() << "read by UCX's own operations";
        if (each != std::byte{0xee}) break;
    }
    EXPECT_TRUE(attacker.victim->alive());
    stage.bystander->free(*granted);
    raw.ucx().ucp_rkey_destroy(key);
    raw.ucx().ucp_rkey_buffer_release(packed);
    co_await attacker.finish(stage);
    co_await attacker.look(stage);
    for (void* request : requests) {
        if (request != nullptr && !UCS_PTR_IS_ERR(request)) raw.ucx().ucp_request_free(request);
    }
    EXPECT_EQ(raw.ucx().ucp_mem_unmap(raw.context(), handle), UCS_OK);
}
TEST(UcxAttack, one_sided_operations_change_nothing) { Stage().run(one_sided_operations); }

}  // namespace
}  // namespace ros2s::fabric::ucx

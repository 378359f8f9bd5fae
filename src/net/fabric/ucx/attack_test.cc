// Peers that break the protocol: whatever they do costs only their own session. (Within UCX's own
// formats. A peer that forges those is not stopped, see docs/decisions/0403.)
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "test_support/attack.h"

namespace ros2s::fabric::ucx {
namespace {

// The data of one attempt after the first message; a null header means a valid one.
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
    const auto good = contract::good_packet();
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
TEST(UcxAttack, MalformedHeaderEndsOnlyItsSession) { Stage().run(senseless_headers); }

Task<> senseless_packets(Stage& stage) {
    std::vector<Attempt> attempts;
    for (contract::BadPacket& each : contract::bad_packets()) {
        attempts.push_back({each.what, nullptr, std::move(each.data), 0, each.end});
    }
    co_await make_attempts(stage, std::move(attempts));
    EXPECT_EQ(stage.server->counters().of(End::over_budget).value(), 1U);
}
TEST(UcxAttack, MalformedPacketEndsOnlyItsSession) { Stage().run(senseless_packets); }

// Any bytes as frames, from many seeds.
Task<> garbage(Stage& stage) {
    RawUcx raw;
    for (uint64_t seed = 1; seed <= 60; ++seed) {
        Random random(seed);
        Attacker attacker{.ucx = raw};
        co_await attack(stage, attacker);
        if (attacker.victim == nullptr) co_return;
        for (int i = 0; i < 50 && attacker.victim->alive(); ++i) {
            std::vector<std::byte> data = contract::garbage_packet(random);
            const FrameHeader frame = attacker.header();
            co_await attacker.send(stage, object_bytes(frame), data);
        }
        contract::expect_end_by_garbage(seed, co_await how_it_ended(stage, attacker));
        co_await attacker.finish(stage);
    }
}
TEST(UcxAttack, GarbageFrameEndsOnlyItsSession) { Stage().run(garbage); }

// A frame that names none of our sessions is counted, and costs no session.
Task<> frames_for_no_session(Stage& stage) {
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
    // Messages with other numbers, which UCX does not check against its table of handlers.
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
    // Its own session still works.
    header = attacker.header();
    const auto good = contract::good_packet();
    co_await attacker.send(stage, object_bytes(header), good);
    auto message = co_await attacker.victim->receive();
    EXPECT_TRUE(message);
    message = {};
    co_await attacker.finish(stage);
}
TEST(UcxAttack, FrameForUnknownSessionIsCounted) { Stage().run(frames_for_no_session); }

// UCX's own get, put and atomic addition, at addresses that another process chooses.
class OneSided {
  public:
    static constexpr std::byte given{0xee}, untaken{0x11};

    OneSided(RawUcx& raw, ucp_ep_h endpoint) : raw_(raw), endpoint_(endpoint) {
        std::memset(source_.data(), static_cast<int>(given), source_.size());
        std::memset(sink_.data(), static_cast<int>(untaken), sink_.size());
        // The key of some memory of its own: over tcp the other side checks nothing in a key.
        ucp_mem_map_params_t map{};
        map.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        map.address = source_.data();
        map.length = source_.size();
        EXPECT_EQ(raw_.ucx().ucp_mem_map(raw_.context(), &map, &handle_), UCS_OK);
        void* packed = nullptr;
        size_t packed_bytes = 0;
        EXPECT_EQ(raw_.ucx().ucp_rkey_pack(raw_.context(), handle_, &packed, &packed_bytes),
                  UCS_OK);
        EXPECT_EQ(raw_.ucx().ucp_ep_rkey_unpack(endpoint_, packed, &key_), UCS_OK);
        raw_.ucx().ucp_rkey_buffer_release(packed);
    }
    OneSided& operator=(OneSided&&) = delete;
    // After its endpoint is closed, which ends unanswered operations.
    ~OneSided() {
        for (void* request : requests_) {
            if (request != nullptr && !UCS_PTR_IS_ERR(request)) {
                raw_.ucx().ucp_request_free(request);
            }
        }
        EXPECT_EQ(raw_.ucx().ucp_mem_unmap(raw_.context(), handle_), UCS_OK);
    }
    void send(Bytes memory) {
        const auto at = reinterpret_cast<uint64_t>(memory.data());
        const ucp_request_param_t plain{};
        for (const size_t size : {size_t{8}, memory.size()}) {
            requests_.push_back(
                raw_.ucx().ucp_get_nbx(endpoint_, sink_.data(), size, at, key_, &plain));
            requests_.push_back(
                raw_.ucx().ucp_put_nbx(endpoint_, source_.data(), size, at, key_, &plain));
        }
        ucp_request_param_t wide{};
        wide.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
        wide.datatype = ucp_dt_make_contig(8);
        requests_.push_back(raw_.ucx().ucp_atomic_op_nbx(endpoint_, UCP_ATOMIC_OP_ADD,
                                                         source_.data(), 1, at, key_, &wide));
    }
    [[nodiscard]] bool has_read_nothing() { return is_all(sink_.bytes(), untaken); }
    // Before the endpoint is closed.
    void release() { raw_.ucx().ucp_rkey_destroy(std::exchange(key_, nullptr)); }

    static bool is_all(ConstBytes bytes, std::byte value) {
        return std::ranges::all_of(bytes, [value](std::byte each) { return each == value; });
    }

  private:
    static constexpr size_t size_max = 4096;
    RawUcx& raw_;
    ucp_ep_h endpoint_;
    AlignedBuffer source_{size_max}, sink_{size_max};
    ucp_mem_h handle_ = nullptr;
    ucp_rkey_h key_ = nullptr;
    std::vector<void*> requests_;
};

constexpr std::byte kept{0x5a};

// At addresses that are mapped, known, or even granted.
Task<> one_sided_operations(Stage& stage) {
    RawUcx raw;
    Attacker attacker{.ucx = raw};
    co_await attack(stage, attacker);
    if (attacker.victim == nullptr) co_return;
    auto granted = stage.bystander->allocate(4096);
    EXPECT_TRUE(granted);
    if (!granted) co_return;
    AlignedBuffer secret(4096);
    OneSided operations(raw, attacker.endpoint);
    for (const Bytes memory : {secret.bytes(), *granted}) {
        std::memset(memory.data(), static_cast<int>(kept), memory.size());
        operations.send(memory);
    }
    // Long after they arrived, and after others were served in between.
    for (int i = 0; i < 10; ++i) {
        co_await attacker.look(stage);
        co_await stage.bystander_is_served();
    }
    EXPECT_TRUE(OneSided::is_all(secret.bytes(), kept)) << "written by UCX's own operations";
    EXPECT_TRUE(OneSided::is_all(*granted, kept)) << "written by UCX's own operations";
    EXPECT_TRUE(operations.has_read_nothing()) << "read by UCX's own operations";
    EXPECT_TRUE(attacker.victim->alive());
    stage.bystander->free(*granted);
    operations.release();
    co_await attacker.finish(stage);
    co_await attacker.look(stage);
}
TEST(UcxAttack, OneSidedOperationChangesNoMemory) { Stage().run(one_sided_operations); }

// The control for the previous test: the same operations do read and write unregistered memory if
// the peer's context supports them.
TEST(UcxAttack, OneSidedOperationWorksIfContextAllowsIt) {
    RawUcx victim, raw;
    const std::vector<std::byte> address = victim.address();
    ucp_ep_params_t parameters{};
    parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    parameters.address = reinterpret_cast<const ucp_address_t*>(address.data());
    ucp_ep_h endpoint = nullptr;
    ASSERT_EQ(raw.ucx().ucp_ep_create(raw.worker(), &parameters, &endpoint), UCS_OK);
    AlignedBuffer secret(4096);
    std::memset(secret.data(), static_cast<int>(kept), secret.size());
    {
        OneSided operations(raw, endpoint);
        operations.send(secret.bytes());
        // The addition comes last, and changes only the first eight bytes.
        const auto is_changed = [&] {
            return !operations.has_read_nothing() && secret.bytes()[0] != kept &&
                   secret.bytes()[0] != OneSided::given &&
                   OneSided::is_all(secret.bytes().subspan(8), OneSided::given);
        };
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!is_changed() && std::chrono::steady_clock::now() < until) {
            raw.progress();
            victim.progress();
        }
        EXPECT_TRUE(is_changed());
        operations.release();
        ucp_request_param_t flush{};
        void* closing = raw.ucx().ucp_ep_close_nbx(endpoint, &flush);
        while (closing != nullptr && !UCS_PTR_IS_ERR(closing) &&
               raw.ucx().ucp_request_check_status(closing) == UCS_INPROGRESS &&
               std::chrono::steady_clock::now() < until) {
            raw.progress();
            victim.progress();
        }
        if (closing != nullptr && !UCS_PTR_IS_ERR(closing)) raw.ucx().ucp_request_free(closing);
    }
}

}  // namespace
}  // namespace ros2s::fabric::ucx

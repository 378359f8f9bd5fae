// Peers that break the protocol: whatever they do costs only their own session. (Within libfabric's
// own formats. A peer that forges those is not stopped, see docs/decisions/0403.)
#include <gtest/gtest.h>
#include <rdma/fi_rma.h>

#include <algorithm>

#include "context.h"
#include "ros2s/fabric/contract/attack_shapes.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/lanes/greeting.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/fabric/socket/socket_listener.h"

namespace ros2s::fabric::ofi {
namespace {

using contract::Stage;
using lanes::FrameHeader;

constexpr Duration patience = std::chrono::seconds(30);

Result<std::unique_ptr<Domain>> open_on_loopback(Reactor& reactor, Report& report) {
    return open_domain(reactor, {.provider = "ofi+tcp;ofi_rxm", .device = "lo"}, report);
}

void run(Task<> (*test)(Stage&), ListenOptions listening = {.limits = {.reply_bytes = 256}}) {
    Stage stage(open_on_loopback, listening);
    stage.run([&] { return test(stage); });
}

// An endpoint of libfabric with all operations, and a session by hand through it.
class Attacker {
  public:
    Attacker() {
        Report report;
        const auto loaded = ofi_library(report);
        EXPECT_TRUE(loaded) << report.text();
        const OfiLibrary& ofi = **loaded;
        const Settings ours(environment_);
        fi_info* hints = ofi.fi_dupinfo(nullptr);
        hints->caps = FI_MSG | FI_RMA;
        hints->ep_attr->type = FI_EP_RDM;
        hints->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
        hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
        fi_info* found = nullptr;
        EXPECT_EQ(ofi.fi_getinfo(api_version, "127.0.0.1", nullptr, FI_SOURCE, hints, &found), 0);
        fi_info* chosen = found;
        while (chosen != nullptr && std::string(chosen->fabric_attr->prov_name) != "tcp;ofi_rxm") {
            chosen = chosen->next;
        }
        EXPECT_NE(chosen, nullptr);
        open(ofi, *chosen);
        ofi.fi_freeinfo(found);
        ofi.fi_freeinfo(hints);
    }

    // Sends the hello with this greeting; false if it is refused.
    Task<bool> say_hello(Stage& stage, std::vector<std::byte> greeting) {
        const auto welcome = co_await contract::say_hello(
            stage, socket_, "ofi+tcp;ofi_rxm", stage.honest->id() + 1, std::move(greeting));
        if (!welcome) co_return false;
        const auto decoded = lanes::decode_greeting(welcome->greeting);
        EXPECT_TRUE(decoded);
        if (!decoded) co_return false;
        channel = decoded->channel;
        EXPECT_EQ(fi_av_insert(peers_.get(), decoded->address.data(), 1, &server_, 0, nullptr), 1);
        co_return true;
    }

    // A session of its own, and the server's endpoint for it.
    Task<> connect(Stage& stage) {
        const bool welcome = co_await say_hello(
            stage, lanes::encode_greeting(stage.core().random().next(), address_));
        EXPECT_TRUE(welcome);
        if (!welcome) co_return;
        sequence = 0;
        co_await send(stage, header(), {});
        auto accepted = co_await stage.listener->accept();
        EXPECT_TRUE(accepted);
        if (accepted) victim = std::move(*accepted);
    }

    [[nodiscard]] FrameHeader header() { return {.channel = channel, .sequence = sequence++}; }
    Task<> send(Stage& stage, FrameHeader head, std::vector<std::byte> data) {
        std::vector<std::byte> bytes(sizeof head + data.size());
        std::memcpy(bytes.data(), &head, sizeof head);
        if (!data.empty()) std::memcpy(bytes.data() + sizeof head, data.data(), data.size());
        co_await send_bytes(stage, std::move(bytes));
    }
    // Sends, and waits until the data is sent.
    Task<> send_bytes(Stage& stage, std::vector<std::byte> bytes) {
        const Time until = stage.core().now() + patience;
        while (fi_send(endpoint_.get(), bytes.data(), bytes.size(), nullptr, server_, nullptr) ==
               -FI_EAGAIN) {
            look();
            co_await yield(stage.core());
            if (stage.core().now() < until) continue;
            ADD_FAILURE() << "the attacker's message does not go";
            co_return;
        }
        const size_t goal = ended_ + 1;
        while (ended_ < goal && stage.core().now() < until) {
            look();
            co_await yield(stage.core());
        }
    }
    void look() {
        fi_cq_msg_entry entry{};
        ssize_t count = fi_cq_read(completions_.get(), &entry, 1);
        if (count == -FI_EAVAIL) {
            fi_cq_err_entry error{};
            count = fi_cq_readerr(completions_.get(), &error, 0);
        }
        if (count > 0) ++ended_;
    }
    Task<End> how_it_ended(Stage& stage) {
        return contract::how_it_ended(stage, *victim, [this] { look(); });
    }
    // Hangs up; closes the victim.
    Task<> finish() {
        socket_.reset();
        if (victim != nullptr) co_await victim->close();
        victim.reset();
    }
    [[nodiscard]] fid_ep* endpoint() { return endpoint_.get(); }
    [[nodiscard]] fi_addr_t server() const { return server_; }
    [[nodiscard]] const std::vector<std::byte>& address() const { return address_; }

    uint64_t channel = 0;
    uint64_t sequence = 0;
    std::unique_ptr<Endpoint> victim;

  private:
    template <class Object>
    static Object* made(Handle<Object>& handle, int status, Object* object) {
        EXPECT_EQ(status, 0);
        handle.reset(object);
        return object;
    }
    void open(const OfiLibrary& ofi, fi_info& info) {
        fid_fabric* fabric = nullptr;
        made(fabric_, ofi.fi_fabric(info.fabric_attr, &fabric, nullptr), fabric);
        fid_domain* domain = nullptr;
        int status = fi_domain(fabric, &info, &domain, nullptr);
        made(domain_, status, domain);
        fi_av_attr peers_wanted{};
        fid_av* peers = nullptr;
        status = fi_av_open(domain, &peers_wanted, &peers, nullptr);
        made(peers_, status, peers);
        fi_cq_attr queue_wanted{};
        queue_wanted.format = FI_CQ_FORMAT_MSG;
        fid_cq* completions = nullptr;
        status = fi_cq_open(domain, &queue_wanted, &completions, nullptr);
        made(completions_, status, completions);
        fid_ep* endpoint = nullptr;
        status = fi_endpoint(domain, &info, &endpoint, nullptr);
        made(endpoint_, status, endpoint);
        EXPECT_EQ(fi_ep_bind(endpoint, &peers->fid, 0), 0);
        EXPECT_EQ(fi_ep_bind(endpoint, &completions->fid, FI_TRANSMIT | FI_RECV), 0);
        EXPECT_EQ(fi_enable(endpoint), 0);
        address_.resize(64);
        size_t length = address_.size();
        EXPECT_EQ(fi_getname(&endpoint->fid, address_.data(), &length), 0);
        address_.resize(length);
    }

    std::vector<char*> environment_;
    Handle<fid_fabric> fabric_;
    Handle<fid_domain> domain_;
    Handle<fid_av> peers_;
    Handle<fid_cq> completions_;
    Handle<fid_ep> endpoint_;
    std::vector<std::byte> address_;
    fi_addr_t server_ = FI_ADDR_UNSPEC;
    Descriptor socket_;
    size_t ended_ = 0;
};

Task<> senseless_frames(Stage& stage) {
    struct Attempt {
        const char* what;
        void (*change)(FrameHeader&);
        std::vector<std::byte> data;
        End end = End::violation;
    };
    const auto good = contract::good_packet();
    std::vector<Attempt> attempts{
        {"magic", [](FrameHeader& header) { header.magic ^= 1; }, good},
        {"version", [](FrameHeader& header) { header.version = 2; }, good},
        {"reserved", [](FrameHeader& header) { header.reserved = 1; }, good},
        {"again", [](FrameHeader& header) { header.sequence = 0; }, good},
        {"left out", [](FrameHeader& header) { header.sequence += 1; }, good},
        {"empty", [](FrameHeader&) {}, {}},
    };
    for (contract::BadPacket& each : contract::bad_packets()) {
        attempts.push_back({each.what, [](FrameHeader&) {}, std::move(each.data), each.end});
    }
    for (const Attempt& attempt : attempts) {
        Attacker attacker;
        co_await attacker.connect(stage);
        if (attacker.victim == nullptr) co_return;
        FrameHeader header = attacker.header();
        attempt.change(header);
        co_await attacker.send(stage, header, attempt.data);
        EXPECT_EQ(co_await attacker.how_it_ended(stage), attempt.end) << attempt.what;
        co_await attacker.finish();
    }
    EXPECT_EQ(stage.server->counters().of(End::violation).value(), attempts.size() - 1);
}
TEST(OfiAttack, MalformedFrameEndsOnlyItsSession) { run(senseless_frames); }

// Any bytes as frames, from many seeds.
Task<> garbage(Stage& stage) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        Random random(seed);
        Attacker attacker;
        co_await attacker.connect(stage);
        if (attacker.victim == nullptr) co_return;
        for (int i = 0; i < 50 && attacker.victim->alive(); ++i) {
            std::vector<std::byte> data = contract::garbage_packet(random);
            const FrameHeader head = attacker.header();
            co_await attacker.send(stage, head, std::move(data));
        }
        contract::expect_end_by_garbage(seed, co_await attacker.how_it_ended(stage));
        co_await attacker.finish();
    }
}
TEST(OfiAttack, GarbageFrameEndsOnlyItsSession) { run(garbage); }

// A frame that names none of our sessions is counted, and costs no session.
Task<> frames_for_no_session(Stage& stage) {
    Attacker attacker;
    co_await attacker.connect(stage);
    if (attacker.victim == nullptr) co_return;
    co_await attacker.send(stage, {.channel = attacker.channel + 1, .sequence = 1},
                           contract::good_packet());
    co_await attacker.send(stage, {.channel = 0, .sequence = 1}, contract::good_packet());
    co_await attacker.send_bytes(stage, std::vector<std::byte>(5));
    const Time until = stage.core().now() + patience;
    while (stage.server->counters().frames_refused.value() < 3 && stage.core().now() < until) {
        attacker.look();
        co_await yield(stage.core());
    }
    EXPECT_EQ(stage.server->counters().frames_refused.value(), 3U);
    co_await stage.bystander_is_served();
    EXPECT_TRUE(attacker.victim->alive());
    // Its own session still works.
    const FrameHeader header = attacker.header();
    co_await attacker.send(stage, header, contract::good_packet());
    auto message = co_await attacker.victim->receive();
    EXPECT_TRUE(message);
    message = {};
    co_await attacker.finish();
}
TEST(OfiAttack, FrameForUnknownSessionIsCounted) { run(frames_for_no_session); }

// More than a frame: too large for the memory that is posted, or so large that libfabric would
// fetch it from the sender. Often enough to use up that memory if it were lost.
Task<> larger_than_a_frame(Stage& stage) {
    for (const size_t size : {frame_bytes + 1, size_t{1} << 20}) {
        Attacker attacker;
        co_await attacker.connect(stage);
        if (attacker.victim == nullptr) co_return;
        for (int i = 0; i < 100; ++i) {
            const FrameHeader header = attacker.header();
            co_await attacker.send(stage, header, std::vector<std::byte>(size));
        }
        co_await stage.bystander_is_served();
        // They were dropped, so the next one is out of sequence. (One may be lost with the
        // connection that libfabric closed.)
        const Time until = stage.core().now() + patience;
        while (attacker.victim->alive() && stage.core().now() < until) {
            const FrameHeader header = attacker.header();
            co_await attacker.send(stage, header, contract::good_packet());
        }
        EXPECT_EQ(attacker.victim->ended(), End::violation) << size;
        co_await attacker.finish();
        co_await stage.bystander_is_served();
    }
}
TEST(OfiAttack, OversizedFrameEndsItsSession) { run(larger_than_a_frame); }

// libfabric's own write and read, at addresses that are mapped, known, or even granted.
Task<> one_sided_operations(Stage& stage) {
    auto granted = stage.bystander->allocate(4096);
    EXPECT_TRUE(granted);
    if (!granted) co_return;
    AlignedBuffer secret(4096);
    AlignedBuffer own(4096);
    std::memset(secret.data(), 0x5a, secret.size());
    std::memset(granted->data(), 0x5a, granted->size());
    std::memset(own.data(), 0xee, own.size());
    for (const Bytes memory : {secret.bytes(), *granted}) {
        for (const uint64_t key : {uint64_t{0}, uint64_t{1}, uint64_t{2}, ~uint64_t{0}}) {
            for (const bool write : {true, false}) {
                Attacker attacker;
                co_await attacker.connect(stage);
                if (attacker.victim == nullptr) co_return;
                const auto at = reinterpret_cast<uint64_t>(memory.data());
                const ssize_t posted = write
                                           ? fi_write(attacker.endpoint(), own.data(), own.size(),
                                                      nullptr, attacker.server(), at, key, nullptr)
                                           : fi_read(attacker.endpoint(), own.data(), own.size(),
                                                     nullptr, attacker.server(), at, key, nullptr);
                EXPECT_EQ(posted, 0);
                const Time until = stage.core().now() + std::chrono::milliseconds(20);
                while (stage.core().now() < until) {
                    attacker.look();
                    co_await yield(stage.core());
                }
                co_await attacker.finish();
            }
        }
        co_await stage.bystander_is_served();
    }
    const auto all_are = [](ConstBytes bytes, std::byte value) {
        return std::ranges::all_of(bytes, [&](std::byte each) { return each == value; });
    };
    EXPECT_TRUE(all_are(secret.bytes(), std::byte{0x5a}) && all_are(*granted, std::byte{0x5a}))
        << "written by libfabric's own operations";
    EXPECT_TRUE(all_are(own.bytes(), std::byte{0xee})) << "read by libfabric's own operations";
    stage.bystander->free(*granted);
}
TEST(OfiAttack, OneSidedOperationChangesNoMemory) { run(one_sided_operations); }

Task<> senseless_greetings(Stage& stage) {
    Attacker raw;
    std::vector<std::byte> longer = raw.address();
    longer.push_back(std::byte{0});
    std::vector<std::byte> other_family = raw.address();
    other_family[0] ^= std::byte{0x40};
    std::vector<std::byte> damaged = lanes::encode_greeting(7, raw.address());
    damaged.back() ^= std::byte{1};
    const std::vector<std::vector<std::byte>> greetings{
        {},
        damaged,
        lanes::encode_greeting(7, longer),
        lanes::encode_greeting(7, other_family),
        lanes::encode_greeting(7, std::vector<std::byte>(1)),
        lanes::encode_greeting(7, std::vector<std::byte>(4096)),
    };
    for (const auto& greeting : greetings) {
        EXPECT_FALSE(co_await raw.say_hello(stage, greeting));
        co_await raw.finish();
    }
    EXPECT_EQ(stage.server->counters().handshakes_refused.value(), greetings.size());
    // A peer that sends a valid hello and then nothing gets no endpoint.
    EXPECT_TRUE(co_await raw.say_hello(stage, lanes::encode_greeting(7, raw.address())));
    co_await stage.another_connects();
    const Time until = stage.core().now() + patience;
    while (stage.server->counters().handshakes_refused.value() == greetings.size() &&
           stage.core().now() < until) {
        co_await sleep_for(stage.core(), std::chrono::milliseconds(10));
    }
    EXPECT_EQ(stage.server->counters().handshakes_refused.value(), greetings.size() + 1);
    co_await raw.finish();
}
TEST(OfiAttack, MalformedGreetingIsRefused) {
    run(senseless_greetings,
        {.limits = {.reply_bytes = 256}, .handshake_within = std::chrono::milliseconds(500)});
}

}  // namespace
}  // namespace ros2s::fabric::ofi

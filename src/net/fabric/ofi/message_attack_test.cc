// Hosts over ofi+verbs that send false keys of their memory, write to memory of the server, or send
// random bytes. The adapter refuses, and only the session of the attacker ends. The test runs on
// the adapter in the environment variable ROS2STORE_TEST_OFI, for example "ofi+verbs rxe0", and is
// skipped without one.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "message_worker.h"
#include "ros2s/fabric/contract/attack_shapes.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/fabric/socket/socket_listener.h"
#include "selection.h"

namespace ros2s::fabric::ofi {
namespace {

using contract::Stage;
using lanes::FrameHeader;

constexpr Duration peer_patience = std::chrono::seconds(60);
constexpr size_t memory_bytes = 8192;

Options tested_verbs() {
    const char* named = std::getenv("ROS2STORE_TEST_OFI");
    const std::string text = named != nullptr ? named : "";
    if (!text.starts_with("ofi+verbs ")) return {.provider = "", .device = ""};
    return {.provider = "ofi+verbs", .device = text.substr(text.find(' ') + 1)};
}

// As if the application had loaded the library first: with an unchanged environment.
[[noreturn]] void open_second() {
    void* library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    ROS2S_CHECK(library != nullptr);
    const auto get_info = reinterpret_cast<decltype(&::fi_getinfo)>(dlsym(library, "fi_getinfo"));
    fi_info* found = nullptr;
    ROS2S_CHECK(get_info != nullptr &&
                get_info(api_version, nullptr, nullptr, 0, nullptr, &found) == 0);
    Report report;
    const auto choice = select(tested_verbs(), look_at_machine(), report);
    ROS2S_CHECK(choice.has_value());
    const auto opened = MessageContext::open(tested_verbs(), *choice, report);
    std::fprintf(stderr, "%s\n", opened ? "opened" : report.text().c_str());
    _exit(0);
}

// A message endpoint by hand, and a session through it.
class MessageAttacker {
  public:
    MessageAttacker() : context_(open()), memory(memory_bytes) {
        std::memset(memory.data(), 0x5a, memory.size());
        received_into_ = own(incoming_.bytes(), FI_RECV);
        sent_from_ = own(buffer_.bytes(), FI_SEND | FI_RECV | FI_READ | FI_WRITE);
    }

    Task<bool> say_hello(Stage& stage) {
        const auto welcome = co_await contract::say_hello(
            stage, socket_, "ofi+verbs", domain, lanes::encode_greeting(7, context_.address()));
        EXPECT_TRUE(welcome);
        if (!welcome) co_return false;
        session = welcome->hello.session;
        const auto decoded = lanes::decode_greeting(welcome->greeting);
        EXPECT_TRUE(decoded);
        if (!decoded) co_return false;
        channel = decoded->channel;
        server_ = decoded->address;
        co_return true;
    }

    // Requests a connection of the adapter. Returns whether it was accepted.
    Task<bool> ask(Stage& stage, ConnectionRequest request) {
        endpoint_ = context_.make_endpoint(server_);
        EXPECT_NE(endpoint_, nullptr);
        for (size_t i = 0; i < MessageContext::receives_max; ++i) {
            EXPECT_EQ(fi_recv(endpoint_.get(), incoming_.data(), incoming_.size(),
                              fi_mr_desc(received_into_.get()), 0, &received_into_),
                      0);
        }
        EXPECT_EQ(fi_connect(endpoint_.get(), server_.data(), &request, sizeof request), 0);
        const Time until = stage.core().now() + peer_patience;
        while (stage.core().now() < until) {
            fi_eq_cm_entry entry{};
            uint32_t event = 0;
            const ssize_t got = fi_eq_read(context_.events(), &event, &entry, sizeof entry, 0);
            if (got == -FI_EAVAIL) {
                fi_eq_err_entry error{};
                (void)fi_eq_readerr(context_.events(), &error, 0);
                co_return false;
            }
            if (got > 0) co_return event == FI_CONNECTED;
            co_await yield(stage.core());
        }
        ADD_FAILURE() << "nothing came of a request for a connection";
        co_return false;
    }

    // A session of its own, and the server's endpoint for it.
    Task<> connect(Stage& stage) {
        if (!co_await say_hello(stage)) co_return;
        EXPECT_TRUE(co_await ask(stage, {.channel = channel}));
        co_await send(stage, header(), {});
        auto accepted = co_await stage.listener->accept();
        EXPECT_TRUE(accepted);
        if (accepted) victim = std::move(*accepted);
    }

    [[nodiscard]] FrameHeader header() { return {.channel = channel, .sequence = sequence++}; }
    Task<> send(Stage& stage, FrameHeader head, std::vector<std::byte> data) {
        std::memcpy(buffer_.data(), &head, sizeof head);
        if (!data.empty()) std::memcpy(buffer_.data() + sizeof head, data.data(), data.size());
        co_await send_bytes(stage, sizeof head + data.size());
    }
    Task<> send_bytes(Stage& stage, size_t count) {
        EXPECT_EQ(fi_send(endpoint_.get(), buffer_.data(), count, fi_mr_desc(sent_from_.get()), 0,
                          nullptr),
                  0);
        co_await gone(stage);
    }
    // Writes to, or reads, the server's memory.
    Task<> reach_for(Stage& stage, bool write, uint64_t address, uint64_t key) {
        void* const descriptor = fi_mr_desc(sent_from_.get());
        EXPECT_EQ(write ? fi_write(endpoint_.get(), buffer_.data(), 4096, descriptor, 0, address,
                                   key, nullptr)
                        : fi_read(endpoint_.get(), buffer_.data(), 4096, descriptor, 0, address,
                                  key, nullptr),
                  0);
        co_await gone(stage);
    }
    // Waits until all operations that the adapter has are over.
    Task<> gone(Stage& stage) {
        const Time until = stage.core().now() + peer_patience;
        while (stage.core().now() < until) {
            fi_cq_msg_entry entry{};
            ssize_t count = fi_cq_read(context_.completions(), &entry, 1);
            if (count == -FI_EAVAIL) {
                fi_cq_err_entry error{};
                count = fi_cq_readerr(context_.completions(), &error, 0);
                entry.op_context = error.op_context;
            }
            if (count > 0 && entry.op_context == nullptr) co_return;
            co_await yield(stage.core());
        }
        ADD_FAILURE() << "the attacker's operation does not end";
    }

    // Announces that the adapter has this range of `memory` under this key.
    Task<RemoteKey> announce(Stage& stage, uint64_t native, uint64_t length) {
        RemoteKey key{.rights = Rights::read_write,
                      .domain = domain,
                      .session = session,
                      .slot = slots_++,
                      .generation = 1,
                      .address = reinterpret_cast<uint64_t>(memory.data()),
                      .length = length,
                      .native_bytes = sizeof native};
        std::memcpy(key.native.data(), &native, sizeof native);
        key.seal();
        const Packet said{
            .type = Packet::Type::granted, .length = sizeof key, .count = Packet::for_ever};
        std::vector<std::byte> frame(sizeof said + sizeof key);
        std::memcpy(frame.data(), &said, sizeof said);
        std::memcpy(frame.data() + sizeof said, &key, sizeof key);
        // Then sends a message, so that the victim knows that it arrived.
        const Packet message{.type = Packet::Type::message};
        const ConstBytes behind = object_bytes(message);
        frame.insert(frame.end(), behind.begin(), behind.end());
        const FrameHeader head = header();
        co_await send(stage, head, std::move(frame));
        auto heard = co_await victim->receive();
        EXPECT_TRUE(heard);
        co_return key;
    }
    [[nodiscard]] Handle<fid_mr> own(Bytes bytes, uint64_t access) {
        fid_mr* made = nullptr;
        EXPECT_EQ(fi_mr_reg(context_.domain(), bytes.data(), bytes.size(), access, 0, 0, 0, &made,
                            nullptr),
                  0);
        return Handle<fid_mr>(made);
    }

    Task<End> how_it_ended(Stage& stage) { return contract::how_it_ended(stage, *victim); }
    Task<> finish() {
        endpoint_.reset();
        socket_.reset();
        if (victim != nullptr) co_await victim->close();
        victim.reset();
    }

  private:
    static MessageContext open() {
        Report report;
        const Options options = tested_verbs();
        const auto choice = select(options, look_at_machine(), report);
        EXPECT_TRUE(choice) << report.text();
        auto opened = MessageContext::open(options, *choice, report);
        EXPECT_TRUE(opened) << report.text();
        return std::move(*opened);
    }

    MessageContext context_;
    AlignedBuffer buffer_{PacketBuffer::size + 4096};
    AlignedBuffer incoming_{PacketBuffer::size};
    Handle<fid_mr> sent_from_;
    Handle<fid_mr> received_into_;
    Handle<fid_ep> endpoint_;
    std::vector<std::byte> server_;
    Descriptor socket_;
    uint32_t slots_ = 0;

  public:
    AlignedBuffer memory;
    uint64_t domain = 4711;
    uint64_t session = 0;
    uint64_t channel = 0;
    uint64_t sequence = 0;
    std::unique_ptr<Endpoint> victim;
};

void run_message(Task<> (*test)(Stage&)) {
    if (tested_verbs().provider.empty()) GTEST_SKIP() << "ROS2STORE_TEST_OFI names no adapter";
    Stage stage([](Reactor& reactor,
                   Report& report) { return open_domain(reactor, tested_verbs(), report); },
                {.limits = {.reply_bytes = 256}});
    stage.run([&] { return test(stage); });
}

bool all_are(ConstBytes bytes, int value) {
    return std::ranges::all_of(
        bytes, [&](std::byte each) { return each == static_cast<std::byte>(value); });
}

// A false use of a host's key.
struct Lie {
    const char* what;
    uint64_t access;
    bool put;
    // The key that is announced, given the registration of half the memory.
    uint64_t (*key)(MessageAttacker& attacker, MessageAttacker& other, Handle<fid_mr>& half);
};

uint64_t as_it_is(MessageAttacker&, MessageAttacker&, Handle<fid_mr>& half) {
    return fi_mr_key(half.get());
}

const std::array<Lie, 8> lies{{
    {"forged", FI_REMOTE_WRITE, true,
     [](MessageAttacker&, MessageAttacker&, Handle<fid_mr>& half) {
         return fi_mr_key(half.get()) ^ 0x5500;
     }},
    {"forged, to read", FI_REMOTE_READ, false,
     [](MessageAttacker&, MessageAttacker&, Handle<fid_mr>& half) {
         return fi_mr_key(half.get()) ^ 0x5500;
     }},
    {"of another protection domain", FI_REMOTE_WRITE, true,
     [](MessageAttacker& attacker, MessageAttacker& other, Handle<fid_mr>& half) {
         half = other.own(attacker.memory.bytes(), FI_REMOTE_WRITE);
         return fi_mr_key(half.get());
     }},
    {"revoked", FI_REMOTE_WRITE, true,
     [](MessageAttacker&, MessageAttacker&, Handle<fid_mr>& half) {
         const uint64_t key = fi_mr_key(half.get());
         half.reset();
         return key;
     }},
    {"revoked, to read", FI_REMOTE_READ, false,
     [](MessageAttacker&, MessageAttacker&, Handle<fid_mr>& half) {
         const uint64_t key = fi_mr_key(half.get());
         half.reset();
         return key;
     }},
    {"out of range", FI_REMOTE_WRITE, true, as_it_is},
    {"without the right to write", FI_REMOTE_READ, true, as_it_is},
    {"without the right to read", FI_REMOTE_WRITE, false, as_it_is},
}};

// The adapter refuses each. The peer's session ends, it may connect again, and a valid key works.
Task<> false_keys(Stage& stage) {
    MessageAttacker other;
    uint64_t violations = 0;
    for (const Lie& lie : lies) {
        SCOPED_TRACE(lie.what);
        MessageAttacker attacker;
        co_await attacker.connect(stage);
        if (attacker.victim == nullptr) co_return;
        auto half = attacker.own(attacker.memory.bytes().first(memory_bytes / 2), lie.access);
        const uint64_t native = lie.key(attacker, other, half);
        const RemoteKey key = co_await attacker.announce(stage, native, memory_bytes);
        AlignedBuffer bytes(memory_bytes);
        std::memset(bytes.data(), 0xab, bytes.size());
        const auto moved = lie.put ? co_await attacker.victim->put(key, 0, bytes.bytes())
                                   : co_await attacker.victim->get(key, 0, bytes.bytes());
        EXPECT_FALSE(moved);
        if (!moved) EXPECT_EQ(moved.error().code, Code::disconnected);
        EXPECT_EQ(co_await attacker.how_it_ended(stage), End::violation);
        EXPECT_EQ(stage.server->counters().of(End::violation).value(), ++violations);
        EXPECT_TRUE(all_are(attacker.memory.bytes(), 0x5a) ||
                    std::string(lie.what) == "out of range");
        EXPECT_TRUE(all_are(attacker.memory.bytes().subspan(memory_bytes / 2), 0x5a));
        EXPECT_TRUE(all_are(bytes.bytes(), 0xab));
        co_await attacker.finish();
        co_await stage.bystander_is_served();
    }
    MessageAttacker reformed;
    co_await reformed.connect(stage);
    if (reformed.victim == nullptr) co_return;
    const auto whole = reformed.own(reformed.memory.bytes(), FI_REMOTE_WRITE | FI_REMOTE_READ);
    const RemoteKey key = co_await reformed.announce(stage, fi_mr_key(whole.get()), memory_bytes);
    AlignedBuffer bytes(memory_bytes);
    std::memset(bytes.data(), 0xab, bytes.size());
    EXPECT_TRUE(co_await reformed.victim->put(key, 0, bytes.bytes()));
    EXPECT_TRUE(all_are(reformed.memory.bytes(), 0xab));
    EXPECT_GT(stage.server->counters().one_sided.value(), 0U);
    co_await reformed.finish();
}
TEST(OfiMessageAttack, FalseKeyEndsOnlyItsSession) { run_message(false_keys); }

// The accepting side exposes nothing, with any key.
Task<> reaches(Stage& stage) {
    AlignedBuffer secret(4096);
    std::memset(secret.data(), 0x5a, secret.size());
    const auto at = reinterpret_cast<uint64_t>(secret.data());
    for (const bool write : {true, false}) {
        // Adapters number their keys: those of the server's own buffers are among the first.
        for (uint64_t key = 0; key < 4; ++key) {
            MessageAttacker attacker;
            co_await attacker.connect(stage);
            if (attacker.victim == nullptr) co_return;
            co_await attacker.reach_for(stage, write, at, key << 8);
            EXPECT_NE(co_await attacker.how_it_ended(stage), End::none);
            co_await attacker.finish();
        }
        co_await stage.bystander_is_served();
    }
    EXPECT_TRUE(all_are(secret.bytes(), 0x5a));
}
TEST(OfiMessageAttack, ServerMemoryIsUnreachable) { run_message(reaches); }

// Any bytes as frames, from many seeds.
Task<> message_garbage(Stage& stage) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        Random random(seed);
        MessageAttacker attacker;
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
TEST(OfiMessageAttack, GarbageFrameEndsOnlyItsSession) { run_message(message_garbage); }

// Frames of another session, less than a header, more than a frame: each ends the session of the
// endpoint that received it.
Task<> senseless_messages(Stage& stage) {
    struct {
        const char* what;
        size_t count;
        uint64_t channel_off;
    } const attempts[] = {{"another's channel", sizeof(FrameHeader) + 64, 1},
                          {"less than a header", 5, 0},
                          {"nothing", 0, 0},
                          {"more than a frame", PacketBuffer::size + 1, 0}};
    for (const auto& attempt : attempts) {
        MessageAttacker attacker;
        co_await attacker.connect(stage);
        if (attacker.victim == nullptr) co_return;
        attacker.channel += attempt.channel_off;
        const FrameHeader head = attacker.header();
        std::vector<std::byte> data(attempt.count > sizeof head ? attempt.count - sizeof head : 0);
        if (attempt.count >= sizeof head) {
            co_await attacker.send(stage, head, std::move(data));
        } else {
            co_await attacker.send_bytes(stage, attempt.count);
        }
        EXPECT_NE(co_await attacker.how_it_ended(stage), End::none) << attempt.what;
        co_await attacker.finish();
        co_await stage.bystander_is_served();
    }
}
TEST(OfiMessageAttack, MalformedMessageEndsOnlyItsSession) { run_message(senseless_messages); }

// Memory that the adapter does not accept is `invalid`, and the connection stays: rpc then uses
// other memory.
Task<> not_to_be_registered(Stage& stage) {
    void* const none = mmap(nullptr, memory_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(none, MAP_FAILED);
    const Bytes memory(static_cast<std::byte*>(none), memory_bytes);
    EXPECT_EQ(stage.bystander->grant(memory, Rights::write).error().code, Code::invalid);
    EXPECT_EQ(munmap(none, memory_bytes), 0);
    co_await stage.bystander_is_served();
}
TEST(OfiMessageAttack, UnregistrableMemoryIsInvalid) { run_message(not_to_be_registered); }

// This machine's, as its kernel counts them.
size_t connection_identifiers() {
    FILE* const said = ::popen("rdma resource show cm_id", "r");
    size_t lines = 0;
    for (int c = 0; (c = std::fgetc(said)) != EOF;) lines += c == '\n' ? 1 : 0;
    ::pclose(said);
    return lines;
}

// A request for a connection that names no waiting session.
Task<> uninvited(Stage& stage) {
    MessageAttacker attacker;
    if (!co_await attacker.say_hello(stage)) co_return;
    EXPECT_FALSE(co_await attacker.ask(stage, {.channel = attacker.channel + 1}));
    EXPECT_FALSE(co_await attacker.ask(stage, {.magic = 1, .channel = attacker.channel}));
    EXPECT_EQ(stage.server->counters().frames_refused.value(), 2U);
    const size_t before = connection_identifiers();
    for (int i = 0; i < 40; ++i) {
        EXPECT_FALSE(co_await attacker.ask(stage, {.magic = 1, .channel = attacker.channel}));
    }
    EXPECT_LT(connection_identifiers(), before + 10);
    EXPECT_TRUE(co_await attacker.ask(stage, {.channel = attacker.channel}));
    co_await attacker.finish();
}
TEST(OfiMessageAttack, UnannouncedConnectionIsRefused) { run_message(uninvited); }

TEST(OfiMessageAttack, RegistrationCacheIsRefused) {
    if (tested_verbs().provider.empty()) GTEST_SKIP() << "ROS2STORE_TEST_OFI names no adapter";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(open_second(), testing::ExitedWithCode(0), "stays open to peers");
}

}  // namespace
}  // namespace ros2s::fabric::ofi

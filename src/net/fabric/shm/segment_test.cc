// A client accepts only valid segments from a server. The server survives a client that is killed
// during a transfer.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "extents.h"
#include "segment.h"
#include "test_support/attack.h"

namespace ros2s::fabric::shm {
namespace {

constexpr int good_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Descriptor memory(uint64_t size, int seals, unsigned flags = 0) {
    Descriptor made(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
    if (!made.open()) return made;
    EXPECT_EQ(ftruncate(made.get(), static_cast<off_t>(size)), 0);
    EXPECT_EQ(fcntl(made.get(), F_ADD_SEALS, seals), 0);
    return made;
}

TEST(ShmSegment, OnlySealedMemoryOfRightSizeIsAccepted) {
    Report report;
    EXPECT_TRUE(Segment::take_in(memory(8192, good_seals), 8192, report)) << report.text();
    for (const int seals : {0, F_SEAL_SHRINK, F_SEAL_GROW | F_SEAL_SEAL,
                            F_SEAL_SHRINK | F_SEAL_GROW, F_SEAL_SHRINK | F_SEAL_SEAL}) {
        Report why;
        const auto refused = Segment::take_in(memory(8192, seals), 8192, why);
        EXPECT_EQ(refused.error().code, Code::denied) << seals;
        EXPECT_NE(why.text().find("sealed"), std::string::npos) << why.text();
    }
    for (const uint64_t size : {uint64_t{4096}, uint64_t{8191}, uint64_t{16384}}) {
        Report why;
        EXPECT_EQ(Segment::take_in(memory(size, good_seals), 8192, why).error().code, Code::denied);
        EXPECT_NE(why.text().find("8192"), std::string::npos) << why.text();
    }
}

TEST(ShmSegment, PipeFileOrHugePageIsRefused) {
    Report report;
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const Descriptor writing(pipe[1]);
    EXPECT_EQ(Segment::take_in(Descriptor(pipe[0]), 4096, report).error().code, Code::denied);
    char path[] = "/tmp/ros2store-test-XXXXXX";
    Descriptor file(mkostemp(path, O_CLOEXEC));
    unlink(path);
    ASSERT_EQ(ftruncate(file.get(), 4096), 0);
    EXPECT_EQ(Segment::take_in(std::move(file), 4096, report).error().code, Code::denied);
    Descriptor huge(memory(2 << 20, good_seals, MFD_HUGETLB));
    if (!huge.open()) GTEST_SKIP() << "this kernel has no huge pages";
    Report why;
    EXPECT_EQ(Segment::take_in(std::move(huge), 2 << 20, why).error().code, Code::denied);
    EXPECT_NE(why.text().find("huge"), std::string::npos) << why.text();
}

// A server that follows the protocol but sends invalid memory.
struct EvilServer {
    ShmHello layout{.to_server_bytes = ring_bytes_least,
                    .to_client_bytes = ring_bytes_least,
                    .payload_bytes = 1 << 20,
                    .slots = 16};
    int control_seals = good_seals;
    int payload_seals = good_seals;
    uint64_t payload_bytes = 1 << 20;
    size_t descriptors = 2;
};
Task<> serve_evil(Reactor& core, int listening, EvilServer evil) {
    Descriptor peer;
    while (!peer.open()) {
        peer = Descriptor(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        co_await yield(core);
    }
    std::array<std::byte, sizeof(Hello)> bytes{};
    (void)co_await receive_all(core, peer.get(), bytes, {});
    Hello answer{.domain = 1,
                 .session = 2,
                 .message_bytes_max = 1000,
                 .incoming_bytes_max = 10000,
                 .operations_max = 1,
                 .appended_bytes = sizeof(ShmHello)};
    answer.set_provider("shm");
    Hello admitted = answer;
    admitted.appended_bytes = 0;
    admitted.seal();
    (void)co_await send_all(core, peer.get(), object_bytes(admitted), {});
    answer.seal();
    const Descriptor control = memory(control_bytes(evil.layout), evil.control_seals);
    const Descriptor payload = memory(evil.payload_bytes, evil.payload_seals);
    std::vector<int> sent{control.get(), payload.get(), control.get()};
    sent.resize(evil.descriptors);
    (void)co_await send_descriptors(core, peer.get(), object_bytes(answer), sent, {});
    (void)co_await send_all(core, peer.get(), object_bytes(evil.layout), {});
    std::array<std::byte, 1> byte{};
    (void)co_await receive_all(core, peer.get(), byte, {});
}
Task<> meet_evil(Stage& stage) {
    const auto changed = [](auto change) {
        EvilServer evil;
        change(evil);
        // A changed layout has numbers that agree with each other.
        if (evil.layout.control_bytes == 0) evil.layout.control_bytes = control_bytes(evil.layout);
        return evil;
    };
    const EvilServer servers[] = {
        changed([](EvilServer& evil) { evil.control_seals = 0; }),
        changed([](EvilServer& evil) { evil.payload_seals = F_SEAL_GROW; }),
        changed([](EvilServer& evil) { evil.payload_bytes = 4096; }),
        changed([](EvilServer& evil) { evil.payload_bytes = 2 << 20; }),
        changed([](EvilServer& evil) {
            evil.payload_bytes = evil.layout.payload_bytes = 2 << 20;  // more than requested
        }),
        changed([](EvilServer& evil) { evil.descriptors = 0; }),
        changed([](EvilServer& evil) { evil.descriptors = 1; }),
        changed([](EvilServer& evil) { evil.descriptors = 3; }),
        changed([](EvilServer& evil) { evil.layout.control_bytes = 4096; }),
        changed([](EvilServer& evil) { evil.layout.slots = 0; }),
    };
    // The first one is honest.
    for (size_t i = 0; i <= std::size(servers); ++i) {
        const EvilServer evil = i == 0 ? changed([](EvilServer&) {}) : servers[i - 1];
        std::string address = stage.address() + "-evil";
        Report report;
        const auto listening = listen_on(address, report);
        EXPECT_TRUE(listening) << report.text();
        if (!listening) co_return;
        Nursery nursery(stage.core(), 1);
        co_await nursery.spawn(serve_evil(stage.core(), listening->get(), evil));
        Report why;
        const auto connected =
            co_await stage.honest->connect(address, {.limits = {.memory_bytes_max = 1 << 20}}, why);
        EXPECT_EQ(connected.has_value(), i == 0) << i << ": " << why.text();
        if (connected) {
            co_await (*connected)->close();
        } else {
            EXPECT_EQ(connected.error().code, Code::denied) << i << ": " << why.text();
            EXPECT_FALSE(why.empty()) << i;
        }
        co_await nursery.join();
        remove_socket_file(address);
    }
}
TEST(ShmSegment, FalseServerSegmentIsRefusedByClient) { Stage().run(meet_evil); }

TEST(ShmExtents, FreedExtentsAreMerged) {
    constexpr uint64_t seed = 3;
    Random random(seed);
    Extents extents(1 << 20);
    std::map<uint64_t, uint64_t> taken;
    for (int i = 0; i < 20'000; ++i) {
        if (taken.empty() || random.one_in(2)) {
            const uint64_t size = block_bytes * (1 + random.below(20));
            const auto at = extents.take(size);
            if (!at) continue;
            const auto after = taken.lower_bound(*at);
            ASSERT_TRUE(after == taken.end() || *at + size <= after->first) << "seed " << seed;
            ASSERT_TRUE(after == taken.begin() ||
                        std::prev(after)->first + std::prev(after)->second <= *at);
            ASSERT_LE(*at + size, uint64_t{1} << 20);
            taken[*at] = size;
        } else {
            auto victim = taken.begin();
            std::advance(victim, static_cast<ptrdiff_t>(random.below(taken.size())));
            extents.give(victim->first, victim->second);
            taken.erase(victim);
        }
    }
    for (const auto& [at, size] : taken) extents.give(at, size);
    EXPECT_EQ(extents.take(1 << 20), 0U);
}

// A process that is killed during a put and a get.
Task<> lend_for_ever(Reactor& core, Domain& domain, std::string address) {
    Report report;
    auto connected = co_await domain.connect(address, {}, report);
    if (!connected) _exit(3);
    auto borrowed = (*connected)->allocate(32 << 20);
    auto region = (*connected)->grant(*borrowed, Rights::read_write);
    if (!region) _exit(4);
    (void)co_await (*connected)->send(object_bytes(region->key()));
    while (true) co_await sleep_for(core, std::chrono::seconds(1));
}
pid_t child_of_test = 0;
int where_to_connect = -1;  // the child reads the address from its other end
Task<> killed_midway(Stage& stage) {
    // Sent only now: before, the child might be accepted instead of the bystander.
    EXPECT_GT(write(where_to_connect, stage.address().data(), stage.address().size()), 0);
    auto accepted = co_await stage.listener->accept();
    EXPECT_TRUE(accepted);
    if (!accepted) co_return;
    Endpoint& endpoint = **accepted;
    EXPECT_EQ(endpoint.peer().process, child_of_test);
    EXPECT_EQ(endpoint.peer().user, getuid());
    {
        auto message = co_await endpoint.receive();
        EXPECT_TRUE(message);
        if (!message) co_return;
        const RemoteKey key = RemoteKey::decode(message->bytes()).value();
        AlignedBuffer buffer(32 << 20);
        for (int i = 0;; ++i) {
            if (i == 3) kill(child_of_test, SIGKILL);
            const auto put = co_await endpoint.put(key, 0, buffer.bytes());
            if (!put) EXPECT_EQ(put.error().code, Code::disconnected);
            if (!put) break;
        }
    }
    EXPECT_EQ(endpoint.ended(), End::peer_died);
    co_await endpoint.close();
}
TEST(ShmClientDeath, KilledClientIsReportedAsDead) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    child_of_test = fork();
    ASSERT_GE(child_of_test, 0);
    if (child_of_test == 0) {
        char address[256] = {};
        if (read(pipe[0], address, sizeof address - 1) <= 0) _exit(2);
        Report report;
        auto reactor = OsReactor::create({}, report);
        if (!reactor) _exit(5);
        auto domain = open_domain(**reactor);
        (*reactor)->run(lend_for_ever(**reactor, *domain, address));
    }
    where_to_connect = pipe[1];
    Stage().run(killed_midway);
    int status = 0;
    EXPECT_EQ(waitpid(child_of_test, &status, 0), child_of_test);
    EXPECT_TRUE(WIFSIGNALED(status));
}

}  // namespace
}  // namespace ros2s::fabric::shm

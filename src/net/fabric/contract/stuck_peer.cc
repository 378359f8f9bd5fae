#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "cases.h"
#include "ros2s/runtime/nursery.h"
#include "stage.h"

namespace ros2s::fabric::contract {
namespace {

// The peer: connects, grants memory, sends the key, and then does nothing any more.
Task<> grant_and_stop(Reactor& core, OpenDomain open, std::string address) {
    Report report;
    auto domain = open(core, report);
    if (!domain) _exit(2);
    auto endpoint = co_await (*domain)->connect(address, {}, report);
    if (!endpoint) _exit(3);
    auto memory = (*endpoint)->allocate(32 * mib);
    if (!memory) _exit(4);
    auto region = (*endpoint)->grant(*memory, Rights::read_write);
    if (!region) _exit(5);
    if (!co_await (*endpoint)->send(object_bytes(region->key()))) _exit(6);
    // Until the message is sent; then this thread blocks for ever.
    co_await sleep_for(core, std::chrono::milliseconds(50));
    while (true) pause();
}

[[noreturn]] void stuck_peer(const OpenDomain& open, int pipe) {
    std::array<char, 64> address{};
    if (read(pipe, address.data(), address.size() - 1) <= 0) _exit(1);
    const auto reactor = made_reactor();
    reactor->run(grant_and_stop(*reactor, open, address.data()));
    _exit(9);
}

struct Child {
    pid_t process = -1;
    int pipe = -1;
};

Task<> put_for_ever(Endpoint& endpoint, RemoteKey key, Result<>& result) {
    AlignedBuffer buffer(8 * mib);
    while (result) result = co_await endpoint.put(key, 0, buffer.bytes());
}

Task<> stuck(Stage& stage, Child child) {
    const std::string address = stage.address();
    EXPECT_EQ(write(child.pipe, address.c_str(), address.size()),
              static_cast<ssize_t>(address.size()));
    auto accepted = co_await stage.listener->accept();
    EXPECT_TRUE(accepted);
    if (!accepted) co_return;
    const std::unique_ptr<Endpoint> victim = std::move(*accepted);
    RemoteKey key;
    {
        auto message = co_await victim->receive();
        EXPECT_TRUE(message);
        if (message) key = RemoteKey::decode(message->bytes()).value_or(RemoteKey{});
    }
    Result<> first;
    Result<> second;
    Nursery nursery(stage.core(), 2);
    co_await nursery.spawn(put_for_ever(*victim, key, first));
    co_await nursery.spawn(put_for_ever(*victim, key, second));
    // Its transfer stops; others are not affected.
    const Counters& counters = stage.server->counters();
    uint64_t before = ~uint64_t{0};
    const Time until = stage.core().now() + std::chrono::seconds(30);
    while (counters.put_bytes.value() != before && stage.core().now() < until) {
        co_await sleep_for(stage.core(), std::chrono::milliseconds(200));
        before = counters.put_bytes.value();
        co_await sleep_for(stage.core(), std::chrono::milliseconds(200));
    }
    EXPECT_TRUE(victim->alive());
    co_await stage.bystander_is_served();
    // Its session is ended, without waiting for it.
    victim->abandon();
    co_await victim->close();
    co_await nursery.join();
    EXPECT_EQ(first.error().code, Code::disconnected);
    EXPECT_EQ(second.error().code, Code::disconnected);
    co_await stage.bystander_is_served();
    // Now it dies, while bytes for it are still in transit.
    kill(child.process, SIGKILL);
    int status = 0;
    EXPECT_EQ(waitpid(child.process, &status, 0), child.process);
    EXPECT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    for (int i = 0; i < 20; ++i) {
        co_await stage.bystander_is_served();
        co_await sleep_for(stage.core(), std::chrono::milliseconds(10));
    }
}

}  // namespace

void stuck_peer_costs_its_own_session(const OpenDomain& open) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const pid_t process = fork();
    ASSERT_GE(process, 0);
    if (process == 0) {
        close(pipe[1]);
        stuck_peer(open, pipe[0]);
    }
    close(pipe[0]);
    Stage stage(open, {.limits = {.reply_bytes = 256}});
    const Child child{process, pipe[1]};
    stage.run([&stage, child] { return stuck(stage, child); });
    close(pipe[1]);
}

}  // namespace ros2s::fabric::contract

// The order in which requests copy their payload into memory that can be granted.
#include "windows.h"

#include <gtest/gtest.h>

#include "ros2s/fabric/sim/network.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"
#include "ros2s/runtime/slices.h"

namespace ros2s::rpc {
namespace {

constexpr size_t slices = SliceTurns::turn_bytes / slice_bytes;

struct TwoRequests {
    sim::World world{1};
    fabric::sim::Network network{world.random()};
    size_t turns = 0;  // of the core
    bool done = false;

    static Task<> count_turns(TwoRequests& self) {
        for (; !self.done; ++self.turns) co_await yield(self.world.core());
    }
    // Opens windows on more pieces than can be granted in place. Says in which turn it ended.
    static Task<> open(TwoRequests& self, Windows& windows, size_t& ended_at) {
        std::vector<std::byte> memory(slices * slice_bytes);
        std::vector<ConstBytes> pieces;
        const size_t size = memory.size() / (windows_max + 1);
        for (size_t i = 0; i <= windows_max; ++i) {
            pieces.push_back(ConstBytes(memory).subspan(i * size, size - 1));
        }
        EXPECT_TRUE(co_await windows.open(pieces, {}, {}));
        ended_at = self.turns;
    }
    static Task<> open_two(TwoRequests& self, fabric::Endpoint& endpoint) {
        Reactor& core = self.world.core();
        Staging staging(core, endpoint);
        ChannelMetrics metrics;
        Windows first(endpoint, staging, metrics), second(endpoint, staging, metrics);
        size_t first_end = 0, second_end = 0;
        Nursery counting(core, 1), nursery(core, 2);
        co_await counting.spawn(count_turns(self));
        co_await nursery.spawn(open(self, first, first_end));
        co_await nursery.spawn(open(self, second, second_end));
        co_await nursery.join();
        self.done = true;
        co_await counting.join();
        // Others run between the slices, but not the other request.
        EXPECT_GE(first_end, slices / 2);
        EXPECT_GE(second_end, first_end + slices / 2);
        for (Windows* const each : {&first, &second}) {
            co_await each->revoke();
            each->free();
        }
    }
    static Task<> run(TwoRequests& self) {
        Reactor& core = self.world.core();
        Report report;
        const auto server = self.network.open_domain(core, "server");
        const auto client = self.network.open_domain(core, "client");
        auto listener = (co_await server->listen("there", {}, report)).value();
        auto near = (co_await client->connect("there", {}, report)).value();
        auto far = (co_await listener->accept()).value();
        co_await open_two(self, *near);
        co_await near->close();
        co_await far->close();
        co_await listener->close();
        co_await client->close();
        co_await server->close();
    }
};

TEST(PayloadWindows, RequestsCopyPayloadsInSequence) {
    TwoRequests requests;
    requests.world.run(TwoRequests::run(requests));
}

}  // namespace
}  // namespace ros2s::rpc

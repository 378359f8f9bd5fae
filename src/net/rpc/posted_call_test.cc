// Posted calls over the simulated network: their replies, and what ends one without a reply.
#include "ros2s/rpc/posted_call.h"

#include <optional>

#include "test_support/rpc.h"

namespace ros2s::rpc {
namespace {

using namespace std::chrono_literals;

class NotedCall final : public PostedCall {
  public:
    std::optional<std::vector<std::byte>> body;
    bool is_lost = false;

  private:
    void replied(const PostedReply& reply) noexcept override {
        EXPECT_TRUE(reply.payload.first.empty() && reply.payload.second.empty());
        body.emplace(reply.body.begin(), reply.body.end());
    }
    void lost() noexcept override { is_lost = true; }
};

struct PostStage : Stage {
    PostStage() : Stage(1) {}
    void run(Task<> (*body)(PostStage&)) { world.run(whole(*this, body)); }
    static Task<> whole(PostStage& self, Task<> (*body)(PostStage&)) {
        co_await self.start();
        auto connected = co_await self.connect();
        EXPECT_TRUE(connected) << self.report.text();
        self.channel = std::move(*connected);
        co_await body(self);
        self.service.opened.set();
        co_await self.leave(self.channel);
        co_await self.stop();
    }
    bool post(PostedCall& posted, uint16_t method, ConstBytes body = {}, uint64_t bytes = 0) {
        return channel->post(1, {.method = method, .body = body, .payload_bytes = bytes}, posted);
    }
    Task<> wait_a_moment() { co_await sleep_for(core(), 10ms); }
    std::unique_ptr<Channel> channel;
};

Task<> echoed(PostStage& stage) {
    std::vector<std::byte> body(300);
    fill(body, 1);
    NotedCall posted;
    for (int again = 0; again < 2; ++again) {
        EXPECT_TRUE(stage.post(posted, echo, body));
        co_await stage.wait_a_moment();
        EXPECT_EQ(posted.body, body);
        posted.body.reset();
    }
    EXPECT_FALSE(posted.is_lost);
    EXPECT_EQ(stage.channel->metrics().requests.value(), 2U);
    posted.drop();  // does nothing
    EXPECT_EQ(stage.channel->metrics().requests_given_up.value(), 0U);
}
TEST(PostedCall, ReplyIsReadOnce) { PostStage().run(echoed); }

// A head that is larger than what is read in place.
Task<> large_body(PostStage& stage) {
    std::vector<std::byte> body(4000);
    fill(body, 1);
    NotedCall posted;
    EXPECT_TRUE(stage.post(posted, echo, body));
    co_await stage.wait_a_moment();
    EXPECT_EQ(posted.body, body);
}
TEST(PostedCall, LargeReplyIsRead) { PostStage().run(large_body); }

Task<> refused(PostStage& stage) {
    NotedCall posted;
    EXPECT_TRUE(stage.post(posted, refuse));
    co_await stage.wait_a_moment();
    EXPECT_TRUE(posted.is_lost);
    EXPECT_FALSE(posted.body);
}
TEST(PostedCall, ErrorIsNoReply) { PostStage().run(refused); }

Task<> too_large(PostStage& stage) {
    NotedCall posted;
    EXPECT_FALSE(stage.post(posted, echo, {}, 16 << 10));
    const std::vector<std::byte> body(17 << 10);
    EXPECT_FALSE(stage.post(posted, echo, body));
    EXPECT_EQ(stage.channel->metrics().requests.value(), 0U);
    co_return;
}
TEST(PostedCall, RequestThatNeedsWindowIsNotPosted) { PostStage().run(too_large); }

Task<> over_credit(PostStage& stage) {
    NotedCall first, second;
    EXPECT_TRUE(stage.post(first, wait));
    EXPECT_FALSE(stage.post(second, echo));
    stage.service.opened.set();
    co_await stage.wait_a_moment();
    EXPECT_TRUE(first.body);
    EXPECT_TRUE(stage.post(second, echo));
    co_await stage.wait_a_moment();
    EXPECT_TRUE(second.body);
}
TEST(PostedCall, RequestWithoutCreditIsNotPosted) {
    PostStage stage;
    stage.channel_options.requests_max = 1;
    stage.run(over_credit);
}

// The credit comes back with the reply.
Task<> dropped(PostStage& stage) {
    NotedCall posted;
    EXPECT_TRUE(stage.post(posted, stubborn));
    co_await stage.wait_a_moment();
    posted.drop();
    co_await stage.wait_a_moment();
    EXPECT_FALSE(stage.post(posted, echo));
    stage.service.opened.set();
    co_await stage.wait_a_moment();
    EXPECT_TRUE(!posted.body && !posted.is_lost);
    EXPECT_TRUE(stage.post(posted, echo));
    co_await stage.wait_a_moment();
    EXPECT_TRUE(posted.body);
    EXPECT_EQ(stage.channel->metrics().requests_given_up.value(), 1U);
    EXPECT_EQ(stage.server->metrics().cancels.value(), 1U);
}
TEST(PostedCall, DroppedCallKeepsCreditUntilReply) {
    PostStage stage;
    stage.channel_options.requests_max = 1;
    stage.run(dropped);
}

Task<> connection_lost(PostStage& stage) {
    NotedCall posted;
    EXPECT_TRUE(stage.post(posted, wait));
    co_await stage.wait_a_moment();
    stage.server->abandon_session(stage.gate.sessions);
    co_await stage.wait_a_moment();
    EXPECT_TRUE(posted.is_lost);
    co_await sleep_for(stage.core(), 1s);
    posted.is_lost = false;
    EXPECT_TRUE(stage.post(posted, echo));
    co_await stage.wait_a_moment();
    EXPECT_TRUE(posted.body);
}
TEST(PostedCall, LostConnectionEndsCall) { PostStage().run(connection_lost); }

Task<> closed(PostStage& stage) {
    NotedCall posted;
    EXPECT_TRUE(stage.post(posted, wait));
    co_await stage.channel->close();
    EXPECT_TRUE(posted.is_lost);
    EXPECT_FALSE(stage.post(posted, echo));
}
TEST(PostedCall, ClosedChannelEndsCall) { PostStage().run(closed); }

Task<> limited(PostStage& stage) {
    NotedCall posted;
    EXPECT_FALSE(stage.post(posted, echo));
    co_return;
}
TEST(PostedCall, ChannelWithTimeLimitDoesNotPost) {
    PostStage stage;
    stage.channel_options.call_within = 5s;
    stage.run(limited);
}

}  // namespace
}  // namespace ros2s::rpc

// Work that a host must not be able to cause on its DPU at no cost.
#include "fields.h"
#include "test_support/link.h"

namespace ros2s::hostlink {
namespace {

using namespace std::chrono_literals;
using fs::FileHandle;
using fs::Window;

constexpr uint64_t mib = uint64_t{1} << 20;

// A core on which each posted slice takes 20 µs, about 3 GB/s.
class ChargedCore final : public Reactor {
  public:
    explicit ChargedCore(Reactor& core) : core_(core) {}
    Time now() const noexcept override { return core_.now() + posts * 20us; }
    WallTime wall_time() const noexcept override { return core_.wall_time(); }
    Random& random() noexcept override { return core_.random(); }
    const Secrets& secrets() const noexcept override { return core_.secrets(); }
    bool is_current() const noexcept override { return core_.is_current(); }
    void post(std::coroutine_handle<> handle) noexcept override {
        ++posts;
        core_.post(handle);
    }
    void post_remote(RemotePost& post) noexcept override { core_.post_remote(post); }
    void wake() noexcept override { core_.wake(); }
    void arm(Timer& timer) noexcept override { core_.arm(timer); }
    void disarm(Timer& timer) noexcept override { core_.disarm(timer); }
    void attach(Poller& poller) override { core_.attach(poller); }
    void detach(Poller& poller) noexcept override { core_.detach(poller); }
    Ring* ring() noexcept override { return core_.ring(); }
    uint64_t posts = 0;

  private:
    Reactor& core_;
};

struct ChargedStage {
    void run(Task<> (*body)(ChargedStage&)) { world.run(whole(*this, body)); }
    static Task<> whole(ChargedStage& self, Task<> (*body)(ChargedStage&)) {
        co_await self.dpu.start();
        co_await self.host.start();
        co_await body(self);
        co_await self.host.stop();
        co_await self.dpu.stop();
    }
    sim::World world{1};
    fabric::sim::Network network{world.random()};
    ChargedCore core{world.core()};
    Dpu dpu{world, network, std::make_unique<DfsSource>(world.core(), mib), core};
    Host host{dpu, 1};
};

Task<> late_writes(ChargedStage& stage) {
    fs::FileSystem& files = *stage.host.link;
    const auto file = co_await files.create({}, fs::root_node, "f", 0644, {.write = true}, {});
    EXPECT_TRUE(file);
    const std::vector<std::byte> bytes(32 * mib, std::byte{7});
    // Its checksum alone needs 10 ms of the core.
    const Call call{.deadline = stage.world.core().now() + 5ms};
    EXPECT_EQ(co_await files.pwrite(call, file->handle, Window::local(ConstBytes(bytes)), 0),
              Result<uint64_t>(fail(Code::deadline)));
    EXPECT_LE(stage.core.posts, 260U);
    EXPECT_EQ(stage.dpu.service.metrics().writes.value(), 0U);
    // A call with enough time succeeds, and yields the core 500 times.
    EXPECT_EQ(co_await files.pwrite({}, file->handle, Window::local(ConstBytes(bytes)), 0),
              Result<uint64_t>(bytes.size()));
    EXPECT_GE(stage.core.posts, 500U);
}
TEST(LinkFairness, WriteOverDeadlineStopsChecking) { ChargedStage().run(late_writes); }

Task<> long_reads(ChargedStage& stage) {
    fs::FileSystem& files = *stage.host.link;
    const auto file = co_await files.create({}, fs::root_node, "f", 0644, {.write = true}, {});
    EXPECT_TRUE(file);
    std::vector<std::byte> bytes(32 * mib, std::byte{7});
    EXPECT_TRUE(co_await files.pwrite({}, file->handle, Window::local(ConstBytes(bytes)), 0));
    stage.core.posts = 0;
    EXPECT_EQ(co_await files.pread({}, file->handle, Window::local(Bytes(bytes)), 0),
              Result<uint64_t>(bytes.size()));
    EXPECT_EQ(stage.core.posts, 0U) << "the store's checksums are passed on";
    dynamic_cast<DfsSource&>(*stage.dpu.source).wire().has_checksums = false;
    EXPECT_EQ(co_await files.pread({}, file->handle, Window::local(Bytes(bytes)), 0),
              Result<uint64_t>(bytes.size()));
    EXPECT_GE(stage.core.posts, 500U);
}
TEST(LinkFairness, LongReadChecksumYieldsTheCore) { ChargedStage().run(long_reads); }

// A request by hand, in a connection of its own.
Task<> no_window(ChargedStage& stage) {
    const auto made =
        co_await stage.host.names->create({}, fs::root_node, "f", 0644, {.write = true}, {});
    EXPECT_TRUE(made);
    const auto ticket = co_await stage.host.tickets.take(stage.dpu.report);
    EXPECT_TRUE(ticket);
    std::vector<std::byte> body_memory(rpc::hello_bytes_max), memory(8192), verdict;
    rpc::FrameHeader header;
    header.kind = rpc::Kind::hello;
    const ConstBytes hello = rpc::encode_frame(
        header, {}, {},
        rpc::encode(
            rpc::HelloBody{.service = file_service, .client = stage.host.client, .ticket = *ticket},
            body_memory),
        memory);
    auto connected = co_await stage.host.domain->connect(
        "link", {.credential = {hello.begin(), hello.end()}, .verdict = &verdict},
        stage.dpu.report);
    EXPECT_TRUE(connected);
    fabric::Endpoint& endpoint = **connected;
    header.session = rpc::decode_frame(verdict)->header.session;
    header.kind = rpc::Kind::request;
    header.method = static_cast<uint16_t>(Method::read);
    header.sink_bytes = 64 * mib;
    Buffer body;
    const ConstBytes asked =
        rpc::build(body, file_fields, FileBody{.mount = stage.host.mount, .handle = made->handle});
    for (uint64_t number = 1; number <= 5; ++number) {
        header.request = number << 16;
        EXPECT_TRUE(co_await endpoint.send(rpc::encode_frame(header, {}, {}, asked, memory)));
        const auto answer = co_await endpoint.receive();
        EXPECT_TRUE(answer);
        const auto frame = rpc::decode_frame(answer->bytes());
        EXPECT_EQ(frame->header.kind, rpc::Kind::failure);
        EXPECT_EQ(rpc::decode_failure(frame->body)->error.code, Code::too_large);
    }
    EXPECT_EQ(stage.dpu.service.metrics().reads.value(), 0U);
    EXPECT_EQ(stage.dpu.server->metrics().undeliverable.value(), 5U);
    co_await endpoint.close();
}
TEST(LinkFairness, UndeliverableReadIsNotDone) { ChargedStage().run(no_window); }

}  // namespace
}  // namespace ros2s::hostlink

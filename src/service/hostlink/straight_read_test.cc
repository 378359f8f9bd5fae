// A DPU in front of an engine: which reads go straight, why others do not, and how a read in
// progress ends. The bytes are right in every case.
#include <algorithm>
#include <numeric>

#include "fields.h"
#include "ros2s/runtime/frame_count.h"
#include "ros2s/runtime/trace.h"
#include "test_support/engine.h"

namespace ros2s::hostlink {
namespace {

using namespace std::chrono_literals;
using fs::FileHandle;
using fs::Window;

constexpr uint64_t chunk = uint64_t{64} << 10;
constexpr uint64_t file_bytes = 2 * chunk;
constexpr uint64_t block = 4096;

struct StraightStage {
    // With a file of a pattern.
    void run(Task<> (*body)(StraightStage&)) { world.run(whole(*this, body)); }
    static Task<> whole(StraightStage& self, Task<> (*body)(StraightStage&)) {
        co_await self.engine.start();
        co_await self.dpu.start();
        co_await self.host.start();
        std::iota(self.pattern.begin(), self.pattern.end(), 0U);
        const auto made =
            co_await self.host.link->create({}, fs::root_node, "f", 0644, {.write = true}, {});
        EXPECT_TRUE(made);
        EXPECT_TRUE(co_await self.host.link->pwrite({}, made->handle, self.window(), 0));
        EXPECT_TRUE(co_await self.host.link->close({}, made->handle));
        const auto opened = co_await self.host.link->open({}, made->attributes.node, {});
        EXPECT_TRUE(opened);
        self.file = opened->handle;
        co_await body(self);
        co_await self.host.stop();
        co_await self.dpu.stop();
        co_await self.engine.stop();
    }
    [[nodiscard]] Window window() const {
        return Window::local(ConstBytes(std::as_bytes(std::span(pattern))));
    }
    [[nodiscard]] const LinkServerMetrics& metrics() const { return dpu.service.metrics(); }
    [[nodiscard]] uint64_t straight() const { return metrics().straight_reads.value(); }
    [[nodiscard]] uint64_t count(NotStraight why) const {
        return metrics().not_straight[static_cast<size_t>(why)].value();
    }
    // The code of the error, if any. The bytes of a whole read are those of the pattern.
    Task<std::optional<Code>> read(uint64_t offset, uint64_t length, Call call = {}) {
        std::vector<std::byte> bytes(length, std::byte{0xAA});
        const auto got = co_await host.link->pread(call, file, Window::local(Bytes(bytes)), offset);
        if (!got) co_return got.error().code;
        EXPECT_EQ(*got, std::min(length, file_bytes - offset));
        EXPECT_TRUE(std::ranges::equal(ConstBytes(bytes).first(*got),
                                       window().bytes().subspan(offset, *got)));
        co_return std::nullopt;
    }
    static Task<> note(StraightStage& self, Call call, std::optional<Code>& done, bool& ended) {
        done = co_await self.read(0, block, call);
        ended = true;
    }
    // Reads, and checks that this was the only reason not to go straight.
    Task<> expect_general(NotStraight why, uint64_t offset, uint64_t length, Call call = {}) {
        const auto before = straight();
        EXPECT_EQ(co_await read(offset, length, call), std::nullopt);
        EXPECT_EQ(straight(), before);
        EXPECT_EQ(count(why), 1U);
    }

    std::vector<uint32_t> pattern = std::vector<uint32_t>(file_bytes / sizeof(uint32_t));
    sim::World world{1};
    fabric::sim::Network network{world.random()};
    Engine engine{world, network};
    Dpu dpu{world, network, std::make_unique<EngineSource>(engine, chunk)};
    Host host{dpu, 1};
    FileHandle file{};
};

// ---- which reads go straight ------------------------------------------------------------------

Task<> whole_extents(StraightStage& stage) {
    const uint64_t before = stage.dpu.accounts.open(stage.host.subject)->metrics.requests.value();
    const auto& fetches = stage.engine.store->metrics().fetch;
    const uint64_t fetched = fetches.requests.value();
    // A block, parts of blocks, the last bytes of a chunk and of the file.
    const std::pair<uint64_t, uint64_t> extents[] = {
        {0, block}, {100, 1}, {4000, 8000}, {chunk - 10, 10}, {file_bytes - block, block}};
    for (const auto& [offset, length] : extents) {
        EXPECT_EQ(co_await stage.read(offset, length), std::nullopt) << offset;
    }
    const LinkServerMetrics& metrics = stage.metrics();
    EXPECT_EQ(metrics.straight_reads.value(), 5U);
    for (const Counter& each : metrics.not_straight) EXPECT_EQ(each.value(), 0U);
    // It counts as any other.
    EXPECT_EQ(metrics.reads.value(), 5U);
    EXPECT_EQ(metrics.read_bytes.value(), 2 * block + 8011);
    EXPECT_EQ(metrics.dpu_bytes.value(), metrics.read_bytes.value() + file_bytes);
    EXPECT_EQ(fetches.requests.value() - fetched, 5U);
    EXPECT_EQ(stage.dpu.accounts.open(stage.host.subject)->metrics.requests.value() - before, 5U);
}
TEST(StraightRead, ExtentOfChunkGoesStraight) { StraightStage().run(whole_extents); }

Task<> changed_bytes(StraightStage& stage) {
    stage.engine.wire.flips_fetched = true;
    EXPECT_EQ(co_await stage.read(0, block), Code::corrupt);
    stage.engine.wire.flips_fetched = false;
    EXPECT_GE(stage.straight(), 1U);
}
TEST(StraightRead, BytesChangedBehindChecksumFailAtHost) { StraightStage().run(changed_bytes); }

// Host, DPU and engine are in this thread. Their frames, and the two requests as messages, are 16.
// A traced read takes the general way. Under a sanitizer nothing is counted.
Task<> frames(StraightStage& stage) {
    constexpr uint64_t requests = 100;
    uint64_t straight = 0, general = 0;
    for (uint64_t i = 0; i < requests; ++i) {
        Trace trace;
        const uint64_t before = frames_taken();
        EXPECT_EQ(co_await stage.read(0, block), std::nullopt);
        const uint64_t between = frames_taken();
        EXPECT_EQ(co_await stage.read(0, block, {.trace = &trace}), std::nullopt);
        straight += between - before;
        general += frames_taken() - between;
    }
    EXPECT_EQ(stage.straight(), requests);
    if (general == 0) co_return;
    EXPECT_LE(straight, 16 * requests);
    EXPECT_LE(straight + 9 * requests, general);
}
TEST(StraightRead, WholeBlockTakesFewFrames) { StraightStage().run(frames); }

// ---- why others do not ------------------------------------------------------------------------

Task<> traced(StraightStage& stage) {
    Trace trace;
    co_await stage.expect_general(NotStraight::traced, 0, block, {.trace = &trace});
    EXPECT_NE(std::ranges::find(trace.steps(), "client.fetch", &TraceStep::name),
              trace.steps().end());
}
TEST(StraightRead, TracedReadTakesGeneralWay) { StraightStage().run(traced); }

Task<> with_deadline(StraightStage& stage) {
    co_await stage.expect_general(NotStraight::deadline, 0, block,
                                  {.deadline = stage.world.core().now() + 10s});
}
TEST(StraightRead, ReadWithDeadlineTakesGeneralWay) { StraightStage().run(with_deadline); }

Task<> large(StraightStage& stage) {
    co_await stage.expect_general(NotStraight::large, 0, 8 * block);
}
TEST(StraightRead, LargeReadTakesGeneralWay) { StraightStage().run(large); }

Task<> two_chunks(StraightStage& stage) {
    co_await stage.expect_general(NotStraight::file, chunk - 10, 20);
}
TEST(StraightRead, ReadOfTwoChunksTakesGeneralWay) { StraightStage().run(two_chunks); }

Task<> beyond_end(StraightStage& stage) {
    co_await stage.expect_general(NotStraight::file, file_bytes - 10, 20);
}
TEST(StraightRead, ReadBeyondEndTakesGeneralWay) { StraightStage().run(beyond_end); }

// What it found is known from then on.
Task<> grown(StraightStage& stage) {
    fs::FileSystem& link = *stage.host.link;
    const auto made =
        co_await link.create({}, fs::root_node, "g", 0644, {.read = true, .write = true}, {});
    EXPECT_TRUE(made);
    EXPECT_TRUE(co_await link.pwrite({}, made->handle, stage.window(), 0));
    const FileHandle old = std::exchange(stage.file, made->handle);
    co_await stage.expect_general(NotStraight::file, block, block);
    EXPECT_EQ(co_await stage.read(0, block), std::nullopt);
    EXPECT_EQ(stage.straight(), 1U);
    EXPECT_TRUE(co_await link.close({}, std::exchange(stage.file, old)));
}
TEST(StraightRead, GrownFileGoesStraightAfterFirstRead) { StraightStage().run(grown); }

Task<> other_numbers(StraightStage& stage) {
    Buffer body;
    const FileBody wrong{.mount = stage.host.mount, .handle = {12345}};
    EXPECT_EQ(co_await ask(stage.host, Method::read, rpc::build(body, file_fields, wrong)),
              Result<>(fail(Code::stale)));
    const FileBody nowhere{.mount = {77}, .handle = {12345}};
    EXPECT_EQ(co_await ask(stage.host, Method::read, rpc::build(body, file_fields, nowhere)),
              Result<>(fail(Code::stale)));
    EXPECT_EQ(co_await ask(stage.host, Method::read, {}), Result<>(fail(Code::corrupt)));
    EXPECT_EQ(stage.count(NotStraight::invalid), 3U);
}
TEST(StraightRead, InvalidReadTakesGeneralWay) { StraightStage().run(other_numbers); }

Task<> by_node(StraightStage& stage) {
    const auto found = co_await stage.host.link->lookup({}, fs::root_node, "f");
    EXPECT_TRUE(found);
    Buffer body;
    const NodeReadBody read{.mount = stage.host.mount, .node = found->node};
    const auto fields = with_user(node_read_fields);
    EXPECT_TRUE(co_await ask(stage.host, Method::read_node,
                             rpc::build(body, fields, fs::UserClaim{}, read)));
    EXPECT_EQ(stage.count(NotStraight::node), 1U);
}
TEST(StraightRead, ReadOfNodeTakesGeneralWay) { StraightStage().run(by_node); }

Task<> rights_are_over(StraightStage& stage) {
    Reactor& core = stage.world.core();
    stage.dpu.sessions.rights().renew("pool", core.now() + 1s);
    EXPECT_EQ(co_await stage.read(0, block), std::nullopt);
    EXPECT_EQ(stage.straight(), 1U);
    (void)co_await sleep_for(core, 2s);
    std::optional<Code> done;
    bool ended = false;
    Nursery reading(core, 1);
    co_await reading.spawn(StraightStage::note(stage, {}, done, ended));
    (void)co_await sleep_for(core, 100ms);
    EXPECT_FALSE(ended);
    stage.dpu.sessions.rights().renew("pool", core.now() + 1h);
    co_await reading.join();
    EXPECT_EQ(done, std::nullopt);
    EXPECT_EQ(stage.straight(), 1U);
    EXPECT_EQ(stage.count(NotStraight::rights), 1U);
}
TEST(StraightRead, ReadWithoutCurrentRightsWaitsForThem) { StraightStage().run(rights_are_over); }

Task<> without_credit(StraightStage& stage) {
    std::optional<Code> done;
    bool ended = false;
    Nursery reading(stage.world.core(), 1);
    co_await reading.spawn(StraightStage::note(stage, {}, done, ended));
    EXPECT_EQ(co_await stage.read(block, block), std::nullopt);
    co_await reading.join();
    EXPECT_EQ(done, std::nullopt);
    EXPECT_EQ(stage.straight(), 1U);
    EXPECT_EQ(stage.count(NotStraight::store), 1U);
}
TEST(StraightRead, ReadWithoutCreditTakesGeneralWay) {
    StraightStage stage;
    stage.engine.credits = 1;
    stage.run(without_credit);
}

Task<> in_process(Stage& stage) {
    const FileHandle file = co_await stage.create("f", {.read = true, .write = true});
    std::vector<std::byte> bytes(block, std::byte{1});
    EXPECT_TRUE(co_await stage.host.link->pwrite({}, file, Window::local(ConstBytes(bytes)), 0));
    for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(co_await stage.host.link->pread({}, file, Window::local(Bytes(bytes)), 0));
    }
    const auto& counts = stage.dpu.service.metrics().not_straight;
    EXPECT_EQ(counts[static_cast<size_t>(NotStraight::store)].value(), 1U);
    EXPECT_TRUE(co_await stage.host.link->close({}, file));
}
TEST(StraightRead, ReadOfOtherStoreTakesGeneralWay) { Stage().run(in_process); }

// ---- how one in progress ends -----------------------------------------------------------------

// The file is as long as it was when it was opened, but a chunk has no bytes any more.
Task<> hole(StraightStage& stage) {
    const auto found = co_await stage.host.link->lookup({}, fs::root_node, "f");
    const auto writer = co_await stage.host.link->open({}, found->node, {.write = true});
    EXPECT_TRUE(writer);
    EXPECT_TRUE(co_await stage.host.link->punch_hole({}, writer->handle, 0, chunk));
    EXPECT_TRUE(co_await stage.host.link->close({}, writer->handle));
    std::ranges::fill(std::span(stage.pattern).first(chunk / sizeof(uint32_t)), 0U);
    co_await stage.expect_general(NotStraight::lost, 0, block);
    // It is not tried again.
    co_await stage.expect_general(NotStraight::file, 0, block);
    EXPECT_EQ(stage.count(NotStraight::lost), 1U);
}
TEST(StraightRead, HoleIsReadInGeneralWay) { StraightStage().run(hole); }

Task<> truncated(StraightStage& stage) {
    const auto found = co_await stage.host.link->lookup({}, fs::root_node, "f");
    EXPECT_TRUE(co_await stage.host.link->set_attributes({}, found->node, {.size = 100}));
    std::vector<std::byte> bytes(block);
    for (int i = 0; i < 2; ++i) {
        const auto got =
            co_await stage.host.link->pread({}, stage.file, Window::local(Bytes(bytes)), 0);
        EXPECT_EQ(got, Result<uint64_t>(100));
    }
    // It is not tried again.
    EXPECT_EQ(stage.count(NotStraight::lost), 1U);
    EXPECT_EQ(stage.count(NotStraight::file), 1U);
    EXPECT_EQ(stage.straight(), 0U);
}
TEST(StraightRead, TruncatedFileIsReadInGeneralWay) { StraightStage().run(truncated); }

struct Waiting {
    explicit Waiting(StraightStage& in) : stage(in), reading(in.world.core(), 1) {}
    // The engine holds it up.
    Task<> begin(Call call = {}) {
        stage.engine.wire.held_on = &stage.world.core();
        co_await reading.spawn(StraightStage::note(stage, call, done, ended));
        (void)co_await sleep_for(stage.world.core(), 100ms);
        EXPECT_FALSE(ended);
    }
    Task<> expect_end() {
        (void)co_await sleep_for(stage.world.core(), 2s);
        EXPECT_TRUE(ended);
        EXPECT_EQ(stage.count(NotStraight::lost), 1U);
        EXPECT_EQ(stage.straight(), 0U);
        stage.engine.wire.held_on = nullptr;
        co_await reading.join();
        (void)co_await sleep_for(stage.world.core(), WireToStore::held_for);
    }
    StraightStage& stage;
    Nursery reading;
    std::optional<Code> done;
    bool ended = false;
};

Task<> cancelled(StraightStage& stage) {
    Waiting read(stage);
    StopSource stop;
    co_await read.begin({.stop = stop.token()});
    stop.request_stop();
    co_await read.expect_end();
    EXPECT_EQ(read.done, Code::cancelled);
    // The engine was told.
    EXPECT_EQ(stage.engine.server->metrics().cancels.value(), 1U);
    EXPECT_EQ(stage.engine.channel->metrics().requests_given_up.value(), 1U);
    EXPECT_EQ(co_await stage.read(0, block), std::nullopt);
    EXPECT_EQ(stage.straight(), 1U);
}
TEST(StraightRead, CancelledReadEndsAtOnce) { StraightStage().run(cancelled); }

Task<> evicted(StraightStage& stage) {
    Waiting read(stage);
    co_await read.begin();
    stage.dpu.sessions.evict(stage.host.session, "its tenant was revoked");
    co_await read.expect_end();
    EXPECT_EQ(read.done, Code::denied);
    EXPECT_EQ(stage.dpu.sessions.look(stage.host.session), nullptr);
}
TEST(StraightRead, ReadOfRevokedSessionEndsAtOnce) { StraightStage().run(evicted); }

Task<> engine_lost(StraightStage& stage) {
    Waiting read(stage);
    co_await read.begin();
    stage.engine.wire.held_on = nullptr;
    stage.engine.server->abandon_session(0);
    co_await read.expect_end();
    EXPECT_EQ(read.done, std::nullopt);
    EXPECT_EQ(stage.engine.channel->metrics().connections.value(), 2U);
    // The next reads go straight again, over the new connection.
    EXPECT_EQ(co_await stage.read(0, block), std::nullopt);
    EXPECT_EQ(co_await stage.read(0, block), std::nullopt);
    EXPECT_GE(stage.straight(), 1U);
}
TEST(StraightRead, LostEngineConnectionRepeatsRead) { StraightStage().run(engine_lost); }

Task<> refused_there(StraightStage& stage) {
    stage.engine.memory.set_read_only(true);
    EXPECT_EQ(co_await stage.read(0, block), std::nullopt);
    EXPECT_EQ(stage.straight(), 1U);
    stage.engine.memory.set_read_only(false);
}
TEST(StraightRead, ReadOnlyEngineIsReadStraight) { StraightStage().run(refused_there); }

}  // namespace
}  // namespace ros2s::hostlink

// Placement `host`: the DPU uses large payload in place, in the host's shared memory, while a
// hostile host changes it.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "dpu_process.h"
#include "ros2s/base/descriptor.h"
#include "ros2s/base/random.h"
#include "ros2s/connection/direct_pool.h"
#include "ros2s/connection/host_files.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::tests {
namespace {

using connection::HostFiles;
using fs::Window;

constexpr uint64_t mib = uint64_t{1} << 20;
const Call call;

class PlacementHost : public testing::Test {
  protected:
    PlacementHost() { reactor = started_reactor("host"); }
    EngineProcess engine;
    std::unique_ptr<OsReactor> reactor;
};

class PayloadPlacement : public PlacementHost, public testing::WithParamInterface<const char*> {
  protected:
    std::unique_ptr<HostFiles> open() {
        Report report;
        auto opened = run_blocking(
            *reactor, [&] { return HostFiles::open(*reactor, dpu.options(), report); });
        EXPECT_TRUE(opened) << report.text() << dpu.log();
        return opened ? std::move(*opened) : nullptr;
    }
    void close(std::unique_ptr<HostFiles>& host) {
        run_blocking(*reactor, [&] { return host->close(); });
        host.reset();
    }
    DpuProcess dpu{engine, GetParam()};
};

std::vector<std::byte> content(size_t size, uint64_t seed) {
    std::vector<std::byte> bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 >> 3 ^ seed);
    return bytes;
}

bool has_step(const Trace& trace, std::string_view name) {
    return std::ranges::any_of(trace.steps(), [&](const auto& step) { return step.name == name; });
}

// Writes and reads a file whose ends are inside blocks and chunks.
Task<> write_and_read(fs::FileSystem& files, std::string name, uint64_t seed) {
    const auto opened =
        co_await files.create(call, fs::root_node, name, 0644, {.read = true, .write = true}, {});
    EXPECT_TRUE(opened);
    if (!opened) co_return;
    const auto written = content(3 * mib + 4099, seed);
    std::vector<std::byte> read(written.size() + 100);
    EXPECT_EQ(co_await files.pwrite(call, opened->handle, Window::local(ConstBytes(written)), 7),
              Result<uint64_t>(written.size()));
    EXPECT_EQ(co_await files.pread(call, opened->handle, Window::local(Bytes(read)), 7),
              Result<uint64_t>(written.size()));
    EXPECT_TRUE(std::ranges::equal(written, Bytes(read).first(written.size())));
    EXPECT_TRUE(co_await files.close(call, opened->handle));
}

Task<> large_payload_stays(fs::FileSystem& files, bool in_place) {
    const auto opened = co_await files.create(call, fs::root_node, "traced", 0644,
                                              {.read = true, .write = true}, {});
    EXPECT_TRUE(opened);
    if (!opened) co_return;
    for (const uint64_t size : {uint64_t{4096}, mib}) {
        const bool stays = in_place && size == mib;
        auto bytes = content(size, 5);
        Trace writing, reading;
        EXPECT_TRUE(co_await files.pwrite({.trace = &writing}, opened->handle,
                                          Window::local(ConstBytes(bytes)), 0));
        EXPECT_TRUE(co_await files.pread({.trace = &reading}, opened->handle,
                                         Window::local(Bytes(bytes)), 0));
        EXPECT_TRUE(has_step(writing, "dpu.serve") && has_step(reading, "dpu.serve"));
        EXPECT_EQ(has_step(writing, "dpu.in_place"), stays);
        EXPECT_EQ(has_step(reading, "dpu.in_place"), stays);
    }
    EXPECT_TRUE(co_await files.close(call, opened->handle));
}

TEST_P(PayloadPlacement, LargePayloadIsUsedInPlace) {
    ASSERT_TRUE(engine.start() && dpu.start());
    auto host = open();
    ASSERT_NE(host, nullptr);
    run_blocking(*reactor, [&] { return write_and_read(host->file_system(), "file", 1); });
    run_blocking(*reactor, [&] { return large_payload_stays(host->file_system(), true); });
    close(host);
}

TEST_P(PayloadPlacement, PayloadMayPassThroughDpuMemory) {
    dpu.place_payload("dpu");
    ASSERT_TRUE(engine.start() && dpu.start());
    auto host = open();
    ASSERT_NE(host, nullptr);
    run_blocking(*reactor, [&] { return write_and_read(host->file_system(), "file", 1); });
    run_blocking(*reactor, [&] { return large_payload_stays(host->file_system(), false); });
    close(host);
}

// Views of the payload memory of this process's sessions. They stay when a session returns a
// segment. Empty: only root can open what is mapped.
std::vector<Bytes> views_of_payload() {
    std::ifstream maps("/proc/self/maps");
    std::vector<Bytes> views;
    for (std::string line; std::getline(maps, line);) {
        if (!line.contains("ros2store-payload")) continue;
        const std::string range = line.substr(0, line.find(' '));
        const size_t size = std::stoull(range.substr(range.find('-') + 1), nullptr, 16) -
                            std::stoull(range, nullptr, 16);
        const Descriptor file(::open(("/proc/self/map_files/" + range).c_str(), O_RDWR));
        void* const view = file.get() < 0 ? MAP_FAILED
                                          : ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                                   MAP_SHARED, file.get(), 0);
        if (view != MAP_FAILED) views.emplace_back(static_cast<std::byte*>(view), size);
    }
    return views;
}

// Flips bytes there during its lifetime.
class Scribbler {
  public:
    explicit Scribbler(std::vector<Bytes> views)
        : views_(std::move(views)), thread_([this] { run(); }) {}
    Scribbler& operator=(Scribbler&&) = delete;
    ~Scribbler() {
        stop_ = true;
        thread_.join();
        for (const Bytes view : views_) ::munmap(view.data(), view.size());
    }

  private:
    void run() {
        Random random(3);
        while (!stop_) {
            const Bytes view = views_[random.below(views_.size())];
            auto* word = reinterpret_cast<uint64_t*>(
                view.data() + round_down(random.below(view.size()), uint64_t{8}));
            std::atomic_ref(*word).fetch_xor(1 + random.below(255), std::memory_order_relaxed);
        }
    }
    std::vector<Bytes> views_;
    std::atomic<bool> stop_ = false;
    std::thread thread_;
};

struct Attack {
    uint64_t done = 0, refused = 0;
};

Task<> write_and_read_anyway(fs::FileSystem& files, Attack& attack) {
    const auto opened = co_await files.create(call, fs::root_node, "attacker", 0644,
                                              {.read = true, .write = true}, {});
    EXPECT_TRUE(opened);
    if (!opened) co_return;
    auto bytes = content(mib, 9);
    for (int round = 0; round < 40; ++round) {
        const auto written =
            co_await files.pwrite(call, opened->handle, Window::local(ConstBytes(bytes)), 0);
        const auto read =
            co_await files.pread(call, opened->handle, Window::local(Bytes(bytes)), 0);
        for (const auto& each : {written, read}) {
            if (!each) EXPECT_EQ(each.error().code, Code::corrupt) << describe(each.error());
            ++(each ? attack.done : attack.refused);
        }
    }
    EXPECT_TRUE(co_await files.close(call, opened->handle));
}

TEST_P(PayloadPlacement, HostChangingItsMemoryHarmsOnlyItself) {
    ASSERT_TRUE(engine.start() && dpu.start());
    auto attacker = open();
    ASSERT_NE(attacker, nullptr);
    // The session gets further memory.
    run_blocking(*reactor, [&] { return write_and_read(attacker->file_system(), "first", 1); });
    const auto views = views_of_payload();
    auto bystander = open();
    ASSERT_NE(bystander, nullptr);
    Attack attack;
    if (views.empty()) {
        ADD_FAILURE() << "run this as root: it needs /proc/self/map_files";
    } else {
        const Scribbler scribbler(views);
        run_blocking(*reactor,
                     [&] { return write_and_read_anyway(attacker->file_system(), attack); });
        run_blocking(*reactor, [&] { return write_and_read(bystander->file_system(), "file", 2); });
    }
    EXPECT_GT(attack.refused, 0U);
    // Its session lives, and data of others is intact.
    run_blocking(*reactor, [&] { return write_and_read(attacker->file_system(), "later", 3); });
    run_blocking(*reactor,
                 [&] { return write_and_read(bystander->file_system(), "later too", 4); });
    close(bystander);
    close(attacker);
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    EXPECT_EQ(engine.stop(), 0) << engine.log();
    // No message blames the disk, which has no error.
    EXPECT_EQ(dpu.log().find("corrupt"), std::string::npos) << dpu.log();
    EXPECT_EQ(engine.log().find("corrupt"), std::string::npos) << engine.log();
}

// The engine also reads a large write from its client's memory. It stores only data that it has
// copied first.
struct Direct {
    Task<> open(OsReactor& reactor, connection::Options options) {
        Report report;
        auto opened =
            co_await connection::DirectPool::open(reactor, std::move(options), {}, report);
        EXPECT_TRUE(opened) << report.text();
        if (!opened) co_return;
        pool = std::move(*opened);
        const auto containers = co_await pool->store().list_containers(call);
        EXPECT_TRUE(containers && containers->size() == 1);
        auto mounted = co_await fs::Dfs::mount(call, pool->store(), containers->front().id, reactor,
                                               {}, report);
        EXPECT_TRUE(mounted) << report.text();
        if (mounted) files = std::move(*mounted);
    }
    Task<> close() {
        if (files) co_await files->close_all();
        files.reset();
        if (pool) co_await pool->close();
        pool.reset();
    }
    std::unique_ptr<connection::DirectPool> pool;
    std::unique_ptr<fs::FileSystem> files;
};

TEST_F(PlacementHost, ClientChangingItsMemoryHarmsOnlyItself) {
    ASSERT_TRUE(engine.start());
    Direct attacker, bystander;
    run_blocking(*reactor, [&] { return attacker.open(*reactor, engine.options("shm")); });
    run_blocking(*reactor, [&] { return write_and_read(*attacker.files, "first", 1); });
    const auto views = views_of_payload();
    run_blocking(*reactor, [&] { return bystander.open(*reactor, engine.options("shm")); });
    ASSERT_TRUE(attacker.files && bystander.files);
    Attack attack;
    if (views.empty()) {
        ADD_FAILURE() << "run this as root: it needs /proc/self/map_files";
    } else {
        const Scribbler scribbler(views);
        run_blocking(*reactor, [&] { return write_and_read_anyway(*attacker.files, attack); });
        run_blocking(*reactor, [&] { return write_and_read(*bystander.files, "file", 2); });
    }
    EXPECT_GT(attack.refused, 0U);
    run_blocking(*reactor, [&] { return write_and_read(*attacker.files, "later", 3); });
    run_blocking(*reactor, [&] { return write_and_read(*bystander.files, "later too", 4); });
    run_blocking(*reactor, [&] { return bystander.close(); });
    run_blocking(*reactor, [&] { return attacker.close(); });
    EXPECT_EQ(engine.stop(), 0) << engine.log();
    EXPECT_EQ(engine.log().find("corrupt"), std::string::npos) << engine.log();
}

INSTANTIATE_TEST_SUITE_P(Providers, PayloadPlacement, testing::Values("shm", "ucx+tcp"),
                         [](const auto& info) {
                             return std::string(info.param) == "shm" ? "Shm" : "UcxTcp";
                         });

}  // namespace
}  // namespace ros2s::tests

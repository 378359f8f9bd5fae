// The whole embedded stack in a simulation: Dfs over the verifying client over the engine, on
// simulated disks with an ordered-map index. The contract of FileSystem, and what a restart keeps.
#include <gtest/gtest.h>

#include "ros2s/client/counted_store.h"
#include "ros2s/device/sim/sim_device.h"
#include "ros2s/engine/engine_store.h"
#include "ros2s/engine/index/sim/ordered_map_index.h"
#include "ros2s/fs/contract/contract.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/fs/path_walk.h"
#include "ros2s/runtime/sim/co_test.h"

namespace ros2s {
namespace {

struct Shape {
    size_t devices = 1;
    uint64_t chunk_bytes = 1 << 20;
    uint64_t disk_bytes = 128 << 20;
};

// Media that survive any number of mounts.
class Stack final : public fs::contract::Subject {
  public:
    Stack(uint64_t seed, Shape shape) : world_(seed), env_{world_.core(), world_.blocking()} {
        for (size_t i = 0; i < shape.devices; ++i) {
            disks_.push_back(std::make_unique<device::SimDisk>(
                world_.random(),
                device::SimDiskOptions{
                    .size = round_down(shape.disk_bytes / shape.devices, block_bytes),
                    .flush_latency = std::chrono::microseconds(50)},
                "device-" + std::to_string(i)));
        }
        world_.run(make(shape.chunk_bytes));
        world_.run(start());
    }
    ~Stack() override {
        if (fs_ != nullptr) world_.run(stop());
    }
    fs::FileSystem& file_system() override { return *fs_; }
    sim::World& world() override { return world_; }

    Task<> start() {
        ROS2S_CHECK(fs_ == nullptr);
        auto opened = co_await engine::EngineStore::open(env_, co_await devices(), index(),
                                                         options_, report_);
        EXPECT_TRUE(opened.has_value()) << report_.text();
        engine_ = std::move(*opened);
        client_ = std::make_unique<client::CountedStore>(world_.core(), *engine_);
        auto mounted =
            co_await fs::Dfs::mount(call_, *client_, container_, world_.core(), {}, report_);
        EXPECT_TRUE(mounted.has_value()) << report_.text();
        fs_ = std::move(*mounted);
    }
    // Returns whether the engine closed cleanly, which it cannot do after a power loss.
    Task<bool> stop() {
        co_await fs_->close_all();
        fs_.reset();
        client_.reset();
        const auto closed = co_await engine_->close();
        engine_.reset();
        co_return closed.has_value();
    }
    device::SimDisk& disk() { return *disks_.front(); }
    void lose_power() {
        for (auto& disk : disks_) disk->power_loss();
        medium_.crash(world_.random());
    }

  private:
    Task<engine::EngineStore::Devices> devices() {
        engine::EngineStore::Devices all;
        for (auto& disk : disks_) {
            auto device = co_await device::SimDevice::open(world_.core(), *disk, report_);
            EXPECT_TRUE(device.has_value()) << report_.text();
            all.push_back(std::move(*device));
        }
        co_return all;
    }
    engine::IndexFactory index() {
        return [this](std::string_view, bool, Report&) -> Result<std::unique_ptr<engine::Index>> {
            return medium_.open();
        };
    }
    Task<> make(uint64_t chunk_bytes) {
        {
            const engine::EngineStore::Devices all = co_await devices();
            std::vector<device::BlockDevice*> pointers;
            for (const auto& one : all) pointers.push_back(one.get());
            const auto made = co_await engine::EngineStore::create(
                env_, pointers, index(), {.journal_bytes = 16 << 20}, report_);
            EXPECT_TRUE(made.has_value()) << report_.text();
            for (const auto& one : all) co_await one->close();
        }
        auto opened = co_await engine::EngineStore::open(env_, co_await devices(), index(),
                                                         options_, report_);
        EXPECT_TRUE(opened.has_value()) << report_.text();
        const auto container =
            co_await (*opened)->create_container(call_, {.label = "c", .chunk_bytes = chunk_bytes});
        EXPECT_TRUE(container.has_value());
        container_ = container->id;
        EXPECT_TRUE(
            co_await fs::Dfs::format(call_, **opened, container_, world_.core(), {}, report_))
            << report_.text();
        EXPECT_TRUE(co_await (*opened)->close());
    }

    sim::World world_;
    Environment env_;
    Call call_;
    Report report_;
    engine::EngineOptions options_;
    std::vector<std::unique_ptr<device::SimDisk>> disks_;
    engine::OrderedMapMedium medium_;
    object::ContainerId container_;
    std::unique_ptr<engine::EngineStore> engine_;
    std::unique_ptr<client::CountedStore> client_;
    std::unique_ptr<fs::FileSystem> fs_;
};

// Space freed by a punch stays in quarantine for a while.
const bool registered = fs::contract::register_contract(
    "DfsOnEngine", {.exact_space = false, .property_runs = 5},
    [](uint64_t seed) { return std::make_unique<Stack>(seed, Shape{}); });
const bool registered_three = fs::contract::register_contract(
    "DfsOnThreeDevices", {.exact_space = false, .chunk_bytes = 16384, .property_runs = 5},
    [](uint64_t seed) {
        return std::make_unique<Stack>(seed, Shape{.devices = 3, .chunk_bytes = 16384});
    });

constexpr fs::OpenFlags read_write{.read = true, .write = true};

// ---- restarts

Task<> make_tree(fs::FileSystem& fs) {
    const Call call;
    for (int i = 0; i < 20; ++i) {
        const std::string name = "d" + std::to_string(i);
        const auto dir = co_await fs.mkdir(call, fs::root_node, name, 0755, {});
        EXPECT_TRUE(dir.has_value());
        const auto file = co_await fs.create(call, dir->node, "file", 0644, read_write, {});
        EXPECT_TRUE(file.has_value());
        const std::string text(10'000 + static_cast<size_t>(i), static_cast<char>('a' + i));
        EXPECT_TRUE(co_await fs.pwrite(call, file->handle, fs::Window::local(as_bytes(text)), 0));
        EXPECT_TRUE(co_await fs.close(call, file->handle));
        if (i % 2 == 1)
            EXPECT_TRUE(co_await fs.rename(call, dir->node, "file", fs::root_node,
                                           "f" + std::to_string(i), {}));
    }
}

Task<> check_tree(fs::FileSystem& fs) {
    const Call call;
    for (int i = 0; i < 20; ++i) {
        const std::string number = std::to_string(i);
        const auto file =
            co_await fs::resolve(fs, call, i % 2 == 1 ? "/f" + number : "/d" + number + "/file");
        EXPECT_TRUE(file.has_value()) << i;
        if (!file) continue;
        const auto opened = co_await fs.open(call, file->node, {});
        std::string text(20'000, '?');
        const auto bytes = co_await fs.pread(
            call, opened->handle, fs::Window::local(std::as_writable_bytes(std::span(text))), 0);
        text.resize(bytes.value_or(0));
        EXPECT_EQ(text, std::string(10'000 + static_cast<size_t>(i), static_cast<char>('a' + i)));
        EXPECT_TRUE(co_await fs.close(call, opened->handle));
    }
}

TEST(DfsOnEngine, TreeSurvivesARestart) {
    Stack stack(1, {});
    stack.world().run(make_tree(stack.file_system()));
    EXPECT_TRUE(stack.world().run(stack.stop()));
    stack.world().run(stack.start());
    stack.world().run(check_tree(stack.file_system()));
}

TEST(DfsOnEngine, AcknowledgedDataSurvivesPowerLoss) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        Stack stack(seed, {.devices = 2});
        stack.world().run(make_tree(stack.file_system()));
        stack.lose_power();
        (void)stack.world().run(stack.stop());
        stack.world().run(stack.start());
        stack.world().run(check_tree(stack.file_system()));
    }
}

// ---- rotten bytes

// Whole blocks into aligned memory, and an unaligned range.
CO_TEST(DfsOnEngine, CorruptReadIsNeverReturned, Stack, stack, 7, {}) {
    fs::FileSystem& fs = stack.file_system();
    device::SimDisk& disk = stack.disk();
    const Call call;
    const std::string text(64 << 10, 'k');
    const auto file = co_await fs.create(call, fs::root_node, "file", 0644, read_write, {});
    EXPECT_TRUE(co_await fs.pwrite(call, file->handle, fs::Window::local(as_bytes(text)), 0));
    const AlignedBuffer memory(text.size());
    const auto window = [&](uint64_t length) {
        std::ranges::fill(memory.bytes(), std::byte{'?'});
        return fs::Window::local(memory.bytes().first(length));
    };
    disk.set_hook([](const device::SimOperation& operation) {
        return operation.kind == device::SimKind::read ? device::SimFault::rotten
                                                       : device::SimFault::none;
    });
    for (const auto& [offset, length] :
         {std::pair<uint64_t, uint64_t>{0, block_bytes}, {8192, 5 * block_bytes}, {30'000, 9000}}) {
        const auto bad = co_await fs.pread(call, file->handle, window(length), offset);
        EXPECT_FALSE(bad.has_value()) << offset;
        if (!bad) EXPECT_EQ(bad.error().code, Code::corrupt) << offset;
        EXPECT_EQ(as_text(memory.bytes().first(length)), std::string(length, '\0')) << offset;
    }
    disk.set_hook({});
    const auto good = co_await fs.pread(call, file->handle, window(block_bytes), 60 << 10);
    EXPECT_EQ(good.value_or(0), block_bytes);
    EXPECT_EQ(as_text(memory.bytes().first(block_bytes)), std::string(block_bytes, 'k'));
    EXPECT_TRUE(co_await fs.close(call, file->handle));
}

Task<uint64_t> unlink_while_open(fs::FileSystem& fs) {
    const Call call;
    const auto file = co_await fs.create(call, fs::root_node, "open", 0644, read_write, {});
    const std::string text(3 << 20, 'x');
    EXPECT_TRUE(co_await fs.pwrite(call, file->handle, fs::Window::local(as_bytes(text)), 0));
    EXPECT_TRUE(co_await fs.unlink(call, fs::root_node, "open"));
    co_return file->attributes.node.value;
}
// It may stay for the time of a node that lost its name.
Task<> expect_gone(Reactor& reactor, fs::FileSystem& fs, uint64_t node) {
    const Call call;
    co_await sleep_for(reactor, std::chrono::seconds(60));
    const auto attributes = co_await fs.get_attributes(call, fs::NodeId{node});
    EXPECT_FALSE(attributes.has_value());
    if (!attributes) EXPECT_EQ(attributes.error().code, Code::stale);
}

TEST(DfsOnEngine, OpenUnlinkedFileIsReapedAfterPowerLoss) {
    Stack stack(3, {});
    const uint64_t node = stack.world().run(unlink_while_open(stack.file_system()));
    stack.lose_power();
    (void)stack.world().run(stack.stop());
    stack.world().run(stack.start());
    stack.world().run(expect_gone(stack.world().core(), stack.file_system(), node));
}

}  // namespace
}  // namespace ros2s

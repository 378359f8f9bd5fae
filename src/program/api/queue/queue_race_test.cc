// Threads that submit, reap and call concurrently, over a file system in memory: small enough for
// ThreadSanitizer to see everything.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "ros2s/api/queue/queue.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/run_blocking.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s::api {
namespace {

constexpr uint64_t block = 4096;
constexpr uint32_t depth = 16;

class QueueRaces : public testing::Test {
  protected:
    void SetUp() override {
        Report report;
        reactor_ = made_reactor({.ring = RingChoice::threads, .callers_lead = true});
        ASSERT_TRUE(reactor_->start(report)) << report.text();
        store_ = std::make_unique<object::MemoryStore>(
            *reactor_, object::MemoryStore::Options{.delay_max = std::chrono::microseconds(30)});
        run_blocking(*reactor_, [this] { return open(); });
    }
    void TearDown() override {
        run_blocking(*reactor_, [this] { return dfs_->close_all(); });
    }
    Task<> open() {
        const Call call;
        Report report;
        const auto container = co_await store_->create_container(call, {.label = "c"});
        const auto formatted =
            co_await fs::Dfs::format(call, *store_, container->id, *reactor_, {}, report);
        EXPECT_TRUE(formatted) << report.text();
        dfs_ = std::move(
            *co_await fs::Dfs::mount(call, *store_, container->id, *reactor_, {}, report));
        const auto file = co_await dfs_->create(call, fs::root_node, "file", 0644,
                                                {.read = true, .write = true}, {});
        file_.handle = file->handle;
        node_ = file->attributes.node;
        file_.path = "file";
    }
    Task<> attach(Queue& queue) {
        reactor_->attach(queue);
        co_return;
    }
    Task<> detach(Queue& queue) {
        queue.take_all();
        co_await queue.drain();
        reactor_->detach(queue);
    }
    std::unique_ptr<Queue> make_queue() {
        auto queue = std::move(*Queue::create(*reactor_, *dfs_, depth, {}));
        run_blocking(*reactor_, [&] { return attach(*queue); });
        return queue;
    }
    void close(Queue& queue) {
        run_blocking(*reactor_, [&] { return detach(queue); });
    }
    Task<Result<uint64_t>> size() {
        const Call call;
        const auto attributes = co_await dfs_->get_attributes(call, node_);
        if (!attributes) co_return fail(attributes.error());
        co_return attributes->size;
    }

    std::unique_ptr<OsReactor> reactor_;
    std::unique_ptr<object::MemoryStore> store_;
    std::unique_ptr<fs::Dfs> dfs_;
    CoreFile file_;
    fs::NodeId node_;
};

// Each thread writes its own blocks and reads them back, and sometimes makes a blocking call.
void write_and_read(Queue& queue, CoreFile& file, uint64_t thread, uint64_t threads) {
    const AlignedBuffer memory(depth * block);
    for (uint64_t round = 0; round < 30; ++round) {
        for (const auto opcode : {ROS2S_OP_WRITE, ROS2S_OP_READ}) {
            const auto mark = static_cast<int>(round * threads + thread);
            std::memset(memory.data(), opcode == ROS2S_OP_WRITE ? mark : 0, memory.size());
            for (uint64_t i = 0; i < depth; ++i) {
                queue.put({.opcode = opcode,
                           .file = &file,
                           .address = memory.data() + i * block,
                           .bytes = block,
                           .offset = (i * threads + thread) * block,
                           .user_data = i});
                if (i % 3 == 0) queue.publish();
            }
            queue.publish();
            std::array<ros2s_completion, depth> completions{};
            for (uint32_t reaped = 0; reaped < depth;) {
                const uint32_t got = queue.reap(completions, 1, -1);
                for (uint32_t i = 0; i < got; ++i) {
                    EXPECT_EQ(completions[i].result, static_cast<int64_t>(block));
                }
                reaped += got;
            }
            for (uint64_t i = 0; i < depth; ++i) {
                EXPECT_EQ(memory.data()[i * block], static_cast<std::byte>(mark));
            }
        }
    }
}

TEST_F(QueueRaces, SingleThreadCompletesRequests) {
    auto queue = make_queue();
    write_and_read(*queue, file_, 0, 1);
    close(*queue);
}

TEST_F(QueueRaces, EachThreadUsesItsOwnQueue) {
    constexpr uint64_t count = 3;
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < count; ++t) {
        threads.emplace_back([this, t] {
            auto queue = make_queue();
            write_and_read(*queue, file_, t, count);
            close(*queue);
        });
    }
    for (int i = 0; i < 500; ++i) {
        EXPECT_TRUE(run_blocking(*reactor_, [this] { return size(); }));
        if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(15));
    }
    for (auto& each : threads) each.join();
}

TEST_F(QueueRaces, OneThreadSubmitsAndAnotherReaps) {
    auto queue = make_queue();
    constexpr uint64_t total = 20'000;
    std::thread reaper([&] {
        std::array<ros2s_completion, depth> completions{};
        for (uint64_t reaped = 0; reaped < total;) {
            const uint32_t got = queue->reap(completions, 1, 1'000'000);
            for (uint32_t i = 0; i < got; ++i) EXPECT_EQ(completions[i].user_data, reaped + i);
            reaped += got;
        }
    });
    for (uint64_t i = 0; i < total;) {
        for (uint32_t room = queue->room(); room > 0 && i < total; --room) {
            queue->put({.opcode = ROS2S_OP_NOP, .user_data = i++});
        }
        queue->publish();
        std::this_thread::yield();
    }
    reaper.join();
    close(*queue);
}

}  // namespace
}  // namespace ros2s::api

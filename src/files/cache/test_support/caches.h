// The fixture of tests of CachedFileSystem: two clients with leases on one Dfs.
#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ros2s/runtime/nursery.h"
#include "test_support/cached_dfs.h"

namespace ros2s::cache {

using fs::Attributes;
using fs::NodeId;
using fs::root_node;

class Caches : public testing::Test {
  protected:
    ~Caches() override {
        for (CacheClient* const each : {&a, &b}) world.run(each->cached->close_all());
        for (const CacheClient* const each : {&a, &b}) {
            if (!counts_references) continue;
            for (const auto& [node, count] : each->lending.references) {
                EXPECT_EQ(count, 0) << "references to node " << node;
            }
        }
    }
    Task<NodeId> file(CacheClient& client, NodeId parent, std::string name, mode_t mode = 0644) {
        const auto made = co_await client.cached->mknod(call, parent, name, S_IFREG | mode, 0, {});
        EXPECT_TRUE(made);
        co_return made ? made->node : NodeId{};
    }
    Task<NodeId> directory(CacheClient& client, NodeId parent, std::string name,
                           mode_t mode = 0755) {
        const auto made = co_await client.cached->mkdir(call, parent, name, mode, {});
        EXPECT_TRUE(made);
        co_return made ? made->node : NodeId{};
    }
    Task<uint64_t> write(CacheClient& client, NodeId node, std::string text) {
        const auto opened = co_await client.cached->open(call, node, {.write = true});
        EXPECT_TRUE(opened);
        if (!opened) co_return 0;
        const auto written = co_await client.cached->pwrite(call, opened->handle,
                                                            fs::Window::local(as_bytes(text)), 0);
        EXPECT_TRUE(co_await client.cached->close(call, opened->handle));
        co_return written ? *written : 0;
    }
    Task<Result<std::string>> read(CacheClient& client, fs::FileHandle handle) {
        std::string text(100, '?');
        const auto bytes = co_await client.cached->pread(
            call, handle, fs::Window::local(std::as_writable_bytes(std::span(text))), 0);
        if (!bytes) co_return fail(bytes.error());
        text.resize(*bytes);
        co_return text;
    }
    template <class T>
    static std::optional<Code> code(const Result<T>& result) {
        return result ? std::optional<Code>{} : result.error().code;
    }

    OneDfs dfs{1, std::chrono::microseconds(50)};
    sim::World& world = dfs.world;
    LeaseTable table{world.core()};
    CacheClient a{world, table, *dfs.checked}, b{world, table, *dfs.checked};
    Call call;
    bool counts_references = false;  // the test forgets all that it looked up
};

// A request of a client that waits, or whose reply waits, while the test does something else.
// `gate` is the client's LendingFileSystem::request or reply. Requests that follow wait, too, if
// `holds_later`.
class Held {
  public:
    Held(Reactor& reactor, Event*& gate) : reactor_(reactor), gate_(gate), may_go_(reactor) {}
    Task<> begin(Task<> request, bool holds_later = false) {
        gate_ = &may_go_;
        co_await nursery_.spawn(std::move(request));
        co_await sleep_for(reactor_, std::chrono::milliseconds(10));
        if (!holds_later) gate_ = nullptr;
    }
    Task<> end() {
        gate_ = nullptr;
        may_go_.set();
        co_await nursery_.join();
    }

  private:
    Reactor& reactor_;
    Event*& gate_;
    Event may_go_;
    Nursery nursery_{reactor_, 1};
};

constexpr std::optional<Code> fine{};
#define CO_ASSERT(...)                     \
    do {                                   \
        if (!(__VA_ARGS__)) {              \
            ADD_FAILURE() << #__VA_ARGS__; \
            co_return;                     \
        }                                  \
    } while (false)

}  // namespace ros2s::cache

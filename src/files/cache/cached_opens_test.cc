// CachedFileSystem and files that are open only in the cache.
#include "test_support/caches.h"

namespace ros2s::cache {
namespace {

class CachedOpens : public Caches {
  protected:
    Task<> keeps_open_file();
    Task<> keeps_open_file_of_own_removal();
    Task<> loses_open_file();
    Task<> loses_leases_while_opening();
    Task<> closes_beside_locks();
};

Task<> CachedOpens::keeps_open_file() {
    const NodeId node = co_await file(a, root_node, "f");
    EXPECT_EQ(co_await write(a, node, "text"), 4U);
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    const auto opened = co_await b.cached->open(call, node, {});
    CO_ASSERT(opened.has_value());
    EXPECT_EQ(b.cached->metrics().opens.value(), 1U);
    EXPECT_EQ(code(co_await a.cached->unlink(call, root_node, "f")), fine);
    EXPECT_EQ(b.cached->metrics().opened.value(), 1U) << "before the file was removed";
    co_await sleep_for(world.core(), std::chrono::seconds(10));
    const auto text = co_await read(b, opened->handle);
    CO_ASSERT(text.has_value());
    EXPECT_EQ(*text, "text");
    EXPECT_EQ(code(co_await b.cached->close(call, opened->handle)), fine);
}
TEST_F(CachedOpens, OpenFileSurvivesRemovalByOthers) { world.run(keeps_open_file()); }

Task<> CachedOpens::keeps_open_file_of_own_removal() {
    const std::vector<std::string> names{"f", "g", "h", "i"};
    std::vector<fs::FileHandle> handles;
    std::vector<NodeId> nodes;
    for (const std::string& name : names) {
        nodes.push_back(co_await file(a, root_node, name));
        EXPECT_EQ(co_await write(a, nodes.back(), "text"), 4U);
        EXPECT_EQ(code(co_await a.cached->lookup(call, root_node, name)), fine);
        const auto opened = co_await a.cached->open(call, nodes.back(), {});
        CO_ASSERT(opened.has_value());
        handles.push_back(opened->handle);
    }
    EXPECT_EQ(a.cached->metrics().opens.value(), 4U);
    EXPECT_EQ(code(co_await a.cached->unlink(call, root_node, "f")), fine);
    EXPECT_EQ(code(co_await a.cached->rename(call, root_node, "h", root_node, "g", {})), fine);
    const std::vector<std::string_view> many{"i"};
    EXPECT_EQ(code((co_await a.cached->unlink_many(call, root_node, many))[0]), fine);
    co_await sleep_for(world.core(), std::chrono::seconds(10));
    for (const fs::FileHandle handle : handles) {
        const auto text = co_await read(a, handle);
        EXPECT_EQ(code(text), fine);
        EXPECT_EQ(code(co_await a.cached->close(call, handle)), fine);
    }

    // The names are not kept.
    const std::vector<std::string_view> unknown{"u", "v", "w"};
    handles.clear();
    for (const std::string_view name : unknown) {
        const NodeId node = co_await file(a, root_node, std::string(name));
        EXPECT_EQ(code(co_await b.cached->get_attributes(call, node)), fine);
        const auto opened = co_await b.cached->open(call, node, {});
        CO_ASSERT(opened.has_value());
        handles.push_back(opened->handle);
    }
    EXPECT_EQ(b.cached->metrics().opened.value(), 0U);
    EXPECT_EQ(code(co_await b.cached->unlink(call, root_node, "u")), fine);
    EXPECT_EQ(code(co_await b.cached->rename(call, root_node, "v", root_node, "w", {})), fine);
    co_await sleep_for(world.core(), std::chrono::seconds(10));
    for (const fs::FileHandle handle : handles) {
        EXPECT_EQ(code(co_await read(b, handle)), fine);
        EXPECT_EQ(code(co_await b.cached->close(call, handle)), fine);
    }
}
TEST_F(CachedOpens, OpenFileSurvivesOwnRemoval) { world.run(keeps_open_file_of_own_removal()); }

// The server has ended the lease without asking.
Task<> CachedOpens::loses_open_file() {
    const NodeId node = co_await file(a, root_node, "f");
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    const auto opened = co_await b.cached->open(call, node, {});
    const auto closed = co_await b.cached->open(call, node, {});
    CO_ASSERT(opened && closed);
    table.given.clear();
    EXPECT_EQ(code(co_await a.cached->unlink(call, root_node, "f")), fine);
    co_await sleep_for(world.core(), std::chrono::seconds(10));
    co_await b.lending.leases()->lose_all();
    EXPECT_EQ(code(co_await read(b, opened->handle)), Code::stale);
    EXPECT_EQ(code(b.cached->path_report(opened->handle)), Code::stale);
    EXPECT_EQ(code(co_await b.cached->close(call, opened->handle)), fine);
    EXPECT_EQ(code(co_await b.cached->close(call, closed->handle)), fine);
    EXPECT_EQ(b.cached->nodes(), 0U);
    EXPECT_EQ(b.cached->names(), 0U);
}
TEST_F(CachedOpens, FileThatIsGoneIsStale) { world.run(loses_open_file()); }

Task<> read_at(CachedFileSystem& files, fs::FileHandle handle, Result<uint64_t>& done) {
    const Call call;
    std::string text(10, '?');
    done = co_await files.pread(call, handle,
                                fs::Window::local(std::as_writable_bytes(std::span(text))), 0);
}

// As when the connection is lost: the file cannot be opened below before the leases have ended.
Task<> CachedOpens::loses_leases_while_opening() {
    const NodeId node = co_await file(a, root_node, "f");
    EXPECT_EQ(co_await write(a, node, "x"), 1U);
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    const auto opened = co_await b.cached->open(call, node, {});
    CO_ASSERT(opened.has_value());
    Result<uint64_t> done = fail(Code::io);
    Held held(world.core(), b.lending.reply);
    co_await held.begin(read_at(*b.cached, opened->handle, done), true);
    const Time before = world.now();
    co_await b.lending.leases()->lose_all();
    EXPECT_LE(world.now() - before, std::chrono::seconds(2));
    co_await held.end();
    EXPECT_EQ(code(done), fine);
    EXPECT_EQ(code(co_await b.cached->close(call, opened->handle)), fine);
}
TEST_F(CachedOpens, LossOfLeasesDoesNotWaitForOpens) { world.run(loses_leases_while_opening()); }

// With the request that a mount makes at each close of a file.
Task<> CachedOpens::closes_beside_locks() {
    const NodeId locked = co_await file(a, root_node, "l"), node = co_await file(a, root_node, "f");
    const object::Lock own{.mode = object::LockMode::exclusive, .owner = 1};
    const object::Lock whole{
        .space = object::LockSpace::flock, .mode = object::LockMode::exclusive, .owner = 2};
    const object::Lock none{.owner = 1};
    const auto opened = co_await b.cached->open(call, locked, {.write = true});
    CO_ASSERT(opened.has_value());
    for (const object::Lock& each : {own, whole}) {
        EXPECT_EQ(code(co_await b.cached->lock(call, opened->handle, each, fs::LockHow::now)),
                  fine);
    }
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "l")), fine);
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines): awaited in this frame
    const auto close = [&](NodeId of, object::Lock closed) -> Task<> {
        const auto one = co_await b.cached->open(call, of, {});
        CO_ASSERT(one.has_value());
        EXPECT_EQ(code(co_await b.cached->lock(call, one->handle, closed, fs::LockHow::now)), fine);
        EXPECT_EQ(code(co_await b.cached->close(call, one->handle)), fine);
    };
    b.lending.requests = 0;
    co_await close(node, none);
    co_await close(locked, {.owner = 3});
    EXPECT_EQ(b.lending.requests, 0U) << "these owners have no lock there";
    co_await close(locked, none);
    EXPECT_GT(b.lending.requests, 0U);
    EXPECT_EQ(code(co_await b.cached->close(call, opened->handle)), fine);
    b.lending.requests = 0;
    co_await close(locked, none);
    co_await close(locked, {.space = object::LockSpace::flock, .owner = 2});
    EXPECT_EQ(b.lending.requests, 0U) << "their locks have ended";
    EXPECT_EQ(code(co_await a.cached->lookup(call, root_node, "l")), fine);
}
TEST_F(CachedOpens, CloseWithoutLocksNeedsNoRequest) { world.run(closes_beside_locks()); }

}  // namespace
}  // namespace ros2s::cache

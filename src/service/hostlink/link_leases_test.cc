// Two hosts whose mounts lend leases, each with a cache.
#include <gtest/gtest.h>

#include "ros2s/cache/cached_file_system.h"
#include "ros2s/fs/contract/acl_text.h"
#include "ros2s/runtime/nursery.h"
#include "test_support/link.h"

namespace ros2s::hostlink {
namespace {

using namespace std::chrono_literals;
using fs::FileHandle;
using fs::Window;

class LinkLeases : public testing::Test {
  protected:
    void SetUp() override { world_.run(start(*this)); }
    void TearDown() override { world_.run(stop(*this)); }
    static Task<> start(LinkLeases& self) {
        co_await self.dpu_.start();
        for (size_t i = 0; i < 2; ++i) {
            self.hosts_[i].subject = i == 0 ? "CN=a" : "CN=b";
            co_await self.hosts_[i].start({.wants_leases = true});
            self.files_[i] =
                std::make_unique<cache::CachedFileSystem>(self.world_.core(), *self.hosts_[i].link);
        }
        co_await sleep_for(self.world_.core(), 10ms);
    }
    static Task<> stop(LinkLeases& self) {
        for (size_t i = 0; i < 2; ++i) {
            co_await self.files_[i]->close_all();
            self.files_[i].reset();
            co_await self.hosts_[i].stop();
        }
        co_await self.dpu_.stop();
    }
    void make_file(std::string_view name, size_t bytes) {
        const Call call;
        const std::vector<std::byte> data(bytes, std::byte{7});
        const auto made =
            world_.run(b().create(call, fs::root_node, name, 0644, {.write = true}, {}));
        ASSERT_TRUE(made);
        EXPECT_TRUE(world_.run(b().pwrite(call, made->handle, Window::local(ConstBytes(data)), 0)));
        EXPECT_TRUE(world_.run(b().close(call, made->handle)));
        world_.run(pass(1s));  // others waited for the directory: no leases for a moment
    }
    Task<> pass(Duration time) { co_await sleep_for(world_.core(), time); }
    [[nodiscard]] fs::FileSystem& a() { return *files_[0]; }
    [[nodiscard]] fs::FileSystem& b() { return *files_[1]; }
    fs::Attributes find(fs::FileSystem& files, std::string_view name) {
        const auto found = world_.run(files.lookup({}, fs::root_node, name));
        EXPECT_TRUE(found);
        return found.value_or(fs::Attributes{});
    }
    // Requests other than listening.
    [[nodiscard]] uint64_t requests() const {
        const LinkServerMetrics& all = dpu_.service.metrics();
        return all.lookups.value() + all.changes.value() + all.reads.value() + all.writes.value();
    }

    sim::World world_{1};
    fabric::sim::Network network_{world_.random()};
    Dpu dpu_{world_, network_,
             std::make_unique<DfsSource>(world_.core(), uint64_t{64} << 10, true)};
    std::array<Host, 2> hosts_{Host{dpu_, 1}, Host{dpu_, 2}};
    std::array<std::unique_ptr<cache::CachedFileSystem>, 2> files_;
};

TEST_F(LinkLeases, SecondLookUpNeedsNoRequest) {
    make_file("f", 100);
    const auto first = find(a(), "f");
    const uint64_t before = requests();
    EXPECT_EQ(find(a(), "f").node, first.node);
    EXPECT_EQ(world_.run(a().get_attributes({}, first.node))->size, 100U);
    EXPECT_EQ(requests(), before);
}

TEST_F(LinkLeases, ChangeByAnotherHostIsSeenAtOnce) {
    make_file("f", 100);
    const auto node = find(a(), "f").node;
    ASSERT_TRUE(world_.run(b().set_attributes({}, node, {.mode = 0600})));
    EXPECT_EQ(find(a(), "f").mode & 07777, 0600U);
    ASSERT_TRUE(world_.run(b().unlink({}, fs::root_node, "f")));
    EXPECT_EQ(world_.run(a().lookup({}, fs::root_node, "f")).error().code, Code::not_found);
}

TEST_F(LinkLeases, AbsentNameIsKeptUntilAnotherHostMakesIt) {
    (void)find(a(), ".");
    EXPECT_EQ(world_.run(a().lookup({}, fs::root_node, "g")).error().code, Code::not_found);
    make_file("g", 1);
    EXPECT_EQ(find(a(), "g").size, 1U);
}

TEST_F(LinkLeases, ColdFileIsReadByTwoRequests) {
    make_file("f", 5000);
    const uint64_t before = requests();
    const auto node = find(a(), "f").node;
    const auto opened = world_.run(a().open({}, node, {.read = true}));
    ASSERT_TRUE(opened);
    std::vector<std::byte> into(8192);
    EXPECT_EQ(world_.run(a().pread({}, opened->handle, Window::local(Bytes(into)), 0)), 5000U);
    EXPECT_EQ(into[4999], std::byte{7});
    EXPECT_EQ(world_.run(a().pread({}, opened->handle, Window::local(Bytes(into)), 5000)), 0U);
    EXPECT_TRUE(world_.run(a().close({}, opened->handle)));
    EXPECT_EQ(requests(), before + 2);
}

TEST_F(LinkLeases, FileIsReadAfterAnotherHostHasRemovedIt) {
    make_file("f", 5000);
    const auto node = find(a(), "f").node;
    const auto opened = world_.run(a().open({}, node, {.read = true}));
    ASSERT_TRUE(opened);
    std::vector<std::byte> into(8192);
    EXPECT_EQ(world_.run(a().pread({}, opened->handle, Window::local(Bytes(into)), 0)), 5000U);
    ASSERT_TRUE(world_.run(b().unlink({}, fs::root_node, "f")));
    world_.run(pass(60s));
    EXPECT_EQ(world_.run(a().pread({}, opened->handle, Window::local(Bytes(into)), 0)), 5000U);
    EXPECT_TRUE(world_.run(a().close({}, opened->handle)));
}

TEST_F(LinkLeases, HostThatIsGoneDelaysOthersByItsTime) {
    make_file("f", 100);
    const auto node = find(a(), "f").node;
    world_.run(hosts_[0].channel->close());
    const Time begun = world_.core().now();
    ASSERT_TRUE(world_.run(b().set_attributes({}, node, {.mode = 0600})));
    EXPECT_LE(world_.core().now() - begun, session::MountLeases::held_most + 100ms);
}

// The recall of another host's lease must not wait for what the tenant may not do yet.
TEST_F(LinkLeases, HostAtItsRateGivesBackAtOnce) {
    make_file("f", 100);
    const auto node = find(a(), "f").node;
    dpu_.accounts.set({.by_account = {{"CN=a", {.names = 10, .burst = 10ms}}}});
    Nursery waiting(world_.core(), 64);
    for (int i = 0; i < 50; ++i) {
        world_.run(waiting.spawn([](fs::FileSystem& files, fs::NodeId of) -> Task<> {
            EXPECT_TRUE(co_await files.get_attributes({}, of));
        }(*hosts_[0].link, node)));
    }
    world_.run(pass(1s));
    EXPECT_GT(waiting.running(), 20U);
    const Time begun = world_.core().now();
    ASSERT_TRUE(world_.run(b().set_attributes({}, node, {.mode = 0600})));
    EXPECT_LE(world_.core().now() - begun, 50ms);
    dpu_.accounts.set({});
    world_.run(waiting.join());
}

// All its requests wait for a third host, which does not answer.
TEST_F(LinkLeases, HostWhoseRequestsAllWaitGivesBackAtOnce) {
    make_file("f", 100);
    make_file("g", 100);
    const auto f = find(a(), "f").node, g = find(a(), "g").node;
    (void)world_.run(a().set_attributes({}, g, {.mode = 0644}));
    Host third(dpu_, 3);
    world_.run(third.start({.wants_leases = true}));
    auto files = std::make_unique<cache::CachedFileSystem>(world_.core(), *third.link);
    world_.run(pass(1s));
    EXPECT_EQ(find(*files, "g").node, g);
    EXPECT_EQ(find(a(), "f").node, f);
    world_.run(third.channel->close());
    Nursery waiting(world_.core(), 300);
    for (int i = 0; i < 300; ++i) {
        world_.run(waiting.spawn([](fs::FileSystem& of, fs::NodeId node) -> Task<> {
            EXPECT_TRUE(co_await of.set_attributes({}, node, {.mode = 0600}));
        }(*hosts_[0].link, g)));
    }
    world_.run(pass(100ms));
    EXPECT_EQ(waiting.running(), 300U);
    const Time begun = world_.core().now();
    ASSERT_TRUE(world_.run(b().set_attributes({}, f, {.mode = 0600})));
    EXPECT_LE(world_.core().now() - begun, 50ms);
    world_.run(waiting.join());
    world_.run(files->close_all());
    files.reset();
    world_.run(third.stop());
}

TEST_F(LinkLeases, WaitingSharedLocksAskRarely) {
    using object::Lock;
    using object::LockMode;
    make_file("f", 100);
    const auto node = find(a(), "f").node;
    const auto open = [&](fs::FileSystem& files) {
        return world_.run(files.open({}, node, {.write = true}))->handle;
    };
    const Lock all{.mode = LockMode::exclusive, .last = UINT64_MAX, .owner = 1};
    const FileHandle holder = open(*hosts_[1].link), waiter = open(*hosts_[0].link);
    const auto set = [&](LockMode mode) {
        Lock lock = all;
        lock.mode = mode;
        EXPECT_TRUE(world_.run(hosts_[1].link->lock({}, holder, lock, fs::LockHow::now)));
    };
    set(LockMode::exclusive);
    Nursery waiting(world_.core(), 2);
    for (const uint64_t owner : {1U, 2U}) {
        const auto wait = [](fs::FileSystem& files, FileHandle handle, Lock lock) -> Task<> {
            EXPECT_TRUE(co_await files.lock({}, handle, lock, fs::LockHow::wait));
        };
        const Lock lock{.mode = LockMode::shared, .last = UINT64_MAX, .owner = owner};
        world_.run(waiting.spawn(wait(*hosts_[0].link, waiter, lock)));
    }
    const uint64_t before = hosts_[0].channel->metrics().requests.value();
    world_.run(pass(1s));
    EXPECT_EQ(waiting.running(), 2U);
    EXPECT_LE(hosts_[0].channel->metrics().requests.value() - before, 60U);
    set(LockMode::none);
    world_.run(waiting.join());
    EXPECT_TRUE(world_.run(hosts_[0].link->close({}, waiter)));
    EXPECT_TRUE(world_.run(hosts_[1].link->close({}, holder)));
}

TEST_F(LinkLeases, MountThatMapsUsersLendsNothing) {
    Host host(dpu_, 3);
    session::MountScope scope{.wants_leases = true};
    scope.users.uid_map = {{.host = 0, .stored = 1000, .count = 10}};
    world_.run(host.start(std::move(scope)));
    EXPECT_EQ(host.link->leases(), nullptr);
    world_.run(host.stop());
}

TEST_F(LinkLeases, NumbersInAccessListsAreMapped) {
    make_file("f", 1);
    Host host(dpu_, 3);
    session::MountScope scope;
    scope.users.uid_map = {{.host = 0, .stored = 1000, .count = 10}};
    scope.users.gid_map = {{.host = 0, .stored = 2000, .count = 10}};
    world_.run(host.start(std::move(scope)));
    fs::FileSystem& mapped = *host.link;
    const auto node = find(a(), "f").node;
    ASSERT_TRUE(world_.run(a().set_attributes({}, node, {.uid = 1000})));
    EXPECT_EQ(find(mapped, "f").uid, 0U);
    const auto set = [&](fs::FileSystem& files, std::string_view text) {
        const std::string list = fs::contract::acl(text);
        const auto done = world_.run(
            files.set_xattr({}, node, fs::access_acl_name, as_bytes(list), fs::SetXattr::any));
        return done ? std::nullopt : std::optional(done.error().code);
    };
    const auto get = [&](fs::FileSystem& files) -> std::string {
        const auto bytes = world_.run(files.get_xattr({}, node, fs::access_acl_name));
        if (!bytes) return describe(bytes.error());
        return fs::contract::acl_text(fs::Acl::decode(as_bytes(*bytes)).value());
    };
    EXPECT_EQ(set(mapped, "u::rw-,u:3:rw-,g::r--,g:4:r--,m::rw-,o::---"), std::nullopt);
    EXPECT_EQ(get(mapped), "u::rw-,u:3:rw-,g::r--,g:4:r--,m::rw-,o::---");
    EXPECT_EQ(get(a()), "u::rw-,u:1003:rw-,g::r--,g:2004:r--,m::rw-,o::---");
    EXPECT_EQ(set(mapped, "u::rw-,u:10:rw-,g::r--,m::rw-,o::---"), Code::invalid);
    EXPECT_EQ(set(a(), "u::rw-,u:7:rw-,g::r--,m::rw-,o::---"), std::nullopt);
    EXPECT_EQ(get(mapped), "u::rw-,u:65534:rw-,g::r--,m::rw-,o::---");
    world_.run(host.stop());
}

}  // namespace
}  // namespace ros2s::hostlink

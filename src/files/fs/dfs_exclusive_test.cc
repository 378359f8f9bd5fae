// Exclusive mounts, at a store whose sessions end.
#include <gtest/gtest.h>

#include "dfs.h"
#include "ros2s/fs/container.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::fs {
namespace {

// Each era is another session.
class SessionStore final : public object::ForwardingStore {
  public:
    using ForwardingStore::ForwardingStore;
    object::Features features() const override {
        object::Features all = below().features();
        all.deferred = defers;
        return all;
    }
    Task<Result<std::optional<object::Lock>>> lock(const Call& call, object::ContainerId container,
                                                   const object::Holder& holder,
                                                   const object::LockRequest& request) override {
        co_return co_await below().lock(call, container, in_session(holder), request);
    }
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override {
        object::Transaction sent = transaction;
        sent.holder = in_session(transaction.holder);
        co_return co_await below().update(call, container, sent);
    }
    Task<Result<>> fetch_chain(const Call& call, object::ContainerId container,
                               const object::Holder& holder, std::span<object::FetchItem> items,
                               std::span<object::Link> links) override {
        co_return co_await below().fetch_chain(call, container, in_session(holder), items, links);
    }
    uint64_t pins_era() const override { return era; }
    uint64_t era = 1;
    bool defers = true;

  private:
    object::Holder in_session(object::Holder holder) const {
        holder.session = era;
        return holder;
    }
};

struct ExclusiveMount : testing::Test {
    Task<> make() {
        const auto made =
            co_await create_container({}, world_.core(), store_, {.label = "c"}, {}, report_);
        container_ = made->id;
        EXPECT_TRUE(
            co_await set_durability({}, world_.core(), store_, *made, Durability::fsync, report_));
    }
    Task<Result<std::unique_ptr<Dfs>>> mount(object::ObjectStore& store, std::string exclusive_as) {
        co_return co_await Dfs::mount({}, store, container_, world_.core(),
                                      {.defers = true, .exclusive_as = std::move(exclusive_as)},
                                      report_);
    }
    static Task<Result<>> write(Dfs& files, std::string name) {
        ROS2S_CO_TRY_ASSIGN(const auto made,
                            co_await files.create({}, root_node, name, 0644, {.write = true}, {}));
        co_return co_await files.close({}, made.handle);
    }

    sim::World world_{1};
    object::MemoryStore memory_{world_.core(), {}};
    SessionStore store_{memory_}, other_{memory_};
    object::ContainerId container_;
    Report report_;
};

TEST_F(ExclusiveMount, RefusesAnotherAndNamesItself) {
    world_.run([](ExclusiveMount& self) -> Task<> {
        co_await self.make();
        const auto one = co_await self.mount(self.store_, "host:/mnt\n");
        EXPECT_TRUE(one);
        self.other_.era = 7;
        EXPECT_EQ((co_await self.mount(self.other_, "other")).error().code, Code::busy);
        EXPECT_NE(self.report_.text().find("by host:/mnt\\x0a: unmount it"), std::string::npos)
            << self.report_.text();
        co_await (*one)->close_all();
        const auto two = co_await self.mount(self.other_, "other");
        EXPECT_TRUE(two);
        co_await (*two)->close_all();
    }(*this));
}

TEST_F(ExclusiveMount, KeepsTheContainerInANewSession) {
    world_.run([](ExclusiveMount& self) -> Task<> {
        co_await self.make();
        const auto mounted = co_await self.mount(self.store_, "one");
        EXPECT_TRUE(co_await self.write(**mounted, "a"));
        ++self.store_.era;
        EXPECT_TRUE(co_await self.write(**mounted, "b"));
        co_await (*mounted)->close_all();
    }(*this));
}

TEST_F(ExclusiveMount, ReadsAndChangesNothingAfterAnotherHadTheContainer) {
    world_.run([](ExclusiveMount& self) -> Task<> {
        co_await self.make();
        const auto mounted = co_await self.mount(self.store_, "one");
        EXPECT_TRUE(co_await self.write(**mounted, "a"));
        const auto root = co_await (*mounted)->open({}, root_node, {.read = true});
        EXPECT_TRUE(root);
        self.memory_.session_ended(self.store_.era);
        self.other_.era = 7;
        const auto other = co_await self.mount(self.other_, "other");
        EXPECT_TRUE(co_await self.write(**other, "b"));
        co_await (*other)->close_all();
        ++self.store_.era;
        EXPECT_EQ((co_await self.write(**mounted, "c")).error().code, Code::io);
        EXPECT_EQ((co_await (*mounted)->lookup({}, root_node, "b")).error().code, Code::io);
        EXPECT_EQ((co_await (*mounted)->unlink({}, root_node, "a")).error().code, Code::io);
        EXPECT_EQ((co_await (*mounted)->get_attributes({}, root_node)).error().code, Code::io);
        EXPECT_EQ((co_await (*mounted)->list_xattrs({}, root_node)).error().code, Code::io);
        EXPECT_EQ((co_await (*mounted)->readdir({}, root->handle, 0, 9)).error().code, Code::io);
        co_await (*mounted)->close_all();
    }(*this));
}

TEST_F(ExclusiveMount, IsUnsupportedWhereChangesAreDurable) {
    world_.run([](ExclusiveMount& self) -> Task<> {
        co_await self.make();
        self.store_.defers = false;
        EXPECT_EQ((co_await self.mount(self.store_, "one")).error().code, Code::unsupported);
    }(*this));
}

}  // namespace
}  // namespace ros2s::fs

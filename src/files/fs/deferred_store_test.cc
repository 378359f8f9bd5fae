#include "deferred_store.h"

#include "ros2s/fs/container.h"
#include "test_support/counted_dfs.h"

namespace ros2s::fs {
namespace {

// A store in another process, which can lose power.
class RestartedStore final : public object::ForwardingStore {
  public:
    using ForwardingStore::ForwardingStore;
    // It is started again. `lost`: the deferred transactions since the last sync() are lost.
    void restart(bool lost) {
        ++incarnation_;
        ++era_;
        lost_ = lost;
    }
    bool lose_later = false;  // what is asked for after the next sync()
    uint64_t syncs = 0;
    Uuid reader;  // of the last fetch

    object::Features features() const override {
        object::Features features = below().features();
        features.deferred = true;
        return features;
    }
    uint64_t pins_era() const override { return era_; }
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<FetchItem> items) override {
        reader = call.client == nullptr ? Uuid{} : call.client->id;
        co_return co_await below().fetch(call, container, items);
    }
    Task<Result<Commit>> update(const Call& call, object::ContainerId container,
                                const object::Transaction& transaction) override {
        if (transaction.deferred && call.client->incarnation != incarnation_) {
            co_return fail(Code::expired, incarnation_);
        }
        co_return co_await below().update(call, container, transaction);
    }
    // Runs once, while the next sync() is on its way.
    std::function<Task<>()> meanwhile;
    Task<Result<uint64_t>> sync(const Call&, object::ContainerId,
                                const object::Acknowledged& known) override {
        ++syncs;
        if (auto run = std::exchange(meanwhile, {})) co_await run();
        const bool is_of_before = known.incarnation != incarnation_ && known.incarnation != 0;
        const bool is_lost = lost_ && known.last.value != 0;
        lost_ = lost_ || std::exchange(lose_later, false);
        if (is_of_before && is_lost) co_return fail(Code::expired, incarnation_);
        co_return incarnation_;
    }

  private:
    uint64_t incarnation_ = 7, era_ = 1;
    bool lost_ = false;
};

struct DeferredMounts : DfsMounts {
    void SetUp() override {
        DfsMounts::SetUp();
        EXPECT_EQ(format(), std::nullopt);
        const object::ContainerRecord record{.id = container_, .properties = {.label = "c"}};
        EXPECT_TRUE(world_.run(
            set_durability(call_, world_.core(), restarted_, record, Durability::fsync, report_)));
        auto mounted = world_.run(
            Dfs::mount(call_, restarted_, container_, world_.core(), {.defers = true}, report_));
        EXPECT_TRUE(mounted) << report_.text();
        files_ = std::move(*mounted);
    }
    void TearDown() override { world_.run(files_->close_all()); }
    FileHandle open(std::string_view name) {
        return world_.run(files_->create(call_, root_node, name, 0644, {.write = true}, {}))
            ->handle;
    }
    std::optional<Code> write(FileHandle handle) {
        std::string bytes = "x";
        const auto written = world_.run(files_->pwrite(
            call_, handle, Window::local(std::as_writable_bytes(std::span(bytes))), 0));
        return written ? std::nullopt : std::optional(written.error().code);
    }
    std::optional<Code> fsync(FileHandle handle) {
        const auto synced = world_.run(files_->fsync(call_, handle));
        return synced ? std::nullopt : std::optional(synced.error().code);
    }
    static Task<> write_and_restart(DeferredMounts& self, FileHandle handle) {
        std::string bytes = "x";
        EXPECT_TRUE(co_await self.files_->pwrite(
            self.call_, handle, Window::local(std::as_writable_bytes(std::span(bytes))), 0));
        self.restarted_.restart(false);
        self.restarted_.lose_later = true;
    }
    static Task<> pass(Reactor& core, Duration time) { (void)co_await sleep_for(core, time); }
    void pass_seconds(int seconds) {
        world_.run(pass(world_.core(), std::chrono::seconds(seconds)));
    }

    RestartedStore restarted_{store_};
    std::unique_ptr<Dfs> files_;
};

TEST_F(DeferredMounts, RequestsSayWhoAsks) {
    const FileHandle file = open("f");
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_TRUE(world_.run(files_->get_attributes(call_, root_node)));
    EXPECT_FALSE(restarted_.reader.is_nil());
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
}

TEST_F(DeferredMounts, LossIsToldOnceToEachFileThatWasOpenForWriting) {
    const FileHandle first = open("first"), second = open("second");
    EXPECT_EQ(write(first), std::nullopt);
    restarted_.restart(true);
    EXPECT_EQ(fsync(first), Code::io);
    EXPECT_EQ(fsync(first), std::nullopt);
    EXPECT_EQ(write(first), std::nullopt);
    EXPECT_EQ(write(second), Code::io);
    EXPECT_EQ(write(second), std::nullopt);
    const FileHandle later = open("later");
    EXPECT_EQ(write(later), std::nullopt);
    EXPECT_EQ(fsync(later), std::nullopt);
    for (const FileHandle each : {first, second, later}) {
        EXPECT_TRUE(world_.run(files_->close(call_, each)));
    }
}

TEST_F(DeferredMounts, RestartWithoutLossTellsNothing) {
    const FileHandle file = open("f");
    EXPECT_EQ(write(file), std::nullopt);
    restarted_.restart(false);
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_EQ(fsync(file), std::nullopt);
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
}

TEST_F(DeferredMounts, ChangeAfterALossIsNotMadeBeforeTheLossWasTold) {
    const FileHandle file = open("old");
    EXPECT_EQ(write(file), std::nullopt);
    restarted_.restart(true);
    const auto renamed = world_.run(files_->rename(call_, root_node, "old", root_node, "new", {}));
    EXPECT_EQ(outcome_of(renamed), Code::io);
    EXPECT_TRUE(world_.run(files_->lookup(call_, root_node, "old")));
    EXPECT_EQ(write(file), Code::io) << "its user does not know yet";
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
}

// The old server acknowledges a write while it is asked for the one before, and then loses both.
TEST_F(DeferredMounts, WriteDuringASyncThatTheOldServerDidNotAnswerIsNotMissed) {
    const FileHandle first = open("first"), second = open("second");
    EXPECT_EQ(write(first), std::nullopt);
    restarted_.meanwhile = [&] { return write_and_restart(*this, second); };
    EXPECT_EQ(fsync(first), Code::io);
    for (const FileHandle each : {first, second}) {
        (void)world_.run(files_->close(call_, each));
    }
}

TEST_F(DeferredMounts, LossFoundInTheBackgroundIsToldToTheNextChange) {
    const FileHandle file = open("old");
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
    restarted_.restart(true);
    pass_seconds(3);
    const auto rename = [&] {
        return outcome_of(
            world_.run(files_->rename(call_, root_node, "old", root_node, "new", {})));
    };
    EXPECT_EQ(rename(), Code::io);
    EXPECT_EQ(rename(), std::nullopt);
}

TEST_F(DeferredMounts, FileOpenedAfterALossTellsItIfNobodyHas) {
    const FileHandle file = open("f");
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
    restarted_.restart(true);
    pass_seconds(3);
    const NodeId node = world_.run(files_->lookup(call_, root_node, "f"))->node;
    const FileHandle again = world_.run(files_->open(call_, node, {.write = true}))->handle;
    EXPECT_EQ(fsync(again), Code::io);
    EXPECT_EQ(fsync(again), std::nullopt);
    EXPECT_TRUE(world_.run(files_->close(call_, again)));
}

TEST_F(DeferredMounts, SyncedWriteIsNotMissedAfterALoss) {
    const FileHandle file = open("f");
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_EQ(fsync(file), std::nullopt);
    restarted_.restart(true);
    EXPECT_EQ(fsync(file), std::nullopt);
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
}

// The store makes it durable by itself. The mount asks whether it did.
TEST_F(DeferredMounts, MountAsksWithinSecondsAndThenRests) {
    const FileHandle file = open("f");
    EXPECT_EQ(write(file), std::nullopt);
    const uint64_t before = restarted_.syncs;
    pass_seconds(3);
    EXPECT_EQ(restarted_.syncs, before + 1);
    pass_seconds(30);
    EXPECT_EQ(restarted_.syncs, before + 1);
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
}

TEST_F(DeferredMounts, CloseTellsTheLoss) {
    const FileHandle file = open("f");
    EXPECT_EQ(write(file), std::nullopt);
    restarted_.restart(true);
    pass_seconds(3);
    const auto closed = world_.run(files_->close(call_, file));
    EXPECT_EQ(closed ? std::nullopt : std::optional(closed.error().code), Code::io);
}

}  // namespace
}  // namespace ros2s::fs

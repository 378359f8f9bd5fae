#include "deferred_store.h"

#include <algorithm>

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
    // After a loss: it waits until the mount has repeated what is lost, of which it refuses all
    // from this change on.
    bool awaits = false;
    size_t held_off = 0;  // so many requests
    size_t repeats_max = SIZE_MAX;
    size_t full = 0;  // so many repetitions find no space
    bool read_only = false;
    bool denied = false;  // sync()
    bool cancels_next = false;
    bool replays_next = false;  // as if its request had been sent twice
    size_t updates = 0;
    std::vector<UpdateName> repeated;
    uint64_t syncs = 0;
    Uuid reader;           // of the last fetch
    bool durable = false;  // the last update

    object::Features features() const override {
        object::Features features = below().features();
        features.deferred = true;
        return features;
    }
    uint64_t pins_era() const override { return era_; }
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<FetchItem> items) override {
        reader = call.client == nullptr ? Uuid{} : call.client->id;
        ROS2S_CO_TRY(check(call));
        co_return co_await below().fetch(call, container, items);
    }
    Task<Result<>> fetch_chain(const Call& call, object::ContainerId container,
                               const object::Holder& holder, std::span<FetchItem> items,
                               std::span<object::Link> links) override {
        ROS2S_CO_TRY(check(call));
        co_return co_await below().fetch_chain(call, container, holder, items, links);
    }
    Task<Result<Commit>> update(const Call& call, object::ContainerId container,
                                const object::Transaction& transaction) override {
        ROS2S_CO_TRY(check(call));
        if (transaction.was_lost) {
            if (read_only) co_return fail(Code::read_only);
            if (full > 0) {
                --full;
                co_return fail(Code::no_space);
            }
            if (repeated.size() == repeats_max) co_return fail(Code::condition_failed);
            repeated.push_back(transaction.id);
        }
        durable = !transaction.deferred;
        ++updates;
        auto done = co_await below().update(call, container, transaction);
        if (std::exchange(replays_next, false)) done->replayed = true;
        if (std::exchange(cancels_next, false)) co_return fail(Code::cancelled);
        co_return done;
    }
    // Runs once, while the next sync() is on its way.
    std::function<Task<>()> meanwhile;
    Task<Result<uint64_t>> sync(const Call&, object::ContainerId, const object::Holder&,
                                const object::Acknowledged& known) override {
        ++syncs;
        if (denied) co_return fail(Code::denied);
        if (auto run = std::exchange(meanwhile, {})) co_await run();
        const bool is_of_before = known.incarnation != incarnation_ && known.incarnation != 0;
        const bool is_lost = lost_ && known.last.value != 0;
        lost_ = lost_ || std::exchange(lose_later, false);
        if (is_of_before && is_lost) {
            co_return fail(awaits ? Code::busy : Code::expired, incarnation_);
        }
        co_return incarnation_;
    }

  private:
    [[nodiscard]] Result<> check(const Call& call) {
        if (held_off > 0) {
            --held_off;
            return fail(Code::leased);
        }
        const uint64_t known = call.client == nullptr ? 0 : call.client->incarnation;
        if (known != 0 && known != incarnation_) return fail(Code::expired, incarnation_);
        return {};
    }
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
        auto mounted =
            world_.run(Dfs::mount(call_, restarted_, container_, world_.core(),
                                  {.defers = true,
                                   .log = Log([this](LogLevel level, std::string_view line) {
                                       if (level == LogLevel::error) said_.emplace_back(line);
                                   }),
                                   .shown = "a container here"},
                                  report_));
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
    // All that is not durable is lost. `handle`: the next write to it is told so.
    static Task<> lose_and_tell(DeferredMounts& self, FileHandle handle) {
        self.lose_power();
        self.restarted_.repeats_max = 0;
        std::string bytes = "x";
        const auto written = co_await self.files_->pwrite(
            self.call_, handle, Window::local(std::as_writable_bytes(std::span(bytes))), 0);
        EXPECT_EQ(written, Result<uint64_t>(fail(Code::io)));
    }
    static Task<> lose(DeferredMounts& self) {
        self.lose_power();
        co_return;
    }
    void lose_power() {
        restarted_.restart(true);
        restarted_.awaits = true;
    }
    static Task<> pass(Reactor& core, Duration time) { (void)co_await sleep_for(core, time); }
    void pass_seconds(int seconds) {
        world_.run(pass(world_.core(), std::chrono::seconds(seconds)));
    }

    RestartedStore restarted_{store_};
    std::unique_ptr<Dfs> files_;
    std::vector<std::string> said_;
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

TEST_F(DeferredMounts, LostChangesAreRepeatedInOrderWithoutAnError) {
    const FileHandle file = open("f");
    for (int i = 0; i < 3; ++i) EXPECT_EQ(write(file), std::nullopt);
    EXPECT_EQ(fsync(file), std::nullopt);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(write(file), std::nullopt);
    restarted_.restart(true);
    restarted_.awaits = true;
    EXPECT_TRUE(world_.run(files_->get_attributes(call_, root_node))) << "a read repeats it, too";
    EXPECT_EQ(restarted_.repeated.size(), 3U);
    EXPECT_TRUE(std::ranges::is_sorted(restarted_.repeated, {}, &UpdateName::sequence));
    EXPECT_EQ(fsync(file), std::nullopt);
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_EQ(restarted_.repeated.size(), 3U);
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
}

TEST_F(DeferredMounts, ChangeAfterOneThatMayBeDoneIsDurable) {
    const FileHandle file = open("f");
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_FALSE(restarted_.durable);
    restarted_.cancels_next = true;
    EXPECT_EQ(write(file), Code::cancelled);
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_TRUE(restarted_.durable);
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_FALSE(restarted_.durable);
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
}

// It is not in the log: the reply says only that it was done before.
TEST_F(DeferredMounts, ReplayedChangeIsSentAgainIfPowerIsLostBeforeItIsDurable) {
    const FileHandle file = open("f");
    EXPECT_EQ(fsync(file), std::nullopt);
    const size_t before = restarted_.updates;
    restarted_.replays_next = true;
    restarted_.meanwhile = [this] { return lose(*this); };
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_EQ(restarted_.updates, before + 2);
    EXPECT_EQ(fsync(file), std::nullopt);
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
}

TEST_F(DeferredMounts, SyncedWriteTellsALossThatAnotherWriteWasToldBefore) {
    const FileHandle other = open("other");
    const FileHandle file =
        world_.run(files_->create(call_, root_node, "f", 0644, {.write = true, .sync = true}, {}))
            ->handle;
    EXPECT_EQ(write(other), std::nullopt);
    EXPECT_EQ(write(file), std::nullopt);
    restarted_.meanwhile = [this, other] { return lose_and_tell(*this, other); };
    EXPECT_EQ(write(file), Code::io);
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
    EXPECT_TRUE(world_.run(files_->close(call_, other)));
}

// Others would be given them, too.
TEST_F(DeferredMounts, NodeIdsOfALostCounterAreNotUsed) {
    const FileHandle other = open("other");
    EXPECT_EQ(fsync(other), std::nullopt);
    EXPECT_EQ(write(other), std::nullopt);
    restarted_.meanwhile = [this, other] { return lose_and_tell(*this, other); };
    std::vector<uint64_t> nodes;
    // Until it takes new ids, and waits until the counter is durable.
    while (restarted_.meanwhile != nullptr) {
        const auto made =
            world_.run(files_->mkdir(call_, root_node, std::to_string(nodes.size()), 0755, {}));
        ASSERT_TRUE(made);
        nodes.push_back(made->node.value);
        ASSERT_LT(nodes.size(), 100'000U);
    }
    EXPECT_NE(nodes.back(), nodes[nodes.size() - 2] + 1);
    EXPECT_TRUE(world_.run(files_->close(call_, other)));
}

TEST_F(DeferredMounts, RepetitionWithoutSpaceIsSentAgain) {
    const FileHandle file = open("f");
    EXPECT_EQ(fsync(file), std::nullopt);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(write(file), std::nullopt);
    restarted_.restart(true);
    restarted_.awaits = true;
    restarted_.full = 5;
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_EQ(restarted_.repeated.size(), 3U);
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
}

// The pool is repaired, and opened again.
TEST_F(DeferredMounts, RepetitionInAReadOnlyPoolIsMadeWhenItTakesChangesAgain) {
    const FileHandle file = open("f");
    EXPECT_EQ(fsync(file), std::nullopt);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(write(file), std::nullopt);
    restarted_.restart(true);
    restarted_.awaits = restarted_.read_only = true;
    EXPECT_EQ(write(file), Code::read_only);
    EXPECT_EQ(fsync(file), Code::read_only);
    restarted_.restart(true);
    restarted_.read_only = false;
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_EQ(restarted_.repeated.size(), 3U);
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
}

TEST_F(DeferredMounts, LostRightIsToldOnceInTheLog) {
    const FileHandle file = open("f");
    EXPECT_EQ(write(file), std::nullopt);
    restarted_.denied = true;
    pass_seconds(5);
    EXPECT_EQ(fsync(file), Code::denied);
    ASSERT_EQ(said_.size(), 1U);
    EXPECT_NE(said_.front().find("a container here: it is not known"), std::string::npos);
    restarted_.denied = false;
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
}

TEST_F(DeferredMounts, MountSaysWhatIsNotDurable) {
    const auto unsynced = [&] {
        const auto told = world_.run(files_->get_xattr(call_, root_node, unsynced_attribute));
        const auto answer = parse_unsynced(told ? *told : "");
        EXPECT_TRUE(answer);
        return answer.value_or(UnsyncedAnswer{});
    };
    const FileHandle file = open("f");
    EXPECT_EQ(fsync(file), std::nullopt);
    EXPECT_EQ(unsynced().amount.changes, 0U);
    EXPECT_EQ(unsynced().milliseconds, 0U);
    EXPECT_EQ(write(file), std::nullopt);
    world_.run(pass(world_.core(), std::chrono::milliseconds(20)));
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_EQ(unsynced().amount.changes, 2U);
    EXPECT_EQ(unsynced().amount.bytes, 2U);
    EXPECT_EQ(unsynced().milliseconds, 20U);
    pass_seconds(3);
    EXPECT_EQ(unsynced().amount.changes, 0U) << "the mount has asked";
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_EQ(fsync(file), std::nullopt);
    EXPECT_EQ(unsynced().amount.bytes, 0U);
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
}

TEST_F(DeferredMounts, LogNamesTheMountAndTheFirstNameThatIsLost) {
    const FileHandle file = open("f");
    EXPECT_EQ(fsync(file), std::nullopt);
    const FileHandle lost = open("lo\nst");
    EXPECT_EQ(write(file), std::nullopt);
    restarted_.restart(true);
    restarted_.awaits = true;
    restarted_.repeats_max = 0;
    EXPECT_EQ(write(file), Code::io);
    ASSERT_EQ(said_.size(), 1U);
    EXPECT_NE(said_.front().find("a container here: "), std::string::npos) << said_.front();
    EXPECT_NE(
        said_.front().find("2 or more are lost, the first of them the name 'lo\\x0ast' in the "
                           "directory with inode 1, 0 were repeated"),
        std::string::npos)
        << said_.front();
    for (const FileHandle each : {file, lost}) (void)world_.run(files_->close(call_, each));
}

TEST_F(DeferredMounts, ChangeThatCannotBeRepeatedIsToldAsLost) {
    const FileHandle file = open("f");
    EXPECT_EQ(fsync(file), std::nullopt);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(write(file), std::nullopt);
    restarted_.restart(true);
    restarted_.awaits = true;
    restarted_.repeats_max = 1;
    EXPECT_EQ(write(file), Code::io);
    EXPECT_EQ(restarted_.repeated.size(), 1U);
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_EQ(fsync(file), std::nullopt);
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
}

TEST_F(DeferredMounts, LargeWriteIsDurableAtOnceAndThenNothingIsRepeated) {
    const FileHandle file = open("f");
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_FALSE(restarted_.durable);
    std::string large(ChangeLog::payload_max, 'x');
    EXPECT_TRUE(world_.run(
        files_->pwrite(call_, file, Window::local(std::as_writable_bytes(std::span(large))), 0)));
    EXPECT_TRUE(restarted_.durable);
    restarted_.restart(true);
    restarted_.awaits = true;
    EXPECT_EQ(fsync(file), std::nullopt);
    EXPECT_TRUE(restarted_.repeated.empty());
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
}

// Others have to repeat theirs first.
TEST_F(DeferredMounts, RequestThatIsHeldOffIsSentAgain) {
    const FileHandle file = open("f");
    restarted_.held_off = 3;
    EXPECT_TRUE(world_.run(files_->get_attributes(call_, root_node)));
    EXPECT_EQ(restarted_.held_off, 0U);
    restarted_.held_off = 3;
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
}

TEST_F(DeferredMounts, LogThatIsFullMakesTheNextChangeDurable) {
    const FileHandle file = open("f");
    EXPECT_EQ(fsync(file), std::nullopt);
    for (size_t i = 0; i < ChangeLog::changes_max; ++i) {
        ASSERT_EQ(write(file), std::nullopt);
        ASSERT_FALSE(restarted_.durable) << i;
    }
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_TRUE(restarted_.durable);
    EXPECT_EQ(write(file), std::nullopt);
    EXPECT_FALSE(restarted_.durable) << "the log is empty again";
    EXPECT_TRUE(world_.run(files_->close(call_, file)));
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

// Tests the checks: a store without faults passes, and each kind of fault is detected.
#include "ros2s/sim/trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "ros2s/object/test_support/batch.h"
#include "ros2s/object/test_support/memory_store.h"

namespace ros2s::sim {
namespace {

using namespace object;
using object::Batch;

enum class Bug : uint8_t {
    none,
    lose_last,       // the last transaction is gone after a restart
    lose_any,        // one from the middle is gone
    tear,            // the first operation of a transaction with several is missing
    flip,            // one bit of one payload
    forget_replies,  // update names are forgotten at a restart
    invent,          // something that no client wrote
    stale_reads,     // reads do not see the latest transactions
    lose_the_seen,   // what was read before the crash, but not acknowledged, is gone
    leak,            // space is lost at a restart
    refuse,          // the store does not open again
    lose_container,  // a container that was created is gone after a restart
    revive,          // a container that was destroyed exists again
    mix_containers,  // what was written to one container is found in another
    stop_the_clock,  // times do not fall when the clock is set back
    expire,          // replies are not kept
    shrink,          // the space by which the store grew is gone after a restart
};

// A transaction, or a container that was created or destroyed.
struct Logged {
    enum class Kind : uint8_t { update, create, destroy };
    Kind kind = Kind::update;
    ContainerId container;
    ContainerProperties properties;
    Transaction transaction;
    std::deque<std::string> payloads;
    bool acknowledged = false;
    Logged(Kind what, ContainerId where, ContainerProperties of = {})
        : kind(what), container(where), properties(std::move(of)) {}
    Logged(ContainerId where, const Transaction& from) : container(where), transaction(from) {
        for (Operation& operation : transaction.operations) {
            payloads.emplace_back(as_text(operation.window.bytes()));
            operation.window = Window::local(as_bytes(payloads.back()));
        }
    }
};

// A memory store that is rebuilt from its log of transactions at each restart.
class LoggedStore final : public ObjectStore {
  public:
    LoggedStore(Reactor& reactor, Random& random, Bug bug)
        : reactor_(reactor), random_(random), bug_(bug) {}

    Features features() const override { return now_.store->features(); }
    std::string path() const override { return "log"; }
    Task<Result<>> fetch(const Call& call, ContainerId container,
                         std::span<FetchItem> items) override {
        count();
        const RebuiltStore& from = bug_ == Bug::stale_reads && old_.store != nullptr ? old_ : now_;
        return from.store->fetch(call, from.id(container), items);
    }
    Task<Result<Commit>> update(const Call& call, ContainerId container,
                                const Transaction& transaction) override {
        count();
        auto logged = std::make_shared<Logged>(container, transaction);
        Result<Commit> commit = co_await now_.store->update(call, now_.id(container), transaction);
        if (commit && commit->replayed && bug_ == Bug::expire) co_return fail(Code::expired);
        // A rebuilt store has other times.
        if (commit && commit->replayed) commit->time = times_[commit->epoch];
        if (!commit || commit->replayed) co_return commit;
        if (bug_ == Bug::stop_the_clock) commit->time = latest_ = std::max(latest_, commit->time);
        times_[commit->epoch] = commit->time;
        log_.push_back(logged);
        if (random_.one_in(8) && bug_ == Bug::stale_reads) co_await remake(old_);
        // Already visible, but the reply comes later.
        co_await sleep_for(reactor_, Duration(random_.below(2'000'000)));
        if (!crashed) logged->acknowledged = true;
        co_return commit;
    }
    Task<Result<ListReply>> list(const Call& call, ContainerId container,
                                 const ListRequest& request) override {
        return now_.store->list(call, now_.id(container), request);
    }
    Task<Result<QueryReply>> query(const Call& call, ContainerId container, ObjectId object,
                                   const Akey& akey) override {
        auto reply = co_await now_.store->query(call, now_.id(container), object, akey);
        if (reply) keep_time(*reply);
        co_return reply;
    }
    Task<Result<ContainerRecord>> create_container(const Call& call,
                                                   const ContainerProperties& properties) override {
        Result<ContainerRecord> record = co_await now_.store->create_container(call, properties);
        if (!record) co_return record;
        record->created = {};  // a store that is made again has another time
        now_.ids[record->id] = record->id;
        log_.push_back(std::make_shared<Logged>(Logged::Kind::create, record->id, properties));
        co_await sleep_for(reactor_, Duration(random_.below(2'000'000)));
        co_return record;
    }
    Task<Result<>> destroy_container(const Call& call, ContainerId container) override {
        const Result<> destroyed = co_await now_.store->destroy_container(call, now_.id(container));
        if (!destroyed) co_return destroyed;
        log_.push_back(std::make_shared<Logged>(Logged::Kind::destroy, container));
        co_await sleep_for(reactor_, Duration(random_.below(2'000'000)));
        co_return destroyed;
    }
    Task<Result<std::vector<ContainerRecord>>> list_containers(const Call& call) override {
        auto records = co_await now_.store->list_containers(call);
        for (ContainerRecord& record : *records) {
            for (const auto& [given, id] : now_.ids) {
                if (id != record.id) continue;
                record.id = given;
                break;
            }
            record.created = {};
        }
        co_return records;
    }
    Task<Result<PoolSpace>> space(const Call& call, ContainerId container) override {
        auto space = co_await now_.store->space(call, container);
        if (bug_ == Bug::leak) space->free_bytes -= restarts_ * block_bytes;
        space->total_bytes += grown_ * block_bytes;
        space->free_bytes += grown_ * block_bytes;
        co_return space;
    }
    Task<Result<>> pin(const Call& call, ContainerId container, const Holder& holder,
                       FetchItem& item) override {
        return now_.store->pin(call, now_.id(container), holder, item);
    }
    Task<Result<>> fetch_chain(const Call& call, ContainerId container, const Holder& holder,
                               std::span<FetchItem> items, std::span<object::Link> links) override {
        count();
        ROS2S_CO_TRY(
            co_await now_.store->fetch_chain(call, now_.id(container), holder, items, links));
        for (object::Link& link : links) keep_time(link.facts);
        co_return Result<>{};
    }
    Task<Result<bool>> unpin(const Call& call, ContainerId container, const Holder& holder,
                             ObjectId object) override {
        return now_.store->unpin(call, now_.id(container), holder, object);
    }
    uint64_t pins_era() const override { return 0; }
    void session_ended(uint64_t session) override { now_.store->session_ended(session); }
    void grow() { ++grown_; }

    // Makes the store from the log, with the bug.
    Task<> restart(bool first) {
        crashed = false;
        if (!first) {
            harm();
            ++restarts_;
        }
        old_ = {};
        co_await remake(now_);
    }

    bool crashed = false;
    uint64_t requests_left = ~uint64_t{0};

  private:
    // A store made from the log. The ids of its containers differ from the returned ones.
    struct RebuiltStore {
        std::unique_ptr<MemoryStore> store;
        std::map<ContainerId, ContainerId> ids;
        [[nodiscard]] ContainerId id(ContainerId given) const {
            const auto found = ids.find(given);
            return found == ids.end() ? given : found->second;
        }
    };
    // A rebuilt store has other times.
    void keep_time(QueryReply& facts) {
        if (times_.contains(facts.last_epoch)) facts.last_time = times_[facts.last_epoch];
    }
    void count() {
        if (requests_left == 0) return;
        if (--requests_left == 0) crashed = true;
    }
    Task<> remake(RebuiltStore& made) {
        const Call call;
        RebuiltStore fresh;
        fresh.store = std::make_unique<MemoryStore>(
            reactor_, MemoryStore::Options{.capacity_bytes = 1 << 20});
        for (const auto& logged : log_) {
            if (logged->kind == Logged::Kind::create) {
                const auto record =
                    co_await fresh.store->create_container(call, logged->properties);
                if (record) fresh.ids[logged->container] = record->id;
            } else if (logged->kind == Logged::Kind::destroy) {
                (void)co_await fresh.store->destroy_container(call, fresh.id(logged->container));
            } else {
                (void)co_await fresh.store->update(call, fresh.id(logged->container),
                                                   logged->transaction);
            }
        }
        made = std::move(fresh);
    }
    // Removes the last, or any, entry of the log that `matches`.
    template <class Matches>
    void remove_one(bool last, const Matches& matches) {
        std::vector<size_t> found;
        for (size_t i = 0; i < log_.size(); ++i) {
            if (matches(*log_[i])) found.push_back(i);
        }
        if (found.empty()) return;
        const size_t at = last ? found.back() : found[random_.below(found.size())];
        log_.erase(log_.begin() + static_cast<ptrdiff_t>(at));
    }
    void harm() {
        if (log_.empty()) return;
        const auto is = [](Logged::Kind kind) {
            return [kind](const Logged& logged) { return logged.kind == kind; };
        };
        const ContainerId first = log_.front()->container;
        const auto is_main = [&](const Logged& logged) {
            return logged.kind == Logged::Kind::update && logged.container == first;
        };
        if (bug_ == Bug::lose_last) remove_one(true, is_main);
        if (bug_ == Bug::lose_any) remove_one(false, is_main);
        if (bug_ == Bug::lose_container && log_.size() > 1) {
            remove_one(true, is(Logged::Kind::create));
        }
        if (bug_ == Bug::revive) remove_one(true, is(Logged::Kind::destroy));
        if (bug_ == Bug::mix_containers) {
            for (const auto& logged : log_) {
                if (is_main(*logged) || logged->kind != Logged::Kind::update) continue;
                if (random_.one_in(4)) logged->container = first;
            }
        }
        if (bug_ == Bug::shrink) grown_ = 0;
        if (bug_ == Bug::lose_the_seen) {
            std::erase_if(log_, [&](const auto& logged) {
                return is_main(*logged) && !logged->acknowledged;
            });
        }
        if (bug_ == Bug::forget_replies) {
            for (auto& logged : log_) logged->transaction.id = {};
        }
        if (bug_ == Bug::tear) {
            for (auto& logged : log_) {
                auto& operations = logged->transaction.operations;
                if (operations.size() < 3 || !random_.one_in(4)) continue;
                operations.erase(operations.begin());
                break;
            }
        }
        if (bug_ == Bug::flip && log_.size() > 10) {
            for (size_t i = log_.size() - 10; i < log_.size(); ++i) {
                if (log_[i]->payloads.empty()) continue;
                std::string& payload = log_[i]->payloads.front();
                if (!payload.empty()) payload[random_.below(payload.size())] ^= 1;
            }
        }
        if (bug_ == Bug::invent) {
            const auto batch = Batch().put({{1, 9}, "d", "value"}, "x");
            log_.push_back(std::make_shared<Logged>(first, batch.transaction()));
        }
    }

    Reactor& reactor_;
    Random& random_;
    Bug bug_;
    RebuiltStore now_;
    RebuiltStore old_;  // for stale reads
    std::vector<std::shared_ptr<Logged>> log_;
    std::map<Epoch, WallTime> times_;
    WallTime latest_{};
    uint64_t restarts_ = 0;
    uint64_t grown_ = 0;  // blocks
};

// It crashes after a number of requests, instead of device operations.
class LoggedRig final : public Rig {
  public:
    LoggedRig(World& world, Random& random, Bug bug)
        : bug_(bug), store_(world.core(), random, bug) {}
    Task<Result<ObjectStore*>> open(Report& report) override {
        if (bug_ == Bug::refuse && !first_) co_return report.fail(Code::corrupt, "refused");
        co_await store_.restart(first_);
        first_ = false;
        co_return &store_;
    }
    Task<> close() override { co_return; }
    Task<Result<>> grow(Report&) override {
        store_.grow();
        co_return Result<>();
    }
    bool can_grow() const override { return true; }
    void arm(const CrashPlan& plan) override {
        point_.kind = plan.kind;
        store_.requests_left = plan.operations + 1;
    }
    void disarm() override { store_.requests_left = 0; }
    void crash(CrashKind kind) override {
        point_.kind = kind;
        store_.crashed = true;
    }
    void on_crash(std::function<void()>) override {}  // no server uses it
    const bool& crashed() const override { return store_.crashed; }
    const CrashPoint& point() const override { return point_; }

  private:
    Bug bug_;
    LoggedStore store_;
    CrashPoint point_;
    bool first_ = true;
};

TrialReport run_with(Bug bug, uint64_t seed) {
    return run_trial(seed, [bug](World& world, Random& random) {
        return std::make_unique<LoggedRig>(world, random, bug);
    });
}

TEST(StoreTrial, StoreWithoutFaultsPasses) {
    uint64_t points = 0, reads = 0, transactions = 0, containers = 0, growths = 0;
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        const TrialReport report = run_with(Bug::none, seed);
        EXPECT_THAT(report.problems, testing::IsEmpty()) << "seed " << seed;
        points += report.points.size();
        reads += report.reads;
        transactions += report.transactions;
        containers += report.containers;
        growths += report.growths;
    }
    EXPECT_GT(points, 24U);
    EXPECT_GT(reads, 120U);
    EXPECT_GT(transactions, 400U);
    EXPECT_GT(containers, 20U);
    EXPECT_GT(growths, 4U);
}

TEST(StoreTrial, SeedDeterminesTheRun) {
    const TrialReport once = run_with(Bug::none, 1), again = run_with(Bug::none, 1);
    EXPECT_EQ(once.transactions, again.transactions);
    EXPECT_EQ(once.reads, again.reads);
    EXPECT_EQ(once.points.size(), again.points.size());
}

class PlantedBugs : public testing::TestWithParam<std::pair<Bug, const char*>> {};
TEST_P(PlantedBugs, EachBugIsDetected) {
    const auto [bug, expected] = GetParam();
    const auto noticed = testing::Contains(testing::HasSubstr(expected));
    bool found = false;
    for (uint64_t seed = 1; seed <= 100 && !found; ++seed) {
        found = testing::Matches(noticed)(run_with(bug, seed).problems);
    }
    EXPECT_TRUE(found) << expected;
}
INSTANTIATE_TEST_SUITE_P(Trial, PlantedBugs,
                         testing::Values(std::pair{Bug::lose_last, "is lost"},
                                         std::pair{Bug::lose_any, "is lost"},
                                         std::pair{Bug::tear, "is missing"},
                                         std::pair{Bug::flip, "has wrong bytes"},
                                         std::pair{Bug::forget_replies, "again at"},
                                         std::pair{Bug::invent, "should not be there"},
                                         std::pair{Bug::stale_reads, "replaced at"},
                                         std::pair{Bug::lose_the_seen, "which did not happen"},
                                         std::pair{Bug::leak, "bytes are free"},
                                         std::pair{Bug::refuse, "could not be opened again"},
                                         std::pair{Bug::lose_container, "is lost"},
                                         std::pair{Bug::revive, "should not be there"},
                                         std::pair{Bug::mix_containers, "does not hold"},
                                         std::pair{Bug::stop_the_clock, "it was called at"},
                                         std::pair{Bug::expire, "was not kept for its lease"},
                                         std::pair{Bug::shrink, "of space after the restart"}));

}  // namespace
}  // namespace ros2s::sim

// The judge is judged: a store without faults passes, and each kind of fault is noticed.
#include "ros2s/sim/trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "ros2s/object/contract/batch.h"
#include "ros2s/object/memory_store.h"

namespace ros2s::sim {
namespace {

using namespace object;
using object::contract::Batch;

enum class Bug : uint8_t {
    none,
    lose_last,       // the last transaction is gone after a restart
    lose_any,        // one from the middle is
    tear,            // of one with several operations the first is missing
    flip,            // one bit of one payload
    forget_replies,  // operation ids are forgotten at a restart
    invent,          // something that nobody wrote
    stale_reads,     // reads do not see the latest transactions
    lose_the_seen,   // what was read before the crash, but not acknowledged, is gone
    leak,            // space is lost at a restart
    refuse,          // the store does not open again
};

struct Logged {
    Transaction transaction;
    std::deque<std::string> payloads;
    bool acknowledged = false;
    explicit Logged(const Transaction& from) : transaction(from) {
        for (Operation& operation : transaction.operations) {
            payloads.emplace_back(as_text(operation.window.bytes()));
            operation.window = Window::local(as_bytes(payloads.back()));
        }
    }
};

// A memory store that is made again from its log of transactions at each restart.
class LoggedStore final : public ObjectStore {
  public:
    LoggedStore(Reactor& reactor, Random& random, Bug bug)
        : reactor_(reactor), random_(random), bug_(bug) {}

    Features features() const override { return store_->features(); }
    std::string path() const override { return "log"; }
    Task<Result<>> fetch(const Call& call, ContainerId container,
                         std::span<FetchItem> items) override {
        count();
        if (bug_ == Bug::stale_reads && old_ != nullptr) {
            return old_->fetch(call, container_of(*old_, container), items);
        }
        return store_->fetch(call, container_of(*store_, container), items);
    }
    Task<Result<Commit>> update(const Call& call, ContainerId container,
                                const Transaction& transaction) override {
        count();
        const ContainerId id = container_of(*store_, container);
        auto logged = std::make_shared<Logged>(transaction);
        Result<Commit> commit = co_await store_->update(call, id, transaction);
        if (!commit || commit->replayed) co_return commit;
        log_.push_back(std::move(logged));
        const size_t mine = log_.size() - 1;
        if (random_.one_in(8) && bug_ == Bug::stale_reads) co_await remake(old_);
        // Visible already, but the reply takes its time.
        co_await sleep_for(reactor_, Duration(random_.below(2'000'000)));
        if (!crashed) log_[mine]->acknowledged = true;
        co_return commit;
    }
    Task<Result<ListReply>> list(const Call& call, ContainerId container,
                                 const ListRequest& request) override {
        return store_->list(call, container_of(*store_, container), request);
    }
    Task<Result<QueryReply>> query(const Call& call, ContainerId container, ObjectId object,
                                   const Akey& akey) override {
        return store_->query(call, container_of(*store_, container), object, akey);
    }
    Task<Result<ContainerRecord>> create_container(const Call& call,
                                                   const ContainerProperties& properties) override {
        (void)call;
        (void)properties;
        co_return ContainerRecord{};
    }
    Task<Result<>> destroy_container(const Call& call, ContainerId container) override {
        return store_->destroy_container(call, container);
    }
    Task<Result<std::vector<ContainerRecord>>> list_containers(const Call& call) override {
        return store_->list_containers(call);
    }
    Task<Result<PoolSpace>> space(const Call& call) override {
        auto space = co_await store_->space(call);
        if (bug_ == Bug::leak) space->free_bytes -= restarts_ * block_bytes;
        co_return space;
    }

    // Makes the store from the log, with the bug.
    Task<> restart(bool first) {
        crashed = false;
        if (!first) {
            harm();
            ++restarts_;
        }
        old_ = nullptr;
        co_await remake(store_);
    }

    bool crashed = false;
    uint64_t requests_left = ~uint64_t{0};

  private:
    // There is one container; its id differs from one making to the next.
    ContainerId container_of(MemoryStore& store, ContainerId) {
        return &store == store_.get() ? container_ : old_container_;
    }
    void count() {
        if (requests_left == 0) return;
        if (--requests_left == 0) crashed = true;
    }
    Task<> remake(std::unique_ptr<MemoryStore>& store) {
        const Call call;
        const bool main = &store == &store_;
        auto fresh = std::make_unique<MemoryStore>(reactor_,
                                                   MemoryStore::Options{.capacity_bytes = 1 << 20});
        const ContainerProperties properties{.label = "log"};
        const auto record = co_await fresh->create_container(call, properties);
        for (const auto& logged : log_) {
            (void)co_await fresh->update(call, record->id, logged->transaction);
        }
        (main ? container_ : old_container_) = record->id;
        store = std::move(fresh);
    }
    void harm() {
        if (log_.empty()) return;
        const size_t any = random_.below(log_.size());
        if (bug_ == Bug::lose_last) log_.pop_back();
        if (bug_ == Bug::lose_any) log_.erase(log_.begin() + static_cast<ptrdiff_t>(any));
        if (bug_ == Bug::lose_the_seen) {
            while (!log_.empty() && !log_.back()->acknowledged) log_.pop_back();
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
                std::string& payload = log_[i]->payloads.front();
                if (!payload.empty()) payload[random_.below(payload.size())] ^= 1;
            }
        }
        if (bug_ == Bug::invent) {
            const auto batch = Batch().put({{1, 9}, "d", "value"}, "x");
            log_.push_back(std::make_shared<Logged>(batch.transaction()));
        }
    }

    Reactor& reactor_;
    Random& random_;
    Bug bug_;
    std::unique_ptr<MemoryStore> store_;
    std::unique_ptr<MemoryStore> old_;  // for stale reads
    ContainerId container_{};
    ContainerId old_container_{};
    std::vector<std::shared_ptr<Logged>> log_;
    uint64_t restarts_ = 0;
};

// It crashes after a number of requests, in place of device operations.
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
    void arm(const CrashPlan& plan) override {
        point_.kind = plan.kind;
        store_.requests_left = plan.operations + 1;
    }
    void disarm() override { store_.requests_left = 0; }
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

TEST(Trial, AStoreWithoutFaultsPasses) {
    uint64_t points = 0, reads = 0, transactions = 0;
    for (uint64_t seed = 1; seed <= 25; ++seed) {
        const TrialReport report = run_with(Bug::none, seed);
        EXPECT_THAT(report.problems, testing::IsEmpty()) << "seed " << seed;
        points += report.points.size();
        reads += report.reads;
        transactions += report.transactions;
    }
    EXPECT_GT(points, 60U);
    EXPECT_GT(reads, 300U);
    EXPECT_GT(transactions, 1000U);
}

TEST(Trial, IsDecidedByItsSeed) {
    const TrialReport once = run_with(Bug::none, 7), again = run_with(Bug::none, 7);
    EXPECT_EQ(once.transactions, again.transactions);
    EXPECT_EQ(once.reads, again.reads);
    EXPECT_EQ(once.points.size(), again.points.size());
}

class Bugs : public testing::TestWithParam<std::pair<Bug, const char*>> {};
TEST_P(Bugs, AreNoticed) {
    const auto [bug, expected] = GetParam();
    const auto noticed = testing::Contains(testing::HasSubstr(expected));
    bool found = false;
    for (uint64_t seed = 1; seed <= 100 && !found; ++seed) {
        found = testing::Matches(noticed)(run_with(bug, seed).problems);
    }
    EXPECT_TRUE(found) << expected;
}
INSTANTIATE_TEST_SUITE_P(Trial, Bugs,
                         testing::Values(std::pair{Bug::lose_last, "is lost"},
                                         std::pair{Bug::lose_any, "is lost"},
                                         std::pair{Bug::tear, "is missing"},
                                         std::pair{Bug::flip, "has wrong bytes"},
                                         std::pair{Bug::forget_replies, "again at"},
                                         std::pair{Bug::invent, "should not be there"},
                                         std::pair{Bug::stale_reads, "replaced at"},
                                         std::pair{Bug::lose_the_seen, "which did not happen"},
                                         std::pair{Bug::leak, "bytes are free"},
                                         std::pair{Bug::refuse, "could not be opened again"}));

}  // namespace
}  // namespace ros2s::sim

#include "rados_trial.h"

#include <fmt/format.h>

#include <memory>

#include "ros2s/fs/dfs.h"
#include "ros2s/rados/rados_store.h"
#include "ros2s/rados/sim/remains.h"
#include "ros2s/runtime/sim/world.h"
#include "ros2s/sim/no_call.h"

namespace ros2s::sim {
namespace {

using rados::RadosStore;
using rados::SimPool;
using rados::SimRados;

constexpr uint64_t requests_max = 250;  // of a client that dies, about
constexpr Duration reply_age = std::chrono::hours(24);

// A client of the cluster, with the file system mounted.
class RadosClient {
  public:
    RadosClient(SimRados& cluster, Reactor& reactor, std::optional<RadosRule> missing)
        : reactor_(reactor),
          pool_(cluster, {.delay_max = std::chrono::milliseconds(2), .dies_at = {}}),
          hasty_(pool_, reactor, missing) {}

    Task<Result<>> open() {
        Report report;
        ROS2S_CO_TRY_ASSIGN(
            store_,
            co_await RadosStore::open(
                no_call, reactor_, hasty_, hasty_,
                {.patience = std::chrono::milliseconds(50), .reply_age = reply_age}, report));
        co_return Result<>{};
    }
    Task<Result<>> mount(object::ContainerId container) {
        Report report;
        ROS2S_CO_TRY_ASSIGN(files_, co_await fs::Dfs::mount(no_call, *store_, container, reactor_,
                                                            {.node_ids_per_lease = 64}, report));
        co_return Result<>{};
    }
    Task<Result<>> begin(object::ContainerId container) {
        ROS2S_CO_TRY(co_await open());
        co_return co_await mount(container);
    }
    Task<> close() {
        if (files_) co_await files_->close_all();
        files_.reset();
        if (store_) co_await store_->close();
        store_.reset();
        co_await hasty_.close();
    }
    [[nodiscard]] RadosStore& store() { return *store_; }
    [[nodiscard]] fs::Dfs& files() { return *files_; }
    [[nodiscard]] SimPool& pool() { return pool_; }

  private:
    Reactor& reactor_;
    SimPool pool_;
    HastyPool hasty_;
    std::unique_ptr<RadosStore> store_;
    std::unique_ptr<fs::Dfs> files_;
};

class RadosTrial {
  public:
    RadosTrial(uint64_t seed, const RadosTrialOptions& options)
        : options_(options), world_(seed), random_(seed), cluster_(world_.core()) {
        const bool is_named = random_.one_in(2);
        for (const char* name : {"first", "second", "witness"}) {
            works_.push_back(
                std::make_unique<TreeWork>(random_.next(), name, is_named, world_.core(), shared_));
        }
    }
    RadosReport run() {
        world_.run(body());
        report_.problems = shared_.problems;
        for (const auto& work : works_) {
            report_.operations += work->operations();
            report_.repeated += work->repeated();
        }
        return report_;
    }

  private:
    // Of a client that lives. False: it failed, which is a problem.
    bool must(const char* what, const Result<>& result) {
        if (!result)
            shared_.problems.push_back(fmt::format("{}: {}", what, describe(result.error())));
        return result.has_value();
    }
    [[nodiscard]] std::unique_ptr<RadosClient> new_client() {
        return std::make_unique<RadosClient>(cluster_, world_.core(), options_.missing);
    }
    Task<Result<>> found() {
        const auto founder = new_client();
        const auto result = co_await found_by(*founder);
        co_await founder->close();
        co_return result;
    }
    Task<Result<>> found_by(RadosClient& founder) {
        ROS2S_CO_TRY(co_await founder.open());
        ROS2S_CO_TRY_ASSIGN(const auto made,
                            co_await founder.store().create_container(
                                no_call, {.label = "c", .chunk_bytes = trial_chunk_bytes}));
        container_ = made.id;
        Report report;
        ROS2S_CO_TRY(co_await fs::Dfs::format(no_call, founder.store(), container_, world_.core(),
                                              {}, report));
        ROS2S_CO_TRY(co_await founder.mount(container_));
        ROS2S_CO_TRY(co_await shared_.prepare(founder.files()));
        co_return Result<>{};
    }

    Task<> body() {
        if (!must("the container", co_await found())) co_return;
        for (uint64_t i = 0; i < options_.rounds && shared_.problems.empty(); ++i) {
            co_await round();
        }
        if (shared_.problems.empty()) co_await end();
    }

    static Task<> work_until_death(RadosTrial& self, TreeWork& work, RadosClient& client) {
        const bool never = false;
        const auto ended = co_await work.work(client.files(), never);
        const SimPool& pool = client.pool();
        const bool may_fail = pool.is_dead() || pool.is_misled();
        if (!may_fail) (void)self.must("the client that is to die", ended);
        if (--self.mortal_works_ == 0) self.is_over_ = true;
    }
    static Task<> work_on(RadosTrial& self, TreeWork& work, RadosClient& client) {
        (void)self.must("the client that lives", co_await work.work(client.files(), self.is_over_));
    }

    Task<> round() {
        const auto mortal = new_client(), witness = new_client(), other = new_client();
        co_await round_of(*mortal, *witness, *other);
        for (const auto* client : {&mortal, &witness, &other}) co_await (*client)->close();
        if (random_.one_in(4) && shared_.problems.empty()) co_await sweep();
    }
    Task<> round_of(RadosClient& mortal, RadosClient& witness, RadosClient& other) {
        if (!must("the witness", co_await witness.begin(container_))) co_return;
        if (random_.one_in(8)) mortal.pool().die_at(random_.below(6));
        const auto ready = co_await mortal.begin(container_);
        if (ready) {
            const uint64_t more = random_.below(requests_max);
            const uint64_t now = mortal.pool().requests();
            mortal.pool().die_at(now + more);
            if (random_.one_in(2)) mortal.pool().mislead_at(now + random_.below(more + 1));
            is_over_ = false;
            mortal_works_ = 2;
            Nursery nursery(world_.core(), works_.size());
            co_await nursery.spawn(work_until_death(*this, *works_[0], mortal));
            co_await nursery.spawn(work_until_death(*this, *works_[1], mortal));
            co_await nursery.spawn(work_on(*this, *works_[2], witness));
            co_await nursery.join();
        } else if (mortal.pool().is_dead()) {
            ++report_.in_mount;
        } else {
            (void)must("the client that is to die", ready);
        }
        co_await mortal.close();
        ++report_.deaths;
        if (mortal.pool().is_misled()) ++report_.misled;
        report_.requests += mortal.pool().requests();
        RadosClient* resolver = &witness;
        if (random_.one_in(2)) {
            resolver = &other;
            if (!must("another client", co_await other.begin(container_))) co_return;
        }
        co_await resolve(*resolver);
    }

    Task<> resolve(RadosClient& resolver) {
        fs::FileSystem& files = resolver.files();
        const bool comes_late = random_.one_in(3);
        const bool looks_first = comes_late || random_.one_in(2);
        for (size_t i = 0; i < 2; ++i) {
            if (looks_first) co_await works_[i]->look(files, false);
            if (!comes_late) co_await repeat(*works_[i], files);
            co_await works_[i]->look(files, false);
        }
        // Requests of the dead client that arrive late.
        co_await cluster_.close();
        for (const auto& work : works_) co_await work->look(files, true);
        if (comes_late) {
            ++report_.after_a_day;
            co_await drop_replies(resolver);
            for (size_t i = 0; i < 2; ++i) {
                co_await repeat(*works_[i], files);
                co_await works_[i]->look(files, true);
            }
        }
        co_await shared_.judge(files);
    }
    // Where replies were removed, also what was not done may be refused, or fails because it was.
    Task<> repeat(TreeWork& work, fs::FileSystem& files) {
        const auto repeated = co_await work.repeat(files);
        if (report_.clients_dropped == 0) (void)must("repeated", fail_of(repeated));
        if (!repeated) work.give_up();
    }
    Task<Result<>> sweep_by(RadosClient& sweeper, rados::Orphans* seen) {
        Report report;
        co_return co_await sweeper.store().sweep(no_call, container_, report, seen);
    }
    Task<> drop_replies(RadosClient& sweeper) {
        const size_t before = rados::replies_in(cluster_);
        rados::Orphans seen;
        for (int i = 0; i < 2; ++i) {
            (void)must("a sweep", co_await sweep_by(sweeper, &seen));
            co_await sleep_for(world_.core(), reply_age + std::chrono::hours(1));
        }
        (void)must("a sweep", co_await sweep_by(sweeper, &seen));
        report_.clients_dropped += before - std::min(before, rados::replies_in(cluster_));
    }

    Task<> sweep() {
        const auto sweeper = new_client();
        co_await sleep_for(world_.core(), std::chrono::hours(2));
        if (must("a client opens", co_await sweeper->open())) {
            (void)must("a sweep", co_await sweep_by(*sweeper, nullptr));
            for (std::string& each : rados::remains_in(cluster_)) {
                shared_.problems.push_back(std::move(each));
            }
        }
        co_await sweeper->close();
    }

    // Nothing that clients have left stays.
    Task<> end() {
        const auto last = new_client(), sweeper = new_client();
        if (must("the last client", co_await last->begin(container_))) co_await empty(*last);
        co_await last->close();
        if (must("the sweeper", co_await sweeper->open())) co_await drop_replies(*sweeper);
        co_await sweeper->close();
        if (const size_t replies = rados::replies_in(cluster_); replies > 0) {
            shared_.problems.push_back(fmt::format("{} clients have replies for ever", replies));
        }
        co_await sweep();
    }
    Task<> empty(RadosClient& last) {
        for (const auto& work : works_) {
            (void)must("all is removed", co_await work->remove_all(last.files()));
        }
        const auto leaks = co_await last.files().check(no_call, false);
        (void)must("the check", fail_of(leaks));
        if (leaks && leaks->objects > 0) {
            shared_.problems.push_back(fmt::format("{} objects have no name", leaks->objects));
        }
    }

    template <class T>
    static Result<> fail_of(const Result<T>& result) {
        return result ? Result<>() : fail(result.error());
    }

    const RadosTrialOptions options_;
    World world_;
    Random random_;
    SimRados cluster_;
    SharedFiles shared_;
    std::vector<std::unique_ptr<TreeWork>> works_;
    object::ContainerId container_;
    bool is_over_ = false;
    int mortal_works_ = 0;  // that go on
    RadosReport report_;
};

}  // namespace

RadosReport run_rados_trial(uint64_t seed, const RadosTrialOptions& options) {
    return RadosTrial(seed, options).run();
}

}  // namespace ros2s::sim

#include "trial.h"

#include <fmt/format.h>

#include <optional>

#include "container_client.h"
#include "crash_plan.h"
#include "no_call.h"
#include "ros2s/runtime/nursery.h"
#include "workload.h"

namespace ros2s::sim {

using namespace object;

namespace {

constexpr int openings_max = 12;

class Trial {
  public:
    Trial(World& world, uint64_t seed, const RigFactory& factory, const TrialOptions& options,
          TrialReport& report)
        : world_(world),
          random_(seed),
          report_(report),
          rig_(factory(world, random_)),
          workload_(draw_workload(random_, rig_->repeats_requests())),
          history_(world.core(), workload_witnesses(workload_), workload_columns(workload_)) {
        workload_.deferred = options.deferred;
        container_client_.emplace(world.core(), seed, history_);
        for (size_t i = 0; i < options.cores; ++i) cores_.push_back(&world.core(i));
        for (size_t i = 0; i < workload_.clients; ++i) {
            clients_.emplace_back(i, seed, workload_, history_);
        }
    }

    Task<> run(size_t rounds);

  private:
    Task<bool> begin();
    Task<bool> round(bool last);
    Task<> work(bool crash, uint64_t requests);
    [[nodiscard]] bool is_condemned() const { return !history_.problems().empty(); }
    Task<> grow(Run& run);
    Task<> step_clock(Run& run);
    Task<bool> recover();
    Task<> judge_total();
    void note_point(bool in_recovery);

    World& world_;
    std::vector<Reactor*> cores_;
    Random random_;
    TrialReport& report_;
    std::unique_ptr<Rig> rig_;
    WorkloadOptions workload_;
    History history_;
    std::vector<WorkloadClient> clients_;
    std::optional<ContainerClient> container_client_;
    ObjectStore* store_ = nullptr;
    ContainerId container_{};
    uint64_t total_bytes_ = 0;  // of the store, as it last reported
    bool growing_ = false;      // from the call of grow until its result is known
    // Since the last check power was lost, or a device has reported an error.
    bool may_have_lost_ = false;
};

Task<> Trial::run(size_t rounds) {
    bool going = co_await begin();
    for (size_t i = 0; i < rounds && going; ++i) going = co_await round(i + 1 == rounds);
    if (!rig_->crashed()) co_await rig_->close();
    for (const std::string& text : history_.problems()) report_.problems.push_back(text);
    report_.transactions = history_.transactions();
    report_.reads = history_.reads_judged();
    report_.expired = history_.expired();
    report_.containers = container_client_->made();
}

Task<bool> Trial::begin() {
    co_await history_.open(rig_->repeats_requests());
    Report report;
    const auto store = co_await rig_->open(report);
    if (!store) {
        history_.problem("the store could not be made: " + report.text());
        co_await rig_->close();
        co_return false;
    }
    store_ = *store;
    const ContainerProperties properties{.label = "crash"};
    const auto record = co_await store_->create_container(no_call, properties);
    const auto space = co_await store_->space(no_call, {});
    if (!record || !space) {
        history_.problem("no container could be made");
        co_return false;
    }
    container_ = record->id;
    total_bytes_ = space->total_bytes;
    co_return true;
}

void Trial::note_point(bool in_recovery) {
    CrashPoint point = rig_->point();
    point.in_recovery = in_recovery;
    point.in_growth = !in_recovery && growing_;
    point.in_container_change = !in_recovery && container_client_->is_changing();
    point.after_error = rig_->failing();
    may_have_lost_ = may_have_lost_ || point.kind == CrashKind::power;
    report_.points.push_back(std::move(point));
}

Task<bool> Trial::round(bool last) {
    const bool crash = !random_.one_in(16);
    const bool after_process =
        !report_.points.empty() && report_.points.back().kind == CrashKind::process;
    if (crash) rig_->arm(draw_crash(random_, after_process));
    co_await work(crash, crash ? 3000 : 20 + random_.below(60));
    if (rig_->crashed()) {
        note_point(false);
    } else {
        rig_->disarm();
        ++report_.clean_closes;
    }
    if (rig_->failing()) ++report_.device_errors;
    may_have_lost_ = may_have_lost_ || rig_->failing();
    co_await rig_->close();
    const bool recovered = co_await recover();
    if (!recovered) co_return false;
    // Checking takes time, in which the store may do background work. So the clients sometimes
    // continue at once, and the check comes after the next crash. Deferred transactions that
    // are lost are sorted out first.
    if (!last && random_.one_in(2) && !workload_.deferred) co_return !is_condemned();
    if (workload_.deferred) {
        co_await history_.forget_lost(*store_, container_, !may_have_lost_);
        may_have_lost_ = false;
    }
    const uint64_t used_elsewhere = co_await container_client_->check(*store_, container_);
    co_await history_.check(*store_, container_, used_elsewhere);
    co_return !is_condemned();
}

Task<> Trial::work(bool crash, uint64_t requests) {
    Run run{.reactor = world_.core(),
            .cores = cores_,
            .store = *store_,
            .container = container_,
            .crashed = rig_->crashed(),
            .failing = rig_->failing(),
            .reply_lease = rig_->reply_lease()};
    Nursery nursery(world_.core(), clients_.size() + 3);
    for (WorkloadClient& client : clients_) co_await nursery.spawn(client.work(run, requests));
    co_await nursery.spawn(container_client_->work(run, requests));
    if (rig_->can_grow() && random_.one_in(4)) co_await nursery.spawn(grow(run));
    if (random_.one_in(4)) co_await nursery.spawn(step_clock(run));
    co_await nursery.join();
    if (!crash || rig_->crashed()) co_return;
    if (!rig_->failing()) {
        history_.problem("the clients were done before the crash came");
    } else if (!random_.one_in(4)) {
        // No client makes progress any more. Mostly the machine fails, too.
        rig_->crash(random_.one_in(3) ? CrashKind::process : CrashKind::power);
    }
}

// At a random moment of the round.
Task<> Trial::grow(Run& run) {
    co_await sleep_for(run.reactor, std::chrono::microseconds(random_.below(4000)));
    if (run.crashed) co_return;
    growing_ = true;
    Report report;
    const Result<> grown = co_await rig_->grow(report);
    if (!run.is_known(grown)) co_return;
    growing_ = false;
    const auto space = co_await store_->space(no_call, {});
    if (!grown) {
        history_.problem("the store did not grow: " + report.text());
    } else if (!space || space->total_bytes <= total_bytes_) {
        history_.problem("the store has grown, but has no more space than before");
    } else {
        total_bytes_ = space->total_bytes;
        ++report_.growths;
    }
}

// Sets the machine's clock: far, as after an empty battery, or by a little.
Task<> Trial::step_clock(Run& run) {
    co_await sleep_for(run.reactor, std::chrono::microseconds(random_.below(4000)));
    if (run.crashed) co_return;
    const Duration steps[] = {std::chrono::hours(24 * 366), std::chrono::hours(1),
                              std::chrono::milliseconds(1)};
    const Duration step = steps[random_.below(std::size(steps))];
    history_.clock_stepped();
    world_.step_clock(random_.one_in(2) ? step : -step);
    ++report_.clock_steps;
}

// Acknowledged growth stays; a growth that was in progress may have happened.
Task<> Trial::judge_total() {
    const auto space = co_await store_->space(no_call, {});
    const uint64_t total = space ? space->total_bytes : 0;
    if (total < total_bytes_ || (total > total_bytes_ && !growing_)) {
        history_.problem(fmt::format(
            "the store has {} bytes of space after the restart, and had {}", total, total_bytes_));
    }
    growing_ = false;
    total_bytes_ = total;
}

// Opens the store again. False if that is impossible.
Task<bool> Trial::recover() {
    for (int i = 0; i < openings_max; ++i) {
        // A third of the recoveries crash once, some more often.
        const bool crash = random_.one_in(3) && i + 1 < openings_max;
        const bool after_process =
            !report_.points.empty() && report_.points.back().kind == CrashKind::process;
        if (crash) rig_->arm(draw_recovery_crash(random_, after_process));
        Report report;
        const auto store = co_await rig_->open(report);
        if (rig_->crashed()) {
            note_point(true);
            co_await rig_->close();
            continue;
        }
        rig_->disarm();
        if (rig_->failing()) {
            // Whether it opened or not: the device is replaced, and the store opened again.
            ++report_.device_errors;
            may_have_lost_ = true;
            co_await rig_->close();
            continue;
        }
        if (!store) {
            history_.problem(fmt::format("the store could not be opened again: {} ({})",
                                         describe(store.error()), report.text()));
            co_await rig_->close();
            co_return false;
        }
        store_ = *store;
        co_await judge_total();
        co_return true;
    }
    co_return false;
}

}  // namespace

TrialReport run_trial(uint64_t seed, const RigFactory& factory, const TrialOptions& options) {
    TrialReport report{.seed = seed};
    World world(seed, options.cores);
    Trial trial(world, seed, factory, options, report);
    world.run(trial.run(options.rounds));
    return report;
}

}  // namespace ros2s::sim

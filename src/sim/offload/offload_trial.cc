#include "offload_trial.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "app_host.h"
#include "directory_work.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/sim/crash_plan.h"
#include "ros2s/sim/no_call.h"
#include "trial_parts.h"

namespace ros2s::sim {
namespace {

using namespace std::chrono_literals;

constexpr size_t hosts_per_dpu = 2;
constexpr size_t clients_per_host = 3;
// Of virtual time: far more than the crashes take.
constexpr Duration patience = std::chrono::minutes(10);

// The longest pauses between a client's operations, the kills of a DPU, and faults of the network;
// and the longest of such faults.
struct Pace {
    Duration operations, kills, trouble, fault = 120ms;
};
constexpr Pace fast{.operations = {}, .kills = 800ms, .trouble = 150ms};
// The store's grace for pins ends between crashes, and DPUs punch what was unlinked.
constexpr Pace slow{.operations = 10s, .kills = 20s, .trouble = 3s};
// Nodes are changed rarely enough to be leased most of the time. Faults last longer than leases.
constexpr Pace leased{.operations = 400ms, .kills = 20s, .trouble = 3s, .fault = 4s};

// Removes the contents of a directory and its subdirectories.
Task<Result<>> remove_all(fs::FileSystem& files, fs::NodeId directory) {
    ROS2S_CO_TRY_ASSIGN(const auto opened, co_await files.open(no_call, directory, {}));
    ROS2S_CO_TRY_ASSIGN(const auto entries,
                        co_await files.readdir(no_call, opened.handle, 0, 4096));
    ROS2S_CO_TRY(co_await files.close(no_call, opened.handle));
    for (const fs::DirectoryEntry& entry : entries) {
        ROS2S_CO_TRY_ASSIGN(const auto found,
                            co_await files.lookup(no_call, directory, entry.name));
        if (S_ISDIR(found.mode)) {
            ROS2S_CO_TRY(co_await remove_all(files, found.node));
            ROS2S_CO_TRY(co_await files.rmdir(no_call, directory, entry.name));
        } else {
            ROS2S_CO_TRY(co_await files.unlink(no_call, directory, entry.name));
        }
    }
    co_return Result<>{};
}

class OffloadTrial {
  public:
    OffloadTrial(World& world, uint64_t seed, const RigFactory& factory,
                 const OffloadOptions& options, OffloadReport& report)
        : world_(world),
          random_(seed),
          options_(options),
          report_(report),
          network_(world.random()),
          rig_(factory(world, random_)),
          crashes_(random_.next()),
          storage_(world, network_, *rig_, random_.next(), storage_options()),
          host_count_(options.dpus * hosts_per_dpu),
          shared_(world.core(), host_count_ * clients_per_host),
          versioned_(world.core()) {}

    Task<> run();

  private:
    StorageServerOptions storage_options() {
        return {.strikes = ~uint64_t{0},
                .strike_within = 150,
                .keeps_replies = options_.keeps_replies,
                .next_crash = [this](bool in_recovery) { return next_crash(in_recovery); }};
    }
    std::optional<CrashPlan> next_crash(bool in_recovery);
    Task<> begin();
    Task<> work(Nursery& working);
    Task<> wait_for_crashes();
    Task<> end();
    Task<> judge();
    Task<> judge_files(fs::FileSystem& files);
    Task<> judge_space();
    static Task<> client(OffloadTrial& self, size_t number, Random random);
    static Task<> kill_now_and_then(OffloadTrial& self, Dpu& dpu, Random random);
    static Task<> set_clocks(OffloadTrial& self, Random random);
    [[nodiscard]] std::vector<std::string> processes() const;
    [[nodiscard]] bool is_condemned() const {
        return !report_.problems.empty() || !shared_.problems().empty() ||
               !versioned_.problems().empty() || !storage_.problems().empty();
    }

    World& world_;
    Random random_;
    const OffloadOptions& options_;
    OffloadReport& report_;
    fabric::sim::Network network_;
    std::unique_ptr<Rig> rig_;
    Random crashes_;
    StorageServer storage_;
    std::vector<std::unique_ptr<Dpu>> dpus_;
    std::vector<std::unique_ptr<AppHost>> hosts_;
    std::vector<std::unique_ptr<Random>> randoms_;  // of the clients' directories
    std::vector<std::unique_ptr<DirectoryWork>> directories_;
    const size_t host_count_;
    SharedWork shared_;
    VersionedFiles versioned_;
    uint64_t free_bytes_ = 0;  // of the store, before any client worked
    CallNotes notes_{world_, report_.problems, options_.trace};
    Pace pace_ = fast;
    bool armed_ = false;
    bool over_ = false;
};

std::optional<CrashPlan> OffloadTrial::next_crash(bool in_recovery) {
    if (!armed_) return std::nullopt;
    const auto& points = storage_.points();
    const bool after_process = !points.empty() && points.back().kind == CrashKind::process;
    if (!in_recovery) return draw_crash(crashes_, after_process);
    if (!crashes_.one_in(3)) return std::nullopt;
    return draw_recovery_crash(crashes_, after_process);
}

// ---- the story -----------------------------------------------------------------------------

Task<> OffloadTrial::run() {
    co_await storage_.make();
    ROS2S_CHECK(co_await storage_.start());
    free_bytes_ = (co_await storage_.store().space(no_call, {}))->free_bytes;
    {
        const auto files = co_await mount_directly(world_, storage_, report_.problems);
        ROS2S_CHECK(files && co_await shared_.prepare(*files));
        if (options_.leases) ROS2S_CHECK(co_await versioned_.prepare(*files));
        co_await files->close_all();
    }
    Nursery keeping(world_.core(), 1 + 2 * options_.dpus);
    co_await keeping.spawn(StorageServer::keep_running(storage_));
    co_await begin();
    for (const auto& dpu : dpus_) co_await keeping.spawn(Dpu::keep_running(*dpu));

    Nursery working(world_.core(), host_count_ * clients_per_host);
    Nursery troubling(world_.core(), 2 + options_.dpus);
    NetworkTrouble trouble(world_.core(), network_, processes(), random_.next(), pace_.fault);
    co_await work(working);
    armed_ = true;
    rig_->arm(*next_crash(false));
    co_await troubling.spawn(NetworkTrouble::make(trouble, pace_.trouble, over_));
    for (const auto& dpu : dpus_) {
        co_await troubling.spawn(kill_now_and_then(*this, *dpu, Random(random_.next())));
    }
    co_await troubling.spawn(set_clocks(*this, Random(random_.next())));
    co_await wait_for_crashes();
    over_ = true;
    armed_ = false;
    storage_.calm();
    for (const auto& dpu : dpus_) dpu->calm();
    co_await troubling.join();
    co_await working.join();
    report_.trouble = trouble.totals();
    co_await end();
    storage_.stop();
    co_await keeping.join();
    co_await judge();
}

// DPUs and hosts start without faults.
Task<> OffloadTrial::begin() {
    if (random_.one_in(4)) pace_ = slow;
    if (options_.leases) pace_ = leased;
    for (size_t i = 0; i < options_.dpus; ++i) {
        const DpuOptions options{.number = i,
                                 .strikes = ~uint64_t{0},
                                 .strike_within = 80,
                                 .orphan_grace = options_.orphan_grace,
                                 .lends = options_.leases};
        dpus_.push_back(std::make_unique<Dpu>(world_, network_, storage_, random_.next(), options));
        ROS2S_CHECK(co_await dpus_.back()->start());
    }
    for (size_t i = 0; i < host_count_; ++i) {
        hosts_.push_back(std::make_unique<AppHost>(world_, network_, *dpus_[i % dpus_.size()],
                                                   static_cast<uint8_t>(i + 1)));
        co_await hosts_.back()->connect();
    }
}

Task<> OffloadTrial::work(Nursery& working) {
    for (size_t i = 0; i < host_count_ * clients_per_host; ++i) {
        // The first neighbour, the next one, and so on: of the same DPU, and of others.
        const size_t other = i + 1 + i / host_count_ % (host_count_ - 1);
        randoms_.push_back(std::make_unique<Random>(random_.next()));
        directories_.push_back(std::make_unique<DirectoryWork>(
            world_, hosts_[i % host_count_]->files(), hosts_[other % host_count_]->files(),
            fmt::format("of-{}", i), *randoms_.back()));
        co_await working.spawn(client(*this, i, Random(random_.next())));
    }
    storage_.arm();
    for (const auto& dpu : dpus_) dpu->arm();
}

Task<> OffloadTrial::wait_for_crashes() {
    const Time last = world_.now() + patience;
    while (storage_.points().size() < options_.points && !is_condemned()) {
        co_await sleep_for(world_.core(), std::chrono::milliseconds(1));
        if (world_.now() < last) continue;
        report_.problems.push_back(fmt::format("only {} crashes came", storage_.points().size()));
    }
}

Task<> OffloadTrial::end() {
    for (const auto& host : hosts_) {
        report_.requests_repeated += host->metrics().requests_repeated.value();
        report_.hits += host->hits();
        co_await host->disconnect();
    }
    for (const auto& dpu : dpus_) {
        dpu->stop();
        report_.dpu_kills += dpu->kills();
        report_.straight_reads += dpu->straight_reads();
    }
    while (std::ranges::any_of(dpus_, [](const auto& dpu) { return dpu->is_up(); })) {
        co_await sleep_for(world_.core(), std::chrono::milliseconds(1));
    }
}

Task<> OffloadTrial::judge() {
    report_.points = storage_.points();
    report_.storage_strikes = storage_.strikes();
    report_.device_errors = storage_.device_errors();
    report_.replayed = storage_.replayed();
    if (co_await storage_.start()) {
        co_await sleep_for(world_.core(), offload_grace);
        if (const auto files = co_await mount_directly(world_, storage_, report_.problems)) {
            co_await judge_files(*files);
            const Result<> removed = co_await remove_all(*files, fs::root_node);
            if (!removed) {
                report_.problems.push_back("nothing can be removed: " + describe(removed.error()));
            }
            co_await files->close_all();
        }
        co_await judge_space();
        co_await storage_.halt();
    }
    report_.shared = shared_.totals();
    report_.looks = versioned_.looks();
    for (const auto* more : {&shared_.problems(), &versioned_.problems(), &storage_.problems()}) {
        report_.problems.insert(report_.problems.end(), more->begin(), more->end());
    }
}

Task<> OffloadTrial::judge_files(fs::FileSystem& files) {
    for (const auto& directory : directories_) {
        for (std::string& text : co_await directory->compare(files)) {
            report_.problems.push_back(std::move(text));
        }
    }
    co_await shared_.judge(files);
}

// When all files are removed, their space must be free again.
Task<> OffloadTrial::judge_space() {
    const auto space = co_await storage_.store().space(no_call, {});
    if (space && space->free_bytes == free_bytes_) co_return;
    report_.problems.push_back(fmt::format("without files {} bytes are free, and were {} at first",
                                           space ? space->free_bytes : 0, free_bytes_));
}

// ---- clients and kills ---------------------------------------------------------------------

Task<> OffloadTrial::client(OffloadTrial& self, size_t number, Random random) {
    fs::FileSystem& files = self.hosts_[number % self.host_count_]->files();
    DirectoryWork& directory = *self.directories_[number];
    Result<> done = co_await directory.begin();
    self.notes_.add(number, directory.what(), done);
    while (done && !self.over_ && !self.is_condemned()) {
        co_await pause(self.world_, random, self.pace_.operations);
        if (self.options_.leases && !random.one_in(4)) {
            done =
                co_await self.versioned_.step(files, random.below(VersionedFiles::count), random);
            self.notes_.add(number, "versioned", done);
        } else if (random.one_in(2)) {
            done = co_await directory.step();
            ++self.report_.operations;
            self.notes_.add(number, directory.what(), done);
        } else {
            done = co_await self.shared_.step(number, files, random);
            self.notes_.add(number, "shared", done);
        }
    }
    if (done && !self.is_condemned()) {
        done = co_await directory.finish();
        self.notes_.add(number, directory.what(), done);
    }
}

Task<> OffloadTrial::kill_now_and_then(OffloadTrial& self, Dpu& dpu, Random random) {
    while (!self.over_) {
        co_await pause(self.world_, random, self.pace_.kills);
        if (!self.over_) dpu.kill();
    }
}

// Of one machine at a time: the storage server's, a DPU's, a host's.
Task<> OffloadTrial::set_clocks(OffloadTrial& self, Random random) {
    const Duration offsets[] = {0s, 366 * 24h, -366 * 24h, 1h, -1ms};
    Duration of_storage{};
    while (!self.over_) {
        co_await pause(self.world_, random, self.pace_.kills);
        const Duration offset = offsets[random.below(std::size(offsets))];
        const size_t machine = random.below(3);
        if (machine == 0) {
            self.world_.step_clock(offset - std::exchange(of_storage, offset));
        } else if (machine == 1) {
            self.dpus_[random.below(self.dpus_.size())]->set_clock(offset);
        } else {
            self.hosts_[random.below(self.hosts_.size())]->set_clock(offset);
        }
        ++self.report_.clock_steps;
    }
}

std::vector<std::string> OffloadTrial::processes() const {
    std::vector<std::string> names{StorageServer::process};
    for (const auto& dpu : dpus_) {
        names.push_back(dpu->process());
        names.push_back(dpu->client_process());
    }
    for (const auto& host : hosts_) names.push_back(host->process());
    return names;
}

}  // namespace

OffloadReport run_offload_trial(uint64_t seed, const RigFactory& factory,
                                const OffloadOptions& options) {
    OffloadReport report{.seed = seed};
    World world(seed, options.cores);
    OffloadTrial trial(world, seed, factory, options, report);
    world.run(trial.run());
    return report;
}

}  // namespace ros2s::sim

#include "sharing_trial.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "app_host.h"
#include "ros2s/runtime/nursery.h"
#include "trial_parts.h"
#include "versioned_files.h"

namespace ros2s::sim {
namespace {

using namespace std::chrono_literals;

constexpr size_t dpus_max = 3;
constexpr size_t hosts_max = VersionedFiles::count;
constexpr size_t lockers = 2;  // of each host
// Of virtual time, until faults end.
constexpr Duration span = 60s;
// The longest times between two faults of a kind.
constexpr Duration between_kills = 15s, between_absences = 15s, between_storage_kills = 40s;
// Faults last longer than leases. Answers are late by up to the time for which a host is lent them.
constexpr Duration fault_longest = 4s, latest = 800ms;
// A DPU may be away from the store for longer than its session there lasts.
constexpr Duration absence_longest = 12s;
constexpr Duration late_at_dpu_most = 40ms;
// The longest pauses between a client's operations, and between faults of the network.
struct Pauses {
    Duration operations, trouble;
};
constexpr Pauses rough{.operations = 300ms, .trouble = 2s},
    quick{.operations = 10ms, .trouble = 20s};
// A holder's clock may be slower than its giver's by a fifth (leases.h).
constexpr int64_t paces[] = {90, 100, 110};

class SharingTrial {
  public:
    SharingTrial(World& world, uint64_t seed, const RigFactory& factory, SharingReport& report)
        : world_(world),
          random_(seed),
          pauses_(random_.one_in(3) ? quick : rough),
          report_(report),
          network_(world.random()),
          rig_(factory(world, random_)),
          storage_(world, network_, *rig_, random_.next(), {.ends_sessions = true}),
          versioned_(world.core()),
          locks_(world.core(), [this](size_t client) { return ends_of(client); }) {}

    Task<> run();

  private:
    struct Host {
        std::unique_ptr<AppHost> app;
        Dpu* dpu = nullptr;
        bool is_connected = false;
    };
    [[nodiscard]] uint64_t ends_of(size_t client) const {
        const Host& host = hosts_[client / lockers];
        // A store that was opened awaits its former holders for a while.
        return host.dpu->ends_of(host.app->client()) + storage_.starts_before(sharing_grace);
    }
    [[nodiscard]] int64_t draw_pace() { return paces[random_.below(std::size(paces))]; }
    Task<> prepare();
    Task<> begin(Nursery& keeping);
    Task<> make_trouble();
    Task<> judge();
    Task<> end();
    // A host: again after each kill.
    static Task<> live(SharingTrial& self, size_t number, Random random);
    // Each file is used by two hosts: one that many have is changed too often to be leased.
    static Task<> look(SharingTrial& self, size_t number, bool changes, Random random);
    static Task<> lock(SharingTrial& self, size_t number, size_t locker, Random random);
    static Task<> kill_hosts(SharingTrial& self, Random random);
    static Task<> kill_dpus(SharingTrial& self, Random random);
    static Task<> cut_dpus_off(SharingTrial& self, Random random);
    static Task<> kill_storage(SharingTrial& self, Random random);
    [[nodiscard]] bool is_condemned() const {
        return !report_.problems.empty() || !versioned_.problems().empty() ||
               !locks_.problems().empty() || !storage_.problems().empty();
    }
    [[nodiscard]] bool lives(size_t number) const {
        return !over_ && !is_condemned() && !hosts_[number].app->is_killed();
    }
    void note(size_t host, std::string_view what, const Result<>& done) {
        notes_.add(host, what, done, hosts_[host].app->is_killed());
    }

    World& world_;
    Random random_;
    const Pauses pauses_;
    SharingReport& report_;
    fabric::sim::Network network_;
    std::unique_ptr<Rig> rig_;
    StorageServer storage_;
    std::vector<std::unique_ptr<Dpu>> dpus_;
    std::vector<Host> hosts_;
    VersionedFiles versioned_;
    LockWork locks_;
    TraceHash trace_;
    CallNotes notes_{world_, report_.problems, &trace_};
    bool over_ = false;
};

// ---- the story -----------------------------------------------------------------------------

Task<> SharingTrial::run() {
    co_await storage_.make();
    ROS2S_CHECK(co_await storage_.start());
    co_await prepare();
    Nursery keeping(world_.core(), 1 + dpus_max);
    co_await begin(keeping);
    Nursery living(world_.core(), hosts_max);
    for (size_t i = 0; i < hosts_.size(); ++i) {
        co_await living.spawn(live(*this, i, Random(random_.next())));
    }
    co_await make_trouble();
    co_await living.join();
    co_await judge();
    co_await end();
    storage_.stop();
    co_await keeping.join();
    report_.looks = versioned_.looks();
    report_.locks = locks_.totals();
    report_.trace = trace_.value();
    for (const auto* more : {&versioned_.problems(), &locks_.problems(), &storage_.problems()}) {
        report_.problems.insert(report_.problems.end(), more->begin(), more->end());
    }
}

Task<> SharingTrial::prepare() {
    const auto files = co_await mount_directly(world_, storage_, report_.problems);
    ROS2S_CHECK(files && co_await versioned_.prepare(*files) && co_await locks_.prepare(*files));
    co_await files->close_all();
}

// DPUs and hosts start without faults.
Task<> SharingTrial::begin(Nursery& keeping) {
    co_await keeping.spawn(StorageServer::keep_running(storage_));
    const size_t dpus = random_.one_in(6) ? 1 : 2 + random_.below(dpus_max - 1);
    for (size_t i = 0; i < dpus; ++i) {
        const DpuOptions options{.number = i,
                                 .lends = true,
                                 .ends_sessions = true,
                                 .clock_percent = draw_pace(),
                                 .late_most = late_at_dpu_most};
        dpus_.push_back(std::make_unique<Dpu>(world_, network_, storage_, random_.next(), options));
        ROS2S_CHECK(co_await dpus_.back()->start());
        co_await keeping.spawn(Dpu::keep_running(*dpus_.back()));
    }
    const size_t hosts = 2 + random_.below(hosts_max - 1);
    for (size_t i = 0; i < hosts; ++i) {
        Dpu& dpu = *dpus_[i % dpus];
        hosts_.push_back({.app = std::make_unique<AppHost>(
                              world_, network_, dpu, static_cast<uint8_t>(i + 1), draw_pace()),
                          .dpu = &dpu});
        co_await hosts_.back().app->connect();
        hosts_.back().is_connected = true;
    }
}

Task<> SharingTrial::make_trouble() {
    std::vector<std::string> processes{StorageServer::process};
    for (const auto& dpu : dpus_) {
        processes.push_back(dpu->process());
        processes.push_back(dpu->client_process());
    }
    for (const Host& host : hosts_) processes.push_back(host.app->process());
    NetworkTrouble trouble(world_.core(), network_, processes, random_.next(), fault_longest,
                           latest);
    Nursery troubling(world_.core(), 5);
    co_await troubling.spawn(NetworkTrouble::make(trouble, pauses_.trouble, over_));
    co_await troubling.spawn(kill_hosts(*this, Random(random_.next())));
    co_await troubling.spawn(kill_dpus(*this, Random(random_.next())));
    co_await troubling.spawn(cut_dpus_off(*this, Random(random_.next())));
    co_await troubling.spawn(kill_storage(*this, Random(random_.next())));
    const Time until = world_.now() + span;
    while (world_.now() < until && !is_condemned()) co_await sleep_for(world_.core(), 10ms);
    over_ = true;
    co_await troubling.join();
    report_.trouble = trouble.totals();
}

Task<> SharingTrial::judge() {
    if (is_condemned()) co_return;
    while (!storage_.is_up()) co_await sleep_for(world_.core(), 1ms);
    const auto files = co_await mount_directly(world_, storage_, report_.problems);
    if (!files) co_return;
    co_await locks_.judge(*files, world_.core());
    co_await files->close_all();
}

Task<> SharingTrial::end() {
    for (Host& host : hosts_) {
        if (host.is_connected) report_.hits += host.app->hits();
        if (host.is_connected) co_await host.app->disconnect();
    }
    for (const auto& dpu : dpus_) {
        dpu->stop();
        report_.dpu_kills += dpu->kills();
    }
    while (std::ranges::any_of(dpus_, [](const auto& dpu) { return dpu->is_up(); })) {
        co_await sleep_for(world_.core(), 1ms);
    }
}

// ---- hosts ---------------------------------------------------------------------------------

Task<> SharingTrial::live(SharingTrial& self, size_t number, Random random) {
    while (true) {
        Host& host = self.hosts_[number];
        Nursery tasks(self.world_.core(), 2 + lockers);
        co_await tasks.spawn(look(self, number, true, Random(random.next())));
        co_await tasks.spawn(look(self, number, false, Random(random.next())));
        for (size_t i = 0; i < lockers; ++i) {
            co_await tasks.spawn(lock(self, number, i, Random(random.next())));
        }
        co_await tasks.join();
        if (!host.app->is_killed()) co_return;
        self.report_.hits += host.app->hits();
        co_await host.app->disconnect();
        host.is_connected = false;
        if (self.over_) co_return;
        co_await host.app->connect();
        host.is_connected = true;
    }
}

Task<> SharingTrial::look(SharingTrial& self, size_t number, bool changes, Random random) {
    while (self.lives(number)) {
        co_await pause(self.world_, random, self.pauses_.operations);
        if (!self.lives(number)) co_return;
        fs::FileSystem& files = self.hosts_[number].app->files();
        const size_t index = (number + random.below(2)) % self.hosts_.size();
        const auto done = changes ? co_await self.versioned_.step(files, index, random)
                                  : co_await self.versioned_.look_often(files, index, random);
        self.note(number, "versioned", done);
    }
}

Task<> SharingTrial::lock(SharingTrial& self, size_t number, size_t locker, Random random) {
    AppHost& app = *self.hosts_[number].app;
    const LockWork::Client client{
        .number = number * lockers + locker, .files = app.files(), .clock = app.core()};
    while (self.lives(number)) {
        co_await pause(self.world_, random, self.pauses_.operations);
        if (!self.lives(number)) co_return;
        const auto done = co_await self.locks_.step(client, random);
        self.note(number, "locks", done);
    }
}

// ---- kills ---------------------------------------------------------------------------------

Task<> SharingTrial::kill_hosts(SharingTrial& self, Random random) {
    while (true) {
        co_await pause(self.world_, random, between_kills);
        if (self.over_) co_return;
        const size_t number = random.below(self.hosts_.size());
        Host& host = self.hosts_[number];
        if (!host.is_connected || host.app->is_killed()) continue;
        ++self.report_.host_kills;
        host.app->kill();
        for (size_t i = 0; i < lockers; ++i) self.locks_.killed(number * lockers + i);
    }
}

Task<> SharingTrial::kill_dpus(SharingTrial& self, Random random) {
    while (true) {
        co_await pause(self.world_, random, between_kills);
        if (self.over_) co_return;
        self.dpus_[random.below(self.dpus_.size())]->kill();
    }
}

// From the store, whose sessions may end.
Task<> SharingTrial::cut_dpus_off(SharingTrial& self, Random random) {
    while (true) {
        co_await pause(self.world_, random, between_absences);
        if (self.over_) co_return;
        const std::string& process = self.dpus_[random.below(self.dpus_.size())]->client_process();
        self.network_.stall(process, true);
        self.network_.kill(process);
        co_await pause(self.world_, random, absence_longest);
        self.network_.stall(process, false);
    }
}

// A DPU may be away meanwhile, and not hear of it.
Task<> SharingTrial::kill_storage(SharingTrial& self, Random random) {
    while (true) {
        co_await pause(self.world_, random, between_storage_kills);
        if (self.over_) co_return;
        ++self.report_.storage_kills;
        const Dpu& dpu = *self.dpus_[random.below(self.dpus_.size())];
        const bool is_away = random.one_in(2);
        if (is_away) self.network_.stall(dpu.client_process(), true);
        if (is_away) co_await pause(self.world_, random, 300ms);
        self.storage_.kill();
        if (is_away) co_await pause(self.world_, random, fault_longest);
        self.network_.stall(dpu.client_process(), false);
    }
}

}  // namespace

SharingReport run_sharing_trial(uint64_t seed, const RigFactory& factory) {
    SharingReport report{.seed = seed};
    World world(seed);
    SharingTrial trial(world, seed, factory, report);
    world.run(trial.run());
    return report;
}

}  // namespace ros2s::sim

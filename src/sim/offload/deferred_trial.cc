#include "deferred_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "directory_work.h"
#include "ros2s/cipher/cipher_store.h"
#include "ros2s/fs/container.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/sim/crash_plan.h"
#include "ros2s/sim/no_call.h"
#include "ros2s/sim/remote/store_client.h"
#include "trial_parts.h"

namespace ros2s::sim {
namespace {

using namespace std::chrono_literals;

constexpr size_t clients_max = 5;
constexpr Duration deferred_span = 25s;  // of virtual time, until faults end
constexpr Duration between_losses = 4s;
constexpr Duration pause_longest = 20ms;

cipher::DataKeys container_keys() {
    cipher::DataKeys keys{
        .id = {{7}}, .current = 1, .versions = {}, .layout = cipher::Layout::seals};
    for (std::byte& each : keys.versions[1].bytes()) each = std::byte{5};
    return keys;
}

class DeferredTrial {
  public:
    DeferredTrial(World& world, uint64_t seed, const RigFactory& factory, DeferredReport& report)
        : world_(world),
          random_(seed),
          report_(report),
          network_(world.random()),
          rig_(factory(world, random_)),
          crashes_(random_.next()),
          storage_(world, network_, *rig_, random_.next(),
                   {.next_crash = [this](bool in_recovery) { return next_crash(in_recovery); }}),
          shared_(world.core(), clients_max) {}

    Task<> run();

  private:
    struct Client {
        Client(World& world, fabric::sim::Network& network, StorageServer& server, size_t number)
            : store(world, world.core(), network, server, fmt::format("client {}", number),
                    Uuid{{static_cast<uint8_t>(1 + number)}}) {}
        StoreClient store;
        std::unique_ptr<cipher::CipherStore> cipher;
        std::unique_ptr<fs::Dfs> files;
        std::unique_ptr<Random> random;
        std::optional<DirectoryWork> directory;
    };
    std::optional<CrashPlan> next_crash(bool in_recovery);
    Task<> prepare();
    Task<> mount(size_t number);
    Task<> judge();
    static Task<> work(DeferredTrial& self, size_t number, Random random);
    static Task<> kill_storage(DeferredTrial& self, Random random);
    static Task<> lose_connections(DeferredTrial& self, Random random);
    // Null: the container is not encrypted.
    std::unique_ptr<cipher::CipherStore> cipher_over(object::ObjectStore& store) {
        if (!is_encrypted_) return nullptr;
        return std::make_unique<cipher::CipherStore>(world_.core(), store, storage_.container(),
                                                     container_keys());
    }
    [[nodiscard]] bool is_condemned() const {
        return !report_.problems.empty() || !shared_.problems().empty() ||
               !storage_.problems().empty();
    }

    World& world_;
    Random random_;
    DeferredReport& report_;
    fabric::sim::Network network_;
    std::unique_ptr<Rig> rig_;
    Random crashes_;
    StorageServer storage_;
    std::vector<std::unique_ptr<Client>> clients_;
    SharedWork shared_;
    TraceHash trace_;
    CallNotes notes_{world_, report_.problems, &trace_};
    bool is_encrypted_ = false;
    bool armed_ = false;
    bool over_ = false;
};

// Besides the kills at any time: between two operations of a device.
std::optional<CrashPlan> DeferredTrial::next_crash(bool in_recovery) {
    if (!armed_ || !crashes_.one_in(3)) return std::nullopt;
    return in_recovery ? draw_recovery_crash(crashes_, false) : draw_crash(crashes_, false);
}

// ---- the story -----------------------------------------------------------------------------

Task<> DeferredTrial::run() {
    co_await storage_.make();
    ROS2S_CHECK(co_await storage_.start());
    co_await prepare();
    Nursery keeping(world_.core(), 1), working(world_.core(), clients_max);
    co_await keeping.spawn(StorageServer::keep_running(storage_));
    const size_t clients = 1 + random_.below(clients_max);
    for (size_t i = 0; i < clients; ++i) co_await mount(i);
    for (size_t i = 0; i < clients; ++i) {
        clients_[i]->directory.emplace(world_, *clients_[i]->files,
                                       *clients_[(i + 1) % clients]->files, fmt::format("of-{}", i),
                                       *clients_[i]->random);
        co_await working.spawn(work(*this, i, Random(random_.next())));
    }
    armed_ = true;
    Nursery troubling(world_.core(), 2);
    co_await troubling.spawn(kill_storage(*this, Random(random_.next())));
    co_await troubling.spawn(lose_connections(*this, Random(random_.next())));
    const Time until = world_.now() + deferred_span;
    while (world_.now() < until && !is_condemned()) co_await sleep_for(world_.core(), 10ms);
    over_ = true;
    armed_ = false;
    storage_.calm();
    co_await troubling.join();
    co_await working.join();
    co_await judge();
    storage_.stop();
    co_await keeping.join();
    report_.work = shared_.totals();
    report_.trace = trace_.value();
    for (const auto* more : {&shared_.problems(), &storage_.problems()}) {
        report_.problems.insert(report_.problems.end(), more->begin(), more->end());
    }
}

Task<> DeferredTrial::prepare() {
    Report report;
    const object::ContainerRecord record{.id = storage_.container(), .properties = {.label = "c"}};
    ROS2S_CHECK(co_await fs::set_durability(no_call, world_.core(), storage_.store(), record,
                                            fs::Durability::fsync, report));
    is_encrypted_ = random_.one_in(2);
    const auto cipher = cipher_over(storage_.store());
    const auto files = co_await mount_directly(world_, storage_, report_.problems, cipher.get());
    ROS2S_CHECK(files && co_await shared_.prepare(*files));
    co_await files->close_all();
}

Task<> DeferredTrial::mount(size_t number) {
    clients_.push_back(std::make_unique<Client>(world_, network_, storage_, number));
    Client& client = *clients_.back();
    client.random = std::make_unique<Random>(random_.next());
    ROS2S_CHECK(co_await client.store.connect());
    object::ObjectStore& below = client.store.store();
    client.cipher = cipher_over(below);
    object::ObjectStore& store = is_encrypted_ ? *client.cipher : below;
    Report report;
    auto files = co_await fs::Dfs::mount(
        no_call, store, storage_.container(), world_.core(),
        {.operations_max = cipher::CipherStore::operations_max,
         .transaction_bytes_max = cipher::CipherStore::transaction_bytes_max,
         .takes_leases = random_.one_in(2),
         .defers = true,
         .log =
             Log([this](LogLevel, std::string_view line) { report_.problems.emplace_back(line); },
                 LogLevel::error)},
        report);
    ROS2S_CHECK(files && (*files)->is_deferred());
    client.files = std::move(*files);
}

// What the mounts see, and then what is durable.
Task<> DeferredTrial::judge() {
    for (size_t i = 0; i < clients_.size() && !is_condemned(); ++i) {
        notes_.add(i, "finish", co_await clients_[i]->directory->finish());
    }
    for (const auto& client : clients_) {
        if (!is_condemned()) co_await shared_.judge(*client->files);
        client->files->visit_metrics(
            [this](std::string_view name, std::string_view, uint64_t value) {
                if (name == "ros2store_fs_changes_repeated_total") report_.repeated += value;
            });
        co_await client->files->close_all();
        client->files.reset();
        client->cipher.reset();
        co_await client->store.disconnect();
    }
    while (!storage_.is_up()) co_await sleep_for(world_.core(), 1ms);
    storage_.kill();
    while (!storage_.is_up()) co_await sleep_for(world_.core(), 1ms);
    if (is_condemned()) co_return;
    const auto cipher = cipher_over(storage_.store());
    const auto files = co_await mount_directly(world_, storage_, report_.problems, cipher.get());
    if (!files) co_return;
    co_await shared_.judge(*files);
    for (const auto& client : clients_) {
        for (const std::string& each : co_await client->directory->compare(*files)) {
            report_.problems.push_back(each);
        }
    }
    co_await files->close_all();
}

// ---- clients and faults --------------------------------------------------------------------

Task<> DeferredTrial::work(DeferredTrial& self, size_t number, Random random) {
    Client& client = *self.clients_[number];
    self.notes_.add(number, "begin", co_await client.directory->begin());
    while (!self.over_ && !self.is_condemned()) {
        if (random.one_in(3)) {
            self.notes_.add(number, "shared",
                            co_await self.shared_.step(number, *client.files, random));
        } else {
            const Result<> done = co_await client.directory->step();
            self.notes_.add(number, client.directory->what(), done);
        }
        if (random.one_in(8)) co_await pause(self.world_, random, pause_longest);
    }
}

// Sometimes again at once, while changes are repeated.
Task<> DeferredTrial::kill_storage(DeferredTrial& self, Random random) {
    while (true) {
        co_await pause(self.world_, random, random.one_in(3) ? 300ms : between_losses);
        if (self.over_) co_return;
        ++self.report_.storage_kills;
        self.storage_.kill();
    }
}

Task<> DeferredTrial::lose_connections(DeferredTrial& self, Random random) {
    while (true) {
        co_await pause(self.world_, random, between_losses);
        if (self.over_) co_return;
        self.network_.kill(fmt::format("client {}", random.below(self.clients_.size())));
    }
}

}  // namespace

DeferredReport run_deferred_trial(uint64_t seed, const RigFactory& factory) {
    DeferredReport report{.seed = seed};
    World world(seed);
    DeferredTrial trial(world, seed, factory, report);
    world.run(trial.run());
    return report;
}

}  // namespace ros2s::sim

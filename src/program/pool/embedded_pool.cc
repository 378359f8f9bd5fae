#include "ros2s/pool/embedded_pool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "pool_engine.h"
#include "pool_files.h"
#include "pool_service.h"
#include "ros2s/base/descriptor.h"
#include "ros2s/client/counted_store.h"
#include "ros2s/fs/container.h"
#include "ros2s/pool/pool_directory.h"

namespace ros2s::pool {
namespace {

// Longer than clients take to reconnect after a restart, and the hosts of a DPU after its restart
// (the DPU waits as long for them: apps/dpu/pools.cc).
constexpr Duration served_pin_grace = std::chrono::seconds(30);

// A list of 8,192 holders has less.
constexpr size_t pin_list_bytes_max = size_t{4} << 20;

engine::EngineOptions::PinList pin_list_in(const std::string& directory) {
    const std::string path = in(directory, served_name);
    engine::EngineOptions::PinList list;
    list.write = [path](std::string_view text) -> Result<> {
        const auto written = replace_file(path, text, 0600);
        if (written) return {};
        // The old list lacks a holder. An empty file is no list; it needs no space.
        const Descriptor file(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600));
        if (file.get() >= 0) (void)::fsync(file.get());
        return written;
    };
    auto text = read_file(path, pin_list_bytes_max);
    if (text) {
        list.text = std::move(*text);
    } else if (text.error().code != Code::not_found) {
        list.text = "";
    }
    return list;
}

// More than its first and last line, or a text that is no list.
bool lists_some(const engine::EngineOptions::PinList& list) {
    return list.text && std::ranges::count(*list.text, '\n') != 2;
}

}  // namespace

Task<Result<std::unique_ptr<EmbeddedPool>>> EmbeddedPool::open(Environment environment,
                                                               std::string directory,
                                                               EmbeddedOptions options,
                                                               OwnerRecord& present,
                                                               Report& report) {
    const OwnerRecord self{
        .pid = ::getpid(),
        .program = options.program.empty() ? ::program_invocation_short_name : options.program,
        .mount_point = options.mount_point,
        .container = options.container,
        .shares = options.shares,
        .awaits = true};
    Result<TakenPool> taken = fail(Code::busy);
    if (options.owner_file >= 0) {
        taken = adopt_pool(directory, options.owner_file, self, report);
    } else {
        taken = co_await take_pool(environment.reactor, directory, self, present, report);
    }
    if (!taken) co_return fail(taken.error());
    std::unique_ptr<EmbeddedPool> pool(new EmbeddedPool(environment, std::move(taken->directory)));
    pool->ownership_ = pool->stack_.push("Ownership", std::move(taken->ownership));
    if (const auto begun = co_await pool->begin(self, options.owner_file >= 0, report); !begun) {
        co_await pool->stack_.close();
        co_return fail(begun.error());
    }
    if (const auto why = pool->read_only_reason(); !why.empty()) {
        environment.log.warning("the pool in {} is read-only: {}", pool->directory(), why);
    }
    co_return std::move(pool);
}

EmbeddedPool::EmbeddedPool(Environment environment, PoolDirectory directory)
    : environment_(std::move(environment)), directory_(std::move(directory)) {}
EmbeddedPool::~EmbeddedPool() = default;

Task<Result<>> EmbeddedPool::begin(OwnerRecord self, bool is_for_others, Report& report) {
    engine::EngineOptions options;
    // After a crash also a program that shares nothing takes those that have ended from the list.
    const bool ended = ownership_->all_before_ended();
    if (self.program == engine_program || self.shares || ended) {
        options.pin_grace = served_pin_grace;
        options.pin_list = pin_list_in(directory());
        options.pin_list.processes_ended = ended;
    }
    self.awaits = !ended && lists_some(options.pin_list);
    ownership_->update(self);
    // The path of a pool in a server does not say "embedded".
    if (self.program == engine_program) options.name = "engine";
    ROS2S_CO_TRY_ASSIGN(
        engine_, stack_.push("EngineStore", co_await open_engine(environment_, directory_, report,
                                                                 std::move(options))));
    client_ = stack_.push("CountedStore",
                          std::make_unique<client::CountedStore>(environment_.reactor, *engine_));
    path_ = client_->path();
    // Several processes can have a pool open for reading.
    if (!self.shares || (directory_.read_only && !is_for_others)) co_return Result<>{};
    co_return co_await share(std::move(self), is_for_others, report);
}

// Without a service the pool can still be used here.
Task<Result<>> EmbeddedPool::share(OwnerRecord self, bool must, Report& report) {
    Report refusal;
    auto service = co_await PoolService::listen(
        environment_, directory(), store(),
        [self, owner = ownership_](const std::vector<PoolUser>& users) {
            OwnerRecord now = self;
            now.users = users;
            owner->update(now);
        },
        refusal);
    if (service) {
        service_ = stack_.push("PoolService", std::move(*service));
        co_return Result<>{};
    }
    if (must) co_return report.fail(service.error(), "{}", refusal.text());
    self.shares = false;
    ownership_->update(self);
    environment_.log.info("the pool in {} cannot be used by other processes: {}", directory(),
                          refusal.text());
    co_return Result<>{};
}

Task<> EmbeddedPool::until_unused(Duration within) {
    if (service_ != nullptr) co_await service_->until_unused(within);
}

Task<> EmbeddedPool::close() {
    const auto closed = co_await stack_.close();
    if (!closed) {
        // If the index's disk is full, the last checkpoint fails; nothing else needs space.
        const std::string cause =
            closed.error().code == Code::no_space
                ? fmt::format("the file system that holds {}/index is full: free some space there",
                              directory())
                : describe(closed.error());
        environment_.log.warning(
            "the pool in {} was not closed cleanly ({}); the next opening recovers it. Nothing is "
            "lost, except after a failed flush the last second of containers with durability=fsync",
            directory(), cause);
    }
}

object::ObjectStore& EmbeddedPool::store() { return *client_; }

Task<Result<object::ContainerRecord>> EmbeddedPool::create_container(
    const Call& call, object::ContainerProperties properties, fs::Owner owner, Report& report) {
    return fs::create_container(call, environment_.reactor, store(), std::move(properties), owner,
                                report);
}

Task<Result<std::unique_ptr<fs::FileSystem>>> EmbeddedPool::open_container(const Call& call,
                                                                           std::string label,
                                                                           fs::DfsOptions options,
                                                                           Report& report) {
    return fs::open_container(call, environment_.reactor, store(), shown(), std::move(label),
                              options, report);
}

Task<Result<object::ContainerRecord>> EmbeddedPool::set_container(const Call& call,
                                                                  object::ContainerId container,
                                                                  object::ContainerChange change,
                                                                  Report& report) {
    auto done = co_await engine_->set_container(call, container, change);
    if (done) co_return std::move(*done);
    const bool takes_budget = done.error().code == Code::invalid && change.bytes == 0;
    co_return report.fail(
        done.error(), "the container of {} cannot be changed: {}", shown(),
        takes_budget ? "a cache needs a budget: give a size" : describe(done.error()));
}

void EmbeddedPool::set_owner_caps(const std::map<std::string, object::Amount>& caps) {
    engine_->set_owner_caps(caps);
}

std::vector<CappedUse> EmbeddedPool::capped() const {
    std::vector<CappedUse> all;
    const auto add = [&all](bool is_tenant, const std::vector<engine::EngineStore::Capped>& each) {
        for (const auto& one : each) {
            all.push_back({is_tenant, one.name, one.used, one.caps, one.refusals});
        }
    };
    add(false, engine_->capped_containers());
    add(true, engine_->capped_owners());
    return all;
}

uint32_t EmbeddedPool::targets() const { return engine_->targets(); }

std::string EmbeddedPool::read_only_reason() const { return engine_->read_only_reason(); }

std::string EmbeddedPool::tenants_file() const { return in(directory(), tenants_name); }

std::string EmbeddedPool::capability_keys_file() const {
    return in(directory(), capability_keys_name);
}

Uuid EmbeddedPool::id() const { return engine_->pool().uuid; }

std::string EmbeddedPool::shown() const {
    return fmt::format("the pool '{}' in {}", name(), directory());
}

object::LeaseTable& EmbeddedPool::leases() { return engine_->leases(); }

EmbeddedPool::Deferred EmbeddedPool::deferred_of(uint64_t session) const {
    const auto deferred = engine_->deferred_of(session);
    return {deferred.changes, deferred.bytes, deferred.age};
}

void EmbeddedPool::visit_times(const HistogramVisitor& visit) const { engine_->visit_times(visit); }

void EmbeddedPool::visit_metrics(const MetricVisitor& visit) const {
    stack_.visit_metrics(visit);
    const auto sum = [this](Counter device::DeviceCounters::* counter) {
        uint64_t total = 0;
        for (const auto* each : engine_->devices()) total += (each->counters().*counter).value();
        return total;
    };
    using Of = device::DeviceCounters;
    visit("ros2store_device_reads_total", "Reads from the devices.", sum(&Of::reads));
    visit("ros2store_device_read_bytes_total", "Bytes read from them.", sum(&Of::read_bytes));
    visit("ros2store_device_writes_total", "Writes to the devices.", sum(&Of::writes));
    visit("ros2store_device_written_bytes_total", "Bytes written to them.",
          sum(&Of::written_bytes));
    visit("ros2store_device_flushes_total", "Flushes of the devices.", sum(&Of::flushes));
    visit("ros2store_device_errors_total", "Device operations that failed.", sum(&Of::errors));
}

}  // namespace ros2s::pool

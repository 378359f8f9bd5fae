#include "store_stack.h"

#include "device_files.h"
#include "pool_files.h"
#include "ros2s/engine/index/rocksdb/rocksdb_index.h"

namespace ros2s::pool {
namespace {

using Devices = engine::EngineStore::Devices;

Task<> close_all(Devices& devices) {
    for (auto& each : devices) co_await each->close();
}

Task<Result<Devices>> open_devices(Environment environment, PoolDirectory directory,
                                   Report& report) {
    Devices devices;
    for (const auto& path : directory.devices) {
        auto opened = co_await open_device(environment, path, directory.config.page_cache, report);
        if (!opened) {
            co_await close_all(devices);
            co_return fail(opened.error());
        }
        devices.push_back(std::move(*opened));
    }
    co_return std::move(devices);
}

engine::EngineOptions options_of(const PoolConfig& config) {
    return {.memory_bytes = config.memory_bytes,
            .groups_in_flight = config.groups_in_flight,
            .accept_copies = config.accept_copies,
            .discard = config.discard,
            .rest_after = std::chrono::seconds(5)};
}

engine::EngineOptions options_in(const Environment& environment, const PoolConfig& config) {
    auto options = options_of(config);
    options.more_reactors.assign(environment.more_reactors.begin(),
                                 environment.more_reactors.end());
    return options;
}

engine::IndexFactory index_in(const PoolDirectory& directory, const Log& log) {
    const engine::RocksDbOptions options{.memory_bytes = options_of(directory.config).index_share(),
                                         .log = log};
    return [options, parent = directory.directory](std::string_view name, bool create,
                                                   Report& report) {
        const auto path = in(parent, name);
        return create ? engine::create_rocksdb_index(path, options, report)
                      : engine::open_rocksdb_index(path, options, report);
    };
}

engine::Env engine_environment(const Environment& environment) {
    return {
        .reactor = environment.reactor, .blocking = environment.blocking, .log = environment.log};
}

}  // namespace

Task<Result<>> StoreStack::format(Environment environment, PoolDirectory directory,
                                  Report& report) {
    ROS2S_CO_TRY_ASSIGN(auto devices, co_await open_devices(environment, directory, report));
    std::vector<device::BlockDevice*> borrowed;
    for (const auto& each : devices) borrowed.push_back(each.get());
    const auto made =
        co_await engine::EngineStore::create(engine_environment(environment), borrowed,
                                             index_in(directory, environment.log), {}, report);
    co_await close_all(devices);
    co_return made;
}

Task<Result<std::unique_ptr<StoreStack>>> StoreStack::open(Environment environment,
                                                           PoolDirectory directory, Report& report,
                                                           StackOptions stack_options) {
    auto options = options_in(environment, directory.config);
    options.name = stack_options.engine_name;
    options.pin_grace = stack_options.pin_grace;
    options.begins_with_grace = stack_options.begins_with_grace;
    ROS2S_CO_TRY_ASSIGN(auto devices, co_await open_devices(environment, directory, report));
    std::unique_ptr<StoreStack> stack(new StoreStack);
    ROS2S_CO_TRY_ASSIGN(stack->engine_,
                        co_await engine::EngineStore::open(
                            engine_environment(environment), std::move(devices),
                            index_in(directory, environment.log), std::move(options), report));
    stack->client_ =
        std::make_unique<client::ClientStore>(environment.reactor, *stack->engine_, environment.log,
                                              client::ClientStore::Store::in_this_process);
    co_return std::move(stack);
}

StoreStack::~StoreStack() { ROS2S_CHECK(engine_ == nullptr); }

Task<Result<>> StoreStack::close() {
    client_.reset();
    const auto closed = co_await engine_->close();
    engine_.reset();
    co_return closed;
}

void StoreStack::visit_metrics(const MetricVisitor& visit) const {
    client_->metrics().visit(visit);
    engine_->visit_metrics(visit);
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

#include "ros2s/pool/embedded_pool.h"

#include <errno.h>
#include <fmt/format.h>
#include <unistd.h>

#include "pool_files.h"
#include "ros2s/fs/container.h"
#include "ros2s/pool/pool_directory.h"
#include "settled_stack.h"

namespace ros2s::pool {
namespace {

// Longer than clients take to come again after a restart, and the hosts of a DPU after its restart
// (as long as it waits for them: apps/dpu/engine_pools.cc).
constexpr Duration served_pin_grace = std::chrono::seconds(30);

}  // namespace

struct EmbeddedPool::Parts {
    Environment environment;
    PoolDirectory directory;
    std::string path;
    std::unique_ptr<Ownership> ownership;
    std::unique_ptr<StoreStack> stack;

    [[nodiscard]] std::string shown() const {
        return fmt::format("the pool '{}' in {}", directory.config.pool, directory.directory);
    }
};

EmbeddedPool::EmbeddedPool(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
EmbeddedPool::~EmbeddedPool() { ROS2S_CHECK(parts_ == nullptr || parts_->stack == nullptr); }

Task<Result<std::unique_ptr<EmbeddedPool>>> EmbeddedPool::open(Environment environment,
                                                               std::string directory,
                                                               EmbeddedOptions options,
                                                               OwnerRecord& present,
                                                               Report& report) {
    ROS2S_CO_TRY_ASSIGN(const auto named, read_pool_directory(directory, report));
    const OwnerRecord self{
        .pid = ::getpid(),
        .program = options.program.empty() ? ::program_invocation_short_name : options.program,
        .mount_point = options.mount_point,
        .container = options.container};
    ROS2S_CO_TRY_ASSIGN(auto ownership,
                        co_await Ownership::take_patiently(environment.reactor, named.directory,
                                                           self, present, report));
    // Again, now that nobody else changes it.
    ROS2S_CO_TRY_ASSIGN(auto found, read_pool_directory(named.directory, report));
    auto parts =
        std::make_unique<Parts>(Parts{.environment = environment, .directory = std::move(found)});
    parts->ownership = std::move(ownership);
    // In a process that serves others it is embedded in nothing.
    StackOptions stack_options;
    if (self.program == engine_program) {
        const std::string served = in(parts->directory.directory, served_name);
        stack_options = {.engine_name = "engine",
                         .pin_grace = served_pin_grace,
                         .begins_with_grace = exists(served)};
        if (const auto noted = replace_file(served, ""); !noted) {
            co_return cannot("write", served, noted.error(), report);
        }
    }
    ROS2S_CO_TRY_ASSIGN(
        parts->stack, co_await open_settled(environment, parts->directory, report, stack_options));
    parts->path = parts->stack->store().path();
    std::unique_ptr<EmbeddedPool> pool(new EmbeddedPool(std::move(parts)));
    if (const auto why = pool->parts_->stack->engine().read_only_reason(); !why.empty()) {
        environment.log.warning(
            fmt::format("the pool in {} is read-only: {}", pool->directory(), why));
    }
    co_return std::move(pool);
}

Task<> EmbeddedPool::close() {
    const auto closed = co_await parts_->stack->close();
    if (!closed) {
        // The last checkpoint fails where the index's disk is full; nothing else needs space.
        const std::string cause =
            closed.error().code == Code::no_space
                ? fmt::format("the file system that holds {}/index is full: free some space there",
                              directory())
                : describe(closed.error());
        parts_->environment.log.warning(
            fmt::format("the pool in {} was not closed cleanly ({}); nothing is lost, the next "
                        "opening recovers it",
                        directory(), cause));
    }
    parts_->stack.reset();
    parts_->ownership.reset();
}

const std::string& EmbeddedPool::name() const { return parts_->directory.config.pool; }
const std::string& EmbeddedPool::directory() const { return parts_->directory.directory; }
const std::string& EmbeddedPool::path() const { return parts_->path; }
object::ObjectStore& EmbeddedPool::store() { return parts_->stack->store(); }

Task<Result<object::ContainerRecord>> EmbeddedPool::find_container(const Call& call,
                                                                   std::string label,
                                                                   Report& report) {
    return fs::find_container(call, store(), parts_->shown(), std::move(label), report);
}

Task<Result<object::ContainerRecord>> EmbeddedPool::create_container(
    const Call& call, object::ContainerProperties properties, fs::Owner owner, Report& report) {
    return fs::create_container(call, parts_->environment.reactor, store(), std::move(properties),
                                owner, report);
}

Task<Result<std::unique_ptr<fs::FileSystem>>> EmbeddedPool::open_container(const Call& call,
                                                                           std::string label,
                                                                           fs::DfsOptions options,
                                                                           Report& report) {
    return fs::open_container(call, parts_->environment.reactor, store(), parts_->shown(),
                              std::move(label), options, report);
}

uint32_t EmbeddedPool::targets() const { return parts_->stack->engine().targets(); }

std::string EmbeddedPool::read_only_reason() const {
    return parts_->stack->engine().read_only_reason();
}

void EmbeddedPool::visit_metrics(const MetricVisitor& visit) const {
    parts_->stack->visit_metrics(visit);
}

}  // namespace ros2s::pool

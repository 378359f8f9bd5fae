#include "ros2s/api/deployment.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "ros2s/api/service_places.h"
#include "ros2s/foreign/local_fs.h"
#include "ros2s/pool/pool_directory.h"

namespace ros2s::api {

Task<Result<std::unique_ptr<Deployment>>> Deployment::open(const Call& call,
                                                           Environment environment, Uri uri,
                                                           DeploymentOptions options,
                                                           Report& report) {
    std::unique_ptr<Deployment> deployment(new Deployment(uri));
    if (uri.transport == Uri::Transport::local) {
        ROS2S_CO_TRY(co_await deployment->open_pool(call, environment, std::move(options), report));
    } else {
        ROS2S_CO_TRY_ASSIGN(
            deployment->network_,
            co_await NetworkContainer::open(
                call, environment, std::move(uri),
                {.program = options.embedded.program, .read_only = options.read_only}, report));
        deployment->path_ = deployment->network_->path();
    }
    co_return std::move(deployment);
}

Task<Result<>> Deployment::open_pool(const Call& call, Environment environment,
                                     DeploymentOptions options, Report& report) {
    pool::OwnerRecord owner;
    Report refusal;
    auto pool =
        co_await pool::EmbeddedPool::open(environment, uri_.dir, options.embedded, owner, refusal);
    if (!pool) {
        if (pool.error().code != Code::busy || !options.through_owner || !stands_in(owner, uri_)) {
            co_return report.fail(pool.error(), refusal.text());
        }
        ROS2S_CO_TRY_ASSIGN(
            auto through,
            co_await open_through_owner(
                call, environment, uri_, owner,
                {.program = options.embedded.program, .read_only = options.read_only}, report));
        file_system_ = std::move(through.file_system);
        network_ = std::move(through.network);
        path_ = std::move(through.path);
        mount_point_ = owner.mount_point;
        co_return Result<>{};
    }
    pool_ = std::move(*pool);
    path_ = pool_->path();
    Result<> opened = check_pool_name(uri_, pool_->name(), report);
    if (opened) {
        auto container = co_await pool_->open_container(call, uri_.container,
                                                        {.reaps = !options.read_only}, report);
        if (container) {
            file_system_ = std::move(*container);
            co_return Result<>{};
        }
        opened = fail(container.error());
    }
    co_await close();
    co_return opened;
}

Deployment::~Deployment() = default;

Task<> Deployment::close() {
    if (file_system_) co_await file_system_->close_all();
    file_system_.reset();
    if (network_) co_await network_->close();
    network_.reset();
    if (pool_) co_await pool_->close();
    pool_.reset();
}

Result<std::unique_ptr<OsReactor>> create_reactor(const Uri& uri, Report& report,
                                                  std::string thread_name) {
    if (uri.transport == Uri::Transport::local) {
        ROS2S_TRY_ASSIGN(const auto pool, pool::read_pool_directory(uri.dir, report));
        return create_reactor(pool, report, std::move(thread_name));
    }
    OsReactorOptions options{.thread_name = std::move(thread_name)};
    if (uri.transport == Uri::Transport::dpu) options.ring = RingChoice::threads;
    return OsReactor::create(std::move(options), report);
}

Result<> check_pool_name(const Uri& uri, const std::string& name, Report& report) {
    if (uri.pool == name) return {};
    Uri right = uri;
    right.pool = name;
    return report.fail(Code::not_found,
                       fmt::format("the pool in {} is named '{}', not '{}'; its URI is {}", uri.dir,
                                   name, uri.pool, right.to_string()));
}

namespace {

// The owner says where it mounts before it has mounted, and a killed one leaves a dead mount.
Result<> check_mounted(const std::string& mount_point, const std::string& refusal, Report& report) {
    struct statfs status{};
    struct stat root{};
    const bool found =
        ::statfs(mount_point.c_str(), &status) == 0 && ::stat(mount_point.c_str(), &root) == 0;
    if (found && status.f_type == FUSE_SUPER_MAGIC && root.st_ino == fs::root_node.value) return {};
    return report.fail(Code::busy,
                       fmt::format("{} (nothing is mounted there now: {})", refusal,
                                   found ? "no FUSE file system's root" : std::strerror(errno)));
}

}  // namespace

bool is_served(const std::string& directory, const pool::OwnerRecord& owner) {
    std::error_code ignored;
    return owner.program == pool::engine_program &&
           std::filesystem::exists(ServicePlaces(directory).engine_control, ignored);
}

bool stands_in(const pool::OwnerRecord& owner, const Uri& uri) {
    const bool mounted = !owner.mount_point.empty() && owner.container == uri.container;
    return mounted || is_served(uri.dir, owner);
}

Task<Result<ThroughOwner>> open_through_owner(const Call& call, Environment environment, Uri uri,
                                              pool::OwnerRecord owner, NetworkOptions how,
                                              Report& report) {
    ThroughOwner through;
    if (owner.mount_point.empty()) {
        uri.transport = Uri::Transport::direct;
        uri.provider = "shm";
        ROS2S_CO_TRY_ASSIGN(through.network,
                            co_await NetworkContainer::open(call, environment, std::move(uri),
                                                            std::move(how), report));
        through.path = fmt::format("through process {} ({}), which has the pool open: {}",
                                   owner.pid, owner.program, through.network->path());
        co_return std::move(through);
    }
    ROS2S_CO_TRY(check_mounted(owner.mount_point, pool::describe_owner(uri.dir, owner), report));
    ROS2S_CO_TRY_ASSIGN(through.file_system,
                        co_await foreign::open_local_fs(owner.mount_point, environment.reactor,
                                                        environment.blocking, report));
    through.path = fmt::format("through the mount at {} (FUSE) of process {} ({})",
                               owner.mount_point, owner.pid, owner.program);
    co_return std::move(through);
}

}  // namespace ros2s::api

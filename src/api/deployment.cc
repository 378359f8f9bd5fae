#include "ros2s/api/deployment.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>

#include "ros2s/foreign/local_fs.h"

namespace ros2s::api {

Task<Result<std::unique_ptr<Deployment>>> Deployment::open(const Call& call,
                                                           Environment environment, Uri uri,
                                                           DeploymentOptions options,
                                                           Report& report) {
    ROS2S_CO_TRY(check_transport(uri, report));
    std::unique_ptr<Deployment> deployment(new Deployment);
    deployment->uri_ = uri;
    OwnerRecord owner;
    Report refusal;
    auto pool = co_await EmbeddedPool::open(environment, uri.dir, options.embedded, owner, refusal);
    if (!pool) {
        if (pool.error().code != Code::busy || !options.through_mount ||
            !stands_in(owner, uri.container)) {
            co_return report.fail(pool.error(), refusal.text());
        }
        ROS2S_CO_TRY_ASSIGN(auto mounted,
                            co_await open_through_mount(call, environment, uri, owner, report));
        deployment->file_system_ = std::move(mounted.file_system);
        deployment->path_ = std::move(mounted.path);
        deployment->mount_point_ = owner.mount_point;
        co_return std::move(deployment);
    }
    deployment->pool_ = std::move(*pool);
    Result<> checked = check_pool_name(uri, *deployment->pool_, report);
    if (checked) {
        auto opened = co_await deployment->pool_->open_container(call, uri.container, report);
        if (opened) {
            deployment->file_system_ = std::move(*opened);
            deployment->path_ = deployment->pool_->path();
            co_return std::move(deployment);
        }
        checked = fail(opened.error());
    }
    co_await deployment->pool_->close();
    co_return fail(checked.error());
}

Deployment::~Deployment() = default;

Task<> Deployment::close() {
    if (file_system_) co_await file_system_->close_all();
    file_system_.reset();
    if (pool_) co_await pool_->close();
    pool_.reset();
}

Result<> check_transport(const Uri& uri, Report& report) {
    if (uri.transport == Uri::Transport::local) return {};
    return report.fail(
        Code::unsupported,
        fmt::format(
            "'{}' needs a network, which this version does not have; it opens pools of this "
            "machine, like {}",
            uri.to_string(), example_of(Uri::Transport::local)));
}

Result<> check_pool_name(const Uri& uri, const EmbeddedPool& pool, Report& report) {
    if (uri.pool == pool.name()) return {};
    Uri right = uri;
    right.pool = pool.name();
    return report.fail(Code::not_found,
                       fmt::format("the pool in {} is named '{}', not '{}'; its URI is {}", uri.dir,
                                   pool.name(), uri.pool, right.to_string()));
}

bool stands_in(const OwnerRecord& owner, const std::string& container) {
    return !owner.mount_point.empty() && owner.container == container;
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

Task<Result<ThroughMount>> open_through_mount(const Call&, Environment environment, Uri uri,
                                              OwnerRecord owner, Report& report) {
    ROS2S_CO_TRY(check_mounted(owner.mount_point, describe_owner(uri.dir, owner), report));
    ThroughMount through;
    ROS2S_CO_TRY_ASSIGN(through.file_system,
                        co_await foreign::open_local_fs(owner.mount_point, environment.reactor,
                                                        environment.blocking, report));
    through.path = fmt::format("through the mount at {} (FUSE) of process {} ({})",
                               owner.mount_point, owner.pid, owner.program);
    co_return std::move(through);
}

}  // namespace ros2s::api

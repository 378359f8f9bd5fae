#include "ros2s/api/deployment.h"

#include <fmt/format.h>

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

Task<Result<ThroughMount>> open_through_mount(const Call&, Environment, Uri uri, OwnerRecord owner,
                                              Report& report) {
    co_return report.fail(Code::busy, describe_owner(uri.dir, owner));
}

}  // namespace ros2s::api

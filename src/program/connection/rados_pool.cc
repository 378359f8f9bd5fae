#include "rados_pool.h"

#include <utility>

#include "ros2s/client/counted_store.h"
#include "ros2s/rados/librados/cluster.h"
#include "ros2s/rados/rados_store.h"

namespace ros2s::connection {

Task<Result<std::unique_ptr<RadosPool>>> RadosPool::open(Environment environment,
                                                         RadosOptions options, Report& report) {
    std::unique_ptr<RadosPool> pool(new RadosPool);
    const auto begun = co_await pool->begin(std::move(environment), options, report);
    if (begun) co_return std::move(pool);
    co_await pool->close();
    co_return fail(begun.error());
}

Task<Result<>> RadosPool::begin(Environment environment, const RadosOptions& options,
                                Report& report) {
    const RadosAddress& address = options.address;
    ROS2S_CO_TRY_ASSIGN(
        auto* const cluster,
        stack_.push("Cluster",
                    co_await rados::Cluster::connect(
                        environment, {.conf = address.conf, .user = address.user}, report)));
    ROS2S_CO_TRY_ASSIGN(auto* const metadata,
                        stack_.push("Pool", co_await cluster->open_pool(address.metadata, report)));
    rados::Pool* data = metadata;
    if (address.data != address.metadata) {
        ROS2S_CO_TRY_ASSIGN(data,
                            stack_.push("Pool", co_await cluster->open_pool(address.data, report)));
    }
    ROS2S_CO_TRY_ASSIGN(rados_,
                        stack_.push("RadosStore", co_await rados::RadosStore::open(
                                                      {}, environment.reactor, *metadata, *data,
                                                      {.sweep_every = options.sweep_every,
                                                       .sweep_rate = options.sweep_rate,
                                                       .log = environment.log,
                                                       .keeps_replies = options.keeps_replies,
                                                       .formats = options.formats},
                                                      report)));
    client_ = stack_.push("CountedStore",
                          std::make_unique<client::CountedStore>(environment.reactor, *rados_));
    co_return Result<>{};
}

object::ObjectStore& RadosPool::store() { return *client_; }

std::string RadosPool::path() { return client_->path(); }

Task<Result<>> RadosPool::sweep(const Call& call, object::ContainerId container, Report& report) {
    return rados_->sweep(call, container, report);
}

}  // namespace ros2s::connection

#include "rados_pool.h"

#include <map>
#include <utility>

#include "ros2s/client/client_store.h"
#include "ros2s/rados/librados/cluster.h"
#include "ros2s/rados/rados_store.h"

namespace ros2s::connection {

RadosPool::RadosPool(Environment environment, RadosOptions options)
    : environment_(std::move(environment)),
      options_(std::move(options)),
      sweeping_(environment_.reactor, 1) {}

Task<Result<std::unique_ptr<RadosPool>>> RadosPool::open(Environment environment,
                                                         RadosOptions options, Report& report) {
    std::unique_ptr<RadosPool> pool(new RadosPool(std::move(environment), std::move(options)));
    const auto begun = co_await pool->begin(report);
    if (begun) co_return std::move(pool);
    co_await pool->close();
    co_return fail(begun.error());
}

Task<Result<>> RadosPool::begin(Report& report) {
    const RadosAddress& address = options_.address;
    ROS2S_CO_TRY_ASSIGN(
        auto* const cluster,
        stack_.push("Cluster",
                    co_await rados::Cluster::connect(
                        environment_, {.conf = address.conf, .user = address.user}, report)));
    ROS2S_CO_TRY_ASSIGN(auto* const metadata,
                        stack_.push("Pool", co_await cluster->open_pool(address.metadata, report)));
    rados::Pool* data = metadata;
    if (address.data != address.metadata) {
        ROS2S_CO_TRY_ASSIGN(data,
                            stack_.push("Pool", co_await cluster->open_pool(address.data, report)));
    }
    ROS2S_CO_TRY_ASSIGN(rados_,
                        stack_.push("RadosStore", co_await rados::RadosStore::open(
                                                      {}, environment_.reactor, *metadata, *data,
                                                      {.sweep_rate = options_.sweep_rate,
                                                       .keeps_replies = options_.keeps_replies,
                                                       .formats = options_.formats},
                                                      report)));
    client_ = stack_.push("ClientStore", std::make_unique<client::ClientStore>(
                                             environment_.reactor, *rados_, environment_.log,
                                             client::ClientStore::Store::in_this_process));
    if (options_.sweep_every > Duration()) {
        ROS2S_CHECK(sweeping_.try_spawn(keep_sweeping(*this)));
    }
    co_return Result<>{};
}

Task<Result<>> RadosPool::close() {
    stopping_.request_stop();
    co_await sweeping_.join();
    co_return co_await stack_.close();
}

object::ObjectStore& RadosPool::store() { return *client_; }

std::string RadosPool::path() { return client_->path(); }

Task<Result<>> RadosPool::sweep(const Call& call, object::ContainerId container, Report& report) {
    return rados_->sweep(call, container, report);
}

// ---- sweeping --------------------------------------------------------------------------------

namespace {

using SeenOrphans = std::map<object::ContainerId, rados::RadosStore::Orphans>;

Task<Result<>> sweep_all(const Call& call, rados::RadosStore& store, SeenOrphans& seen,
                         Report& report) {
    const auto containers = co_await store.list_containers(call);
    if (!containers) co_return report.fail(containers.error(), describe(containers.error()));
    Result<> all;
    auto before = std::exchange(seen, {});  // those of containers that are gone are forgotten
    for (const object::ContainerRecord& container : *containers) {
        auto& orphans = seen[container.id] = std::move(before[container.id]);
        Report of_this;
        const auto swept = co_await store.sweep(call, container.id, of_this, &orphans);
        // It was destroyed meanwhile.
        if (!swept && swept.error().code == Code::not_found) continue;
        if (!swept && all) all = report.fail(swept.error(), of_this.text());
    }
    co_return all;
}

}  // namespace

// The first one is at a random time, so that clients that start together do not sweep together.
Task<> RadosPool::keep_sweeping(RadosPool& self) {
    Reactor& reactor = self.environment_.reactor;
    Call call;
    call.stop = self.stopping_.token();
    const auto every = static_cast<uint64_t>(self.options_.sweep_every.count());
    Duration pause{reactor.random().below(every) + 1};
    SeenOrphans seen;
    while (co_await sleep_for(reactor, pause, call.stop)) {
        Report report;
        const auto swept = co_await sweep_all(call, *self.rados_, seen, report);
        pause = self.options_.sweep_every;
        self.sweeps_.add();
        if (swept || call.stop.stop_requested()) continue;
        self.failed_sweeps_.add();
        self.environment_.log.warning(
            "cannot remove the remains of crashed clients in {} ({}): the next attempt is in {} s",
            self.path(), report.text(),
            std::chrono::duration_cast<std::chrono::seconds>(pause).count());
    }
}

void RadosPool::visit_metrics(const MetricVisitor& visit) const {
    visit("ros2store_rados_sweeps_total", "Sweeps for remains of crashed clients in the cluster",
          sweeps_.value());
    visit("ros2store_rados_failed_sweeps_total", "Sweeps that failed", failed_sweeps_.value());
    stack_.visit_metrics(visit);
}

}  // namespace ros2s::connection

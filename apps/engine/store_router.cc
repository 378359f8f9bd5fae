#include "store_router.h"

#include <fmt/format.h>

#include "ros2s/base/check.h"

namespace ros2s::engined {

StoreRouter::StoreRouter(Reactor& reactor, session::SessionTable& sessions,
                         control::PoolCatalog& pools)
    : reactor_(reactor), sessions_(sessions) {
    for (const std::string& name : pools.names()) {
        servers_.emplace(name, std::make_unique<remote::StoreServer>(*pools.find(name), this));
    }
    sessions_.watch(*this);
}
StoreRouter::~StoreRouter() { sessions_.unwatch(*this); }

// Its connections have ended, because the gate watches sessions, too, and was registered before.
Task<> StoreRouter::session_ending(session::Session& session) {
    const auto server = servers_.find(session.request.pool);
    if (server != servers_.end()) server->second->session_ended(session.id.value);
    co_return;
}

Task<> StoreRouter::serve(rpc::Request& request) {
    const auto session = sessions_.use({request.guest().session});
    if (!session) co_return co_await request.fail(session.error(), "the session has ended");
    const auto server = servers_.find((*session)->request.pool);
    if (server == servers_.end()) {
        co_return co_await request.fail({.code = Code::not_found},
                                        "the session's pool is not served here");
    }
    const Time begun = reactor_.now();
    co_await server->second->serve(request);
    times_.add(request.method(), reactor_.now() - begun);
}

// The request's session exists until it is answered.
void StoreRouter::audit(const rpc::Request& request, std::string_view what) {
    const session::Session* const session = sessions_.look({request.guest().session});
    ROS2S_CHECK(session != nullptr);
    const session::SessionRequest& who = session->request;
    sessions_.audit().done(who.subject,
                           fmt::format("{} ({}) {} in the pool '{}', on the data plane",
                                       who.subject, who.from, what, who.pool),
                           session::fields_of(*session));
}

void StoreRouter::made(const rpc::Request& request, const object::ContainerRecord& container) {
    audit(request, fmt::format("created the container '{}' ({})", container.properties.label,
                               container.id.uuid.to_string()));
}

void StoreRouter::destroyed(const rpc::Request& request, object::ContainerId container) {
    audit(request, fmt::format("destroyed the container {}", container.uuid.to_string()));
}

void StoreRouter::add_metrics(std::vector<exporter::Source>& sources) const {
    for (const auto& [name, server] : servers_) {
        sources.push_back(
            {.labels = {{"pool", name}}, .list = [&server = *server](const MetricVisitor& visit) {
                 server.metrics().visit(visit);
             }});
    }
}

}  // namespace ros2s::engined

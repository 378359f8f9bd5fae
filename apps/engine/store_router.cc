#include "store_router.h"

namespace ros2s::engined {

StoreRouter::StoreRouter(Reactor& reactor, session::SessionTable& sessions,
                         control::PoolCatalog& pools)
    : reactor_(reactor), sessions_(sessions) {
    for (const std::string& name : pools.names()) {
        servers_.emplace(name, std::make_unique<remote::StoreServer>(*pools.find(name)));
    }
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

void StoreRouter::add_metrics(std::vector<exporter::Source>& sources) const {
    for (const auto& [name, server] : servers_) {
        sources.push_back(
            {.labels = {{"pool", name}}, .list = [&server = *server](const MetricVisitor& visit) {
                 server.metrics().visit(visit);
             }});
    }
}

}  // namespace ros2s::engined

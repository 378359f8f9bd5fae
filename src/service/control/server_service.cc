#include "server_service.h"

namespace ros2s::control {

Task<Result<>> ServerService::query(Served& served, const v1::QueryServerRequest&,
                                    v1::QueryServerReply& reply) {
    reply.set_program(state_.options.program);
    reply.set_serving(!state_.draining);
    reply.set_sessions(state_.parts.sessions.metrics().live.value());
    for (const DataAddress& each : state_.options.data) {
        v1::DataAddress& into = *reply.add_data();
        into.set_provider(each.provider);
        into.set_address(each.address);
    }
    for (const AbsentPool& each : state_.parts.pools.absent()) {
        const auto seen = state_.decide(served, {.pool = each.name}, rights::Wanted::see_pool);
        if (seen.is_none()) continue;
        v1::AbsentPool& into = *reply.add_absent();
        into.set_pool(each.name);
        into.set_since_ns(each.since.time_since_epoch().count());
    }
    co_return Result<>{};
}

}  // namespace ros2s::control
